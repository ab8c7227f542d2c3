//! Flattening of simple queries in FROM: they become part of the query around them.
//!
//! A query without FROM, or VALUES of one row, always has exactly one row. Its expressions replace
//! its columns, and its item leaves the join tree, as in PostgreSQL. A nested query in a condition
//! that read such a column then runs once, not for each row.

use niwaki_expr::expr::{Expr, ExprKind};
use niwaki_expr::query::{
    Body, DEPTH_MAX, Distinct, From, FromItem, Growth, ItemKind, JoinNode, JoinTree, JoinType,
    Query, Select, depth, expr_outer_slots, expr_outer_slots_mut, nodes, reads_slots, shift_depth,
    volatile_inside,
};
use niwaki_parse::error::Result;
use niwaki_types::work;

use super::Level;
use super::strictness::null_with;

/// Work units of pulling a query up, for each item of the level: the item's tree is rebuilt.
const ITEM_UNITS: usize = 512;

/// Flattens every simple query among the FROM items. Returns whether one of them had no FROM: then
/// conditions may contain new constants.
///
/// # Errors
/// The errors that end the statement.
pub(super) fn flatten(level: &mut Level<'_>, growth: &mut Growth) -> Result<bool> {
    let mut without_from = false;
    // Items of a flattened query are not visited: that query was already rewritten.
    for number in 0..level.from.items.len() {
        let one_row = is_one_row(level.from, number);
        if (one_row || is_simple(level.from, number))
            && gained(level, number).is_some_and(|gained| growth.admits(gained))
        {
            work::tick(level.from.items.len().saturating_mul(ITEM_UNITS))?;
            pull_up(level, number);
            without_from = without_from || one_row;
        }
    }
    Ok(without_from)
}

/// Returns the number of expressions that a level gains when an item's targets replace its columns.
/// Returns `None` if the targets are too deep.
fn gained(level: &Level<'_>, number: usize) -> Option<usize> {
    let item = &level.from.items[number];
    let ItemKind::Query(query) = &item.kind else { return Some(0) };
    let targets = match &query.body {
        Body::Select(select) => select.targets.as_slice(),
        Body::Values(rows) => rows.first().map(Vec::as_slice).unwrap_or_default(),
        Body::Set(_) | Body::Modify(_) => return Some(0),
    };
    let sizes: Vec<usize> = targets.iter().map(nodes).collect();
    if sizes.iter().all(|size| *size == 1) {
        return Some(0);
    }
    let mut parts = targets.iter().zip(&sizes);
    if parts.any(|(target, size)| *size > DEPTH_MAX && depth(target) > DEPTH_MAX) {
        return None;
    }
    let mut reads = vec![0_usize; sizes.len()];
    let mut count = |slot: &Expr, at: usize| {
        if let ExprKind::Slot { depth, slot: read } = slot.kind
            && depth == at
            && item.slots.contains(read)
            && let Some(reads) = reads.get_mut(read - item.slots.start)
        {
            *reads += 1;
        }
    };
    level.from.for_each_expr(&mut |expr| expr_outer_slots(expr, 0, &mut count));
    level.from.for_each_item_query(&mut |query| query.outer_slots(1, &mut count));
    level.exprs.iter().for_each(|expr| expr_outer_slots(expr, 0, &mut count));
    // The first reference takes the target over; only the others are copies.
    let gained = sizes.iter().zip(&reads).map(|(size, reads)| (size - 1) * reads.saturating_sub(1));
    Some(gained.sum())
}

/// Returns whether an item is a query without FROM, or VALUES of one row, that can be flattened.
/// Its columns must be replaceable by its expressions, and its row must be able to leave the tree.
fn is_one_row(from: &From, number: usize) -> bool {
    let (item, Some(tree)) = (&from.items[number], &from.tree) else { return false };
    let ItemKind::Query(query) = &item.kind else { return false };
    let (values, conditions): (&[Expr], &[Expr]) = match &query.body {
        Body::Select(select) if select.from.tree.is_none() && is_plain(query, select) => {
            (select.targets.as_slice(), select.from.conditions.as_slice())
        }
        Body::Values(rows) if is_unordered(query) => match rows.as_slice() {
            [row] => (row.as_slice(), &[]),
            _ => return false,
        },
        _ => return false,
    };
    let mut columns = values.iter().zip(&query.columns);
    let typed = columns.all(|(value, column)| value.column_type() == column.column_type);
    typed
        && !item.is_barrier()
        && !values.iter().chain(conditions).any(volatile_inside)
        && !tree.is_nullable(number)
        && can_go(tree, number) == Some(true)
}

