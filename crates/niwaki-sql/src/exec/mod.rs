//! Runs plans as trees of steps that return rows one at a time, or in batches where the caller
//! wants all rows ([`batches`]).

mod aggregate;
mod append;
mod batches;
mod conflict;
mod distinct;
mod first;
pub(crate) mod function;
mod gate;
mod groups;
mod hash_join;
pub(crate) mod hashed_values;
mod incremental_sort;
mod join;
pub(crate) mod json_records;
pub(crate) mod kept_rows;
mod key_chains;
mod key_table;
mod keys;
pub(crate) mod measure;
mod merge;
mod merge_append;
mod merge_join;
mod modify;
pub(crate) mod numbered_rows;
mod ordered_input;
mod output;
mod parallel;
mod partitions;
pub(crate) mod point;
mod recursive;
mod scan;
mod seen_rows;
pub(crate) mod shared_rows;
mod sort;
mod sorted_aggregate;
mod sorted_keys;
mod source;
pub(crate) mod spill;
mod states;
mod trigger;
mod unique;
mod unique_rows;
pub(crate) mod value_lists;
mod window;
mod with;

use std::sync::Arc;

use niwaki_env::stack;
use niwaki_env::sync::atomic::Ordering;
use niwaki_types::Datum;
pub(crate) use niwaki_types::growing::value_bytes;

use crate::error::{Result, SqlError};
use crate::expr::{Runtime, State};
use crate::plan::{FunctionBodies, PlanNode, SubPlan};

pub use function::Calls;
pub(crate) use keys::{Fit, fit};
pub use trigger::FiredTrigger;

/// A running step of a plan. Steps below a projection write their slots of one shared row; a
/// projection makes a row of its own.
pub(crate) trait Step: Send {
    /// Puts the next row's values into `row`. Returns false when there is none.
    fn next(&mut self, row: &mut Vec<Datum>, rt: &mut Runtime<'_, '_>) -> Result<bool>;
}

/// A step in the hands of its caller. Each call of the step, and its drop, first checks the room on
/// the stack.
pub(crate) struct Running(Option<Box<dyn Step>>);

impl Running {
    fn new(step: impl Step + 'static) -> Self {
        Self(Some(Box::new(step)))
    }

    /// Reads the next row, as [`Step::next`] does.
    #[inline]
    pub(crate) fn next(&mut self, row: &mut Vec<Datum>, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        match &mut self.0 {
            Some(step) => stack::deeper(|| step.next(row, rt)),
            None => Ok(false),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let step = self.0.take();
        stack::room(0, || drop(step));
    }
}

/// The number of rows between two checks for interrupts.
const ROWS_PER_CHECK: u32 = 512;

impl Runtime<'_, '_> {
    /// Counts a row of work. Checks for interrupts every [`ROWS_PER_CHECK`] rows.
    #[inline]
    pub(crate) fn tick(&mut self) -> Result<()> {
        self.state.ticks += 1;
        if self.state.ticks >= ROWS_PER_CHECK {
            self.state.ticks = 0;
            self.check_interrupts()?;
        }
        Ok(())
    }

    /// Fails if the session was interrupted, or if another thread of the step has failed.
    pub(crate) fn check_interrupts(&mut self) -> Result<()> {
        // Relaxed: the error itself is read when all threads have ended.
        if self.state.halted.as_ref().is_some_and(|halted| halted.load(Ordering::Relaxed)) {
            return Err(SqlError::internal("another thread of the statement has failed"));
        }
        self.exec.environment.check_interrupts()
    }

    /// Charges the statement for memory that cannot go to temporary files.
    pub(crate) fn charge(&mut self, bytes: usize) -> Result<()> {
        self.state.memory += bytes;
        if self.state.memory > self.exec.memory_limit {
            return Err(SqlError::new("53200", "out of memory").with_detail(format!(
                "The statement needs more than {} bytes for values that must stay in memory.",
                self.exec.memory_limit
            )));
        }
        Ok(())
    }
}

/// Returns the approximate bytes of a kept row.
pub(crate) fn row_bytes(row: &[Datum]) -> usize {
    row.iter().map(value_bytes).sum::<usize>() + size_of_val(row) + 24
}

/// The use of a step's rows by its caller, as far as known before the step runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Demand {
    /// The step runs anew for each surrounding row, and may read the values of those rows.
    Around,
    /// The caller may read only the first rows: this number, or a few more.
    Some(usize),
    /// The caller will read all rows.
    All,
}

impl Demand {
    /// The demand of a caller that may read any number of rows.
    const SOME: Self = Self::Some(usize::MAX);

    /// Returns the demand on the input of a step that reads its input to the end before its first
    /// row.
    fn whole(self) -> Self {
        if self == Self::Around { Self::Around } else { Self::All }
    }

    /// Returns the demand on the input of a step that reads about one input row for each row that
    /// it returns.
    fn about(self) -> Self {
        if matches!(self, Self::Some(_)) { self } else { Self::SOME }
    }
}

/// Starts a plan that reads nothing of surrounding rows. The step is measured if the statement is.
pub(crate) fn start(plan: &Arc<PlanNode>, state: &State) -> Running {
    start_for(plan, Demand::SOME, state)
}

