//! Evaluates a condition that reads nothing of the rows, once for all of them.

use std::sync::Arc;

use niwaki_expr::expr::nested::Demand;
use niwaki_expr::expr::{Running, Runtime, Step};
use niwaki_expr::plan::PlanNode;
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::Datum;

use crate::step::start::start_for;

/// The step that lets all rows of its input through, or none.
pub(crate) struct Gate {
    plan: Arc<PlanNode>,
    demand: Demand,
    state: State,
}

enum State {
    NotAsked,
    Open(Running),
    Closed,
}

impl Gate {
    pub(crate) fn new(plan: &Arc<PlanNode>, demand: Demand) -> Self {
        Self { plan: Arc::clone(plan), demand, state: State::NotAsked }
    }
}

impl Step for Gate {
    fn next(&mut self, row: &mut Vec<Datum>, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        if matches!(self.state, State::NotAsked) {
            let PlanNode::Gate { input, condition } = &*self.plan else {
                return Err(SqlError::internal("a gate of another plan"));
            };
            self.state = if condition.holds(row, rt)? {
                State::Open(start_for(input, self.demand, rt.state))
            } else {
                State::Closed
            };
        }
        match &mut self.state {
            State::Open(step) => step.next(row, rt),
            State::NotAsked | State::Closed => Ok(false),
        }
    }
}
