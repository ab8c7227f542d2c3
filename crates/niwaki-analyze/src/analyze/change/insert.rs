//! Analysis of INSERT.

use std::sync::Arc;

use niwaki_catalog::{Identity, Relation, TriggerEvent};
use niwaki_expr::context::ColumnInfo;
use niwaki_expr::expr::Expr;
use niwaki_expr::query::{ConflictPlan, ModifyKind, ModifyQuery, ModifySource};
use niwaki_parse::error::{Result, SqlError};
use niwaki_parse::types::element_of;
use niwaki_types::{ColumnType, Datum, TypeOid};
use pg_query::protobuf::{self, OnConflictAction, OverridingKind};
use pg_query::{Node, NodeEnum};

use crate::analyze::Analyzer;
use crate::analyze::change::conflict::{EXCLUDED, check_arbiters};
use crate::analyze::change::dml::default_of_part;
use crate::analyze::change::write_view::WriteTarget;
use crate::analyze::names::scope::{Place, Scope};
use crate::analyze::stored::trigger::FiredBy;

/// The target columns of an INSERT, as in [`InsertTarget`], and the subscripts after each.
type GivenColumns<'n> = (Vec<Option<usize>>, Vec<&'n [Node]>);

/// The target of an INSERT.
struct InsertTarget<'s> {
    relation: Arc<Relation>,
    /// The table or view that the statement names.
    named: WriteTarget,
    /// The columns that values are given for, in the order of the values. `None` stands for a view
    /// column that cannot be written.
    columns: Vec<Option<usize>>,
    /// The subscripts after each column.
    parts: Vec<&'s [Node]>,
    /// True if the statement lists the columns.
    explicit: bool,
    override_kind: OverridingKind,
}

impl InsertTarget<'_> {
    /// Returns the column for the value at a position.
    fn column(&self, number: usize) -> Result<usize> {
        let column = self.columns.get(number).copied().flatten();
        let column = column.ok_or_else(|| self.named.refused(number, ModifyKind::Insert))?;
        let again = self.columns.iter().take(number).any(|earlier| *earlier == Some(column));
        if again && self.named.view.is_some() && self.parts.get(number).is_none_or(|p| p.is_empty())
        {
            let name = &self.relation.columns[column].name;
            let message = format!("multiple assignments to same column \"{name}\"");
            return Err(SqlError::new("42601", message));
        }
        Ok(column)
    }
}

