//! Calls of functions that users define, and putting a function's body in the place of its call.

use niwaki_catalog::{CatalogState, Oid, SearchPath};
use niwaki_types::{TypeOid, quote_identifier};

use super::{Expr, ExprKind};
use crate::context::RecordFields;
use crate::functions::{Function, Volatility};
use crate::query::{DEPTH_MAX, Growth, depth, nodes, volatile_inside};

/// A function with the types that its parameters have in a call: polymorphic ones stand for others in each.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FunctionKey {
    pub(crate) oid: Oid,
    pub(crate) arguments: Vec<TypeOid>,
    /// The collation that the call's arguments have, where it is not the one that everything has.
    pub(crate) collation: Option<Oid>,
}

/// A function of a user as its calls know it.
#[derive(Debug)]
pub(crate) struct UserFunction {
    pub(crate) key: FunctionKey,
    pub(crate) name: String,
    pub(crate) schema: String,
    /// The types of its parameters as it was defined.
    pub(crate) declared: Vec<u32>,
    /// Its last argument is an array, in which calls may give any number of values.
    pub(crate) variadic: bool,
    pub(crate) strict: bool,
    pub(crate) volatility: Volatility,
    /// What a call costs, in calls of operators.
    pub(crate) cost: f64,
    /// What its one column is called in FROM, if its definition says so.
    pub(crate) column: Option<String>,
    /// The fields of a `record` that it gives.
    pub(crate) fields: Option<RecordFields>,
    /// How many rows it gives, if it gives a set.
    pub(crate) rows: f64,
    /// What it computes, over its parameters, where that is one expression that may stand in the place of a call.
    pub(crate) inline: Option<Expr>,
}

impl UserFunction {
    /// A call with these arguments, written already: its name with the schema where the search path finds another one, or none.
    pub(crate) fn call(
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

/// Calls of operators above which an argument is not computed more than once.
const CHEAP_CALLS: f64 = 10.0;

/// Puts what a function computes in the place of a call, where that means the same (PostgreSQL's rules).
pub(crate) fn inline_call(call: &mut Expr, growth: &mut Growth) {
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

/// What an expression costs, in calls of operators.
fn calls_of(expr: &Expr) -> f64 {
    let mut calls = 0.0;
    expr.any(&mut |part| {
        match &part.kind {
            ExprKind::Call { .. } | ExprKind::Cast { .. } => calls += 1.0,
            ExprKind::UserCall { function, .. } => calls += function.cost,
            // Whatever a nested query costs, it is more.
            ExprKind::SubQuery(_) => calls += 2.0 * CHEAP_CALLS,
            _ => {}
        }
        false
    });
    calls
}

/// Replaces parameters by the arguments of a call. There are no nested queries in the expression, so all of it stands on one level.
fn put_arguments(expr: &mut Expr, arguments: &[Expr]) {
    if let ExprKind::Param(number) = expr.kind
        && let Some(argument) = arguments.get(number)
    {
        let ty = expr.ty;
        *expr = argument.clone();
        expr.ty = ty;
        return;
    }
    // Cannot fail: the visit does not.
    let _ = expr.for_each_child_mut(&mut |child| {
        put_arguments(child, arguments);
        Ok(())
    });
}

/// Whether an expression over parameters may stand for a call of a function that promises this: it promises no less, and if
/// the function is strict, it is NULL as soon as a parameter is.
pub(crate) fn keeps_promises(expr: &Expr, promised: Volatility, strict: bool) -> bool {
    let promises = match promised {
        Volatility::Volatile => true,
        Volatility::Stable => !volatile_inside(expr),
        Volatility::Immutable => crate::index_expression::is_immutable_over_parameters(expr),
    };
    promises && (!strict || is_strict(expr))
}

/// Whether the expression is NULL whenever a part of it is.
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
