//! Constant folding: evaluates expressions before the statement runs.
//!
//! Immutable functions of constants are computed, so no row computes them again. A condition such
//! as `day < date '1994-01-01' + interval '1 year'` becomes a bound of a scan, and its share of the
//! rows can be estimated. An expression that fails stays unchanged, and fails when it is needed. An
//! expression that takes long is also left to the rows ([`early_evaluation`]).
//!
//! Conditions that compare a date as a timestamp are rewritten to compare it as a date, which an
//! index on dates supports.
//!
//! A plan for given parameter values has them as constants. A generic plan records whether a plan
//! for given values might be better. That is so if a parameter bounds a range or is a pattern: the
//! share of the rows then depends on its value.

use niwaki_expr::expr::{Expr, ExprKind, coerce_length, is_immutable};
use niwaki_expr::function::Function;
use niwaki_expr::query::{From, JoinTree};
use niwaki_functions::functions::operators_named;
use niwaki_parse::error::Result;
use niwaki_parse::types::category;
use niwaki_types::{ColumnType, Datum, TypeOid};

use crate::early_evaluation;

const DAY: i64 = 86_400_000_000;

/// Parameter values, and the findings of rewriting about them and about constants.
pub struct Values<'v> {
    /// Values of the first parameters. The values of the others are unknown.
    pub given: &'v [Datum],
    /// True if an unknown parameter would determine the number of rows.
    pub wanted: bool,
    /// Error of the first constant that does not fit its length.
    pub unfit: Result<()>,
}

impl<'v> Values<'v> {
    /// Creates the values of the first parameters.
    pub fn new(given: &'v [Datum]) -> Self {
        Self { given, wanted: false, unfit: Ok(()) }
    }
}

/// Simplifies the conditions of a level.
pub(super) fn compute(from: &mut From, values: &mut Values<'_>) {
    from.conditions.iter_mut().for_each(|expr| condition(expr, values));
    if let Some(tree) = &mut from.tree {
        walk(tree, values);
    }
}

fn walk(tree: &mut JoinTree, values: &mut Values<'_>) {
    let JoinTree::Join(join) = tree else { return };
    join.on.iter_mut().for_each(|expr| condition(expr, values));
    walk(&mut join.left, values);
    walk(&mut join.right, values);
}

/// Returns whether the expression is a comparison with a parameter whose selectivity depends on the
/// value.
fn depends_on_value(expr: &Expr) -> bool {
    let ExprKind::Call { function, arguments } = &expr.kind else { return false };
    let is_parameter = |part: &Expr| matches!(part.kind, ExprKind::Param(_));
    matches!(function.name, "<" | "<=" | ">" | ">=" | "~~")
        && arguments.iter().any(|argument| argument.any(&mut |part| is_parameter(part)))
}

fn condition(expr: &mut Expr, values: &mut Values<'_>) {
    simplify(expr, values);
    // A NULL condition keeps no row, so it is false.
    if let ExprKind::Const(value @ Datum::Null) = &mut expr.kind {
        *value = Datum::Bool(false);
    }
}

fn simplify(expr: &mut Expr, values: &mut Values<'_>) {
    expr.for_each_child_mut(&mut |child| simplify(child, values));
    if let ExprKind::Param(number) = expr.kind
        && let Some(value) = values.given.get(number)
    {
        expr.kind = ExprKind::Const(value.clone());
    }
    values.wanted = values.wanted || depends_on_value(expr);
    fold(expr);
    if let Some(compared) = as_dates(expr) {
        *expr = compared;
    }
}

/// Checks the length of a constant: a statement with an unfit constant must not start, whatever its
/// rows are.
pub(super) fn fits(expr: &Expr) -> Result<()> {
    if let ExprKind::Length { argument, explicit } = &expr.kind
        && let ExprKind::Const(value) = &argument.kind
    {
        let column = ColumnType::with_typmod(expr.ty, expr.typmod);
        coerce_length(value.clone(), column, *explicit)?;
    }
    Ok(())
}

/// Folds an expression of constant arguments.
///
/// A strict function of a constant NULL is NULL. Its other arguments are not computed, but the call
/// is not folded while one of them is a constant expression that failed.
pub(super) fn fold(expr: &mut Expr) {
    let null = |part: &Expr| matches!(part.kind, ExprKind::Const(Datum::Null));
    let is_null = match &expr.kind {
        ExprKind::Call { function, arguments } if function.strict => arguments.iter().any(null),
        ExprKind::UserCall { function, arguments } if function.strict => arguments.iter().any(null),
        ExprKind::Cast { argument, .. } | ExprKind::Field { argument, .. } => null(argument),
        _ => false,
    };
    let value = if is_null {
        let mut fails = |part: &Expr| is_of_constants(part) && is_immutable(part);
        let mut failing = false;
        expr.for_each_child(&mut |child| failing = failing || child.any(&mut fails));
        (!failing).then_some(Datum::Null)
    } else if is_of_constants(expr) && is_immutable(expr) {
        early_evaluation::value(expr, 0)
    } else {
        None
    };
    if let Some(value) = value {
        (expr.kind, expr.own_syntax) = (ExprKind::Const(value), false);
    }
}

