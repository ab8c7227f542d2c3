//! LIKE in CREATE TABLE: copies columns of another relation, and other parts that the clause
//! includes.
//!
//! Columns, with their defaults, identities and expressions, and CHECK constraints are copied into
//! the statement before the table is created. Indexes and comments are copied when the table
//! exists. They come after the statement's own keys and before its foreign keys, as in PostgreSQL,
//! so that generated names are the same.

use std::sync::Arc;

use niwaki_catalog::{
    Column, ConstraintKind, IndexColumn, IndexDefinition, IndexEntry, Oid, Relation,
    RelationDefinition, RelationKind,
};
use niwaki_sql::utility::{
    ColumnSpec, ConstraintSpec, ConstraintSpecKind, CreateTable, Like, LikeOption, SequenceOptions,
};
use niwaki_sql::{Result, SqlError};
use niwaki_txn::TableLockMode;
use niwaki_types::TypeOid;

use crate::constraint::{ConstraintNames, no_second_key};
use crate::definer::Definer;
use crate::generated_names;
use crate::index::new_index::NewIndex;

/// A LIKE clause, with the relation whose columns are copied.
pub(crate) struct Source<'s> {
    like: &'s Like,
    /// Relation of the clause. `None` for a composite type.
    relation: Option<Arc<Relation>>,
}