/// Returns whether an item with exactly one row can leave the tree. Its join then keeps the rows
/// that ON admits. Returns `None` if the item is not in the tree.
fn can_go(tree: &JoinTree, number: usize) -> Option<bool> {
    let is_it = |side: &JoinTree| matches!(side, JoinTree::Item(item) if *item == number);
    let join = match tree {
        // The item is the whole tree.
        JoinTree::Item(_) => return is_it(tree).then_some(true),
        JoinTree::Join(join) => join,
    };
    if is_it(&join.left) {
        return Some(join.kind == JoinType::Inner);
    }
    if is_it(&join.right) {
        return Some(matches!(join.kind, JoinType::Inner | JoinType::Semi));
    }
    can_go(&join.left, number).or_else(|| can_go(&join.right, number))
}

fn is_unordered(query: &Query) -> bool {
    query.order.is_empty() && query.limit.is_none() && query.offset.is_none()
}

/// Returns whether a query has only FROM, WHERE and a target list.
fn is_plain(query: &Query, select: &Select) -> bool {
    is_unordered(query)
        && select.grouping.is_none()
        && select.windowing.is_empty()
        && select.sets.is_empty()
        && select.locks.is_empty()
        && select.distinct == Distinct::None
        && select.from.recheck.is_none()
}

/// Returns whether an item is a query of only FROM, WHERE and a target list whose meaning survives
/// merging.
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
    if !is_plain(query, select) {
        return false;
    }
    let volatile = select.targets.iter().chain(&inside.conditions).any(volatile_inside);
    // The sides of a full join cannot read the items next to it.
    if volatile || (has_full_join(inside_tree) && !query.reads().is_empty()) {
        return false;
    }
    let mut items = Vec::new();
    tree.items(&mut items);
    if !items.contains(&number) {
        return false;
    }
    if tree.is_nullable(number) {
        // Above the join, unmatched columns are NULL, so the replacing expressions must be NULL
        // there, too.
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

/// The place for conditions on an item.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The item is not in this subtree.
    Absent,
    /// A join further up.
    Above,
    /// The ON of a join in this subtree.
    Here,
    Nowhere,
}

/// Returns whether there is a place for conditions on an item. There is none directly on a side of
/// a full join.
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
    let (targets, mut inside) = match query.body {
        Body::Select(select) => {
            let Select { targets, from, .. } = *select;
            (targets, from)
        }
        Body::Values(rows) => (rows.into_iter().flatten().collect(), From::default()),
        Body::Set(_) | Body::Modify(_) => return,
    };
    let conditions = std::mem::take(&mut inside.conditions);
    let offset = level.from.width;
    let subtree = merge(level.from, inside);
    let conditions: Vec<Expr> = conditions.into_iter().map(|c| moved(c, offset)).collect();
    let targets: Vec<Expr> = targets.into_iter().map(|t| moved(t, offset)).collect();
    if let Some(tree) = level.from.tree.take() {
        let (tree, rest) = place(tree, number, &mut Some((subtree, conditions)));
        level.from.tree = tree;
        // The other conditions concern a side whose rows a join drops or fills with NULLs.
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

/// Replaces an item by a subtree; by nothing, if the item is a row that always exists. Returns the
/// remaining tree, and the conditions that found no join on the way up.
fn place(
    tree: JoinTree,
    number: usize,
    what: &mut Option<(Option<JoinTree>, Vec<Expr>)>,
) -> (Option<JoinTree>, Vec<Expr>) {
    let join = match tree {
        JoinTree::Item(item) => {
            let placed = if item == number { what.take() } else { None };
            return placed.unwrap_or((Some(tree), Vec::new()));
        }
        JoinTree::Join(join) => join,
    };
    let JoinNode { kind, left, right, mut on, form } = *join;
    let (left, mut above) = place(left, number, what);
    let (right, from_right) = place(right, number, what);
    // ON may filter the right side's rows. It would keep unmatched rows of the left side.
    on.extend(from_right);
    match (left, right) {
        (Some(left), Some(right)) => {
            if kind == JoinType::Inner {
                on.append(&mut above);
            }
            let join = JoinNode { kind, left, right, on, form };
            (Some(JoinTree::Join(Box::new(join))), above)
        }
        // The item was a side of an inner join, or the right side of a semi join.
        (side, None) | (None, side) => {
            on.append(&mut above);
            (side, on)
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

/// Returns a visitor that rewrites slots of a nested query for its parent, whose row has the nested
/// row from `offset` on.
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

/// Rewrites an expression of a nested query for its parent.
pub(super) fn moved(mut expr: Expr, offset: usize) -> Expr {
    expr_outer_slots_mut(&mut expr, 0, &mut into_parent(offset));
    expr
}

/// Returns whether an expression reads only slots that satisfy `inside`.
pub(super) fn reads_inside(expr: &Expr, inside: &dyn Fn(usize) -> bool) -> bool {
    let mut only = true;
    reads_slots(expr, &mut |slot| only = only && inside(slot));
    only
}
