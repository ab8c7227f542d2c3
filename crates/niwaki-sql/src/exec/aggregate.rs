//! Grouping and aggregates: rows one by one, or in batches (`groups.rs`).

use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashMap};
use niwaki_types::{Datum, equal, hash};

use super::groups::{self, Groups};
use super::output::{KeyedRow, sort_rows};
use super::{Step, batches, row_bytes, start};
use crate::aggregates::Accumulator;
use crate::error::{Result, SqlError};
use crate::expr::{Expr, Runtime, is_true};
use crate::plan::{AggregateCall, PlanNode};

/// One group.
pub(super) struct Group {
    pub(super) keys: Vec<Datum>,
    pub(super) states: Vec<CallState>,
}

/// State of one aggregate in one group.
pub(super) struct CallState {
    pub(super) accumulator: Accumulator,
    /// For DISTINCT: the places in `ordered` of rows with the same hash.
    seen: Option<HashMap<u64, Vec<usize>>>,
    /// Rows kept for ORDER BY and DISTINCT inside the call: keys, arguments.
    ordered: Vec<KeyedRow>,
}

impl CallState {
    /// The state before the first row.
    pub(super) fn new(call: &AggregateCall) -> Self {
        let types: Vec<_> = call.arguments.iter().map(|argument| argument.ty).collect();
        Self {
            accumulator: Accumulator::new(call.kind, &types),
            seen: call.distinct.then(Default::default),
            ordered: Vec::new(),
        }
    }

    /// The state of an aggregate without DISTINCT and ORDER BY.
    pub(super) fn of(accumulator: Accumulator) -> Self {
        Self { accumulator, seen: None, ordered: Vec::new() }
    }

    /// Takes the arguments of a row, and the keys of the order inside the call.
    pub(super) fn take(
        &mut self,
        call: &AggregateCall,
        values: Vec<Datum>,
        keys: Vec<Datum>,
        hasher: &DefaultHashBuilder,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<()> {
        if let Some(seen) = &mut self.seen {
            let mut state = hasher.build_hasher();
            for (argument, value) in call.arguments.iter().zip(&values) {
                hash(argument.ty, value, &mut state);
            }
            let places = seen.entry(state.finish()).or_default();
            let known = places.iter().any(|place| match self.ordered.get(*place) {
                Some((keys, _)) => same_row(keys, &values, &call.arguments),
                None => false,
            });
            if known {
                return Ok(());
            }
            places.push(self.ordered.len());
            rt.charge(row_bytes(&values) + size_of::<KeyedRow>())?;
            // They are taken in their order, as PostgreSQL finds equal ones by sorting.
            self.ordered.push((values.clone(), values));
            return Ok(());
        }
        if !call.order.is_empty() {
            rt.charge(row_bytes(&keys) + row_bytes(&values))?;
            self.ordered.push((keys, values));
            return Ok(());
        }
        let before = self.accumulator.bytes();
        self.accumulator.add(&values, rt.exec)?;
        let after = self.accumulator.bytes();
        if after > before {
            rt.charge(after - before)?;
        }
        Ok(())
    }
}

/// A step that makes one row per group.
pub(super) struct Aggregate {
    plan: Arc<PlanNode>,
    groups: Option<std::vec::IntoIter<Group>>,
    hasher: DefaultHashBuilder,
}

impl Aggregate {
    pub(super) fn new(plan: &Arc<PlanNode>) -> Self {
        Self { plan: Arc::clone(plan), groups: None, hasher: DefaultHashBuilder::default() }
    }

    fn new_group(keys: Vec<Datum>, calls: &[AggregateCall]) -> Group {
        Group { keys, states: calls.iter().map(CallState::new).collect() }
    }

