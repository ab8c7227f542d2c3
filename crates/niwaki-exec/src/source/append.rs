//! Reads the rows of a table's partitions, one partition after the other.

use std::sync::Arc;

use niwaki_expr::expr::nested::Demand;
use niwaki_expr::expr::{Running, Runtime, Step};
use niwaki_expr::plan::{AppendMember, AppendPlan, PlanNode, is_early, possible_leaves};
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::{Datum, work};

use crate::step::start::start_for;

/// The step that scans partitions one after the other.
pub(crate) struct Append {
    plan: Arc<PlanNode>,
    demand: Demand,
    begun: bool,
    /// The leaves that may have rows, once the conditions' values are known.
    possible: Option<Vec<bool>>,
    next: usize,
    step: Option<Running>,
}

impl Append {
    pub(crate) fn new(plan: &Arc<PlanNode>, demand: Demand) -> Self {
        let plan = Arc::clone(plan);
        Self { plan, demand, begun: false, possible: None, next: 0, step: None }
    }
}

/// Returns the leaves that the conditions admit now, or `None` if conditions prune none.
/// `row` has the values of surrounding rows that the scans read.
pub(crate) fn admitted(
    plan: &AppendPlan,
    row: &[Datum],
    rt: &mut Runtime<'_, '_>,
) -> Option<Vec<bool>> {
    if plan.prune.is_empty() {
        return None;
    }
    let width = plan.relation.columns.len();
    let slot_of = |column: usize| (column < width).then_some(plan.start + column);
    // The scans meet an expression that fails or takes long again, if there are rows.
    let _asking = work::asking(Some(work::ahead()));
    let mut value = |expr: &niwaki_expr::expr::Expr| {
        if is_early(expr, plan) { expr.eval(row, rt).ok() } else { None }
    };
    Some(possible_leaves(&plan.relation, &slot_of, &plan.prune, &mut value))
}

/// Copies the values of a partition's row into the slots of the table's columns.
/// Returns false if the row does not satisfy the member's filter.
pub(crate) fn is_of_table(
    member: &AppendMember,
    row: &mut [Datum],
    rt: &mut Runtime<'_, '_>,
) -> Result<bool> {
    for (from, to) in &member.copies {
        row[*to] = std::mem::replace(&mut row[*from], Datum::Null);
    }
    member.filter.as_ref().map_or(Ok(true), |filter| filter.holds(row, rt))
}

impl Step for Append {
    fn next(&mut self, row: &mut Vec<Datum>, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        let plan = Arc::clone(&self.plan);
        let PlanNode::Append(append) = &*plan else {
            return Err(SqlError::internal("partitions of another plan"));
        };
        let end = append.slots().end;
        if row.len() < end {
            row.resize(end, Datum::Null);
        }
        if !self.begun {
            self.begun = true;
            self.possible = admitted(append, row, rt);
        }
        loop {
            let Some(number) = self.next.checked_sub(usize::from(self.step.is_some())) else {
                return Ok(false);
            };
            let Some(member) = append.members.get(number) else { return Ok(false) };
            let Some(step) = &mut self.step else {
                self.next += 1;
                if self.possible.as_ref().is_none_or(|possible| possible[member.leaf]) {
                    self.step = Some(start_for(&member.scan, self.demand, rt.state));
                }
                continue;
            };
            if !step.next(row, rt)? {
                self.step = None;
                continue;
            }
            if is_of_table(member, row, rt)? {
                return Ok(true);
            }
        }
    }
}
