//! Lists the output columns of each plan step for EXPLAIN (VERBOSE).
//!
//! A client may derive from this list which result columns come from the NULL-filled side of an
//! outer join. (sqlx does so while a program is compiled.) Therefore a column has the same name in
//! every step.

use niwaki_analyze::deparse::plain::{Names, expression};
use niwaki_expr::expr::Expr;
use niwaki_expr::plan::{JoinKind, PlanNode, ScanPlan};

use super::{Describing, Shown};

/// Sets the output columns of a step. A hidden step passes its columns to the step below, which is
/// shown in its place.
pub(super) fn add(node: &PlanNode, shown: &mut Shown, names: &Names, with: &Describing<'_, '_>) {
    let exprs = |exprs: &[Expr], names: Names| -> Vec<String> {
        let names = names.qualified();
        exprs.iter().map(|expr| expression(expr, &names, with.exec)).collect()
    };
    shown.output = match node {
        PlanNode::Scan(scan) => of_scan(scan, names),
        PlanNode::Append(append) => {
            names.qualified().range(append.start..append.start + append.relation.columns.len())
        }
        PlanNode::Virtual { relation, start, .. } => {
            names.qualified().range(*start..start + relation.columns.len())
        }
        PlanNode::SubQuery { plan, start, .. } | PlanNode::Shared { plan, start, .. } => {
            Names::of(node).qualified().range(*start..start + plan.columns.len())
        }
        PlanNode::Working(plan) => {
            Names::of(node).qualified().range(plan.start..plan.start + plan.columns.len())
        }
        PlanNode::Function { start, .. } | PlanNode::Single { start, .. } => {
            Names::of(node).qualified().range(*start..usize::MAX)
        }
        PlanNode::Project { input, exprs: list, .. } => exprs(list, Names::of(input)),
        PlanNode::Aggregate { groups, calls, .. } => {
            names.qualified().range(0..groups.len() + calls.len())
        }
        PlanNode::Modify(modify) => {
            let mut names = Names::of(&modify.input);
            names.add_relation(&modify.relation, &modify.name, modify.start);
            exprs(&modify.returning, names)
        }
        PlanNode::Values { rows } => {
            let width = rows.first().map_or(0, Vec::len);
            (1..=width).map(|number| format!("\"*VALUES*\".column{number}")).collect()
        }
        PlanNode::Join(join) => {
            let sides = match join.kind {
                JoinKind::Semi | JoinKind::Anti => 1,
                JoinKind::Inner | JoinKind::Left | JoinKind::Right | JoinKind::Full => 2,
            };
            shown.children.iter().take(sides).flat_map(|side| side.output.clone()).collect()
        }
        // The step passes rows on, and EXPLAIN may show the step below in its place.
        _ if shown.output.is_empty() => {
            let below = shown.children.iter().find(|child| child.label.is_none());
            below.map_or_else(Vec::new, |child| child.output.clone())
        }
        _ => return,
    };
}

fn of_scan(scan: &ScanPlan, names: &Names) -> Vec<String> {
    let width = scan.relation.columns.len();
    let read = (0..width).filter(|column| scan.columns.contains(*column));
    let system = scan.system.iter().enumerate().filter(|(_, read)| **read);
    let slots = read.chain(system.map(|(number, _)| width + number));
    let names = names.qualified();
    slots.flat_map(|slot| names.range(scan.start + slot..scan.start + slot + 1)).collect()
}
