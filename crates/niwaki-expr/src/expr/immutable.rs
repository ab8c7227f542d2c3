//! Expressions that give the same value for the same row at any time, in every session.

use niwaki_catalog::FunctionVolatility;
use niwaki_parse::error::{Result, SqlError};
use niwaki_parse::types::{CastContext, CastPath, cast_path, element_of};
use niwaki_types::TypeOid;

use super::{Expr, ExprKind};
use crate::function::Function;

/// Refuses casts to domains. Only the catalog defines a domain, and the catalog is not at hand
/// where the expression is evaluated.
///
/// # Errors
/// `0A000` for such a cast.
pub fn refuse_domains(expr: &Expr, place: &str) -> Result<()> {
    if expr.any(&mut |part| matches!(part.kind, ExprKind::Domain { .. })) {
        return Err(SqlError::unsupported(format!("a cast to a domain in {place}")));
    }
    Ok(())
}

/// Refuses calls of users' functions, which only the catalog defines. An expression that is not
/// `immutable` passes here; callers refuse it for that reason.
///
/// # Errors
/// `0A000` for such a call in an expression that is `immutable`.
pub fn refuse_user_functions(expr: &Expr, place: &str, immutable: bool) -> Result<()> {
    if immutable && expr.any(&mut |part| matches!(part.kind, ExprKind::UserCall { .. })) {
        return Err(SqlError::unsupported(format!("a function of a user in {place}")));
    }
    Ok(())
}

/// Decides whether an expression always gives the same value for the same row, in every session.
pub fn is_immutable(expr: &Expr) -> bool {
    is_immutable_over_parameters(expr)
        && !expr.any(&mut |part| matches!(part.kind, ExprKind::Param(_)))
}

/// Decides the same as [`is_immutable`] for an expression over the parameters of a function.
pub(crate) fn is_immutable_over_parameters(expr: &Expr) -> bool {
    if is_null(expr) {
        return true;
    }
    // These functions quote the text of any value, by a cast that is judged separately.
    let quotes = |function: &Function| matches!(function.name, "quote_literal" | "quote_nullable");
    let immutable = |function: &Function| {
        function.volatility == FunctionVolatility::Immutable || quotes(function)
    };
    let itself = match &expr.kind {
        ExprKind::UserCall { function, .. } => function.volatility == FunctionVolatility::Immutable,
        ExprKind::Call { function, .. }
        | ExprKind::ArrayCompare { function, .. }
        | ExprKind::Distinct { equal: function, .. } => immutable(function),
        ExprKind::Cast { from, .. } => cast_is_immutable(*from, expr.ty),
        ExprKind::Slot { depth, .. } => *depth == 0,
        ExprKind::SubQuery(_)
        | ExprKind::Aggregate(_)
        | ExprKind::Grouping(_)
        | ExprKind::Window(_)
        | ExprKind::SetReturning(_)
        | ExprKind::Populated { .. }
        | ExprKind::CurrentOf { .. } => false,
        _ => true,
    };
    let mut all = itself;
    expr.for_each_child(&mut |child| all = all && is_immutable_over_parameters(child));
    all
}

/// Decides whether an expression is NULL before any call, as a strict function of a NULL is. The
/// function's dependencies do not matter then.
fn is_null(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Const(value) => value.is_null(),
        ExprKind::Call { function, arguments } => function.strict && arguments.iter().any(is_null),
        ExprKind::Cast { argument, from, .. } => {
            let by_elements =
                cast_path(*from, expr.ty, CastContext::Explicit) == Some(CastPath::Array);
            !by_elements && is_null(argument)
        }
        _ => false,
    }
}

/// Returns PostgreSQL's volatility marks of cast, input and output functions.
fn cast_is_immutable(from: TypeOid, to: TypeOid) -> bool {
    use TypeOid as T;
    match cast_path(from, to, CastContext::Explicit) {
        Some(CastPath::Relabel) => true,
        Some(CastPath::Array) => match (element_of(from), element_of(to)) {
            (Some(from), Some(to)) => cast_is_immutable(from, to),
            _ => false,
        },
        Some(CastPath::Function) => {
            let zoned = from == T::TIMESTAMPTZ || to == T::TIMESTAMPTZ;
            let zone_added = from == T::TIME && to == T::TIMETZ;
            !zoned && !zone_added && !to.is_object_name()
        }
        Some(CastPath::InputOutput) => {
            let output_depends =
                matches!(from, T::DATE | T::TIMESTAMP | T::TIMESTAMPTZ | T::INTERVAL)
                    || from.is_object_name();
            let input_depends = matches!(
                to,
                T::DATE | T::TIMESTAMP | T::TIMESTAMPTZ | T::TIME | T::TIMETZ | T::INTERVAL
            ) || to.is_object_name();
            let array = element_of(from).is_some() || element_of(to).is_some();
            // Labels can be renamed.
            let label = from.is_enum() || to.is_enum();
            // The types of the fields decide how fields are shown and read.
            if from.is_record() || to.is_record() {
                return false;
            }
            !output_depends && !input_depends && !array && !label
        }
        None => false,
    }
}
