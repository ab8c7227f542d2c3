//! Conditions that compare an operand of the table with a value known before the scan.

use niwaki_expr::expr::{Expr, ExprKind};
use niwaki_expr::query::{is_volatile, reads_only};

use super::scan::Table;

/// A comparison of an operand of the table with a value known before the scan.
pub(super) struct Comparison<'c> {
    /// The side that reads the table.
    pub(super) operand: &'c Expr,
    pub(super) operator: &'static str,
    pub(super) value: &'c Expr,
    /// True for `operand = ANY (value)`.
    pub(super) any: bool,
}

impl Comparison<'_> {
    /// Returns the compared slot, if the operand is a slot.
    pub(super) fn slot(&self) -> Option<usize> {
        match self.operand.kind {
            ExprKind::Slot { depth: 0, slot } => Some(slot),
            _ => None,
        }
    }
}

fn flipped(operator: &str) -> &'static str {
    match operator {
        "<" => ">",
        "<=" => ">=",
        ">" => "<",
        ">=" => "<=",
        _ => "=",
    }
}

/// Recognizes `operand op value`, `value op operand` and `operand = ANY (array)`.
pub(super) fn comparison<'c>(condition: &'c Expr, table: &Table<'_>) -> Option<Comparison<'c>> {
    let in_table = |slot: usize| slot >= table.start && slot < table.start + table.width + 3;
    let known = |expr: &Expr| {
        !is_volatile(expr)
            && reads_only(expr, &mut |slot| !in_table(slot) && (table.context.available)(slot))
    };
    match &condition.kind {
        ExprKind::Call { function, arguments } => {
            let operator @ ("=" | "<" | "<=" | ">" | ">=") = function.name else { return None };
            let [left, right] = arguments.as_slice() else { return None };
            if known(right) {
                return Some(Comparison { operand: left, operator, value: right, any: false });
            }
            if known(left) {
                let operator = flipped(operator);
                return Some(Comparison { operand: right, operator, value: left, any: false });
            }
            None
        }
        ExprKind::ArrayCompare { function, any: true, left, right, .. } if function.name == "=" => {
            let found = Comparison { operand: left, operator: "=", value: right, any: true };
            known(right).then_some(found)
        }
        _ => None,
    }
}
