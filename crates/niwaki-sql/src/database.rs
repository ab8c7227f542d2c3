//! The database in front of a name.

use niwaki_catalog::CatalogState;

use crate::error::{Result, SqlError};

/// Whether the database that a relation's name begins with, if it has one, is the one whose catalog this is.
///
/// # Errors
/// 0A000 when it is another one: statements see their own database alone.
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