    fn run(&self, rt: &mut Runtime<'_, '_>) -> Result<Vec<Group>> {
        let PlanNode::Aggregate { input, input_width, groups: exprs, calls } = &*self.plan else {
            return Err(SqlError::internal("an aggregate of another plan"));
        };
        if groups::run_in_batches(exprs, calls)
            && let Some(step) = batches::start(input)
        {
            return Groups::new(exprs, calls).run(step, rt);
        }
        let mut step = start(input, rt.state);
        let mut row = vec![Datum::Null; *input_width];
        let mut groups: Vec<Group> = Vec::new();
        if exprs.is_empty() {
            groups.push(Self::new_group(Vec::new(), calls));
            while step.next(&mut row, rt)? {
                rt.tick()?;
                self.add(&mut groups[0], calls, &row, rt)?;
            }
            return Ok(groups);
        }
        let mut by_key: HashMap<u64, Vec<usize>> = HashMap::new();
        while step.next(&mut row, rt)? {
            rt.tick()?;
            let mut keys = Vec::with_capacity(exprs.len());
            let mut state = self.hasher.build_hasher();
            for expr in exprs {
                let key = expr.eval(&row, rt)?;
                hash(expr.ty, &key, &mut state);
                keys.push(key);
            }
            let candidates = by_key.entry(state.finish()).or_default();
            let same = |group: &Group| {
                group.keys.iter().zip(&keys).zip(exprs).all(|((a, b), expr)| {
                    match (a.is_null(), b.is_null()) {
                        (true, true) => true,
                        (false, false) => equal(expr.ty, a, b),
                        _ => false,
                    }
                })
            };
            let found = candidates.iter().copied().find(|number| same(&groups[*number]));
            let number = match found {
                Some(number) => number,
                None => {
                    candidates.push(groups.len());
                    rt.charge(row_bytes(&keys) + calls.len() * size_of::<CallState>())?;
                    groups.push(Self::new_group(keys, calls));
                    groups.len() - 1
                }
            };
            self.add(&mut groups[number], calls, &row, rt)?;
        }
        Ok(groups)
    }

    fn add(
        &self,
        group: &mut Group,
        calls: &[AggregateCall],
        row: &[Datum],
        rt: &mut Runtime<'_, '_>,
    ) -> Result<()> {
        for (call, state) in calls.iter().zip(&mut group.states) {
            if let Some(filter) = &call.filter
                && !is_true(&filter.eval(row, rt)?)
            {
                continue;
            }
            match call.arguments.as_slice() {
                [] => {
                    state.accumulator.add(&[], rt.exec)?;
                    continue;
                }
                [argument] if call.order.is_empty() && state.seen.is_none() => {
                    let before = state.accumulator.bytes();
                    let value = argument.eval(row, rt)?;
                    state.accumulator.add(std::slice::from_ref(&value), rt.exec)?;
                    let after = state.accumulator.bytes();
                    if after > before {
                        rt.charge(after - before)?;
                    }
                    continue;
                }
                _ => {}
            }
            let eval = |expr: &Expr, rt: &mut Runtime<'_, '_>| expr.eval(row, rt);
            let mut values = Vec::with_capacity(call.arguments.len());
            for argument in &call.arguments {
                values.push(eval(argument, rt)?);
            }
            let mut keys = Vec::with_capacity(call.order.len());
            for (expr, ..) in &call.order {
                keys.push(eval(expr, rt)?);
            }
            state.take(call, values, keys, &self.hasher, rt)?;
        }
        Ok(())
    }
}

/// Whether two rows of arguments are the same; NULL is the same as NULL.
fn same_row(a: &[Datum], b: &[Datum], arguments: &[Expr]) -> bool {
    a.iter().zip(b).zip(arguments).all(|((a, b), argument)| match (a.is_null(), b.is_null()) {
        (true, true) => true,
        (false, false) => equal(argument.ty, a, b),
        _ => false,
    })
}

impl Step for Aggregate {
    fn next(&mut self, row: &mut Vec<Datum>, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        if self.groups.is_none() {
            self.groups = Some(self.run(rt)?.into_iter());
        }
        let PlanNode::Aggregate { calls, .. } = &*self.plan else {
            return Err(SqlError::internal("an aggregate of another plan"));
        };
        let Some(group) = self.groups.as_mut().and_then(Iterator::next) else { return Ok(false) };
        row.clear();
        row.extend(group.keys);
        for (call, mut state) in calls.iter().zip(group.states) {
            if !call.order.is_empty() || call.distinct {
                let order: Vec<_> = if call.distinct {
                    call.arguments.iter().map(|argument| (argument.ty, false, false)).collect()
                } else {
                    call.order.iter().map(|(e, d, n)| (e.ty, *d, *n)).collect()
                };
                sort_rows(&mut state.ordered, &order);
                for (_, values) in &state.ordered {
                    state.accumulator.add(values, rt.exec)?;
                }
            }
            row.push(state.accumulator.finish()?);
        }
        Ok(true)
    }
}
