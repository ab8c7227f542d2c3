//! A tuplestore keeps rows in their order, for later or repeated reading.
//! The first rows stay in memory. Rows without room in memory go to a temporary file.

use std::sync::Arc;

use niwaki_env::memory;
use niwaki_parse::error::Result;
use niwaki_table::{KeyedRows, Run, RunReader, RunWriter, TempSpace};
use niwaki_types::{Datum, read_tagged_into, write_tagged_row};

use super::{checked, grown, row_bytes};
use crate::context::{ExecContext, RowSink};

/// A collector of rows, all of one width.
pub struct TuplestoreWriter {
    temp: Option<TempSpace>,
    chunk_bytes: usize,
    /// The most bytes of memory that the rows may take.
    budget: usize,
    held: usize,
    rows: Memory,
    file: Option<RunWriter<KeyedRows>>,
    bytes: Vec<u8>,
}

/// Rows in memory, one after the other.
#[derive(Default)]
pub struct Memory {
    values: Vec<Datum>,
    width: usize,
    count: usize,
}

impl Memory {
    /// Decides whether there is memory for one more row of this width.
    pub fn has_room(&self, width: usize) -> bool {
        let (now, then) = (grown(&self.values, 0), grown(&self.values, width));
        then <= now || memory::has_room(then)
    }

    /// Adds a row behind the others.
    pub fn push(&mut self, row: &[Datum]) {
        self.width = row.len();
        self.values.extend_from_slice(row);
        self.count += 1;
    }

    /// Returns a row by its number.
    pub fn row(&self, number: usize) -> Option<&[Datum]> {
        if number >= self.count {
            return None;
        }
        self.values.get(number * self.width..(number + 1) * self.width)
    }
}

/// Rows that a [`TuplestoreWriter`] kept.
#[derive(Clone)]
pub struct Tuplestore(Arc<Contents>);

struct Contents {
    rows: Memory,
    /// The rows behind `rows`.
    file: Option<Run<KeyedRows>>,
    chunk_bytes: usize,
}

impl TuplestoreWriter {
    /// Makes a writer without rows, within `work_mem` of memory.
    pub fn new(exec: &ExecContext<'_>) -> Self {
        Self::within(exec.temp.cloned(), exec.temp_chunk, exec.work_mem)
    }

    /// Makes a writer without rows, with about `budget` bytes of memory. Without a temporary space
    /// all rows stay in memory.
    pub fn within(temp: Option<TempSpace>, chunk_bytes: usize, budget: usize) -> Self {
        Self {
            temp,
            chunk_bytes,
            budget,
            held: 0,
            rows: Memory::default(),
            file: None,
            bytes: Vec::new(),
        }
    }

    /// Keeps a row.
    ///
    /// # Errors
    /// The errors of writing to a temporary file.
    pub fn push(&mut self, row: &[Datum]) -> Result<()> {
        self.rows.width = row.len();
        if self.file.is_none() {
            // A vector may have twice the capacity that its rows need.
            self.held += row_bytes(row) + size_of_val(row);
            let fits = self.held <= self.budget && self.rows.has_room(row.len());
            if fits || self.temp.is_none() {
                self.rows.push(row);
                return Ok(());
            }
            let temp = self.temp.clone();
            self.file = temp.map(|temp| RunWriter::new(temp, self.chunk_bytes));
        }
        self.write(row)
    }

    fn write(&mut self, row: &[Datum]) -> Result<()> {
        self.bytes.clear();
        write_tagged_row(row, &mut self.bytes);
        if let Some(file) = &mut self.file {
            file.push(&checked(&[], 0, &self.bytes)?)?;
        }
        Ok(())
    }

    /// Ends the taking of rows.
    ///
    /// # Errors
    /// The errors of writing to a temporary file.
    pub fn finish(self) -> Result<Tuplestore> {
        let file = self.file.map(RunWriter::finish).transpose()?;
        let (rows, chunk_bytes) = (self.rows, self.chunk_bytes);
        Ok(Tuplestore(Arc::new(Contents { rows, file, chunk_bytes })))
    }
}

impl RowSink for TuplestoreWriter {
    fn row(&mut self, row: &[Datum]) -> Result<()> {
        self.push(row)
    }
}

impl Tuplestore {
    /// Returns a reader that begins at the first row.
    pub fn read(&self) -> TuplestoreReader {
        let run = self.0.file.as_ref().map(|rows| rows.read(self.0.chunk_bytes));
        TuplestoreReader { rows: self.clone(), next: 0, run }
    }
}

/// A reading position in kept rows.
pub struct TuplestoreReader {
    rows: Tuplestore,
    next: usize,
    run: Option<RunReader<KeyedRows>>,
}

impl TuplestoreReader {
    /// Returns the number of values of each row; 0 if there is no row.
    pub fn width(&self) -> usize {
        self.rows.0.rows.width
    }

    /// Puts the next row into `row`, which has [`width`](Self::width) slots. Returns false at the
    /// end.
    ///
    /// # Errors
    /// The errors of reading a temporary file.
    pub fn next(&mut self, row: &mut [Datum]) -> Result<bool> {
        let held = &self.rows.0.rows;
        if let Some(kept) = held.row(self.next) {
            self.next += 1;
            row.iter_mut().zip(kept).for_each(|(place, value)| place.clone_from(value));
            return Ok(true);
        }
        let Some(run) = &mut self.run else { return Ok(false) };
        if self.next == held.count {
            run.fill()?;
        }
        let Some(record) = run.record() else { return Ok(false) };
        read_tagged_into(record.row, row)?;
        self.next += 1;
        run.advance()?;
        Ok(true)
    }

    /// Returns the number of rows read since the first.
    pub fn given(&self) -> usize {
        self.next
    }

    /// Goes back to the first row.
    pub fn rewind(&mut self) {
        self.next = 0;
        if let Some(run) = &mut self.run {
            run.rewind();
        }
    }
}
