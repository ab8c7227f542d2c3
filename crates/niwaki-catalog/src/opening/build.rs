//! Conversion of stored definitions to the definitions of the table layer.

use std::any::Any;
use std::sync::Arc;

use niwaki_nbtree::{IndexOptions, SplitStrategy, VersionHint};
use niwaki_storage::{RelFile, RelFileId};
use niwaki_table::{
    ExpressionError, HeapOnlyUpdates, IndexDefinition as TableIndex, KeyColumn, KeyExpression,
    KeySource, SequenceOptions, TableDefinition, UniqueCheckTime,
};
use niwaki_txn::TableId;
use niwaki_types::{ColumnMask, ColumnType, Datum, InputContext, KeyOrder, TextSettings};

use crate::definition::cached;
use crate::definition::constraint::{ConstraintKind, ConstraintTime};
use crate::definition::database::table_number;
use crate::definition::relation_definition::{
    RelationDefinition, RelationOptions, SequenceDefinition, StoredExpression,
};
use crate::opening::compile::ExpressionCompiler;
use crate::rows::oid::Oid;
use crate::state::relation::IndexEntry;

/// Returns the main file of a relation.
pub(crate) fn file_of(definition: &RelationDefinition) -> RelFile {
    RelFile { id: RelFileId(definition.file), logged: definition.logged }
}

/// Returns the file of a table's out-of-line values, if the table has one.
pub(crate) fn values_of(definition: &RelationDefinition) -> Option<RelFile> {
    let logged = definition.logged;
    definition.values.map(|file| RelFile { id: RelFileId(file), logged })
}

pub(crate) fn sequence_options(sequence: &SequenceDefinition) -> SequenceOptions {
    SequenceOptions {
        start: sequence.start,
        increment: sequence.increment,
        minimum: sequence.minimum,
        maximum: sequence.maximum,
        cycle: sequence.cycle,
    }
}

/// Builds the table layer's definition of a table of this database. `definition_of` returns an
/// index's own definition.
pub(crate) fn table_definition(
    compiler: &dyn ExpressionCompiler,
    database: Oid,
    table: &RelationDefinition,
    indexes: &[IndexEntry],
    definition_of: &dyn Fn(Oid) -> Option<RelationDefinition>,
) -> TableDefinition {
    let _spared = cached::spared();
    let indexes = indexes
        .iter()
        .filter_map(|entry| {
            let own = definition_of(entry.oid)?;
            Some(table_index(compiler, table_number(database, entry.oid), table, entry, &own))
        })
        .collect();
    TableDefinition {
        id: table_number(database, table.oid),
        name: table.name.clone(),
        file: file_of(table),
        values: values_of(table),
        fillfactor: table.options.fillfactor().unwrap_or(100),
        heap_only_updates: match table.options.get("heap_only_updates") {
            Some("off") => HeapOnlyUpdates::Off,
            Some("same_keys") => HeapOnlyUpdates::SameKeys,
            _ => HeapOnlyUpdates::default(),
        },
        columns: table.columns.iter().map(|c| c.column_type()).collect(),
        missing: missing(table),
        indexes,
    }
}

fn table_index(
    compiler: &dyn ExpressionCompiler,
    id: TableId,
    table: &RelationDefinition,
    entry: &IndexEntry,
    own: &RelationDefinition,
) -> TableIndex {
    let definition = &entry.definition;
    let compile = |expression: &StoredExpression| {
        compiler.compile(table, expression).unwrap_or_else(|error| {
            let columns = (0..table.columns.len()).collect();
            Arc::new(Unreadable { columns, error }) as Arc<dyn KeyExpression>
        })
    };
    let key = definition.key.iter().map(|key| KeyColumn {
        source: match &key.expression {
            Some(expression) => KeySource::Expression(compile(expression)),
            None => KeySource::Column(usize::from(key.column)),
        },
        order: KeyOrder {
            oid: key.type_oid(table),
            descending: key.descending,
            nulls_first: key.nulls_first,
        },
    });
    TableIndex {
        include: definition.include.iter().map(|c| usize::from(*c)).collect(),
        predicate: definition.predicate.as_ref().map(compile),
        unique: definition.unique,
        nulls_not_distinct: definition.nulls_not_distinct,
        check_time: match definition.check_time {
            ConstraintTime::AtOnce => UniqueCheckTime::AtOnce,
            ConstraintTime::Statement | ConstraintTime::Transaction => UniqueCheckTime::Later,
        },
        primary: definition.constraint == Some(ConstraintKind::PrimaryKey),
        ready: definition.ready,
        valid: definition.valid,
        options: index_options(&own.options),
        ..TableIndex::new(id, &entry.name, file_of(own), key.collect())
    }
}

/// An expression that cannot be read. Its table opens all the same, and refuses the operations that
/// need the expression.
#[derive(Debug)]
struct Unreadable {
    columns: ColumnMask,
    error: ExpressionError,
}

impl KeyExpression for Unreadable {
    fn columns(&self) -> &ColumnMask {
        &self.columns
    }

    fn evaluate(&self, _row: &[Datum]) -> Result<Datum, ExpressionError> {
        Err(Arc::clone(&self.error))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Returns the values that the table's columns have in rows older than the column.
fn missing(table: &RelationDefinition) -> Vec<Datum> {
    if table.columns.iter().all(|c| c.missing.is_none()) {
        return Vec::new();
    }
    let settings = TextSettings::default();
    let context = InputContext { settings: &settings, now: 0 };
    table
        .columns
        .iter()
        .map(|c| match &c.missing {
            // The text was written from a value of this type, so it can be read back.
            Some(text) => {
                niwaki_types::input(c.column_type(), text, &context).unwrap_or(Datum::Null)
            }
            None => Datum::Null,
        })
        .collect()
}

/// Returns a value's text for [`crate::Column::missing`].
pub fn missing_text(value: &Datum, column: ColumnType) -> Option<String> {
    if matches!(value, Datum::Null) {
        return None;
    }
    Some(niwaki_types::to_text(value, column.oid, &TextSettings::default()))
}

pub(crate) fn index_options(options: &RelationOptions) -> IndexOptions {
    let default = IndexOptions::default();
    let switch = |name: &str, otherwise: bool| options.switch(name).unwrap_or(otherwise);
    IndexOptions {
        fillfactor: options.fillfactor().unwrap_or(default.fillfactor),
        deduplicate_items: switch("deduplicate_items", default.deduplicate_items),
        bottom_up_deletion: switch("bottom_up_deletion", default.bottom_up_deletion),
        version_hint: match options.get("version_hint") {
            Some("page") => VersionHint::Page,
            _ => default.version_hint,
        },
        simple_deletion_extras: switch("simple_deletion_extras", default.simple_deletion_extras),
        split_strategy: match options.get("split_strategy") {
            Some("half") => SplitStrategy::Half,
            _ => default.split_strategy,
        },
        suffix_truncation: switch("suffix_truncation", default.suffix_truncation),
        ..default
    }
}
