//! CREATE INDEX, and the making of any index.

use niwaki_catalog::{
    ConstraintKind, IndexColumn, IndexDefinition, Oid, RelationDefinition, RelationKind,
    RelationOptions, RelationStats,
};
use niwaki_sql::SqlError;
use niwaki_sql::utility::CreateIndex;
use niwaki_table::Error as TableError;
use niwaki_txn::TableLockMode;

use super::{Definer, names, options};
use crate::Result;

/// Most key and INCLUDE columns of an index.
const INDEX_COLUMNS_MAX: usize = 32;

/// An index to be made.
pub(super) struct NewIndex {
    pub(super) table: Oid,
    pub(super) name: String,
    pub(super) key: Vec<IndexColumn>,
    pub(super) include: Vec<u16>,
    pub(super) unique: bool,
    pub(super) constraint: Option<ConstraintKind>,
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
        let position = |name: &str| {
            relation
                .column_position(name)
                .and_then(|p| u16::try_from(p).ok())
                .ok_or_else(|| SqlError::new("42703", format!("column \"{name}\" does not exist")))
        };
        let key = spec
            .key
            .iter()
            .map(|k| {
                Ok(IndexColumn {
                    column: position(&k.column)?,
                    descending: k.descending,
                    nulls_first: k.nulls_first,
                })
            })
            .collect::<Result<Vec<_>>>()?;
        let include = spec.include.iter().map(|c| position(c)).collect::<Result<Vec<_>>>()?;
        let name = match &spec.name {
            Some(name) => {
                if !self.name_is_free(relation.schema, name, spec.if_not_exists)? {
                    return Ok(());
                }
                name.clone()
            }
            None => {
                let columns: Vec<String> = spec
                    .key
                    .iter()
                    .map(|k| k.column.clone())
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
        self.add_index(NewIndex {
            table: relation.oid,
            name,
            key,
            include,
            unique: spec.unique,
            constraint: None,
            options: index_options,
        })
    }

    /// Stores an index and fills it. The table is locked against writers.
    pub(super) fn add_index(&mut self, new: NewIndex) -> Result<()> {
        let count = new.key.len() + new.include.len();
        if count > INDEX_COLUMNS_MAX {
            return Err(SqlError::new(
                "54011",
                format!("cannot use more than {INDEX_COLUMNS_MAX} columns in an index"),
            ));
        }
        let table = self.current(new.table)?;
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
            index: Some(IndexDefinition {
                table: new.table,
                key: new.key,
                include: new.include,
                unique: new.unique,
                constraint: new.constraint,
                valid: true,
            }),
            sequence: None,
            stats: RelationStats::default(),
        };
        self.create(definition)?;
        let table = self.current(new.table)?;
        let position = table
            .indexes
            .iter()
            .position(|i| i.oid == oid)
            .ok_or_else(|| SqlError::internal("a new index is not in its table"))?;
        let built = table.table.as_ref().ok_or_else(|| SqlError::internal("no table"))?;
        built.build_index(self.transaction()?, position).map_err(|e| match e {
            TableError::UniqueViolation(violation) => {
                let detail = crate::session::errors::key_text(&table, &violation.key);
                SqlError::new("23505", format!("could not create unique index \"{}\"", new.name))
                    .with_detail(format!("Key {detail} is duplicated."))
                    .with_constraint(new.name.clone())
                    .with_table(self.session.schema_name(table.schema), table.name.clone())
            }
            other => other.into(),
        })
    }
}
