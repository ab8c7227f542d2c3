//! Composite values: row constructors, whole-row references, fields, and assignments to fields.
//!
//! The fields of a row constructed or read here are known expressions ([`ExprKind::Row`]). So
//! selecting a field returns the field's expression. For other values, the type determines the
//! fields.

use std::sync::Arc;

use niwaki_expr::context::RecordFields;
use niwaki_expr::expr::{Expr, ExprKind, RowValue, shows_names};
use niwaki_functions::functions::compare_function;
use niwaki_parse::error::{Result, SqlError};
use niwaki_parse::types::{CastContext, element_of};
use niwaki_types::{ColumnType, TypeOid};
use pg_query::protobuf::{AIndirection, RowExpr};
use pg_query::{Node, NodeEnum};

use crate::analyze::Analyzer;
use crate::analyze::names::parts::names_of;
use crate::analyze::names::scope::{Item, ItemColumn, Place, system_column};

/// Most fields of a row, the same as for the columns of a result (PostgreSQL's limit).
pub(crate) const FIELDS_MAX: usize = 1664;

impl Analyzer<'_> {
    /// Analyzes `ROW(…)`. An `x.*` inside stands for all columns of `x`.
    pub(crate) fn row_constructor(&mut self, row: &RowExpr) -> Result<Expr> {
        let fields = self.listed(&row.args)?;
        self.refuse_long_row(fields.len(), row.location)?;
        self.refuse_names_in(&fields, row.location)?;
        let value = RowValue { fields, names: None, of_item: None, present: None };
        Ok(Expr::new(ExprKind::Row(Box::new(value)), TypeOid::RECORD, row.location))
    }

    /// Refuses a row with more fields than [`FIELDS_MAX`] (`54011`).
    pub(crate) fn refuse_long_row(&self, entries: usize, location: i32) -> Result<()> {
        if entries > FIELDS_MAX {
            let message = format!("ROW expressions can have at most {FIELDS_MAX} entries");
            return Err(self.error("54011", message, location));
        }
        Ok(())
    }

    /// Analyzes a list of expressions, in which `….*` stands for all columns or fields.
    pub(crate) fn listed(&mut self, nodes: &[Node]) -> Result<Vec<Expr>> {
        let mut fields = Vec::with_capacity(nodes.len());
        for node in nodes {
            match &node.node {
                Some(NodeEnum::ColumnRef(column)) if is_star(node) => {
                    let mut targets = Vec::new();
                    self.star(column, &mut targets)?;
                    fields.extend(targets.into_iter().map(|target| target.expr));
                }
                Some(NodeEnum::AIndirection(indirection)) if is_star(node) => {
                    let steps = indirection.indirection.split_last().map_or(&[][..], |(_, s)| s);
                    let all = self.all_fields(indirection, steps)?;
                    fields.extend(all.into_iter().map(|(_, field)| field));
                }
                _ => fields.push(self.expr(node)?),
            }
        }
        Ok(fields)
    }

    /// Refuses fields whose numbers are shown as object names: the names are not available when the
    /// text of a row is built.
    fn refuse_names_in(&self, fields: &[Expr], location: i32) -> Result<()> {
        match fields.iter().find(|field| shows_names(field.ty)) {
            None => Ok(()),
            Some(field) => {
                let what = format!("a field of type {} in a row", self.format_oid(field.ty));
                Err(self.unsupported(what, location))
            }
        }
    }

    /// Returns names and types of the fields of a composite type; `None` for any other type.
    ///
    /// # Errors
    /// `0A000` if the catalog is not available: in expressions of indexes and generated columns.
    pub(crate) fn fields_of(
        &self,
        oid: TypeOid,
        location: i32,
    ) -> Result<Option<Vec<(String, ColumnType)>>> {
        let found = self.context.catalog.fields_of(oid);
        if found.is_none() && oid.is_composite() {
            let what = "fields of a composite value in an index or a generated column";
            return Err(self.unsupported(what, location));
        }
        Ok(found)
    }

    /// Returns whether the analyzed expression is stored as text. Such a text would not find a
    /// renamed relation.
    fn is_stored(&self) -> bool {
        let place = self.scopes.last().map(|scope| scope.place).unwrap_or_default();
        matches!(
            place,
            Place::IndexExpression
                | Place::IndexPredicate
                | Place::Generation
                | Place::Default
                | Place::Check
        )
    }

    /// Returns the row type of the relation of this name.
    pub(crate) fn row_type_named(
        &self,
        schema: Option<&str>,
        name: &str,
        location: i32,
    ) -> Result<Option<ColumnType>> {
        let Ok(relation) = self.context.catalog.resolve(self.context.path, schema, name) else {
            return Ok(None);
        };
        if !relation.kind.has_row_type() {
            return Ok(None);
        }
        if self.is_stored() || self.is_of_view() || self.is_of_expression() {
            return Err(
                self.unsupported("the type of a relation's rows in what is stored", location)
            );
        }
        Ok(Some(ColumnType::new(TypeOid::of_composite(relation.oid.0))))
    }

    /// Returns the row of a FROM item, as an expression of the query level that has the item.
    pub(crate) fn whole_row(&self, item: &Item, location: i32) -> Result<Expr> {
        if self.is_stored() {
            return Err(self.unsupported("a whole row in a stored expression", location));
        }
        let shown = item.columns.iter().filter(|column| !column.hidden);
        let fields: Vec<Expr> = shown.clone().map(|column| column.expr.clone()).collect();
        self.refuse_names_in(&fields, location)?;
        let relation = item.relation.as_ref().or(item.view.as_ref());
        if relation.is_some() && self.is_of_view() {
            return Err(self.unsupported("a whole row of a table or view in a view", location));
        }
        let mut present = None;
        if item.filled {
            present = system_column(item, "ctid");
            if present.is_none() {
                let what = "the row of a query, view or function that an outer join may make up";
                return Err(self.unsupported(what, location));
            }
        }
        let labels: Vec<Arc<str>> =
            shown.clone().map(|column| Arc::from(column.name.as_str())).collect();
        // A table's row has the field names of its type, even if an alias renames the columns.
        let (ty, names): (_, Vec<Arc<str>>) = match relation {
            Some(relation) => (
                TypeOid::of_composite(relation.oid.0),
                relation.visible_columns().map(|(_, c)| Arc::from(c.name.as_str())).collect(),
            ),
            None => (TypeOid::RECORD, labels.clone()),
        };
        if names.len() != fields.len() {
            return Err(self.unsupported("a whole row with columns of its own", location));
        }
        let value = RowValue {
            fields,
            names: Some(Arc::from(names)),
            of_item: Some((Arc::from(item.name.as_str()), Arc::from(labels))),
            present,
        };
        Ok(Expr::new(ExprKind::Row(Box::new(value)), ty, location))
    }

    /// Analyzes `(value).name`.
    pub(crate) fn field(&self, value: Expr, name: &str) -> Result<Expr> {
        let location = value.location;
        if let ExprKind::Row(row) = &value.kind
            && let Some((item, names)) = &row.of_item
        {
            let at = names.iter().position(|known| &**known == name).ok_or_else(|| {
                let message = format!("column {item}.{name} does not exist");
                self.error("42703", message, location)
            })?;
            let field = field_of_row(value, at);
            return Ok(Expr { derived: self.of_domain(field.derived, &field), ..field });
        }
        if let ExprKind::Row(row) = &value.kind
            && value.ty == TypeOid::RECORD
        {
            let found = match &row.names {
                Some(names) => names.iter().position(|known| &**known == name),
                None => (0..row.fields.len()).find(|at| format!("f{}", at + 1) == name),
            };
            return if let Some(at) = found {
                Ok(field_of_row(value, at))
            } else {
                let message = format!("could not identify column \"{name}\" in record data type");
                Err(self.error("42703", message, location))
            };
        }
        if let Some(fields) = self.record_fields(&value) {
            return if let Some(at) = fields.iter().position(|(known, _)| &**known == name) {
                Ok(self.taken_field(value, at, name, fields[at].1))
            } else {
                let message = format!("could not identify column \"{name}\" in record data type");
                Err(self.error("42703", message, location))
            };
        }
        let Some(fields) = self.fields_of(value.ty, location)? else {
            let shown = self.format_oid(value.ty);
            if value.ty == TypeOid::RECORD {
                return Err(
                    self.unsupported("a field of a record whose fields are not known", location)
                );
            }
            let message = format!(
                "column notation .{name} applied to type {shown}, which is not a composite type"
            );
            return Err(self.error("42809", message, location));
        };
        if let Some(at) = fields.iter().position(|(known, _)| known == name) {
            Ok(self.taken_field(value, at, name, fields[at].1))
        } else {
            let shown = self.format_oid(value.ty);
            let message = format!("column \"{name}\" not found in data type {shown}");
            Err(self.error("42703", message, location))
        }
    }

    /// Returns whether a value is a row with a field of this name.
    pub(crate) fn has_field(&self, value: &Expr, name: &str) -> Result<bool> {
        if let Some(fields) = self.record_fields(value) {
            return Ok(fields.iter().any(|(known, _)| &**known == name));
        }
        if !value.ty.is_composite() {
            return Ok(false);
        }
        let fields = self.fields_of(value.ty, value.location)?;
        Ok(fields.is_some_and(|all| all.iter().any(|(known, _)| known == name)))
    }

    /// Returns the fields of a `record` if the query determines them. That holds for row
    /// constructors, for the rows of functions, and for columns of nested queries that contain one
    /// of these.
    pub(crate) fn record_fields(&self, value: &Expr) -> Option<RecordFields> {
        if value.ty != TypeOid::RECORD {
            return None;
        }
        match &value.kind {
            ExprKind::SetReturning(number) => self.scopes.last()?.sets.get(*number)?.fields(),
            ExprKind::UserCall { function, .. } => function.fields.clone(),
            ExprKind::Row(row) => {
                let named = |(at, field): (usize, &Expr)| {
                    let name = row.names.as_ref().and_then(|names| names.get(at).cloned());
                    let name = name.unwrap_or_else(|| Arc::from(format!("f{}", at + 1)));
                    (name, field.column_type())
                };
                Some(row.fields.iter().enumerate().map(named).collect())
            }
            ExprKind::Slot { depth, slot } => {
                let scope = self.scopes.iter().rev().nth(*depth)?;
                let columns = scope.items.iter().flat_map(|item| &item.columns);
                let at = |column: &ItemColumn| match column.expr.kind {
                    ExprKind::Slot { slot, .. } => Some(slot),
                    _ => None,
                };
                let mut found = columns.filter(|column| at(column) == Some(*slot));
                found.next()?.fields.clone()
            }
            _ => None,
        }
    }

    /// Analyzes `(value).*` or `(value).field.*`: returns all fields with their names. `steps` are
    /// the steps before the star.
    pub(crate) fn all_fields(
        &mut self,
        indirection: &AIndirection,
        steps: &[Node],
    ) -> Result<Vec<(String, Expr)>> {
        let value = self.indirection(indirection, steps)?;
        let location = value.location;
        if let ExprKind::Row(row) = &value.kind {
            let of_type = self.fields_of(value.ty, location)?;
            let name = |at: usize| match (&row.of_item, &of_type) {
                (Some((_, labels)), _) => labels.get(at).map(ToString::to_string),
                (None, Some(fields)) => fields.get(at).map(|(name, _)| name.clone()),
                (None, None) => Some(format!("f{}", at + 1)),
            };
            let count = row.fields.len();
            let names: Vec<String> = (0..count).map(|at| name(at).unwrap_or_default()).collect();
            let fields = (0..count).map(|at| field_of_row(value.clone(), at));
            return Ok(names.into_iter().zip(fields).collect());
        }
        if let Some(fields) = self.record_fields(&value) {
            let all = fields.iter().enumerate().map(|(at, (name, column))| {
                (name.to_string(), self.taken_field(value.clone(), at, name, *column))
            });
            return Ok(all.collect());
        }
        let Some(fields) = self.fields_of(value.ty, location)? else {
            if value.ty == TypeOid::RECORD {
                return Err(
                    self.unsupported("all fields of a record whose fields are not known", location)
                );
            }
            let message = format!("type {} is not composite", self.format_oid(value.ty));
            return Err(self.error("42809", message, location));
        };
        let all = fields.into_iter().enumerate().map(|(at, (name, column))| {
            let field = self.taken_field(value.clone(), at, &name, column);
            (name, field)
        });
        Ok(all.collect())
    }

    /// Converts a row constructor to a composite type: each field is converted by itself.
    pub(crate) fn row_as(&mut self, row: Expr, to: TypeOid, context: CastContext) -> Result<Expr> {
        let location = row.location;
        let shown = self.format_oid(to);
        let refused = |this: &Self| {
            this.error("42846", format!("cannot cast type record to {shown}"), location)
        };
        let fields = self.fields_of(to, location)?;
        let (ExprKind::Row(value), Some(wanted)) = (row.kind, fields) else {
            return Err(refused(self));
        };
        if value.fields.len() != wanted.len() {
            let fewer = value.fields.len() < wanted.len();
            let detail =
                if fewer { "Input has too few columns." } else { "Input has too many columns." };
            return Err(refused(self).with_detail(detail));
        }
        let mut fields = Vec::with_capacity(wanted.len());
        for (number, (field, (_, column))) in value.fields.into_iter().zip(wanted).enumerate() {
            let from = field.declared();
            let place = if field.location >= 0 { field.location } else { location };
            let Some(field) = self.coerce(field, column.oid, context)? else {
                let detail = format!(
                    "Cannot cast type {} to {} in column {}.",
                    self.format_oid(from),
                    self.format_oid(column.declared()),
                    number + 1
                );
                return Err(self
                    .error("42846", format!("cannot cast type record to {shown}"), place)
                    .with_detail(detail));
            };
            let explicit = context == CastContext::Explicit;
            let field = Self::with_typmod(field, column.typmod, explicit);
            let field = self.as_domain(field, column.domain)?;
            let derived = self.collation_of_field(to, number, &field);
            fields.push(Expr { derived, ..field });
        }
        let value = RowValue { fields, names: None, of_item: None, present: value.present };
        Ok(Expr::new(ExprKind::Row(Box::new(value)), to, location))
    }

    /// Returns the new value of a column when a field is assigned: `old` with `value` at the place
    /// that `steps` name.
    pub(crate) fn assigned_field(
        &mut self,
        old: Expr,
        steps: &[Node],
        value: Expr,
        column: (ColumnType, &str),
        location: i32,
    ) -> Result<Expr> {
        let (of, whole) = column;
        if steps.iter().any(|step| matches!(step.node, Some(NodeEnum::AIndices(_)))) {
            return Err(self.unsupported("assignment to a part of a field of a column", location));
        }
        let names = names_of(steps);
        let Some((name, inner)) = names.split_first() else {
            return Err(SqlError::internal("an assignment to no field"));
        };
        let cannot =
            |why| format!("cannot assign to field \"{name}\" of column \"{whole}\" because {why}");
        let Some(fields) = self.fields_of(of.oid, location)? else {
            let why =
                format!("its type {} is not a composite type", self.format_oid(of.declared()));
            return Err(self.error("42804", cannot(why), location));
        };
        let Some(at) = fields.iter().position(|(known, _)| known == name) else {
            let shown = self.format_oid(of.oid);
            let why = format!("there is no such column in data type {shown}");
            return Err(self.error("42703", cannot(why), location));
        };
        let target = fields[at].1;
        let value = if inner.is_empty() {
            self.value_of_field(value, target, name, location)?
        } else {
            let inside = self.taken_field(old.clone(), at, name, target);
            let rest = steps.get(1..).unwrap_or_default();
            self.assigned_field(inside, rest, value, (target, name), location)?
        };
        let kind = ExprKind::AssignField {
            record: Box::new(old),
            field: at,
            name: Arc::from(*name),
            kinds: fields.iter().map(|(_, column)| column.oid).collect(),
            value: Box::new(value),
        };
        Ok(Expr::new(kind, of.oid, location))
    }

    fn value_of_field(
        &mut self,
        value: Expr,
        field: ColumnType,
        name: &str,
        location: i32,
    ) -> Result<Expr> {
        let (from, place) = (value.declared(), value.location);
        let value = self.coerce(value, field.oid, CastContext::Assignment)?.ok_or_else(|| {
            let message = format!(
                "subfield \"{name}\" is of type {} but expression is of type {}",
                self.format_oid(field.declared()),
                self.format_oid(from)
            );
            self.error("42804", message, if place >= 0 { place } else { location })
                .with_hint("You will need to rewrite or cast the expression.")
        })?;
        let value = Self::with_typmod(value, field.typmod, false);
        self.as_domain(value, field.domain)
    }

    /// Returns the type of the field that `steps` select in a column of a composite type, if they
    /// select one.
    pub(crate) fn type_of_field(&self, column: TypeOid, steps: &[Node]) -> Option<ColumnType> {
        let mut found = None;
        let mut of = column;
        for step in steps {
            let Some(NodeEnum::String(name)) = &step.node else { return None };
            let fields = self.context.catalog.fields_of(of)?;
            let (_, field) = fields.into_iter().find(|(known, _)| *known == name.sval)?;
            of = field.oid;
            found = Some(field);
        }
        found
    }

    /// Returns whether an operator can compare values of an expression. For composite values, it
    /// must compare all fields.
    pub(crate) fn is_ordered(&self, operator: &str, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Row(row) => row.fields.iter().all(|field| self.is_ordered(operator, field)),
            _ => self.is_ordered_type(operator, expr.ty),
        }
    }

    pub(crate) fn is_ordered_type(&self, operator: &str, ty: TypeOid) -> bool {
        let inner = element_of(ty).unwrap_or(ty);
        if !inner.is_composite() {
            return compare_function(operator, ty).is_some();
        }
        let fields = self.context.catalog.fields_of(inner).unwrap_or_default();
        fields.iter().all(|(_, column)| self.is_ordered_type(operator, column.oid))
    }
}

