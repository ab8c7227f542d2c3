//! DROP of relations, schemas and constraints.

use std::sync::Arc;

use niwaki_catalog::{
    CatalogState, ConstraintKind, FunctionDefinition, Oid, Relation, RelationKind, SchemaEntry,
    TypeDefinition,
};
use niwaki_session::parts_of;
use niwaki_sql::utility::{Drop, Name};
use niwaki_sql::{Result, SqlError};
use niwaki_txn::TableLockMode;

use crate::definer::{Definer, refuse_system, table_of, wrong_kind};
use crate::depend::still_needed;

impl Definer<'_> {
    pub(crate) fn drop(&mut self, spec: &Drop) -> Result<&'static str> {
        let Some(kind) = spec.kind else {
            for name in &spec.names {
                self.drop_schema(name, spec.if_exists, spec.cascade)?;
            }
            return Ok("DROP SCHEMA");
        };
        let mut relations: Vec<Arc<Relation>> = Vec::new();
        let refuse = |relation: &Relation| {
            refuse_system(relation)?;
            if relation.kind == kind { Ok(()) } else { Err(wrong_kind(relation, kind)) }
        };
        for name in &spec.names {
            let mode = TableLockMode::AccessExclusive;
            // Refuses before it waits.
            if let Ok(found) = self.session.find_relation(name) {
                refuse(&found)?;
            }
            let found =
                self.lock_owned(name, kind.word(), [mode, mode], spec.if_exists, owner_of)?;
            let Some(relation) = found else { continue };
            refuse(&relation)?;
            self.lock_tree(&relation, mode)?;
            let relation = self.current(relation.oid)?;
            if !relations.iter().any(|r| r.oid == relation.oid) {
                relations.push(relation);
            }
        }
        if kind != RelationKind::Index {
            let going: Vec<Oid> = relations
                .iter()
                .flat_map(|relation| self.tree_of(relation))
                .map(|relation| relation.oid)
                .collect();
            let what = match relations.as_slice() {
                [one] => format!("{} {}", kind.word(), self.shown_name(one)),
                _ => String::new(),
            };
            let find = &|definer: &mut Self| definer.dependents_of(&going);
            self.drop_dependents(&what, find, spec.cascade)?;
        }
        for relation in &relations {
            // A partition may have gone with its table.
            if self.state().relation(relation.oid).is_none() {
                continue;
            }
            match kind {
                RelationKind::Table | RelationKind::MaterializedView => {
                    self.drop_table(relation)?;
                }
                RelationKind::Index => self.drop_index(relation, spec.cascade)?,
                RelationKind::View => self.remove(relation.oid)?,
                RelationKind::Sequence => self.drop_sequence(relation)?,
            }
        }
        Ok(spec.word())
    }

    /// Removes a locked table or materialized view with its indexes and the sequences of its
    /// columns.
    pub(crate) fn drop_table(&mut self, table: &Relation) -> Result<()> {
        self.refuse_use(table, "DROP TABLE")?;
        for member in table.partitions.iter().flat_map(|partitions| &partitions.members) {
            self.lock(member.relation.oid, TableLockMode::AccessExclusive)?;
            let Some(member) = self.state().relation(member.relation.oid).cloned() else {
                continue;
            };
            self.drop_table(&member)?;
        }
        for index in &table.indexes {
            self.remove_with_files(index.oid)?;
        }
        for column in &table.columns {
            if let Some(sequence) = column.sequence.filter(|_| !column.dropped) {
                self.remove_with_files(sequence)?;
            }
        }
        let state = self.state();
        let owned: Vec<Oid> = state
            .in_order()
            .into_iter()
            .filter(|r| {
                let owner = r.sequence.as_ref().and_then(|s| s.owned_by);
                owner.is_some_and(|(t, _)| t == table.oid)
            })
            .map(|r| r.oid)
            .collect();
        for sequence in owned {
            self.remove_with_files(sequence)?;
        }
        self.remove_with_files(table.oid)
    }

    fn drop_index(&mut self, relation: &Relation, cascade: bool) -> Result<()> {
        self.may_drop_index(relation, TableLockMode::AccessExclusive)?;
        let what = format!("index {}", self.shown_name(relation));
        let constraints = self.constraints_below(relation);
        if !constraints.is_empty() && !cascade {
            let line = |constraint: &String| format!("{constraint} depends on {what}");
            let mut lines: Vec<String> = constraints.iter().map(line).collect();
            let dependents = self.references_on(relation)?;
            lines.extend(self.lines(&dependents)?);
            return Err(still_needed(&what, &lines));
        }
        self.drop_dependents(&what, &|definer| definer.references_on(relation), cascade)?;
        self.cascades(&constraints);
        self.remove_index(relation.oid)
    }

    /// Returns the constraints of an index's parts, where the index itself holds none.
    fn constraints_below(&mut self, index: &Relation) -> Vec<String> {
        let mut found = Vec::new();
        for part in parts_of(&self.state(), index.oid) {
            let state = self.state();
            let of = part.index.as_ref().filter(|index| index.constraint.is_some());
            match of.and_then(|index| state.relation(index.table)) {
                Some(table) => {
                    let table = self.shown_name(table);
                    found.push(format!("constraint {} on table {table}", part.name));
                }
                None => found.extend(self.constraints_below(&part)),
            }
        }
        found
    }

    /// Locks the table of an index that is to be dropped, and returns it.
    pub(crate) fn may_drop_index(
        &mut self,
        relation: &Relation,
        mode: TableLockMode,
    ) -> Result<Oid> {
        let Some(index) = relation.index.as_ref() else {
            return Err(wrong_kind(relation, RelationKind::Index));
        };
        self.lock(index.table, mode)?;
        let table = self.current(index.table)?;
        self.refuse_pending(&table, "DROP INDEX")?;
        if let Some(above) = index.part_of {
            return Err(self.needed_above(relation, above)?);
        }
        if table.is_partitioned() && mode != TableLockMode::AccessExclusive {
            let message =
                format!("cannot drop partitioned index \"{}\" concurrently", relation.name);
            return Err(SqlError::new("0A000", message));
        }
        if index.constraint.is_some() {
            let name = &relation.name;
            return Err(SqlError::new(
                "2BP01",
                format!(
                    "cannot drop index {name} because constraint {name} on table {} requires it",
                    table.name
                ),
            )
            .with_hint(format!(
                "You can drop constraint {name} on table {} instead.",
                table.name
            )));
        }
        if mode != TableLockMode::AccessExclusive {
            // CONCURRENTLY takes nothing along.
            let what = format!("index {}", self.shown_name(relation));
            self.drop_dependents(&what, &|definer| definer.references_on(relation), false)?;
        }
        Ok(table.oid)
    }

    /// Returns the error 2BP01 for a part of another index.
    fn needed_above(&mut self, index: &Relation, above: Oid) -> Result<SqlError> {
        let above = self.current(above)?;
        let (own, above) = (self.shown_name(index), self.shown_name(&above));
        let message = format!("cannot drop index {own} because index {above} requires it");
        Ok(SqlError::new("2BP01", message)
            .with_hint(format!("You can drop index {above} instead.")))
    }

    /// Removes a sequence that no default draws from any more.
    fn drop_sequence(&mut self, relation: &Relation) -> Result<()> {
        let state = self.state();
        let owner = relation.sequence.as_ref().and_then(|s| s.owned_by);
        let needed_by = owner.and_then(|(table, position)| {
            let table = state.relation(table)?;
            let column = table.columns.get(usize::from(position))?;
            // The column may not draw from the sequence any more.
            (column.sequence == Some(relation.oid)).then(|| (Arc::clone(table), position))
        });
        if let Some((table, position)) = needed_by {
            let column = table.columns.get(usize::from(position));
            if let Some(column) = column.filter(|column| column.identity.is_some()) {
                let owner = format!("column {} of table {}", column.name, table.name);
                let message =
                    format!("cannot drop sequence {} because {owner} requires it", relation.name);
                return Err(SqlError::new("2BP01", message)
                    .with_hint(format!("You can drop {owner} instead.")));
            }
            self.lock(table.oid, TableLockMode::AccessExclusive)?;
            self.change_columns(table.oid, |column| {
                if column.sequence == Some(relation.oid) {
                    column.sequence = None;
                }
            })?;
        }
        self.remove_with_files(relation.oid)
    }

    /// Returns the schema of this name, if there is one, or refuses to drop it.
    fn schema_to_drop(&mut self, name: &str) -> Result<Option<SchemaEntry>> {
        let state = self.state();
        let Some(schema) = state.schema_by_name(name).cloned() else { return Ok(None) };
        if schema.oid < Oid::FIRST_USER && schema.oid != niwaki_catalog::PUBLIC_SCHEMA {
            return Err(SqlError::new(
                "2BP01",
                format!(
                    "cannot drop schema {} because it is required by the database system",
                    schema.name
                ),
            ));
        }
        if state.temporary_schema() == Some(schema.oid) {
            let message = format!("cannot drop temporary schema {}", schema.name);
            return Err(SqlError::new("0A000", message)
                .with_hint("DISCARD TEMP drops what is in it; the schema goes with the session."));
        }
        Ok(Some(schema))
    }

    fn drop_schema(&mut self, name: &Name, if_exists: bool, cascade: bool) -> Result<()> {
        // A transaction that creates something in the schema has it locked.
        let find = |definer: &mut Self| definer.schema_to_drop(&name.name);
        let owner = |found: &Option<SchemaEntry>| -> Vec<Oid> {
            found.iter().map(|schema| schema.oid).collect()
        };
        let Some(schema) = self.lock_found(TableLockMode::AccessExclusive, find, owner)? else {
            let missing = SqlError::undefined_schema(&name.name);
            if if_exists {
                self.notice(format!("{}, skipping", missing.message));
                return Ok(());
            }
            return Err(missing);
        };
        let find = |definer: &mut Self| Ok(Members::of(&definer.state(), schema.oid));
        let mut members = find(self)?;
        if !members.is_empty() && !cascade {
            return Err(SqlError::new(
                "2BP01",
                format!("cannot drop schema {} because other objects depend on it", schema.name),
            )
            .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        if cascade {
            // A member may leave the schema before it is locked. None comes.
            members = self.lock_found(TableLockMode::AccessExclusive, find, Members::owners)?;
        }
        let going: Vec<Oid> = members.relations.iter().map(|member| member.oid).collect();
        let find = &|definer: &mut Self| definer.dependents_of(&going);
        self.drop_dependents(&format!("schema {}", schema.name), find, cascade)?;
        for kind in [
            RelationKind::View,
            RelationKind::MaterializedView,
            RelationKind::Table,
            RelationKind::Sequence,
        ] {
            for member in members.relations.iter().filter(|m| m.kind == kind) {
                // A sequence may have gone with its table.
                let Some(member) = self.state().relation(member.oid).cloned() else { continue };
                match kind {
                    RelationKind::Table | RelationKind::MaterializedView => {
                        self.drop_table(&member)?;
                    }
                    RelationKind::View => self.remove(member.oid)?,
                    _ => self.drop_sequence(&member)?,
                }
            }
        }
        // Types and functions may have gone with what was dropped before them.
        let state = self.state();
        let types = members.types.iter().filter_map(|found| state.user_type(found.oid));
        self.drop_all(types.cloned().collect(), true)?;
        let state = self.state();
        let mut functions = members.functions;
        functions.retain(|function| state.function(function.oid).is_some());
        self.drop_all_functions(&functions, true)?;
        let (transaction, catalog) = self.session.transaction_and_catalog()?;
        catalog.remove_schema(transaction, schema.oid)?;
        Ok(())
    }

    /// Removes a relation with its files. Its table is locked; others use a sequence, or change an
    /// index, without a look at the table.
    pub(crate) fn remove_with_files(&mut self, oid: Oid) -> Result<()> {
        self.lock(oid, TableLockMode::AccessExclusive)?;
        // What was altered meanwhile may have other files.
        let Some(relation) = self.state().relation(oid).cloned() else { return Ok(()) };
        self.drop_file(&relation.definition)?;
        self.remove(oid)
    }

    /// Removes a constraint: its index, or its entry in the table's definition. Returns false when
    /// no constraint has this name.
    pub(crate) fn drop_constraint(
        &mut self,
        table: &Relation,
        name: &str,
        cascade: bool,
    ) -> Result<bool> {
        let index =
            table.indexes.iter().find(|i| i.name == name && i.definition.constraint.is_some());
        if let Some(index) = index {
            debug_assert!(matches!(
                index.definition.constraint,
                Some(ConstraintKind::PrimaryKey | ConstraintKind::Unique)
            ));
            let own = self.current(index.oid)?;
            if let Some(above) = index.definition.part_of {
                // The index above holds no constraint here.
                return Err(self.needed_above(&own, above)?);
            }
            let what = format!("constraint {name} on table {}", self.shown_name(table));
            self.drop_dependents(&what, &|definer| definer.references_on(&own), cascade)?;
            self.remove_index(index.oid)?;
            return Ok(true);
        }
        if let Some(key) = table.foreign_key(name) {
            self.lock(key.references, TableLockMode::AccessExclusive)?;
            let referenced = self.current(key.references)?;
            self.refuse_use(&referenced, "ALTER TABLE")?;
            self.remove_foreign_key(table.oid, key.oid)?;
            return Ok(true);
        }
        let mut definition = table.definition.clone();
        let before = definition.checks.len();
        definition.checks.retain(|c| c.name != name);
        if definition.checks.len() == before {
            return Ok(false);
        }
        self.update(definition)?;
        for member in table.partitions.iter().flat_map(|partitions| &partitions.members) {
            self.drop_constraint(&member.relation, name, cascade)?;
        }
        Ok(true)
    }
}

/// The objects of a schema, apart from indexes, which go with their tables.
struct Members {
    /// Views come before the relations that they may read, and sequences after the tables.
    relations: Vec<Arc<Relation>>,
    types: Vec<Arc<TypeDefinition>>,
    functions: Vec<FunctionDefinition>,
}

impl Members {
    fn of(state: &CatalogState, schema: Oid) -> Self {
        let relations = state.in_order().into_iter().filter(|found| found.schema == schema);
        let relations = relations.filter(|found| found.kind != RelationKind::Index);
        let mut relations: Vec<Arc<Relation>> = relations.cloned().collect();
        relations.sort_by_key(|found| match found.kind {
            RelationKind::View => 0,
            RelationKind::MaterializedView => 1,
            RelationKind::Sequence => 3,
            _ => 2,
        });
        let mut types: Vec<Arc<TypeDefinition>> =
            state.user_types().filter(|found| found.schema == schema).cloned().collect();
        types.sort_unstable_by_key(|found| found.oid);
        let functions = state.functions().into_iter().filter(|found| found.schema == schema);
        let functions = functions.map(|found| FunctionDefinition::clone(found)).collect();
        Self { relations, types, functions }
    }

    fn is_empty(&self) -> bool {
        self.relations.is_empty() && self.types.is_empty() && self.functions.is_empty()
    }

    /// Returns the objects to lock, in order.
    fn owners(&self) -> Vec<Oid> {
        let relations = self.relations.iter();
        let relations = relations.flat_map(|found| owner_of(found).into_iter().chain([found.oid]));
        let types = self.types.iter().map(|found| found.oid);
        relations.chain(types).chain(self.functions.iter().map(|found| found.oid)).collect()
    }
}

/// Returns the relation that a drop of `relation` changes, and that is locked first: the table of
/// an index, or the table above a partition.
fn owner_of(relation: &Relation) -> Option<Oid> {
    table_of(relation).or(relation.partition_of.as_ref().map(|of| of.parent))
}
