//! Temporary tables and sequences, in a schema of one session, which are dropped when the session
//! ends.

use niwaki_catalog::Oid;
use niwaki_sql::utility::{CreateTable, Name, OnCommit, Persistence};
use niwaki_sql::{Result, SqlError};

use crate::definer::Definer;

impl Definer<'_> {
    /// Returns the schema of the session's temporary relations, for a new one of this name.
    pub(crate) fn temporary_schema(&mut self, name: &Name) -> Result<Oid> {
        let own = self.session.temporary_schema();
        match &name.schema {
            Some(given) if self.state().schema_by_name(given).is_none_or(|s| s.oid != own) => {
                let message = "cannot create temporary relation in non-temporary schema";
                Err(SqlError::new("42P16", message).with_position(name.position))
            }
            _ => Ok(own),
        }
    }

    /// Returns whether changes of a new relation are logged in the WAL.
    pub(crate) fn is_logged(&mut self, schema: Oid, persistence: Persistence) -> bool {
        persistence == Persistence::Permanent && self.state().temporary_schema() != Some(schema)
    }

    /// Remembers the ON COMMIT action of a new table.
    pub(crate) fn note_on_commit(&mut self, oid: Oid, spec: &CreateTable) -> Result<()> {
        match spec.on_commit {
            Some(_) if spec.persistence != Persistence::Temporary => {
                Err(SqlError::new("42P16", "ON COMMIT can only be used on temporary tables"))
            }
            None | Some(OnCommit::PreserveRows) => Ok(()),
            Some(action) => {
                self.session.note_on_commit(oid, action);
                Ok(())
            }
        }
    }
}
