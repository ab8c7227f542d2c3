//! SELECT, VALUES and set operations.

use std::sync::Arc;

use niwaki_catalog::Relation;
use niwaki_types::{ColumnType, Datum, TypeOid};
use pg_query::protobuf::{
    self, LimitOption, LockClauseStrength, LockWaitPolicy, SetOperation, SortByDir, SortByNulls,
    a_const,
};
use pg_query::{Node, NodeEnum};

use super::scope::{Place, Scope};
use super::{Analyzer, names_of};
use crate::context::ColumnInfo;
use crate::error::{Result, SqlError};
use crate::expr::{Expr, ExprKind};
use crate::plan::{LockTarget, SetKind, split_conjuncts};
use crate::query::{
    Body, Distinct, From, FromItem, Grouping, ItemKind, OrderKey, Query, Select,
    SetOperation as SetBody, SetSide,
};
use crate::store::{LockWait, RowLock, TableLock};
use crate::types::CastContext;

/// One output column, or an expression that is only sorted by.
pub(super) struct Target {
    pub(super) expr: Expr,
    pub(super) name: String,
    pub(super) origin: (u32, i16),
    /// Not part of the result.
    pub(super) junk: bool,
}

impl Analyzer<'_> {
    /// Analyzes a query in a scope of its own. `wanted` are types that its untyped columns should get.
    pub(super) fn nested_query(
        &mut self,
        select: &protobuf::SelectStmt,
        wanted: Option<&[ColumnType]>,
    ) -> Result<Query> {
        self.query(select, wanted, true)
    }

    /// The same; untyped columns become text only if `to_text` says so.
    pub(super) fn query(
        &mut self,
        select: &protobuf::SelectStmt,
        wanted: Option<&[ColumnType]>,
        to_text: bool,
    ) -> Result<Query> {
        self.check_stack()?;
        let names_before = self.ctes.len();
        if let Some(with) = &select.with_clause {
            self.with_clause(with)?;
        }
        self.scopes.push(Scope::default());
        let result =
            if select.op() == SetOperation::SetopNone || select.op() == SetOperation::Undefined {
                if select.values_lists.is_empty() {
                    self.select(select, wanted, to_text)
                } else {
                    self.values(select, wanted, to_text)
                }
            } else {
                self.set_operation(select)
            };
        self.scopes.pop();
        self.ctes.truncate(names_before);
        result
    }

    fn select(
        &mut self,
        select: &protobuf::SelectStmt,
        wanted: Option<&[ColumnType]>,
        to_text: bool,
    ) -> Result<Query> {
        if select.into_clause.is_some() {
            return Err(SqlError::unsupported("SELECT INTO"));
        }
        self.set_place(Place::From)?;
        let tree = self.from_clause(&select.from_clause)?;
        self.window_clause(&select.window_clause)?;
        self.set_place(Place::Target)?;
        let mut targets = self.target_list(&select.target_list)?;
        if let Some(wanted) = wanted {
            for (target, column) in targets.iter_mut().zip(wanted) {
                if target.expr.ty == TypeOid::UNKNOWN {
                    let expr = std::mem::replace(
                        &mut target.expr,
                        Expr::constant(Datum::Null, column.oid, -1),
                    );
                    target.expr = self.to_common(expr, column.oid, "INSERT")?;
                }
            }
        }
        self.set_place(Place::Where)?;
        let mut conditions = Vec::new();
        if let Some(node) = &select.where_clause {
            let condition = self.expr(node)?;
            split_conjuncts(self.to_bool(condition, "WHERE")?, &mut conditions);
        }
        let mut order = self.sort_clause(&select.sort_clause, &mut targets)?;
        let mut groups = self.group_clause(&select.group_clause, &targets)?;
        let distinct = self.distinct_clause(select, &mut targets, &mut order)?;
        self.set_place(Place::Having)?;
        let mut having = match &select.having_clause {
            Some(node) => {
                let having = self.expr(node)?;
                Some(self.to_bool(having, "HAVING")?)
            }
            None => None,
        };
        for target in &mut targets {
            if to_text {
                let expr = std::mem::replace(
                    &mut target.expr,
                    Expr::constant(Datum::Null, TypeOid::TEXT, -1),
                );
                target.expr = self.to_output(expr)?;
            }
        }
        let columns: Vec<ColumnInfo> =
            targets.iter().filter(|t| !t.junk).map(column_info).collect();
        let locks = self.locking_clause(&select.locking_clause)?;
        let grouped = !groups.is_empty()
            || having.is_some()
            || !self.scope()?.aggregates.is_empty()
            || !select.group_clause.is_empty();
        if !locks.is_empty() && (grouped || distinct != Distinct::None) {
            let what = if distinct != Distinct::None {
                "DISTINCT clause"
            } else if !select.group_clause.is_empty() {
                "GROUP BY clause"
            } else if having.is_some() {
                "HAVING clause"
            } else {
                "aggregate functions"
            };
            return Err(SqlError::new("0A000", format!("FOR UPDATE is not allowed with {what}")));
        }
        if let Some(lock) = locks.first()
            && !self.scope()?.windowing.is_empty()
        {
            let clause = lock.lock.clause();
            let message = format!("{clause} is not allowed with window functions");
            return Err(SqlError::new("0A000", message));
        }
        for lock in &locks {
            self.note_relation(&lock.relation, TableLock::RowShare);
        }
        let mut grouping = None;
        if grouped {
            let written = groups.len();
            self.add_dependent_groups(&mut groups);
            for target in &mut targets {
                self.grouped(&mut target.expr, &groups)?;
            }
            if let Some(having) = &mut having {
                self.grouped(having, &groups)?;
            }
            let mut sets = std::mem::take(&mut self.scope()?.sets);
            for argument in sets.iter_mut().flat_map(|set| &mut set.arguments) {
                self.grouped(argument, &groups)?;
            }
            self.scope()?.sets = sets;
            let mut windowing = std::mem::take(&mut self.scope()?.windowing);
            for expr in windowing.row_exprs_mut() {
                self.grouped(expr, &groups)?;
            }
            self.scope()?.windowing = windowing;
            let calls = std::mem::take(&mut self.scope()?.aggregates);
            grouping = Some(Grouping { groups, written, calls, having });
        }
        let recursive =
            self.scope()?.sources.iter().any(|s| matches!(s.kind, ItemKind::Working { .. }));
        if recursive && grouping.as_ref().is_some_and(|grouping| !grouping.calls.is_empty()) {
            return Err(SqlError::new(
                "42P19",
                "aggregate functions are not allowed in a recursive query's recursive term",
            ));
        }
        let (limit, offset) = self.limit(select)?;
        let scope = self.scope()?;
        let sets = std::mem::take(&mut scope.sets);
        let mut windowing = std::mem::take(&mut scope.windowing);
        windowing.forget_unused();
        let items = std::mem::take(&mut scope.sources);
        let width = scope.width();
        let from = From { items, tree, conditions, width, recheck: None };
        let targets = targets.into_iter().map(|t| t.expr).collect();
        let body = Select { from, grouping, windowing, targets, sets, distinct, locks };
        Ok(Query { body: Body::Select(Box::new(body)), columns, order, limit, offset })
    }

    /// The output columns; `*` becomes all visible ones.
    pub(super) fn target_list(&mut self, nodes: &[Node]) -> Result<Vec<Target>> {
        let mut targets = Vec::new();
        for node in nodes {
            let Some(NodeEnum::ResTarget(target)) = &node.node else { continue };
            let value = target.val.as_deref();
            if let Some(NodeEnum::ColumnRef(column)) = value.and_then(|v| v.node.as_ref())
                && column.fields.last().is_some_and(|f| matches!(f.node, Some(NodeEnum::AStar(_))))
            {
                self.star(column, &mut targets)?;
                continue;
            }
            if let Some(NodeEnum::AIndirection(indirection)) = value.and_then(|v| v.node.as_ref())
                && let Some((last, steps)) = indirection.indirection.split_last()
                && matches!(last.node, Some(NodeEnum::AStar(_)))
            {
                for (name, expr) in self.all_fields(indirection, steps)? {
                    let origin = self.origin_of(&expr);
                    targets.push(Target { expr, name, origin, junk: false });
                }
                continue;
            }
            let expr = self.expr_of(value)?;
            let origin = self.origin_of(&expr);
            let name = if target.name.is_empty() {
                value.and_then(figure_name).unwrap_or_else(|| "?column?".to_owned())
            } else {
                target.name.clone()
            };
            targets.push(Target { expr, name, origin, junk: false });
        }
        Ok(targets)
    }

    pub(super) fn star(
        &mut self,
        column: &protobuf::ColumnRef,
        targets: &mut Vec<Target>,
    ) -> Result<()> {
        let names = names_of(&column.fields);
        let location = column.location;
        let scope = self.scope()?;
        let mut found = Vec::new();
        match names.as_slice() {
            [] => {
                if scope.items.is_empty() {
                    return Err(self.error(
                        "42601",
                        "SELECT * with no tables specified is not valid",
                        location,
                    ));
                }
                for column in scope.items.iter().flat_map(|item| &item.columns) {
                    if column.bare && !column.hidden {
                        found.push(column.clone());
                    }
                }
            }
            [.., table] => {
                let table = (*table).to_owned();
                let Some(item) = scope.items.iter().find(|item| item.name == table) else {
                    return Err(self.error(
                        "42P01",
                        format!("missing FROM-clause entry for table \"{table}\""),
                        location,
                    ));
                };
                found.extend(item.columns.iter().filter(|c| !c.hidden).cloned());
            }
        }
        for column in found {
            let expr = self.use_column(column.expr, 0, location);
            targets.push(Target { expr, name: column.name, origin: column.origin, junk: false });
        }
        Ok(())
    }

    /// Table and attribute that an expression shows unchanged.
    fn origin_of(&self, expr: &Expr) -> (u32, i16) {
        let ExprKind::Slot { depth: 0, slot } = expr.kind else { return (0, 0) };
        let Some(scope) = self.scopes.last() else { return (0, 0) };
        for item in &scope.items {
            for column in &item.columns {
                if matches!(column.expr.kind, ExprKind::Slot { slot: s, .. } if s == slot)
                    && column.expr.ty == expr.ty
                {
                    return column.origin;
                }
            }
            if let Some(relation) = &item.relation {
                let first = item.start + relation.columns.len();
                if let Some(system) =
                    slot.checked_sub(first).and_then(|n| super::scope::SYSTEM_COLUMNS.get(n))
                {
                    return (relation.oid.0, system.2);
                }
            }
        }
        (0, 0)
    }

    /// ORDER BY: for each key the number of its target, which is added when it is no output column.
    fn sort_clause(&mut self, nodes: &[Node], targets: &mut Vec<Target>) -> Result<Vec<OrderKey>> {
        self.set_place(Place::OrderBy)?;
        let mut order: Vec<OrderKey> = Vec::new();
        for node in nodes {
            let Some(NodeEnum::SortBy(sort)) = &node.node else { continue };
            let (descending, nulls_first) = self.sort_direction(sort)?;
            let Some(key) = sort.node.as_deref() else { continue };
            let target = self.key_target(key, targets, "ORDER BY")?;
            let ty = targets[target].expr.ty;
            if !self.is_ordered("<", &targets[target].expr) {
                return Err(self
                    .error(
                        "42883",
                        format!(
                            "could not identify an ordering operator for type {}",
                            self.format_oid(ty)
                        ),
                        targets[target].expr.location,
                    )
                    .with_hint("Use an explicit ordering operator or modify the query."));
            }
            if !order.iter().any(|key| key.target == target) {
                order.push(OrderKey { target, descending, nulls_first });
            }
        }
        Ok(order)
    }

    /// The target that a key of ORDER BY or DISTINCT ON means, added when it is no output column.
    fn key_target(&mut self, key: &Node, targets: &mut Vec<Target>, clause: &str) -> Result<usize> {
        let target = match self.named_target(key, targets, clause, true)? {
            Some(target) => target,
            None => {
                let expr = self.expr(key)?;
                match targets.iter().position(|t| t.expr.same(&expr)) {
                    Some(target) => target,
                    None => {
                        let (name, origin, junk) = (String::new(), (0, 0), true);
                        targets.push(Target { expr, name, origin, junk });
                        targets.len() - 1
                    }
                }
            }
        };
        let expr = std::mem::replace(
            &mut targets[target].expr,
            Expr::constant(Datum::Null, TypeOid::TEXT, -1),
        );
        targets[target].expr = self.to_output(expr)?;
        Ok(target)
    }

    pub(super) fn sort_direction(&self, sort: &protobuf::SortBy) -> Result<(bool, bool)> {
        let descending = match sort.sortby_dir() {
            SortByDir::SortbyDesc => true,
            SortByDir::SortbyUsing => {
                return Err(self.unsupported("ORDER BY … USING", sort.location));
            }
            _ => false,
        };
        let nulls_first = match sort.sortby_nulls() {
            SortByNulls::SortbyNullsFirst => true,
            SortByNulls::SortbyNullsLast => false,
            _ => descending,
        };
        Ok((descending, nulls_first))
    }

    /// A bare name or a position that means an output column.
    fn named_target(
        &mut self,
        key: &Node,
        targets: &[Target],
        clause: &str,
        names_first: bool,
    ) -> Result<Option<usize>> {
        match key.node.as_ref() {
            Some(NodeEnum::AConst(constant)) => {
                let position = match &constant.val {
                    Some(a_const::Val::Ival(integer)) => integer.ival,
                    None if !constant.isnull => 0,
                    _ => {
                        return Err(self.error(
                            "42601",
                            format!("non-integer constant in {clause}"),
                            constant.location,
                        ));
                    }
                };
                let visible = targets.iter().filter(|t| !t.junk).count();
                usize::try_from(position)
                    .ok()
                    .and_then(|p| p.checked_sub(1))
                    .filter(|p| *p < visible)
                    .map(Some)
                    .ok_or_else(|| {
                        self.error(
                            "42P10",
                            format!("{clause} position {position} is not in select list"),
                            constant.location,
                        )
                    })
            }
            Some(NodeEnum::ColumnRef(column)) => {
                let names = names_of(&column.fields);
                let [name] = names.as_slice() else { return Ok(None) };
                // GROUP BY prefers a column of FROM over an output column.
                if !names_first {
                    let in_from = self.scope()?.items.iter().any(|item| {
                        item.columns.iter().any(|c| c.bare && !c.hidden && c.name == *name)
                    });
                    if in_from {
                        return Ok(None);
                    }
                }
                let mut found: Option<usize> = None;
                for (number, target) in targets.iter().enumerate() {
                    if target.junk || target.name != *name {
                        continue;
                    }
                    match found {
                        Some(first) if !targets[first].expr.same(&target.expr) => {
                            return Err(self.error(
                                "42702",
                                format!("{clause} \"{name}\" is ambiguous"),
                                column.location,
                            ));
                        }
                        Some(_) => {}
                        None => found = Some(number),
                    }
                }
                Ok(found)
            }
            _ => Ok(None),
        }
    }

    fn group_clause(&mut self, nodes: &[Node], targets: &[Target]) -> Result<Vec<Expr>> {
        self.set_place(Place::GroupBy)?;
        let mut groups: Vec<Expr> = Vec::new();
        for node in nodes {
            if let Some(NodeEnum::GroupingSet(set)) = &node.node {
                return Err(self.unsupported("GROUPING SETS, ROLLUP and CUBE", set.location));
            }
            let expr = match self.named_target(node, targets, "GROUP BY", false)? {
                Some(target) => targets[target].expr.clone(),
                None => self.expr(node)?,
            };
            if expr.any(&mut |e| matches!(e.kind, ExprKind::Aggregate(_))) {
                return Err(self.error(
                    "42803",
                    "aggregate functions are not allowed in GROUP BY",
                    expr.location,
                ));
            }
            if expr.any(&mut |e| matches!(e.kind, ExprKind::Window(_))) {
                return Err(self.error(
                    "42P20",
                    "window functions are not allowed in GROUP BY",
                    expr.location,
                ));
            }
            if expr.any(&mut |e| matches!(e.kind, ExprKind::SetReturning(_))) {
                return Err(self.unsupported("GROUP BY of a set-returning function", expr.location));
            }
            let expr = self.to_output(expr)?;
            if !self.is_ordered("=", &expr) {
                return Err(self.error(
                    "42883",
                    format!(
                        "could not identify an equality operator for type {}",
                        self.format_oid(expr.ty)
                    ),
                    expr.location,
                ));
            }
            if !groups.iter().any(|g| g.same(&expr)) {
                groups.push(expr);
            }
        }
        Ok(groups)
    }

    /// DISTINCT and DISTINCT ON. The expressions of the latter become targets, and keys that rows are sorted by.
    fn distinct_clause(
        &mut self,
        select: &protobuf::SelectStmt,
        targets: &mut Vec<Target>,
        order: &mut Vec<OrderKey>,
    ) -> Result<Distinct> {
        if select.distinct_clause.is_empty() {
            return Ok(Distinct::None);
        }
        let mut on: Vec<usize> = Vec::new();
        self.set_place(Place::DistinctOn)?;
        for node in select.distinct_clause.iter().filter(|node| node.node.is_some()) {
            let target = self.key_target(node, targets, "DISTINCT ON")?;
            if !on.contains(&target) {
                on.push(target);
            }
        }
        if on.is_empty() {
            if let Some(key) = order.iter().find(|key| targets[key.target].junk) {
                return Err(self.error(
                    "42P10",
                    "for SELECT DISTINCT, ORDER BY expressions must appear in select list",
                    targets[key.target].expr.location,
                ));
            }
            for target in targets.iter() {
                self.needs_equality(&target.expr)?;
            }
            return Ok(Distinct::Rows);
        }
        for target in &on {
            self.needs_equality(&targets[*target].expr)?;
        }
        let behind = order.iter().skip_while(|key| on.contains(&key.target));
        let matching = order.iter().take_while(|key| on.contains(&key.target)).count();
        // Keys of the order must be those of DISTINCT ON until all of those are there.
        if matching < on.len()
            && let Some(key) = behind.into_iter().next()
        {
            return Err(self.error(
                "42P10",
                "SELECT DISTINCT ON expressions must match initial ORDER BY expressions",
                targets[key.target].expr.location,
            ));
        }
        for target in &on {
            if !order.iter().any(|key| key.target == *target) {
                let (descending, nulls_first) = (false, false);
                order.push(OrderKey { target: *target, descending, nulls_first });
            }
        }
        Ok(Distinct::On(on))
    }

    fn needs_equality(&self, expr: &Expr) -> Result<()> {
        if self.is_ordered("=", expr) {
            return Ok(());
        }
        let message = format!(
            "could not identify an equality operator for type {}",
            self.format_oid(expr.ty)
        );
        Err(self.error("42883", message, expr.location))
    }

    fn locking_clause(&mut self, nodes: &[Node]) -> Result<Vec<LockTarget>> {
        let mut targets: Vec<LockTarget> = Vec::new();
        for node in nodes {
            let Some(NodeEnum::LockingClause(clause)) = &node.node else { continue };
            let lock = match clause.strength() {
                LockClauseStrength::LcsForkeyshare => RowLock::KeyShare,
                LockClauseStrength::LcsForshare => RowLock::Share,
                LockClauseStrength::LcsFornokeyupdate => RowLock::NoKeyUpdate,
                _ => RowLock::Update,
            };
            let wait = match clause.wait_policy() {
                LockWaitPolicy::LockWaitSkip => LockWait::Skip,
                LockWaitPolicy::LockWaitError => LockWait::Error,
                _ => LockWait::Block,
            };
            let mut names = Vec::new();
            for node in &clause.locked_rels {
                if let Some(NodeEnum::RangeVar(var)) = &node.node {
                    names.push((var.relname.clone(), var.location));
                }
            }
            let mut inside = Vec::new();
            let scope = self.scope()?;
            for source in &mut scope.sources {
                if let ItemKind::Query(query) = &mut source.kind
                    && (names.is_empty() || names.iter().any(|(name, _)| *name == source.name))
                {
                    lock_inside(query, lock, wait, &mut inside)?;
                }
            }
            for (name, location) in &names {
                let with = scope.sources.iter().any(|source| {
                    source.name == *name
                        && matches!(source.kind, ItemKind::Shared { .. } | ItemKind::Working { .. })
                });
                if with {
                    let message = format!("{} cannot be applied to a WITH query", lock.clause());
                    return Err(self.error("0A000", message, *location));
                }
                let query = |source: &FromItem| {
                    source.name == *name && matches!(source.kind, ItemKind::Query(_))
                };
                if !scope.items.iter().any(|item| item.name == *name && item.relation.is_some())
                    && !scope.sources.iter().any(query)
                {
                    let message = format!(
                        "relation \"{name}\" in FOR UPDATE clause not found in FROM clause"
                    );
                    return Err(self.error("42P01", message, *location));
                }
            }
            for item in &scope.items {
                let Some(relation) = &item.relation else { continue };
                if relation.kind != niwaki_catalog::RelationKind::Table
                    || (!names.is_empty() && !names.iter().any(|(n, _)| *n == item.name))
                {
                    continue;
                }
                if let Some(known) = targets.iter_mut().find(|t| t.start == item.start) {
                    known.lock = known.lock.max(lock);
                    continue;
                }
                targets.push(LockTarget {
                    relation: Arc::clone(relation),
                    start: item.start,
                    lock,
                    wait,
                });
            }
            for relation in &inside {
                self.note_relation(relation, TableLock::RowShare);
            }
        }
        Ok(targets)
    }

    /// LIMIT and OFFSET.
    fn limit(&mut self, select: &protobuf::SelectStmt) -> Result<(Option<Expr>, Option<Expr>)> {
        if select.limit_option() == LimitOption::WithTies {
            return Err(SqlError::unsupported("WITH TIES"));
        }
        let bound =
            |this: &mut Self, node: &Option<Box<Node>>, name: &str| -> Result<Option<Expr>> {
                let Some(node) = node else { return Ok(None) };
                // LIMIT sees no columns of its own query.
                let items = std::mem::take(&mut this.scope()?.items);
                this.set_place(Place::Limit)?;
                let expr = this.expr(node);
                this.scope()?.items = items;
                let expr = expr.map_err(|error| {
                    if error.sqlstate == "42703" {
                        let mut error = error;
                        error.sqlstate = "42P10";
                        error.message = format!("argument of {name} must not contain variables");
                        error
                    } else {
                        error
                    }
                })?;
                if expr.is_null_const() {
                    return Ok(None);
                }
                let (from, location) = (expr.ty, expr.location);
                let expr = this.coerce(expr, TypeOid::INT8, CastContext::Assignment)?;
                expr.map(Some).ok_or_else(|| {
                    this.error(
                        "42804",
                        format!(
                            "argument of {name} must be type bigint, not type {}",
                            this.format_oid(from)
                        ),
                        location,
                    )
                })
            };
        let count = bound(self, &select.limit_count, "LIMIT")?;
        let offset = bound(self, &select.limit_offset, "OFFSET")?;
        Ok((count, offset))
    }

    fn values(
        &mut self,
        select: &protobuf::SelectStmt,
        wanted: Option<&[ColumnType]>,
        to_text: bool,
    ) -> Result<Query> {
        self.set_place(Place::Values)?;
        let mut columns: Vec<Vec<Expr>> = Vec::new();
        for (number, node) in select.values_lists.iter().enumerate() {
            let Some(NodeEnum::List(list)) = &node.node else { continue };
            let row = self.exprs(&list.items)?;
            if number == 0 {
                columns.resize_with(row.len(), Vec::new);
            } else if row.len() != columns.len() {
                let location = row.first().map_or(-1, |e| e.location);
                return Err(self.error(
                    "42601",
                    "VALUES lists must all be the same length",
                    location,
                ));
            }
            for (column, value) in columns.iter_mut().zip(row) {
                column.push(value);
            }
        }
        let row_count = select.values_lists.len();
        let mut typed = Vec::with_capacity(columns.len());
        for (number, column) in columns.into_iter().enumerate() {
            let all_unknown = column.iter().all(|e| e.ty == TypeOid::UNKNOWN);
            typed.push(match wanted.and_then(|w| w.get(number)) {
                Some(wanted) if all_unknown => column
                    .into_iter()
                    .map(|e| self.to_common(e, wanted.oid, "VALUES"))
                    .collect::<Result<Vec<Expr>>>()?,
                _ if all_unknown && !to_text => column,
                _ => self.unify(column, "VALUES")?,
            });
        }
        let infos: Vec<ColumnInfo> = typed
            .iter()
            .enumerate()
            .map(|(number, column)| {
                let first =
                    column.first().map_or(ColumnType::new(TypeOid::TEXT), Expr::column_type);
                let same = column.iter().all(|e| e.typmod == first.typmod);
                ColumnInfo {
                    name: format!("column{}", number + 1),
                    column_type: if same { first } else { ColumnType::new(first.oid) },
                    table: 0,
                    attribute: 0,
                }
            })
            .collect();
        let mut rows = vec![Vec::with_capacity(typed.len()); row_count];
        for column in typed {
            for (row, value) in rows.iter_mut().zip(column) {
                row.push(value);
            }
        }
        self.order_and_limit(select, Body::Values(rows), infos)
    }

    /// ORDER BY and LIMIT of VALUES and of set operations, which name output columns only.
    pub(super) fn order_and_limit(
        &mut self,
        select: &protobuf::SelectStmt,
        body: Body,
        columns: Vec<ColumnInfo>,
    ) -> Result<Query> {
        if !select.locking_clause.is_empty() {
            return Err(SqlError::unsupported("FOR UPDATE with VALUES or a set operation"));
        }
        let targets: Vec<Target> = columns
            .iter()
            .enumerate()
            .map(|(number, column)| Target {
                expr: Expr::slot(number, column.column_type),
                name: column.name.clone(),
                origin: (0, 0),
                junk: false,
            })
            .collect();
        let mut order = Vec::new();
        for sort_node in &select.sort_clause {
            let Some(NodeEnum::SortBy(sort)) = &sort_node.node else { continue };
            let (descending, nulls_first) = self.sort_direction(sort)?;
            let Some(key) = sort.node.as_deref() else { continue };
            let Some(target) = self.named_target(key, &targets, "ORDER BY", true)? else {
                return Err(self
                    .error("0A000", "invalid UNION/INTERSECT/EXCEPT ORDER BY clause", sort.location)
                    .with_detail("Only result column names can be used, not expressions or functions.")
                    .with_hint(
                        "Add the expression/function to every SELECT, or move the UNION into a FROM clause.",
                    ));
            };
            order.push(OrderKey { target, descending, nulls_first });
        }
        let (limit, offset) = self.limit(select)?;
        Ok(Query { body, columns, order, limit, offset })
    }

    fn set_operation(&mut self, select: &protobuf::SelectStmt) -> Result<Query> {
        let (kind, _) = operation(select);
        let (Some(left), Some(right)) = (&select.larg, &select.rarg) else {
            return Err(SqlError::internal("a set operation with one side"));
        };
        // A query that is being analyzed must not name itself where its rows could take others away.
        let (outside, inside) = match (kind, select.all) {
            (SetKind::Union, _) | (SetKind::Intersect, false) => (None, None),
            (SetKind::Intersect, true) => (Some("INTERSECT"), Some("INTERSECT")),
            (SetKind::Except, all) => (all.then_some("EXCEPT"), Some("EXCEPT")),
        };
        let left = match outside {
            Some(part) => self.within(part, |this| this.set_side(left, false))?,
            None => self.set_side(left, false)?,
        };
        let right = match inside {
            Some(part) => self.within(part, |this| this.set_side(right, false))?,
            None => self.set_side(right, false)?,
        };
        let (set, columns) = self.united(select, left, right)?;
        self.order_and_limit(select, Body::Set(Box::new(set)), columns)
    }

    /// Brings the sides of a set operation to common types.
    pub(super) fn united(
        &mut self,
        select: &protobuf::SelectStmt,
        left: Query,
        right: Query,
    ) -> Result<(SetBody, Vec<ColumnInfo>)> {
        let (kind, name) = operation(select);
        if left.columns.len() != right.columns.len() {
            return Err(SqlError::new(
                "42601",
                format!("each {name} query must have the same number of columns"),
            ));
        }
        let mut columns = Vec::with_capacity(left.columns.len());
        let mut exprs: [Vec<Expr>; 2] = [Vec::new(), Vec::new()];
        for (number, (l, r)) in left.columns.iter().zip(&right.columns).enumerate() {
            let types = [(l.column_type.oid, -1), (r.column_type.oid, -1)];
            let common = self.common_type(&types, name)?;
            if !select.all && !self.is_ordered_type("=", common) {
                return Err(SqlError::new(
                    "42883",
                    format!(
                        "could not identify an equality operator for type {}",
                        self.format_oid(common)
                    ),
                ));
            }
            for (side, column) in [l, r].into_iter().enumerate() {
                let expr = Expr::slot(number, column.column_type);
                exprs[side].push(self.to_common(expr, common, name)?);
            }
            let same = l.column_type == r.column_type;
            columns.push(ColumnInfo {
                name: l.name.clone(),
                column_type: if same { l.column_type } else { ColumnType::new(common) },
                table: 0,
                attribute: 0,
            });
        }
        let [left_exprs, right_exprs] = exprs;
        let body = SetBody {
            kind,
            all: select.all,
            left: SetSide { query: left, exprs: left_exprs },
            right: SetSide { query: right, exprs: right_exprs },
            types: columns.iter().map(|c| c.column_type).collect(),
            recursive: None,
        };
        Ok((body, columns))
    }

    /// One side of a set operation, which stands on the level of the operation.
    pub(super) fn set_side(
        &mut self,
        select: &protobuf::SelectStmt,
        to_text: bool,
    ) -> Result<Query> {
        let mut query = self.query(select, None, to_text)?;
        // The operation's own level has no row.
        query.outer_slots_mut(1, &mut |slot, _| {
            if let ExprKind::Slot { depth, .. } = &mut slot.kind {
                *depth -= 1;
            }
        });
        Ok(query)
    }
}

