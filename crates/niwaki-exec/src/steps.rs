//! The executor: makes the step of each kind of plan.

use std::sync::Arc;

use niwaki_env::stack;
use niwaki_expr::expr::nested::{Demand, Executor};
use niwaki_expr::expr::{Running, Runtime, State, UserFunction};
use niwaki_expr::plan::{FunctionBodies, PlanNode, SubPlan};
use niwaki_parse::error::Result;
use niwaki_types::Datum;

use crate::step::start::start_for;

fn start_here(plan: &Arc<PlanNode>, demand: Demand, state: &State) -> Running {
    if demand == Demand::All
        && let Some(step) = crate::batches::start::start_rows(plan)
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

fn plain(plan: &Arc<PlanNode>, demand: Demand, state: &State) -> Running {
    match &**plan {
        PlanNode::Result => Running::new(crate::source::rows::OneRow { done: false }),
        PlanNode::Scan(_) => Running::new(crate::source::scan::TableScan::new(plan, demand)),
        PlanNode::Append(append) if !append.merge.is_empty() => {
            Running::new(crate::order::merge_append::MergeAppend::new(plan, demand))
        }
        PlanNode::Append(_) => Running::new(crate::source::append::Append::new(plan, demand)),
        PlanNode::Virtual { .. }
        | PlanNode::SubQuery { .. }
        | PlanNode::Shared { .. }
        | PlanNode::Working(_)
        | PlanNode::Function { .. }
        | PlanNode::Single { .. } => Running::new(crate::source::rows::RowSource::new(plan)),
        PlanNode::Values { .. } => Running::new(crate::source::rows::Values::new(plan)),
        PlanNode::Join(join) if !join.merge.is_empty() => {
            Running::new(crate::joins::merge_join::MergeJoin::new(plan, demand, state))
        }
        PlanNode::Join(_) => Running::new(crate::joins::step::Join::new(plan, demand, state)),
        PlanNode::Filter { .. } => Running::new(crate::flow::output::Filter::new(plan, demand)),
        PlanNode::Gate { .. } => Running::new(crate::flow::gate::Gate::new(plan, demand)),
        // Only callers that take batches use parallel workers.
        PlanNode::Gather { input, .. } => start_for(input, demand, state),
        PlanNode::Aggregate { sorted: true, .. } => {
            Running::new(crate::grouping::sorted_aggregate::SortedAggregate::new(plan))
        }
        PlanNode::Aggregate { .. } => {
            Running::new(crate::grouping::aggregate::Aggregate::new(plan))
        }
        PlanNode::Window { .. } => Running::new(crate::window::WindowStep::new(plan)),
        PlanNode::Project { .. } => Running::new(crate::flow::output::Project::new(plan, demand)),
        PlanNode::Sort { presorted: 0, .. } => {
            Running::new(crate::order::sort::Sort::new(plan, demand))
        }
        PlanNode::Sort { .. } => {
            Running::new(crate::order::incremental_sort::IncrementalSort::new(plan, demand))
        }
        PlanNode::Distinct { .. } => Running::new(crate::grouping::distinct::Distinct::new(plan)),
        PlanNode::First { .. } => Running::new(crate::order::first::First::new(plan)),
        PlanNode::Unique { .. } => Running::new(crate::grouping::unique::Unique::new(plan, demand)),
        PlanNode::Limit { .. } => Running::new(crate::flow::output::Limit::new(plan)),
        PlanNode::LockRows { .. } => {
            Running::new(crate::change::modify::LockRows::new(plan, demand))
        }
        PlanNode::SetOperation { .. } => {
            Running::new(crate::grouping::distinct::SetOperation::new(plan, state))
        }
        PlanNode::Recursive(_) => Running::new(crate::flow::recursive::Recursive::new(plan)),
        PlanNode::With { input, .. } => {
            Running::new(crate::flow::with::With::new(plan, input, state))
        }
        PlanNode::Modify(_) => Running::new(crate::change::modify::Modify::new(plan)),
        PlanNode::Merge(_) => Running::new(crate::change::merge::Merge::new(plan)),
    }
}

/// The executor for expressions.
#[derive(Debug)]
struct Plans;

impl Executor for Plans {
    fn step(&self, plan: &Arc<PlanNode>, demand: Demand, state: &State) -> Running {
        stack::room(0, || start_here(plan, demand, state))
    }

    fn start(&self, plan: &SubPlan, limit: usize, state: &State) -> Running {
        start_for(&plan.root, Demand::Some(limit), state)
    }

    fn call(
        &self,
        function: &UserFunction,
        arguments: &[Datum],
        rt: &mut Runtime<'_, '_>,
    ) -> Result<Datum> {
        crate::source::function::call(function, arguments, rt)
    }
}

/// Makes the state of a statement that has not started, and that calls these functions of users.
pub fn fresh_state(functions: Option<Arc<FunctionBodies>>) -> State {
    State::of_statement(Some(&Plans), functions)
}
