//! Starts steps: asks the executor, which knows all kinds of steps.
//!
//! A step starts its inputs this way, so it names no other kind of step.

use std::sync::Arc;

use niwaki_expr::expr::nested::Demand;
use niwaki_expr::expr::{Running, Runtime, State, Step};
use niwaki_expr::plan::PlanNode;
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::Datum;

/// Starts a plan that reads nothing of surrounding rows. The step is measured if the statement is.
pub fn start(plan: &Arc<PlanNode>, state: &State) -> Running {
    start_for(plan, Demand::SOME, state)
}

/// Starts a plan, as [`start`] does, with a known demand.
pub(crate) fn start_for(plan: &Arc<PlanNode>, demand: Demand, state: &State) -> Running {
    match state.executor {
        Some(executor) => executor.step(plan, demand, state),
        None => Running::new(Outside),
    }
}

/// The step of a plan outside of a statement, which no plan is.
struct Outside;

impl Step for Outside {
    fn next(&mut self, _: &mut Vec<Datum>, _: &mut Runtime<'_, '_>) -> Result<bool> {
        Err(SqlError::internal("a plan outside of a statement"))
    }
}