/// Which set operation it is, and its name.
fn operation(select: &protobuf::SelectStmt) -> (SetKind, &'static str) {
    match select.op() {
        SetOperation::SetopUnion => (SetKind::Union, "UNION"),
        SetOperation::SetopIntersect => (SetKind::Intersect, "INTERSECT"),
        _ => (SetKind::Except, "EXCEPT"),
    }
}

/// Locks the rows of the tables of a query among the FROM items, as if it said so itself.
fn lock_inside(
    query: &mut Query,
    lock: RowLock,
    wait: LockWait,
    relations: &mut Vec<Arc<Relation>>,
) -> Result<()> {
    let refused = |what: &str| {
        Err(SqlError::new("0A000", format!("{} is not allowed with {what}", lock.clause())))
    };
    let select = match &mut query.body {
        Body::Select(select) => select,
        Body::Values(_) | Body::Modify(_) => return Ok(()),
        Body::Set(_) => return refused("UNION/INTERSECT/EXCEPT"),
    };
    if select.distinct != Distinct::None {
        return refused("DISTINCT clause");
    }
    if !select.windowing.is_empty() {
        return refused("window functions");
    }
    if let Some(grouping) = &select.grouping {
        return refused(if grouping.groups.is_empty() {
            "aggregate functions"
        } else {
            "GROUP BY clause"
        });
    }
    for item in &mut select.from.items {
        match &mut item.kind {
            ItemKind::Table(relation) => {
                let start = item.slots.start;
                if let Some(known) = select.locks.iter_mut().find(|known| known.start == start) {
                    known.lock = known.lock.max(lock);
                    continue;
                }
                relations.push(Arc::clone(relation));
                let relation = Arc::clone(relation);
                select.locks.push(LockTarget { relation, start, lock, wait });
            }
            ItemKind::Query(query) => lock_inside(query, lock, wait, relations)?,
            _ => {}
        }
    }
    Ok(())
}

