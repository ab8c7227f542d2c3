//! UPDATE and DELETE, with the parts common to all data changes.

use std::sync::Arc;

use niwaki_catalog::{Identity, Relation, TriggerEvent};
use niwaki_expr::context::ColumnInfo;
use niwaki_expr::expr::{Expr, ExprKind};
use niwaki_expr::query::{
    From, ItemKind, JoinTree, ModifyKind, ModifyQuery, ModifySource, split_conjuncts,
};
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::{Datum, TypeOid};
use pg_query::protobuf;
use pg_query::{Node, NodeEnum};

use crate::analyze::change::write_view::WriteTarget;
use crate::analyze::expression::composite::is_star;
use crate::analyze::names::scope::{Place, Scope};
use crate::analyze::query::targets::{Target, column_info};
use crate::analyze::stored::trigger::FiredBy;
use crate::analyze::{Analyzer, table_expression};

/// Returns whether a new value is the old value with a part replaced.
fn is_part(value: &Expr) -> bool {
    match &value.kind {
        ExprKind::AssignPart { .. } | ExprKind::AssignField { .. } => true,
        ExprKind::Domain { argument, .. } => is_part(argument),
        _ => false,
    }
}

/// Returns the reason why a part of a column cannot be set to DEFAULT.
pub(crate) fn default_of_part(part: &[Node]) -> &'static str {
    match part.first().and_then(|step| step.node.as_ref()) {
        Some(NodeEnum::AIndices(_)) => "cannot set an array element to DEFAULT",
        _ => "cannot set a subfield to DEFAULT",
    }
}

/// The parts of an UPDATE or DELETE.
struct Change<'s> {
    kind: ModifyKind,
    with: Option<&'s protobuf::WithClause>,
    relation: Option<&'s protobuf::RangeVar>,
    from: &'s [Node],
    /// The SET list of an UPDATE.
    assignments: &'s [Node],
    condition: Option<&'s Node>,
    returning: Option<&'s protobuf::ReturningClause>,
}

