//! Conditions as lists of conjuncts, with the slots that each conjunct reads.

use super::{has_query, reads_slots, volatile_inside};
use crate::expr::{Expr, ExprKind};

/// Appends the parts of a conjunction to `out`.
pub fn split_conjuncts(condition: Expr, out: &mut Vec<Expr>) {
    match condition.kind {
        ExprKind::And(parts) => parts.into_iter().for_each(|part| split_conjuncts(part, out)),
        _ => out.push(condition),
    }
}

/// Joins parts into one condition with AND; returns `None` for no parts.
pub fn conjunction(mut parts: Vec<Expr>) -> Option<Expr> {
    match parts.len() {
        0 => None,
        1 => parts.pop(),
        _ => Some(Expr::new(ExprKind::And(parts), niwaki_types::TypeOid::BOOL, -1)),
    }
}

/// Extracts from an OR the condition on the slots that satisfy `own`. Each side of the OR must have
/// a condition on these slots. Example for `a`: `(a.x = 1 AND b.y = 2) OR (a.x = 3 AND b.y = 4)`
/// implies `a.x = 1 OR a.x = 3`.
pub fn asked_of(condition: &Expr, own: &dyn Fn(usize) -> bool) -> Option<Expr> {
    let ExprKind::Or(sides) = &condition.kind else { return None };
    let asked = |side: &Expr| {
        let mut parts = Vec::new();
        split_conjuncts(side.clone(), &mut parts);
        let parts = parts.into_iter().filter_map(|part| {
            // Skip parts that are expensive or volatile: they would be evaluated once more.
            if reads_nothing(&part) || is_volatile(&part) || has_query(&part) {
                return None;
            }
            if reads_only(&part, &mut |slot| own(slot)) { Some(part) } else { asked_of(&part, own) }
        });
        conjunction(parts.collect())
    };
    let sides: Option<Vec<Expr>> = sides.iter().map(asked).collect();
    Some(Expr::new(ExprKind::Or(sides?), condition.ty, condition.location))
}

/// Returns whether every slot of the current row that the expression reads satisfies `test`.
/// Queries inside the expression count, too.
pub fn reads_only(expr: &Expr, test: &mut dyn FnMut(usize) -> bool) -> bool {
    let mut only = true;
    reads_slots(expr, &mut |slot| only = only && test(slot));
    only
}

/// Marks in `used` the slots of the current row that an expression reads.
pub fn mark(expr: &Expr, used: &mut [bool]) {
    reads_slots(expr, &mut |slot| {
        if let Some(flag) = used.get_mut(slot) {
            *flag = true;
        }
    });
}

/// Returns whether the expression reads nothing of the current row.
pub fn reads_nothing(expr: &Expr) -> bool {
    reads_only(expr, &mut |_| false)
}

/// Returns whether a second or later evaluation of the expression can give another result.
pub fn is_volatile(expr: &Expr) -> bool {
    volatile_inside(expr)
}
