//! The hash table of a hash join.
//!
//! Inner rows go into the table until its memory is used up. The other inner rows go to partitions.
//! The join probes the table with each outer row. If the partition of the outer row's key has inner
//! rows, the outer row goes to the matching partition of outer rows. A flag with the outer row says
//! whether the row has matched already.
//!
//! Then the join does the same with each pair of partitions. An inner row meets all outer rows that
//! it can match while it is in the table. So when those outer rows are done, the join knows whether
//! the inner row has matched any.

use std::sync::Arc;

use niwaki_env::memory;
use niwaki_expr::expr::measure::SpaceUse;
use niwaki_expr::expr::nested::Demand;
use niwaki_expr::expr::{Expr, Runtime};
use niwaki_expr::plan::{JoinKind, JoinPlan, PlanNode};
use niwaki_expr::query::SlotRange;
use niwaki_expr::spool::{END, KeyChains, grown};
use niwaki_parse::error::Result;
use niwaki_table::{KeyedRows, RunReader};
use niwaki_types::{
    Datum, KeyOrder, encode_key, read_tagged_into, read_tagged_row, write_tagged_row,
};

use crate::joins::join_step::{keeps_inner, make_room, put};
use crate::step::spill::{Partition, Partitions, count_written, reader};
use crate::step::start::start_for;

/// Inner rows by key.
#[derive(Default)]
struct JoinTable {
    chains: KeyChains,
    rows: Vec<u8>,
    /// The end offset of each row in `rows`.
    ends: Vec<usize>,
    /// A flag for each row that an outer row matched. Only RIGHT and FULL joins, which also return
    /// unmatched inner rows, fill this vector.
    matched: Vec<bool>,
}

impl JoinTable {
    fn memory(&self) -> usize {
        self.chains.memory() + grown(&self.rows, 0) + grown(&self.ends, 0) + self.ends.len()
    }

    /// Decides whether there is room for one more row. The first row always has room.
    fn has_room(&self, key: &[u8], row: &[u8], budget: usize) -> bool {
        let now = grown(&self.rows, 0) + grown(&self.ends, 0) + self.ends.len();
        let rows = grown(&self.rows, row.len()) + grown(&self.ends, 1) + self.ends.len();
        let fits = rows < budget && self.chains.has_room(key.len(), budget - rows);
        self.ends.is_empty() || (fits && (rows <= now || memory::has_room(rows)))
    }

    /// Adds a row. A row without a key matches nothing.
    fn add(&mut self, key: Option<&[u8]>, row: &[u8]) {
        self.rows.extend_from_slice(row);
        self.ends.push(self.rows.len());
        self.chains.add(key);
    }

    fn row(&self, number: u32) -> &[u8] {
        let number = number as usize;
        let begin = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.rows[begin..self.ends[number]]
    }
}

/// A hash join whose inner side was read.
pub(crate) struct HashJoin {
    /// The join's node.
    plan: Arc<PlanNode>,
    table: JoinTable,
    /// Partitions of the inner rows that are not in the table.
    later: Vec<Partition>,
    /// Partitions of the outer rows that still have to meet the inner rows of `later`.
    probes: Option<Partitions>,
    pending: Vec<(Partition, Partition)>,
    /// The outer rows of a partition. The first outer rows come from a step.
    outer: Option<RunReader<KeyedRows>>,
    level: u32,
    /// The key of the outer row at hand; `None` if a part of the key is NULL.
    key: Option<Vec<u8>>,
    /// The inner row to try next with the outer row, and the inner row that is being tried.
    next: u32,
    current: u32,
    /// The next inner row to examine for a match, once the outer rows are done.
    rest: u32,
    bytes: Vec<u8>,
    values: Vec<Datum>,
    space: SpaceUse,
}

/// Puts the key of a row into `out`. Returns false if a part of the key is NULL, which equals
/// nothing.
fn encode_parts<'e>(
    parts: impl Iterator<Item = &'e Expr>,
    row: &[Datum],
    out: &mut Vec<u8>,
    rt: &mut Runtime<'_, '_>,
) -> Result<bool> {
    out.clear();
    let mut complete = true;
    for part in parts {
        let value = part.eval(row, rt)?;
        complete &= !value.is_null();
        encode_key(&value, KeyOrder::ascending(part.ty), out);
    }
    Ok(complete)
}

