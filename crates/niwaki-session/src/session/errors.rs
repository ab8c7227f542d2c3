//! Errors of tables as clients see them, with names and values.

use std::sync::Arc;

use niwaki_catalog::{CatalogState, Relation};
use niwaki_sql::SqlError;
use niwaki_table::{Error as TableError, UniqueViolation};
use niwaki_types::{Datum, TextSettings, to_text};

/// Returns a key as column names and values, such as `(a, b)=(1, x)`. `None` when the values are
/// not known.
pub fn key_text(
    relation: &Relation,
    violation: &UniqueViolation,
    state: &CatalogState,
) -> Option<String> {
    let index = relation.indexes.get(violation.index).filter(|_| !violation.key.is_empty())?;
    let types = Arc::clone(state.types_of_values());
    let settings = TextSettings { types, ..TextSettings::default() };
    let mut names = String::new();
    let mut values = String::new();
    for (column, value) in index.definition.key.iter().zip(&violation.key) {
        if !names.is_empty() {
            names.push_str(", ");
            values.push_str(", ");
        }
        names.push_str(column.shown(relation));
        match value {
            Datum::Null => values.push_str("null"),
            value => values.push_str(&to_text(value, column.type_oid(relation), &settings)),
        }
    }
    Some(format!("({names})=({values})"))
}

/// Converts an error of a table operation, and adds the relation's names.
#[cold]
pub fn of_table(error: TableError, relation: &Relation, state: &CatalogState) -> SqlError {
    let TableError::UniqueViolation(violation) = &error else { return error.into() };
    let detail =
        key_text(relation, violation, state).map(|key| format!("Key {key} already exists."));
    let schema = state.schema(relation.schema).map(|s| s.name.clone()).unwrap_or_default();
    let constraint = violation.index_name.clone();
    let mut error = SqlError::from(error);
    error.detail = detail;
    error.with_table(schema, relation.name.clone()).with_constraint(constraint)
}
