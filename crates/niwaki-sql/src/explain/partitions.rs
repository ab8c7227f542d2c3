//! What EXPLAIN shows of a partitioned table.

use super::deparse::Names;
use super::{Describing, Shown, describe_named};
use crate::plan::{AppendPlan, PlanNode};

/// Describes the scans of partitions.
pub(super) fn describe(append: &AppendPlan, names: &Names, with: &Describing<'_, '_>) -> Shown {
    let mut children = append.members.iter().map(|member| {
        let mut names = names.clone();
        if let PlanNode::Scan(scan) = &*member.scan
            && scan.start != append.start
        {
            names.add_relation(&scan.relation, &scan.name, scan.start);
        }
        describe_named(&member.scan, &names, with)
    });
    match (append.members.len(), children.next()) {
        (1, Some(child)) => child,
        (_, Some(first)) => {
            let children = std::iter::once(first).chain(children).collect();
            Shown::new("Append", append.estimate.rows, append.estimate.total, children)
        }
        (_, None) => {
            let mut shown = Shown::new("Result", 0.0, 0.0, Vec::new());
            shown.detail("One-Time Filter", "false".to_owned());
            shown
        }
    }
}
