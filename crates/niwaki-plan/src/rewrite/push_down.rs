//! Predicate pushdown: moves conditions into the queries among the FROM items.

use niwaki_expr::expr::{Expr, ExprKind};
use niwaki_expr::query::{
    Body, DEPTH_MAX, Distinct, From, Grouping, Growth, ItemKind, JoinTree, JoinType, Query, depth,
    expr_outer_slots, expr_outer_slots_mut, has_query, nodes, reads_slots, shift_depth,
    volatile_inside,
};

use super::flatten::reads_inside;
use super::outer_joins::reduce;

/// Moves each condition that reads only the columns of one query into that query, if the meaning
/// stays the same.
pub(super) fn push_down(from: &mut From, growth: &mut Growth) {
    let mut numbers = Vec::new();
    if let Some(tree) = &from.tree {
        judged(tree, &mut numbers);
    }
    for number in numbers {
        push_into(from, number, growth);
    }
}

/// Appends the items whose rows conditions above may filter: no join fills them with NULLs, or
/// drops their columns.
fn judged(tree: &JoinTree, out: &mut Vec<usize>) {
    match tree {
        JoinTree::Item(number) => out.push(*number),
        JoinTree::Join(join) => match join.kind {
            JoinType::Inner => {
                judged(&join.left, out);
                judged(&join.right, out);
            }
            JoinType::Left | JoinType::Semi | JoinType::Anti => judged(&join.left, out),
            JoinType::Full => {}
        },
    }
}

fn push_into(from: &mut From, number: usize, growth: &mut Growth) {
    let item = &mut from.items[number];
    if item.is_barrier() {
        return;
    }
    let slots = item.slots;
    let ItemKind::Query(query) = &mut item.kind else { return };
    let inside = |slot: usize| slots.contains(slot);
    let mut pushed = false;
    let mut kept = Vec::new();
    for condition in std::mem::take(&mut from.conditions) {
        let mut reads = false;
        reads_slots(&condition, &mut |_| reads = true);
        let plain = reads
            && reads_inside(&condition, &inside)
            && !volatile_inside(&condition)
            && !has_query(&condition);
        if !plain {
            kept.push(condition);
            continue;
        }
        // The condition over the query's own rows, one level further down.
        let mut own = condition.clone();
        expr_outer_slots_mut(&mut own, 0, &mut |slot, level| {
            if let ExprKind::Slot { depth, slot } = &mut slot.kind {
                if *depth == level { *slot -= slots.start } else { *depth += 1 }
            }
        });
        if accepts(query, &own, growth) {
            push(query, own);
            pushed = true;
        } else {
            kept.push(condition);
        }
    }
    from.conditions = kept;
    if pushed {
        settle(query, growth);
    }
}

/// Rewrites a query again after it received new conditions.
fn settle(query: &mut Query, growth: &mut Growth) {
    match &mut query.body {
        Body::Select(select) => {
            reduce(&mut select.from);
            super::hoist(&mut select.from);
            push_down(&mut select.from, growth);
        }
        Body::Values(_) | Body::Modify(_) => {}
        Body::Set(set) => {
            settle(&mut set.left.query, growth);
            settle(&mut set.right.query, growth);
        }
    }
}

