//! INSERT, UPDATE and DELETE.

use std::sync::Arc;

use niwaki_catalog::{Identity, Relation, TriggerEvent};
use niwaki_types::{ColumnType, Datum, TypeOid};
use pg_query::protobuf::{self, OnConflictAction, OverridingKind};
use pg_query::{Node, NodeEnum};

use super::conflict::EXCLUDED;
use super::scope::{Place, Scope};
use super::targets::{Target, column_info};
use super::trigger::FiredBy;
use super::write_view::WriteTarget;
use super::{Analyzer, table_expression};
use crate::context::ColumnInfo;
use crate::error::{Result, SqlError};
use crate::expr::{Expr, ExprKind};
use crate::plan::{ConflictPlan, ModifyKind, split_conjuncts};
use crate::query::{From, ItemKind, JoinTree, ModifyQuery, ModifySource};
use crate::types::element_of;

/// The columns that an INSERT gives values for, as [`InsertTarget`] has them, and the subscripts behind each.
type GivenColumns<'n> = (Vec<Option<usize>>, Vec<&'n [Node]>);

/// Whether a new value is the old one with another part.
fn is_part(value: &Expr) -> bool {
    match &value.kind {
        ExprKind::AssignPart { .. } | ExprKind::AssignField { .. } => true,
        ExprKind::Domain { argument, .. } => is_part(argument),
        _ => false,
    }
}

/// Why a part of a column cannot be set to DEFAULT.
fn default_of_part(part: &[Node]) -> &'static str {
    match part.first().and_then(|step| step.node.as_ref()) {
        Some(NodeEnum::AIndices(_)) => "cannot set an array element to DEFAULT",
        _ => "cannot set a subfield to DEFAULT",
    }
}

/// Where the rows of an INSERT go.
struct InsertTarget<'s> {
    relation: Arc<Relation>,
    /// What the statement names.
    named: WriteTarget,
    /// The columns that values are given for, in the order of the values; `None` for one of a view that cannot be
    /// written.
    columns: Vec<Option<usize>>,
    /// The subscripts behind each of them.
    parts: Vec<&'s [Node]>,
    /// Whether the statement lists them.
    explicit: bool,
    override_kind: OverridingKind,
}

impl InsertTarget<'_> {
    /// The column that the value at a place is for.
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

/// The parts of an UPDATE or DELETE.
struct Change<'s> {
    kind: ModifyKind,
    with: Option<&'s protobuf::WithClause>,
    relation: Option<&'s protobuf::RangeVar>,
    from: &'s [Node],
    /// What UPDATE assigns.
    assignments: &'s [Node],
    condition: Option<&'s Node>,
    returning: Option<&'s protobuf::ReturningClause>,
}

