//! DISTINCT, and the set operations.

use std::sync::Arc;

use niwaki_expr::expr::measure::SpaceUse;
use niwaki_expr::expr::{Running, Runtime, State, Step};
use niwaki_expr::plan::PlanNode;
use niwaki_expr::query::SetKind;
use niwaki_expr::spool::KeyTable;
use niwaki_parse::error::{Result, SqlError};
use niwaki_table::{KeyedRows, RunReader};
use niwaki_types::{ColumnType, Datum, read_tagged_row, write_tagged_row};

use crate::step::spill::{Partition, Partitions, count_written, encode_columns, reader};
use crate::step::start::start;
use crate::step::unique_rows::UniqueRows;

fn other_plan() -> SqlError {
    SqlError::internal("a step of another plan")
}

/// The step that returns the first row of each distinct value.
pub(crate) struct Distinct {
    plan: Arc<PlanNode>,
    input: Option<Running>,
    unique: UniqueRows,
    key: Vec<u8>,
    begun: bool,
}

impl Distinct {
    pub(crate) fn new(plan: &Arc<PlanNode>) -> Self {
        let (input, key) = (None, Vec::new());
        Self { plan: Arc::clone(plan), input, unique: UniqueRows::default(), key, begun: false }
    }
}

impl Step for Distinct {
    fn next(&mut self, row: &mut Vec<Datum>, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        let plan = Arc::clone(&self.plan);
        let PlanNode::Distinct { input, columns } = &*plan else { return Err(other_plan()) };
        if !self.begun {
            self.begun = true;
            self.input = Some(start(input, rt.state));
        }
        if let Some(step) = &mut self.input {
            while step.next(row, rt)? {
                rt.tick()?;
                self.key.clear();
                encode_columns(row, columns, &mut self.key);
                if self.unique.is_first(&self.key, row, rt)? {
                    return Ok(true);
                }
            }
            self.input = None;
        }
        self.unique.next(row, &plan, rt)
    }
}

/// The number of equal rows on the left and on the right, for each distinct row.
#[derive(Default)]
struct Counts {
    rows: KeyTable,
    counts: Vec<(u64, u64)>,
}

/// The step of UNION, INTERSECT and EXCEPT.
pub(crate) struct SetOperation {
    plan: Arc<PlanNode>,
    /// The sides of UNION, read one after the other from the end of the vector.
    sides: Vec<Running>,
    unique: UniqueRows,
    key: Vec<u8>,
    counts: Counts,
    /// The number of the table's next row, and how often the step has returned that row.
    place: (u32, u64),
    /// Pairs of partitions, left and right, with the rows that found no room in memory.
    pending: Vec<(Partition, Partition)>,
    begun: bool,
    space: SpaceUse,
}

/// The source of the rows of one side of a set operation.
enum Side {
    Step(Running),
    Run(RunReader<KeyedRows>),
}

impl Side {
    fn next(&mut self, row: &mut Vec<Datum>, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        match self {
            Self::Step(step) => step.next(row, rt),
            Self::Run(reader) => {
                let Some(record) = reader.record() else { return Ok(false) };
                row.clear();
                read_tagged_row(record.row, row)?;
                reader.advance()?;
                Ok(true)
            }
        }
    }
}

impl SetOperation {
    pub(crate) fn new(plan: &Arc<PlanNode>, state: &State) -> Self {
        let mut sides = Vec::new();
        if let PlanNode::SetOperation { left, right, .. } = &**plan {
            sides.push(start(right, state));
            sides.push(start(left, state));
        }
        Self {
            plan: Arc::clone(plan),
            sides,
            unique: UniqueRows::default(),
            key: Vec::new(),
            counts: Counts::default(),
            place: (0, 0),
            pending: Vec::new(),
            begun: false,
            space: SpaceUse::default(),
        }
    }

