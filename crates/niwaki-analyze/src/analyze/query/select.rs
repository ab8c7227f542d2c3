//! SELECT: analyzes one query level, and checks the combination of its clauses.

use niwaki_env::stack;
use niwaki_expr::context::ColumnInfo;
use niwaki_expr::expr::{Expr, ExprKind};
use niwaki_expr::query::{
    Body, Distinct, From, Grouping, GroupingSets, ItemKind, Query, Select, split_conjuncts,
};
use niwaki_parse::error::{Result, SqlError};
use niwaki_txn::{RowLockMode, TableLockMode};
use niwaki_types::{ColumnType, Datum, TypeOid};
use pg_query::protobuf::{self, SetOperation};

use crate::analyze::Analyzer;
use crate::analyze::expression::expr::EXPRESSION_UNITS;
use crate::analyze::names::scope::{Place, Scope};
use crate::analyze::query::group_by::GroupBy;
use crate::analyze::query::grouping::GroupedRow;
use crate::analyze::query::locking::asked_lock;
use crate::analyze::query::targets::{Target, column_info};

impl Analyzer<'_> {
    /// Analyzes a query in its own scope. `wanted` are the types for its untyped columns.
    pub(crate) fn nested_query(
        &mut self,
        select: &protobuf::SelectStmt,
        wanted: Option<&[ColumnType]>,
    ) -> Result<Query> {
        self.query(select, wanted, true)
    }

    /// Analyzes a query in its own scope. Untyped columns become text only if `to_text`.
    pub(crate) fn query(
        &mut self,
        select: &protobuf::SelectStmt,
        wanted: Option<&[ColumnType]>,
        to_text: bool,
    ) -> Result<Query> {
        // Work units are counted, since views may name other views twice at each level.
        niwaki_types::work::tick(EXPRESSION_UNITS)?;
        stack::deeper(|| self.query_here(select, wanted, to_text))
    }

    fn query_here(
        &mut self,
        select: &protobuf::SelectStmt,
        wanted: Option<&[ColumnType]>,
        to_text: bool,
    ) -> Result<Query> {
        let for_cursor = std::mem::take(&mut self.for_cursor);
        let names_before = self.ctes.len();
        if let Some(with) = &select.with_clause {
            self.with_clause(with)?;
        }
        self.scopes.push(Scope::default());
        let result =
            if select.op() == SetOperation::SetopNone || select.op() == SetOperation::Undefined {
                if select.values_lists.is_empty() {
                    self.select(select, wanted, to_text, for_cursor)
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
        for_cursor: bool,
    ) -> Result<Query> {
        if select.into_clause.is_some() {
            return Err(SqlError::new("42601", "SELECT ... INTO is not allowed here"));
        }
        self.set_place(Place::From)?;
        let tree = self.from_clause(&select.from_clause)?;
        self.window_clause(&select.window_clause)?;
        self.set_place(Place::Target)?;
        let mut targets = self.target_list(&select.target_list)?;
        if let Some(wanted) = wanted {
            self.give_types(&mut targets, wanted)?;
        }
        let written_targets = targets.len();
        if for_cursor {
            self.add_places(select, &mut targets)?;
        }
        self.set_place(Place::Where)?;
        let conditions = self.where_clause(select)?;
        let mut order = self.sort_clause(&select.sort_clause, &mut targets)?;
        let by = self.group_clause(select, &targets)?;
        let distinct = self.distinct_clause(select, &mut targets, &mut order)?;
        self.set_place(Place::Having)?;
        let having = self.having_clause(select)?;
        if to_text {
            for target in &mut targets {
                let nothing = Expr::constant(Datum::Null, TypeOid::TEXT, -1);
                let expr = std::mem::replace(&mut target.expr, nothing);
                target.expr = self.to_output(expr)?;
            }
        }
        let described = targets.iter().filter(|target| !target.junk).map(|target| ColumnInfo {
            fields: self.record_fields(&target.expr),
            ..column_info(target)
        });
        let columns: Vec<ColumnInfo> = described.collect();
        let locks = self.locking_clause(&select.locking_clause)?;
        if for_cursor {
            self.settle_places(select, &locks, &mut targets, written_targets)?;
        }
        let grouped = having.is_some()
            || !self.scope()?.aggregates.is_empty()
            || self.scope()?.asks_for_sets
            || !select.group_clause.is_empty();
        self.refuse_locks(select, grouped, &distinct)?;
        for lock in &locks {
            self.note_relation(&lock.relation, TableLockMode::RowShare);
        }
        let grouping =
            if grouped { Some(self.group_rows(by, &mut targets, having)?) } else { None };
        self.refuse_recursive_aggregates(grouping.as_ref())?;
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

    /// Gives targets without a type the types that the surrounding statement wants.
    fn give_types(&mut self, targets: &mut [Target], wanted: &[ColumnType]) -> Result<()> {
        for (target, column) in targets.iter_mut().zip(wanted) {
            if target.expr.ty == TypeOid::UNKNOWN {
                let nothing = Expr::constant(Datum::Null, column.oid, -1);
                let expr = std::mem::replace(&mut target.expr, nothing);
                target.expr = self.to_common(expr, column.oid, "INSERT")?;
            }
        }
        Ok(())
    }

    /// Returns the conjuncts of WHERE.
    fn where_clause(&mut self, select: &protobuf::SelectStmt) -> Result<Vec<Expr>> {
        let mut conditions = Vec::new();
        if let Some(node) = &select.where_clause {
            let condition = self.expr(node)?;
            split_conjuncts(self.to_bool(condition, "WHERE")?, &mut conditions);
        }
        Ok(conditions)
    }

    fn having_clause(&mut self, select: &protobuf::SelectStmt) -> Result<Option<Expr>> {
        let Some(node) = &select.having_clause else { return Ok(None) };
        let having = self.expr(node)?;
        Ok(Some(self.to_bool(having, "HAVING")?))
    }

    /// Refuses FOR UPDATE and its like over rows that are no rows of tables.
    fn refuse_locks(
        &mut self,
        select: &protobuf::SelectStmt,
        grouped: bool,
        distinct: &Distinct,
    ) -> Result<()> {
        let Some(clause) = asked_lock(&select.locking_clause).map(RowLockMode::clause) else {
            return Ok(());
        };
        if grouped || *distinct != Distinct::None {
            let what = if *distinct != Distinct::None {
                "DISTINCT clause"
            } else if !select.group_clause.is_empty() {
                "GROUP BY clause"
            } else if select.having_clause.is_some() {
                "HAVING clause"
            } else {
                "aggregate functions"
            };
            return Err(SqlError::new("0A000", format!("{clause} is not allowed with {what}")));
        }
        if !self.scope()?.windowing.is_empty() {
            let message = format!("{clause} is not allowed with window functions");
            return Err(SqlError::new("0A000", message));
        }
        Ok(())
    }

    /// Rewrites the level's expressions for the row of its groups, and returns the grouping.
    fn group_rows(
        &mut self,
        mut by: GroupBy,
        targets: &mut [Target],
        mut having: Option<Expr>,
    ) -> Result<Grouping> {
        let written = by.groups.len();
        self.add_dependent_groups(&mut by);
        let aggregates = self.scope()?.aggregates.len();
        let GroupBy { groups, clause, sets: grouping_sets, named } = by;
        let mut row =
            GroupedRow { groups: &groups, written, aggregates, calls: Vec::new(), direct: false };
        for (number, target) in targets.iter_mut().enumerate() {
            match named.iter().find(|(named, _)| *named == number) {
                Some((_, group)) => {
                    target.expr.kind = ExprKind::Slot { depth: 0, slot: *group };
                }
                None => self.grouped(&mut target.expr, &mut row)?,
            }
        }
        if let Some(having) = &mut having {
            self.grouped(having, &mut row)?;
        }
        let mut sets = std::mem::take(&mut self.scope()?.sets);
        for argument in sets.iter_mut().flat_map(|set| &mut set.arguments) {
            self.grouped(argument, &mut row)?;
        }
        self.scope()?.sets = sets;
        let mut windowing = std::mem::take(&mut self.scope()?.windowing);
        for expr in windowing.row_exprs_mut() {
            self.grouped(expr, &mut row)?;
        }
        self.scope()?.windowing = windowing;
        let calls = std::mem::take(&mut self.scope()?.aggregates);
        self.check_direct_arguments(&calls, &grouping_sets, &mut row)?;
        let sets = GroupingSets { sets: grouping_sets, calls: row.calls };
        Ok(Grouping { groups, written, sets, clause, calls, having })
    }

    /// Refuses aggregates in the recursive term of a recursive query.
    fn refuse_recursive_aggregates(&mut self, grouping: Option<&Grouping>) -> Result<()> {
        let recursive =
            self.scope()?.sources.iter().any(|s| matches!(s.kind, ItemKind::Working { .. }));
        let calls =
            |grouping: &Grouping| !grouping.calls.is_empty() || !grouping.sets.calls.is_empty();
        if recursive && grouping.is_some_and(calls) {
            return Err(SqlError::new(
                "42P19",
                "aggregate functions are not allowed in a recursive query's recursive term",
            ));
        }
        Ok(())
    }
}
