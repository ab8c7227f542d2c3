//! Proof that conditions imply the predicate of a partial index.
//!
//! The test is sound and simple: a predicate that it cannot prove counts as not implied. It proves
//! a predicate by:
//!
//! - the same condition;
//! - a tighter comparison with constants: `x > 7`, `x = 6` or `x IN (6, 7)` imply `x > 5`;
//! - a condition on `x` that NULL never satisfies, which implies `x IS NOT NULL`;
//! - AND and OR on both sides.
//!
//! A condition holds for a row only when it is true. A predicate admits a row only when it is true.
//! So NULL counts as false on both sides, and the test never looks into a negation.

use std::cmp::Ordering;

use niwaki_types::{Datum, TypeOid, compare};

use super::{Expr, ExprKind};

/// Returns whether every row for which all `conditions` are true satisfies `predicate`.
pub fn implies(conditions: &[Expr], predicate: &Expr) -> bool {
    match &predicate.kind {
        ExprKind::And(parts) => parts.iter().all(|part| implies(conditions, part)),
        ExprKind::Or(parts) if parts.iter().any(|part| implies(conditions, part)) => true,
        _ => conditions.iter().any(|condition| one_implies(condition, predicate)),
    }
}

/// Returns whether one condition implies a predicate.
fn one_implies(condition: &Expr, predicate: &Expr) -> bool {
    if condition.same(predicate) {
        return true;
    }
    match &condition.kind {
        ExprKind::And(parts) => return implies(parts, predicate),
        ExprKind::Or(parts) => {
            return parts.iter().all(|part| implies(std::slice::from_ref(part), predicate));
        }
        _ => {}
    }
    match &predicate.kind {
        ExprKind::IsNull { argument, negated: true } => is_false_for_null(condition, argument),
        ExprKind::Const(Datum::Bool(true)) => true,
        _ => compares_within(condition, predicate),
    }
}

/// Returns whether the condition cannot be true where `operand` is NULL.
fn is_false_for_null(condition: &Expr, operand: &Expr) -> bool {
    if condition.same(operand) {
        return true;
    }
    match &condition.kind {
        ExprKind::Call { function, arguments } if function.strict => {
            arguments.iter().any(|argument| is_null_for_null(argument, operand))
        }
        ExprKind::ArrayCompare { function, any: true, left, .. } if function.strict => {
            is_null_for_null(left, operand)
        }
        ExprKind::IsNull { argument, negated: true } => is_null_for_null(argument, operand),
        ExprKind::Not(argument) => is_null_for_null(argument, operand),
        _ => false,
    }
}

/// Returns whether the expression is NULL where `operand` is NULL.
fn is_null_for_null(expr: &Expr, operand: &Expr) -> bool {
    if expr.same(operand) {
        return true;
    }
    match &expr.kind {
        ExprKind::Call { function, arguments } if function.strict => {
            arguments.iter().any(|argument| is_null_for_null(argument, operand))
        }
        ExprKind::Cast { argument, .. }
        | ExprKind::Length { argument, .. }
        | ExprKind::Not(argument) => is_null_for_null(argument, operand),
        _ => false,
    }
}

/// A comparison `operand op constant`.
struct Bound<'e> {
    operand: &'e Expr,
    operator: &'static str,
    value: Datum,
    ty: TypeOid,
}

fn bound(expr: &Expr) -> Option<Bound<'_>> {
    let ExprKind::Call { function, arguments } = &expr.kind else { return None };
    let [left, right] = arguments.as_slice() else { return None };
    let constant = |e: &'_ Expr| matches!(&e.kind, ExprKind::Const(value) if !value.is_null());
    let (operand, operator, side) = match function.name {
        "=" | "<" | "<=" | ">" | ">=" | "<>" if constant(right) => (left, function.name, right),
        "=" | "<" | "<=" | ">" | ">=" | "<>" if constant(left) => {
            let flipped = match function.name {
                "<" => ">",
                "<=" => ">=",
                ">" => "<",
                ">=" => "<=",
                same => same,
            };
            (right, flipped, left)
        }
        _ => return None,
    };
    let ExprKind::Const(value) = &side.kind else { return None };
    if let Some(value) = integer(value) {
        let of_integer = matches!(operand.ty, TypeOid::INT2 | TypeOid::INT4 | TypeOid::INT8);
        return of_integer.then_some(Bound { operand, operator, value, ty: TypeOid::INT8 });
    }
    // A comparison of two other, different types follows an order that neither type has.
    (side.ty == operand.ty).then(|| Bound { operand, operator, value: value.clone(), ty: side.ty })
}

/// Widens an integer: integers of all widths compare with each other.
fn integer(value: &Datum) -> Option<Datum> {
    match value {
        Datum::Int2(v) => Some(Datum::Int8(i64::from(*v))),
        Datum::Int4(v) => Some(Datum::Int8(i64::from(*v))),
        Datum::Int8(v) => Some(Datum::Int8(*v)),
        _ => None,
    }
}

/// Returns whether `x op a` implies `x op b`, for constants of one type.
fn compares_within(condition: &Expr, predicate: &Expr) -> bool {
    let Some(wanted) = bound(predicate) else { return false };
    if let ExprKind::ArrayCompare { function, any: true, left, right, .. } = &condition.kind {
        let ExprKind::Const(Datum::Array(element, values)) = &right.kind else { return false };
        let all_within = |value: &Datum| match integer(value) {
            Some(value) => wanted.ty == TypeOid::INT8 && within("=", &value, &wanted),
            None => *element == wanted.ty && !value.is_null() && within("=", value, &wanted),
        };
        return function.name == "=" && left.same(wanted.operand) && values.iter().all(all_within);
    }
    let Some(given) = bound(condition) else { return false };
    given.ty == wanted.ty
        && given.operand.same(wanted.operand)
        && within(given.operator, &given.value, &wanted)
}

/// Returns whether every `x` with `x operator value` satisfies the wanted comparison.
fn within(operator: &str, value: &Datum, wanted: &Bound<'_>) -> bool {
    let order = compare(wanted.ty, value, &wanted.value);
    match (operator, wanted.operator) {
        ("=", "=") => order == Ordering::Equal,
        ("=", "<>") => order != Ordering::Equal,
        ("=" | "<" | "<=", "<=") | ("<", "<") => order != Ordering::Greater,
        ("=" | "<=", "<") => order == Ordering::Less,
        ("=" | ">" | ">=", ">=") | (">", ">") => order != Ordering::Less,
        ("=" | ">=", ">") => order == Ordering::Greater,
        ("<>", "<>") => order == Ordering::Equal,
        ("<", "<>") => order != Ordering::Greater,
        ("<=", "<>") => order == Ordering::Less,
        (">", "<>") => order != Ordering::Less,
        (">=", "<>") => order == Ordering::Greater,
        _ => false,
    }
}