    /// Counts the rows of both sides. Left rows that find no room in memory go to partitions.
    /// Right rows that may equal one of those left rows go to partitions too.
    fn count(
        &mut self,
        (mut left, mut right): (Side, Side),
        level: u32,
        columns: &[ColumnType],
        rt: &mut Runtime<'_, '_>,
    ) -> Result<()> {
        self.counts = Counts::default();
        self.place = (0, 0);
        let parts = Partitions::count(rt, rt.exec.hash_mem);
        let budget = rt.exec.hash_mem.saturating_sub(Partitions::buffers(rt, parts));
        let mut later: Option<Partitions> = None;
        let (mut row, mut key, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
        let Counts { rows, counts } = &mut self.counts;
        while left.next(&mut row, rt)? {
            rt.tick()?;
            let row = row.get(..columns.len()).unwrap_or(&row);
            key.clear();
            encode_columns(row, columns, &mut key);
            let hash = rows.hash(&key);
            if let Some(number) = rows.find(hash, &key) {
                counts[number as usize].0 += 1;
                continue;
            }
            bytes.clear();
            write_tagged_row(row, &mut bytes);
            let of_counts = 2 * (counts.len() + 1) * size_of::<(u64, u64)>();
            if later.is_none()
                && rows.has_room(key.len() + bytes.len(), budget.saturating_sub(of_counts))
            {
                rows.add(hash, &key, &bytes);
                counts.push((1, 0));
                continue;
            }
            let partitions = match &mut later {
                Some(later) => later,
                none => none.insert(Partitions::new(rt, parts, level)?),
            };
            partitions.push(&key, 0, &bytes)?;
        }
        drop(left);
        let later = later.map(Partitions::finish).transpose()?.unwrap_or_default();
        let mut matching: Option<Partitions> = None;
        while right.next(&mut row, rt)? {
            rt.tick()?;
            let row = row.get(..columns.len()).unwrap_or(&row);
            key.clear();
            encode_columns(row, columns, &mut key);
            if let Some(number) = rows.find(rows.hash(&key), &key) {
                counts[number as usize].1 += 1;
                continue;
            }
            if later.is_empty() {
                continue;
            }
            let partitions = match &mut matching {
                Some(matching) => matching,
                none => none.insert(Partitions::new(rt, parts, level)?),
            };
            if later.get(partitions.place(&key)).is_some_and(|left| left.rows.records() > 0) {
                bytes.clear();
                write_tagged_row(row, &mut bytes);
                partitions.push(&key, 0, &bytes)?;
            }
        }
        let matching = match matching {
            Some(matching) => matching,
            None => Partitions::new(rt, parts, level)?,
        };
        self.space.table(rows.memory(), rows.len());
        if !later.is_empty() {
            let matching = matching.finish()?;
            count_written(&mut self.space, &later);
            count_written(&mut self.space, &matching);
            let pairs = later.into_iter().zip(matching);
            self.pending.extend(pairs.filter(|(left, _)| left.rows.records() > 0));
        }
        Ok(())
    }

    /// Returns the table's next row, as often as the operation wants that row.
    fn counted(&mut self, kind: SetKind, all: bool, row: &mut Vec<Datum>) -> Result<bool> {
        while let Some((left, right)) = self.counts.counts.get(self.place.0 as usize).copied() {
            let times = match (kind, all) {
                (SetKind::Intersect, true) => left.min(right),
                (SetKind::Intersect, false) => u64::from(right > 0),
                (_, true) => left.saturating_sub(right),
                (_, false) => u64::from(right == 0),
            };
            if self.place.1 < times {
                self.place.1 += 1;
                row.clear();
                read_tagged_row(self.counts.rows.row(self.place.0), row)?;
                return Ok(true);
            }
            self.place = (self.place.0 + 1, 0);
        }
        Ok(false)
    }
}

impl Step for SetOperation {
    fn next(&mut self, row: &mut Vec<Datum>, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        let plan = Arc::clone(&self.plan);
        let PlanNode::SetOperation { kind, all, columns, .. } = &*plan else {
            return Err(other_plan());
        };
        if *kind == SetKind::Union {
            while let Some(side) = self.sides.last_mut() {
                while side.next(row, rt)? {
                    rt.tick()?;
                    if *all {
                        return Ok(true);
                    }
                    self.key.clear();
                    encode_columns(row, columns, &mut self.key);
                    if self.unique.is_first(&self.key, row, rt)? {
                        return Ok(true);
                    }
                }
                self.sides.pop();
            }
            return Ok(!*all && self.unique.next(row, &plan, rt)?);
        }
        if !self.begun {
            self.begun = true;
            let (Some(left), Some(right)) = (self.sides.pop(), self.sides.pop()) else {
                return Err(other_plan());
            };
            self.count((Side::Step(left), Side::Step(right)), 0, columns, rt)?;
        }
        loop {
            rt.tick()?;
            if self.counted(*kind, *all, row)? {
                return Ok(true);
            }
            let Some((left, right)) = self.pending.pop() else {
                if let Some(measures) = &mut rt.state.measures {
                    measures.add_space(&plan, std::mem::take(&mut self.space));
                }
                return Ok(false);
            };
            let level = left.level;
            let sides = (Side::Run(reader(left.rows, rt)?), Side::Run(reader(right.rows, rt)?));
            self.count(sides, level, columns, rt)?;
        }
    }
}