fn is_of_constants(expr: &Expr) -> bool {
    let constant = |part: &Expr| matches!(part.kind, ExprKind::Const(_));
    match &expr.kind {
        ExprKind::Call { arguments, .. } => !arguments.is_empty() && arguments.iter().all(constant),
        // The text of floats and bytea depends on the session's settings, although PostgreSQL
        // declares the casts immutable.
        ExprKind::Cast { from: TypeOid::FLOAT4 | TypeOid::FLOAT8 | TypeOid::BYTEA, .. }
            if category(expr.ty) == 'S' =>
        {
            false
        }
        ExprKind::Cast { argument, .. } | ExprKind::Field { argument, .. } => constant(argument),
        ExprKind::Subscript { array, subscripts } => {
            constant(array) && subscripts.exprs().all(constant)
        }
        _ => false,
    }
}

/// Rewrites the comparison of a date, cast to timestamp, with a timestamp constant as a comparison
/// of dates.
fn as_dates(expr: &Expr) -> Option<Expr> {
    let ExprKind::Call { function, arguments } = &expr.kind else { return None };
    let [left, right] = arguments.as_slice() else { return None };
    let date = |expr: &Expr| match &expr.kind {
        ExprKind::Cast { argument, from: TypeOid::DATE, .. } if expr.ty == TypeOid::TIMESTAMP => {
            Some(Expr::clone(argument))
        }
        _ => None,
    };
    let (date, constant, turned) = match (date(left), date(right)) {
        (Some(date), None) => (date, right, false),
        (None, Some(date)) => (date, left, true),
        _ => return None,
    };
    let ExprKind::Const(Datum::Timestamp(time)) = constant.kind else { return None };
    let word = match (function.name, turned) {
        (word @ ("=" | "<>"), _) | (word, false) => word,
        ("<", true) => ">",
        ("<=", true) => ">=",
        (">", true) => "<",
        (">=", true) => "<=",
        _ => return None,
    };
    let (word, day) = day_of(word, time)?;
    let day = Expr::constant(Datum::Date(day), TypeOid::DATE, constant.location);
    Some(niwaki_functions::functions::call(
        comparison(word)?,
        vec![date, day],
        expr.ty,
        expr.location,
    ))
}

/// Returns the operator and day of a date comparison that is equivalent to comparing the date's
/// first moment with `time`.
fn day_of(word: &str, time: i64) -> Option<(&'static str, i32)> {
    let (day, whole) = match time {
        i64::MAX => (i32::MAX, true),
        i64::MIN => (i32::MIN, true),
        time => (i32::try_from(time.div_euclid(DAY)).ok()?, time.rem_euclid(DAY) == 0),
    };
    Some((
        match (word, whole) {
            ("<", true) => "<",
            ("<", false) | ("<=", _) => "<=",
            (">=", true) => ">=",
            (">=", false) | (">", _) => ">",
            ("=", true) => "=",
            ("<>", true) => "<>",
            _ => return None,
        },
        day,
    ))
}

fn comparison(word: &str) -> Option<&'static Function> {
    let of_dates = |function: &&&'static Function| {
        function.arguments == [TypeOid::DATE, TypeOid::DATE] && function.result == TypeOid::BOOL
    };
    operators_named(word).iter().find(of_dates).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_say_what_times_say() {
        let days = [i32::MIN, -3, -2, -1, 0, 1, 2, i32::MAX];
        let moment = |day: i32| match day {
            i32::MIN => i64::MIN,
            i32::MAX => i64::MAX,
            day => i64::from(day) * DAY,
        };
        let holds = |word: &str, left: i64, right: i64| match word {
            "<" => left < right,
            "<=" => left <= right,
            ">" => left > right,
            ">=" => left >= right,
            "=" => left == right,
            _ => left != right,
        };
        for word in ["<", "<=", ">", ">=", "=", "<>"] {
            for time in days.map(moment).into_iter().chain([1, -1, DAY + 1, 2 * DAY - 1]) {
                let Some((other, bound)) = day_of(word, time) else {
                    assert!(matches!(word, "=" | "<>") && time % DAY != 0);
                    continue;
                };
                for day in days {
                    let said = holds(other, day.into(), bound.into());
                    assert_eq!(said, holds(word, moment(day), time), "{day} {word} {time}");
                }
            }
        }
    }

    #[test]
    fn dates_have_all_comparisons() {
        assert!(["<", "<=", ">", ">=", "=", "<>"].iter().all(|word| comparison(word).is_some()));
    }
}
