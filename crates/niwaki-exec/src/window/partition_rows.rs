//! The rows of a partition, for reading at several positions at once.
//!
//! ```text
//!   forgotten | blocks in memory | blocks in a file              | the open block
//!             ^ first            ^ where memory was used up      ^ filled now
//! ```
//!
//! Rows are kept in blocks of a few dozen rows. Rows that no call needs are forgotten from the
//! front, so that moving frames hold few rows. Once the budget is used up, whole blocks go to a
//! temporary file. A cursor holds one of the file's blocks in memory. The structure remembers the
//! file offsets of some blocks only, and finds the other blocks from there by their lengths.

use std::collections::VecDeque;

use niwaki_expr::context::ExecContext;
use niwaki_expr::spool::row_bytes;
use niwaki_parse::error::{Result, SqlError};
use niwaki_table::{TempFile, TempSpace};
use niwaki_types::{Datum, read_tagged_row, write_tagged_row};

/// The most rows of a block.
const BLOCK_ROWS_MAX: usize = 64;
/// The limits for the bytes at which a block is closed. Within these limits the value is a part of
/// the budget.
const BLOCK_BYTES: std::ops::RangeInclusive<usize> = 512..=64 * 1024;
/// The most blocks of the file whose offsets are remembered.
const MARKS_MAX: usize = 256;
/// The size in bytes of the header before each block of the file: the number of rows, and the
/// number of bytes.
const HEADER_BYTES: usize = 8;

/// Adjacent rows, with the first row's number in the partition.
#[derive(Debug, Default)]
struct Block {
    first: u64,
    rows: usize,
    values: Vec<Datum>,
    bytes: usize,
}

impl Block {
    fn end(&self) -> u64 {
        self.first + self.rows as u64
    }

    /// Returns the values of a row and of the rows behind it.
    fn from(&self, number: u64, width: usize) -> Option<&[Datum]> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        if at >= self.rows { None } else { self.values.get(at * width..) }
    }
}

/// The blocks behind those in memory.
struct Spilled {
    file: TempFile,
    /// The number of the first row, and the number behind the last row.
    first: u64,
    end: u64,
    /// First row and file offset of every `stride`-th block.
    marks: Vec<(u64, u64)>,
    stride: usize,
    blocks: usize,
}

/// The rows of one partition.
pub(super) struct Rows {
    width: usize,
    temp: Option<TempSpace>,
    budget: usize,
    block_bytes: usize,
    /// Bytes in memory, including the open block.
    held: usize,
    memory: VecDeque<Block>,
    spilled: Option<Spilled>,
    open: Block,
    bytes: Vec<u8>,
}

/// A reading position, with the file's block that contains the position.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    block: Block,
    /// The file offset of the block behind `block`.
    next: Option<u64>,
}

impl Cursor {
    /// Forgets the held block, which belongs to another partition.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }
}

impl Rows {
    /// Makes an empty structure for rows of `width` values, with `work_mem` of memory.
    pub(super) fn new(width: usize, exec: &ExecContext<'_>) -> Self {
        let budget = exec.work_mem;
        Self {
            width,
            temp: exec.temp.cloned(),
            budget,
            block_bytes: (budget / 32).clamp(*BLOCK_BYTES.start(), *BLOCK_BYTES.end()),
            held: 0,
            memory: VecDeque::new(),
            spilled: None,
            open: Block::default(),
            bytes: Vec::new(),
        }
    }

    /// Forgets all rows, because another partition begins.
    pub(super) fn clear(&mut self) {
        self.held = 0;
        self.memory.clear();
        self.spilled = None;
        self.open = Block::default();
    }

    /// Returns the number of rows taken, including forgotten rows.
    pub(super) fn count(&self) -> u64 {
        self.open.end()
    }

    /// Takes a row of [`Rows::new`]'s width.
    pub(super) fn push(&mut self, row: &[Datum]) -> Result<()> {
        if self.open.rows >= BLOCK_ROWS_MAX || self.open.bytes >= self.block_bytes {
            self.close()?;
        }
        // A vector may have twice the capacity that its rows need.
        let bytes = row_bytes(row) + size_of_val(row);
        self.open.values.extend_from_slice(row);
        self.open.rows += 1;
        self.open.bytes += bytes;
        self.held += bytes;
        Ok(())
    }

