//! Queries among the FROM items that become part of the query around them.

use super::Level;
use super::nulls::null_with;
use crate::expr::{Expr, ExprKind};
use crate::query::{
    Body, Distinct, From, FromItem, ItemKind, JoinTree, JoinType, Query, expr_outer_slots_mut,
    reads_slots, shift_depth, volatile_inside,
};

/// Makes every simple query among the FROM items part of the level.
pub(super) fn flatten(level: &mut Level<'_>) {
    // Items that come with a query are simple no more, or were looked at when that query was rewritten.
    for number in 0..level.from.items.len() {
        if is_simple(level.from, number) {
            pull_up(level, number);
        }
    }
}

/// Whether an item is a query of FROM, WHERE and a target list only, that means the same when it is merged.
fn is_simple(from: &From, number: usize) -> bool {
    let item = &from.items[number];
    let ItemKind::Query(query) = &item.kind else { return false };
    if item.is_barrier() {
        return false;
    }
    let Body::Select(select) = &query.body else { return false };
    let Some(tree) = &from.tree else { return false };
    let inside = &select.from;
    let Some(inside_tree) = &inside.tree else { return false };
    let plain = select.grouping.is_none()
        && select.windowing.is_empty()
        && select.sets.is_empty()
        && select.locks.is_empty()
        && select.distinct == Distinct::None
        && query.order.is_empty()
        && query.limit.is_none()
        && query.offset.is_none()
        && inside.recheck.is_none();
    if !plain {
        return false;
    }
    let volatile = select.targets.iter().chain(&inside.conditions).any(volatile_inside);
    // A full join's sides cannot read what is beside them.
    if volatile || (has_full_join(inside_tree) && !query.reads().is_empty()) {
        return false;
    }
    let mut items = Vec::new();
    tree.items(&mut items);
    if !items.contains(&number) {
        return false;
    }
    if tree.is_nullable(number) {
        // Above, its columns are NULL where nothing matches: what stands for them must be so too.
        let own = |slot: usize| slot < inside.width;
        if !select.targets.iter().all(|target| null_with(target, &own)) {
            return false;
        }
    }
    inside.conditions.is_empty() || has_place(tree, number)
}

fn has_full_join(tree: &JoinTree) -> bool {
    match tree {
        JoinTree::Item(_) => false,
        JoinTree::Join(join) => {
            join.kind == JoinType::Full || has_full_join(&join.left) || has_full_join(&join.right)
        }
    }
}

/// Where conditions on an item can go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The item is not here.
    Absent,
    /// Further up.
    Above,
    /// Into the ON of a join.
    Here,
    Nowhere,
}

/// Whether there is a place for conditions on an item: not directly on a side of a full join.
fn has_place(tree: &JoinTree, number: usize) -> bool {
    fn walk(tree: &JoinTree, number: usize) -> Place {
        let join = match tree {
            JoinTree::Item(item) if *item == number => return Place::Above,
            JoinTree::Item(_) => return Place::Absent,
            JoinTree::Join(join) => join,
        };
        match (walk(&join.left, number), join.kind) {
            (Place::Absent, kind) => match (walk(&join.right, number), kind) {
                (Place::Above, JoinType::Full) => Place::Nowhere,
                (Place::Above, _) => Place::Here,
                (place, _) => place,
            },
            (Place::Above, JoinType::Full) => Place::Nowhere,
            (Place::Above, JoinType::Inner) => Place::Here,
            (place, _) => place,
        }
    }
    matches!(walk(tree, number), Place::Above | Place::Here)
}

