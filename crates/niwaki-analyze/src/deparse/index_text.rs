//! Writes indexes as the statements that make them: `pg_get_indexdef`.

use std::sync::Arc;

use niwaki_catalog::{
    CatalogState, IndexColumn, Relation, SearchPath, StoredExpression, collation_name,
};
use niwaki_parse::walk::each_node;
use niwaki_types::quote_identifier;
use pg_query::NodeEnum;

/// Returns the CREATE INDEX statement of an index; `None` when the relation is not an index.
pub fn index_definition_text(
    state: &CatalogState,
    relation: &Relation,
    path: &SearchPath,
) -> Option<String> {
    definition_text(state, relation, path, false)
}

/// Does the work of [`index_definition_text`], without needless brackets and schemas if `pretty`.
pub(crate) fn definition_text(
    state: &CatalogState,
    relation: &Relation,
    path: &SearchPath,
    pretty: bool,
) -> Option<String> {
    let index = relation.index.as_ref()?;
    let table = state.relation(index.table)?;
    let schema =
        state.schema(relation.schema).map_or_else(String::new, |s| quote_identifier(&s.name));
    let found = state.resolve(path, None, &table.name).ok().filter(|_| pretty);
    let schema = match found {
        Some(found) if found.oid == table.oid => String::new(),
        _ => format!("{schema}."),
    };
    let shown =
        |expression: &StoredExpression| expression_text(expression, table, state, path, pretty);
    let key: Vec<String> =
        index.key.iter().map(|key| key_text(key, (state, table), &shown)).collect();
    let mut text = format!(
        "CREATE {}INDEX {} ON {}{schema}{} USING btree ({})",
        if index.unique { "UNIQUE " } else { "" },
        quote_identifier(&relation.name),
        // Statements of their own make the partitions' indexes.
        if table.is_partitioned() { "ONLY " } else { "" },
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
        text.push_str(&format!(" WHERE {}", shown(predicate)));
    }
    Some(text)
}

/// Writes an expression with all brackets, or without the needless ones.
fn expression_text(
    expression: &StoredExpression,
    table: &Arc<Relation>,
    state: &CatalogState,
    path: &SearchPath,
    pretty: bool,
) -> String {
    let text =
        crate::deparse::expression::show(&expression.text, Some(table), None, state, path, pretty);
    text.unwrap_or_else(|_| expression.shown.clone())
}

/// Returns one key column of an index, by its number from 1; INCLUDE columns follow. `None` past
/// the end. Without needless brackets if `pretty`.
pub(crate) fn column_text(
    state: &CatalogState,
    relation: &Relation,
    number: usize,
    path: &SearchPath,
    pretty: bool,
) -> Option<String> {
    let index = relation.index.as_ref()?;
    let table = state.relation(index.table)?;
    let position = number.checked_sub(1)?;
    if let Some(key) = index.key.get(position) {
        let shown = |e: &StoredExpression| expression_text(e, table, state, path, pretty);
        return Some(key_source(key, table, &shown));
    }
    let column = index.include.get(position - index.key.len())?;
    Some(quote_identifier(&table.columns.get(usize::from(*column))?.name))
}

/// Writes an option; quotes values other than plain words and numbers, as PostgreSQL does.
fn option_text(name: &str, value: &str) -> String {
    let plain = quote_identifier(value) == value;
    format!(
        "{name}={}",
        if plain { value.to_owned() } else { format!("'{}'", value.replace('\'', "''")) }
    )
}

/// Writes a key in a form that the grammar accepts: a column, a call, or an expression in brackets.
fn key_source(
    key: &IndexColumn,
    table: &Relation,
    shown: &dyn Fn(&StoredExpression) -> String,
) -> String {
    match &key.expression {
        Some(expression) => {
            let text = shown(expression);
            if is_call(&text) || has_own_brackets(&text, expression) {
                text
            } else {
                format!("({text})")
            }
        }
        None => quote_identifier(key.shown(table)),
    }
}

/// Decides whether the grammar accepts the expression as a key without parentheses, which is true
/// for a function call.
fn is_call(text: &str) -> bool {
    text.ends_with(')')
        && text.split_once('(').is_some_and(|(name, _)| {
            !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "_.\"".contains(c))
        })
}

/// Decides whether the expression is a call with brackets in its own syntax: `(x AT TIME ZONE y)`.
fn has_own_brackets(shown: &str, expression: &StoredExpression) -> bool {
    let mut root = None;
    let read = each_node(&expression.text, |node| {
        root.get_or_insert(matches!(node, NodeEnum::FuncCall(_)));
    });
    shown.starts_with('(') && read.is_ok() && root == Some(true)
}

fn key_text(
    key: &IndexColumn,
    (state, table): (&CatalogState, &Relation),
    shown: &dyn Fn(&StoredExpression) -> String,
) -> String {
    let mut text = key_source(key, table, shown);
    let of_column = table.columns.get(usize::from(key.column));
    let of_expression = || key.expression.as_ref().and_then(|expression| expression.collation);
    let of_column = match of_column {
        Some(column) => state.column_collation(column),
        None => of_expression(),
    };
    let other = key.collation.filter(|own| of_column != Some(*own));
    if let Some(name) = other.and_then(collation_name) {
        text.push_str(&format!(" COLLATE {}", quote_identifier(name)));
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
