//! The planner: builds the plan steps of a query.

mod select;

use std::sync::Arc;

use niwaki_catalog::Relation;
use niwaki_env::hash::HashMap;
use niwaki_env::stack::{self, Deep};
use niwaki_expr::analysis::AnalyzeContext;
use niwaki_expr::context::ColumnInfo;
use niwaki_expr::expr::{BoolTest, Expr, ExprKind, Nested, SubQuery, SubQueryKind};
use niwaki_expr::plan::{
    MergeAction, MergePlan, ModifyPlan, PlanNode, RecursivePlan, SealedPlan, SubPlan, WithPlan,
    WorkingPlan,
};
use niwaki_expr::query::{
    self, Body, From, FromItem, ItemKind, JoinTree, MergeQuery, ModifyQuery, ModifySource,
    OrderKey, Query, SetOperation, SetSide, SharedQuery, SortKey, StatementBody, StatementQuery,
    conjunction, mark, reads_slots,
};
use niwaki_parse::error::{Result, SqlError};
use niwaki_settings::planner_settings::PlannerSettings;
use niwaki_types::{ColumnType, Datum, TypeOid};

use super::estimate::estimate;
use super::joins::{Leaf, LeafKind, Wanted, plan_joins};
use super::min_max::{Extremes, comes_in_order, cost_of_all};
use super::scan::table_rows;
use crate::rewrite::{AskedOnce, asked_once};

/// Limit for evaluating an EXISTS query once for all rows: that may cost at most `AS_MUCH` times a
/// complete execution for one row. The number of rows that ask is uncertain, because other
/// conditions may leave out most of them.
const AS_MUCH: f64 = 2.0;

/// Most queries that one statement plans in a second way. They nest: without a bound, each level
/// would take twice the time of the level inside it.
const SECOND_WAYS_MAX: usize = 1_000;

/// Assumed number of rows of a FROM item other than a table, before the item is planned.
const ROWS: f64 = 1000.0;

/// The plan of a statement.
pub struct StatementPlan {
    /// The root step.
    pub root: PlanNode,
    /// Number of nested plans in the plan.
    pub sub_plans: usize,
    /// True if parameter values may make a partial index usable.
    pub wants_values: bool,
}

/// Plans a statement.
///
/// # Errors
/// `0A000` for a query that no plan can compute; `57014`, `57P01`, when the session was
/// interrupted.
pub fn plan_statement(
    statement: StatementQuery,
    context: &AnalyzeContext<'_>,
) -> Result<StatementPlan> {
    let names: Vec<String> = statement.shared.iter().map(|shared| shared.name.clone()).collect();
    let changes: Vec<bool> = statement
        .shared
        .iter()
        .map(|shared| matches!(shared.query.body, Body::Modify(_)))
        .collect();
    let shared = statement.shared.into_iter().map(Shared::Query).collect();
    let mut planner = Planner {
        settings: context.planner,
        interrupts: context.interrupts,
        names,
        shared,
        sub_plans: 0,
        lists: 0,
        wants_values: false,
        working: HashMap::default(),
        met: Vec::new(),
        dependents: Vec::new(),
        again: false,
        second_ways: SECOND_WAYS_MAX,
        asking: 1.0,
    };
    let root = match statement.body {
        StatementBody::Select(query) => planner.query(query)?,
        StatementBody::Modify(modify) => PlanNode::Modify(Box::new(planner.modify(*modify, true)?)),
        StatementBody::Merge(merge) => planner.merge(*merge)?,
    };
    let mut queries = Vec::new();
    for (number, changes) in changes.into_iter().enumerate() {
        // A query that changes data runs even if no other query reads its rows.
        if changes {
            planner.shared(number)?;
        }
        if let Some(Shared::Plan(plan)) = planner.shared.get(number) {
            let name = planner.names[number].clone();
            queries.push(WithPlan { name, plan: plan.clone(), changes });
        }
    }
    let root =
        if queries.is_empty() { root } else { PlanNode::With { input: Arc::new(root), queries } };
    let Planner { sub_plans, wants_values, .. } = planner;
    Ok(StatementPlan { root, sub_plans, wants_values })
}

/// A WITH query, before or after it is planned.
enum Shared {
    Query(SharedQuery),
    Plan(SealedPlan),
    /// Being planned. The query cannot name itself.
    Taken,
}

