//! Nested queries in expressions: runs them and keeps their results.

pub(crate) mod hashed_values;
pub mod shared_rows;
mod sorted_keys;
mod value;

use std::fmt;
use std::sync::Arc;

use niwaki_parse::error::{Result, SqlError};
use niwaki_types::Datum;

use super::{Expr, Running, Runtime, State, UserFunction};
use crate::plan::{PlanNode, SubPlan};
use crate::spool::row_bytes;

/// The use of a step's rows by its caller, as far as known before the step runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// The step runs anew for each surrounding row, and may read the values of those rows.
    Around,
    /// The caller may read only the first rows: this number, or a few more.
    Some(usize),
    /// The caller will read all rows.
    All,
}

impl Demand {
    /// The demand of a caller that may read any number of rows.
    pub const SOME: Self = Self::Some(usize::MAX);

    /// Returns the demand on the input of a step that reads its input to the end before its first
    /// row.
    #[must_use]
    pub fn whole(self) -> Self {
        if self == Self::Around { Self::Around } else { Self::All }
    }

    /// Returns the demand on the input of a step that reads about one input row for each row that
    /// it returns.
    #[must_use]
    pub fn about(self) -> Self {
        if matches!(self, Self::Some(_)) { self } else { Self::SOME }
    }
}

/// The executor of plans. It is above expressions, which ask it to run their nested queries and
/// the functions of users.
pub trait Executor: fmt::Debug + Send + Sync {
    /// Starts the step of a node. If the caller wants all rows, a plan that can run in batches
    /// does, and returns the rows of its batches one by one.
    fn step(&self, plan: &Arc<PlanNode>, demand: Demand, state: &State) -> Running;

    /// Starts a nested query, for a caller that may read at most `limit` rows.
    fn start(&self, plan: &SubPlan, limit: usize, state: &State) -> Running;

    /// Returns the value of a call of a user's function.
    ///
    /// # Errors
    /// The errors of the function's body; `54001` when too many calls stand inside one another.
    fn call(
        &self,
        function: &UserFunction,
        arguments: &[Datum],
        rt: &mut Runtime<'_, '_>,
    ) -> Result<Datum>;
}

/// Starts a nested query, for a caller that may read any number of rows.
fn start(plan: &SubPlan, state: &State) -> Result<Running> {
    start_some(plan, usize::MAX, state)
}

fn start_some(plan: &SubPlan, limit: usize, state: &State) -> Result<Running> {
    // Only statements have plans.
    let outside = || SqlError::internal("a nested query outside of a statement");
    Ok(state.executor.ok_or_else(outside)?.start(plan, limit, state))
}

/// Returns the value of a call of a user's function.
pub(super) fn call(
    function: &UserFunction,
    arguments: &[Expr],
    row: &[Datum],
    rt: &mut Runtime<'_, '_>,
) -> Result<Datum> {
    let Some(values) = argument_values(function, arguments, row, rt)? else {
        return Ok(Datum::Null);
    };
    match rt.state.executor {
        Some(executor) => executor.call(function, &values, rt),
        None => Err(call_outside(function)),
    }
}

/// Returns the error of a call where expressions are evaluated outside of statements. No functions
/// of users are known there.
pub fn call_outside(function: &UserFunction) -> SqlError {
    let name = &function.name;
    SqlError::unsupported(format!("a call of function {name} outside of a statement"))
}

/// Returns the rows of a nested query for the current row, at most `limit`. Results that depend on
/// no outer row are computed once.
fn sub_query_rows(
    plan: &SubPlan,
    row: &[Datum],
    limit: usize,
    rt: &mut Runtime<'_, '_>,
) -> Result<Arc<Vec<Vec<Datum>>>> {
    if !plan.correlated
        && let Some(Some(known)) = rt.state.results.get(plan.number)
    {
        return Ok(Arc::clone(known));
    }
    rt.state.outer.push(if plan.correlated { row.to_vec() } else { Vec::new() });
    let memory = rt.state.memory;
    let rows = collect(plan, limit, rt);
    if plan.correlated {
        // The rows go away with this row of the outer query.
        rt.state.memory = memory;
    }
    rt.state.outer.pop();
    let rows = Arc::new(rows?);
    if !plan.correlated {
        if rt.state.results.len() <= plan.number {
            rt.state.results.resize(plan.number + 1, None);
        }
        rt.state.results[plan.number] = Some(Arc::clone(&rows));
    }
    Ok(rows)
}

fn collect(plan: &SubPlan, limit: usize, rt: &mut Runtime<'_, '_>) -> Result<Vec<Vec<Datum>>> {
    let mut step = start_some(plan, limit, rt.state)?;
    let mut row = Vec::new();
    let mut rows = Vec::new();
    // The CASE operands of the outer expression do not belong to the nested query.
    let operands = std::mem::take(&mut rt.state.case_operands);
    let width = plan.columns.len();
    let result = loop {
        if rows.len() >= limit {
            break Ok(());
        }
        match step.next(&mut row, rt) {
            Ok(true) => {
                let kept = row.get(..width).unwrap_or(&row).to_vec();
                if limit > 2
                    && let Err(error) = rt.charge(row_bytes(&kept))
                {
                    break Err(error);
                }
                rows.push(kept);
            }
            Ok(false) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    rt.state.case_operands = operands;
    result.map(|()| rows)
}

/// Decides with SQL's three values whether `compare` holds for a row of a nested query (`any`), or
/// for all its rows. Runs the query for the current row, and only until the result is known.
fn compare_each(
    plan: &SubPlan,
    row: &[Datum],
    any: bool,
    rt: &mut Runtime<'_, '_>,
    compare: &mut dyn FnMut(&[Datum], &mut Runtime<'_, '_>) -> Result<Datum>,
) -> Result<Datum> {
    let memory = rt.state.memory;
    let mut step = start(plan, rt.state)?;
    let (mut outer, mut candidate) = (row.to_vec(), Vec::new());
    let mut unknown = false;
    let found = loop {
        rt.state.outer.push(outer);
        // The CASE operands of the outer expression do not belong to the nested query.
        let operands = std::mem::take(&mut rt.state.case_operands);
        let more = step.next(&mut candidate, rt);
        rt.state.case_operands = operands;
        outer = rt.state.outer.pop().unwrap_or_default();
        if !more? {
            break if unknown { Datum::Null } else { Datum::Bool(!any) };
        }
        match compare(&candidate, rt)? {
            Datum::Bool(found) if found == any => break Datum::Bool(any),
            Datum::Null => unknown = true,
            _ => {}
        }
    };
    // The nested query's memory goes away with the query.
    rt.state.memory = memory;
    Ok(found)
}

/// Evaluates the arguments of a call. Returns `None` if an argument is NULL and the function is
/// strict.
///
/// # Errors
/// The errors of the evaluation.
pub fn argument_values(
    function: &UserFunction,
    arguments: &[Expr],
    row: &[Datum],
    rt: &mut Runtime<'_, '_>,
) -> Result<Option<Vec<Datum>>> {
    let mut values = Vec::with_capacity(arguments.len());
    for argument in arguments {
        values.push(argument.eval(row, rt)?);
    }
    let skipped = function.strict && values.iter().any(Datum::is_null);
    Ok((!skipped).then_some(values))
}
