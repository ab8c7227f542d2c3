//! A random-access tuplestore keeps rows in the order of their arrival, for reading by number. The
//! first rows stay in memory. Rows without room in memory go to a temporary file.
//!
//! ```text
//!   memory      rows 0 … m - 1
//!   file        block: rows m … n - 1 | block: rows n … | …     each row: length, values
//!   being made  the last block, in memory until it is full
//! ```
//!
//! The structure knows the first row of each block. One block at a time is in memory for reading.
//! So a reader that goes through the rows, forward or backward, reads each block once.

use niwaki_expr::spool::{Memory, row_bytes};
use niwaki_parse::error::{Result, SqlError};
use niwaki_table::{TempFile, TempSpace};
use niwaki_types::{Datum, read_tagged_into, write_tagged_row};

/// Rows that are read by their numbers, all of one width. More rows may be added at any time.
pub struct RandomAccessTuplestore {
    temp: TempSpace,
    block_bytes: usize,
    /// The most bytes of memory that the rows may take, and the bytes that they take.
    budget: usize,
    held: usize,
    width: usize,
    rows: Memory,
    count: u64,
    file: Option<TempFile>,
    /// Blocks of the file, in the file's order.
    blocks: Vec<Block>,
    /// The block that is being made.
    last: Bytes,
    /// The block that was read last, with its position among the blocks.
    loaded: Option<(usize, Bytes)>,
}

/// The place of a block in the file.
#[derive(Clone, Copy)]
struct Block {
    first: u64,
    offset: u64,
    bytes: usize,
}

/// Rows in their file format, and the offset at which each row begins.
#[derive(Default)]
struct Bytes {
    first: u64,
    bytes: Vec<u8>,
    starts: Vec<usize>,
}

impl Bytes {
    const LENGTH_BYTES: usize = 4;

    fn push(&mut self, row: &[Datum]) -> Result<()> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; Self::LENGTH_BYTES]);
        write_tagged_row(row, &mut self.bytes);
        let length = self.bytes.len() - start - Self::LENGTH_BYTES;
        let Ok(length) = u32::try_from(length) else {
            self.bytes.truncate(start);
            return Err(SqlError::new("54000", "a row is too large to be kept"));
        };
        self.bytes[start..start + Self::LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
        self.starts.push(start);
        Ok(())
    }

    /// Finds the rows in the bytes of a block.
    fn of_block(first: u64, bytes: Vec<u8>) -> Self {
        let mut starts = Vec::new();
        let mut at = 0;
        while let Some(length) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
            starts.push(at);
            at += Self::LENGTH_BYTES + u32::from_le_bytes(*length) as usize;
        }
        Self { first, bytes, starts }
    }

    /// Puts the row with this number into `row`. Returns false if the row is not in these bytes.
    fn read(&self, number: u64, row: &mut [Datum]) -> Result<bool> {
        let Some(place) = number.checked_sub(self.first).and_then(|n| usize::try_from(n).ok())
        else {
            return Ok(false);
        };
        let Some(start) = self.starts.get(place) else { return Ok(false) };
        let end = self.starts.get(place + 1).copied().unwrap_or(self.bytes.len());
        let values = self.bytes.get(start + Self::LENGTH_BYTES..end);
        let values = values.ok_or_else(|| SqlError::internal("a block of rows that ends early"))?;
        read_tagged_into(values, row)?;
        Ok(true)
    }
}

impl RandomAccessTuplestore {
    /// Makes an empty structure. About `budget` bytes of rows stay in memory, and the other rows go
    /// to a file of `temp`.
    pub fn new(temp: TempSpace, block_bytes: usize, budget: usize) -> Self {
        Self {
            temp,
            block_bytes,
            budget,
            held: 0,
            width: 0,
            rows: Memory::default(),
            count: 0,
            file: None,
            blocks: Vec::new(),
            last: Bytes::default(),
            loaded: None,
        }
    }

    /// Returns the number of rows.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Keeps one more row, behind the others.
    ///
    /// # Errors
    /// The errors of writing to a temporary file.
    pub fn push(&mut self, row: &[Datum]) -> Result<()> {
        self.width = row.len();
        let in_memory = self.blocks.is_empty() && self.last.starts.is_empty();
        // A vector may have twice the capacity that its rows need.
        let bytes = row_bytes(row) + size_of_val(row);
        if in_memory && self.held + bytes <= self.budget && self.rows.has_room(row.len()) {
            self.held += bytes;
            self.rows.push(row);
        } else {
            if self.last.bytes.len() >= self.block_bytes {
                self.write_block()?;
            }
            if self.last.starts.is_empty() {
                self.last.first = self.count;
            }
            self.last.push(row)?;
        }
        self.count += 1;
        Ok(())
    }

