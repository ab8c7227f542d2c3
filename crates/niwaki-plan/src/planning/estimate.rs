//! Estimates of a plan step: its number of rows and its cost.

use niwaki_expr::expr::{Expr, ExprKind};
use niwaki_expr::plan::Estimate;
use niwaki_expr::plan::{PlanNode, WindowCalls};
use niwaki_expr::query::SetKind;
use niwaki_types::Datum;

use super::group_count::group_count;

/// Assumed number of rows of a function without a declared number, as in PostgreSQL.
const FUNCTION_ROWS: f64 = 1_000.0;
/// Assumed size, in bytes, of a value without statistics.
const VALUE_BYTES: f64 = 16.0;

/// Returns the estimate of a step, derived from the estimates of its tables and joins.
pub fn estimate(node: &PlanNode) -> Estimate {
    match node {
        PlanNode::Result => leaf(1.0, 0.01, 0),
        PlanNode::Scan(scan) => Estimate {
            startup: scan.startup,
            total: scan.cost,
            rows: scan.rows.max(1.0),
            width: scan.width,
        },
        PlanNode::Append(append) => {
            Estimate { rows: append.estimate.rows.max(1.0), ..append.estimate }
        }
        PlanNode::Virtual { relation, key: Some(_), .. } => leaf(1.0, 0.1, relation.columns.len()),
        PlanNode::Virtual { relation, .. } => leaf(100.0, 10.0, relation.columns.len()),
        PlanNode::SubQuery { plan, .. } | PlanNode::Shared { plan, .. } => {
            let below = plan.estimate;
            Estimate { total: below.total + below.rows * 0.01, ..below }
        }
        PlanNode::Function { function, arguments, .. } => {
            let rows = match (function.rows(), function.name()) {
                (Some(rows), _) => rows.max(1.0),
                (None, "generate_series") => series_rows(arguments).unwrap_or(FUNCTION_ROWS),
                (None, _) => FUNCTION_ROWS,
            };
            leaf(rows, rows * 0.01, 1)
        }
        PlanNode::Single { .. } => leaf(1.0, 0.01, 1),
        PlanNode::Values { rows } => {
            let count = rows.len() as f64;
            leaf(count, count * 0.0125, rows.first().map_or(0, Vec::len))
        }
        PlanNode::Join(join) => join.estimate,
        PlanNode::Filter { input, .. } => {
            let below = estimate(input);
            Estimate { rows: (below.rows / 3.0).max(1.0), ..below }
        }
        PlanNode::Gate { input, .. } | PlanNode::Gather { input, .. } => estimate(input),
        PlanNode::Aggregate { input, groups, written, sets, calls, sorted, .. } => {
            let below = estimate(input);
            let rows = rows_of_groups(input, below.rows, &groups[..*written], &sets.sets);
            let total = below.total + below.rows * 0.0125 * sets.sets.len().max(1) as f64;
            let width = (groups.len() + calls.len()) as f64 * VALUE_BYTES;
            let startup = if *sorted { below.startup } else { total };
            Estimate { startup, total, rows, width }
        }
        PlanNode::Window { input, plan } => windowed(estimate(input), &plan.over_input),
        PlanNode::Project { input, exprs, sets, .. } => {
            let below = estimate(input);
            let times = if sets.is_empty() { 1.0 } else { FUNCTION_ROWS };
            let width = exprs.len() as f64 * VALUE_BYTES;
            Estimate { rows: below.rows * times, width, ..below }
        }
        PlanNode::Sort { input, presorted, .. } => {
            let below = estimate(input);
            let total = below.total + below.rows * below.rows.max(2.0).log2() * 0.02;
            let startup = if *presorted > 0 { below.startup } else { total };
            Estimate { startup, total, ..below }
        }
        PlanNode::First { input, .. } => {
            let below = estimate(input);
            Estimate { rows: (below.rows / 5.0).max(1.0), ..below }
        }
        PlanNode::Distinct { input, .. } => {
            let below = estimate(input);
            let rows = match &**input {
                PlanNode::Project { input, exprs, sets, .. } if sets.is_empty() => {
                    group_count(input, below.rows, exprs)
                }
                _ => below.rows,
            };
            Estimate { total: below.total + below.rows * 0.0125, rows, ..below }
        }
        PlanNode::Unique { input, keys } => {
            let below = estimate(input);
            let rows = group_count(input, below.rows, keys);
            Estimate { total: below.total + below.rows * 0.0125, rows, ..below }
        }
        PlanNode::Limit { input, count, .. } => limited(estimate(input), count.as_ref()),
        PlanNode::LockRows { input, .. } => {
            let below = estimate(input);
            Estimate { total: below.total + below.rows * 0.01, ..below }
        }
        PlanNode::SetOperation { kind, all, left, right, .. } => {
            set_operation(*kind, *all, estimate(left), estimate(right))
        }
        PlanNode::Modify(modify) => estimate(&modify.input),
        PlanNode::Merge(merge) => estimate(&merge.input),
        PlanNode::Working(working) => {
            leaf(working.rows, working.rows * 0.0225, working.columns.len())
        }
        PlanNode::Recursive(plan) => {
            // PostgreSQL assumes ten iterations.
            let (left, right) = (estimate(&plan.left), estimate(&plan.right));
            let rows = left.rows + 10.0 * right.rows;
            let total = left.total + 10.0 * right.total + rows * 0.01;
            Estimate { startup: left.startup, total, rows, width: left.width }
        }
        PlanNode::With { input, .. } => estimate(input),
    }
}