impl Analyzer<'_> {
    /// Returns a field of a composite value.
    fn taken_field(&self, value: Expr, at: usize, name: &str, column: ColumnType) -> Expr {
        if matches!(value.kind, ExprKind::Row(_)) {
            return field_of_row(value, at);
        }
        let location = value.location;
        let (argument, name) = (Box::new(value), Arc::from(name));
        let kind = ExprKind::Field { argument, field: at, name, kind: column.oid };
        let (typmod, domain) = (column.typmod, column.domain);
        let field = Expr { typmod, domain, ..Expr::new(kind, column.oid, location) };
        let ExprKind::Field { argument, .. } = &field.kind else { return field };
        let derived = self.collation_of_field(argument.ty, at, &field);
        Expr { derived, ..field }
    }
}

/// Returns whether a list element stands for all columns or fields of a value.
pub(crate) fn is_star(node: &Node) -> bool {
    match &node.node {
        Some(NodeEnum::ColumnRef(column)) => ends_in_star(&column.fields),
        Some(NodeEnum::AIndirection(indirection)) => ends_in_star(&indirection.indirection),
        _ => false,
    }
}

fn ends_in_star(nodes: &[Node]) -> bool {
    matches!(nodes.last(), Some(Node { node: Some(NodeEnum::AStar(_)) }))
}

/// Returns a field of a row constructor, as the field's expression. If the row is NULL, so are its
/// fields' expressions.
fn field_of_row(row: Expr, at: usize) -> Expr {
    let location = row.location;
    match row.kind {
        ExprKind::Row(value) => {
            let field = value.fields.into_iter().nth(at);
            field.map_or_else(
                || Expr::constant(niwaki_types::Datum::Null, TypeOid::UNKNOWN, location),
                |field| Expr { location, ..field },
            )
        }
        kind => Expr { kind, ..row },
    }
}