    fn write_block(&mut self) -> Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(self.temp.create()?),
        };
        let (offset, bytes) = (file.len(), self.last.bytes.len());
        file.append(&self.last.bytes)?;
        self.blocks.push(Block { first: self.last.first, offset, bytes });
        self.last.bytes.clear();
        self.last.starts.clear();
        Ok(())
    }

    /// Puts the row with this number, counted from 0, into `row`. Returns false if there is no such
    /// row.
    ///
    /// # Errors
    /// The errors of reading a temporary file.
    pub fn read(&mut self, number: u64, row: &mut Vec<Datum>) -> Result<bool> {
        if number >= self.count {
            return Ok(false);
        }
        row.resize(self.width, Datum::Null);
        let in_memory = usize::try_from(number).ok().and_then(|number| self.rows.row(number));
        if let Some(kept) = in_memory {
            row.iter_mut().zip(kept).for_each(|(place, value)| place.clone_from(value));
            return Ok(true);
        }
        if self.last.read(number, row)? {
            return Ok(true);
        }
        let behind = self.blocks.partition_point(|block| block.first <= number);
        let place =
            behind.checked_sub(1).ok_or_else(|| SqlError::internal("rows without a block"))?;
        match &self.loaded {
            Some((loaded, block)) if *loaded == place => block.read(number, row),
            _ => {
                let block = self.load(place)?;
                let found = block.read(number, row);
                self.loaded = Some((place, block));
                found
            }
        }
    }

    fn load(&self, place: usize) -> Result<Bytes> {
        let (Some(block), Some(file)) = (self.blocks.get(place), &self.file) else {
            return Err(SqlError::internal("a block of rows that is not there"));
        };
        let mut bytes = vec![0; block.bytes];
        file.read_exact_at(&mut bytes, block.offset)?;
        Ok(Bytes::of_block(block.first, bytes))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use niwaki_env::Env;
    use niwaki_table::{TempFiles, TempSpace};
    use niwaki_types::Datum;

    use super::RandomAccessTuplestore;

    fn row(number: i64) -> Vec<Datum> {
        // Rows of many lengths, some longer than a block.
        let text = "x".repeat(usize::try_from(number * number % 700).unwrap());
        vec![Datum::Int8(number), Datum::text(&text)]
    }

    #[test]
    fn every_row_is_found_whatever_the_order() {
        for budget in [0, 2_000, 1 << 20] {
            let files = Arc::new(TempFiles::default());
            let temp = TempSpace::new(Env::memory(), files, Arc::default(), "rows");
            let mut rows = RandomAccessTuplestore::new(temp.clone(), 256, budget);
            let mut found = Vec::new();
            let mut check = |rows: &mut RandomAccessTuplestore, number: u64| {
                assert!(rows.read(number, &mut found).unwrap());
                let expected = row(i64::try_from(number).unwrap());
                assert_eq!(format!("{found:?}"), format!("{expected:?}"), "within {budget}");
            };
            for number in 0..500u64 {
                rows.push(&row(i64::try_from(number).unwrap())).unwrap();
                check(&mut rows, number);
                check(&mut rows, number / 2);
            }
            (0..500).rev().for_each(|number| check(&mut rows, number));
            (0..500).for_each(|number| check(&mut rows, number * 313 % 500));
            assert_eq!(rows.count(), 500);
            assert!(!rows.read(500, &mut Vec::new()).unwrap());
            assert_eq!(temp.quota().used() > 0, budget < 1 << 20);
            drop(rows);
            assert_eq!(temp.quota().used(), 0);
        }
    }

    #[test]
    fn rows_without_columns_are_counted() {
        let files = Arc::new(TempFiles::default());
        let temp = TempSpace::new(Env::memory(), files, Arc::default(), "rows");
        let mut rows = RandomAccessTuplestore::new(temp, 8, 100);
        let mut found = vec![Datum::Null];
        (0..50).for_each(|_| rows.push(&[]).unwrap());
        assert!((0..50).all(|number| rows.read(number, &mut found).unwrap() && found.is_empty()));
        assert!(!rows.read(50, &mut found).unwrap());
    }
}