/// A hash join that is still taking inner rows.
pub(crate) struct Building {
    joining: HashJoin,
    later: Option<Partitions>,
}

impl Building {
    /// Makes a hash join without inner rows.
    pub(crate) fn new(plan: &Arc<PlanNode>) -> Self {
        let joining = HashJoin {
            plan: Arc::clone(plan),
            table: JoinTable::default(),
            later: Vec::new(),
            probes: None,
            pending: Vec::new(),
            outer: None,
            level: 0,
            key: None,
            next: END,
            current: END,
            rest: 0,
            bytes: Vec::new(),
            values: Vec::new(),
            space: SpaceUse::default(),
        };
        Self { joining, later: None }
    }

    /// Takes an inner row. A row with a NULL in its key matches nothing.
    pub(crate) fn add(
        &mut self,
        join: &JoinPlan,
        key: &[u8],
        complete: bool,
        row: &[Datum],
        rt: &Runtime<'_, '_>,
    ) -> Result<()> {
        if !complete && !keeps_inner(join.kind) {
            return Ok(());
        }
        let mut bytes = std::mem::take(&mut self.joining.bytes);
        bytes.clear();
        for slots in &join.inner_slots {
            write_tagged_row(&row[slots.start..slots.end], &mut bytes);
        }
        self.joining.add(key, complete, &bytes, &mut self.later, rt)?;
        self.joining.bytes = bytes;
        Ok(())
    }

    /// Ends the taking of inner rows.
    pub(crate) fn finish(self, join: &JoinPlan, rt: &mut Runtime<'_, '_>) -> Result<HashJoin> {
        let Self { mut joining, later } = self;
        joining.built(join.kind, later, rt)?;
        Ok(joining)
    }
}

impl HashJoin {
    /// Reads the inner side. `demand` says how many of the join's rows the caller will read.
    pub(crate) fn new(
        plan: &Arc<PlanNode>,
        join: &JoinPlan,
        demand: Demand,
        row: &[Datum],
        rt: &mut Runtime<'_, '_>,
    ) -> Result<Self> {
        let mut building = Building::new(plan);
        let mut step = start_for(&join.inner, demand.whole(), rt.state);
        let mut own = row.to_vec();
        let mut key = Vec::new();
        while step.next(&mut own, rt)? {
            rt.tick()?;
            make_room(&mut own, &join.inner_slots);
            let parts = join.hash.iter().map(|key| &key.inner);
            let complete = encode_parts(parts, &own, &mut key, rt)?;
            building.add(join, &key, complete, &own, rt)?;
        }
        building.finish(join, rt)
    }

    /// Puts an inner row into the table, or into a partition. A row with a NULL in its key matches
    /// nothing.
    fn add(
        &mut self,
        key: &[u8],
        complete: bool,
        row: &[u8],
        later: &mut Option<Partitions>,
        rt: &Runtime<'_, '_>,
    ) -> Result<()> {
        let count = Partitions::count(rt, rt.exec.hash_mem);
        let budget = rt.exec.hash_mem.saturating_sub(Partitions::buffers(rt, count));
        if later.is_none() && self.table.has_room(key, row, budget) {
            self.table.add(complete.then_some(key), row);
            return Ok(());
        }
        let partitions = match later {
            Some(later) => later,
            none => none.insert(Partitions::new(rt, count, self.level)?),
        };
        partitions.push(key, complete.into(), row)
    }

