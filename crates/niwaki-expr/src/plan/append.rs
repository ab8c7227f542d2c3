//! Scans of the partitions of a table.

use std::sync::Arc;

use niwaki_catalog::Relation;

use super::{Estimate, PlanNode, ScanPlan};
use crate::expr::Expr;
use crate::query::{SlotRange, SortKey, is_volatile, reads_only};

/// Number of system columns after a table's own columns.
pub const SYSTEM: usize = 3;

/// The rows of some partitions of a table: appended one partition after the other, or merged.
#[derive(Clone, Debug)]
pub struct AppendPlan {
    /// The partitioned table.
    pub relation: Arc<Relation>,
    /// Alias or name.
    pub name: String,
    /// First slot of the table's columns.
    pub start: usize,
    /// The scans of the partitions.
    pub members: Vec<AppendMember>,
    /// The common order of the partitions' rows, in which they are merged. Empty if the partitions
    /// are appended.
    pub merge: Vec<SortKey>,
    /// Conditions that may prune partitions once their values are known at execution.
    pub prune: Vec<Expr>,
    /// The estimate.
    pub estimate: Estimate,
}

/// The scan of one partition.
#[derive(Clone, Debug)]
pub struct AppendMember {
    /// Number of the leaf among the table's leaves.
    pub leaf: usize,
    /// The scan.
    pub scan: Arc<PlanNode>,
    /// Copies of values, for a partition with another column layout: slot in the partition's row,
    /// slot in the table's row.
    pub copies: Vec<(usize, usize)>,
    /// Conditions that are evaluated only after the copies.
    pub filter: Option<Expr>,
}

impl AppendPlan {
    /// Returns the slots of the table.
    pub fn slots(&self) -> SlotRange {
        let end = self.start + self.relation.columns.len() + SYSTEM;
        SlotRange { start: self.start, end }
    }

    /// Returns whether values known only at execution reduce the work. They may prune partitions.
    /// `of_scan` decides for each scan whether they reduce the scan's rows; all scans must agree.
    pub fn uses_values(&self, of_scan: &dyn Fn(&ScanPlan) -> bool) -> bool {
        let used = |member: &AppendMember| match &*member.scan {
            PlanNode::Scan(scan) => of_scan(scan),
            _ => false,
        };
        !self.prune.is_empty() || !self.members.is_empty() && self.members.iter().all(used)
    }
}

/// Returns whether a value that pruning needs can be computed before the scan.
pub fn is_early(expr: &Expr, plan: &AppendPlan) -> bool {
    let slots = plan.slots();
    !is_volatile(expr) && reads_only(expr, &mut |slot| !slots.contains(slot))
}
