//! The rewriter: transforms a query into an equivalent one with a better plan.
//!
//! Steps, in this order, the innermost queries first:
//!
//! 0. Calls of users' functions are inlined if the body is one expression ([`inline_call`]). An
//!    unneeded order is removed (`unneeded_order`).
//! 1. A WITH query with a single reference becomes a FROM item (`inline_with`). Constants in
//!    conditions are computed (`constants`). Common conjuncts are moved out of ORs
//!    (`common_parts`).
//! 2. EXISTS, IN and = ANY under AND become semi joins, NOT EXISTS becomes an anti join
//!    (`sublinks`).
//! 3. Simple queries among the FROM items become part of the query (`flatten`). Those without
//!    FROM leave constants in conditions, which are computed again.
//! 4. An outer join becomes an inner join if a condition refuses its NULL-extended rows
//!    (`outer_joins`).
//! 5. Conditions derived from equalities are added (`equalities`).
//! 6. Conditions are pushed into the queries among the FROM items (`push_down`).
//!
//! Some steps copy an expression to several places. Such a step is skipped if the statement would
//! become too long ([`Growth`]): the result is the same.

mod common_parts;
mod constants;
mod equalities;
mod flatten;
mod inline_with;
mod outer_joins;
mod push_down;
mod strictness;
mod sublinks;
#[cfg(test)]
mod tests;
mod unneeded_order;

pub use constants::Values;
pub(crate) use sublinks::{AskedOnce, asked_once};

use niwaki_env::stack;
use niwaki_expr::expr::{Expr, ExprKind, Nested, inline_call};
use niwaki_expr::query::{
    AggregateCall, Body, From, Growth, JoinTree, JoinType, MergeAction, MergeQuery, ModifyQuery,
    ModifySource, Query, Select, SharedQuery, StatementBody, StatementQuery,
};
use niwaki_parse::error::Result;
use niwaki_types::work;

/// Work units of rewriting a query: its parts are visited a few times.
const QUERY_UNITS: usize = 16 << 10;

/// Rewrites all queries of a statement.
///
/// # Errors
/// The errors that end the statement. The statement is then only partly rewritten.
pub fn rewrite(statement: &mut StatementQuery, values: &mut Values<'_>) -> Result<()> {
    statement.count_named();
    let (mut ended, mut growth) = (Ok(()), Growth::default());
    let (ended, growth) = (&mut ended, &mut growth);
    let mut rewriter = Rewriter { shared: &mut statement.shared, values, ended, growth };
    match &mut statement.body {
        StatementBody::Select(query) => rewriter.query(query),
        StatementBody::Modify(modify) => rewriter.modify(modify),
        StatementBody::Merge(merge) => rewriter.merge(merge),
    }
    // The queries that are still shared.
    for number in 0..statement.shared.len() {
        let mut query = std::mem::replace(&mut statement.shared[number].query, Query::empty());
        let shared = &mut statement.shared;
        Rewriter { shared, values, ended, growth }.query(&mut query);
        statement.shared[number].query = query;
    }
    std::mem::replace(ended, Ok(()))
}

struct Rewriter<'s, 'v> {
    shared: &'s mut Vec<SharedQuery>,
    values: &'s mut Values<'v>,
    /// The error that ended the statement.
    ended: &'s mut Result<()>,
    growth: &'s mut Growth,
}

/// FROM and WHERE of one level, with the other expressions over their row.
struct Level<'q> {
    from: &'q mut From,
    exprs: Vec<&'q mut Expr>,
    /// True if rows of the level are locked or changed: newer versions are rechecked.
    locks: bool,
}

impl Rewriter<'_, '_> {
    fn query(&mut self, query: &mut Query) {
        self.deeper(|this| {
            query.for_each_expr_mut(&mut |expr| this.expr(expr));
            this.body(query);
        });
    }

    /// Runs a recursive part of rewriting. Inlined WITH queries are nested more deeply than
    /// anything that was analyzed.
    fn deeper(&mut self, run: impl FnOnce(&mut Self)) {
        if self.ended.is_err() {
            return;
        }
        let ran = stack::deeper(|| {
            work::tick(QUERY_UNITS)?;
            run(self);
            Ok(())
        });
        if ran.is_err() {
            *self.ended = ran;
        }
    }

    /// Rewrites a query's FROM queries, then the query itself. Its expressions are already
    /// rewritten.
    fn body(&mut self, query: &mut Query) {
        match &mut query.body {
            Body::Select(select) => {
                unneeded_order::leave_out(select);
                self.level(&mut level_of(select));
            }
            Body::Values(_) => {}
            Body::Modify(modify) => self.modify(modify),
            Body::Set(set) => {
                self.deeper(|this| this.body(&mut set.left.query));
                self.deeper(|this| this.body(&mut set.right.query));
            }
        }
    }

