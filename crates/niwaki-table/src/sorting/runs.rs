//! Files of records: written one after the other, and read in the same order.

use std::cmp::Ordering;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use niwaki_storage::{BlockNumber, OffsetNumber, Tid};
use niwaki_types::{growing, work};

use crate::error::Result;
use crate::sorting::temp_files::{TempFile, TempSpace};

/// The byte format of one kind of record, and their order in a sort.
pub trait RecordFormat: fmt::Debug + Send + 'static {
    /// A record, borrowed from its bytes.
    type Record<'a>: Copy;
    /// Returns the record at the front of `bytes`, if all of its bytes are present.
    fn read(bytes: &[u8]) -> Option<Self::Record<'_>>;
    /// Compares two records for a sort.
    fn order(a: &Self::Record<'_>, b: &Self::Record<'_>) -> Ordering;
    /// Returns the number of bytes that [`RecordFormat::write`] appends.
    fn stored_bytes(record: &Self::Record<'_>) -> usize;
    /// Appends a record.
    fn write(record: &Self::Record<'_>, out: &mut Vec<u8>);
}

/// The format of future index entries, ordered by key and TID.
#[derive(Debug)]
pub(crate) struct IndexEntries;

/// A future entry of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SortEntry<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) payload: &'a [u8],
    pub(crate) tid: Tid,
    /// True when the index is unique and some version with this key is live. Two such entries of
    /// one key violate the index.
    pub(crate) live: bool,
}

impl IndexEntries {
    /// Bytes of the header: key length, payload length, block, offset, flags.
    const HEADER_BYTES: usize = 2 + 2 + 4 + 2 + 1;
}

// The flags are the last byte of the header.
const _: () = assert!(IndexEntries::HEADER_BYTES == 10 + 1);

impl RecordFormat for IndexEntries {
    type Record<'a> = SortEntry<'a>;

    #[inline]
    fn read(bytes: &[u8]) -> Option<SortEntry<'_>> {
        let header = bytes.get(..Self::HEADER_BYTES)?;
        let u16_at = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        let key_end = Self::HEADER_BYTES + usize::from(u16_at(0));
        let end = key_end + usize::from(u16_at(2));
        Some(SortEntry {
            key: bytes.get(Self::HEADER_BYTES..key_end)?,
            payload: bytes.get(key_end..end)?,
            tid: Tid {
                block: BlockNumber(u32::from_le_bytes([
                    header[4], header[5], header[6], header[7],
                ])),
                offset: OffsetNumber(u16_at(8)),
            },
            live: header[10] != 0,
        })
    }

    #[inline]
    fn order(a: &SortEntry<'_>, b: &SortEntry<'_>) -> Ordering {
        a.key.cmp(b.key).then_with(|| a.tid.cmp(&b.tid))
    }

    fn stored_bytes(entry: &SortEntry<'_>) -> usize {
        Self::HEADER_BYTES + entry.key.len() + entry.payload.len()
    }

    /// Appends an entry. Its lengths fit: callers check them against the index's limits.
    fn write(entry: &SortEntry<'_>, out: &mut Vec<u8>) {
        debug_assert!(u16::try_from(entry.key.len()).is_ok(), "a key is too long for its header");
        debug_assert!(u16::try_from(entry.payload.len()).is_ok(), "a payload is too long");
        let start = out.len();
        out.extend_from_slice(&(entry.key.len() as u16).to_le_bytes());
        out.extend_from_slice(&(entry.payload.len() as u16).to_le_bytes());
        out.extend_from_slice(&entry.tid.block.0.to_le_bytes());
        out.extend_from_slice(&entry.tid.offset.0.to_le_bytes());
        out.push(entry.live.into());
        out.extend_from_slice(entry.key);
        out.extend_from_slice(entry.payload);
        debug_assert_eq!(out.len() - start, Self::stored_bytes(entry), "bytes of an entry");
    }
}

/// The format of query rows, ordered by key and number.
#[derive(Debug)]
pub struct KeyedRows;

/// A row of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyedRow<'a> {
    /// The sort key.
    pub key: &'a [u8],
    /// The row's number: rows of one key stay in the order of their numbers.
    pub number: u64,
    /// The row's values, in a form that the caller knows.
    pub row: &'a [u8],
}

