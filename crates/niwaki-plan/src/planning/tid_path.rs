//! Access paths by TID (`ctid`).

use niwaki_expr::expr::{Expr, ExprKind};
use niwaki_expr::plan::PathPlan;

use super::comparison::comparison;
use super::scan::{Candidate, DISABLED_COST, Table};

pub(super) fn tid_candidates(table: &Table<'_>) -> Vec<Candidate> {
    let (context, costs) = (table.context, &table.context.settings.costs);
    let ctid = table.start + table.width;
    let mut candidates = Vec::new();
    let mut lower: Option<(Expr, bool)> = None;
    let mut upper: Option<(Expr, bool)> = None;
    let mut range_covered = Vec::new();
    let disabled = if context.settings.enable_tidscan { 0.0 } else { DISABLED_COST };
    for (number, condition) in table.conditions.iter().enumerate() {
        let Some(found) = comparison(condition, table) else { continue };
        if found.slot() != Some(ctid) {
            continue;
        }
        match found.operator {
            "=" => candidates.push(Candidate {
                path: PathPlan::Tids { value: found.value.clone(), condition: condition.clone() },
                covered: vec![number],
                rows: 1.0,
                startup: 0.0,
                cost: match found.value.kind {
                    // WHERE CURRENT OF means exactly one row. It must win, however small the table
                    // is and whatever the settings disable.
                    ExprKind::CurrentOf { .. } => 0.0,
                    _ => costs.random_page_cost + costs.cpu_tuple_cost + disabled,
                },
                ordered: 0,
                groups: 1.0,
            }),
            ">" | ">=" if lower.is_none() => {
                lower = Some((found.value.clone(), found.operator == ">="));
                range_covered.push(number);
            }
            "<" | "<=" if upper.is_none() => {
                upper = Some((found.value.clone(), found.operator == "<="));
                range_covered.push(number);
            }
            _ => {}
        }
    }
    if !range_covered.is_empty() {
        let share = if lower.is_some() && upper.is_some() { 0.005 } else { 1.0 / 3.0 };
        candidates.push(Candidate {
            path: PathPlan::TidRange {
                lower,
                upper,
                conditions: range_covered.iter().map(|n| table.conditions[*n].clone()).collect(),
            },
            covered: range_covered,
            rows: (table.size.rows * share).max(1.0),
            startup: 0.0,
            cost: table.size.rows * share * costs.cpu_tuple_cost * 2.0
                + costs.random_page_cost
                + (table.size.pages * share).ceil() * costs.seq_page_cost
                + disabled,
            ordered: 0,
            groups: 1.0,
        });
    }
    candidates
}