/// The row description of an output column.
pub(super) fn column_info(target: &Target) -> ColumnInfo {
    ColumnInfo {
        name: target.name.clone(),
        column_type: target.expr.column_type(),
        table: target.origin.0,
        attribute: target.origin.1,
    }
}

/// The name that an expression gives to a cast or a CASE around it: not one that is itself a cast's or a CASE's.
fn own_name(node: &Node) -> Option<String> {
    match node.node.as_ref()? {
        NodeEnum::TypeCast(cast) => own_name(cast.arg.as_deref()?),
        NodeEnum::CaseExpr(case) => own_name(case.defresult.as_deref()?),
        NodeEnum::CollateClause(collate) => own_name(collate.arg.as_deref()?),
        _ => figure_name(node),
    }
}

/// The name of an output column without AS.
fn figure_name(node: &Node) -> Option<String> {
    match node.node.as_ref()? {
        NodeEnum::ColumnRef(column) => names_of(&column.fields).last().map(|n| (*n).to_owned()),
        NodeEnum::FuncCall(call) => names_of(&call.funcname).last().map(|n| (*n).to_owned()),
        NodeEnum::TypeCast(cast) => cast.arg.as_deref().and_then(own_name).or_else(|| {
            let names = names_of(&cast.type_name.as_ref()?.names);
            names.last().map(|n| (*n).to_owned())
        }),
        NodeEnum::AIndirection(indirection) => {
            let field = names_of(&indirection.indirection).last().map(|n| (*n).to_owned());
            field.or_else(|| indirection.arg.as_deref().and_then(figure_name))
        }
        NodeEnum::CollateClause(collate) => collate.arg.as_deref().and_then(figure_name),
        NodeEnum::CaseExpr(case) => {
            case.defresult.as_deref().and_then(own_name).or_else(|| Some("case".to_owned()))
        }
        NodeEnum::CoalesceExpr(_) => Some("coalesce".to_owned()),
        NodeEnum::MinMaxExpr(expr) => Some(
            if expr.op() == protobuf::MinMaxOp::IsGreatest { "greatest" } else { "least" }
                .to_owned(),
        ),
        NodeEnum::AExpr(expr) if expr.kind() == protobuf::AExprKind::AexprNullif => {
            Some("nullif".to_owned())
        }
        NodeEnum::AArrayExpr(_) => Some("array".to_owned()),
        NodeEnum::RowExpr(_) => Some("row".to_owned()),
        NodeEnum::SubLink(link) => match link.sub_link_type() {
            protobuf::SubLinkType::ExistsSublink => Some("exists".to_owned()),
            protobuf::SubLinkType::ArraySublink => Some("array".to_owned()),
            protobuf::SubLinkType::ExprSublink => {
                let Some(NodeEnum::SelectStmt(select)) = link.subselect.as_ref()?.node.as_ref()
                else {
                    return None;
                };
                match select.target_list.first()?.node.as_ref()? {
                    NodeEnum::ResTarget(target) if !target.name.is_empty() => {
                        Some(target.name.clone())
                    }
                    NodeEnum::ResTarget(target) => target.val.as_deref().and_then(figure_name),
                    _ => None,
                }
            }
            _ => None,
        },
        NodeEnum::SqlvalueFunction(function) => {
            use protobuf::SqlValueFunctionOp as Op;
            Some(
                match function.op() {
                    Op::SvfopCurrentDate => "current_date",
                    Op::SvfopCurrentTimestamp | Op::SvfopCurrentTimestampN => "current_timestamp",
                    Op::SvfopLocaltimestamp | Op::SvfopLocaltimestampN => "localtimestamp",
                    Op::SvfopCurrentTime | Op::SvfopCurrentTimeN => "current_time",
                    Op::SvfopLocaltime | Op::SvfopLocaltimeN => "localtime",
                    Op::SvfopCurrentRole => "current_role",
                    Op::SvfopCurrentUser => "current_user",
                    Op::SvfopUser => "user",
                    Op::SvfopSessionUser => "session_user",
                    Op::SvfopCurrentCatalog => "current_catalog",
                    Op::SvfopCurrentSchema => "current_schema",
                    _ => return None,
                }
                .to_owned(),
            )
        }
        _ => None,
    }
}