    fn modify(&mut self, modify: &mut ModifyQuery) {
        let values = modify.values.iter_mut().flatten();
        let mut exprs: Vec<&mut Expr> = values.chain(&mut modify.returning).collect();
        match &mut modify.source {
            ModifySource::Row => self.exprs(&mut exprs),
            ModifySource::Rows(rows) => {
                self.exprs(&mut exprs);
                self.exprs(&mut rows.iter_mut().flatten().collect::<Vec<_>>());
            }
            ModifySource::Query(query) => {
                self.exprs(&mut exprs);
                self.query(query);
            }
            ModifySource::From(from) => {
                self.exprs(&mut exprs);
                self.level(&mut Level { from, exprs, locks: true });
            }
        }
        let update = modify.conflict.as_mut().and_then(|conflict| conflict.update.as_mut());
        if let Some(update) = update {
            let values = update.values.iter_mut().flatten();
            self.exprs(&mut values.chain(&mut update.condition).collect::<Vec<_>>());
        }
    }

    fn merge(&mut self, merge: &mut MergeQuery) {
        let actions = merge.actions.iter_mut().flat_map(MergeAction::exprs_mut);
        let mut exprs: Vec<&mut Expr> = actions.collect();
        self.exprs(&mut exprs);
        self.level(&mut Level { from: &mut merge.from, exprs, locks: true });
    }

    fn exprs(&mut self, exprs: &mut [&mut Expr]) {
        exprs.iter_mut().for_each(|expr| self.expr(expr));
    }

    /// Rewrites the queries inside an expression, and folds constants in it.
    fn expr(&mut self, expr: &mut Expr) {
        if self.values.unfit.is_ok() {
            self.values.unfit = constants::fits(expr);
        }
        if let ExprKind::SubQuery(sub) = &mut expr.kind
            && let Nested::Query(query) = &mut sub.query
        {
            self.query(query);
        }
        expr.for_each_child_mut(&mut |child| self.expr(child));
        inline_call(expr, self.growth);
        constants::fold(expr);
    }

    /// Rewrites one level, whose expressions are already rewritten.
    fn level(&mut self, level: &mut Level<'_>) {
        self.inline(level.from);
        constants::compute(level.from, self.values);
        level.from.for_each_item_query_mut(&mut |query| self.query(query));
        common_parts::take_out(level.from);
        hoist(level.from);
        sublinks::pull_up(level);
        match flatten::flatten(level, self.growth) {
            Ok(true) => constants::compute(level.from, self.values),
            Ok(false) => {}
            Err(error) => *self.ended = Err(error),
        }
        hoist(level.from);
        outer_joins::reduce(level.from);
        hoist(level.from);
        equalities::derive(level.from);
        push_down::push_down(level.from, self.growth);
    }
}

/// Returns the level of a SELECT: its FROM, and the expressions over its rows.
fn level_of(select: &mut Select) -> Level<'_> {
    let mut exprs: Vec<&mut Expr> = Vec::new();
    if let Some(grouping) = &mut select.grouping {
        exprs.extend(&mut grouping.groups);
        exprs.extend(grouping.calls.iter_mut().flat_map(AggregateCall::exprs_mut));
    } else {
        exprs.extend(select.windowing.row_exprs_mut());
        exprs.extend(&mut select.targets);
        exprs.extend(select.sets.iter_mut().flat_map(|set| &mut set.arguments));
    }
    Level { from: &mut select.from, exprs, locks: !select.locks.is_empty() }
}

/// Moves conditions of inner joins to WHERE, which is equivalent.
fn hoist(from: &mut From) {
    fn walk(tree: &mut JoinTree, conditions: &mut Vec<Expr>) {
        let JoinTree::Join(join) = tree else { return };
        match join.kind {
            JoinType::Inner => {
                walk(&mut join.left, conditions);
                walk(&mut join.right, conditions);
                conditions.append(&mut join.on);
            }
            JoinType::Left | JoinType::Semi | JoinType::Anti => walk(&mut join.left, conditions),
            JoinType::Full => {}
        }
    }
    let mut found = Vec::new();
    if let Some(tree) = &mut from.tree {
        walk(tree, &mut found);
    }
    if let Some(recheck) = &mut from.recheck {
        recheck.extend(found.iter().cloned());
    }
    // Join conditions come first, in the order in which they are written.
    found.append(&mut from.conditions);
    from.conditions = found;
}
