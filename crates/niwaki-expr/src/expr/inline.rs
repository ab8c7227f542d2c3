//! The inlining of a function's body into its call.

use niwaki_catalog::FunctionVolatility;

use super::{Expr, ExprKind};
use crate::function::Function;
use crate::query::{DEPTH_MAX, Growth, depth, nodes, volatile_inside};

/// The most expensive argument that inlining may compute more than once, in calls of operators.
const CHEAP_CALLS: f64 = 10.0;

/// Replaces a call by the function's body, where the meaning stays the same (PostgreSQL's rules).
pub fn inline_call(call: &mut Expr, growth: &mut Growth) {
    let ExprKind::UserCall { function, arguments } = &call.kind else { return };
    let Some(body) = &function.inline else { return };
    let mut uses = vec![0_usize; arguments.len()];
    body.any(&mut |part| {
        if let ExprKind::Param(number) = part.kind
            && let Some(uses) = uses.get_mut(number)
        {
            *uses += 1;
        }
        false
    });
    for (argument, uses) in arguments.iter().zip(&uses) {
        let dear = *uses > 1 && calls_of(argument) > CHEAP_CALLS;
        if function.strict && *uses == 0 || *uses != 1 && volatile_inside(argument) || dear {
            return;
        }
    }
    if std::iter::once(body).chain(arguments).any(|part| depth(part) > DEPTH_MAX) {
        return;
    }
    let written = arguments.iter().zip(&uses).map(|(argument, uses)| uses * nodes(argument));
    let written = written.sum::<usize>() + nodes(body);
    if !growth.admits(written.saturating_sub(nodes(call))) {
        return;
    }
    let mut result = body.clone();
    put_arguments(&mut result, arguments);
    result.location = call.location;
    result.domain = call.domain;
    *call = result;
}

/// Returns the cost of an expression, in calls of operators.
fn calls_of(expr: &Expr) -> f64 {
    let mut calls = 0.0;
    expr.any(&mut |part| {
        match &part.kind {
            ExprKind::Call { .. } | ExprKind::Cast { .. } => calls += 1.0,
            ExprKind::UserCall { function, .. } => calls += function.cost,
            // A nested query always counts as expensive.
            ExprKind::SubQuery(_) => calls += 2.0 * CHEAP_CALLS,
            _ => {}
        }
        false
    });
    calls
}

/// Replaces parameters by the arguments of a call. The expression has no nested queries, so all of
/// it stands on one query level.
fn put_arguments(expr: &mut Expr, arguments: &[Expr]) {
    if let ExprKind::Param(number) = expr.kind
        && let Some(argument) = arguments.get(number)
    {
        let ty = expr.ty;
        *expr = argument.clone();
        expr.ty = ty;
        return;
    }
    expr.for_each_child_mut(&mut |child| put_arguments(child, arguments));
}

/// Decides whether an expression over parameters may replace a call of a function with this
/// volatility and strictness. The expression must be at most as volatile as promised. For a strict
/// function, it must be NULL as soon as a parameter is NULL.
pub fn keeps_promises(expr: &Expr, promised: FunctionVolatility, strict: bool) -> bool {
    let promises = match promised {
        FunctionVolatility::Volatile => true,
        FunctionVolatility::Stable => !volatile_inside(expr),
        FunctionVolatility::Immutable => super::is_immutable_over_parameters(expr),
    };
    promises && (!strict || is_strict(expr))
}

/// Decides whether the expression is NULL whenever a part of it is NULL.
fn is_strict(expr: &Expr) -> bool {
    let strict = |function: &Function| function.strict;
    !expr.any(&mut |part| match &part.kind {
        ExprKind::Const(_) | ExprKind::Param(_) | ExprKind::Not(_) | ExprKind::Length { .. } => {
            false
        }
        ExprKind::Cast { .. } => false,
        ExprKind::Call { function, .. } => !strict(function),
        ExprKind::UserCall { function, .. } => !function.strict,
        _ => true,
    })
}
