//! Conditions as lists of parts that must all hold, and which slots a part reads.

use crate::expr::{Expr, ExprKind};
use crate::query::{reads_slots, volatile_inside};

/// Slots `start..end` of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotRange {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl SlotRange {
    pub(crate) fn contains(self, slot: usize) -> bool {
        (self.start..self.end).contains(&slot)
    }
}

/// Appends the parts of a conjunction.
pub(crate) fn split_conjuncts(condition: Expr, out: &mut Vec<Expr>) {
    match condition.kind {
        ExprKind::And(parts) => parts.into_iter().for_each(|part| split_conjuncts(part, out)),
        _ => out.push(condition),
    }
}

/// One condition out of parts.
pub(crate) fn conjunction(mut parts: Vec<Expr>) -> Option<Expr> {
    match parts.len() {
        0 => None,
        1 => parts.pop(),
        _ => Some(Expr::new(ExprKind::And(parts), niwaki_types::TypeOid::BOOL, -1)),
    }
}

/// Whether every slot of the current row that the expression, or a query inside it, reads satisfies `test`.
pub(crate) fn reads_only(expr: &Expr, test: &mut dyn FnMut(usize) -> bool) -> bool {
    let mut only = true;
    reads_slots(expr, &mut |slot| only = only && test(slot));
    only
}

/// Whether the expression reads nothing of the current row.
pub(crate) fn reads_nothing(expr: &Expr) -> bool {
    reads_only(expr, &mut |_| false)
}

/// Whether evaluating the expression twice, or at another time, can make a difference.
pub(crate) fn is_volatile(expr: &Expr) -> bool {
    volatile_inside(expr)
}
