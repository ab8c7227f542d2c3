//! The step of a statement with WITH queries.

use std::sync::Arc;

use niwaki_expr::expr::{Running, Runtime, State, Step};
use niwaki_expr::plan::PlanNode;
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::Datum;

use crate::step::start::start;

/// The step that runs a statement, and at the statement's end completes the data-changing queries
/// of its WITH.
pub(crate) struct With {
    plan: Arc<PlanNode>,
    input: Running,
}

impl With {
    pub(crate) fn new(plan: &Arc<PlanNode>, input: &Arc<PlanNode>, state: &State) -> Self {
        Self { plan: Arc::clone(plan), input: start(input, state) }
    }
}

impl Step for With {
    fn next(&mut self, row: &mut Vec<Datum>, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        if self.input.next(row, rt)? {
            return Ok(true);
        }
        let PlanNode::With { queries, .. } = &*self.plan else {
            return Err(SqlError::internal("a WITH of another plan"));
        };
        for query in queries.iter().filter(|query| query.changes) {
            niwaki_expr::expr::nested::shared_rows::run_out(&query.plan, rt)?;
        }
        Ok(false)
    }
}
