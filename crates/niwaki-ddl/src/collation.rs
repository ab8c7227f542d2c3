//! COLLATE clauses in definitions.

use niwaki_catalog::Oid;
use niwaki_session::shown_type;
use niwaki_sql::{Result, SqlError, refuse_uncollated};
use niwaki_types::ColumnType;

use crate::definer::Definer;

/// Returns the error for a definition that needs a collation, where the expression determines none.
pub(crate) fn undetermined(message: String) -> SqlError {
    SqlError::new("42P22", message)
        .with_hint("Use the COLLATE clause to set the collation explicitly.")
}

impl Definer<'_> {
    /// Returns the collation given to an object of this type in its stored form: `None` for the
    /// type's own.
    ///
    /// # Errors
    /// `42804` for a type whose values have no collation.
    pub(crate) fn collation(&mut self, given: Option<Oid>, of: ColumnType) -> Result<Option<Oid>> {
        let Some(given) = given else { return Ok(None) };
        let state = self.state();
        match state.own_collation(of) {
            Some(own) => Ok(Some(given).filter(|given| *given != own)),
            None => Err(refuse_uncollated(&shown_type(&self.session.types(), of.declared()))),
        }
    }
}
