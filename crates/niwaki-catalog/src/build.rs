//! From definitions to what the table layer opens.

use niwaki_nbtree::{IndexOptions, SplitStrategy};
use niwaki_storage::{RelFile, RelFileId};
use niwaki_table::{IndexDefinition as TableIndex, KeyColumn, SequenceOptions, TableDefinition};
use niwaki_types::{ColumnType, Datum, InputContext, KeyOrder, TextSettings, TypeOid};

use crate::definition::{
    ConstraintKind, Oid, RelationDefinition, RelationOptions, SequenceDefinition,
};
use crate::relation::IndexEntry;

/// The files of a relation.
pub(crate) fn file_of(definition: &RelationDefinition) -> RelFile {
    RelFile { id: RelFileId(definition.file), logged: definition.logged }
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

/// What the table layer knows of a table. `definition_of` gives an index's own definition.
pub(crate) fn table_definition(
    table: &RelationDefinition,
    indexes: &[IndexEntry],
    definition_of: &dyn Fn(Oid) -> Option<RelationDefinition>,
) -> TableDefinition {
    let column_type = |position: u16| {
        table.columns.get(usize::from(position)).map_or(TypeOid::UNKNOWN, |c| TypeOid(c.type_oid))
    };
    let indexes = indexes
        .iter()
        .filter_map(|entry| {
            let own = definition_of(entry.oid)?;
            Some(TableIndex {
                id: u64::from(entry.oid.0),
                name: entry.name.clone(),
                file: file_of(&own),
                key: entry
                    .definition
                    .key
                    .iter()
                    .map(|k| KeyColumn {
                        column: usize::from(k.column),
                        order: KeyOrder {
                            oid: column_type(k.column),
                            descending: k.descending,
                            nulls_first: k.nulls_first,
                        },
                    })
                    .collect(),
                include: entry.definition.include.iter().map(|c| usize::from(*c)).collect(),
                unique: entry.definition.unique,
                primary: entry.definition.constraint == Some(ConstraintKind::PrimaryKey),
                valid: entry.definition.valid,
                options: index_options(&own.options),
            })
        })
        .collect();
    TableDefinition {
        id: u64::from(table.oid.0),
        name: table.name.clone(),
        file: file_of(table),
        fillfactor: table.options.fillfactor().unwrap_or(100),
        columns: table.columns.iter().map(|c| c.column_type()).collect(),
        missing: missing(table),
        indexes,
    }
}

/// What rows older than a column have in it.
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
            // The text was written from a value of this type, so it reads back.
            Some(text) => {
                niwaki_types::input(c.column_type(), text, &context).unwrap_or(Datum::Null)
            }
            None => Datum::Null,
        })
        .collect()
}

/// Text of a value for [`crate::Column::missing`].
pub fn missing_text(value: &Datum, column: ColumnType) -> Option<String> {
    if matches!(value, Datum::Null) {
        return None;
    }
    Some(niwaki_types::to_text(value, column.oid, &TextSettings::default()))
}

fn index_options(options: &RelationOptions) -> IndexOptions {
    let default = IndexOptions::default();
    let switch = |name: &str, otherwise: bool| match options.get(name) {
        Some(text) => matches!(text, "on" | "true" | "1"),
        None => otherwise,
    };
    IndexOptions {
        fillfactor: options.fillfactor().unwrap_or(default.fillfactor),
        deduplicate_items: switch("deduplicate_items", default.deduplicate_items),
        bottom_up_deletion: switch("bottom_up_deletion", default.bottom_up_deletion),
        simple_deletion_extras: switch("simple_deletion_extras", default.simple_deletion_extras),
        split_strategy: match options.get("split_strategy") {
            Some("half") => SplitStrategy::Half,
            _ => default.split_strategy,
        },
        suffix_truncation: switch("suffix_truncation", default.suffix_truncation),
        ..default
    }
}
