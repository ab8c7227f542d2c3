//! The executor: makes the step of each kind of plan.

use std::sync::Arc;

use niwaki_env::stack;
use niwaki_expr::expr::measure::Measured;
use niwaki_expr::expr::nested::{Demand, Executor};
use niwaki_expr::expr::{Running, Runtime, State, UserFunction};
use niwaki_expr::plan::{FunctionBodies, PlanNode, SubPlan};
use niwaki_parse::error::Result;
use niwaki_types::Datum;

use crate::batches::batch_start::start_rows;
use crate::change::merge::Merge;
use crate::change::modify::{LockRows, Modify};
use crate::flow::gate::Gate;
use crate::flow::output::{Filter, Limit, Project};
use crate::flow::recursive::Recursive;
use crate::flow::with::With;
use crate::grouping::aggregate::Aggregate;
use crate::grouping::distinct::{Distinct, SetOperation};
use crate::grouping::sorted_aggregate::SortedAggregate;
use crate::grouping::unique::Unique;
use crate::joins::join_step::Join;
use crate::joins::merge_join::MergeJoin;
use crate::order::distinct_on::First;
use crate::order::incremental_sort::IncrementalSort;
use crate::order::merge_append::MergeAppend;
use crate::order::sort::Sort;
use crate::source::append::Append;
use crate::source::function;
use crate::source::rows::{RowSource, Values};
use crate::source::scan::TableScan;
use crate::step::start::start_for;
use crate::window::WindowStep;

fn start_here(plan: &Arc<PlanNode>, demand: Demand, state: &State) -> Running {
    if demand == Demand::All
        && let Some(step) = start_rows(plan)
    {
        // Steps in batches measure themselves.
        return Running::new(step);
    }
    let step = plain(plan, demand, state);
    if state.measures.is_some() { Running::new(Measured::new(plan, step)) } else { step }
}

fn plain(plan: &Arc<PlanNode>, demand: Demand, state: &State) -> Running {
    match &**plan {
        PlanNode::Result => Running::new(crate::source::rows::OneRow { done: false }),
        PlanNode::Scan(_) => Running::new(TableScan::new(plan, demand)),
        PlanNode::Append(append) if !append.merge.is_empty() => {
            Running::new(MergeAppend::new(plan, demand))
        }
        PlanNode::Append(_) => Running::new(Append::new(plan, demand)),
        PlanNode::Virtual { .. }
        | PlanNode::SubQuery { .. }
        | PlanNode::Shared { .. }
        | PlanNode::Working(_)
        | PlanNode::Function { .. }
        | PlanNode::Single { .. } => Running::new(RowSource::new(plan)),
        PlanNode::Values { .. } => Running::new(Values::new(plan)),
        PlanNode::Join(join) if !join.merge.is_empty() => {
            Running::new(MergeJoin::new(plan, demand, state))
        }
        PlanNode::Join(_) => Running::new(Join::new(plan, demand, state)),
        PlanNode::Filter { .. } => Running::new(Filter::new(plan, demand)),
        PlanNode::Gate { .. } => Running::new(Gate::new(plan, demand)),
        // Only callers that take batches use parallel workers.
        PlanNode::Gather { input, .. } => start_for(input, demand, state),
        PlanNode::Aggregate { sorted: true, .. } => Running::new(SortedAggregate::new(plan)),
        PlanNode::Aggregate { .. } => Running::new(Aggregate::new(plan)),
        PlanNode::Window { .. } => Running::new(WindowStep::new(plan)),
        PlanNode::Project { .. } => Running::new(Project::new(plan, demand)),
        PlanNode::Sort { presorted: 0, .. } => Running::new(Sort::new(plan, demand)),
        PlanNode::Sort { .. } => Running::new(IncrementalSort::new(plan, demand)),
        PlanNode::Distinct { .. } => Running::new(Distinct::new(plan)),
        PlanNode::First { .. } => Running::new(First::new(plan)),
        PlanNode::Unique { .. } => Running::new(Unique::new(plan, demand)),
        PlanNode::Limit { .. } => Running::new(Limit::new(plan)),
        PlanNode::LockRows { .. } => Running::new(LockRows::new(plan, demand)),
        PlanNode::SetOperation { .. } => Running::new(SetOperation::new(plan, state)),
        PlanNode::Recursive(_) => Running::new(Recursive::new(plan)),
        PlanNode::With { input, .. } => Running::new(With::new(plan, input, state)),
        PlanNode::Modify(_) => Running::new(Modify::new(plan)),
        PlanNode::Merge(_) => Running::new(Merge::new(plan)),
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
        function::call(function, arguments, rt)
    }
}

/// Makes the state of a statement that has not started, and that calls these functions of users.
pub fn fresh_state(functions: Option<Arc<FunctionBodies>>) -> State {
    State::of_statement(Some(&Plans), functions)
}
