//! EXISTS, IN and = ANY as joins, and EXISTS as = ANY.

use std::slice::from_ref;

use niwaki_expr::context::ColumnInfo;
use niwaki_expr::expr::{ComparedRows, Expr, ExprKind, Nested, Quantifier, SubQuery, SubQueryKind};
use niwaki_expr::query::{
    Body, Distinct, From, FromItem, ItemKind, JoinForm, JoinNode, JoinTree, JoinType, Query,
    Select, SlotRange, expr_outer_slots_mut, is_volatile, reads_slots, split_conjuncts,
    volatile_inside,
};
use niwaki_types::{Datum, TypeOid};

use super::flatten::{merge, moved};
use super::strictness::is_never_null;
use super::{Level, hoist};

/// Turns the level's EXISTS, IN and ANY conditions into joins, if that is correct.
pub(super) fn pull_up(level: &mut Level<'_>) {
    if level.from.tree.is_none() {
        return;
    }
    let (mut recheck, mut pulled) = (Vec::new(), false);
    for condition in std::mem::take(&mut level.from.conditions) {
        let before = level.locks.then(|| condition.clone());
        match pull_one(level.from, condition) {
            None => {
                pulled = true;
                recheck.extend(before.into_iter().flat_map(|before| judged_by(level.from, before)));
            }
            Some(condition) => {
                recheck.extend(before);
                level.from.conditions.push(condition);
            }
        }
    }
    if pulled && level.locks && level.from.recheck.is_none() {
        level.from.recheck = Some(recheck);
    }
}

/// Returns the recheck conditions after a condition became the topmost join.
///
/// A semi join keeps the row that it found: the query does not run again, and locks nothing again.
/// An anti join found no row, so its query runs again.
fn judged_by(from: &From, before: Expr) -> Vec<Expr> {
    match &from.tree {
        Some(JoinTree::Join(join)) if join.kind == JoinType::Semi => join.on.clone(),
        _ => vec![before],
    }
}

/// Turns a condition into a join; returns the condition if that is impossible.
fn pull_one(from: &mut From, condition: Expr) -> Option<Expr> {
    let (sub, negated) = match &condition.kind {
        ExprKind::SubQuery(sub) => (sub, false),
        ExprKind::Not(inner) => match &inner.kind {
            ExprKind::SubQuery(sub) => (sub, true),
            _ => return Some(condition),
        },
        _ => return Some(condition),
    };
    let fits = match &sub.kind {
        SubQueryKind::Exists => match &sub.query {
            Nested::Query(query) => exists_fits(query),
            Nested::Plan(_) => false,
        },
        SubQueryKind::Compare { any: true, left, function, right_cast } => {
            let (left, right) = (from_ref(left), from_ref(right_cast));
            any_fits(sub, left)
                && (!negated || (function.name == "=" && no_nulls(sub, left, right, from)))
        }
        SubQueryKind::CompareRows(rows) if rows.with == Quantifier::Any => {
            any_fits(sub, &rows.left)
                && (!negated
                    || (rows.operator() == "=" && no_nulls(sub, &rows.left, &rows.right, from)))
        }
        _ => false,
    };
    if !fits {
        return Some(condition);
    }
    let sub = match condition.kind {
        ExprKind::SubQuery(sub) => sub,
        ExprKind::Not(inner) => match inner.kind {
            ExprKind::SubQuery(sub) => sub,
            kind => return Some(Expr { kind, ..*inner }),
        },
        _ => return Some(condition),
    };
    let kind = if negated { JoinType::Anti } else { JoinType::Semi };
    let SubQuery { kind: question, query: Nested::Query(query) } = *sub else { return None };
    let (right, on) = match (question, query.open()) {
        (SubQueryKind::Compare { function, left, right_cast, .. }, query) => {
            let location = left.location;
            let slot = Expr { kind: ExprKind::Slot { depth: 0, slot: 0 }, ..left.clone() };
            let operands = vec![slot, right_cast.shifted(1)];
            let on = niwaki_functions::functions::call(function, operands, TypeOid::BOOL, location);
            any_join(from, query, vec![left], on)
        }
        (SubQueryKind::CompareRows(rows), query) => {
            let ComparedRows { left, compared, .. } = *rows;
            any_join(from, query, left, compared)
        }
        (_, Query { body: Body::Select(select), .. }) => {
            let mut inner = select.from;
            hoist(&mut inner);
            let conditions = std::mem::take(&mut inner.conditions);
            let offset = from.width;
            let right = merge(from, inner)?;
            let on = conditions.into_iter().map(|condition| moved(condition, offset)).collect();
            (right, on)
        }
        _ => return None,
    };
    let left = from.tree.take()?;
    from.tree =
        Some(JoinTree::Join(Box::new(JoinNode { kind, left, right, on, form: JoinForm::Listed })));
    None
}

/// Turns `left op ANY (query)` into a join with the query. `compared` is over a row with the values
/// of `left`, then the query's columns.
fn any_join(
    from: &mut From,
    query: Query,
    left: Vec<Expr>,
    mut compared: Expr,
) -> (JoinTree, Vec<Expr>) {
    let slots = SlotRange { start: from.width, end: from.width + query.columns.len() };
    joined(&mut compared, &left, slots.start);
    let name = "ANY_subquery".to_owned();
    let kind = ItemKind::Query(Box::new(query));
    from.items.push(FromItem::new(kind, name, slots));
    from.width = slots.end;
    let mut on = Vec::new();
    split_conjuncts(compared, &mut on);
    (JoinTree::Item(from.items.len() - 1), on)
}

