//! CREATE INDEX, and the steps that make any index.

use std::sync::Arc;

use niwaki_catalog::{
    Column, IndexColumn, IndexDefinition, Oid, Relation, RelationDefinition, RelationKind,
    RelationOptions,
};
use niwaki_session::key_text;
use niwaki_sql::utility::{CreateIndex, IndexKeySource, IndexKeySpec};
use niwaki_sql::{IndexKey, Result, SqlError, read_index_key, read_index_predicate};
use niwaki_system::monitor::progress::ProgressEntry;
use niwaki_table::{BuildOptions, BuildProgress, Error as TableError};
use niwaki_txn::TableLockMode;
use niwaki_types::ColumnType;

use crate::collation::undetermined;
use crate::column_rules::SYSTEM_COLUMNS;
use crate::definer::Definer;
use crate::generated_names;
use crate::index::new_index::{NewIndex, Takes};
use crate::index::operator_class;
use crate::options;

/// Greatest number of key and INCLUDE columns of an index, as in PostgreSQL.
const INDEX_COLUMNS_MAX: usize = 32;

impl Definer<'_> {
    pub(crate) fn create_index(&mut self, spec: &CreateIndex) -> Result<()> {
        match self.read_index(spec, TableLockMode::Share)? {
            Some(new) if spec.table.only => self.add_index_alone(new).map(drop),
            Some(new) => self.add_index(new).map(drop),
            None => Ok(()),
        }
    }

    /// Reads the index that a statement asks for, and locks its table. Returns `None` when the
    /// index exists and IF NOT EXISTS allows that.
    pub(crate) fn read_index(
        &mut self,
        spec: &CreateIndex,
        mode: TableLockMode,
    ) -> Result<Option<NewIndex>> {
        let Some(relation) = self.lock_relation(&spec.table, "relation", mode, false)? else {
            return Ok(None);
        };
        if !relation.kind.has_rows() {
            let message = format!("cannot create index on relation \"{}\"", relation.name);
            let error = SqlError::new("42809", message);
            return Err(match relation.kind {
                RelationKind::View => {
                    error.with_detail("This operation is not supported for views.")
                }
                _ => error,
            });
        }
        self.refuse_use(&relation, "CREATE INDEX")?;
        if relation.is_partitioned() {
            if spec.concurrently {
                let message = format!(
                    "cannot create index on partitioned table \"{}\" concurrently",
                    relation.name
                );
                return Err(SqlError::new("0A000", message));
            }
            self.lock_tree(&relation, mode)?;
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
        let name = if let Some(name) = &spec.name {
            if !self.name_is_free(relation.schema, name, spec.if_not_exists)? {
                return Ok(None);
            }
            name.clone()
        } else {
            let columns: Vec<String> = spec
                .key
                .iter()
                .map(|k| match &k.source {
                    IndexKeySource::Column(name) | IndexKeySource::Expression { name, .. } => {
                        name.clone()
                    }
                })
                .chain(spec.include.iter().cloned())
                .collect();
            generated_names::free_name(
                &self.state(),
                relation.schema,
                &[],
                &relation.name,
                Some(&generated_names::joined(&columns)),
                "idx",
            )
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
        Ok(Some(NewIndex { name, definition, options: index_options }))
    }

    /// Returns the session's options for index builds.
    pub(crate) fn build_options(&self, progress: Arc<BuildProgress>) -> BuildOptions {
        let hot = self.session.settings().hot();
        BuildOptions {
            memory_bytes: hot.maintenance_work_mem_bytes,
            workers: 1 + hot.parallel_maintenance_workers.min(1),
            read_ahead: self.session.maintenance_read_ahead(),
            progress,
            ..BuildOptions::default()
        }
    }

    /// Returns a key column in its stored form.
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
            collation: None,
        };
        let oid = key.type_oid(relation);
        let of = relation.columns.get(usize::from(column));
        let of = of.map_or(ColumnType::new(oid), Column::column_type);
        let own = match &key.expression {
            Some(expression) => expression.collation,
            None => relation.columns.get(usize::from(column)).and_then(|column| column.collation),
        };
        if own == Some(Oid::INVALID) && spec.collation.is_none() {
            let message = "could not determine which collation to use for index expression";
            return Err(undetermined(message.to_owned()));
        }
        key.collation = match self.collation(spec.collation, of)? {
            // COLLATE with the type's own collation is stored if the column has another collation.
            None if own.is_some() => spec.collation,
            given => given.filter(|given| own != Some(*given)),
        };
        key.operator_class = operator_class::choose(
            &self.state(),
            &self.session.types(),
            oid,
            spec.operator_class.as_deref(),
        )?;
        Ok(key)
    }

    /// Stores an index and fills it. The table is locked against writers.
    pub(crate) fn add_index(&mut self, new: NewIndex) -> Result<Oid> {
        let table = self.current(new.definition.table)?;
        if table.is_partitioned() {
            return self.add_index_above(new, Takes::All);
        }
        let oid = self.store_index(new)?;
        let progress = self.session.begin_progress("CREATE INDEX");
        self.fill_index(oid, &progress)?;
        Ok(oid)
    }

    /// Stores an index, with an empty file.
    pub(crate) fn store_index(&mut self, new: NewIndex) -> Result<Oid> {
        let index = &new.definition;
        let count = index.key.len() + index.include.len();
        if count > INDEX_COLUMNS_MAX {
            return Err(SqlError::new(
                "54011",
                format!("cannot use more than {INDEX_COLUMNS_MAX} columns in an index"),
            ));
        }
        let table = self.current(index.table)?;
        let oid = self.session.new_oid();
        let definition = RelationDefinition {
            // The index of a partitioned table has no entries.
            file: if table.is_partitioned() { 0 } else { self.new_file(table.logged)? },
            logged: table.logged,
            options: new.options,
            index: Some(new.definition),
            ..RelationDefinition::new(oid, table.schema, new.name, RelationKind::Index)
        };
        self.create(definition)?;
        Ok(oid)
    }

    /// Fills an index whose file is empty.
    pub(crate) fn fill_index(&mut self, oid: Oid, progress: &ProgressEntry) -> Result<()> {
        let options = self.build_options(Arc::clone(progress.progress()));
        self.fill_index_as(oid, progress, &options)
    }

    /// Does [`Definer::fill_index`] while other sessions write to the table.
    pub(crate) fn fill_index_beside_writers(
        &mut self,
        oid: Oid,
        progress: &ProgressEntry,
    ) -> Result<()> {
        let options = self.build_options(Arc::clone(progress.progress()));
        self.fill_index_as(oid, progress, &BuildOptions { beside_writers: true, ..options })
    }

    fn fill_index_as(
        &mut self,
        oid: Oid,
        progress: &ProgressEntry,
        options: &BuildOptions,
    ) -> Result<()> {
        let (table, position) = self.index_of(oid)?;
        progress.concerns(table.oid, oid);
        let built = table.table.as_ref().ok_or_else(|| SqlError::internal("no table"))?;
        if !options.beside_writers {
            // A rollback removes the index, and keeps everything that is known of the other
            // indexes.
            self.session.pause_freeing(built.heap().pause_freeing().changing());
        }
        let result = built.build_index(self.transaction()?, position, options);
        if result.is_ok() && !options.beside_writers {
            self.session.note_built();
        }
        result.map_err(|error| self.not_built(error, &table, oid))
    }

    /// Returns the current table of an index, and the index's position in it.
    pub(crate) fn index_of(&mut self, oid: Oid) -> Result<(Arc<Relation>, usize)> {
        let gone = || SqlError::new("42704", format!("index with OID {oid} does not exist"));
        let state = self.state();
        let index = state.relation(oid).and_then(|r| r.index.as_ref()).ok_or_else(gone)?;
        let table = state.relation(index.table).cloned().ok_or_else(gone)?;
        let position = table.indexes.iter().position(|i| i.oid == oid).ok_or_else(gone)?;
        Ok((table, position))
    }

    /// Returns the error of a failed index build, as clients see it.
    pub(crate) fn not_built(&mut self, error: TableError, table: &Relation, oid: Oid) -> SqlError {
        let TableError::UniqueViolation(violation) = &error else { return error.into() };
        let name = table.indexes.iter().find(|i| i.oid == oid).map_or("", |i| i.name.as_str());
        let message = format!("could not create unique index \"{name}\"");
        let state = self.state();
        let detail = match key_text(table, violation, &state) {
            Some(key) => format!("Key {key} is duplicated."),
            None => "Duplicate keys exist.".to_owned(),
        };
        SqlError::new("23505", message)
            .with_detail(detail)
            .with_constraint(name)
            .with_table(self.session.schema_name(table.schema), table.name.clone())
    }
}

fn column_position(relation: &Relation, name: &str) -> Result<u16> {
    if SYSTEM_COLUMNS.contains(&name) {
        return Err(SqlError::new("0A000", "index creation on system columns is not supported"));
    }
    relation
        .column_position(name)
        .and_then(|p| u16::try_from(p).ok())
        .ok_or_else(|| SqlError::new("42703", format!("column \"{name}\" does not exist")))
}