/// Returns whether a condition over the rows of a query can be evaluated inside it. The expressions
/// that replace its columns count against the growth limit.
fn accepts(query: &Query, condition: &Expr, growth: &mut Growth) -> bool {
    if query.limit.is_some() || query.offset.is_some() {
        return false;
    }
    match &query.body {
        Body::Select(select) => {
            // A condition on columns outside of DISTINCT ON would change which row is the first.
            let on = match &select.distinct {
                Distinct::On { targets, .. } => Some(targets),
                Distinct::None | Distinct::Rows => None,
            };
            let mut fits = select.sets.is_empty()
                && select.locks.is_empty()
                && select.from.recheck.is_none()
                && (select.from.tree.is_some() || select.grouping.is_some());
            reads_slots(condition, &mut |slot| {
                fits = fits
                    && slot < query.columns.len()
                    && on.is_none_or(|on| on.contains(&slot))
                    && select.targets.get(slot).is_some_and(|target| {
                        // The result of a window function depends on rows that the condition would
                        // remove. Only whole partitions may be removed.
                        !volatile_inside(target) && select.windowing.all_divide_by(target)
                    });
            });
            // Above grouping sets, evaluating the condition slightly earlier gains nothing.
            if !fits || !may_read(condition, &select.targets, growth) {
                return false;
            }
            let Some(grouping) = &select.grouping else { return true };
            let own = substituted(condition, &select.targets);
            let below = goes_below(grouping, &own);
            (below || grouping.sets.sets.is_empty())
                && (!below || may_read(&own, &grouping.groups, growth))
        }
        Body::Values(_) | Body::Modify(_) => false,
        // The result of a recursive query depends on rows that the condition would remove.
        Body::Set(set) if set.recursive.is_some() => false,
        Body::Set(set) => [&set.left, &set.right].into_iter().all(|side| {
            may_read(condition, &side.exprs, growth)
                && accepts(&side.query, &substituted(condition, &side.exprs), growth)
        }),
    }
}

/// Returns whether a condition over the row of a grouping can be evaluated before grouping.
///
/// It must read only groups that are in every set, and no aggregate results. Without groups there
/// is a result row even if no input row is left.
fn goes_below(grouping: &Grouping, condition: &Expr) -> bool {
    let groups = grouping.groups.len();
    let mut read = Vec::new();
    reads_slots(condition, &mut |slot| read.push(slot));
    groups > 0 && reads_inside(condition, &|slot| slot < groups) && grouping.sets.all_have(&read)
}

/// Pushes a condition over the rows of a query into the query.
fn push(query: &mut Query, condition: Expr) {
    match &mut query.body {
        Body::Select(select) => {
            let own = substituted(&condition, &select.targets);
            let Some(grouping) = &mut select.grouping else {
                select.from.conditions.push(own);
                return;
            };
            if goes_below(grouping, &own) {
                select.from.conditions.push(substituted(&own, &grouping.groups));
                return;
            }
            grouping.having = Some(match grouping.having.take() {
                // All conditions share one AND: nested ANDs would be as deep as there are
                // conditions.
                Some(Expr { kind: ExprKind::And(mut parts), ty, .. }) => {
                    parts.push(own);
                    Expr::new(ExprKind::And(parts), ty, -1)
                }
                Some(having) => {
                    let ty = having.ty;
                    Expr::new(ExprKind::And(vec![having, own]), ty, -1)
                }
                None => own,
            });
        }
        Body::Values(_) | Body::Modify(_) => {}
        Body::Set(set) => {
            for side in [&mut set.left, &mut set.right] {
                let own = substituted(&condition, &side.exprs);
                push(&mut side.query, own);
            }
        }
    }
}

/// Returns whether the growth limits permit the copies that [`substituted`] makes, and their depth.
fn may_read(expr: &Expr, by: &[Expr], growth: &mut Growth) -> bool {
    let (mut gained, mut deepest) = (0_usize, 0_usize);
    expr_outer_slots(expr, 0, &mut |read, level| {
        if let ExprKind::Slot { depth: of, slot } = read.kind
            && of == level
            && let Some(value) = by.get(slot)
        {
            gained += nodes(value) - 1;
            deepest = deepest.max(depth(value));
        }
    });
    gained == 0 || depth(expr) + deepest <= DEPTH_MAX && growth.admits(gained)
}

/// Returns the expression with its slots replaced by the expressions `by`.
fn substituted(expr: &Expr, by: &[Expr]) -> Expr {
    let mut expr = expr.clone();
    expr_outer_slots_mut(&mut expr, 0, &mut |slot, level| {
        if let ExprKind::Slot { depth, slot: number } = slot.kind
            && depth == level
            && let Some(value) = by.get(number)
        {
            *slot = value.clone();
            shift_depth(slot, level);
        }
    });
    expr
}
