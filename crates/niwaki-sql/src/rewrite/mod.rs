//! From a query to one that asks the same and is easier to answer well.
//!
//! In this order, the innermost queries first:
//! 0. calls of users' functions become what these compute, where that is one expression ([`inline_call`]);
//!    an order that nobody asks about is left out ([`orders`]);
//! 1. a WITH query that is named once becomes a FROM item ([`shared`]); constants in conditions are computed
//!    ([`constants`]); what all sides of an OR ask for stands beside it ([`common_parts`]);
//! 2. EXISTS, IN and = ANY under AND become semi joins, NOT EXISTS becomes an anti join ([`sublinks`]);
//! 3. simple queries among the FROM items become part of the query ([`flatten`]); those without FROM
//!    leave constants in conditions, which are computed again;
//! 4. an outer join becomes an inner one where a condition refuses the rows that it adds ([`outer_joins`]);
//! 5. what follows from equalities is added ([`equalities`]);
//! 6. conditions go into the queries among the FROM items ([`push_down`]).
//!
//! Some of this writes an expression in several places. It is left undone where the statement would
//! become too long ([`Growth`]): the answer is the same.

mod common_parts;
mod constants;
mod equalities;
mod flatten;
mod nulls;
mod orders;
mod outer_joins;
mod push_down;
mod shared;
mod sublinks;
#[cfg(test)]
mod tests;

pub(crate) use constants::Values;
pub(crate) use sublinks::{AskedOnce, asked_once};

use niwaki_env::stack;
use niwaki_types::work;

use crate::error::Result;
use crate::expr::{Expr, ExprKind, Nested, inline_call};
use crate::query::{
    Body, From, Growth, JoinTree, JoinType, MergeAction, MergeQuery, ModifyQuery, ModifySource,
    Query, Select, SharedQuery, StatementBody, StatementQuery,
};

/// What rewriting a query counts as: its parts are looked at a few times.
const QUERY_UNITS: usize = 16 << 10;

/// Rewrites all queries of a statement.
///
/// # Errors
/// What ends the statement; it is not rewritten to its end then.
pub(crate) fn rewrite(statement: &mut StatementQuery, values: &mut Values<'_>) -> Result<()> {
    statement.count_named();
    let (mut ended, mut growth) = (Ok(()), Growth::default());
    let (ended, growth) = (&mut ended, &mut growth);
    let mut rewriter = Rewriter { shared: &mut statement.shared, values, ended, growth };
    match &mut statement.body {
        StatementBody::Select(query) => rewriter.query(query),
        StatementBody::Modify(modify) => rewriter.modify(modify),
        StatementBody::Merge(merge) => rewriter.merge(merge),
    }
    // Those that are still shared.
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
    /// What has ended the statement.
    ended: &'s mut Result<()>,
    growth: &'s mut Growth,
}

/// FROM and WHERE of one level, with the other expressions over their row.
struct Level<'q> {
    from: &'q mut From,
    exprs: Vec<&'q mut Expr>,
    /// Rows of it are locked or changed: newer versions of them are judged again.
    locks: bool,
}

impl Rewriter<'_, '_> {
    fn query(&mut self, query: &mut Query) {
        self.deeper(|this| {
            query.for_each_expr_mut(&mut |expr| this.expr(expr));
            this.body(query);
        });
    }

    /// Runs a part of rewriting that recurses. WITH queries that come to stand where they are named
    /// are nested more deeply than anything that was analyzed.
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

    /// The queries among the FROM items of a query whose expressions are done, then the query itself.
    fn body(&mut self, query: &mut Query) {
        match &mut query.body {
            Body::Select(select) => {
                orders::leave_out(select);
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

    /// The queries inside an expression, and what is constant in it.
    fn expr(&mut self, expr: &mut Expr) {
        if self.values.unfit.is_ok() {
            self.values.unfit = constants::fits(expr);
        }
        if let ExprKind::SubQuery(sub) = &mut expr.kind
            && let Nested::Query(query) = &mut sub.query
        {
            self.query(query);
        }
        // Cannot fail: the visit does not.
        let _ = expr.for_each_child_mut(&mut |child| {
            self.expr(child);
            Ok(())
        });
        inline_call(expr, self.growth);
        constants::fold(expr);
    }

    /// One level, whose expressions are done.
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

/// The level of a SELECT: its FROM, and what reads its rows.
fn level_of(select: &mut Select) -> Level<'_> {
    let mut exprs: Vec<&mut Expr> = Vec::new();
    match &mut select.grouping {
        Some(grouping) => {
            exprs.extend(&mut grouping.groups);
            for call in &mut grouping.calls {
                exprs.extend(&mut call.arguments);
                exprs.extend(&mut call.filter);
                exprs.extend(call.order.iter_mut().map(|(expr, ..)| expr));
            }
        }
        None => {
            exprs.extend(select.windowing.row_exprs_mut());
            exprs.extend(&mut select.targets);
            exprs.extend(select.sets.iter_mut().flat_map(|set| &mut set.arguments));
        }
    }
    Level { from: &mut select.from, exprs, locks: !select.locks.is_empty() }
}

/// Moves conditions of inner joins to WHERE, where they mean the same.
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
    // Join conditions first, as they are written.
    found.append(&mut from.conditions);
    from.conditions = found;
}
