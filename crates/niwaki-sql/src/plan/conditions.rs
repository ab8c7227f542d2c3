//! Conditions as lists of parts that must all hold, and which slots a part reads.

use crate::expr::{Expr, ExprKind};

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

/// Whether every slot of the current row that the expression reads satisfies `test`. A nested query
/// that reads the current row counts as reading everything.
pub(crate) fn reads_only(expr: &Expr, test: &mut dyn FnMut(usize) -> bool) -> bool {
    !expr.any(&mut |part| match &part.kind {
        ExprKind::Slot { depth: 0, slot } => !test(*slot),
        ExprKind::SubQuery(sub) => sub.plan.correlated,
        _ => false,
    })
}

/// Whether the expression reads nothing of the current row.
pub(crate) fn reads_nothing(expr: &Expr) -> bool {
    reads_only(expr, &mut |_| false)
}

/// Whether evaluating the expression twice, or at another time, can make a difference.
pub(crate) fn is_volatile(expr: &Expr) -> bool {
    expr.any(&mut |part| match &part.kind {
        ExprKind::Call { function, .. } => {
            function.volatility == crate::functions::Volatility::Volatile
        }
        _ => false,
    })
}
