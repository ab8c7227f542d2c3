//! Derived equalities with constants: `a = b` and `a = 5` imply `b = 5`.

use std::collections::BTreeSet;

use niwaki_env::hash::HashMap;
use niwaki_expr::expr::{Expr, ExprKind};
use niwaki_expr::query::{From, JoinTree, JoinType};

/// Columns that equal a value known before the query runs: by slot, with the condition that fixes
/// them.
type Known = HashMap<usize, Expr>;

/// Adds the derived conditions. An equality that fixes its second column is replaced by the derived
/// condition.
pub(super) fn derive(from: &mut From) {
    let mut known = Known::default();
    for condition in &from.conditions {
        if let Some(slot) = fixed(condition) {
            known.entry(slot).or_insert_with(|| condition.clone());
        }
    }
    if known.is_empty() {
        return;
    }
    let mut equalities: HashMap<usize, Vec<usize>> = HashMap::default();
    for (number, condition) in from.conditions.iter().enumerate() {
        for side in linked(condition).into_iter().flat_map(|(a, b)| [a, b]) {
            if let Some(slot) = slot_of(side) {
                equalities.entry(slot).or_default().push(number);
            }
        }
    }
    let mut waiting: BTreeSet<usize> = BTreeSet::new();
    known.keys().for_each(|slot| waiting.extend(equalities.get(slot).into_iter().flatten()));
    // Ends: each turn takes one condition. A condition returns only when one of its slots has
    // become known.
    while let Some(number) = waiting.pop_first() {
        let Some((a, b)) = linked(&from.conditions[number]) else { continue };
        let found = follows(&known, a, b).or_else(|| follows(&known, b, a));
        let Some((slot, new)) = found else { continue };
        from.conditions[number] = new.clone();
        if let Some(recheck) = &mut from.recheck {
            recheck.push(new.clone());
        }
        known.insert(slot, new);
        waiting.extend(equalities.get(&slot).into_iter().flatten());
    }
    if let Some(tree) = &mut from.tree {
        walk(tree, &known);
    }
}

/// Derives conditions in the ON of left, semi and anti joins, where ON decides what a match is.
fn walk(tree: &mut JoinTree, known: &Known) {
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
                .map(|(_, condition)| condition)
                .collect();
            join.on.extend(new);
        }
        JoinType::Full => {}
    }
}

/// Returns the slot of `to`, which equals a known one, with the condition that fixes it. Returns
/// `None` if `to` is already known.
fn follows(known: &Known, from: &Expr, to: &Expr) -> Option<(usize, Expr)> {
    let (from, to) = (slot_of(from)?, slot_of(to)?);
    if known.contains_key(&to) {
        return None;
    }
    let mut condition = known.get(&from)?.clone();
    if let ExprKind::Call { arguments, .. } = &mut condition.kind {
        for argument in arguments {
            if let ExprKind::Slot { depth: 0, slot } = &mut argument.kind {
                *slot = to;
            }
        }
    }
    Some((to, condition))
}

fn slot_of(expr: &Expr) -> Option<usize> {
    match expr.kind {
        ExprKind::Slot { depth: 0, slot } => Some(slot),
        _ => None,
    }
}

/// Returns the sides of an equality between two columns of one type.
fn linked(condition: &Expr) -> Option<(&Expr, &Expr)> {
    let ExprKind::Call { function, arguments } = &condition.kind else { return None };
    let [left, right] = arguments.as_slice() else { return None };
    let is_slot = |expr: &Expr| slot_of(expr).is_some();
    (function.name == "=" && left.ty == right.ty && is_slot(left) && is_slot(right))
        .then_some((left, right))
}

/// Returns the slot of a condition `column = value` whose value is known before the query runs.
fn fixed(condition: &Expr) -> Option<usize> {
    let ExprKind::Call { function, arguments } = &condition.kind else { return None };
    let [left, right] = arguments.as_slice() else { return None };
    let value = |expr: &Expr| match &expr.kind {
        ExprKind::Const(value) => !value.is_null(),
        ExprKind::Param(_) => true,
        _ => false,
    };
    if function.name != "=" {
        return None;
    }
    match (slot_of(left), slot_of(right)) {
        (Some(slot), None) if value(right) => Some(slot),
        (None, Some(slot)) if value(left) => Some(slot),
        _ => None,
    }
}