    /// Puts the open block behind the others.
    fn close(&mut self) -> Result<()> {
        let next = Block { first: self.open.end(), ..Block::default() };
        let block = std::mem::replace(&mut self.open, next);
        if self.spilled.is_none() {
            match &self.temp {
                Some(temp) if self.held > self.budget => {
                    self.spilled = Some(Spilled {
                        file: temp.create()?,
                        first: block.first,
                        end: block.first,
                        marks: Vec::new(),
                        stride: 1,
                        blocks: 0,
                    });
                }
                _ => {
                    self.memory.push_back(block);
                    return Ok(());
                }
            }
        }
        self.bytes.clear();
        self.bytes.resize(HEADER_BYTES, 0);
        write_tagged_row(&block.values, &mut self.bytes);
        let length = u32::try_from(self.bytes.len() - HEADER_BYTES)
            .map_err(|_| SqlError::new("54000", "a row is too large for a window"))?;
        self.bytes[..4].copy_from_slice(&(block.rows as u32).to_le_bytes());
        self.bytes[4..HEADER_BYTES].copy_from_slice(&length.to_le_bytes());
        if let Some(spilled) = &mut self.spilled {
            spilled.push(&block, &self.bytes)?;
        }
        self.held = self.held.saturating_sub(block.bytes);
        Ok(())
    }

    /// Forgets the rows before a row. Rows in the file stay there until the partition ends.
    pub(super) fn forget_before(&mut self, number: u64) {
        while self.memory.front().is_some_and(|block| block.end() <= number) {
            if let Some(block) = self.memory.pop_front() {
                self.held = self.held.saturating_sub(block.bytes);
            }
        }
    }

    /// Returns a kept row by its number.
    pub(super) fn row<'r>(&'r self, cursor: &'r mut Cursor, number: u64) -> Result<&'r [Datum]> {
        self.rows_from(cursor, number).map(|values| &values[..self.width])
    }

    /// Returns the values of a kept row, and of the rows behind it in the same block.
    pub(super) fn rows_from<'r>(
        &'r self,
        cursor: &'r mut Cursor,
        number: u64,
    ) -> Result<&'r [Datum]> {
        let gone = || SqlError::internal("a row of a window that is not there");
        if number >= self.open.first {
            return self.open.from(number, self.width).ok_or_else(gone);
        }
        if let Some(spilled) = self.spilled.as_ref().filter(|spilled| number >= spilled.first) {
            if cursor.block.from(number, self.width).is_none() {
                spilled.load(cursor, number)?;
            }
            return cursor.block.from(number, self.width).ok_or_else(gone);
        }
        let place = self.memory.partition_point(|block| block.end() <= number);
        self.memory.get(place).and_then(|block| block.from(number, self.width)).ok_or_else(gone)
    }
}

impl Spilled {
    fn push(&mut self, block: &Block, bytes: &[u8]) -> Result<()> {
        if self.blocks.is_multiple_of(self.stride) {
            if self.marks.len() >= MARKS_MAX {
                // Every second mark goes, and later marks are twice as far apart.
                let mut keep = false;
                self.marks.retain(|_| {
                    keep = !keep;
                    keep
                });
                self.stride *= 2;
            }
            if self.blocks.is_multiple_of(self.stride) {
                self.marks.push((block.first, self.file.len()));
            }
        }
        self.blocks += 1;
        self.end = block.end();
        Ok(self.file.append(bytes)?)
    }

    /// Loads the block of a row into a cursor.
    fn load(&self, cursor: &mut Cursor, number: u64) -> Result<()> {
        let mark = self.marks.partition_point(|(first, _)| *first <= number);
        let (mut first, mut offset) = match mark.checked_sub(1).and_then(|at| self.marks.get(at)) {
            Some(mark) if number < self.end => *mark,
            _ => return Err(SqlError::internal("a row of a window that is in no file")),
        };
        // The search starts behind the cursor's block, if that is nearer.
        if let Some(next) = cursor.next
            && (first..=number).contains(&cursor.block.end())
        {
            (first, offset) = (cursor.block.end(), next);
        }
        let mut header = [0u8; HEADER_BYTES];
        // Ends: each turn goes on by a block, and one of the blocks has the row.
        loop {
            self.file.read_exact_at(&mut header, offset)?;
            let [a, b, c, d, e, f, g, h] = header;
            let (rows, length) =
                (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
            let begin = offset + HEADER_BYTES as u64;
            offset = begin + u64::from(length);
            if number >= first + u64::from(rows) {
                first += u64::from(rows);
                continue;
            }
            let mut bytes = vec![0; length as usize];
            self.file.read_exact_at(&mut bytes, begin)?;
            cursor.block.values.clear();
            read_tagged_row(&bytes, &mut cursor.block.values)?;
            (cursor.block.first, cursor.block.rows) = (first, rows as usize);
            cursor.next = Some(offset);
            return Ok(());
        }
    }
}