/// Returns the estimate of a step without an input, of rows of `columns` values.
fn leaf(rows: f64, total: f64, columns: usize) -> Estimate {
    Estimate { startup: 0.0, total, rows: rows.max(1.0), width: columns as f64 * VALUE_BYTES }
}

/// Returns the number of groups that all grouping sets make of the input's `rows` rows. `written`
/// are the group expressions that the statement has.
fn rows_of_groups(input: &PlanNode, rows: f64, written: &[Expr], sets: &[Vec<usize>]) -> f64 {
    if sets.is_empty() {
        return group_count(input, rows, written);
    }
    let of_set = |set: &Vec<usize>| {
        let exprs = set.iter().filter(|group| **group < written.len());
        group_count(input, rows, exprs.map(|group| &written[*group]))
    };
    sets.iter().map(of_set).sum()
}

/// Returns the estimate of window functions over rows.
fn windowed(below: Estimate, with: &WindowCalls) -> Estimate {
    // A row is returned once its partition, or the visible part of it, is complete. PostgreSQL
    // counts the first input row as the start.
    let WindowCalls { window, calls } = with;
    let operators = calls.len() + window.sort_keys().len();
    let total = below.total + below.rows * (0.01 + 0.0025 * operators as f64);
    let width = below.width + calls.len() as f64 * VALUE_BYTES;
    Estimate { total, width, ..below }
}

/// Returns the estimate of a step that ends after its first rows. `count` is their number.
fn limited(below: Estimate, count: Option<&Expr>) -> Estimate {
    let rows = match count.map(|count| &count.kind) {
        Some(ExprKind::Const(Datum::Int8(number))) => below.rows.min(*number as f64),
        _ => below.rows,
    };
    let part = rows / below.rows.max(1.0);
    let total = below.startup + (below.total - below.startup) * part;
    Estimate { rows: rows.max(1.0), total, ..below }
}

/// Returns the estimate of a set operation over two inputs.
fn set_operation(kind: SetKind, all: bool, left: Estimate, right: Estimate) -> Estimate {
    let rows = match kind {
        SetKind::Union => left.rows + right.rows,
        SetKind::Intersect => left.rows.min(right.rows),
        SetKind::Except => left.rows,
    };
    let total = left.total + right.total;
    if kind == SetKind::Union && all {
        return Estimate { startup: left.startup, total, rows, width: left.width };
    }
    let total = total + (left.rows + right.rows) * 0.0125;
    Estimate { startup: total, total, rows, width: left.width }
}

/// Returns the length of an integer series with constant bounds.
fn series_rows(arguments: &[Expr]) -> Option<f64> {
    let number = |expr: &Expr| match expr.kind {
        ExprKind::Const(Datum::Int4(number)) => Some(f64::from(number)),
        ExprKind::Const(Datum::Int8(number)) => Some(number as f64),
        _ => None,
    };
    let (from, to) = (number(arguments.first()?)?, number(arguments.get(1)?)?);
    let step = match arguments.get(2) {
        Some(step) => number(step)?,
        None => 1.0,
    };
    (step != 0.0).then(|| ((to - from) / step).floor() + 1.0).map(|rows| rows.max(0.0))
}