impl Definer<'_> {
    /// Returns the statement with the columns and checks of its LIKE clauses, and the relations
    /// that the clauses name.
    pub(crate) fn expand_likes<'s>(
        &mut self,
        spec: &'s CreateTable,
    ) -> Result<(CreateTable, Vec<Source<'s>>)> {
        let mut expanded = CreateTable { likes: Vec::new(), ..spec.clone() };
        let mut sources = Vec::with_capacity(spec.likes.len());
        let mut added = 0;
        for like in &spec.likes {
            let (relation, columns) = self.like_columns(like)?;
            let at = like.position + added;
            added += columns.len();
            expanded.columns.splice(at..at, columns);
            if let Some(relation) = relation.iter().find(|_| like.includes(LikeOption::Constraints))
            {
                expanded.constraints.extend(relation.checks.iter().map(|check| ConstraintSpec {
                    name: Some(check.name.clone()),
                    kind: ConstraintSpecKind::Check {
                        expression: check.expression.clone(),
                        column: None,
                        no_inherit: check.no_inherit,
                    },
                    not_valid: false,
                    stored: true,
                }));
            }
            sources.push(Source { like, relation });
        }
        Ok((expanded, sources))
    }

    /// Returns the relation that a clause names, and its columns. The relation is `None` for a
    /// composite type.
    fn like_columns(&mut self, like: &Like) -> Result<(Option<Arc<Relation>>, Vec<ColumnSpec>)> {
        let name = &like.relation;
        let relation = match self.session.lock_by_name(name, TableLockMode::AccessShare) {
            Ok(relation) => relation,
            Err(error) if error.sqlstate == "42P01" => {
                let (path, state) = (self.session.search_path(), self.state());
                let found = state.resolve_type(&path, name.schema.as_deref(), &name.name);
                let Some(attributes) = found.and_then(|found| found.attributes()) else {
                    let schema = name.schema.as_ref();
                    let unknown = schema.filter(|name| state.schema_by_name(name).is_none());
                    return Err(match unknown {
                        Some(name) => SqlError::undefined_schema(name),
                        None => error,
                    });
                };
                let column = |attribute: &niwaki_catalog::StoredAttribute| ColumnSpec {
                    collation: attribute.collation,
                    ..ColumnSpec::new(attribute.name.clone(), attribute.column_type())
                };
                return Ok((None, attributes.iter().map(column).collect()));
            }
            Err(error) => return Err(error),
        };
        if matches!(relation.kind, RelationKind::Index | RelationKind::Sequence) {
            let word = relation.kind.plural();
            let message = format!("relation \"{}\" is invalid in LIKE clause", relation.name);
            return Err(SqlError::new("42809", message)
                .with_detail(format!("This operation is not supported for {word}."))
                .with_position(name.position));
        }
        let visible = relation.columns.iter().filter(|column| !column.dropped);
        let columns =
            visible.map(|column| self.like_column(like, column)).collect::<Result<_>>()?;
        Ok((Some(relation), columns))
    }

    fn like_column(&mut self, like: &Like, column: &Column) -> Result<ColumnSpec> {
        let mut spec = ColumnSpec {
            not_null: column.not_null,
            stored: true,
            collation: column.collation,
            ..ColumnSpec::new(column.name.clone(), column.column_type())
        };
        if let Some(identity) = column.identity {
            if like.includes(LikeOption::Identity) {
                let sequence =
                    column.sequence.map(|sequence| self.current(sequence)).transpose()?;
                let sequence = sequence.as_ref().and_then(|sequence| sequence.sequence.as_ref());
                let sequence =
                    sequence.ok_or_else(|| SqlError::internal("an identity without numbers"))?;
                let options = SequenceOptions {
                    // The sequence is INT8 for a column of any type, as in PostgreSQL.
                    type_oid: Some(TypeOid::INT8.0),
                    increment: Some(sequence.increment),
                    minimum: Some(Some(sequence.minimum)),
                    maximum: Some(Some(sequence.maximum)),
                    start: Some(sequence.start),
                    cache: Some(sequence.cache),
                    cycle: Some(sequence.cycle),
                    ..SequenceOptions::default()
                };
                spec.identity = Some((identity, options));
            }
        } else if column.generated {
            spec.generated =
                column.default.clone().filter(|_| like.includes(LikeOption::Generated));
        } else {
            spec.default = column.default.clone().filter(|_| like.includes(LikeOption::Defaults));
        }
        Ok(spec)
    }

    /// Copies the parts that LIKE clauses include besides columns and checks to a new table.
    pub(crate) fn copy_likes(
        &mut self,
        table: Oid,
        taken: &mut ConstraintNames,
        sources: &[Source<'_>],
    ) -> Result<()> {
        for source in sources {
            let Some(relation) = &source.relation else { continue };
            if source.like.includes(LikeOption::Comments) {
                let mut definition = self.current(table)?.definition.clone();
                copy_comments(relation, source.like, &mut definition);
                self.update(definition)?;
            }
            if source.like.includes(LikeOption::Indexes) {
                let mut indexes: Vec<&IndexEntry> = relation.indexes.iter().collect();
                indexes.sort_by_key(|index| index.oid);
                for index in indexes {
                    self.copy_index(table, taken, index, relation, source.like)?;
                }
            }
        }
        Ok(())
    }

    /// Copies an index of another table, under a new name.
    fn copy_index(
        &mut self,
        table: Oid,
        taken: &mut ConstraintNames,
        index: &IndexEntry,
        of: &Relation,
        like: &Like,
    ) -> Result<()> {
        let table = self.current(table)?;
        let old = self.current(index.oid)?;
        let state = self.state();
        let shown = old.shown_columns(&state).into_iter().map(|column| column.name);
        let columns = generated_names::joined(&shown.collect::<Vec<_>>());
        let constraint = index.definition.constraint;
        let (second, label) = match constraint {
            Some(ConstraintKind::PrimaryKey) => (None, "pkey"),
            Some(ConstraintKind::Unique) => (Some(columns.as_str()), "key"),
            None => (Some(columns.as_str()), "idx"),
        };
        if constraint == Some(ConstraintKind::PrimaryKey) && table.primary_key().is_some() {
            return Err(no_second_key(&table.name));
        }
        let known = if constraint.is_some() { taken.names() } else { &[] };
        let name =
            generated_names::free_name(&state, table.schema, known, &table.name, second, label);
        if constraint.is_some() {
            taken.take(&name, &table.name)?;
        }
        // Columns have the same names in both tables, at other positions.
        let position = |at: u16| -> Result<u16> {
            let name = of.columns.get(usize::from(at)).map(|column| column.name.as_str());
            let found = name.and_then(|name| table.column_position(name));
            let found = found.and_then(|found| u16::try_from(found).ok());
            found.ok_or_else(|| SqlError::internal("a column that was not copied"))
        };
        let key = index.definition.key.iter().map(|key| {
            let column = match &key.expression {
                Some(_) => IndexColumn::NO_COLUMN,
                None => position(key.column)?,
            };
            Ok(IndexColumn { column, ..key.clone() })
        });
        let include = index.definition.include.iter().map(|at| position(*at));
        let definition = IndexDefinition {
            table: table.oid,
            key: key.collect::<Result<_>>()?,
            include: include.collect::<Result<_>>()?,
            valid: true,
            ready: true,
            constraint_comment: None,
            part_of: None,
            ..index.definition.clone()
        };
        let oid = self.add_index(NewIndex { name, definition, options: old.options.clone() })?;
        if old.comment.is_some() && like.includes(LikeOption::Comments) {
            let mut definition = self.current(oid)?.definition.clone();
            definition.comment.clone_from(&old.comment);
            self.update(definition)?;
        }
        Ok(())
    }
}

/// Copies comments on columns, and on the copied checks.
fn copy_comments(from: &Relation, like: &Like, to: &mut RelationDefinition) {
    for column in from.columns.iter().filter(|column| !column.dropped) {
        if let Some(copy) = to.columns.iter_mut().find(|copy| copy.name == column.name) {
            copy.comment.clone_from(&column.comment);
        }
    }
    if like.includes(LikeOption::Constraints) {
        for check in &from.checks {
            if let Some(copy) = to.checks.iter_mut().find(|copy| copy.name == check.name) {
                copy.comment.clone_from(&check.comment);
            }
        }
    }
}