    fn built(
        &mut self,
        kind: JoinKind,
        later: Option<Partitions>,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<()> {
        if keeps_inner(kind) {
            self.table.matched = vec![false; self.table.ends.len()];
        }
        self.rest = 0;
        self.space.table(self.table.memory(), self.table.ends.len());
        self.later = later.map(Partitions::finish).transpose()?.unwrap_or_default();
        count_written(&mut self.space, &self.later);
        if let Some(measures) = &mut rt.state.measures {
            measures.add_space(&self.plan, self.space);
        }
        Ok(())
    }

    /// Returns true once the outer rows come from partitions.
    pub(crate) fn reads_partitions(&self) -> bool {
        self.outer.is_some()
    }

    /// Reads the next outer row of the partition, and returns whether that row has matched already.
    /// Returns `None` at the partition's end.
    pub(crate) fn next_outer(&mut self, row: &mut Vec<Datum>) -> Result<Option<bool>> {
        let Some(outer) = &mut self.outer else { return Ok(None) };
        let Some(record) = outer.record() else { return Ok(None) };
        row.clear();
        read_tagged_row(record.row, row)?;
        let matched = record.number != 0;
        outer.advance()?;
        Ok(Some(matched))
    }

    /// Goes on with the next pair of partitions, after the outer rows are done. Returns false if no
    /// pair is left.
    pub(crate) fn next_pair(&mut self, kind: JoinKind, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        let later = std::mem::take(&mut self.later);
        if !later.is_empty() {
            let probes = match self.probes.take() {
                Some(probes) => probes,
                None => Partitions::new(rt, later.len(), self.level)?,
            };
            let probes = probes.finish()?;
            count_written(&mut self.space, &probes);
            let wanted = |(inner, outer): &(Partition, Partition)| {
                inner.rows.records() > 0 && (outer.rows.records() > 0 || keeps_inner(kind))
            };
            self.pending.extend(later.into_iter().zip(probes).filter(wanted));
        }
        self.table = JoinTable::default();
        let Some((inner, outer)) = self.pending.pop() else {
            self.outer = None;
            return Ok(false);
        };
        self.level = inner.level;
        let mut rows = reader(inner.rows, rt)?;
        let mut later = None;
        while let Some(record) = rows.record() {
            rt.tick()?;
            self.add(record.key, record.number != 0, record.row, &mut later, rt)?;
            rows.advance()?;
        }
        self.built(kind, later, rt)?;
        self.outer = Some(reader(outer.rows, rt)?);
        Ok(true)
    }

    /// Looks up the first inner row with the outer row's key.
    pub(crate) fn open(
        &mut self,
        join: &JoinPlan,
        row: &[Datum],
        rt: &mut Runtime<'_, '_>,
    ) -> Result<()> {
        let mut key = self.key.take().unwrap_or_default();
        self.next = END;
        if encode_parts(join.hash.iter().map(|key| &key.outer), row, &mut key, rt)? {
            self.next = self.table.chains.first(&key);
            self.key = Some(key);
        }
        Ok(())
    }

    /// Puts the next inner row with the outer row's key into its slots.
    pub(crate) fn next_inner(&mut self, row: &mut [Datum], slots: &[SlotRange]) -> Result<bool> {
        if self.next == END {
            return Ok(false);
        }
        self.current = self.next;
        self.next = self.table.chains.behind(self.next);
        self.put(self.current, row, slots)?;
        Ok(true)
    }

    /// Marks the inner row at hand as matched.
    pub(crate) fn mark(&mut self) {
        if let Some(flag) = self.table.matched.get_mut(self.current as usize) {
            *flag = true;
        }
    }

    /// Puts the next unmatched inner row of the table into its slots.
    pub(crate) fn next_rest(&mut self, row: &mut [Datum], slots: &[SlotRange]) -> Result<bool> {
        while let Some(matched) = self.table.matched.get(self.rest as usize) {
            let number = self.rest;
            self.rest += 1;
            if !matched {
                self.put(number, row, slots)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn put(&mut self, number: u32, row: &mut [Datum], slots: &[SlotRange]) -> Result<()> {
        let bytes = self.table.row(number);
        if let [slots] = slots {
            read_tagged_into(bytes, &mut row[slots.start..slots.end])?;
            return Ok(());
        }
        self.values.clear();
        read_tagged_row(bytes, &mut self.values)?;
        put(row, slots, &self.values);
        Ok(())
    }

    /// Writes an outer row that met the whole table to a partition, if it has to meet more inner
    /// rows later. Returns whether the row was written.
    pub(crate) fn put_off(
        &mut self,
        row: &[Datum],
        matched: bool,
        rt: &Runtime<'_, '_>,
    ) -> Result<bool> {
        if self.later.is_empty() {
            return Ok(false);
        }
        let Some(key) = &self.key else { return Ok(false) };
        let probes = match &mut self.probes {
            Some(probes) => probes,
            none => none.insert(Partitions::new(rt, self.later.len(), self.level)?),
        };
        let inner = self.later.get(probes.place(key));
        if inner.is_none_or(|inner| inner.rows.records() == 0) {
            return Ok(false);
        }
        self.bytes.clear();
        write_tagged_row(row, &mut self.bytes);
        probes.push(key, matched.into(), &self.bytes)?;
        Ok(true)
    }
}
