//! Database names in qualified names.

use niwaki_catalog::CatalogState;

use crate::error::{Result, SqlError};

/// Checks that the database qualifying a relation's name, if there is one, is the catalog's own.
///
/// # Errors
/// 0A000 for another database: a statement sees only its own database.
pub fn check_database(
    catalog: &CatalogState,
    database: Option<&str>,
    schema: Option<&str>,
    name: &str,
) -> Result<()> {
    let Some(given) = database else { return Ok(()) };
    if catalog.database().is_some_and(|own| own.name == given) {
        return Ok(());
    }
    let schema = schema.unwrap_or_default();
    let message =
        format!("cross-database references are not implemented: \"{given}.{schema}.{name}\"");
    Err(SqlError::new("0A000", message))
}
