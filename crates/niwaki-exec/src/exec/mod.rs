//! Runs plans as trees of steps that return rows one at a time, or in batches where the caller
//! wants all rows ([`batches`]).

mod aggregate;
mod append;
mod batches;
mod conflict;
mod distinct;
mod first;
pub mod function;
mod gate;
mod groups;
mod hash_join;
mod incremental_sort;
mod join;
pub(crate) mod json_records;
mod keys;
mod merge;
mod merge_append;
mod merge_join;
mod modify;
pub mod numbered_rows;
mod ordered_input;
mod output;
mod parallel;
mod partitions;
pub mod point;
mod recursive;
mod scan;
mod seen_rows;
mod sort;
mod sorted_aggregate;
mod source;
pub(crate) mod spill;
mod states;
pub mod trigger;
mod unique;
mod unique_rows;
mod window;
mod with;

use std::sync::Arc;

use niwaki_env::stack;
use niwaki_expr::expr::nested::Executor;
use niwaki_expr::expr::{Running, Runtime, State, UserFunction};
use niwaki_expr::plan::{FunctionBodies, PlanNode, SubPlan};
use niwaki_parse::error::Result;
use niwaki_types::Datum;

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
pub fn start(plan: &Arc<PlanNode>, state: &State) -> Running {
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
    if state.measures.is_some() {
        Running::new(niwaki_expr::expr::measure::Measured::new(plan, step))
    } else {
        step
    }
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
    if state.measures.is_some() {
        Running::new(niwaki_expr::expr::measure::Measured::new(plan, step))
    } else {
        step
    }
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

/// The executor for expressions.
struct Plans;

impl Executor for Plans {
    fn start(&self, plan: &SubPlan, limit: usize, state: &State) -> Running {
        start_for(&plan.root, Demand::Some(limit), state)
    }

    fn call(
        &self,
        function: &UserFunction,
        arguments: &[Datum],
        rt: &mut Runtime<'_, '_>,
    ) -> Result<Datum> {
        function::call(function, arguments, rt)
    }
}

/// Makes the state of a statement that has not started, and that calls these functions of users.
pub fn fresh_state(functions: Option<Arc<FunctionBodies>>) -> State {
    State::of_statement(Some(&Plans), functions)
}