impl Analyzer<'_> {
    pub(crate) fn insert(
        &mut self,
        insert: &protobuf::InsertStmt,
    ) -> Result<(ModifyQuery, Vec<ColumnInfo>)> {
        if let Some(with) = &insert.with_clause {
            self.with_clause(with)?;
        }
        let var =
            insert.relation.as_ref().ok_or_else(|| SqlError::internal("INSERT without a table"))?;
        let named = self.target_relation(var, ModifyKind::Insert)?;
        if named.view.is_some() && insert.on_conflict_clause.is_some() {
            return Err(SqlError::unsupported("ON CONFLICT with a view"));
        }
        let relation = Arc::clone(&named.table);
        let (columns, parts) = self.insert_columns(&named, &insert.cols)?;
        let target = InsertTarget {
            relation: Arc::clone(&relation),
            named: named.clone(),
            columns,
            parts,
            explicit: !insert.cols.is_empty(),
            override_kind: insert.r#override(),
        };
        let width = relation.columns.len();
        let mut values: Vec<Option<Expr>> = vec![None; width];
        let (source, start) = match insert.select_stmt.as_ref().and_then(|s| s.node.as_ref()) {
            None => (ModifySource::Row, 0),
            Some(NodeEnum::SelectStmt(select)) => {
                let plain_values = !select.values_lists.is_empty()
                    && select.sort_clause.is_empty()
                    && select.limit_count.is_none()
                    && select.limit_offset.is_none()
                    && select.with_clause.is_none();
                if plain_values {
                    self.insert_values(&target, select, &mut values)?
                } else {
                    self.insert_select(&target, select, &mut values)?
                }
            }
            Some(_) => return Err(SqlError::internal("INSERT from something else")),
        };
        for (number, value) in values.iter_mut().enumerate() {
            if value.is_none() {
                *value = Some(self.default_of(&relation, number)?);
            }
        }
        let (alias, schema) = self.target_names(var, &named);
        let mut scope = Scope::default();
        scope.used.resize(start, false);
        scope.add_relation(&relation, &alias, schema);
        if let (Some(view), Some(item)) = (&named.view, scope.items.last_mut()) {
            view.show_in(item);
        }
        self.scopes.push(scope);
        let output = self.insert_output(insert, &relation, &alias);
        let input_width = self.scopes.pop().map_or(0, |scope| scope.width());
        let (conflict, returning, infos) = output?;
        let name = match (&named.view, &var.alias) {
            // In plans, the table has its own name instead of the view's.
            (Some(_), None) => relation.name.clone(),
            _ => alias,
        };
        let kind = ModifyKind::Insert;
        let mut query = self.modify(kind, relation, name, source, start, values, returning)?;
        let mut changes = vec![FiredBy { event: TriggerEvent::Insert, values: &[] }];
        let update = conflict.as_ref().and_then(|conflict| conflict.update.as_ref());
        let updates = update.map(|update| update.values.as_slice());
        changes.extend(updates.map(|values| FiredBy { event: TriggerEvent::Update, values }));
        self.set_triggers(&mut query, &changes)?;
        if let Some(conflict) = &conflict {
            self.leaf_arbiters(&query.relation, conflict, &mut query.leaves)?;
        }
        let view_checks = named.view.map_or_else(Vec::new, |view| view.checks.clone());
        Ok((ModifyQuery { conflict, width: input_width, view_checks, ..query }, infos))
    }

    /// Analyzes ON CONFLICT and RETURNING, in a scope that has the table.
    fn insert_output(
        &mut self,
        insert: &protobuf::InsertStmt,
        relation: &Arc<Relation>,
        alias: &str,
    ) -> Result<(Option<ConflictPlan>, Vec<Expr>, Vec<ColumnInfo>)> {
        let mut conflict = None;
        if let Some(clause) = insert.on_conflict_clause.as_deref() {
            let mut plan = self.conflict(clause, relation, alias)?;
            if clause.action() == OnConflictAction::OnconflictUpdate {
                let scope = self.scope()?;
                let excluded = scope.add_relation(relation, EXCLUDED, None);
                if let Some(item) = scope.items.last_mut() {
                    // EXCLUDED has no system columns.
                    item.relation = None;
                }
                let condition = clause.where_clause.as_deref();
                let assignments = &clause.target_list;
                let update = self.conflict_update(assignments, condition, relation, excluded)?;
                plan.update = Some(update);
                let scope = self.scope()?;
                scope.items.pop();
                scope.out_of_sight.push(EXCLUDED.to_owned());
            }
            conflict = Some(plan);
        }
        let (returning, infos) = self.returning(insert.returning_clause.as_ref())?;
        if let Some(plan) = &conflict {
            check_arbiters(plan)?;
        }
        Ok((conflict, returning, infos))
    }

    /// Returns the columns that values are given for.
    fn insert_columns<'n>(
        &self,
        named: &WriteTarget,
        nodes: &'n [Node],
    ) -> Result<GivenColumns<'n>> {
        if nodes.is_empty() {
            return Ok((named.all_columns(), Vec::new()));
        }
        let mut columns: Vec<Option<usize>> = Vec::with_capacity(nodes.len());
        let mut parts: Vec<&[Node]> = Vec::with_capacity(nodes.len());
        for node in nodes {
            let Some(NodeEnum::ResTarget(target)) = &node.node else { continue };
            let number =
                self.target_column(named, ModifyKind::Insert, &target.name, target.location)?;
            // A statement may assign several parts of one column, but not a part and the whole.
            let whole = |(column, part): (&Option<usize>, &&[Node])| {
                *column == Some(number) && (part.is_empty() || target.indirection.is_empty())
            };
            if columns.iter().zip(&parts).any(whole) {
                return Err(self.error(
                    "42701",
                    format!("column \"{}\" specified more than once", target.name),
                    target.location,
                ));
            }
            columns.push(Some(number));
            parts.push(&target.indirection);
        }
        Ok((columns, parts))
    }

    fn too_many_values(&self, at: i32) -> SqlError {
        self.error("42601", "INSERT has more expressions than target columns", at)
    }

    fn check_count(&self, given: usize, target: &InsertTarget<'_>) -> Result<()> {
        if given > target.columns.len() {
            return Err(self.too_many_values(-1));
        }
        // Without a column list, missing columns at the end take their defaults.
        if target.explicit && given < target.columns.len() {
            return Err(self.error("42601", "INSERT has more target columns than expressions", -1));
        }
        Ok(())
    }

    /// Converts a value for its column; returns `None` if OVERRIDING USER VALUE ignores the value.
    ///
    /// `placed` is the column's value so far, if a part of the column is assigned. A value for a
    /// GENERATED ALWAYS identity column is refused.
    fn place(
        &mut self,
        target: &InsertTarget<'_>,
        number: usize,
        value: Expr,
        location: i32,
        placed: Option<&Expr>,
    ) -> Result<Option<Expr>> {
        let column = target.column(number)?;
        let definition = &target.relation.columns[column];
        let override_kind = target.override_kind;
        let refused = || {
            let message =
                format!("cannot insert a non-DEFAULT value into column \"{}\"", definition.name);
            SqlError::new("428C9", message)
        };
        if definition.generated {
            let detail = format!("Column \"{}\" is a generated column.", definition.name);
            return Err(refused().with_detail(detail));
        }
        if definition.identity == Some(Identity::Always)
            && override_kind != OverridingKind::OverridingSystemValue
            && override_kind != OverridingKind::OverridingUserValue
        {
            return Err(refused()
                .with_detail(format!(
                    "Column \"{}\" is an identity column defined as GENERATED ALWAYS.",
                    definition.name
                ))
                .with_hint("Use OVERRIDING SYSTEM VALUE to override."));
        }
        let ignored =
            override_kind == OverridingKind::OverridingUserValue && definition.identity.is_some();
        if ignored {
            return Ok(None);
        }
        let column_type = definition.column_type();
        let part = target.parts.get(number).copied().unwrap_or_default();
        if part.is_empty() {
            return self.assign(value, column_type, &definition.name, location).map(Some);
        }
        // If no earlier value was given, parts are assigned into NULL, not into the default.
        let given = target.columns.iter().take(number).any(|earlier| *earlier == Some(column));
        let old = placed.filter(|_| given).cloned();
        let old = old.unwrap_or_else(|| Expr::constant(Datum::Null, column_type.oid, -1));
        self.assigned_part(old, part, value, (column_type, &definition.name), location).map(Some)
    }

    fn insert_values(
        &mut self,
        target: &InsertTarget<'_>,
        select: &protobuf::SelectStmt,
        values: &mut [Option<Expr>],
    ) -> Result<(ModifySource, usize)> {
        self.scopes.push(Scope { place: Place::Values, ..Scope::default() });
        let rows = self.insert_rows(target, select);
        self.scopes.pop();
        let mut rows = rows?;
        if rows.len() == 1
            && let Some(row) = rows.pop()
        {
            for (place, value) in values.iter_mut().zip(row) {
                *place = Some(value);
            }
            return Ok((ModifySource::Row, 0));
        }
        let width = values.len();
        for (number, value) in values.iter_mut().enumerate() {
            *value = Some(Expr::slot(number, target.relation.columns[number].column_type()));
        }
        Ok((ModifySource::Rows(rows), width))
    }

    /// Returns complete rows with the defaults filled in.
    fn insert_rows(
        &mut self,
        target: &InsertTarget<'_>,
        select: &protobuf::SelectStmt,
    ) -> Result<Vec<Vec<Expr>>> {
        let defaults = self.defaults_of(&target.relation)?;
        let mut rows = Vec::with_capacity(select.values_lists.len());
        let mut first_length = None;
        for node in &select.values_lists {
            let Some(NodeEnum::List(list)) = &node.node else { continue };
            if *first_length.get_or_insert(list.items.len()) != list.items.len() {
                return Err(SqlError::new("42601", "VALUES lists must all be the same length"));
            }
            rows.push(self.insert_row(target, &list.items, defaults.clone())?);
        }
        Ok(rows)
    }

    /// Returns the default of each column.
    fn defaults_of(&mut self, relation: &Relation) -> Result<Vec<Expr>> {
        (0..relation.columns.len()).map(|number| self.default_of(relation, number)).collect()
    }

    /// Completes a row: `row` has the defaults.
    fn insert_row(
        &mut self,
        target: &InsertTarget<'_>,
        values: &[Node],
        mut row: Vec<Expr>,
    ) -> Result<Vec<Expr>> {
        let mut given = Vec::with_capacity(values.len());
        for value in values {
            given.push(if let Some(NodeEnum::SetToDefault(default)) = &value.node {
                (None, default.location)
            } else {
                let value = self.expr(value)?;
                let location = value.location;
                (Some(value), location)
            });
        }
        // The number of values is checked before their types.
        if let Some((_, location)) = given.get(target.columns.len()) {
            return Err(self.too_many_values(*location));
        }
        self.check_count(given.len(), target)?;
        for (number, (value, location)) in given.into_iter().enumerate() {
            let Some(value) = value else {
                if let Some(part) = target.parts.get(number).filter(|part| !part.is_empty()) {
                    return Err(self.error("0A000", default_of_part(part), location));
                }
                continue;
            };
            let column = target.column(number)?;
            if let Some(value) = self.place(target, number, value, location, row.get(column))? {
                row[column] = value;
            }
        }
        Ok(row)
    }

    /// Returns the row that INSERT of a MERGE adds to a table. `columns` and `values` are the lists
    /// of the clause; `values` is empty for DEFAULT VALUES.
    pub(crate) fn merged_row(
        &mut self,
        named: &WriteTarget,
        columns: &[Node],
        values: &[Node],
        override_kind: OverridingKind,
    ) -> Result<Vec<Expr>> {
        let (given, parts) = self.insert_columns(named, columns)?;
        let target = InsertTarget {
            relation: Arc::clone(&named.table),
            named: named.clone(),
            columns: given,
            parts,
            explicit: !columns.is_empty(),
            override_kind,
        };
        let defaults = self.defaults_of(&named.table)?;
        if values.is_empty() {
            return Ok(defaults);
        }
        self.set_place(Place::Values)?;
        self.insert_row(&target, values, defaults)
    }

    fn insert_select(
        &mut self,
        target: &InsertTarget<'_>,
        select: &protobuf::SelectStmt,
        values: &mut [Option<Expr>],
    ) -> Result<(ModifySource, usize)> {
        let type_of = |column: &Option<usize>| match column {
            Some(column) => target.relation.columns[*column].column_type(),
            None => ColumnType::new(TypeOid::TEXT),
        };
        let mut wanted: Vec<ColumnType> = target.columns.iter().map(type_of).collect();
        for (wanted, part) in wanted.iter_mut().zip(&target.parts) {
            let slice =
                |step: &Node| matches!(&step.node, Some(NodeEnum::AIndices(i)) if i.is_slice);
            if let Some(field) = self.type_of_field(wanted.oid, part) {
                *wanted = field;
            } else if let Some(element) = element_of(wanted.oid)
                && !part.is_empty()
                && !part.iter().any(slice)
            {
                wanted.oid = element;
            }
        }
        self.nested += 1;
        let query = self.query(select, Some(&wanted), true);
        self.nested -= 1;
        let query = query?;
        self.check_count(query.columns.len(), target)?;
        for (number, output) in query.columns.iter().enumerate() {
            let value = Expr::slot(number, output.column_type);
            let column = target.column(number)?;
            let placed = values[column].take();
            values[column] = self.place(target, number, value, -1, placed.as_ref())?.or(placed);
        }
        let width = query.width();
        Ok((ModifySource::Query(Box::new(query)), width))
    }
}
