//! The committed catalog as one immutable value.

use std::sync::Arc;

use niwaki_env::hash::HashMap;
use niwaki_txn::TableId;
use niwaki_types::quote_identifier;

use crate::definition::database::{DatabaseDefinition, table_number};
use crate::definition::foreign_key::ForeignKey;
use crate::definition::relation_definition::RelationKind;
use crate::definition::schema::{PG_CATALOG, SchemaEntry, SearchPath};
use crate::error::{Error, Result};
use crate::rows::oid::Oid;
use crate::state::databases::{DatabaseList, DatabaseView};
use crate::state::maps::{Functions, Types};
use crate::state::relation::Relation;

/// Name by which every session calls the schema of its own temporary relations.
const TEMPORARY_ALIAS: &str = "pg_temp";

/// All relations and schemas at one moment. Cheap to share, never changed in place.
#[derive(Clone, Debug, Default)]
pub struct CatalogState {
    version: u64,
    relations: HashMap<Oid, Arc<Relation>>,
    names: HashMap<Oid, HashMap<Arc<str>, Oid>>,
    schemas: HashMap<Oid, SchemaEntry>,
    /// Schema of the relations that only this session has.
    temporary: Option<Oid>,
    pub(crate) types: Types,
    pub(crate) functions: Functions,
    /// The referencing table of each foreign key.
    foreign_keys: HashMap<Oid, Oid>,
    /// Foreign keys by the table that they reference, in the order of their numbers.
    referenced: HashMap<Oid, Vec<Oid>>,
    /// Views by the relations that they read, in the order of their numbers.
    readers: HashMap<Oid, Vec<Oid>>,
    /// Partitions by their partitioned table, in the order of their numbers.
    partitions: HashMap<Oid, Vec<Oid>>,
    pub(crate) databases: DatabaseView,
}

impl CatalogState {
    /// Returns the version, which grows with every published change. Equal versions mean equal
    /// states. Overlays of transactions with DDL have versions of their own, which no other session
    /// meets.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the relation with this number.
    #[inline]
    pub fn relation(&self, oid: Oid) -> Option<&Arc<Relation>> {
        self.relations.get(&oid)
    }

    /// Returns the relation of this name in one schema.
    pub fn lookup(&self, schema: Oid, name: &str) -> Option<&Arc<Relation>> {
        self.relations.get(self.names.get(&schema)?.get(name)?)
    }

    /// Finds a relation by name, in the named schema or along the search path.
    ///
    /// # Errors
    /// [`Error::Undefined`] of kind `schema` or `relation`, with the name as the statement gave it.
    pub fn resolve(
        &self,
        path: &SearchPath,
        schema: Option<&str>,
        name: &str,
    ) -> Result<&Arc<Relation>> {
        if let Some(schema_name) = schema {
            let missing =
                || Error::Undefined { kind: "relation", name: format!("{schema_name}.{name}") };
            let schema = self.schema_by_name(schema_name).ok_or_else(missing)?;
            return self.lookup(schema.oid, name).ok_or_else(missing);
        }
        path.schemas
            .iter()
            .find_map(|s| self.lookup(*s, name))
            .ok_or_else(|| Error::Undefined { kind: "relation", name: name.to_owned() })
    }

    /// Returns a relation's name for SQL, quoted. The schema is added where the search path does
    /// not find the relation.
    pub fn shown_relation(&self, path: &SearchPath, relation: &Relation) -> String {
        let name = quote_identifier(&relation.name);
        let found = self.resolve(path, None, &relation.name);
        match self.schema(relation.schema) {
            Some(schema) if !found.is_ok_and(|found| found.oid == relation.oid) => {
                format!("{}.{name}", quote_identifier(&schema.name))
            }
            _ => name,
        }
    }

    /// Returns the schema of this name; `pg_temp` names the schema of the session's temporary
    /// relations.
    pub fn schema_by_name(&self, name: &str) -> Option<&SchemaEntry> {
        if name == TEMPORARY_ALIAS {
            return self.schemas.get(&self.temporary?);
        }
        self.schemas.values().find(|s| s.name == name)
    }

    /// Returns the schema of the relations that only this session has, if it has ever created one.
    pub fn temporary_schema(&self) -> Option<Oid> {
        self.temporary
    }

    /// Returns the schema with this number.
    pub fn schema(&self, oid: Oid) -> Option<&SchemaEntry> {
        self.schemas.get(&oid)
    }

    /// Iterates over all schemas, in no order.
    pub fn schemas(&self) -> impl Iterator<Item = &SchemaEntry> {
        self.schemas.values()
    }

    /// Iterates over all relations, system views included, in no order.
    pub fn relations(&self) -> impl Iterator<Item = &Arc<Relation>> {
        self.relations.values()
    }

