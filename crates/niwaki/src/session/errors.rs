//! Errors of tables as clients see them: with names and values.

use niwaki_catalog::{CatalogState, Relation};
use niwaki_sql::SqlError;
use niwaki_table::Error as TableError;
use niwaki_types::{Datum, TextSettings, to_text};

/// `(a, b)=(1, x)`: a key by column names and values.
pub(crate) fn key_text(relation: &Relation, key: &[(usize, Datum)]) -> String {
    let settings = TextSettings::default();
    let mut names = String::new();
    let mut values = String::new();
    for (position, value) in key {
        if !names.is_empty() {
            names.push_str(", ");
            values.push_str(", ");
        }
        let Some(column) = relation.columns.get(*position) else { continue };
        names.push_str(&column.name);
        match value {
            Datum::Null => values.push_str("null"),
            value => values.push_str(&to_text(value, column.column_type().oid, &settings)),
        }
    }
    format!("({names})=({values})")
}

/// An error of a table operation, with the relation's names.
#[cold]
pub(crate) fn of_table(error: TableError, relation: &Relation, state: &CatalogState) -> SqlError {
    let TableError::UniqueViolation(violation) = &error else { return error.into() };
    let detail = format!("Key {} already exists.", key_text(relation, &violation.key));
    let schema = state.schema(relation.schema).map(|s| s.name.clone()).unwrap_or_default();
    let constraint = violation.index_name.clone();
    SqlError::from(error)
        .with_detail(detail)
        .with_table(schema, relation.name.clone())
        .with_constraint(constraint)
}
