//! CREATE TYPE, ALTER TYPE, DROP TYPE.

use std::sync::Arc;

use niwaki_catalog::{CatalogState, Oid, Relation, RelationKind, TypeDefinition, TypeKind};
use niwaki_sql::utility::{Name, Persistence, TypeStatement, UserTypeName};
use niwaki_sql::{SqlError, walk};
use niwaki_txn::TableLockMode;
use niwaki_types::{EnumType, LabelPlace, TypeOid};
use pg_query::NodeEnum;

use super::depend::{Dependent, Object};
use super::{Definer, no_transaction};
use crate::Result;

impl Definer<'_> {
    pub(super) fn type_statement(&mut self, statement: &TypeStatement) -> Result<&'static str> {
        match statement {
            TypeStatement::CreateEnum { name, labels } => self.create_enum(name, labels)?,
            TypeStatement::AddValue { name, label, if_not_exists, neighbour } => {
                let place = match neighbour {
                    None => LabelPlace::Last,
                    Some((name, false)) => LabelPlace::Before(name),
                    Some((name, true)) => LabelPlace::After(name),
                };
                self.add_value(name, label, *if_not_exists, place)?;
            }
            TypeStatement::RenameValue { name, from, to } => self.rename_value(name, from, to)?,
            TypeStatement::Drop { names, if_exists, cascade } => {
                self.drop_types(names, *if_exists, *cascade)?;
            }
        }
        Ok(statement.tag())
    }

    fn create_enum(&mut self, name: &Name, labels: &[String]) -> Result<()> {
        let schema = self.creation_schema(name, Persistence::Permanent)?;
        let state = self.state();
        if state.temporary_schema() == Some(schema) {
            return Err(SqlError::unsupported("a type in the temporary schema"));
        }
        let taken = state.lookup_type(schema, &name.name).is_some()
            || state.lookup(schema, &name.name).is_some();
        if taken {
            let message = format!("type \"{}\" already exists", name.name);
            return Err(SqlError::new("42710", message));
        }
        let oid = self.session.new_oid();
        if TypeOid::of_enum(oid.0).user_number() != Some(oid.0) {
            return Err(SqlError::new("54000", "no number is left for another type"));
        }
        let mut definition = TypeDefinition {
            oid,
            schema,
            name: name.name.clone(),
            kind: TypeKind::Enum(Vec::new()),
        };
        definition.set_labels(&EnumType::new(&name.name, labels)?);
        let transaction = self.session.transaction.as_ref().ok_or_else(no_transaction)?;
        Ok(self.session.catalog.create_type(transaction, definition)?)
    }

    /// Finds a type and keeps others from changing it; what it is then.
    fn lock_type(&mut self, name: &Name, mode: TableLockMode) -> Result<Arc<TypeDefinition>> {
        loop {
            let found = self.find_type(name).ok_or_else(|| undefined(name))?;
            self.lock(found.oid, mode)?;
            // Whoever changed it meanwhile has published that before the lock was let go.
            match self.find_type(name) {
                Some(now) if now.oid == found.oid => return Ok(now),
                _ => {}
            }
        }
    }

    fn find_type(&mut self, name: &Name) -> Option<Arc<TypeDefinition>> {
        let path = self.session.search_path();
        self.state().resolve_type(&path, name.schema.as_deref(), &name.name).cloned()
    }

    /// The type of a column whose definition names a user's type, which stays as long as this transaction runs.
    pub(super) fn column_type_of(&mut self, wanted: &UserTypeName) -> Result<TypeOid> {
        let found = self.lock_type(&wanted.name, TableLockMode::AccessShare);
        let array = |found: &TypeDefinition| found.type_oid().array();
        match found {
            Ok(found) if !wanted.array => Ok(found.type_oid()),
            Ok(found) => array(&found).ok_or_else(|| SqlError::unsupported("arrays of this type")),
            Err(error) if wanted.array && error.sqlstate == "42704" => {
                let name = format!("{}[]", wanted.name.name);
                Err(undefined(&Name { name, ..wanted.name.clone() }))
            }
            Err(error) => Err(error),
        }
    }

    fn update_type(&mut self, mut definition: TypeDefinition, labels: &EnumType) -> Result<()> {
        definition.set_labels(labels);
        let transaction = self.session.transaction.as_ref().ok_or_else(no_transaction)?;
        Ok(self.session.catalog.update_type(transaction, definition)?)
    }

    fn add_value(
        &mut self,
        name: &Name,
        label: &str,
        if_not_exists: bool,
        place: LabelPlace<'_>,
    ) -> Result<()> {
        let definition = self.lock_type(name, TableLockMode::AccessExclusive)?;
        let mut labels = definition.enum_type(definition.name.clone());
        if if_not_exists && labels.place(label).is_some() {
            let message = format!("enum label \"{label}\" already exists, skipping");
            self.session.notice(self.out, "42710", message);
            return Ok(());
        }
        labels.add(label, place)?;
        self.update_type(TypeDefinition::clone(&definition), &labels)
    }

    fn rename_value(&mut self, name: &Name, from: &str, to: &str) -> Result<()> {
        let definition = self.lock_type(name, TableLockMode::AccessExclusive)?;
        let mut labels = definition.enum_type(definition.name.clone());
        let found = labels.place(from).ok_or_else(|| {
            SqlError::new("22023", format!("\"{from}\" is not an existing enum label"))
        })?;
        if labels.place(to).is_some() {
            return Err(SqlError::new("42710", format!("enum label \"{to}\" already exists")));
        }
        // Defaults and checks are stored as text, in which the label would not be found any more.
        let state = self.state();
        let says = |node: &NodeEnum| {
            use pg_query::protobuf::a_const::Val;
            let NodeEnum::AConst(constant) = node else { return false };
            matches!(&constant.val, Some(Val::Sval(text)) if text.sval.contains(from))
        };
        if let Some(relation) = expression_user(&state, says)? {
            return Err(SqlError::unsupported(format!(
                "RENAME VALUE of a label that a default or check of table {} says",
                relation.name
            )));
        }
        // So are views.
        let said = format!("'{}'", from.replace('\'', "''"));
        let says = |view: &&Arc<Relation>| {
            view.query.as_ref().is_some_and(|query| query.text.contains(&said))
        };
        if let Some(view) = state.relations().find(says) {
            return Err(SqlError::unsupported(format!(
                "RENAME VALUE of a label that view {} says",
                view.name
            )));
        }
        if let Some(label) = labels.labels.get_mut(found) {
            label.name = Arc::from(to);
        }
        self.update_type(TypeDefinition::clone(&definition), &labels)
    }

    fn drop_types(&mut self, names: &[Name], if_exists: bool, cascade: bool) -> Result<()> {
        let mut types: Vec<Arc<TypeDefinition>> = Vec::new();
        for name in names {
            if self.find_type(name).is_none() {
                if name.schema.as_deref().is_none_or(|schema| schema == "pg_catalog")
                    && let Some(oid) = niwaki_sql::types::type_by_name(&name.name)
                {
                    let shown = niwaki_sql::types::format_oid(oid);
                    return Err(SqlError::new(
                        "2BP01",
                        format!(
                            "cannot drop type {shown} because it is required by the database system"
                        ),
                    ));
                }
                if if_exists {
                    self.notice(format!("type \"{name}\" does not exist, skipping"));
                    continue;
                }
            }
            types.push(self.lock_type(name, TableLockMode::AccessExclusive)?);
        }
        for definition in types {
            self.drop_type(&definition, cascade)?;
        }
        Ok(())
    }

    /// Views that name a type, or have columns of it, and what depends on them.
    fn views_with_type(&mut self, oid: Oid, on: &str) -> Result<Vec<Dependent>> {
        let state = self.state();
        let has = |view: &&Arc<Relation>| {
            view.query.as_ref().is_some_and(|query| query.types.contains(&oid))
        };
        let views = state.relations().filter(has).map(|view| Object::View(view.oid)).collect();
        self.dependents_on(views, on)
    }

    /// Removes a locked type, and with CASCADE the columns of it.
    pub(super) fn drop_type(&mut self, definition: &TypeDefinition, cascade: bool) -> Result<()> {
        let oid = definition.oid;
        let state = self.state();
        if state.user_type(oid).is_none() {
            // It was named twice.
            return Ok(());
        }
        let shown = state.types_of_values().shown(definition.type_oid()).unwrap_or_default();
        let columns = columns_of_type(&state, oid);
        let kind = |array: bool| if array { "[]" } else { "" };
        let readers = self.views_with_type(oid, &format!("type {shown}"))?;
        if columns.is_empty() {
            self.drop_dependents(&format!("type {shown}"), readers, cascade)?;
        } else if !cascade {
            let mut details: Vec<String> = columns
                .iter()
                .map(|(table, column, array)| {
                    let (table, kind) = (&table.name, kind(*array));
                    format!("column {column} of table {table} depends on type {shown}{kind}")
                })
                .collect();
            details.extend(self.lines(&readers)?);
            return Err(SqlError::new(
                "2BP01",
                format!("cannot drop type {shown} because other objects depend on it"),
            )
            .with_detail(details.join("\n"))
            .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        match columns.as_slice() {
            [] => {}
            [(table, column, _)] => {
                self.notice(format!("drop cascades to column {column} of table {}", table.name));
            }
            several => self.notice(format!("drop cascades to {} other objects", several.len())),
        }
        for (table, column, _) in &columns {
            self.lock(table.oid, TableLockMode::AccessExclusive)?;
            let table = self.current(table.oid)?;
            self.drop_column(&table, column, true, true)?;
        }
        // Those that read none of the columns.
        let readers = self.views_with_type(oid, &format!("type {shown}"))?;
        self.drop_dependents(&format!("type {shown}"), readers, true)?;
        // A cast to the type in what is stored as text.
        let names = |node: &NodeEnum| {
            let NodeEnum::TypeName(name) = node else { return false };
            let last = name.names.last().and_then(|node| node.node.as_ref());
            matches!(last, Some(NodeEnum::String(last)) if last.sval == definition.name)
        };
        if let Some(relation) = expression_user(&self.state(), names)? {
            return Err(SqlError::unsupported(format!(
                "DROP of a type that a default or check of table {} names",
                relation.name
            )));
        }
        let transaction = self.session.transaction.as_ref().ok_or_else(no_transaction)?;
        Ok(self.session.catalog.remove_type(transaction, oid)?)
    }
}

/// The columns of a type, or of arrays of it (true), by tables and positions.
fn columns_of_type(state: &CatalogState, oid: Oid) -> Vec<(Arc<Relation>, String, bool)> {
    let mut tables: Vec<&Arc<Relation>> =
        state.relations().filter(|relation| relation.kind == RelationKind::Table).collect();
    tables.sort_by_key(|table| table.oid);
    let mut columns = Vec::new();
    for table in tables {
        for (_, column) in table.visible_columns() {
            let type_oid = TypeOid(column.type_oid);
            if type_oid.user_number() == Some(oid.0) {
                let array = type_oid.element().is_some();
                columns.push((Arc::clone(table), column.name.clone(), array));
            }
        }
    }
    columns
}

/// A table with a default or check of which some node satisfies `test`.
fn expression_user(
    state: &CatalogState,
    test: impl Fn(&NodeEnum) -> bool,
) -> Result<Option<Arc<Relation>>> {
    for relation in state.relations() {
        let defaults = relation.visible_columns().filter_map(|(_, c)| c.default.as_deref());
        let checks = relation.checks.iter().map(|check| check.expression.as_str());
        let mut found = false;
        for text in defaults.chain(checks) {
            walk::each_node(text, |node| found |= test(node))?;
        }
        if found {
            return Ok(Some(Arc::clone(relation)));
        }
    }
    Ok(None)
}

fn undefined(name: &Name) -> SqlError {
    SqlError::new("42704", format!("type \"{name}\" does not exist")).with_position(name.position)
}
