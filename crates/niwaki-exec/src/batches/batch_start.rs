//! Starts plans in batches, where their rows can come in batches.

use std::sync::Arc;

use niwaki_env::stack;
use niwaki_expr::expr::Expr;
use niwaki_expr::plan::{PathPlan, PlanNode, ScanPlan};

use super::batch_append::BatchAppend;
use super::batch_scan::{BatchFilter, BatchScan};
use super::batch_step::{BatchStep, Below};
use super::batches_to_rows::SingleRows;
use super::join::{BatchJoin, joins_in_batches};
use super::nested::{BatchNested, has_many_rows, nested_scan};

/// Starts a plan whose rows can come in batches. Returns `None` if they cannot.
pub(crate) fn start(plan: &Arc<PlanNode>) -> Option<Box<dyn BatchStep>> {
    stack::room(0, || start_here(plan))
}

fn start_here(plan: &Arc<PlanNode>) -> Option<Box<dyn BatchStep>> {
    match &**plan {
        PlanNode::Scan(scan) if scans_in_batches(scan) => Some(Box::new(BatchScan::new(plan))),
        PlanNode::Append(append) => Some(Box::new(BatchAppend::new(plan, append)?)),
        PlanNode::Gather { input, .. } => start(input),
        PlanNode::Filter { input, condition } if condition.may_run_ahead() => {
            let input = Below::new(start(input)?);
            Some(Box::new(BatchFilter { plan: Arc::clone(plan), input, begun: false }))
        }
        PlanNode::Join(join) if joins_in_batches(join) => {
            Some(Box::new(BatchJoin::new(plan, Below::new(start(&join.outer)?))))
        }
        PlanNode::Join(join) if has_many_rows(&join.outer) => {
            let scan = nested_scan(join)?;
            Some(Box::new(BatchNested::new(plan, join, scan, Below::new(start(&join.outer)?))))
        }
        _ => None,
    }
}

/// Starts a plan in batches for a caller that takes rows one by one. Returns `None` where batches
/// gain nothing. Only a condition or a join makes up for the cost of taking rows apart and putting
/// them together again.
pub(crate) fn start_rows(plan: &Arc<PlanNode>) -> Option<SingleRows> {
    let gains = match &**plan {
        PlanNode::Scan(scan) => scan.filter.is_some() && matches!(scan.path, PathPlan::Sequential),
        PlanNode::Filter { .. } => true,
        // A nested loop makes single rows itself.
        PlanNode::Join(join) => !join.hash.is_empty(),
        _ => false,
    };
    if gains { start(plan).map(SingleRows::new) } else { None }
}

/// Decides whether a scan may run ahead of the use of its rows.
fn scans_in_batches(scan: &ScanPlan) -> bool {
    // Vectors cannot hold the rows' addresses.
    !scan.system.contains(&true) && scan.filter.as_ref().is_none_or(Expr::may_run_ahead)
}
