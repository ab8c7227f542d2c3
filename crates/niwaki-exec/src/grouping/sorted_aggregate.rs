//! Groups rows that arrive in the order of their group values, one group after the other.

use std::sync::Arc;

use niwaki_expr::expr::{Expr, Running, Runtime, Step, is_true};
use niwaki_expr::plan::PlanNode;
use niwaki_expr::query::AggregateCall;
use niwaki_functions::aggregates::Accumulator;
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::{Datum, KeyOrder, TypeOid, encode_key};

use crate::step::start::start;

/// The step that returns the row of a group when the first row of the next group arrives.
pub(crate) struct SortedAggregate {
    plan: Arc<PlanNode>,
    /// `None` before the first row, and at the end.
    input: Option<Running>,
    begun: bool,
    row: Vec<Datum>,
    /// The group at hand: its group values, their key, and a state for each call.
    values: Vec<Datum>,
    key: Vec<u8>,
    states: Vec<Accumulator>,
    /// Bytes charged for the states.
    held: usize,
    /// The key of the last row read.
    next_key: Vec<u8>,
}

impl SortedAggregate {
    pub(crate) fn new(plan: &Arc<PlanNode>) -> Self {
        Self {
            plan: Arc::clone(plan),
            input: None,
            begun: false,
            row: Vec::new(),
            values: Vec::new(),
            key: Vec::new(),
            states: Vec::new(),
            held: 0,
            next_key: Vec::new(),
        }
    }

    /// Begins a group with the row at hand, whose key is `next_key`.
    fn begin(&mut self, values: Vec<Datum>, calls: &[AggregateCall]) {
        self.values = values;
        std::mem::swap(&mut self.key, &mut self.next_key);
        let new = |call: &AggregateCall| {
            let types: Vec<TypeOid> = call.arguments.iter().map(|argument| argument.ty).collect();
            Accumulator::new(call.kind, &types)
        };
        self.states = calls.iter().map(new).collect();
    }

    /// Takes the row at hand into the group.
    fn take(&mut self, calls: &[AggregateCall], rt: &mut Runtime<'_, '_>) -> Result<()> {
        for (call, state) in calls.iter().zip(&mut self.states) {
            if let Some(filter) = &call.filter
                && !is_true(&filter.eval(&self.row, rt)?)
            {
                continue;
            }
            let mut arguments = Vec::with_capacity(call.arguments.len());
            for argument in &call.arguments {
                arguments.push(argument.eval(&self.row, rt)?);
            }
            let before = state.bytes();
            state.add(&arguments, rt.exec)?;
            if state.grows() {
                let more = state.bytes().saturating_sub(before);
                self.held += more;
                rt.charge(more)?;
            }
        }
        Ok(())
    }

    /// Ends the group at hand, and puts its row into `row`.
    fn finish(&mut self, row: &mut Vec<Datum>, rt: &mut Runtime<'_, '_>) -> Result<()> {
        row.clear();
        row.append(&mut self.values);
        for state in self.states.drain(..) {
            row.push(state.finish()?);
        }
        rt.state.memory = rt.state.memory.saturating_sub(std::mem::take(&mut self.held));
        Ok(())
    }
}

/// Computes the group values of a row, and puts their key into `key`.
fn group_of(
    exprs: &[Expr],
    row: &[Datum],
    key: &mut Vec<u8>,
    rt: &mut Runtime<'_, '_>,
) -> Result<Vec<Datum>> {
    key.clear();
    let mut values = Vec::with_capacity(exprs.len());
    for expr in exprs {
        let value = expr.eval(row, rt)?;
        encode_key(&value, KeyOrder::ascending(expr.ty), key);
        values.push(value);
    }
    Ok(values)
}

impl Step for SortedAggregate {
    fn next(&mut self, row: &mut Vec<Datum>, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        let plan = Arc::clone(&self.plan);
        let PlanNode::Aggregate { input, input_width, groups, calls, .. } = &*plan else {
            return Err(SqlError::internal("an aggregate of another plan"));
        };
        if !self.begun {
            self.begun = true;
            self.row.resize(*input_width, Datum::Null);
            self.input = Some(start(input, rt.state));
        }
        while let Some(step) = &mut self.input {
            if !step.next(&mut self.row, rt)? {
                self.input = None;
                if self.values.is_empty() {
                    break;
                }
                self.finish(row, rt)?;
                return Ok(true);
            }
            rt.tick()?;
            let values = group_of(groups, &self.row, &mut self.next_key, rt)?;
            if !self.values.is_empty() && self.key == self.next_key {
                self.take(calls, rt)?;
                continue;
            }
            let ended = !self.values.is_empty();
            if ended {
                self.finish(row, rt)?;
            }
            self.begin(values, calls);
            self.take(calls, rt)?;
            if ended {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
