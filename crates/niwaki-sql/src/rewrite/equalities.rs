//! What follows from equalities: `a = b` and `a = 5` say that `b = 5`.

use crate::expr::{Expr, ExprKind};
use crate::query::{From, JoinTree, JoinType};

/// A column that equals something known before the query's rows are.
struct Known {
    slot: usize,
    condition: Expr,
}

/// Adds the conditions that follow. An equality between two columns that both got their value by it goes away.
pub(super) fn derive(from: &mut From) {
    let mut known: Vec<Known> = Vec::new();
    for condition in &from.conditions {
        known.extend(fixed(condition).map(|slot| Known { slot, condition: condition.clone() }));
    }
    if known.is_empty() {
        return;
    }
    // Ends: each turn fixes another slot.
    loop {
        let found = from.conditions.iter().enumerate().find_map(|(number, condition)| {
            let (a, b) = linked(condition)?;
            Some((number, follows(&known, a, b).or_else(|| follows(&known, b, a))?))
        });
        let Some((number, new)) = found else { break };
        from.conditions[number] = new.condition.clone();
        if let Some(recheck) = &mut from.recheck {
            recheck.push(new.condition.clone());
        }
        known.push(new);
    }
    if let Some(tree) = &mut from.tree {
        walk(tree, &known);
    }
}

/// Into the right sides of joins that keep their left sides' rows: their ON tells what a match is.
fn walk(tree: &mut JoinTree, known: &[Known]) {
    let JoinTree::Join(join) = tree else { return };
    match join.kind {
        JoinType::Inner => {
            walk(&mut join.left, known);
            walk(&mut join.right, known);
        }
        JoinType::Left | JoinType::Semi | JoinType::Anti => {
            walk(&mut join.left, known);
            let new: Vec<Expr> = join
                .on
                .iter()
                .filter_map(linked)
                .filter_map(|(a, b)| follows(known, a, b).or_else(|| follows(known, b, a)))
                .map(|known| known.condition)
                .collect();
            join.on.extend(new);
        }
        JoinType::Full => {}
    }
}

/// What a slot that equals another one is known to be, if it is not known yet and the other one is.
fn follows(known: &[Known], from: &Expr, to: &Expr) -> Option<Known> {
    let (ExprKind::Slot { slot: from, .. }, ExprKind::Slot { slot: to, .. }) =
        (&from.kind, &to.kind)
    else {
        return None;
    };
    if known.iter().any(|known| known.slot == *to) {
        return None;
    }
    let source = known.iter().find(|known| known.slot == *from)?;
    let mut condition = source.condition.clone();
    if let ExprKind::Call { arguments, .. } = &mut condition.kind {
        for argument in arguments {
            if let ExprKind::Slot { depth: 0, slot } = &mut argument.kind {
                *slot = *to;
            }
        }
    }
    Some(Known { slot: *to, condition })
}

/// The sides of an equality between two columns of one type.
fn linked(condition: &Expr) -> Option<(&Expr, &Expr)> {
    let ExprKind::Call { function, arguments } = &condition.kind else { return None };
    let [left, right] = arguments.as_slice() else { return None };
    let is_slot = |expr: &Expr| matches!(expr.kind, ExprKind::Slot { depth: 0, .. });
    (function.name == "=" && left.ty == right.ty && is_slot(left) && is_slot(right))
        .then_some((left, right))
}

/// The slot of `column = value`, the value known before the query's rows are.
fn fixed(condition: &Expr) -> Option<usize> {
    let ExprKind::Call { function, arguments } = &condition.kind else { return None };
    let [left, right] = arguments.as_slice() else { return None };
    let slot = |expr: &Expr| match expr.kind {
        ExprKind::Slot { depth: 0, slot } => Some(slot),
        _ => None,
    };
    let value = |expr: &Expr| match &expr.kind {
        ExprKind::Const(value) => !value.is_null(),
        ExprKind::Param(_) => true,
        _ => false,
    };
    if function.name != "=" {
        return None;
    }
    match (slot(left), slot(right)) {
        (Some(slot), None) if value(right) => Some(slot),
        (None, Some(slot)) if value(left) => Some(slot),
        _ => None,
    }
}
