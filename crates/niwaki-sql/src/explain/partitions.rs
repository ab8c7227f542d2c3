//! Shows the scans of a partitioned table in EXPLAIN.

use niwaki_analyze::deparse::plain::Names;
use niwaki_expr::plan::{AppendPlan, Estimate, PlanNode};

use super::{Describing, Shown, describe_named, sort_keys};

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
            let merged = !append.merge.is_empty();
            let node_type = if merged { "Merge Append" } else { "Append" };
            let Estimate { rows, total, .. } = append.estimate;
            let mut shown = Shown::new(node_type, rows, total, children);
            if merged {
                shown.list("Sort Key", sort_keys(&append.merge, names, with));
            }
            shown
        }
        (_, None) => {
            let mut shown = Shown::new("Result", 0.0, 0.0, Vec::new());
            shown.detail("One-Time Filter", "false".to_owned());
            shown
        }
    }
}