impl KeyedRows {
    /// Bytes of the header: key length, row length, number.
    const HEADER_BYTES: usize = 4 + 4 + 8;
}

const _: () = assert!(KeyedRows::HEADER_BYTES == 2 * size_of::<u32>() + size_of::<u64>());

impl RecordFormat for KeyedRows {
    type Record<'a> = KeyedRow<'a>;

    #[inline]
    fn read(bytes: &[u8]) -> Option<KeyedRow<'_>> {
        let (key_length, rest) = bytes.split_first_chunk::<4>()?;
        let (row_length, rest) = rest.split_first_chunk::<4>()?;
        let (number, rest) = rest.split_first_chunk::<8>()?;
        let (key, rest) = rest.split_at_checked(u32::from_le_bytes(*key_length) as usize)?;
        let row = rest.get(..u32::from_le_bytes(*row_length) as usize)?;
        Some(KeyedRow { key, number: u64::from_le_bytes(*number), row })
    }

    #[inline]
    fn order(a: &KeyedRow<'_>, b: &KeyedRow<'_>) -> Ordering {
        a.key.cmp(b.key).then_with(|| a.number.cmp(&b.number))
    }

    fn stored_bytes(record: &KeyedRow<'_>) -> usize {
        Self::HEADER_BYTES + record.key.len() + record.row.len()
    }

    /// Appends a row. Its lengths fit: no value is longer than a gibibyte, and callers check
    /// [`fits`](Self::fits).
    fn write(record: &KeyedRow<'_>, out: &mut Vec<u8>) {
        debug_assert!(Self::fits(record), "a row of {} bytes is too long", record.row.len());
        let start = out.len();
        out.extend_from_slice(&(record.key.len() as u32).to_le_bytes());
        out.extend_from_slice(&(record.row.len() as u32).to_le_bytes());
        out.extend_from_slice(&record.number.to_le_bytes());
        out.extend_from_slice(record.key);
        out.extend_from_slice(record.row);
        debug_assert_eq!(out.len() - start, Self::stored_bytes(record), "bytes of a row");
    }
}

impl KeyedRows {
    /// Returns true when key and row are short enough to be written.
    pub fn fits(record: &KeyedRow<'_>) -> bool {
        u32::try_from(record.key.len()).is_ok() && u32::try_from(record.row.len()).is_ok()
    }
}

/// Writes records chunk by chunk. The file is made when the first chunk is full.
#[derive(Debug)]
pub struct RunWriter<L> {
    space: TempSpace,
    file: Option<TempFile>,
    chunk: Vec<u8>,
    chunk_bytes: usize,
    records: u64,
    largest: usize,
    layout: PhantomData<L>,
}

impl<L: RecordFormat> RunWriter<L> {
    /// Makes a writer that holds `chunk_bytes` in memory.
    pub fn new(space: TempSpace, chunk_bytes: usize) -> Self {
        debug_assert!(chunk_bytes > 0, "a writer holds at least a byte");
        Self {
            space,
            file: None,
            chunk: Vec::new(),
            chunk_bytes,
            records: 0,
            largest: 0,
            layout: PhantomData,
        }
    }

    /// Appends a record.
    ///
    /// # Errors
    /// The errors of writing.
    pub fn push(&mut self, record: &L::Record<'_>) -> Result<()> {
        let size = L::stored_bytes(record);
        if self.chunk.len() + size > self.chunk_bytes {
            self.flush()?;
        }
        work::tick(size)?;
        if self.chunk.capacity() < self.chunk.len() + size {
            growing::ask_to_grow(0, 0, size)?;
            self.chunk.reserve_exact(self.chunk_bytes.max(size));
        }
        let start = self.chunk.len();
        L::write(record, &mut self.chunk);
        debug_assert_eq!(self.chunk.len() - start, size, "bytes of a written record");
        debug_assert!(L::read(&self.chunk[start..]).is_some(), "a written record reads back");
        self.records += 1;
        self.largest = self.largest.max(size);
        if size > self.chunk_bytes {
            // A large record is alone in its chunk. A step may have many writers, each with a large
            // record at hand.
            self.flush()?;
            self.chunk = Vec::new();
        }
        debug_assert!(self.chunk.len() <= self.chunk_bytes, "a chunk is longer than its limit");
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(self.space.create()?),
        };
        file.append(&self.chunk)?;
        self.chunk.clear();
        Ok(())
    }

    /// Ends the writing, and returns the run.
    ///
    /// # Errors
    /// The errors of writing.
    pub fn finish(mut self) -> Result<Run<L>> {
        self.flush()?;
        debug_assert!(self.chunk.is_empty(), "all records are in the file");
        debug_assert_eq!(self.file.is_some(), self.records > 0, "only a run of records has a file");
        let file = self.file.map(Arc::new);
        Ok(Run { file, records: self.records, largest: self.largest, layout: PhantomData })
    }
}

