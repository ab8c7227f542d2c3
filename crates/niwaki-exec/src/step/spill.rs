//! Spilling: steps whose memory is used up divide rows into partitions in temporary files, by the
//! hash of the rows' keys.
//!
//! A step keeps the first rows in memory and works on them. It divides the other rows into
//! partitions, and then does the same with each partition, until none is left. The step keeps at
//! least one row of each partition. So the work ends, however the keys are distributed.

use niwaki_expr::expr::Runtime;
use niwaki_expr::expr::measure::SpaceUse;
use niwaki_expr::spool::checked;
use niwaki_parse::error::{Result, SqlError};
use niwaki_table::{KeyedRows, Run, RunReader, RunWriter};
use niwaki_types::{ColumnType, Datum, KeyOrder, encode_key};

/// The most files that a step divides rows into at once.
const PARTITIONS_MAX: usize = 32;

/// Appends the keys of a row's first values.
pub(crate) fn encode_columns(row: &[Datum], columns: &[ColumnType], out: &mut Vec<u8>) {
    for (value, column) in row.iter().zip(columns) {
        encode_key(value, KeyOrder::ascending(column.oid), out);
    }
}

/// Rows of one partition, with the number of times that they were divided.
pub(crate) struct Partition {
    pub(crate) rows: Run<KeyedRows>,
    pub(crate) level: u32,
}

/// The files that a step divides rows into.
pub(crate) struct Partitions {
    writers: Vec<RunWriter<KeyedRows>>,
    level: u32,
}

impl Partitions {
    /// Returns the number of partitions for a step's budget. Their buffers take at most a quarter
    /// of the budget.
    pub(crate) fn count(rt: &Runtime<'_, '_>, budget: usize) -> usize {
        (budget / 4 / rt.exec.temp_chunk.max(1)).clamp(2, PARTITIONS_MAX)
    }

    /// Returns the bytes of the buffers of `count` partitions.
    pub(crate) fn buffers(rt: &Runtime<'_, '_>, count: usize) -> usize {
        count * rt.exec.temp_chunk
    }

    /// Makes empty partitions. `level`: how often the rows have been divided before.
    pub(crate) fn new(rt: &Runtime<'_, '_>, count: usize, level: u32) -> Result<Self> {
        let temp = rt.temp()?;
        let writer = || RunWriter::new(temp.clone(), rt.exec.temp_chunk);
        Ok(Self { writers: (0..count).map(|_| writer()).collect(), level })
    }

    /// Returns the partition of a key.
    pub(crate) fn place(&self, key: &[u8]) -> usize {
        place(key, self.level, self.writers.len())
    }

    /// Appends a row to the partition of its key.
    pub(crate) fn push(&mut self, key: &[u8], number: u64, row: &[u8]) -> Result<()> {
        let place = self.place(key);
        let record = checked(key, number, row)?;
        match self.writers.get_mut(place) {
            Some(writer) => Ok(writer.push(&record)?),
            None => Err(SqlError::internal("a partition that is not there")),
        }
    }

    /// Ends the writing, and returns all partitions, also the empty ones.
    pub(crate) fn finish(self) -> Result<Vec<Partition>> {
        let level = self.level + 1;
        let mut partitions = Vec::with_capacity(self.writers.len());
        for writer in self.writers {
            partitions.push(Partition { rows: writer.finish()?, level });
        }
        Ok(partitions)
    }
}

/// Returns the partition of a key among `count` partitions. The result is the same at every run, so
/// that simulations can be repeated, and differs between levels.
fn place(key: &[u8], level: u32, count: usize) -> usize {
    usize::try_from(hash_key(key, level) % (count.max(1) as u64)).unwrap_or(0)
}

/// Returns a hash of a key, which is the same at every run and differs between levels.
pub(crate) fn hash_key(key: &[u8], level: u32) -> u64 {
    // FNV-1a with a final mix: without the mix, the last bytes alone would determine the lower
    // bits.
    let seed = 0xcbf2_9ce4_8422_2325u64 ^ u64::from(level).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let hash = key
        .iter()
        .fold(seed, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    let mixed = (hash ^ (hash >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    mixed ^ (mixed >> 32)
}

/// Begins to read the rows of a partition.
pub(crate) fn reader(rows: Run<KeyedRows>, rt: &Runtime<'_, '_>) -> Result<RunReader<KeyedRows>> {
    let mut reader = rows.read(rt.exec.temp_chunk);
    reader.fill()?;
    Ok(reader)
}

/// Counts written partitions.
pub(crate) fn count_written(space: &mut SpaceUse, partitions: &[Partition]) {
    space.disk += partitions.iter().map(|partition| partition.rows.bytes()).sum::<u64>();
}