    /// Iterates over the tables only, in no order.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Relation>> {
        self.relations.values().filter(|r| r.kind == RelationKind::Table)
    }

    /// Iterates over tables and materialized views, in no order.
    pub fn with_rows(&self) -> impl Iterator<Item = &Arc<Relation>> {
        self.relations.values().filter(|r| r.kind.has_rows())
    }

    /// Returns a foreign key by its number, with its table.
    pub fn foreign_key(&self, oid: Oid) -> Option<(&Arc<Relation>, &ForeignKey)> {
        let table = self.relations.get(self.foreign_keys.get(&oid)?)?;
        Some((table, table.foreign_keys.iter().find(|key| key.oid == oid)?))
    }

    /// Returns the foreign keys that reference a table, in the order of their numbers.
    #[inline]
    pub fn foreign_keys_to(&self, table: Oid) -> &[Oid] {
        if self.referenced.is_empty() {
            return &[];
        }
        self.referenced.get(&table).map_or(&[], Vec::as_slice)
    }

    /// Returns all foreign keys with their tables, in the order of their numbers.
    pub fn foreign_keys(&self) -> Vec<(&Arc<Relation>, &ForeignKey)> {
        let mut oids: Vec<Oid> = self.foreign_keys.keys().copied().collect();
        oids.sort_unstable();
        oids.into_iter().filter_map(|oid| self.foreign_key(oid)).collect()
    }

    /// Returns the views that read a relation directly, in the order of their numbers.
    pub fn views_of(&self, relation: Oid) -> &[Oid] {
        self.readers.get(&relation).map_or(&[], Vec::as_slice)
    }

    /// Returns the partitions of a table, in the order of their numbers.
    pub fn partitions_of(&self, table: Oid) -> &[Oid] {
        self.partitions.get(&table).map_or(&[], Vec::as_slice)
    }

    /// Returns the present databases of the directory. A state does not keep an earlier list.
    pub fn databases(&self) -> Arc<DatabaseList> {
        self.databases.list()
    }

    /// Returns the number of the database whose catalog this is.
    pub fn database_oid(&self) -> Oid {
        self.databases.current()
    }

    /// Returns the number by which locks know a relation ([`crate::table_number`]).
    pub fn table_number(&self, oid: Oid) -> TableId {
        table_number(self.database_oid(), oid)
    }

    /// Returns the database whose catalog this is; `None` when it has just been dropped.
    pub fn database(&self) -> Option<Arc<DatabaseDefinition>> {
        self.databases().get(self.database_oid()).cloned()
    }

    /// Returns the search path for a list of schema names, as `SET search_path` gives it. `user`
    /// replaces `"$user"`. Names of schemas that do not exist are skipped.
    pub fn search_path(&self, names: &[String], user: &str) -> SearchPath {
        let listed: Vec<Oid> = names
            .iter()
            .filter_map(|n| self.schema_by_name(if n == "$user" { user } else { n }))
            .map(|s| s.oid)
            .collect();
        let creation = listed.first().copied();
        let implicit = self.temporary.into_iter().chain([PG_CATALOG]);
        let schemas =
            implicit.filter(|s| !listed.contains(s)).chain(listed.iter().copied()).collect();
        SearchPath { schemas, creation }
    }
}

/// Construction of states, for the catalog itself.
impl CatalogState {
    /// Creates an empty state in this database.
    pub(crate) fn of_database(databases: DatabaseView) -> Self {
        Self { databases, ..Self::default() }
    }

    /// Returns an empty state in the same database.
    pub(crate) fn emptied(&self) -> Self {
        Self { databases: self.databases.clone(), ..Self::default() }
    }

    /// Returns the number of relations.
    pub(crate) fn relation_count(&self) -> usize {
        self.relations.len()
    }

    pub(crate) fn set_version(&mut self, version: u64) {
        self.version = version;
    }

    pub(crate) fn put_schema(&mut self, schema: SchemaEntry) {
        self.schemas.insert(schema.oid, schema);
    }

    pub(crate) fn put_temporary_schema(&mut self, schema: SchemaEntry) {
        self.temporary = Some(schema.oid);
        self.put_schema(schema);
    }

    pub(crate) fn remove_schema(&mut self, oid: Oid) {
        self.schemas.remove(&oid);
    }

    pub(crate) fn put(&mut self, relation: Arc<Relation>) {
        self.remove(relation.oid);
        for key in &relation.foreign_keys {
            self.foreign_keys.insert(key.oid, relation.oid);
            let to = self.referenced.entry(key.references).or_default();
            let at = to.partition_point(|other| *other < key.oid);
            to.insert(at, key.oid);
        }
        for source in relation.query.iter().flat_map(|query| &query.sources) {
            let readers = self.readers.entry(source.relation).or_default();
            let at = readers.partition_point(|other| *other < relation.oid);
            readers.insert(at, relation.oid);
        }
        if let Some(of) = &relation.partition_of {
            let parts = self.partitions.entry(of.parent).or_default();
            let at = parts.partition_point(|other| *other < relation.oid);
            parts.insert(at, relation.oid);
        }
        self.names
            .entry(relation.schema)
            .or_default()
            .insert(Arc::from(relation.name.as_str()), relation.oid);
        self.relations.insert(relation.oid, relation);
    }

    pub(crate) fn remove(&mut self, oid: Oid) {
        let Some(old) = self.relations.remove(&oid) else { return };
        for key in &old.foreign_keys {
            self.foreign_keys.remove(&key.oid);
            if let Some(to) = self.referenced.get_mut(&key.references) {
                to.retain(|other| *other != key.oid);
                if to.is_empty() {
                    self.referenced.remove(&key.references);
                }
            }
        }
        for source in old.query.iter().flat_map(|query| &query.sources) {
            if let Some(readers) = self.readers.get_mut(&source.relation) {
                readers.retain(|other| *other != oid);
                if readers.is_empty() {
                    self.readers.remove(&source.relation);
                }
            }
        }
        if let Some(of) = &old.partition_of
            && let Some(parts) = self.partitions.get_mut(&of.parent)
        {
            parts.retain(|other| *other != oid);
            if parts.is_empty() {
                self.partitions.remove(&of.parent);
            }
        }
        if let Some(names) = self.names.get_mut(&old.schema)
            // A rename may already have given the name to another relation.
            && names.get(old.name.as_str()) == Some(&oid)
        {
            names.remove(old.name.as_str());
        }
    }
}