/// State of planning one statement.
struct Planner<'a> {
    settings: PlannerSettings,
    interrupts: &'a dyn Fn() -> Result<()>,
    /// Names of the WITH queries.
    names: Vec<String>,
    shared: Vec<Shared>,
    sub_plans: usize,
    /// Number of arrays that comparisons search (`= ANY` lists).
    lists: u32,
    /// True if some table has a partial index and a condition has a parameter: the parameter's
    /// value may make the index usable.
    wants_values: bool,
    /// The recursive queries whose recursive terms are being planned, by number: columns, and
    /// expected rows per iteration.
    working: HashMap<usize, (Vec<ColumnInfo>, f64)>,
    /// Numbers of the recursive queries whose working tables the current query reads.
    met: Vec<usize>,
    /// Pairs of a recursive query and a nested plan that reads its working table.
    dependents: Vec<(usize, usize)>,
    /// True while a query is planned in a second way.
    again: bool,
    /// Number of queries that may still be planned in a second way.
    second_ways: usize,
    /// Most rows that may evaluate the nested queries of the current query. For a join, the rows of
    /// the largest table.
    asking: f64,
}

/// Returns the number of rows of FROM that may evaluate a nested query.
fn asking(from: &From) -> f64 {
    let rows = |item: &FromItem| match &item.kind {
        ItemKind::Table(relation) => table_rows(relation),
        _ => ROWS,
    };
    from.items.iter().map(rows).fold(1.0, f64::max)
}