impl Analyzer<'_> {
    pub(crate) fn target_column(
        &self,
        named: &WriteTarget,
        kind: ModifyKind,
        name: &str,
        location: i32,
    ) -> Result<usize> {
        match named.column(name) {
            Some(Ok(column)) => Ok(column),
            Some(Err(number)) => Err(named.refused(number, kind)),
            None => {
                let of = &named.named().name;
                let message = format!("column \"{name}\" of relation \"{of}\" does not exist");
                Err(self.error("42703", message, location))
            }
        }
    }

    /// Returns the default value of a column.
    pub(crate) fn default_of(&mut self, relation: &Relation, column: usize) -> Result<Expr> {
        let definition = &relation.columns[column];
        let column_type = definition.column_type();
        let null = Expr::constant(Datum::Null, column_type.oid, -1);
        if definition.dropped || definition.generated {
            return Ok(null);
        }
        let domain = column_type.domain.and_then(|domain| self.context.catalog.domain(domain));
        let inherited = domain.and_then(|domain| domain.default.as_ref());
        match definition.default.as_ref().or(inherited) {
            Some(text) => {
                table_expression(text, None, self.context, Some((column_type, &definition.name)))
            }
            None => self.as_domain(null, column_type.domain),
        }
    }

    pub(crate) fn returning(
        &mut self,
        clause: Option<&protobuf::ReturningClause>,
    ) -> Result<(Vec<Expr>, Vec<ColumnInfo>)> {
        let Some(clause) = clause else { return Ok((Vec::new(), Vec::new())) };
        if !clause.options.is_empty() {
            return Err(SqlError::unsupported("RETURNING WITH"));
        }
        self.set_place(Place::Returning)?;
        let mut targets = self.target_list(&clause.exprs)?;
        for target in &mut targets {
            let expr =
                std::mem::replace(&mut target.expr, Expr::constant(Datum::Null, TypeOid::TEXT, -1));
            target.expr = self.to_output(expr)?;
        }
        let infos = targets.iter().map(column_info).collect();
        Ok((targets.into_iter().map(|t: Target| t.expr).collect(), infos))
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one statement")]
    pub(crate) fn modify(
        &mut self,
        kind: ModifyKind,
        relation: Arc<Relation>,
        name: String,
        source: ModifySource,
        start: usize,
        values: Vec<Option<Expr>>,
        returning: Vec<Expr>,
    ) -> Result<ModifyQuery> {
        let (mut generated, mut checks) = (Vec::new(), Vec::new());
        let mut bounds = Vec::new();
        if kind != ModifyKind::Delete {
            // The partitions have the constraints of a partitioned table, too.
            if !relation.is_partitioned() {
                (generated, checks) = self.row_rules(&relation)?;
            }
            bounds = self.bounds_of(&relation)?;
        }
        let leaves = self.leaf_rules(&relation, kind)?;
        let width =
            start + relation.columns.len() + crate::analyze::names::scope::SYSTEM_COLUMNS.len();
        Ok(ModifyQuery {
            kind,
            relation,
            name,
            source,
            width,
            start,
            values,
            generated,
            checks,
            bounds,
            leaves,
            view_checks: Vec::new(),
            triggers: None,
            returning,
            conflict: None,
        })
    }

    pub(crate) fn update(
        &mut self,
        update: &protobuf::UpdateStmt,
    ) -> Result<(ModifyQuery, Vec<ColumnInfo>)> {
        self.change(&Change {
            kind: ModifyKind::Update,
            with: update.with_clause.as_ref(),
            relation: update.relation.as_ref(),
            from: &update.from_clause,
            assignments: &update.target_list,
            condition: update.where_clause.as_deref(),
            returning: update.returning_clause.as_ref(),
        })
    }

    pub(crate) fn delete(
        &mut self,
        delete: &protobuf::DeleteStmt,
    ) -> Result<(ModifyQuery, Vec<ColumnInfo>)> {
        self.change(&Change {
            kind: ModifyKind::Delete,
            with: delete.with_clause.as_ref(),
            relation: delete.relation.as_ref(),
            from: &delete.using_clause,
            assignments: &[],
            condition: delete.where_clause.as_deref(),
            returning: delete.returning_clause.as_ref(),
        })
    }

    fn change(&mut self, change: &Change<'_>) -> Result<(ModifyQuery, Vec<ColumnInfo>)> {
        if let Some(with) = change.with {
            self.with_clause(with)?;
        }
        let var = change
            .relation
            .ok_or_else(|| SqlError::internal("a statement that changes no table"))?;
        let target = self.target_relation(var, change.kind)?;
        self.scopes.push(Scope::default());
        let result = self.change_in_scope(change, var, &target);
        self.scopes.pop();
        result
    }

    fn change_in_scope(
        &mut self,
        change: &Change<'_>,
        var: &protobuf::RangeVar,
        written: &WriteTarget,
    ) -> Result<(ModifyQuery, Vec<ColumnInfo>)> {
        let relation = &written.table;
        let (name, schema) = self.target_names(var, written);
        let scope = self.scope()?;
        let start = scope.add_relation(relation, &name, schema);
        if let (Some(view), Some(item)) = (&written.view, scope.items.last_mut()) {
            view.show_in(item);
        }
        // In plans, the table has its own name instead of the view's.
        let name = match (&written.view, &var.alias) {
            (Some(_), None) => relation.name.clone(),
            _ => name,
        };
        let (kind, alias) = (ItemKind::Table(Arc::clone(relation)), var.alias.as_ref());
        let target = scope.add_source(kind, name.clone(), start, alias, None);
        self.set_place(Place::From)?;
        let tree = match self.from_clause(change.from)? {
            Some(from) => JoinTree::inner(target, from),
            None => target,
        };
        let values = match change.kind {
            ModifyKind::Update => self.assignments(written, change.assignments)?,
            _ => Vec::new(),
        };
        let mut conditions =
            written.view.as_ref().map_or_else(Vec::new, |view| view.conditions.clone());
        // These conditions recheck a newer version of a row.
        let mut recheck = None;
        match change.condition.and_then(|node| node.node.as_ref()) {
            Some(NodeEnum::CurrentOfExpr(current)) => {
                if written.view.is_some() {
                    let message = "WHERE CURRENT OF on a view is not implemented";
                    return Err(SqlError::new("0A000", message));
                }
                conditions = self.current_of(&current.cursor_name, relation)?;
                recheck = Some(Vec::new());
            }
            _ => conditions.extend(self.where_conditions(change.condition)?),
        }
        let (returning, infos) = self.returning(change.returning)?;
        let scope = self.scope()?;
        let items = std::mem::take(&mut scope.sources);
        let width = scope.width();
        let from = From { items, tree: Some(tree), conditions, width, recheck };
        let source = ModifySource::From(Box::new(from));
        let relation = Arc::clone(relation);
        let mut query = self.modify(change.kind, relation, name, source, 0, values, returning)?;
        let event = match change.kind {
            ModifyKind::Update => TriggerEvent::Update,
            _ => TriggerEvent::Delete,
        };
        let given = query.values.clone();
        self.set_triggers(&mut query, &[FiredBy { event, values: &given }])?;
        let view_checks = match (&written.view, change.kind) {
            (Some(view), ModifyKind::Update) => view.checks.clone(),
            _ => Vec::new(),
        };
        Ok((ModifyQuery { width, view_checks, ..query }, infos))
    }

    /// Returns the new values of the columns that UPDATE sets.
    pub(crate) fn assignments(
        &mut self,
        written: &WriteTarget,
        nodes: &[Node],
    ) -> Result<Vec<Option<Expr>>> {
        let relation = &written.table;
        self.set_place(Place::Update)?;
        let mut values: Vec<Option<Expr>> = vec![None; relation.columns.len()];
        for node in nodes {
            let Some(NodeEnum::ResTarget(target)) = &node.node else { continue };
            let column =
                self.target_column(written, ModifyKind::Update, &target.name, target.location)?;
            let part = target.indirection.as_slice();
            let parts = !part.is_empty() && values[column].as_ref().is_some_and(is_part);
            if values[column].is_some() && !parts {
                return Err(self.error(
                    "42601",
                    format!("multiple assignments to same column \"{}\"", target.name),
                    target.location,
                ));
            }
            let definition = &relation.columns[column];
            let value = self.assigned(target.val.as_deref())?;
            let is_default = value.is_default();
            let always = definition.identity == Some(Identity::Always);
            if (always || definition.generated) && !is_default {
                let name = &definition.name;
                let what = if always {
                    "an identity column defined as GENERATED ALWAYS"
                } else {
                    "a generated column"
                };
                let message = format!("column \"{name}\" can only be updated to DEFAULT");
                return Err(self
                    .error("428C9", message, target.location)
                    .with_detail(format!("Column \"{name}\" is {what}.")));
            }
            values[column] = Some(if !part.is_empty() {
                if is_default {
                    let message = default_of_part(part);
                    return Err(self.error("0A000", message, target.location));
                }
                let old = match values[column].take() {
                    Some(old) => old,
                    None => self.old_value(relation, column)?,
                };
                let value = self.assigned_value(value)?;
                let definition = (definition.column_type(), definition.name.as_str());
                self.assigned_part(old, part, value, definition, target.location)?
            } else if is_default && written.view.is_some() && !always && !definition.generated {
                // The view's column has no default of its own.
                Expr::constant(Datum::Null, definition.column_type().oid, -1)
            } else if is_default {
                self.default_of(relation, column)?
            } else {
                let expr = self.assigned_value(value)?;
                self.assign(expr, definition.column_type(), &definition.name, target.location)?
            });
        }
        Ok(values)
    }

    /// Returns the old value of a column of the updated table, which is the scope's first item.
    fn old_value(&mut self, relation: &Relation, column: usize) -> Result<Expr> {
        let start = self.scope()?.items.first().map(|item| item.start);
        let definition = relation.columns.get(column);
        match (start, definition) {
            (Some(start), Some(column_of)) => {
                Ok(Expr::slot(start + column, column_of.column_type()))
            }
            _ => Err(SqlError::internal("no old value")),
        }
    }

    /// Returns the value of one column of `SET column = …` or `SET (column, …) = (…)`.
    fn assigned<'n>(&mut self, value: Option<&'n Node>) -> Result<Assigned<'n>> {
        let Some(NodeEnum::MultiAssignRef(part)) = value.and_then(|node| node.node.as_ref()) else {
            return Ok(Assigned::Value(value));
        };
        let count = |number: i32| usize::try_from(number).unwrap_or(0);
        let (column, columns) = (count(part.colno - 1), count(part.ncolumns));
        match part.source.as_ref().and_then(|node| node.node.as_ref()) {
            Some(NodeEnum::RowExpr(row)) => self.assigned_of_row(row, column, columns),
            Some(NodeEnum::SubLink(link))
                if link.sub_link_type() == protobuf::SubLinkType::ExprSublink =>
            {
                Ok(Assigned::OfRow { link, column, columns })
            }
            _ => {
                let message = "source for a multiple-column UPDATE item must be a sub-SELECT or ROW() expression";
                Err(self.error("0A000", message, -1))
            }
        }
    }

    /// Returns one of the `columns` values of a row. An `x.*` in the row stands for all columns of
    /// `x`.
    fn assigned_of_row<'n>(
        &mut self,
        row: &'n protobuf::RowExpr,
        column: usize,
        columns: usize,
    ) -> Result<Assigned<'n>> {
        let (mut count, mut found) = (0, None);
        for node in &row.args {
            if !is_star(node) {
                if count == column {
                    found = Some(Assigned::Value(Some(node)));
                }
                count += 1;
                continue;
            }
            for expr in self.listed(std::slice::from_ref(node))? {
                if count == column {
                    found = Some(Assigned::Expr(Box::new(expr)));
                }
                count += 1;
            }
        }
        let message = "number of columns does not match number of values";
        found.filter(|_| count == columns).ok_or_else(|| self.error("42601", message, row.location))
    }

    fn assigned_value(&mut self, assigned: Assigned<'_>) -> Result<Expr> {
        match assigned {
            Assigned::Value(node) => self.expr_of(node),
            Assigned::Expr(expr) => Ok(*expr),
            Assigned::OfRow { link, column, columns } => self.column_of_row(link, column, columns),
        }
    }

    pub(crate) fn where_conditions(&mut self, node: Option<&Node>) -> Result<Vec<Expr>> {
        self.set_place(Place::Where)?;
        let mut conditions = Vec::new();
        if let Some(node) = node {
            let condition = self.expr(node)?;
            split_conjuncts(self.to_bool(condition, "WHERE")?, &mut conditions);
        }
        Ok(conditions)
    }
}

/// The source of an assigned value.
enum Assigned<'n> {
    Value(Option<&'n Node>),
    /// A column or field of an expanded `x.*`.
    Expr(Box<Expr>),
    /// One column of a query's row.
    OfRow {
        link: &'n protobuf::SubLink,
        column: usize,
        columns: usize,
    },
}

impl Assigned<'_> {
    fn is_default(&self) -> bool {
        let Self::Value(Some(node)) = self else { return false };
        matches!(node.node.as_ref(), Some(NodeEnum::SetToDefault(_)))
    }
}
