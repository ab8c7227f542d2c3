//! What steps do when their memory is used up: rows go to partitions in temporary files, by the hash of their keys.
//!
//! A step keeps what came first, and goes on with it; the rest it divides into partitions, and does the same with each, until
//! none is left. What is kept of a partition is never nothing, so this ends, however the keys are distributed.

use niwaki_table::{KeyedRow, KeyedRows, Run, RunReader, RunWriter, SortSpace, Sorter, TempSpace};
use niwaki_types::{ColumnType, Datum, KeyOrder, encode_key};

use crate::error::{Result, SqlError};
use crate::expr::Runtime;

/// Most files that rows are divided into at once.
const PARTITIONS_MAX: usize = 32;

impl Runtime<'_, '_> {
    /// Where temporary files go.
    pub(super) fn temp(&self) -> Result<TempSpace> {
        self.exec
            .temp
            .cloned()
            .ok_or_else(|| SqlError::internal("a step without room for temporary files"))
    }

    /// A sort within `memory_bytes`.
    pub(super) fn sorter(&self, memory_bytes: usize) -> Result<Sorter<KeyedRows>> {
        let space = SortSpace::with_chunks(self.temp()?, memory_bytes, self.exec.temp_chunk);
        Ok(Sorter::new(space))
    }
}

/// Appends the keys of a row's first values.
pub(super) fn encode_columns(row: &[Datum], columns: &[ColumnType], out: &mut Vec<u8>) {
    for (value, column) in row.iter().zip(columns) {
        encode_key(value, KeyOrder::ascending(column.oid), out);
    }
}

/// Refuses what cannot be written.
pub(super) fn checked<'r>(key: &'r [u8], number: u64, row: &'r [u8]) -> Result<KeyedRow<'r>> {
    let record = KeyedRow { key, number, row };
    if KeyedRows::fits(&record) {
        return Ok(record);
    }
    Err(SqlError::new("54000", "a row is too large to be sorted or hashed"))
}

/// Rows of one partition, and how often they have been divided.
pub(super) struct Partition {
    pub(super) rows: Run<KeyedRows>,
    pub(super) level: u32,
}

/// Files that rows are divided into.
pub(super) struct Partitions {
    writers: Vec<RunWriter<KeyedRows>>,
    level: u32,
}

impl Partitions {
    /// How many a step with a budget has: their buffers take a quarter of it at most.
    pub(super) fn count(rt: &Runtime<'_, '_>, budget: usize) -> usize {
        (budget / 4 / rt.exec.temp_chunk.max(1)).clamp(2, PARTITIONS_MAX)
    }

    /// Bytes of the buffers of `count` partitions.
    pub(super) fn buffers(rt: &Runtime<'_, '_>, count: usize) -> usize {
        count * rt.exec.temp_chunk
    }

    /// Nothing in them yet. `level`: how often the rows have been divided before.
    pub(super) fn new(rt: &Runtime<'_, '_>, count: usize, level: u32) -> Result<Self> {
        let temp = rt.temp()?;
        let writer = || RunWriter::new(temp.clone(), rt.exec.temp_chunk);
        Ok(Self { writers: (0..count).map(|_| writer()).collect(), level })
    }

    /// The partition of a key.
    pub(super) fn place(&self, key: &[u8]) -> usize {
        place(key, self.level, self.writers.len())
    }

    /// Appends a row to the partition of its key.
    pub(super) fn push(&mut self, key: &[u8], number: u64, row: &[u8]) -> Result<()> {
        let place = self.place(key);
        let record = checked(key, number, row)?;
        match self.writers.get_mut(place) {
            Some(writer) => Ok(writer.push(&record)?),
            None => Err(SqlError::internal("a partition that is not there")),
        }
    }

    /// Ends the writing: what is in each partition, empty ones too.
    pub(super) fn finish(self) -> Result<Vec<Partition>> {
        let level = self.level + 1;
        let mut partitions = Vec::with_capacity(self.writers.len());
        for writer in self.writers {
            partitions.push(Partition { rows: writer.finish()?, level });
        }
        Ok(partitions)
    }
}

/// The partition of a key among `count`. The same at every run, so that simulations can be repeated; another for each level.
fn place(key: &[u8], level: u32, count: usize) -> usize {
    usize::try_from(hash_key(key, level) % (count.max(1) as u64)).unwrap_or(0)
}

/// A hash of a key: the same at every run, another for each level.
pub(super) fn hash_key(key: &[u8], level: u32) -> u64 {
    // FNV-1a, its end mixed: the lower bits alone would be those of the last bytes.
    let seed = 0xcbf2_9ce4_8422_2325u64 ^ u64::from(level).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let hash = key
        .iter()
        .fold(seed, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    let mixed = (hash ^ (hash >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    mixed ^ (mixed >> 32)
}

/// Begins to read the rows of a partition.
pub(super) fn reader(rows: Run<KeyedRows>, rt: &Runtime<'_, '_>) -> Result<RunReader<KeyedRows>> {
    let mut reader = rows.read(rt.exec.temp_chunk);
    reader.fill()?;
    Ok(reader)
}

/// What a step needed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SpaceUse {
    /// How often it began with an empty table.
    pub(crate) batches: u64,
    /// Most bytes of memory that it held.
    pub(crate) memory: usize,
    /// Bytes that it wrote to temporary files.
    pub(crate) disk: u64,
    /// Keys in its table, the most there were.
    pub(crate) keys: usize,
    /// A sort left out rows behind those that are wanted.
    pub(crate) top: bool,
}

impl SpaceUse {
    /// A table was filled.
    pub(super) fn table(&mut self, memory: usize, keys: usize) {
        self.batches += 1;
        self.memory = self.memory.max(memory);
        self.keys = self.keys.max(keys);
    }

    /// These were written.
    pub(super) fn wrote(&mut self, partitions: &[Partition]) {
        self.disk += partitions.iter().map(|partition| partition.rows.bytes()).sum::<u64>();
    }
}
