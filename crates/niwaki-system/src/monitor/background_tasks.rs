//! `niwaki_background_tasks`: the failures of the database's background tasks.

use niwaki_catalog::Result;
use niwaki_table::Engine;
use niwaki_types::{Datum, TypeOid};

/// Name of the view.
pub const TASKS: &str = "niwaki_background_tasks";

/// The view's columns.
pub(crate) const COLUMNS: &[(&str, TypeOid)] = &[
    ("task", TypeOid::TEXT),
    ("failures", TypeOid::INT8),
    ("is_failing", TypeOid::BOOL),
    ("last_error", TypeOid::TEXT),
];

/// Gives one row for each task that has failed since the database was opened.
///
/// # Errors
/// The errors of `row`.
pub fn rows(engine: &Engine, row: &mut dyn FnMut(&[Datum]) -> Result<()>) -> Result<()> {
    for (name, task) in engine.storage().background_failures() {
        row(&[
            Datum::text(name),
            Datum::Int8(i64::try_from(task.failures).unwrap_or(i64::MAX)),
            Datum::Bool(task.is_failing),
            Datum::text(&task.last_error),
        ])?;
    }
    Ok(())
}
