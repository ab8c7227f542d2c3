//! Rules that all columns of relations follow.

use niwaki_sql::types::{format_oid, is_polymorphic};
use niwaki_sql::walk::each_node;
use niwaki_sql::{Result, SqlError};
use niwaki_types::TypeOid;
use pg_query::NodeEnum;

/// Greatest number of columns of a table, as in PostgreSQL.
pub(crate) const COLUMNS_MAX: usize = 1600;

/// System columns, whose names no column of a table may have.
pub(crate) const SYSTEM_COLUMNS: &[&str] = &["ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"];

pub(crate) fn check_column_name(name: &str) -> Result<()> {
    if SYSTEM_COLUMNS.contains(&name) {
        return Err(SqlError::new(
            "42701",
            format!("column name \"{name}\" conflicts with a system column name"),
        ));
    }
    Ok(())
}

pub(crate) fn too_many_columns() -> SqlError {
    SqlError::new("54011", format!("tables can have at most {COLUMNS_MAX} columns"))
}

/// Refuses a subquery where only a plain expression may stand.
pub(crate) fn refuse_subquery(expression: &str, place: &str) -> Result<()> {
    let mut nested = false;
    each_node(expression, |node| nested |= matches!(node, NodeEnum::SubLink(_)))?;
    if nested {
        return Err(SqlError::new("0A000", format!("cannot use subquery in {place}")));
    }
    Ok(())
}

/// Refuses a column of a polymorphic type, which stands for other types.
pub(crate) fn refuse_pseudo(column: &str, oid: TypeOid) -> Result<()> {
    if is_polymorphic(oid) {
        let message = format!("column \"{column}\" has pseudo-type {}", format_oid(oid));
        return Err(SqlError::new("42P16", message));
    }
    Ok(())
}
