//! How long a statement becomes where what is written once is put in several places.
//!
//! `select a + a as a from (select a + a as a from …)` says with each level twice as much as with
//! the level below: put into one another, thirty levels are a thousand million sums.
//!
//! A hundred levels of `select - - … a as a from (…)`, of which none is deep, are as deep as all of
//! them together. Trees are copied and dropped with the stack that analysis took, level by level.

use super::{Query, SharedQuery};
use crate::expr::{Expr, ExprKind, Nested};

/// Expressions that a statement may gain: some megabytes. What people write comes to less.
const NODES_MAX: usize = 50_000;
/// How deeply an expression may nest that is put into another one: what the reserve of a stack has
/// room for, beside what analysis took.
pub(crate) const DEPTH_MAX: usize = 500;

/// How many expressions a statement may still gain.
pub(crate) struct Growth {
    left: usize,
}

impl Default for Growth {
    fn default() -> Self {
        Self { left: NODES_MAX }
    }
}

impl Growth {
    /// Whether the statement may gain this number of expressions; if so, they count as gained.
    pub(crate) fn admits(&mut self, nodes: usize) -> bool {
        let left = self.left.checked_sub(nodes);
        self.left = left.unwrap_or(self.left);
        left.is_some()
    }
}

/// Expressions that an expression is made of, those of queries inside it included.
pub(crate) fn nodes(expr: &Expr) -> usize {
    let mut count = 1;
    if let ExprKind::SubQuery(sub) = &expr.kind
        && let Nested::Query(query) = &sub.query
    {
        count += query.nodes();
    }
    expr.for_each_child(&mut |child| count += nodes(child));
    count
}

/// How deeply an expression nests, with the queries inside it.
pub(crate) fn depth(expr: &Expr) -> usize {
    let mut deepest = 0_usize;
    if let ExprKind::SubQuery(sub) = &expr.kind
        && let Nested::Query(query) = &sub.query
    {
        deepest = query.depth();
    }
    expr.for_each_child(&mut |child| deepest = deepest.max(depth(child)));
    deepest + 1
}

/// Counts the WITH queries that a copy of a query names: one that is named once only may be moved
/// to the place of its name.
pub(crate) fn count_named(shared: &mut [SharedQuery], copy: &Query) {
    copy.named_shared(&mut |number| {
        if let Some(named) = shared.get_mut(number) {
            named.references += 1;
        }
    });
}

impl Query {
    fn depth(&self) -> usize {
        let mut deepest = 0_usize;
        self.for_each_expr(&mut |expr| deepest = deepest.max(depth(expr)));
        self.for_each_item_query(&mut |query| deepest = deepest.max(query.depth()));
        deepest + 1
    }

    /// Expressions that it is made of, and queries.
    pub(crate) fn nodes(&self) -> usize {
        let mut count = 1;
        self.for_each_expr(&mut |expr| count += nodes(expr));
        self.for_each_item_query(&mut |query| count += query.nodes());
        count
    }
}