/// Starts a plan, as [`start`] does, with a known demand.
/// If the caller wants all rows, a plan that can run in batches does, and returns the rows of its
/// batches one by one.
fn start_for(plan: &Arc<PlanNode>, demand: Demand, state: &State) -> Running {
    stack::room(0, || start_here(plan, demand, state))
}

fn start_here(plan: &Arc<PlanNode>, demand: Demand, state: &State) -> Running {
    if demand == Demand::All
        && let Some(step) = batches::start_rows(plan)
    {
        // Steps in batches measure themselves.
        return Running::new(step);
    }
    let step = plain(plan, demand, state);
    if state.measures.is_some() { Running::new(measure::Measured::new(plan, step)) } else { step }
}

/// Starts a plan, as [`start`] does, for a caller that reads at most `wanted` rows.
fn start_first(plan: &Arc<PlanNode>, wanted: Option<u64>, state: &State) -> Running {
    let Some(wanted) = wanted.and_then(|wanted| usize::try_from(wanted).ok()) else {
        return start(plan, state);
    };
    if !matches!(&**plan, PlanNode::Sort { presorted: 0, .. }) {
        return start_for(plan, Demand::Some(wanted), state);
    }
    let step = Running::new(sort::Sort::of_first(plan, wanted, Demand::SOME));
    if state.measures.is_some() { Running::new(measure::Measured::new(plan, step)) } else { step }
}

fn plain(plan: &Arc<PlanNode>, demand: Demand, state: &State) -> Running {
    match &**plan {
        PlanNode::Result => Running::new(source::OneRow { done: false }),
        PlanNode::Scan(_) => Running::new(scan::TableScan::new(plan, demand)),
        PlanNode::Append(append) if !append.merge.is_empty() => {
            Running::new(merge_append::MergeAppend::new(plan, demand))
        }
        PlanNode::Append(_) => Running::new(append::Append::new(plan, demand)),
        PlanNode::Virtual { .. }
        | PlanNode::SubQuery { .. }
        | PlanNode::Shared { .. }
        | PlanNode::Working(_)
        | PlanNode::Function { .. }
        | PlanNode::Single { .. } => Running::new(source::RowSource::new(plan)),
        PlanNode::Values { .. } => Running::new(source::Values::new(plan)),
        PlanNode::Join(join) if !join.merge.is_empty() => {
            Running::new(merge_join::MergeJoin::new(plan, demand, state))
        }
        PlanNode::Join(_) => Running::new(join::Join::new(plan, demand, state)),
        PlanNode::Filter { .. } => Running::new(output::Filter::new(plan, demand)),
        PlanNode::Gate { .. } => Running::new(gate::Gate::new(plan, demand)),
        // Only callers that take batches use parallel workers.
        PlanNode::Gather { input, .. } => start_for(input, demand, state),
        PlanNode::Aggregate { sorted: true, .. } => {
            Running::new(sorted_aggregate::SortedAggregate::new(plan))
        }
        PlanNode::Aggregate { .. } => Running::new(aggregate::Aggregate::new(plan)),
        PlanNode::Window { .. } => Running::new(window::WindowStep::new(plan)),
        PlanNode::Project { .. } => Running::new(output::Project::new(plan, demand)),
        PlanNode::Sort { presorted: 0, .. } => Running::new(sort::Sort::new(plan, demand)),
        PlanNode::Sort { .. } => Running::new(incremental_sort::IncrementalSort::new(plan, demand)),
        PlanNode::Distinct { .. } => Running::new(distinct::Distinct::new(plan)),
        PlanNode::First { .. } => Running::new(first::First::new(plan)),
        PlanNode::Unique { .. } => Running::new(unique::Unique::new(plan, demand)),
        PlanNode::Limit { .. } => Running::new(output::Limit::new(plan)),
        PlanNode::LockRows { .. } => Running::new(modify::LockRows::new(plan, demand)),
        PlanNode::SetOperation { .. } => Running::new(distinct::SetOperation::new(plan, state)),
        PlanNode::Recursive(_) => Running::new(recursive::Recursive::new(plan)),
        PlanNode::With { input, .. } => Running::new(with::With::new(plan, input, state)),
        PlanNode::Modify(_) => Running::new(modify::Modify::new(plan)),
        PlanNode::Merge(_) => Running::new(merge::Merge::new(plan)),
    }
}

/// Returns the rows of a nested query for the current row, at most `limit`. Results that depend on
/// no outer row are computed once.
pub(crate) fn sub_query_rows(
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
    let mut step = start_for(&plan.root, Demand::Some(limit), rt.state);
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
pub(crate) fn compare_each(
    plan: &SubPlan,
    row: &[Datum],
    any: bool,
    rt: &mut Runtime<'_, '_>,
    compare: &mut dyn FnMut(&[Datum], &mut Runtime<'_, '_>) -> Result<Datum>,
) -> Result<Datum> {
    let memory = rt.state.memory;
    let mut step = start(&plan.root, rt.state);
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

/// Makes the state of a statement that has not started, and that calls these functions of users.
pub(crate) fn fresh_state(functions: Option<Arc<FunctionBodies>>) -> State {
    State { functions, ..State::default() }
}
