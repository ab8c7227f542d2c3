//! Joins: nested loop, and hash where equalities allow it (`hash_join.rs`).

use std::sync::Arc;

use niwaki_types::Datum;

use super::hash_join::HashJoin;
use super::kept_rows::{KeptReader, RowKeeper};
use super::{Step, start};
use crate::error::{Result, SqlError};
use crate::expr::{Runtime, State};
use crate::plan::{JoinKind, JoinPlan, PlanNode};

enum Inner {
    /// Nothing was read yet.
    New,
    /// Runs anew for each outer row.
    Running(Box<dyn Step>),
    /// All rows, kept.
    Kept(KeptReader),
    Hashed(Box<HashJoin>),
}

/// A join of two inputs.
pub(super) struct Join {
    plan: Arc<PlanNode>,
    outer: Box<dyn Step>,
    inner: Inner,
    /// Whether there is an outer row at hand.
    open: bool,
    matched: bool,
    /// Memory accounted before an inner side that runs anew for each outer row.
    memory: usize,
}

impl Join {
    pub(super) fn new(plan: &Arc<PlanNode>, state: &State) -> Self {
        let outer: Box<dyn Step> = match &**plan {
            PlanNode::Join(join) => start(&join.outer, state),
            _ => Box::new(super::source::OneRow { done: true }),
        };
        let plan = Arc::clone(plan);
        Self { plan, outer, inner: Inner::New, open: false, matched: false, memory: 0 }
    }

    /// Gets the next outer row, and finds what is to be tried with it; false when there is none.
    fn open(
        &mut self,
        join: &JoinPlan,
        row: &mut Vec<Datum>,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<bool> {
        self.matched = false;
        let first = match &mut self.inner {
            Inner::Hashed(joining) if joining.reads_partitions() => None,
            _ => Some(self.outer.next(row, rt)?),
        };
        match (first, &mut self.inner) {
            (Some(true), _) => {}
            (Some(false) | None, Inner::Hashed(joining)) => match joining.next_outer(row, rt)? {
                Some(matched) => self.matched = matched,
                None => return Ok(false),
            },
            _ => return Ok(false),
        }
        if row.len() < join.inner_slots.end {
            row.resize(join.inner_slots.end, Datum::Null);
        }
        match &mut self.inner {
            Inner::New | Inner::Running(_) if join.inner_depends => {
                self.memory = rt.state.memory;
                self.inner = Inner::Running(start(&join.inner, rt.state));
            }
            Inner::New | Inner::Running(_) if join.hash.is_empty() => {
                self.inner = Inner::Kept(keep(join, row, rt)?);
            }
            Inner::New | Inner::Running(_) => {
                let mut joining = Box::new(HashJoin::new(&self.plan, join, row, rt)?);
                joining.open(join, row, rt)?;
                self.inner = Inner::Hashed(joining);
            }
            Inner::Kept(reader) => reader.rewind(),
            Inner::Hashed(joining) => joining.open(join, row, rt)?,
        }
        Ok(true)
    }

    /// Puts the next inner row that may match into the row.
    fn next_inner(
        &mut self,
        join: &JoinPlan,
        row: &mut Vec<Datum>,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<bool> {
        rt.tick()?;
        let slots = join.inner_slots.start..join.inner_slots.end;
        match &mut self.inner {
            Inner::New => Ok(false),
            Inner::Running(step) => step.next(row, rt),
            Inner::Kept(reader) => reader.next(&mut row[slots]),
            Inner::Hashed(joining) => joining.next_inner(&mut row[slots]),
        }
    }
}

/// Keeps all rows of the inner side.
fn keep(join: &JoinPlan, row: &[Datum], rt: &mut Runtime<'_, '_>) -> Result<KeptReader> {
    let mut step = start(&join.inner, rt.state);
    let mut own = row.to_vec();
    let mut keeper = RowKeeper::new(rt.exec);
    let slots = join.inner_slots;
    while step.next(&mut own, rt)? {
        rt.tick()?;
        if own.len() < slots.end {
            own.resize(slots.end, Datum::Null);
        }
        keeper.push(&own[slots.start..slots.end])?;
    }
    Ok(keeper.finish()?.read())
}

impl Step for Join {
    fn next(&mut self, row: &mut Vec<Datum>, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        let plan = Arc::clone(&self.plan);
        let PlanNode::Join(join) = &*plan else {
            return Err(SqlError::internal("a join of another plan"));
        };
        let slots = join.inner_slots.start..join.inner_slots.end;
        loop {
            if !self.open {
                if !self.open(join, row, rt)? {
                    return Ok(false);
                }
                self.open = true;
            }
            while self.next_inner(join, row, rt)? {
                if let Some(condition) = &join.condition
                    && !condition.holds(row, rt)?
                {
                    continue;
                }
                self.matched = true;
                return Ok(true);
            }
            self.open = false;
            if join.inner_depends {
                rt.state.memory = self.memory;
            }
            row[slots.clone()].fill(Datum::Null);
            if let Inner::Hashed(joining) = &mut self.inner
                && joining.put_off(row, self.matched, rt)?
            {
                continue;
            }
            if join.kind == JoinKind::Left && !self.matched {
                return Ok(true);
            }
        }
    }
}
