//! Joins by nested loop, or by hash where equalities allow it (`hash_join.rs`).

use std::sync::Arc;

use niwaki_expr::expr::nested::Demand;
use niwaki_expr::expr::{Running, Runtime, State, Step};
use niwaki_expr::plan::{JoinKind, JoinPlan, PlanNode};
use niwaki_expr::query::SlotRange;
use niwaki_expr::spool::{TuplestoreReader, TuplestoreWriter};
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::Datum;

use crate::joins::hash_join::HashJoin;
use crate::step::start::start_for;

enum Inner {
    /// The inner side was not read yet.
    New,
    /// The inner side runs anew for each outer row.
    Running(Running),
    Kept(Kept),
    Hashed(Box<HashJoin>),
}

/// All rows of the inner side, kept for repeated reading.
struct Kept {
    reader: TuplestoreReader,
    /// A flag for each row that an outer row matched. Only RIGHT and FULL joins, which also return
    /// unmatched inner rows, fill this vector.
    matched: Vec<bool>,
    values: Vec<Datum>,
}

/// The step that joins two inputs.
pub(crate) struct Join {
    plan: Arc<PlanNode>,
    demand: Demand,
    outer: Running,
    inner: Inner,
    /// Set while an outer row is at hand.
    open: bool,
    matched: bool,
    /// The outer rows are done, and the step returns unmatched inner rows.
    rest: bool,
    done: bool,
    /// The statement's memory before an inner side that runs anew for each outer row.
    memory: usize,
}

/// Starts the outer input of a join.
pub(super) fn start_outer(plan: &PlanNode, demand: Demand, state: &State) -> Running {
    match plan {
        PlanNode::Join(join) => start_for(&join.outer, demand, state),
        _ => Running::new(crate::source::rows::OneRow { done: true }),
    }
}

impl Join {
    pub(crate) fn new(plan: &Arc<PlanNode>, demand: Demand, state: &State) -> Self {
        let outer = start_outer(plan, demand, state);
        Self {
            plan: Arc::clone(plan),
            demand,
            outer,
            inner: Inner::New,
            open: false,
            matched: false,
            rest: false,
            done: false,
            memory: 0,
        }
    }

    /// Makes a hash join whose inner side was read.
    pub(crate) fn hashed(plan: &Arc<PlanNode>, joining: HashJoin, state: &State) -> Self {
        Self { inner: Inner::Hashed(Box::new(joining)), ..Self::new(plan, Demand::SOME, state) }
    }

    /// Reads the next outer row. Returns false if there is none before the next pair of partitions.
    fn next_outer(&mut self, row: &mut Vec<Datum>, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        self.matched = false;
        match &mut self.inner {
            Inner::Hashed(joining) if joining.reads_partitions() => {
                let matched = joining.next_outer(row)?;
                self.matched = matched.unwrap_or(false);
                Ok(matched.is_some())
            }
            _ => self.outer.next(row, rt),
        }
    }

    /// Reads the inner side, if the join keeps it and has not read it yet.
    fn begin(&mut self, join: &JoinPlan, row: &[Datum], rt: &mut Runtime<'_, '_>) -> Result<()> {
        if matches!(self.inner, Inner::New) && !join.inner_depends {
            self.inner = if join.hash.is_empty() {
                Inner::Kept(keep(join, self.demand, row, rt)?)
            } else {
                Inner::Hashed(Box::new(HashJoin::new(&self.plan, join, self.demand, row, rt)?))
            };
        }
        Ok(())
    }

    /// Finds the inner rows to try with a new outer row.
    fn open(&mut self, join: &JoinPlan, row: &[Datum], rt: &mut Runtime<'_, '_>) -> Result<()> {
        self.begin(join, row, rt)?;
        match &mut self.inner {
            Inner::New | Inner::Running(_) => {
                self.memory = rt.state.memory;
                self.inner = Inner::Running(start_for(&join.inner, Demand::Around, rt.state));
            }
            Inner::Kept(kept) => kept.reader.rewind(),
            Inner::Hashed(joining) => joining.open(join, row, rt)?,
        }
        self.open = true;
        Ok(())
    }

