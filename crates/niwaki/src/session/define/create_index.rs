//! CREATE INDEX, and the making of any index.

use std::sync::Arc;

use niwaki_catalog::{
    IndexColumn, IndexDefinition, Relation, RelationDefinition, RelationKind, RelationOptions,
    RelationStats,
};
use niwaki_sql::utility::{CreateIndex, IndexKeySource, IndexKeySpec};
use niwaki_sql::{IndexKey, SqlError, read_index_key, read_index_predicate};
use niwaki_table::{BuildOptions, BuildProgress, Error as TableError};
use niwaki_txn::TableLockMode;

use super::{Definer, names, operator_class, options};
use crate::Result;

/// Most key and INCLUDE columns of an index.
const INDEX_COLUMNS_MAX: usize = 32;

/// An index to be made.
pub(super) struct NewIndex {
    pub(super) name: String,
    pub(super) definition: IndexDefinition,
    pub(super) options: RelationOptions,
}

impl Definer<'_> {
    pub(super) fn create_index(&mut self, spec: &CreateIndex) -> Result<()> {
        let Some(relation) =
            self.lock_relation(&spec.table, "relation", TableLockMode::Share, false)?
        else {
            return Ok(());
        };
        if relation.kind != RelationKind::Table {
            return Err(SqlError::new(
                "42809",
                format!("cannot create index on relation \"{}\"", relation.name),
            ));
        }
        let key =
            spec.key.iter().map(|k| self.index_key(&relation, k)).collect::<Result<Vec<_>>>()?;
        let include = spec
            .include
            .iter()
            .map(|c| column_position(&relation, c))
            .collect::<Result<Vec<_>>>()?;
        let predicate = match &spec.predicate {
            Some(text) => Some(
                self.session
                    .with_analysis(|context| read_index_predicate(text, &relation, context))?,
            ),
            None => None,
        };
        let name = match &spec.name {
            Some(name) => {
                if !self.name_is_free(relation.schema, name, spec.if_not_exists)? {
                    return Ok(());
                }
                name.clone()
            }
            None => {
                let columns: Vec<String> =
                    spec.key
                        .iter()
                        .map(|k| match &k.source {
                            IndexKeySource::Column(name)
                            | IndexKeySource::Expression { name, .. } => name.clone(),
                        })
                        .chain(spec.include.iter().cloned())
                        .collect();
                names::free_name(
                    &self.state(),
                    relation.schema,
                    &[],
                    &relation.name,
                    Some(&names::joined(&columns)),
                    "idx",
                )
            }
        };
        let mut index_options = RelationOptions::default();
        options::set(RelationKind::Index, &mut index_options, &spec.options)?;
        let definition = IndexDefinition {
            include,
            unique: spec.unique,
            predicate,
            nulls_not_distinct: spec.nulls_not_distinct,
            ..IndexDefinition::new(relation.oid, key)
        };
        self.add_index(NewIndex { name, definition, options: index_options })
    }

    /// How the session builds indexes.
    pub(super) fn build_options(&self, progress: Arc<BuildProgress>) -> BuildOptions {
        let hot = self.session.settings.hot();
        BuildOptions {
            memory_bytes: hot.maintenance_work_mem_bytes,
            workers: 1 + hot.parallel_maintenance_workers.min(1),
            progress,
        }
    }

    /// A key column as the catalog stores it.
    fn index_key(&mut self, relation: &Arc<Relation>, spec: &IndexKeySpec) -> Result<IndexColumn> {
        let (column, expression) = match &spec.source {
            IndexKeySource::Column(name) => (column_position(relation, name)?, None),
            IndexKeySource::Expression { text, .. } => {
                let key = self
                    .session
                    .with_analysis(|context| read_index_key(text, relation, context))?;
                match key {
                    IndexKey::Column(position) => (
                        u16::try_from(position).map_err(|_| SqlError::internal("column number"))?,
                        None,
                    ),
                    IndexKey::Expression(expression) => (IndexColumn::NO_COLUMN, Some(expression)),
                }
            }
        };
        let mut key = IndexColumn {
            column,
            descending: spec.descending,
            nulls_first: spec.nulls_first,
            expression,
            operator_class: None,
        };
        let oid = key.type_oid(relation);
        key.operator_class = operator_class::choose(oid, spec.operator_class.as_deref())?;
        Ok(key)
    }

    /// Stores an index and fills it. The table is locked against writers.
    pub(super) fn add_index(&mut self, new: NewIndex) -> Result<()> {
        let index = &new.definition;
        let count = index.key.len() + index.include.len();
        if count > INDEX_COLUMNS_MAX {
            return Err(SqlError::new(
                "54011",
                format!("cannot use more than {INDEX_COLUMNS_MAX} columns in an index"),
            ));
        }
        let table = self.current(new.definition.table)?;
        let oid = self.session.new_oid();
        let definition = RelationDefinition {
            oid,
            schema: table.schema,
            name: new.name.clone(),
            kind: RelationKind::Index,
            file: self.new_file(table.logged)?,
            logged: table.logged,
            columns: Vec::new(),
            checks: Vec::new(),
            options: new.options,
            index: Some(new.definition.clone()),
            sequence: None,
            stats: RelationStats::default(),
        };
        self.create(definition)?;
        let table = self.current(new.definition.table)?;
        let position = table
            .indexes
            .iter()
            .position(|i| i.oid == oid)
            .ok_or_else(|| SqlError::internal("a new index is not in its table"))?;
        let built = table.table.as_ref().ok_or_else(|| SqlError::internal("no table"))?;
        let options = self.build_options(Arc::default());
        built.build_index(self.transaction()?, position, &options).map_err(|e| match e {
            TableError::UniqueViolation(violation) => {
                let key = crate::session::errors::key_text(&table, &violation);
                let message = format!("could not create unique index \"{}\"", new.name);
                let error = match key {
                    Some(key) => SqlError::new("23505", message)
                        .with_detail(format!("Key {key} is duplicated.")),
                    None => SqlError::new("23505", message).with_detail("Duplicate keys exist."),
                };
                error
                    .with_constraint(new.name.clone())
                    .with_table(self.session.schema_name(table.schema), table.name.clone())
            }
            other => other.into(),
        })
    }
}

fn column_position(relation: &Relation, name: &str) -> Result<u16> {
    if matches!(name, "ctid" | "tableoid" | "xmin" | "xmax" | "cmin" | "cmax") {
        return Err(SqlError::new("0A000", "index creation on system columns is not supported"));
    }
    relation
        .column_position(name)
        .and_then(|p| u16::try_from(p).ok())
        .ok_or_else(|| SqlError::new("42703", format!("column \"{name}\" does not exist")))
}
