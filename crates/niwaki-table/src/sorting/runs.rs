//! Files of records: written one after the other, and read in the same order.
//!
//! A file is written chunk by chunk, each of whole records. The checksums of the chunks stay in
//! memory. Readers read whole chunks, and compare. So a damaged file ends the operation, and loses
//! no record in silence.

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

/// A chunk of whole records in a file, behind the chunk before it.
#[derive(Clone, Copy, Debug)]
struct WrittenChunk {
    bytes: usize,
    /// CRC-32C of the bytes.
    checksum: u32,
}

/// Writes records chunk by chunk. The file is made when the first chunk is full.
#[derive(Debug)]
pub struct RunWriter<L> {
    space: TempSpace,
    file: Option<TempFile>,
    /// The chunks that the file has.
    written: Vec<WrittenChunk>,
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
            written: Vec::new(),
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
        let checksum = crc32c::crc32c(&self.chunk);
        let size = size_of::<WrittenChunk>();
        growing::ask_to_grow(self.written.capacity() * size, self.written.len() * size, size)?;
        self.written.push(WrittenChunk { bytes: self.chunk.len(), checksum });
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
        let (chunks, records) = (self.written, self.records);
        let file = self.file.map(|file| Arc::new(RunFile { file, chunks, records }));
        Ok(Run { file, records, largest: self.largest, layout: PhantomData })
    }
}

/// A written file, with what it must have when it is read.
#[derive(Debug)]
struct RunFile {
    file: TempFile,
    chunks: Vec<WrittenChunk>,
    records: u64,
}

impl RunFile {
    /// Returns the number of chunks from this one on that a read of about `chunk_bytes` takes, and
    /// their bytes. It takes one chunk at least.
    fn next_read(&self, first: usize, chunk_bytes: usize) -> (usize, usize) {
        let (mut count, mut bytes) = (0, 0);
        for chunk in &self.chunks[first..] {
            if count > 0 && bytes + chunk.bytes > chunk_bytes {
                break;
            }
            count += 1;
            bytes += chunk.bytes;
        }
        debug_assert!(count == 0 || bytes > 0, "a chunk has a record");
        (count, bytes)
    }

    /// Compares chunks that were read, from a position on, with what was written.
    fn check(&self, chunks: &[WrittenChunk], mut at: u64, mut bytes: &[u8]) -> Result<()> {
        for chunk in chunks {
            let (read, rest) = bytes.split_at(chunk.bytes);
            if crc32c::crc32c(read) != chunk.checksum {
                let detail = format!("the {} bytes from {at} on are damaged", chunk.bytes);
                return Err(self.file.damaged("checksum", detail));
            }
            at += chunk.bytes as u64;
            bytes = rest;
        }
        debug_assert!(bytes.is_empty(), "bytes were read that no chunk has");
        Ok(())
    }
}

/// A finished file of records.
#[derive(Debug)]
pub struct Run<L> {
    file: Option<Arc<RunFile>>,
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
        self.file.as_ref().map_or(0, |run| run.file.len())
    }

    /// Reads the records from the first on, about `chunk_bytes` at a time, but at least a chunk as
    /// it was written. The file stays while a reader exists.
    pub fn read(&self, chunk_bytes: usize) -> RunReader<L> {
        debug_assert!(chunk_bytes > 0, "a reader that reads nothing at a time does not end");
        let file = self.file.clone();
        RunReader {
            file,
            next_chunk: 0,
            read_to: 0,
            passed: 0,
            chunk: Vec::new(),
            at: 0,
            chunk_bytes,
            layout: PhantomData,
        }
    }
}

/// A position in the records of a file.
#[derive(Debug)]
pub struct RunReader<L> {
    file: Option<Arc<RunFile>>,
    /// The number of chunks that were read, and the position in the file where they end.
    next_chunk: usize,
    read_to: u64,
    /// The number of records before this position.
    passed: u64,
    /// The bytes of the chunks that were read last.
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
        if let Some(record) = self.record() {
            self.at += L::stored_bytes(&record);
            self.passed += 1;
        }
        debug_assert!(self.at <= self.chunk.len(), "a record ends within its chunk");
        self.fill()
    }

    /// Goes back to the first record.
    pub fn rewind(&mut self) {
        self.chunk.clear();
        self.at = 0;
        self.passed = 0;
        self.next_chunk = 0;
        self.read_to = 0;
    }

    /// Reads until the record at this position is in memory.
    ///
    /// # Errors
    /// The errors of reading; [`niwaki_storage::Error::Corruption`] where the file has other bytes
    /// than were written.
    pub fn fill(&mut self) -> Result<()> {
        debug_assert!(self.at <= self.chunk.len(), "the position is within the chunk");
        match &self.file {
            Some(_) if L::read(&self.chunk[self.at..]).is_none() => self.read_more(),
            _ => Ok(()),
        }
    }

    /// Reads the next chunks. All records of the former ones were passed.
    fn read_more(&mut self) -> Result<()> {
        let Some(run) = &self.file else { return Ok(()) };
        if self.at < self.chunk.len() {
            let detail = format!("the record behind {} others is cut short", self.passed);
            return Err(run.file.damaged("format", detail));
        }
        self.chunk.clear();
        self.at = 0;
        let (count, bytes) = run.next_read(self.next_chunk, self.chunk_bytes);
        if count == 0 {
            if self.passed != run.records {
                let detail = format!("{} records of {} were found", self.passed, run.records);
                return Err(run.file.damaged("format", detail));
            }
            return Ok(());
        }
        growing::ask_to_grow(self.chunk.capacity(), 0, bytes)?;
        self.chunk.reserve_exact(bytes);
        self.chunk.resize(bytes, 0);
        let chunks = &run.chunks[self.next_chunk..self.next_chunk + count];
        let read = run.file.read_exact_at(&mut self.chunk, self.read_to);
        if let Err(error) = read.and_then(|()| run.check(chunks, self.read_to, &self.chunk)) {
            // No caller may take a record of what was not verified.
            self.chunk.clear();
            return Err(error);
        }
        self.next_chunk += count;
        self.read_to += bytes as u64;
        debug_assert!(self.read_to <= run.file.len(), "a reader is beyond the end of its file");
        debug_assert!(L::read(&self.chunk).is_some(), "a chunk begins with a record");
        Ok(())
    }
}
