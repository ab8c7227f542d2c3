//! Grouping and aggregates.

use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashMap};
use niwaki_types::{Datum, TypeOid, equal, hash};

use super::output::{KeyedRow, sort_rows};
use super::{Step, row_bytes, start};
use crate::aggregates::Accumulator;
use crate::error::{Result, SqlError};
use crate::expr::{Expr, Runtime, is_true};
use crate::plan::{AggregateCall, PlanNode};

/// One group.
struct Group {
    keys: Vec<Datum>,
    states: Vec<CallState>,
}

/// State of one aggregate in one group.
struct CallState {
    accumulator: Accumulator,
    /// For DISTINCT: the places in `ordered` of rows with the same hash.
    seen: Option<HashMap<u64, Vec<usize>>>,
    /// Rows kept for ORDER BY and DISTINCT inside the call: keys, arguments.
    ordered: Vec<KeyedRow>,
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
        let states = calls
            .iter()
            .map(|call| CallState {
                accumulator: Accumulator::new(
                    call.kind,
                    call.arguments.first().map_or(TypeOid::INT8, |a| a.ty),
                ),
                seen: call.distinct.then(Default::default),
                ordered: Vec::new(),
            })
            .collect();
        Group { keys, states }
    }

    fn run(&self, rt: &mut Runtime<'_, '_>) -> Result<Vec<Group>> {
        let PlanNode::Aggregate { input, input_width, groups: exprs, calls } = &*self.plan else {
            return Err(SqlError::internal("an aggregate of another plan"));
        };
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
                    state.accumulator.add(&[])?;
                    continue;
                }
                [argument] if call.order.is_empty() && state.seen.is_none() => {
                    let before = state.accumulator.bytes();
                    let value = argument.eval(row, rt)?;
                    state.accumulator.add(std::slice::from_ref(&value))?;
                    let after = state.accumulator.bytes();
                    if after > before {
                        rt.charge(after - before)?;
                    }
                    continue;
                }
                _ => {}
            }
            let mut values = Vec::with_capacity(call.arguments.len());
            for argument in &call.arguments {
                values.push(argument.eval(row, rt)?);
            }
            if let Some(seen) = &mut state.seen {
                let mut hasher = self.hasher.build_hasher();
                for (argument, value) in call.arguments.iter().zip(&values) {
                    hash(argument.ty, value, &mut hasher);
                }
                let places = seen.entry(hasher.finish()).or_default();
                let known = places.iter().any(|place| match state.ordered.get(*place) {
                    Some((keys, _)) => same_row(keys, &values, &call.arguments),
                    None => false,
                });
                if known {
                    continue;
                }
                places.push(state.ordered.len());
                rt.charge(row_bytes(&values) + size_of::<KeyedRow>())?;
                // They are taken in their order, as PostgreSQL finds equal ones by sorting.
                state.ordered.push((values.clone(), values));
                continue;
            }
            if call.order.is_empty() {
                let before = state.accumulator.bytes();
                state.accumulator.add(&values)?;
                let after = state.accumulator.bytes();
                if after > before {
                    rt.charge(after - before)?;
                }
            } else {
                let mut keys = Vec::with_capacity(call.order.len());
                for (expr, ..) in &call.order {
                    keys.push(expr.eval(row, rt)?);
                }
                rt.charge(row_bytes(&keys) + row_bytes(&values))?;
                state.ordered.push((keys, values));
            }
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
                    state.accumulator.add(values)?;
                }
            }
            row.push(state.accumulator.finish()?);
        }
        Ok(true)
    }
}