impl Planner<'_> {
    /// Plans a query whose rows the plan returns. The rows have the query's columns, then the sort
    /// expressions.
    fn query(&mut self, query: Query) -> Result<PlanNode> {
        stack::deeper(|| self.query_here(query))
    }

    /// Plans something in a second way, so that the caller can take the better plan. Returns `None`
    /// once the limit is used up.
    fn second_way<T>(&mut self, plan: impl FnOnce(&mut Self) -> Result<T>) -> Result<Option<T>> {
        let Some(left) = self.second_ways.checked_sub(1) else { return Ok(None) };
        self.second_ways = left;
        let before = std::mem::replace(&mut self.again, true);
        let planned = plan(self);
        self.again = before;
        planned.map(Some)
    }

    fn query_here(&mut self, query: Query) -> Result<PlanNode> {
        (self.interrupts)()?;
        if self.again {
            self.second_ways = self.second_ways.saturating_sub(1);
        }
        let Query { body, columns, order, mut limit, mut offset } = query;
        for expr in limit.iter_mut().chain(&mut offset) {
            self.expr(expr)?;
        }
        let node = match body {
            Body::Select(select) => {
                let wanted = wanted_rows(limit.as_ref(), offset.as_ref());
                self.select(*select, columns.len(), &order, wanted)?
            }
            Body::Values(mut rows) => {
                for expr in rows.iter_mut().flatten() {
                    self.expr(expr)?;
                }
                sorted(PlanNode::Values { rows }, &order, &types_of(&columns), 0)
            }
            Body::Modify(modify) => PlanNode::Modify(Box::new(self.modify(*modify, false)?)),
            Body::Set(set) if set.recursive.is_some() => self.recursive(*set, &columns)?,
            Body::Set(set) => {
                let node = PlanNode::SetOperation {
                    kind: set.kind,
                    all: set.all,
                    left: self.set_side(set.left)?,
                    right: self.set_side(set.right)?,
                    columns: set.types,
                };
                sorted(node, &order, &types_of(&columns), 0)
            }
        };
        if limit.is_none() && offset.is_none() {
            return Ok(node);
        }
        Ok(PlanNode::Limit { input: Arc::new(node), count: limit, offset })
    }

    /// Plans a recursive UNION.
    fn recursive(&mut self, set: SetOperation, columns: &[ColumnInfo]) -> Result<PlanNode> {
        /// PostgreSQL's assumed growth: rows of the working table for each row of the non-recursive
        /// term.
        const GROWTH: f64 = 10.0;
        let Some(number) = set.recursive else {
            return Err(SqlError::internal("a recursive query without a number"));
        };
        let left = self.set_side(set.left)?;
        let rows = estimate(&left).rows * GROWTH;
        self.working.insert(number, (columns.to_vec(), rows));
        let right = self.set_side(set.right)?;
        self.working.remove(&number);
        self.met.retain(|met| *met != number);
        let dependents = self.dependents.iter().filter(|(of, _)| *of == number);
        let dependents = dependents.map(|(_, plan)| *plan).collect();
        let (all, columns) = (set.all, set.types);
        Ok(PlanNode::Recursive(RecursivePlan { number, all, left, right, columns, dependents }))
    }

    /// Plans one side of a set operation, with rows of exactly the operation's columns.
    fn set_side(&mut self, side: SetSide) -> Result<Arc<PlanNode>> {
        let input_width = side.query.width();
        let input = Arc::new(self.query(side.query)?);
        let (exprs, sets) = (side.exprs, Vec::new());
        Ok(Arc::new(PlanNode::Project { input, input_width, exprs, sets }))
    }

    /// Plans the condition that rechecks a newer version of a locked or changed row.
    ///
    /// The uncorrelated queries in it share the plans of the original conditions. So they run once
    /// and keep their result, including locked rows.
    fn recheck(&mut self, from: &mut From) -> Result<Option<Expr>> {
        self.asking = asking(from);
        let asks = |condition: &Expr| {
            condition.any(&mut |part| matches!(part.kind, ExprKind::SubQuery(_)))
        };
        let mut planned = Vec::new();
        for condition in from.conditions.iter_mut().filter(|condition| asks(condition)) {
            let written = from.recheck.as_ref().map(|_| condition.clone());
            self.expr(condition)?;
            planned.extend(written.map(|written| (written, condition.clone())));
        }
        let Some(recheck) = &mut from.recheck else {
            return Ok(conjunction(from.conditions.clone()));
        };
        for condition in recheck.iter_mut().filter(|condition| asks(condition)) {
            match planned.iter().find(|(written, _)| written.is_copy_of(condition)) {
                Some((_, planned)) => *condition = planned.clone(),
                None => self.expr(condition)?,
            }
        }
        Ok(conjunction(recheck.clone()))
    }

    /// Plans FROM and WHERE. `used` marks the slots that the steps above read. Returns the plan,
    /// and the number of leading keys of the wanted order that hold.
    fn from(
        &mut self,
        from: From,
        used: &mut [bool],
        order: &[SortKey],
        limit: Option<f64>,
    ) -> Result<(PlanNode, usize)> {
        self.asking = asking(&from);
        let above = from.only_table().filter(|table| has_partial_index(table));
        let above = above.map(|_| used.to_vec());
        let From { items, tree, mut conditions, .. } = from;
        let is_parameter = |part: &Expr| matches!(part.kind, ExprKind::Param(_));
        self.wants_values |= above.is_some()
            && conditions.iter().any(|condition| condition.any(&mut |part| is_parameter(part)));
        for condition in &mut conditions {
            self.expr(condition)?;
            mark(condition, used);
        }
        let Some(mut tree) = tree else {
            let node = PlanNode::Result;
            conditions.retain(|part| !matches!(part.kind, ExprKind::Const(Datum::Bool(true))));
            let node = match conjunction(conditions) {
                Some(condition) => PlanNode::Filter { input: Arc::new(node), condition },
                None => node,
            };
            return Ok((node, 0));
        };
        // Flattened items are no longer in the tree.
        let mut wanted = Vec::new();
        tree.items(&mut wanted);
        let mut leaves = Vec::with_capacity(items.len());
        for (number, item) in items.into_iter().enumerate() {
            let leaf = if wanted.contains(&number) { Some(self.item(item, used)?) } else { None };
            leaves.push(leaf);
        }
        self.tree(&mut tree, used)?;
        let wanted = Wanted { used, above: above.as_deref(), order, limit };
        plan_joins(tree, leaves, conditions, wanted, self.settings, self.interrupts)
    }

    /// Plans the queries inside join conditions.
    fn tree(&mut self, tree: &mut JoinTree, used: &mut [bool]) -> Result<()> {
        let JoinTree::Join(join) = tree else { return Ok(()) };
        for part in &mut join.on {
            self.expr(part)?;
            mark(part, used);
        }
        stack::deeper(|| self.tree(&mut join.left, used))?;
        stack::deeper(|| self.tree(&mut join.right, used))
    }

    fn item(&mut self, item: FromItem, used: &mut [bool]) -> Result<Leaf> {
        let FromItem { kind, name, slots, .. } = item;
        let start = slots.start;
        let mut reads: Vec<usize> = Vec::new();
        let node = match kind {
            ItemKind::Table(relation) => {
                return Ok(Leaf { kind: LeafKind::Table { relation, name }, slots, reads });
            }
            ItemKind::View(relation) => {
                PlanNode::Virtual { relation, name, start, key: None, filter: None }
            }
            ItemKind::Query(query) => {
                let plan = self.nested(*query)?;
                reads.extend(&plan.reads);
                PlanNode::SubQuery { plan, name, start, filter: None }
            }
            ItemKind::Shared { number } => {
                let plan = self.shared(number)?;
                let query = self.names.get(number).cloned().unwrap_or_default();
                PlanNode::Shared { plan, query, name, start, filter: None }
            }
            ItemKind::Working { number } => {
                let Some((columns, rows)) = self.working.get(&number).cloned() else {
                    return Err(SqlError::internal("working rows of no recursive query"));
                };
                let query = self.names.get(number).cloned().unwrap_or_default();
                self.met.push(number);
                let filter = None;
                PlanNode::Working(WorkingPlan { number, columns, rows, query, name, start, filter })
            }
            ItemKind::Function { function, mut arguments, ordinality } => {
                for argument in &mut arguments {
                    self.expr(argument)?;
                    reads_slots(argument, &mut |slot| reads.push(slot));
                }
                PlanNode::Function { function, arguments, name, start, ordinality, filter: None }
            }
            ItemKind::Single { mut expr, ordinality } => {
                self.expr(&mut expr)?;
                reads_slots(&expr, &mut |slot| reads.push(slot));
                PlanNode::Single { expr, name, start, ordinality, filter: None }
            }
        };
        reads.iter().for_each(|slot| used[*slot] = true);
        Ok(Leaf { kind: LeafKind::Other(node), slots, reads })
    }

    /// Returns the values of `min` and `max` as nested queries over index orders, if these cost
    /// less than reading all `rows`.
    fn by_index(&mut self, extremes: Extremes, rows: &PlanNode) -> Result<Option<Vec<Expr>>> {
        let most = cost_of_all(rows, extremes.queries.len(), &self.settings);
        let first = self.sub_plans;
        let (mut exprs, mut total) = (Vec::with_capacity(extremes.queries.len()), 0.0);
        for queries in extremes.queries {
            let kind = queries[0].columns[0].oid();
            let mut found = None;
            for query in queries {
                let number = self.sub_plans;
                let Some(plan) = self.second_way(|this| this.nested(query))? else { break };
                if comes_in_order(&plan.root) {
                    found = Some(plan);
                    break;
                }
                // Do not reuse numbers if the conditions have queries: WITH queries planned here
                // keep their numbers.
                if !extremes.nested {
                    self.sub_plans = number;
                }
            }
            total += found.as_ref().map_or(f64::INFINITY, |plan| plan.estimate.total);
            let Some(plan) = found.filter(|_| total < most) else {
                if !extremes.nested {
                    self.sub_plans = first;
                }
                return Ok(None);
            };
            let sub = SubQuery { kind: SubQueryKind::Scalar, query: Nested::Plan(plan) };
            exprs.push(Expr::new(ExprKind::SubQuery(Box::new(sub)), kind, -1));
        }
        Ok(Some(exprs))
    }

    /// Plans a query that is nested in a row.
    fn nested(&mut self, query: Query) -> Result<SealedPlan> {
        let (columns, reads) = (query.columns.clone(), query.reads());
        let (correlated, volatile) = (query.is_correlated(), query.is_volatile());
        let before = std::mem::take(&mut self.met);
        let asking = self.asking;
        let root = Deep::new(Arc::new(self.query(query)?), 0);
        self.asking = asking;
        let number = self.sub_plans;
        self.sub_plans += 1;
        let working = std::mem::replace(&mut self.met, before);
        self.dependents.extend(working.iter().map(|of| (*of, number)));
        self.met.extend(&working);
        let estimate = estimate(&root);
        let plan =
            SubPlan { number, root, estimate, columns, correlated, reads, volatile, working };
        Ok(SealedPlan::new(plan))
    }

    /// Returns the plan of a WITH query, and plans the query on first use.
    fn shared(&mut self, number: usize) -> Result<SealedPlan> {
        let plan = match std::mem::replace(&mut self.shared[number], Shared::Taken) {
            Shared::Plan(plan) => {
                self.met.extend(&plan.working);
                plan
            }
            Shared::Query(shared) => self.nested(shared.query)?,
            Shared::Taken => return Err(SqlError::internal("a WITH query that names itself")),
        };
        self.shared[number] = Shared::Plan(plan.clone());
        Ok(plan)
    }

    /// Plans the queries inside an expression.
    fn expr(&mut self, expr: &mut Expr) -> Result<()> {
        if let ExprKind::SubQuery(sub) = &mut expr.kind
            && let Nested::Query(query) = &mut sub.query
        {
            let query = std::mem::replace(&mut **query, Query::empty());
            let once = match sub.kind {
                SubQueryKind::Exists => asked_once(&query),
                _ => None,
            };
            let plan = self.nested(query)?;
            match once {
                Some(once) => *expr = self.exists(plan, once)?,
                None => sub.query = Nested::Plan(plan),
            }
        }
        expr.try_for_each_child_mut(&mut |child| self.expr(child))?;
        self.list(expr);
        Ok(())
    }

    /// Numbers the array of a comparison if its values can become a lookup table. The comparison's
    /// parts must be planned.
    fn list(&mut self, expr: &mut Expr) {
        if let ExprKind::ArrayCompare { function, any, left, right, list } = &mut expr.kind
            && niwaki_expr::expr::value_lists::fits(function, *any, left, right)
        {
            *list = Some(self.lists);
            self.lists += 1;
        }
    }

    /// Numbers the arrays in all parts of an expression without nested queries.
    fn all_lists(&mut self, expr: &mut Expr) {
        expr.for_each_child_mut(&mut |child| self.all_lists(child));
        self.list(expr);
    }

    /// Plans EXISTS. The default is `each`, the plan that runs for each row. The plan that runs
    /// once for all rows wins if it costs less, and not much more than a single row's run.
    fn exists(&mut self, each: SealedPlan, once: AskedOnce) -> Result<Expr> {
        let AskedOnce { function, left, query } = once;
        let value = query.columns.first().map_or(left.column_type(), |column| column.column_type);
        let location = left.location;
        let asked = |kind, plan| {
            let sub = SubQuery { kind, query: Nested::Plan(plan) };
            Expr::new(ExprKind::SubQuery(Box::new(sub)), TypeOid::BOOL, location)
        };
        let Some(all) = self.second_way(|this| this.nested(query))? else {
            return Ok(asked(SubQueryKind::Exists, each));
        };
        let (cost, once) = (each.estimate, all.estimate.total);
        // If rows exist, the first one suffices. If none exists, all candidates are read.
        let first = cost.startup + (cost.total - cost.startup) / cost.rows.max(1.0);
        if once > first * self.asking || once > cost.total * AS_MUCH {
            return Ok(asked(SubQueryKind::Exists, each));
        }
        let right_cast = Expr::slot(0, value);
        let any = asked(SubQueryKind::Compare { function, any: true, left, right_cast }, all);
        // `IS TRUE`: a NULL comparison means that the row does not exist.
        let kind = ExprKind::BoolTest { argument: Box::new(any), test: BoolTest::True };
        Ok(Expr::new(kind, TypeOid::BOOL, location))
    }

    /// Plans INSERT, UPDATE and DELETE.
    fn modify(&mut self, query: ModifyQuery, counted: bool) -> Result<ModifyPlan> {
        let ModifyQuery { kind, relation, name, source, width, start, .. } = query;
        let (mut values, mut returning) = (query.values, query.returning);
        let (mut generated, mut checks) = (query.generated, query.checks);
        let (bounds, mut leaves) = (query.bounds, query.leaves);
        generated.iter_mut().for_each(|(_, expr)| self.all_lists(expr));
        checks.iter_mut().for_each(|(_, expr)| self.all_lists(expr));
        for leaf in &mut leaves {
            leaf.generated.iter_mut().for_each(|(_, expr)| self.all_lists(expr));
            leaf.checks.iter_mut().for_each(|(_, expr)| self.all_lists(expr));
        }
        let triggers = query.triggers;
        let mut view_checks = query.view_checks;
        let in_checks = view_checks.iter_mut().map(|(_, condition)| condition);
        for expr in values.iter_mut().flatten().chain(&mut returning).chain(in_checks) {
            self.expr(expr)?;
        }
        let mut conflict = query.conflict;
        if let Some(update) = conflict.as_mut().and_then(|conflict| conflict.update.as_mut()) {
            for expr in update.values.iter_mut().flatten().chain(&mut update.condition) {
                self.expr(expr)?;
            }
        }
        let mut recheck = None;
        let input = match source {
            ModifySource::Row => PlanNode::Result,
            ModifySource::Rows(mut rows) => {
                for expr in rows.iter_mut().flatten() {
                    self.expr(expr)?;
                }
                PlanNode::Values { rows }
            }
            ModifySource::Query(query) => self.query(*query)?,
            ModifySource::From(mut from) => {
                recheck = self.recheck(&mut from)?;
                let mut used = vec![false; from.width];
                // The whole old row is needed: unchanged columns are copied, and indexes compare
                // keys.
                used[..=relation.columns.len()].fill(true);
                used[relation.columns.len() + 1] |= relation.is_partitioned();
                values
                    .iter()
                    .flatten()
                    .chain(&returning)
                    .chain(&recheck)
                    .for_each(|expr| mark(expr, &mut used));
                self.from(*from, &mut used, &[], None)?.0
            }
        };
        Ok(ModifyPlan {
            kind,
            relation,
            name,
            input: Arc::new(input),
            input_width: width,
            start,
            values,
            generated,
            checks,
            bounds,
            leaves,
            view_checks,
            triggers,
            returning,
            recheck,
            conflict,
            counted,
        })
    }

    fn merge(&mut self, query: MergeQuery) -> Result<PlanNode> {
        let MergeQuery { relation, name, start, mut from, actions } = query;
        let recheck = self.recheck(&mut from)?;
        let input_width = from.width;
        let mut used = vec![false; input_width];
        // The whole old row is needed, since an action may be an UPDATE.
        used[start..=start + relation.columns.len()].fill(true);
        used[start + relation.columns.len() + 1] |= relation.is_partitioned();
        recheck.iter().for_each(|expr| mark(expr, &mut used));
        let mut planned = Vec::with_capacity(actions.len());
        for action in actions {
            let query::MergeAction { matched, mut condition, change } = action;
            if let Some(condition) = &mut condition {
                self.expr(condition)?;
                mark(condition, &mut used);
            }
            let change = change.map(|change| self.modify(change, true)).transpose()?;
            let values = change.iter().flat_map(|change| change.values.iter().flatten());
            values.for_each(|expr| mark(expr, &mut used));
            planned.push(MergeAction { matched, condition, change });
        }
        let input = Arc::new(self.from(from, &mut used, &[], None)?.0);
        let actions = planned;
        let plan = MergePlan { relation, name, input, input_width, start, recheck, actions };
        Ok(PlanNode::Merge(Box::new(plan)))
    }
}

