//! Derived equalities: `a = b AND b = c` implies `a = c`, so `a` and `c` may be joined first.

use niwaki_expr::expr::{Expr, ExprKind};

use super::block::{Link, Unit};
use super::search::{Condition, Search};

/// Most columns of an equality class. Larger classes get no derived equalities, because their pairs
/// are too many.
const COLUMNS_MAX: usize = 8;

/// An equality class: columns that conditions make equal to one another.
struct Class {
    columns: Vec<Expr>,
    /// One condition of the class. The others differ from it only in their columns.
    condition: Expr,
}

/// Returns the two columns if the condition equates two columns of one type.
fn columns_of(condition: &Expr) -> Option<(&Expr, &Expr)> {
    let ExprKind::Call { function, arguments } = &condition.kind else { return None };
    let [left, right] = arguments.as_slice() else { return None };
    let slot = |side: &Expr| matches!(side.kind, ExprKind::Slot { depth: 0, .. });
    (function.name == "=" && left.ty == right.ty && slot(left) && slot(right))
        .then_some((left, right))
}

/// Returns whether two conditions use the same operator over the same types.
fn compare_alike(a: &Expr, b: &Expr) -> bool {
    match (&a.kind, &b.kind) {
        (
            ExprKind::Call { function: a, arguments: left },
            ExprKind::Call { function: b, arguments: right },
        ) => {
            std::ptr::eq(*a, *b) && left.iter().zip(right).all(|(left, right)| left.ty == right.ty)
        }
        _ => false,
    }
}

fn is_of(unit: &Unit, column: &Expr) -> bool {
    matches!(column.kind, ExprKind::Slot { slot, .. } if unit.has(slot))
}

impl Search<'_, '_> {
    /// Adds the equalities that follow from others. They are between columns of units in inner
    /// joins.
    ///
    /// A join needs only one equality of a class: on each of its sides, all columns of the class
    /// are already equal.
    pub(super) fn close_equalities(&mut self) {
        let mut classes: Vec<Class> = Vec::new();
        for number in 0..self.conditions.len() {
            let Condition { expr, owner: None, .. } = &self.conditions[number] else { continue };
            let Some((left, right)) = columns_of(expr) else { continue };
            if !self.is_of_plain_unit(left) || !self.is_of_plain_unit(right) {
                continue;
            }
            let of = |column: &Expr, classes: &[Class]| {
                classes.iter().position(|class| {
                    compare_alike(&class.condition, expr)
                        && class.columns.iter().any(|known| known.same(column))
                })
            };
            match (of(left, &classes), of(right, &classes)) {
                (None, None) => {
                    let columns = vec![left.clone(), right.clone()];
                    classes.push(Class { columns, condition: expr.clone() });
                }
                (Some(class), None) => classes[class].columns.push(right.clone()),
                (None, Some(class)) => classes[class].columns.push(left.clone()),
                (Some(a), Some(b)) if a != b => {
                    let other = classes.swap_remove(a.max(b));
                    classes[a.min(b)].columns.extend(other.columns);
                }
                _ => {}
            }
        }
        for (number, class) in classes.iter().enumerate() {
            if class.columns.len() <= COLUMNS_MAX {
                self.close(number, class);
            }
        }
    }

    fn is_of_plain_unit(&self, column: &Expr) -> bool {
        let of = self.units.iter().find(|unit| is_of(unit, column));
        of.is_some_and(|unit| matches!(unit.link, Link::Inner))
    }

    /// Marks the conditions of a class, and adds the missing ones.
    fn close(&mut self, number: usize, class: &Class) {
        let pair = |condition: &Condition, a: &Expr, b: &Expr| {
            columns_of(&condition.expr).is_some_and(|(left, right)| {
                left.same(a) && right.same(b) || left.same(b) && right.same(a)
            })
        };
        for (at, a) in class.columns.iter().enumerate() {
            for b in &class.columns[at + 1..] {
                let known = self.conditions.iter_mut().filter(|condition| {
                    condition.owner.is_none()
                        && compare_alike(&condition.expr, &class.condition)
                        && pair(condition, a, b)
                });
                let mut found = false;
                known.for_each(|condition| {
                    condition.class = Some(number);
                    found = true;
                });
                if found {
                    continue;
                }
                let mut expr = class.condition.clone();
                if let ExprKind::Call { arguments, .. } = &mut expr.kind {
                    *arguments = vec![a.clone(), b.clone()];
                }
                let units = self.units_of(&expr);
                let both = self.units.iter_mut().find(|unit| is_of(unit, a) && is_of(unit, b));
                if let Some(unit) = both {
                    // Both columns belong to one table. A join by one of them would not check the
                    // other, so the equality becomes a filter.
                    unit.filters.push(expr);
                } else {
                    let class = Some(number);
                    self.conditions.push(Condition { expr, units, owner: None, class });
                }
            }
        }
    }
}
