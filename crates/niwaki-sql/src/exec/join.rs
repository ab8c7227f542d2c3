//! Joins: nested loop, and hash where equalities allow it.

use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use hashbrown::DefaultHashBuilder;
use hashbrown::HashMap;
use niwaki_types::{Datum, equal, hash};

use super::{Step, row_bytes, start};
use crate::error::{Result, SqlError};
use crate::expr::{Runtime, State};
use crate::plan::{JoinKey, JoinKind, JoinPlan, PlanNode, SlotRange};

/// The inner rows, kept, with their hash keys.
struct Kept {
    /// Values of the inner slots, and of the keys.
    rows: Vec<(Vec<Datum>, Vec<Datum>)>,
    /// Rows by the hash of their keys; only with hash keys.
    by_key: HashMap<u64, Vec<usize>>,
    /// Rows that some outer row matched; only where those that none did are given too.
    matched: Vec<bool>,
}

enum Inner {
    /// Runs anew for each outer row.
    Running(Box<dyn Step>),
    /// Positions in the kept rows that are still to be tried: a range, or a list.
    Range(usize),
    List {
        list: Vec<usize>,
        next: usize,
    },
}

/// A join of two inputs.
pub(super) struct Join {
    plan: Arc<PlanNode>,
    outer: Box<dyn Step>,
    kept: Option<Kept>,
    /// What is tried with the current outer row; `None` when the next one is due.
    inner: Option<Inner>,
    /// Which kept row is being tried.
    number: usize,
    matched: bool,
    /// Once the outer rows are done: the next kept row that may have matched none of them.
    rest: Option<usize>,
    /// Memory accounted before an inner side that runs anew for each outer row.
    memory: usize,
    hasher: DefaultHashBuilder,
}

impl Join {
    pub(super) fn new(plan: &Arc<PlanNode>, state: &State) -> Self {
        let outer: Box<dyn Step> = match &**plan {
            PlanNode::Join(join) => start(&join.outer, state),
            _ => Box::new(super::source::OneRow { done: true }),
        };
        Self {
            plan: Arc::clone(plan),
            outer,
            kept: None,
            inner: None,
            number: 0,
            matched: false,
            rest: None,
            memory: 0,
            hasher: DefaultHashBuilder::default(),
        }
    }

    fn keep(&mut self, join: &JoinPlan, row: &[Datum], rt: &mut Runtime<'_, '_>) -> Result<()> {
        let mut step = start(&join.inner, rt.state);
        let mut own = row.to_vec();
        let mut kept = Kept { rows: Vec::new(), by_key: HashMap::new(), matched: Vec::new() };
        while step.next(&mut own, rt)? {
            rt.tick()?;
            make_room(&mut own, &join.inner_slots);
            let mut keys = Vec::with_capacity(join.hash.len());
            for key in &join.hash {
                keys.push(key.inner.eval(&own, rt)?);
            }
            // NULL equals nothing.
            let hopeless = keys.iter().any(Datum::is_null);
            if hopeless && !keeps_inner(join.kind) {
                continue;
            }
            let values = taken(&own, &join.inner_slots);
            rt.charge(row_bytes(&values) + row_bytes(&keys))?;
            if !join.hash.is_empty() && !hopeless {
                let hash = self.hash(&join.hash, &keys);
                kept.by_key.entry(hash).or_default().push(kept.rows.len());
            }
            kept.rows.push((values, keys));
        }
        if keeps_inner(join.kind) {
            kept.matched = vec![false; kept.rows.len()];
        }
        self.kept = Some(kept);
        Ok(())
    }

    fn hash(&self, pairs: &[JoinKey], keys: &[Datum]) -> u64 {
        let mut state = self.hasher.build_hasher();
        for (pair, key) in pairs.iter().zip(keys) {
            hash(pair.outer.ty, key, &mut state);
        }
        state.finish()
    }

    /// Finds what is to be tried with a new outer row.
    fn open(&mut self, join: &JoinPlan, row: &[Datum], rt: &mut Runtime<'_, '_>) -> Result<Inner> {
        if join.inner_depends {
            self.memory = rt.state.memory;
            return Ok(Inner::Running(start(&join.inner, rt.state)));
        }
        if self.kept.is_none() {
            self.keep(join, row, rt)?;
        }
        if join.hash.is_empty() {
            return Ok(Inner::Range(0));
        }
        let mut keys = Vec::with_capacity(join.hash.len());
        for key in &join.hash {
            keys.push(key.outer.eval(row, rt)?);
        }
        let mut list = Vec::new();
        if !keys.iter().any(Datum::is_null)
            && let Some(kept) = &self.kept
            && let Some(candidates) = kept.by_key.get(&self.hash(&join.hash, &keys))
        {
            list.extend(candidates.iter().copied().filter(|number| {
                let known = &kept.rows[*number].1;
                known
                    .iter()
                    .zip(&keys)
                    .zip(&join.hash)
                    .all(|((a, b), key)| equal(key.outer.ty, a, b))
            }));
        }
        Ok(Inner::List { list, next: 0 })
    }

