//! Calls of users' functions, and the inlining of a function's body.

use niwaki_catalog::{CatalogState, Oid, SearchPath};
use niwaki_types::{TypeOid, quote_identifier};

use super::{Expr, ExprKind};
use crate::context::RecordFields;
use crate::function::{Function, Volatility};
use crate::query::{DEPTH_MAX, Growth, depth, nodes, volatile_inside};

/// The identity of a function in a call, with the types of its parameters there. A polymorphic
/// function has different types in different calls.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FunctionKey {
    /// The number of the function.
    pub oid: Oid,
    /// The types of the arguments.
    pub arguments: Vec<TypeOid>,
    /// The collation of the call's arguments, if it is not the default collation.
    pub collation: Option<Oid>,
}

/// A user's function, as its calls need it.
#[derive(Debug)]
pub struct UserFunction {
    /// The function and the types of this call.
    pub key: FunctionKey,
    /// The name.
    pub name: String,
    /// The schema.
    pub schema: String,
    /// The types of the function's parameters, as it was defined.
    pub declared: Vec<u32>,
    /// Set if the last argument is an array, for which calls may give any number of values.
    pub variadic: bool,
    /// True if a NULL argument makes the result NULL.
    pub strict: bool,
    /// The stability of the results.
    pub volatility: Volatility,
    /// The cost of a call, in calls of operators.
    pub cost: f64,
    /// The name of the function's single column in FROM, if the definition gives one.
    pub column: Option<String>,
    /// The fields of a returned `record`.
    pub fields: Option<RecordFields>,
    /// The estimated number of rows that a set-returning function returns.
    pub rows: f64,
    /// The function's body over its parameters, if the body is one expression that may replace a
    /// call.
    pub inline: Option<Expr>,
}

impl UserFunction {
    /// Formats a call with these arguments, which are formatted already. The function's name gets
    /// its schema if the search path does not find this function.
    pub fn call(
        &self,
        mut arguments: Vec<String>,
        catalog: &CatalogState,
        path: &SearchPath,
    ) -> String {
        let mut name = quote_identifier(&self.name);
        let found = catalog.resolve_function(path, None, &self.name, &self.declared);
        if found.is_none_or(|found| found.oid != self.key.oid) {
            name = format!("{}.{name}", quote_identifier(&self.schema));
        }
        if self.variadic
            && let Some(array) = arguments.last_mut()
        {
            array.insert_str(0, "VARIADIC ");
        }
        format!("{name}({})", arguments.join(", "))
    }
}

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
    // The visit cannot fail.
    let _ = expr.for_each_child_mut(&mut |child| {
        put_arguments(child, arguments);
        Ok(())
    });
}

/// Decides whether an expression over parameters may replace a call of a function with this
/// volatility and strictness. The expression must be at most as volatile as promised. For a strict
/// function, it must be NULL as soon as a parameter is NULL.
pub fn keeps_promises(expr: &Expr, promised: Volatility, strict: bool) -> bool {
    let promises = match promised {
        Volatility::Volatile => true,
        Volatility::Stable => !volatile_inside(expr),
        Volatility::Immutable => super::is_immutable_over_parameters(expr),
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