fn pull_up(level: &mut Level<'_>, number: usize) {
    let slots = level.from.items[number].slots;
    let empty = ItemKind::Query(Box::new(Query::empty()));
    let kind = std::mem::replace(&mut level.from.items[number].kind, empty);
    let ItemKind::Query(query) = kind else { return };
    let Body::Select(select) = query.body else { return };
    let mut inside = select.from;
    let conditions = std::mem::take(&mut inside.conditions);
    let offset = level.from.width;
    let Some(subtree) = merge(level.from, inside) else { return };
    let conditions: Vec<Expr> = conditions.into_iter().map(|c| moved(c, offset)).collect();
    let targets: Vec<Expr> = select.targets.into_iter().map(|t| moved(t, offset)).collect();
    if let Some(tree) = level.from.tree.take() {
        let (tree, rest) = place(tree, number, &mut Some((subtree, conditions)));
        level.from.tree = Some(tree);
        // The others are of a side whose rows a join leaves out, or fills up with NULLs.
        if let Some(recheck) = &mut level.from.recheck {
            recheck.extend(rest.iter().cloned());
        }
        level.from.conditions.extend(rest);
    }
    let mut put = |slot: &mut Expr, at: usize| {
        if let ExprKind::Slot { depth, slot: read } = slot.kind
            && depth == at
            && slots.contains(read)
            && let Some(target) = targets.get(read - slots.start)
        {
            let location = slot.location;
            *slot = target.clone();
            shift_depth(slot, at);
            slot.location = location;
        }
    };
    level.from.for_each_expr_mut(&mut |expr| expr_outer_slots_mut(expr, 0, &mut put));
    level.from.for_each_item_query_mut(&mut |query| query.outer_slots_mut(1, &mut put));
    level.exprs.iter_mut().for_each(|expr| expr_outer_slots_mut(expr, 0, &mut put));
}

/// Puts a subtree in the place of an item. Returns the conditions that have found no join on the way up.
fn place(
    tree: JoinTree,
    number: usize,
    what: &mut Option<(JoinTree, Vec<Expr>)>,
) -> (JoinTree, Vec<Expr>) {
    match tree {
        JoinTree::Item(item) if item == number => match what.take() {
            Some((tree, conditions)) => (tree, conditions),
            None => (JoinTree::Item(item), Vec::new()),
        },
        JoinTree::Item(item) => (JoinTree::Item(item), Vec::new()),
        JoinTree::Join(mut join) => {
            let (left, mut above) = place(join.left, number, what);
            let (right, from_right) = place(join.right, number, what);
            (join.left, join.right) = (left, right);
            // ON may judge the right side's rows; those of the left side would stay.
            join.on.extend(from_right);
            if join.kind == JoinType::Inner {
                join.on.append(&mut above);
            }
            (JoinTree::Join(join), above)
        }
    }
}

/// Adds the items of a nested query's FROM, whose conditions were taken out. Returns their tree.
pub(super) fn merge(from: &mut From, mut inside: From) -> Option<JoinTree> {
    let (offset, first) = (from.width, from.items.len());
    inside.for_each_expr_mut(&mut |expr| expr_outer_slots_mut(expr, 0, &mut into_parent(offset)));
    inside.for_each_item_query_mut(&mut |query| {
        query.outer_slots_mut(1, &mut into_parent(offset));
    });
    for item in inside.items {
        let mut slots = item.slots;
        slots.start += offset;
        slots.end += offset;
        from.items.push(FromItem { slots, ..item });
    }
    from.width += inside.width;
    let mut tree = inside.tree?;
    renumber(&mut tree, first);
    Some(tree)
}

fn renumber(tree: &mut JoinTree, first: usize) {
    match tree {
        JoinTree::Item(number) => *number += first,
        JoinTree::Join(join) => {
            renumber(&mut join.left, first);
            renumber(&mut join.right, first);
        }
    }
}

/// A slot of a nested query as its parent has it, once its row is part of the parent's from `offset` on.
fn into_parent(offset: usize) -> impl FnMut(&mut Expr, usize) {
    move |expr, level| {
        if let ExprKind::Slot { depth, slot } = &mut expr.kind {
            if *depth == level {
                *slot += offset;
            } else {
                *depth -= 1;
            }
        }
    }
}

/// An expression of a nested query as its parent has it.
pub(super) fn moved(mut expr: Expr, offset: usize) -> Expr {
    expr_outer_slots_mut(&mut expr, 0, &mut into_parent(offset));
    expr
}

/// Whether an expression reads slots that satisfy `inside` only.
pub(super) fn reads_inside(expr: &Expr, inside: &dyn Fn(usize) -> bool) -> bool {
    let mut only = true;
    reads_slots(expr, &mut |slot| only = only && inside(slot));
    only
}
