//! Estimate of the number of groups, computed like PostgreSQL's.
//!
//! The estimate rests on the distinct values that ANALYZE counted.

use niwaki_expr::expr::Expr;
use niwaki_expr::plan::{PlanNode, ScanPlan};
use niwaki_expr::query::reads_slots;

use super::scan::table_rows;
use super::selectivity::Estimator;

/// Assumed number of distinct values of an expression without statistics, as in PostgreSQL.
const DISTINCT: f64 = 200.0;
/// Upper bound of the groups by several columns of one table, as a share of the table's rows.
/// Several columns are seldom independent.
const SEVERAL: f64 = 0.1;

/// Collects the scans that write slots of the row that a step returns.
fn scans<'p>(node: &'p PlanNode, out: &mut Vec<&'p ScanPlan>) {
    match node {
        PlanNode::Scan(scan) => out.push(scan),
        PlanNode::Join(join) => {
            scans(&join.outer, out);
            scans(&join.inner, out);
        }
        PlanNode::Filter { input, .. }
        | PlanNode::Gate { input, .. }
        | PlanNode::Gather { input, .. }
        | PlanNode::Sort { input, .. }
        | PlanNode::LockRows { input, .. }
        | PlanNode::Unique { input, .. } => scans(input, out),
        _ => {}
    }
}

/// Returns the estimated number of groups that `exprs` make of the step's `rows` rows.
pub(super) fn group_count<'e>(
    input: &PlanNode,
    rows: f64,
    exprs: impl IntoIterator<Item = &'e Expr>,
) -> f64 {
    let mut known = Vec::new();
    scans(input, &mut known);
    let mut slots: Vec<usize> = Vec::new();
    let mut groups = 1.0;
    for expr in exprs {
        reads_slots(expr, &mut |slot| slots.push(slot));
    }
    slots.sort_unstable();
    slots.dedup();
    for scan in &known {
        let end = scan.start + scan.relation.columns.len();
        let tuples = table_rows(&scan.relation).max(1.0);
        let estimator =
            Estimator { relation: &scan.relation, start: scan.start, rows: tuples, now: 0 };
        let (mut product, mut most, mut columns) = (1.0, 1.0_f64, 0);
        slots.retain(|slot| {
            if !(scan.start..end).contains(slot) {
                return true;
            }
            let distinct = estimator.distinct(Some(slot - scan.start)).unwrap_or(DISTINCT);
            (product, most, columns) = (product * distinct, most.max(distinct), columns + 1);
            false
        });
        if columns == 0 {
            continue;
        }
        let bound = if columns > 1 { (tuples * SEVERAL).max(most) } else { tuples };
        let distinct = product.min(bound).max(1.0);
        // The scan returns only a part of the rows, so it returns only a part of the distinct
        // values.
        let left_out = ((tuples - scan.rows) / tuples).clamp(0.0, 1.0);
        groups *= (distinct * (1.0 - left_out.powf(tuples / distinct))).max(1.0);
    }
    groups *= DISTINCT.powi(i32::try_from(slots.len()).unwrap_or(i32::MAX));
    groups.min(rows).max(1.0)
}
