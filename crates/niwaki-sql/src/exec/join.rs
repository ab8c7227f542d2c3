//! Joins: nested loop, and hash where equalities allow it.

use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use hashbrown::DefaultHashBuilder;
use hashbrown::HashMap;
use niwaki_types::{Datum, TypeOid, equal, hash};

use super::{Step, row_bytes, start};
use crate::error::{Result, SqlError};
use crate::expr::{Expr, Runtime, State};
use crate::plan::{JoinKind, JoinPlan, PlanNode};

/// The inner rows, kept, with their hash keys.
struct Kept {
    /// Values of the inner slots, and of the keys.
    rows: Vec<(Vec<Datum>, Vec<Datum>)>,
    /// Rows by the hash of their keys; only with hash keys.
    by_key: HashMap<u64, Vec<usize>>,
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
    matched: bool,
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
            matched: false,
            memory: 0,
            hasher: DefaultHashBuilder::default(),
        }
    }

    fn keep(&mut self, join: &JoinPlan, row: &[Datum], rt: &mut Runtime<'_, '_>) -> Result<()> {
        let mut step = start(&join.inner, rt.state);
        let mut own = row.to_vec();
        let mut kept = Kept { rows: Vec::new(), by_key: HashMap::new() };
        let slots = join.inner_slots;
        while step.next(&mut own, rt)? {
            rt.tick()?;
            if own.len() < slots.end {
                own.resize(slots.end, Datum::Null);
            }
            let mut keys = Vec::with_capacity(join.hash.len());
            for (_, key) in &join.hash {
                keys.push(key.eval(&own, rt)?);
            }
            // NULL equals nothing.
            if keys.iter().any(Datum::is_null) {
                continue;
            }
            let values = own[slots.start..slots.end].to_vec();
            rt.charge(row_bytes(&values) + row_bytes(&keys))?;
            if !join.hash.is_empty() {
                let hash = self.hash(&join.hash, &keys);
                kept.by_key.entry(hash).or_default().push(kept.rows.len());
            }
            kept.rows.push((values, keys));
        }
        self.kept = Some(kept);
        Ok(())
    }

    fn hash(&self, pairs: &[(Expr, Expr)], keys: &[Datum]) -> u64 {
        let mut state = self.hasher.build_hasher();
        for ((expr, _), key) in pairs.iter().zip(keys) {
            hash(expr.ty, key, &mut state);
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
        for (key, _) in &join.hash {
            keys.push(key.eval(row, rt)?);
        }
        let mut list = Vec::new();
        if !keys.iter().any(Datum::is_null)
            && let Some(kept) = &self.kept
            && let Some(candidates) = kept.by_key.get(&self.hash(&join.hash, &keys))
        {
            let types: Vec<TypeOid> = join.hash.iter().map(|(e, _)| e.ty).collect();
            list.extend(candidates.iter().copied().filter(|number| {
                kept.rows[*number]
                    .1
                    .iter()
                    .zip(&keys)
                    .zip(&types)
                    .all(|((a, b), ty)| equal(*ty, a, b))
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
        let number = match &mut self.inner {
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
        let Some((values, _)) = self.kept.as_ref().and_then(|kept| kept.rows.get(number)) else {
            return Ok(false);
        };
        row[join.inner_slots.start..join.inner_slots.end].clone_from_slice(values);
        Ok(true)
    }
}

impl Step for Join {
    fn next(&mut self, row: &mut Vec<Datum>, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        let plan = Arc::clone(&self.plan);
        let PlanNode::Join(join) = &*plan else {
            return Err(SqlError::internal("a join of another plan"));
        };
        loop {
            if self.inner.is_none() {
                if !self.outer.next(row, rt)? {
                    return Ok(false);
                }
                if row.len() < join.inner_slots.end {
                    row.resize(join.inner_slots.end, Datum::Null);
                }
                self.inner = Some(self.open(join, row, rt)?);
                self.matched = false;
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
            if join.inner_depends {
                rt.state.memory = self.memory;
            }
            self.inner = None;
            if join.kind == JoinKind::Left && !self.matched {
                row[join.inner_slots.start..join.inner_slots.end].fill(Datum::Null);
                return Ok(true);
            }
        }
    }
}