    /// Puts the next inner row that may match into the row.
    fn next_inner(
        &mut self,
        join: &JoinPlan,
        row: &mut Vec<Datum>,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<bool> {
        rt.tick()?;
        match &mut self.inner {
            Inner::New => Ok(false),
            Inner::Running(step) => step.next(row, rt),
            Inner::Kept(kept) => kept.next(row, &join.inner_slots),
            Inner::Hashed(joining) => joining.next_inner(row, &join.inner_slots),
        }
    }

    /// Tries the inner rows of the current outer row. Returns whether `row` is now a row of the
    /// join.
    fn try_inner(
        &mut self,
        join: &JoinPlan,
        row: &mut Vec<Datum>,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<bool> {
        while self.next_inner(join, row, rt)? {
            if let Some(condition) = &join.condition
                && !condition.holds(row, rt)?
            {
                continue;
            }
            self.matched = true;
            if matches!(join.kind, JoinKind::Semi | JoinKind::Anti) {
                self.close(join, rt);
                return Ok(join.kind == JoinKind::Semi);
            }
            match &mut self.inner {
                Inner::Kept(kept) => kept.mark(),
                Inner::Hashed(joining) => joining.mark(),
                Inner::New | Inner::Running(_) => {}
            }
            return Ok(true);
        }
        self.close(join, rt);
        clear(row, &join.inner_slots);
        if let Inner::Hashed(joining) = &mut self.inner
            && joining.put_off(row, self.matched, rt)?
        {
            return Ok(false);
        }
        Ok(!self.matched && matches!(join.kind, JoinKind::Left | JoinKind::Full | JoinKind::Anti))
    }

    /// Ends the work on the outer row at hand.
    fn close(&mut self, join: &JoinPlan, rt: &mut Runtime<'_, '_>) {
        if join.inner_depends {
            rt.state.memory = self.memory;
            self.inner = Inner::New;
        }
        self.open = false;
    }

    /// Reads the next unmatched inner row.
    fn next_rest(
        &mut self,
        join: &JoinPlan,
        row: &mut Vec<Datum>,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<bool> {
        rt.tick()?;
        make_room(row, &join.outer_slots);
        make_room(row, &join.inner_slots);
        clear(row, &join.outer_slots);
        match &mut self.inner {
            Inner::Kept(kept) => kept.next_rest(row, &join.inner_slots),
            Inner::Hashed(joining) => joining.next_rest(row, &join.inner_slots),
            Inner::New | Inner::Running(_) => Ok(false),
        }
    }

    /// Gets more outer rows when those for the inner rows in memory are done. Returns false if none
    /// are left.
    fn next_pass(&mut self, join: &JoinPlan, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        match &mut self.inner {
            Inner::Hashed(joining) => joining.next_pair(join.kind, rt),
            _ => Ok(false),
        }
    }
}

impl Kept {
    fn next(&mut self, row: &mut [Datum], slots: &[SlotRange]) -> Result<bool> {
        if let [slots] = slots {
            return self.reader.next(&mut row[slots.start..slots.end]);
        }
        self.values.resize(self.reader.width(), Datum::Null);
        let found = self.reader.next(&mut self.values)?;
        if found {
            put(row, slots, &self.values);
        }
        Ok(found)
    }

    /// Marks the inner row at hand as matched.
    fn mark(&mut self) {
        let number = self.reader.given().saturating_sub(1);
        if let Some(flag) = self.matched.get_mut(number) {
            *flag = true;
        }
    }

    /// Puts the next unmatched row into its slots.
    fn next_rest(&mut self, row: &mut [Datum], slots: &[SlotRange]) -> Result<bool> {
        loop {
            let matched = self.matched.get(self.reader.given()).copied().unwrap_or(false);
            if !self.next(row, slots)? {
                return Ok(false);
            }
            if !matched {
                return Ok(true);
            }
        }
    }
}

/// Reads and keeps all rows of the inner side.
fn keep(join: &JoinPlan, demand: Demand, row: &[Datum], rt: &mut Runtime<'_, '_>) -> Result<Kept> {
    let mut step = start_for(&join.inner, demand.whole(), rt.state);
    let mut own = row.to_vec();
    let mut keeper = TuplestoreWriter::new(rt.exec);
    let mut count = 0;
    while step.next(&mut own, rt)? {
        rt.tick()?;
        make_room(&mut own, &join.inner_slots);
        match join.inner_slots.as_slice() {
            [slots] => keeper.push(&own[slots.start..slots.end])?,
            slots => keeper.push(&taken(&own, slots))?,
        }
        count += 1;
    }
    let matched = if keeps_inner(join.kind) { vec![false; count] } else { Vec::new() };
    Ok(Kept { reader: keeper.finish()?.read(), matched, values: Vec::new() })
}

/// Decides whether the join returns unmatched inner rows.
pub(crate) fn keeps_inner(kind: JoinKind) -> bool {
    matches!(kind, JoinKind::Right | JoinKind::Full)
}

/// Makes the row long enough for some slots.
pub(crate) fn make_room(row: &mut Vec<Datum>, slots: &[SlotRange]) {
    let end = slots.iter().map(|range| range.end).max().unwrap_or(0);
    if row.len() < end {
        row.resize(end, Datum::Null);
    }
}

/// Fills some slots with NULL.
pub(crate) fn clear(row: &mut [Datum], slots: &[SlotRange]) {
    for range in slots {
        row[range.start..range.end].fill(Datum::Null);
    }
}

/// Returns the values of some slots, side by side.
pub(crate) fn taken(row: &[Datum], slots: &[SlotRange]) -> Vec<Datum> {
    slots.iter().flat_map(|range| row[range.start..range.end].iter().cloned()).collect()
}

/// Puts values from [`taken`] back into their slots.
pub(crate) fn put(row: &mut [Datum], slots: &[SlotRange], mut values: &[Datum]) {
    for range in slots {
        let (here, rest) = values.split_at(range.end - range.start);
        row[range.start..range.end].clone_from_slice(here);
        values = rest;
    }
}

impl Step for Join {
    fn next(&mut self, row: &mut Vec<Datum>, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        let plan = Arc::clone(&self.plan);
        let PlanNode::Join(join) = &*plan else {
            return Err(SqlError::internal("a join of another plan"));
        };
        while !self.done {
            if self.rest {
                if self.next_rest(join, row, rt)? {
                    return Ok(true);
                }
                self.rest = false;
                self.done = !self.next_pass(join, rt)?;
            } else if self.open {
                if self.try_inner(join, row, rt)? {
                    return Ok(true);
                }
            } else if self.next_outer(row, rt)? {
                make_room(row, &join.inner_slots);
                self.open(join, row, rt)?;
            } else if keeps_inner(join.kind) {
                self.begin(join, row, rt)?;
                if let Inner::Kept(kept) = &mut self.inner {
                    kept.reader.rewind();
                }
                self.rest = true;
            } else {
                self.done = !self.next_pass(join, rt)?;
            }
        }
        Ok(false)
    }
}