impl Analyzer<'_> {
    pub(super) fn insert(
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
        let own = named.named().name.as_str();
        let alias = var.alias.as_ref().map_or(own, |a| a.aliasname.as_str());
        let mut scope = Scope::default();
        scope.used.resize(start, false);
        scope.add_relation(&relation, alias, None);
        if let (Some(view), Some(item)) = (&named.view, scope.items.last_mut()) {
            view.show_in(item);
        }
        self.scopes.push(scope);
        let output = self.insert_output(insert, &relation, alias);
        let input_width = self.scopes.pop().map_or(0, |scope| scope.width());
        let (conflict, returning, infos) = output?;
        let name = match (&named.view, &var.alias) {
            // The table goes by its own name in plans.
            (Some(_), None) => relation.name.clone(),
            _ => alias.to_owned(),
        };
        let kind = ModifyKind::Insert;
        let mut query = self.modify(kind, relation, name, source, start, values, returning)?;
        let mut changes = vec![FiredBy { event: TriggerEvent::Insert, values: &[] }];
        let update = conflict.as_ref().and_then(|conflict| conflict.update.as_ref());
        let updates = update.map(|update| update.values.as_slice());
        changes.extend(updates.map(|values| FiredBy { event: TriggerEvent::Update, values }));
        query.triggers = self.row_triggers(&query.relation, &changes, &query.generated)?;
        if let Some(conflict) = &conflict {
            self.leaf_arbiters(&query.relation, conflict, &mut query.leaves)?;
        }
        let view_checks = named.view.map_or_else(Vec::new, |view| view.checks.clone());
        Ok((ModifyQuery { conflict, width: input_width, view_checks, ..query }, infos))
    }

    /// ON CONFLICT and RETURNING, in a scope that has the table.
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
                    // It has no system columns.
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
        Ok((conflict, returning, infos))
    }

    /// The columns that values are given for.
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
            // Several parts of one column may be given, but not a part and the whole.
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

    fn target_column(
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

    fn too_many_values(&self, at: i32) -> SqlError {
        self.error("42601", "INSERT has more expressions than target columns", at)
    }

    fn check_count(&self, given: usize, target: &InsertTarget<'_>) -> Result<()> {
        if given > target.columns.len() {
            return Err(self.too_many_values(-1));
        }
        // Without a column list the missing ones at the end take their defaults.
        if target.explicit && given < target.columns.len() {
            return Err(self.error("42601", "INSERT has more target columns than expressions", -1));
        }
        Ok(())
    }

    /// A value as its column gets it; `None` if OVERRIDING USER VALUE says to ignore it. `placed` is what the column has so
    /// far, of which a part may be given. A value for an identity column that is always generated is refused.
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
        // Where nothing was given before, parts are put into NULL, not into the default.
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

    /// Complete rows, defaults filled in.
    fn insert_rows(
        &mut self,
        target: &InsertTarget<'_>,
        select: &protobuf::SelectStmt,
    ) -> Result<Vec<Vec<Expr>>> {
        let relation = &target.relation;
        let mut defaults = Vec::with_capacity(relation.columns.len());
        for number in 0..relation.columns.len() {
            defaults.push(self.default_of(relation, number)?);
        }
        let mut rows = Vec::with_capacity(select.values_lists.len());
        let mut first_length = None;
        for node in &select.values_lists {
            let Some(NodeEnum::List(list)) = &node.node else { continue };
            if *first_length.get_or_insert(list.items.len()) != list.items.len() {
                return Err(SqlError::new("42601", "VALUES lists must all be the same length"));
            }
            let mut row = defaults.clone();
            let mut given = Vec::with_capacity(list.items.len());
            for item in &list.items {
                given.push(match &item.node {
                    Some(NodeEnum::SetToDefault(default)) => (None, default.location),
                    _ => {
                        let value = self.expr(item)?;
                        let location = value.location;
                        (Some(value), location)
                    }
                });
            }
            // How many there are comes before whether their types fit.
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
            rows.push(row);
        }
        Ok(rows)
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

    /// What a column gets when nothing is given.
    fn default_of(&mut self, relation: &Relation, column: usize) -> Result<Expr> {
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

    fn returning(
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
    fn modify(
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
            // What a partitioned table says, its partitions say too.
            if !relation.is_partitioned() {
                (generated, checks) = self.row_rules(&relation)?;
            }
            bounds = self.bounds_of(&relation)?;
        }
        let leaves = self.leaf_rules(&relation, kind)?;
        let width = start + relation.columns.len() + super::scope::SYSTEM_COLUMNS.len();
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

    pub(super) fn update(
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

    pub(super) fn delete(
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
        let own = &written.named().name;
        let name = var.alias.as_ref().map_or(own, |a| &a.aliasname).clone();
        let scope = self.scope()?;
        let start = scope.add_relation(relation, &name, None);
        if let (Some(view), Some(item)) = (&written.view, scope.items.last_mut()) {
            view.show_in(item);
        }
        // The table goes by its own name in plans.
        let name = match (&written.view, &var.alias) {
            (Some(_), None) => relation.name.clone(),
            _ => name,
        };
        let target = scope.add_source(ItemKind::Table(Arc::clone(relation)), name.clone(), start);
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
        conditions.extend(self.where_conditions(change.condition)?);
        let (returning, infos) = self.returning(change.returning)?;
        let scope = self.scope()?;
        let items = std::mem::take(&mut scope.sources);
        let width = scope.width();
        let from = From { items, tree: Some(tree), conditions, width, recheck: None };
        let source = ModifySource::From(Box::new(from));
        let relation = Arc::clone(relation);
        let mut query = self.modify(change.kind, relation, name, source, 0, values, returning)?;
        let event = match change.kind {
            ModifyKind::Update => TriggerEvent::Update,
            _ => TriggerEvent::Delete,
        };
        let fired_by = FiredBy { event, values: &query.values };
        query.triggers = self.row_triggers(&query.relation, &[fired_by], &query.generated)?;
        let view_checks = match (&written.view, change.kind) {
            (Some(view), ModifyKind::Update) => view.checks.clone(),
            _ => Vec::new(),
        };
        Ok((ModifyQuery { width, view_checks, ..query }, infos))
    }

    /// The new values of the columns that UPDATE sets.
    pub(super) fn assignments(
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
            let is_default =
                matches!(value.and_then(|v| v.node.as_ref()), Some(NodeEnum::SetToDefault(_)));
            let always = definition.identity == Some(Identity::Always);
            if (always || definition.generated) && !is_default {
                let name = &definition.name;
                let what = match always {
                    true => "an identity column defined as GENERATED ALWAYS",
                    false => "a generated column",
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
                let value = self.expr_of(value)?;
                let definition = (definition.column_type(), definition.name.as_str());
                self.assigned_part(old, part, value, definition, target.location)?
            } else if is_default && written.view.is_some() && !always && !definition.generated {
                // The view's column has no default of its own.
                Expr::constant(Datum::Null, definition.column_type().oid, -1)
            } else if is_default {
                self.default_of(relation, column)?
            } else {
                let expr = self.expr_of(value)?;
                self.assign(expr, definition.column_type(), &definition.name, target.location)?
            });
        }
        Ok(values)
    }

    /// What a column of the table that is updated, the scope's first item, has before.
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

    /// What one column gets of `SET column = …` or `SET (column, …) = (…)`.
    fn assigned<'n>(&self, value: Option<&'n Node>) -> Result<Option<&'n Node>> {
        let Some(NodeEnum::MultiAssignRef(part)) = value.and_then(|node| node.node.as_ref()) else {
            return Ok(value);
        };
        let source = part.source.as_ref().and_then(|node| node.node.as_ref());
        let Some(NodeEnum::RowExpr(row)) = source else {
            return Err(SqlError::unsupported(
                "assignment of several columns at once from something else than a row constructor",
            ));
        };
        if usize::try_from(part.ncolumns) != Ok(row.args.len()) {
            let message = "number of columns does not match number of values";
            return Err(self.error("42601", message, row.location));
        }
        let column = usize::try_from(part.colno - 1).ok();
        Ok(column.and_then(|column| row.args.get(column)))
    }

    pub(super) fn where_conditions(&mut self, node: Option<&Node>) -> Result<Vec<Expr>> {
        self.set_place(Place::Where)?;
        let mut conditions = Vec::new();
        if let Some(node) = node {
            let condition = self.expr(node)?;
            split_conjuncts(self.to_bool(condition, "WHERE")?, &mut conditions);
        }
        Ok(conditions)
    }
}
