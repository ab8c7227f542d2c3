//! Reduction of outer joins whose NULL-extended rows some condition refuses.

use niwaki_expr::expr::{Expr, ExprKind};
use niwaki_expr::query::{From, FromItem, JoinTree, JoinType, SlotRange};

use super::strictness::refused;

/// Turns outer joins into inner ones, full joins into left ones, and left joins into anti joins. It
/// does so if conditions above the join refuse the other rows.
pub(super) fn reduce(from: &mut From) {
    if !from.tree.as_ref().is_some_and(adds_rows) {
        return;
    }
    let Some(mut tree) = from.tree.take() else { return };
    let mut filled = Vec::new();
    let mut nulls = Vec::new();
    for condition in &from.conditions {
        refused(condition, &mut filled);
        if let ExprKind::IsNull { argument, negated: false } = &condition.kind
            && let ExprKind::Slot { depth: 0, slot } = argument.kind
        {
            nulls.push(slot);
        }
    }
    walk(&mut tree, &filled, &nulls, &from.items);
    from.tree = Some(tree);
}

/// Returns whether the tree has an outer join.
fn adds_rows(tree: &JoinTree) -> bool {
    let JoinTree::Join(join) = tree else { return false };
    matches!(join.kind, JoinType::Left | JoinType::Full)
        || adds_rows(&join.left)
        || adds_rows(&join.right)
}

/// Reduces the joins of a tree. `filled` are slots that are not NULL in any wanted row; `nulls` are
/// slots that are NULL in all wanted rows.
fn walk(tree: &mut JoinTree, filled: &[usize], nulls: &[usize], items: &[FromItem]) {
    let JoinTree::Join(join) = tree else { return };
    let (left, right) = (slots(&join.left, items), slots(&join.right, items));
    let has = |ranges: &[SlotRange], slot: &usize| ranges.iter().any(|r| r.contains(*slot));
    let any = |ranges: &[SlotRange]| filled.iter().any(|slot| has(ranges, slot));
    match join.kind {
        JoinType::Full => {
            join.kind = match (any(&left), any(&right)) {
                (true, true) => JoinType::Inner,
                (true, false) => JoinType::Left,
                (false, true) => {
                    std::mem::swap(&mut join.left, &mut join.right);
                    JoinType::Left
                }
                (false, false) => JoinType::Full,
            };
            if join.kind != JoinType::Full {
                return walk(tree, filled, nulls, items);
            }
        }
        JoinType::Left if any(&right) => join.kind = JoinType::Inner,
        _ => {}
    }
    let on = filled_by(&join.on);
    if join.kind == JoinType::Left
        && nulls.iter().any(|slot| has(&right, slot) && on.contains(slot))
    {
        // A matching row would have a value there.
        join.kind = JoinType::Anti;
    }
    let both = || [filled, &on].concat();
    match join.kind {
        JoinType::Inner => {
            let both = both();
            walk(&mut join.left, &both, nulls, items);
            walk(&mut join.right, &both, nulls, items);
        }
        // Conditions above refuse rows of the left side; ON refuses rows of the right side.
        JoinType::Left | JoinType::Anti => {
            walk(&mut join.left, filled, nulls, items);
            walk(&mut join.right, &on, &[], items);
        }
        JoinType::Semi => {
            let both = both();
            walk(&mut join.left, &both, nulls, items);
            walk(&mut join.right, &on, &[], items);
        }
        JoinType::Full => {
            walk(&mut join.left, &[], &[], items);
            walk(&mut join.right, &[], &[], items);
        }
    }
}

fn filled_by(conditions: &[Expr]) -> Vec<usize> {
    let mut slots = Vec::new();
    conditions.iter().for_each(|condition| refused(condition, &mut slots));
    slots
}

fn slots(tree: &JoinTree, items: &[FromItem]) -> Vec<SlotRange> {
    let mut numbers = Vec::new();
    tree.items(&mut numbers);
    numbers.into_iter().map(|number| items[number].slots).collect()
}