/// Returns whether the table has a partial index.
fn has_partial_index(relation: &Relation) -> bool {
    !relation.is_partitioned()
        && relation.indexes.iter().any(|index| index.definition.predicate.is_some())
}

fn types_of(columns: &[ColumnInfo]) -> Vec<ColumnType> {
    columns.iter().map(|column| column.column_type).collect()
}

/// Sorts by targets. `presorted` is the number of leading keys by which the rows are already
/// sorted.
fn sorted(node: PlanNode, order: &[OrderKey], types: &[ColumnType], presorted: usize) -> PlanNode {
    if order.is_empty() {
        return node;
    }
    let keys = order
        .iter()
        .map(|key| SortKey {
            expr: Expr::slot(key.target, types[key.target]),
            descending: key.descending,
            nulls_first: key.nulls_first,
        })
        .collect();
    PlanNode::Sort { input: Arc::new(node), keys, presorted }
}

/// Returns the number of rows that LIMIT and OFFSET read; a guess if they are not constants.
fn wanted_rows(limit: Option<&Expr>, offset: Option<&Expr>) -> Option<f64> {
    let number = |expr: &Expr| match &expr.kind {
        ExprKind::Const(Datum::Int8(number)) => *number as f64,
        ExprKind::Const(_) => 0.0,
        _ => 100.0,
    };
    Some(number(limit?) + offset.map_or(0.0, number))
}