/// A finished file of records.
#[derive(Debug)]
pub struct Run<L> {
    file: Option<Arc<TempFile>>,
    records: u64,
    largest: usize,
    layout: PhantomData<L>,
}

impl<L: RecordFormat> Run<L> {
    /// Returns the number of records.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Returns the bytes of the largest record.
    pub fn largest(&self) -> usize {
        self.largest
    }

    /// Returns the bytes of all records.
    pub fn bytes(&self) -> u64 {
        self.file.as_ref().map_or(0, |file| file.len())
    }

    /// Reads the records from the first on, about `chunk_bytes` at a time. The file stays while a
    /// reader exists.
    pub fn read(&self, chunk_bytes: usize) -> RunReader<L> {
        debug_assert!(chunk_bytes > 0, "a reader that reads nothing at a time does not end");
        let file = self.file.clone();
        RunReader { file, read_to: 0, chunk: Vec::new(), at: 0, chunk_bytes, layout: PhantomData }
    }
}

/// A position in the records of a file.
#[derive(Debug)]
pub struct RunReader<L> {
    file: Option<Arc<TempFile>>,
    /// The position in the file where the chunk ends.
    read_to: u64,
    chunk: Vec<u8>,
    at: usize,
    chunk_bytes: usize,
    layout: PhantomData<L>,
}

impl<L: RecordFormat> RunReader<L> {
    /// Returns the record at this position, if [`fill`](Self::fill) was called since it was
    /// reached; `None` at the end.
    pub fn record(&self) -> Option<L::Record<'_>> {
        L::read(self.chunk.get(self.at..)?)
    }

    /// Goes to the next record.
    ///
    /// # Errors
    /// The errors of reading.
    pub fn advance(&mut self) -> Result<()> {
        self.at += self.record().map_or(0, |record| L::stored_bytes(&record));
        debug_assert!(self.at <= self.chunk.len(), "a record ends within its chunk");
        self.fill()
    }

    /// Goes back to the first record.
    pub fn rewind(&mut self) {
        self.chunk.clear();
        self.at = 0;
        self.read_to = 0;
    }

    /// Reads until the record at this position is in memory as a whole.
    ///
    /// # Errors
    /// The errors of reading.
    pub fn fill(&mut self) -> Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        debug_assert!(self.at <= self.chunk.len(), "the position is within the chunk");
        // Ends: every turn reads more, or no more is left.
        while L::read(&self.chunk[self.at..]).is_none() && self.read_to < file.len() {
            self.chunk.drain(..self.at);
            self.at = 0;
            let kept = self.chunk.len();
            let left = usize::try_from(file.len() - self.read_to).unwrap_or(usize::MAX);
            // Reads at least as much again, so that a large record is not copied for each chunk of
            // it.
            let more = self.chunk_bytes.max(kept).min(left);
            debug_assert!(more > 0, "a turn reads at least a byte");
            growing::ask_to_grow(self.chunk.capacity(), kept, more)?;
            self.chunk.reserve_exact(more);
            self.chunk.resize(kept + more, 0);
            file.read_exact_at(&mut self.chunk[kept..], self.read_to)?;
            self.read_to += more as u64;
            debug_assert!(self.read_to <= file.len(), "a reader is beyond the end of its file");
        }
        Ok(())
    }
}
