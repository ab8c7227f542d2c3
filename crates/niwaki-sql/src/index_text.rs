//! Indexes as the statements that make them: `pg_get_indexdef`.

use niwaki_catalog::{CatalogState, IndexColumn, Relation};

use crate::functions::quote_identifier;

/// The CREATE INDEX statement of an index; `None` when the relation is no index.
pub fn index_definition_text(state: &CatalogState, relation: &Relation) -> Option<String> {
    let index = relation.index.as_ref()?;
    let table = state.relation(index.table)?;
    let schema =
        state.schema(relation.schema).map_or_else(String::new, |s| quote_identifier(&s.name));
    let key: Vec<String> = index.key.iter().map(|key| key_text(key, table)).collect();
    let mut text = format!(
        "CREATE {}INDEX {} ON {schema}.{} USING btree ({})",
        if index.unique { "UNIQUE " } else { "" },
        quote_identifier(&relation.name),
        quote_identifier(&table.name),
        key.join(", ")
    );
    if !index.include.is_empty() {
        let include: Vec<String> = index
            .include
            .iter()
            .map(|c| {
                table
                    .columns
                    .get(usize::from(*c))
                    .map_or_else(String::new, |c| quote_identifier(&c.name))
            })
            .collect();
        text.push_str(&format!(" INCLUDE ({})", include.join(", ")));
    }
    if index.nulls_not_distinct {
        text.push_str(" NULLS NOT DISTINCT");
    }
    if !relation.options.0.is_empty() {
        let options: Vec<String> =
            relation.options.0.iter().map(|(name, value)| option_text(name, value)).collect();
        text.push_str(&format!(" WITH ({})", options.join(", ")));
    }
    if let Some(predicate) = &index.predicate {
        text.push_str(&format!(" WHERE {}", predicate.shown));
    }
    Some(text)
}

/// One key column of an index, by its number from 1; INCLUDE columns follow. `None` past the end.
pub fn index_column_text(
    state: &CatalogState,
    relation: &Relation,
    number: usize,
) -> Option<String> {
    let index = relation.index.as_ref()?;
    let table = state.relation(index.table)?;
    let position = number.checked_sub(1)?;
    if let Some(key) = index.key.get(position) {
        return Some(source_text(key, table));
    }
    let column = index.include.get(position - index.key.len())?;
    Some(quote_identifier(&table.columns.get(usize::from(*column))?.name))
}

/// Values that are no plain words or numbers are quoted, as PostgreSQL does.
fn option_text(name: &str, value: &str) -> String {
    let plain = quote_identifier(value) == value;
    format!(
        "{name}={}",
        if plain { value.to_owned() } else { format!("'{}'", value.replace('\'', "''")) }
    )
}

fn source_text(key: &IndexColumn, table: &Relation) -> String {
    match &key.expression {
        Some(expression) => expression.shown.clone(),
        None => quote_identifier(key.shown(table)),
    }
}

/// Whether the grammar takes the expression as a key without parentheses: a call of a function.
fn is_call(text: &str) -> bool {
    text.ends_with(')')
        && text.split_once('(').is_some_and(|(name, _)| {
            !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "_.\"".contains(c))
        })
}

fn key_text(key: &IndexColumn, table: &Relation) -> String {
    let mut text = source_text(key, table);
    if key.expression.is_some() && !is_call(&text) {
        text = format!("({text})");
    }
    if let Some(class) = &key.operator_class {
        text.push_str(&format!(" {class}"));
    }
    text.push_str(match (key.descending, key.nulls_first) {
        (false, false) => "",
        (false, true) => " NULLS FIRST",
        (true, true) => " DESC",
        (true, false) => " DESC NULLS LAST",
    });
    text
}
