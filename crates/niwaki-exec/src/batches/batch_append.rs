//! Reads the rows of a table's partitions in batches, one partition after the other.

use std::sync::Arc;

use niwaki_expr::expr::{Batch, Expr, Runtime};
use niwaki_expr::plan::{AppendPlan, PlanNode};
use niwaki_parse::error::{Result, SqlError};

use super::batch_scan::BatchScan;

use super::batch_step::{BatchStep, Selection, clock, given};
use crate::batches::parallel::Division;
use crate::source::append::admitted;

/// The step that scans partitions whose columns have the table's order.
pub(super) struct BatchAppend {
    plan: Arc<PlanNode>,
    /// The leaves that may have rows, once the conditions' values are known.
    possible: Option<Vec<bool>>,
    /// The number of the next member.
    next: usize,
    step: Option<Box<dyn BatchStep>>,
    /// The blocks that are left in each member's table, if threads divide the tables.
    divisions: Vec<Arc<Division>>,
    begun: bool,
}

impl BatchAppend {
    /// Makes the step. Returns `None` if the plan merges the rows, or if some partition's rows
    /// cannot come in batches.
    pub(super) fn new(plan: &Arc<PlanNode>, append: &AppendPlan) -> Option<Self> {
        let fits = append.merge.is_empty()
            && append.members.iter().all(|member| {
                member.copies.is_empty()
                    && member.filter.as_ref().is_none_or(Expr::may_run_ahead)
                    && super::batch_start::start(&member.scan).is_some()
            });
        fits.then(|| Self::of(plan, Vec::new()))
    }

    fn of(plan: &Arc<PlanNode>, divisions: Vec<Arc<Division>>) -> Self {
        let plan = Arc::clone(plan);
        Self { plan, possible: None, next: 0, step: None, divisions, begun: false }
    }

    fn run(
        &mut self,
        append: &AppendPlan,
        batch: &mut Batch,
        selection: &mut Selection,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<bool> {
        if !self.begun {
            self.possible = admitted(append, &[], rt);
        }
        loop {
            if let Some(step) = &mut self.step {
                if step.next(batch, selection, rt)? {
                    if let Some(member) = append.members.get(self.next - 1)
                        && let Some(filter) = &member.filter
                    {
                        selection.narrow(filter, batch, rt)?;
                    }
                    return Ok(true);
                }
                self.step = None;
            }
            let Some(member) = append.members.get(self.next) else {
                // Stopped threads may have left blocks.
                if !self.divisions.is_empty() {
                    self.next = 0;
                }
                return Ok(false);
            };
            let division = self.divisions.get(self.next);
            self.next += 1;
            if self.possible.as_ref().is_none_or(|possible| possible[member.leaf]) {
                self.step = match division {
                    Some(division) => BatchScan::divided(&member.scan, division),
                    None => super::batch_start::start(&member.scan),
                };
            }
        }
    }
}

impl BatchStep for BatchAppend {
    fn next(
        &mut self,
        batch: &mut Batch,
        selection: &mut Selection,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<bool> {
        let plan = Arc::clone(&self.plan);
        let PlanNode::Append(append) = &*plan else {
            return Err(SqlError::internal("partitions of another plan"));
        };
        let before = clock(rt);
        let found = self.run(append, batch, selection, rt)?;
        Ok(given(found, &plan, &mut self.begun, (batch, selection), before, rt))
    }

    fn divide(&mut self, division: &Arc<Division>, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        let PlanNode::Append(append) = &*self.plan else { return Ok(false) };
        let mut divisions = Vec::with_capacity(append.members.len());
        for member in &append.members {
            let own = Arc::new(division.another());
            let Some(mut step) = super::batch_start::start(&member.scan) else { return Ok(false) };
            if !step.divide(&own, rt)? {
                return Ok(false);
            }
            divisions.push(own);
        }
        self.divisions = divisions;
        Ok(!self.divisions.is_empty())
    }

    fn for_thread(&self) -> Option<Box<dyn BatchStep>> {
        let divided = !self.divisions.is_empty();
        divided.then(|| Box::new(Self::of(&self.plan, self.divisions.clone())) as Box<_>)
    }
}
