//! Names of objects, and objects by their names.

use niwaki_catalog::{CatalogState, Oid, Relation, builtin_functions};
use niwaki_sql::walk::each_node;
use pg_query::NodeEnum;

use niwaki_sql::Result;

/// Returns the name of a schema; an empty one when the schema is gone.
pub fn schema_name(state: &CatalogState, oid: Oid) -> String {
    state.schema(oid).map(|s| s.name.clone()).unwrap_or_default()
}

/// Returns the number of the function of this name, which must be unique.
pub(crate) fn builtin_function(name: &str) -> u32 {
    builtin_functions().named(name).next().map_or(0, |function| function.oid)
}

/// Returns the names of the columns that an expression reads, once for each reference.
///
/// # Errors
/// Errors of the grammar.
pub fn columns_of_expression(expression: &str) -> Result<Vec<String>> {
    let mut names = Vec::new();
    each_node(expression, |node| {
        if let NodeEnum::ColumnRef(column) = node
            && let Some(NodeEnum::String(s)) = column.fields.last().and_then(|n| n.node.as_ref())
        {
            names.push((column.location, s.sval.clone()));
        }
    })?;
    // Nodes are not visited in the order of the text.
    names.sort_by_key(|(location, _)| *location);
    Ok(names.into_iter().map(|(_, name)| name).collect())
}

/// Returns the numbers of the table's columns that an expression reads, in its order.
pub(crate) fn columns_read(table: &Relation, expression: &str) -> Vec<usize> {
    let names = columns_of_expression(expression);
    let mut columns = Vec::new();
    for name in names.unwrap_or_default() {
        if let Some(at) = table.column_position(&name)
            && !columns.contains(&(at + 1))
        {
            columns.push(at + 1);
        }
    }
    columns
}
