//! Rows that are kept in their order, to be read later or more than once: the first in memory, and in a temporary file those
//! that there is no room for.

use std::sync::Arc;

use niwaki_env::memory;
use niwaki_table::{KeyedRows, Run, RunReader, RunWriter, TempSpace};
use niwaki_types::{Datum, read_tagged_into, write_tagged_row};

use super::key_chains::grown;
use super::row_bytes;
use super::spill::checked;
use crate::context::{ExecContext, RowSink};
use crate::error::Result;

/// Takes rows, all of one width.
pub struct RowKeeper {
    temp: Option<TempSpace>,
    chunk_bytes: usize,
    /// Bytes of memory that may be held.
    budget: usize,
    held: usize,
    rows: Memory,
    file: Option<RunWriter<KeyedRows>>,
    bytes: Vec<u8>,
}

/// Rows in memory, one after the other.
#[derive(Default)]
pub(super) struct Memory {
    values: Vec<Datum>,
    width: usize,
    count: usize,
}

impl Memory {
    /// Whether there is memory for one more row of this width.
    pub(super) fn has_room(&self, width: usize) -> bool {
        let (now, then) = (grown(&self.values, 0), grown(&self.values, width));
        then <= now || memory::has_room(then)
    }

    /// Adds a row behind the others.
    pub(super) fn push(&mut self, row: &[Datum]) {
        self.width = row.len();
        self.values.extend_from_slice(row);
        self.count += 1;
    }

    pub(super) fn row(&self, number: usize) -> Option<&[Datum]> {
        if number >= self.count {
            return None;
        }
        self.values.get(number * self.width..(number + 1) * self.width)
    }
}

/// Rows that were kept.
#[derive(Clone)]
pub struct KeptRows(Arc<Kept>);

struct Kept {
    rows: Memory,
    /// What comes behind those.
    file: Option<Run<KeyedRows>>,
    chunk_bytes: usize,
}

impl RowKeeper {
    /// No rows yet; `work_mem` of memory.
    pub(crate) fn new(exec: &ExecContext<'_>) -> Self {
        Self::within(exec.temp.cloned(), exec.temp_chunk, exec.work_mem)
    }

    /// No rows yet; at most about `budget` bytes in memory, if there is a place for the others.
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
    /// Those of writing to a temporary file.
    pub fn push(&mut self, row: &[Datum]) -> Result<()> {
        self.rows.width = row.len();
        if self.file.is_none() {
            // The vector may be as large again as what is in it.
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

    /// Ends the taking.
    ///
    /// # Errors
    /// Those of writing to a temporary file.
    pub fn finish(self) -> Result<KeptRows> {
        let file = self.file.map(RunWriter::finish).transpose()?;
        let (rows, chunk_bytes) = (self.rows, self.chunk_bytes);
        Ok(KeptRows(Arc::new(Kept { rows, file, chunk_bytes })))
    }
}

impl RowSink for RowKeeper {
    fn row(&mut self, row: &[Datum]) -> Result<()> {
        self.push(row)
    }
}

impl KeptRows {
    /// Reads them from the first on.
    pub fn read(&self) -> KeptReader {
        let run = self.0.file.as_ref().map(|rows| rows.read(self.0.chunk_bytes));
        KeptReader { rows: self.clone(), next: 0, run }
    }
}

/// A place in kept rows.
pub struct KeptReader {
    rows: KeptRows,
    next: usize,
    run: Option<RunReader<KeyedRows>>,
}

impl KeptReader {
    /// Values of each row; 0 if there is none.
    pub fn width(&self) -> usize {
        self.rows.0.rows.width
    }

    /// Puts the next row into the first places of `row`, which has as many as it is wide; false at the end.
    ///
    /// # Errors
    /// Those of reading a temporary file.
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

    /// How many rows were given since the first.
    pub(crate) fn given(&self) -> usize {
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
