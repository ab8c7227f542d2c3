//! Strictness: the effect of NULL on expressions.

use niwaki_expr::expr::{BoolTest, Expr, ExprKind};
use niwaki_expr::query::{From, ItemKind};

/// Appends the slots of the current row that cannot be NULL if the condition is true.
pub(super) fn refused(condition: &Expr, out: &mut Vec<usize>) {
    match &condition.kind {
        ExprKind::And(parts) => parts.iter().for_each(|part| refused(part, out)),
        ExprKind::Or(parts) => {
            let mut sides = parts.iter().map(|part| {
                let mut slots = Vec::new();
                refused(part, &mut slots);
                slots
            });
            let Some(first) = sides.next() else { return };
            let rest: Vec<Vec<usize>> = sides.collect();
            out.extend(first.into_iter().filter(|slot| rest.iter().all(|r| r.contains(slot))));
        }
        ExprKind::IsNull { argument, negated: true } => strict_slots(argument, out),
        ExprKind::BoolTest { argument, test } => match test {
            BoolTest::True => refused(argument, out),
            BoolTest::False | BoolTest::NotUnknown => strict_slots(argument, out),
            BoolTest::NotTrue | BoolTest::NotFalse | BoolTest::Unknown => {}
        },
        _ => strict_slots(condition, out),
    }
}

/// Appends the slots of the current row that make the expression NULL if they are NULL.
pub(super) fn strict_slots(expr: &Expr, out: &mut Vec<usize>) {
    match &expr.kind {
        ExprKind::Slot { depth: 0, slot } => out.push(*slot),
        ExprKind::Call { function, arguments } if function.strict => {
            arguments.iter().for_each(|argument| strict_slots(argument, out));
        }
        ExprKind::Cast { argument, .. }
        | ExprKind::Length { argument, .. }
        | ExprKind::Not(argument) => strict_slots(argument, out),
        // With an empty array, the result is false or true for any value. A non-empty list excludes
        // that.
        ExprKind::ArrayCompare { left, right, .. } => {
            if matches!(&right.kind, ExprKind::Array(values) if !values.is_empty()) {
                strict_slots(left, out);
            }
        }
        _ => {}
    }
}

/// Returns whether the expression is NULL if all slots of the current row that satisfy `inside` are
/// NULL.
pub(super) fn null_with(expr: &Expr, inside: &dyn Fn(usize) -> bool) -> bool {
    let mut slots = Vec::new();
    strict_slots(expr, &mut slots);
    slots.into_iter().any(inside)
}

/// Returns whether an expression over the rows of FROM is never NULL. A column qualifies if it is
/// NOT NULL and no outer join fills its table with NULLs.
pub(super) fn is_never_null(expr: &Expr, from: &From) -> bool {
    match &expr.kind {
        ExprKind::Const(value) => !value.is_null(),
        ExprKind::Cast { argument, .. }
        | ExprKind::Length { argument, .. }
        | ExprKind::Domain { argument, .. } => is_never_null(argument, from),
        ExprKind::Slot { depth: 0, slot } => {
            let found = from.items.iter().position(|item| item.slots.contains(*slot));
            let Some(number) = found else { return false };
            let item = &from.items[number];
            let ItemKind::Table(relation) = &item.kind else { return false };
            let column = relation.columns.get(slot - item.slots.start);
            column.is_some_and(|column| column.not_null)
                && from.tree.as_ref().is_some_and(|tree| !tree.is_nullable(number))
        }
        _ => false,
    }
}
