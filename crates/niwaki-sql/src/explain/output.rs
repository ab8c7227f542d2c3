//! What the steps of a plan give their rows as: "Output" of EXPLAIN (VERBOSE).
//!
//! A client may read from it which columns of a result come from the side of an outer join that is filled with NULL (sqlx does,
//! while a program is compiled), so the same column has the same name wherever it goes by.

use super::deparse::{Names, expression};
use super::{Describing, Shown};
use crate::expr::Expr;
use crate::plan::{JoinKind, PlanNode, ScanPlan};

/// Tells what a step gives. A step that is not shown tells it of the one below, which is shown in its place.
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
        // It passes rows on, and may be shown as nothing but the step below.
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