    /// Puts the next inner row that may match into the row.
    fn next_inner(
        &mut self,
        join: &JoinPlan,
        row: &mut Vec<Datum>,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<bool> {
        rt.tick()?;
        self.number = match &mut self.inner {
            None => return Ok(false),
            Some(Inner::Running(step)) => return step.next(row, rt),
            Some(Inner::Range(next)) => {
                *next += 1;
                *next - 1
            }
            Some(Inner::List { list, next }) => {
                let Some(number) = list.get(*next) else { return Ok(false) };
                *next += 1;
                *number
            }
        };
        let Some((values, _)) = self.kept.as_ref().and_then(|kept| kept.rows.get(self.number))
        else {
            return Ok(false);
        };
        put(row, &join.inner_slots, values);
        Ok(true)
    }

    /// Tries the inner rows of the current outer row; whether the row is one of the join's.
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
            match join.kind {
                JoinKind::Semi => {
                    self.close(join, rt);
                    return Ok(true);
                }
                JoinKind::Anti => break,
                _ => {}
            }
            if let Some(kept) = &mut self.kept
                && let Some(flag) = kept.matched.get_mut(self.number)
            {
                *flag = true;
            }
            return Ok(true);
        }
        self.close(join, rt);
        let alone =
            !self.matched && matches!(join.kind, JoinKind::Left | JoinKind::Full | JoinKind::Anti);
        if alone {
            clear(row, &join.inner_slots);
        }
        Ok(alone)
    }

    /// The outer row is done.
    fn close(&mut self, join: &JoinPlan, rt: &mut Runtime<'_, '_>) {
        if join.inner_depends {
            rt.state.memory = self.memory;
        }
        self.inner = None;
    }

    /// The next inner row that no outer row matched.
    fn next_rest(&mut self, join: &JoinPlan, row: &mut Vec<Datum>) -> bool {
        let (Some(kept), Some(next)) = (&self.kept, &mut self.rest) else { return false };
        while let Some((values, _)) = kept.rows.get(*next) {
            let matched = kept.matched.get(*next).copied().unwrap_or(false);
            *next += 1;
            if !matched {
                make_room(row, &join.outer_slots);
                make_room(row, &join.inner_slots);
                clear(row, &join.outer_slots);
                put(row, &join.inner_slots, values);
                return true;
            }
        }
        false
    }
}

/// Whether inner rows without a match are rows of the join.
fn keeps_inner(kind: JoinKind) -> bool {
    matches!(kind, JoinKind::Right | JoinKind::Full)
}

/// Makes the row long enough for some slots.
pub(super) fn make_room(row: &mut Vec<Datum>, slots: &[SlotRange]) {
    let end = slots.iter().map(|range| range.end).max().unwrap_or(0);
    if row.len() < end {
        row.resize(end, Datum::Null);
    }
}

/// Fills some slots with NULL.
pub(super) fn clear(row: &mut [Datum], slots: &[SlotRange]) {
    for range in slots {
        row[range.start..range.end].fill(Datum::Null);
    }
}

/// The values of some slots, side by side.
pub(super) fn taken(row: &[Datum], slots: &[SlotRange]) -> Vec<Datum> {
    slots.iter().flat_map(|range| row[range.start..range.end].iter().cloned()).collect()
}

/// Puts values that were [`taken`] back.
pub(super) fn put(row: &mut [Datum], slots: &[SlotRange], mut values: &[Datum]) {
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
        loop {
            if self.rest.is_some() {
                return Ok(self.next_rest(join, row));
            }
            if self.inner.is_none() {
                if !self.outer.next(row, rt)? {
                    if !keeps_inner(join.kind) {
                        return Ok(false);
                    }
                    if self.kept.is_none() {
                        self.keep(join, row, rt)?;
                    }
                    self.rest = Some(0);
                    continue;
                }
                make_room(row, &join.inner_slots);
                self.inner = Some(self.open(join, row, rt)?);
                self.matched = false;
            }
            if self.try_inner(join, row, rt)? {
                return Ok(true);
            }
        }
    }
}
