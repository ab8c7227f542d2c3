//! Scans of the partitions of a table.

use std::sync::Arc;

use niwaki_catalog::Relation;

use super::{Estimate, PlanNode, ScanPlan};
use crate::expr::Expr;
use crate::query::{SlotRange, SortKey, is_volatile, reads_only};

/// Number of system columns after a table's own columns.
pub(crate) const SYSTEM: usize = 3;

/// The rows of some partitions of a table: appended one partition after the other, or merged.
#[derive(Clone, Debug)]
pub(crate) struct AppendPlan {
    /// The partitioned table.
    pub(crate) relation: Arc<Relation>,
    /// Alias or name.
    pub(crate) name: String,
    /// First slot of the table's columns.
    pub(crate) start: usize,
    pub(crate) members: Vec<AppendMember>,
    /// The common order of the partitions' rows, in which they are merged. Empty if the partitions
    /// are appended.
    pub(crate) merge: Vec<SortKey>,
    /// Conditions that may prune partitions once their values are known at execution.
    pub(crate) prune: Vec<Expr>,
    pub(crate) estimate: Estimate,
}

/// The scan of one partition.
#[derive(Clone, Debug)]
pub(crate) struct AppendMember {
    /// Number of the leaf among the table's leaves.
    pub(crate) leaf: usize,
    pub(crate) scan: Arc<PlanNode>,
    /// Copies of values, for a partition with another column layout: slot in the partition's row,
    /// slot in the table's row.
    pub(crate) copies: Vec<(usize, usize)>,
    /// Conditions that are evaluated only after the copies.
    pub(crate) filter: Option<Expr>,
}

impl AppendPlan {
    /// Returns the slots of the table.
    pub(crate) fn slots(&self) -> SlotRange {
        let end = self.start + self.relation.columns.len() + SYSTEM;
        SlotRange { start: self.start, end }
    }

    /// Returns whether values known only at execution reduce the work. They may prune partitions.
    /// `of_scan` decides for each scan whether they reduce the scan's rows; all scans must agree.
    pub(crate) fn uses_values(&self, of_scan: &dyn Fn(&ScanPlan) -> bool) -> bool {
        let used = |member: &AppendMember| match &*member.scan {
            PlanNode::Scan(scan) => of_scan(scan),
            _ => false,
        };
        !self.prune.is_empty() || !self.members.is_empty() && self.members.iter().all(used)
    }
}

/// Returns whether a value that pruning needs can be computed before the scan.
pub(crate) fn is_early(expr: &Expr, plan: &AppendPlan) -> bool {
    let slots = plan.slots();
    !is_volatile(expr) && reads_only(expr, &mut |slot| !slots.contains(slot))
}
