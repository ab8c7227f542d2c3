//! Finds the first row of each key within a memory budget.

use std::sync::Arc;

use niwaki_expr::expr::Runtime;
use niwaki_expr::expr::measure::SpaceUse;
use niwaki_expr::plan::PlanNode;
use niwaki_expr::spool::KeyTable;
use niwaki_parse::error::Result;
use niwaki_table::{KeyedRows, RunReader};
use niwaki_types::{Datum, read_tagged_row, write_tagged_row};

use crate::step::spill::{Partition, Partitions, count_written, reader};

/// A filter for rows whose key is met for the first time. Keys are index keys: equal values have
/// equal bytes.
#[derive(Default)]
pub(crate) struct UniqueRows {
    seen: KeyTable,
    /// The partitions for rows that may be the first of their kind, which found no room in memory.
    later: Option<Partitions>,
    pending: Vec<Partition>,
    /// The rows of a partition, and its level.
    reading: Option<(RunReader<KeyedRows>, u32)>,
    row: Vec<u8>,
    space: SpaceUse,
}

impl UniqueRows {
    /// Returns true if a row is certainly the first of its key. Another row is a repetition, or
    /// comes back from [`UniqueRows::next`].
    pub(crate) fn is_first(
        &mut self,
        key: &[u8],
        row: &[Datum],
        rt: &Runtime<'_, '_>,
    ) -> Result<bool> {
        let hash = self.seen.hash(key);
        if self.seen.find(hash, key).is_some() {
            return Ok(false);
        }
        let count = Partitions::count(rt, rt.exec.hash_mem);
        if self.later.is_none() {
            let budget = rt.exec.hash_mem.saturating_sub(Partitions::buffers(rt, count));
            if self.seen.has_room(key.len(), budget) {
                self.seen.add(hash, key, &[]);
                return Ok(true);
            }
            let level = self.reading.as_ref().map_or(0, |(_, level)| *level);
            self.later = Some(Partitions::new(rt, count, level)?);
        }
        self.row.clear();
        write_tagged_row(row, &mut self.row);
        if let Some(later) = &mut self.later {
            later.push(key, 0, &self.row)?;
        }
        Ok(false)
    }

    /// Returns the next row that is the first of its key, after the input's end. At the end it adds
    /// the needed space to the measurements of `plan`.
    pub(crate) fn next(
        &mut self,
        row: &mut Vec<Datum>,
        plan: &Arc<PlanNode>,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<bool> {
        let mut key = Vec::new();
        loop {
            while let Some((reading, _)) = &mut self.reading {
                let Some(record) = reading.record() else { break };
                rt.tick()?;
                row.clear();
                read_tagged_row(record.row, row)?;
                key.clear();
                key.extend_from_slice(record.key);
                reading.advance()?;
                if self.is_first(&key, row, rt)? {
                    return Ok(true);
                }
            }
            self.space.table(self.seen.memory(), self.seen.len());
            self.seen = KeyTable::default();
            if let Some(later) = self.later.take() {
                let partitions = later.finish()?;
                count_written(&mut self.space, &partitions);
                self.pending.extend(partitions.into_iter().filter(|p| p.rows.records() > 0));
            }
            let Some(Partition { rows, level }) = self.pending.pop() else {
                self.reading = None;
                if let Some(measures) = &mut rt.state.measures {
                    measures.add_space(plan, std::mem::take(&mut self.space));
                }
                return Ok(false);
            };
            self.reading = Some((reader(rows, rt)?, level));
        }
    }
}
