//! Limits on the growth of a statement when rewriting copies expressions.
//!
//! `select a + a as a from (select a + a as a from …)` doubles in size with each level. Thirty
//! merged levels would be a thousand million sums.
//!
//! A hundred merged levels of `select - - … a as a from (…)` are as deep as all levels together.
//! Yet none of them is deep by itself. Copying and dropping such a tree takes as much stack as its
//! analysis, level by level.

use super::{Query, SharedQuery};
use crate::expr::{Expr, ExprKind, Nested};

/// Most expressions that a statement may gain: some megabytes. Statements written by people gain
/// less.
const NODES_MAX: usize = 50_000;
/// Most levels of an expression that is inserted into another one. The stack reserve has room for
/// this many levels, besides the stack that the analysis took.
pub const DEPTH_MAX: usize = 500;

/// The number of expressions that a statement may still gain.
pub struct Growth {
    left: usize,
}

impl Default for Growth {
    fn default() -> Self {
        Self { left: NODES_MAX }
    }
}

impl Growth {
    /// Returns whether the statement may gain this number of expressions. If so, counts them as
    /// gained.
    pub fn admits(&mut self, nodes: usize) -> bool {
        let left = self.left.checked_sub(nodes);
        self.left = left.unwrap_or(self.left);
        left.is_some()
    }
}

/// Returns the number of nodes of an expression, with the nodes of its queries.
pub fn nodes(expr: &Expr) -> usize {
    let mut count = 1;
    if let ExprKind::SubQuery(sub) = &expr.kind
        && let Nested::Query(query) = &sub.query
    {
        count += query.nodes();
    }
    expr.for_each_child(&mut |child| count += nodes(child));
    count
}

/// Returns the nesting depth of an expression, including its queries.
pub fn depth(expr: &Expr) -> usize {
    let mut deepest = 0_usize;
    if let ExprKind::SubQuery(sub) = &expr.kind
        && let Nested::Query(query) = &sub.query
    {
        deepest = query.depth();
    }
    expr.for_each_child(&mut |child| deepest = deepest.max(depth(child)));
    deepest + 1
}

/// Counts the WITH queries that a copy of a query names. A WITH query with a single reference may
/// be moved to that reference.
pub fn count_named(shared: &mut [SharedQuery], copy: &Query) {
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

    /// Returns the number of expression nodes and queries in the query.
    pub fn nodes(&self) -> usize {
        let mut count = 1;
        self.for_each_expr(&mut |expr| count += nodes(expr));
        self.for_each_item_query(&mut |query| count += query.nodes());
        count
    }
}