/// Rewrites a comparison to be over the row of FROM, in which the query's columns begin at `start`.
fn joined(expr: &mut Expr, left: &[Expr], start: usize) {
    if let ExprKind::Slot { depth: 0, slot } = &mut expr.kind {
        match left.get(*slot) {
            Some(part) => *expr = part.clone(),
            None => *slot += start - left.len(),
        }
        return;
    }
    expr.for_each_child_mut(&mut |child| joined(child, left, start));
}

/// Returns whether the query's rows come from FROM and WHERE alone.
fn is_plain(select: &Select) -> bool {
    select.grouping.is_none()
        && select.windowing.is_empty()
        && select.sets.is_empty()
        && select.locks.is_empty()
}

fn exists_fits(query: &Query) -> bool {
    let Body::Select(select) = &query.body else { return false };
    let limited = match query.limit.as_ref().map(|limit| &limit.kind) {
        None | Some(ExprKind::Const(Datum::Null)) => false,
        Some(ExprKind::Const(Datum::Int8(number))) => *number < 1,
        Some(_) => true,
    };
    if !is_plain(select) || limited || query.offset.is_some() || select.from.tree.is_none() {
        return false;
    }
    // An uncorrelated EXISTS runs once, which is better. Only WHERE may be correlated.
    let from = &select.from;
    let mut reads = false;
    for condition in &from.conditions {
        reads = reads || reads_parent(condition);
    }
    let mut other = false;
    from.for_each_item_query(&mut |query| {
        query.outer_slots(1, &mut |slot, level| {
            other |= matches!(slot.kind, ExprKind::Slot { depth, .. } if depth == level + 1);
        });
        other |= query.is_volatile();
    });
    let mut everywhere = 0;
    let mut in_conditions = 0;
    from.for_each_expr(&mut |expr| {
        everywhere += usize::from(reads_parent(expr));
        other |= volatile_inside(expr);
    });
    from.conditions.iter().for_each(|expr| in_conditions += usize::from(reads_parent(expr)));
    reads && !other && everywhere == in_conditions && from.recheck.is_none()
}

/// EXISTS as `left = ANY (query)`, where it is no join. The query is then uncorrelated, and can run
/// once.
pub(crate) struct AskedOnce {
    /// The equality operator.
    pub function: &'static niwaki_expr::function::Function,
    /// The expression over the row around the query.
    pub left: Expr,
    /// The query. Its only column is compared with `left`.
    pub query: Query,
}

/// Returns the query of an EXISTS for a single run, if one equality is its only correlation.
pub(crate) fn asked_once(query: &Query) -> Option<AskedOnce> {
    if !exists_fits(query) {
        return None;
    }
    let mut query = query.clone();
    let Body::Select(select) = &mut query.body else { return None };
    let conditions = &mut select.from.conditions;
    let place = conditions.iter().position(reads_parent)?;
    let ExprKind::Call { function, arguments } = conditions.remove(place).kind else { return None };
    let [one, other]: [Expr; 2] = arguments.try_into().ok()?;
    let (mut left, right) = if reads_parent(&one) { (one, other) } else { (other, one) };
    let fits = function.name == "="
        && left.ty == right.ty
        && !reads_own(&left)
        && reads_own(&right)
        && !reads_parent(&right);
    if !fits {
        return None;
    }
    expr_outer_slots_mut(&mut left, 0, &mut |slot, level| {
        if let ExprKind::Slot { depth, .. } = &mut slot.kind
            && *depth > level
        {
            *depth -= 1;
        }
    });
    query.columns = vec![ColumnInfo::computed("exists", right.column_type())];
    (select.targets, select.distinct) = (vec![right], Distinct::None);
    query.order.clear();
    query.limit = None;
    (!query.is_correlated()).then_some(AskedOnce { function, left, query })
}

/// Returns whether an expression reads its own row.
fn reads_own(expr: &Expr) -> bool {
    let mut found = false;
    reads_slots(expr, &mut |_| found = true);
    found
}

/// Returns whether an expression of a nested query reads the directly enclosing row.
fn reads_parent(expr: &Expr) -> bool {
    let mut found = false;
    niwaki_expr::query::expr_outer_slots(expr, 0, &mut |slot, level| {
        found |= matches!(slot.kind, ExprKind::Slot { depth, .. } if depth == level + 1);
    });
    found
}

fn any_fits(sub: &SubQuery, left: &[Expr]) -> bool {
    let Nested::Query(query) = &sub.query else { return false };
    left.iter().any(reads_own)
        && !left.iter().any(is_volatile)
        && query.reads().is_empty()
        && !query.is_volatile()
}

/// Returns whether no part of either side of `left = ANY (query)` can be NULL. `right` are the
/// compared expressions over the query's rows.
fn no_nulls(sub: &SubQuery, left: &[Expr], right: &[Expr], from: &From) -> bool {
    let Nested::Query(query) = &sub.query else { return false };
    let Body::Select(select) = &query.body else { return false };
    let plain = |right: &Expr| {
        matches!(right.kind, ExprKind::Slot { .. })
            || matches!(&right.kind, ExprKind::Cast { argument, .. } if matches!(argument.kind, ExprKind::Slot { .. }))
    };
    select.grouping.is_none()
        && select.sets.is_empty()
        && right.iter().all(plain)
        && select.targets.len() >= right.len()
        && select.targets.iter().take(right.len()).all(|target| is_never_null(target, &select.from))
        && left.iter().all(|left| is_never_null(left, from))
}
