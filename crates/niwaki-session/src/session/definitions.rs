//! The statements that define, as a session calls them.
//!
//! The crate that runs these statements lies above this one, because their code needs the session.
//! The opener of a session passes that code on as [`Definitions`].

use niwaki_sql::Result;
use niwaki_sql::utility::{CreateTableAs, Utility};
use niwaki_types::{Datum, TypeOid};

use crate::result::ResultSink;

/// Runs the statements that define, for sessions of the type `S`.
pub trait Definitions<S>: Send + Sync {
    /// Runs a statement in the open transaction. `source` is its text. Returns its command tag.
    ///
    /// # Errors
    /// Any error of the statement.
    fn run(
        &self,
        session: &mut S,
        utility: &Utility,
        source: &str,
        out: &mut dyn ResultSink,
    ) -> Result<&'static str>;

    /// Runs CREATE INDEX, DROP INDEX or REINDEX with transactions of its own. No transaction is
    /// open. Returns the command tag.
    ///
    /// # Errors
    /// Any error of the statement. Its earlier steps stay done.
    fn run_in_steps(
        &self,
        session: &mut S,
        utility: &Utility,
        out: &mut dyn ResultSink,
    ) -> Result<&'static str>;

    /// Runs CREATE TABLE AS or CREATE MATERIALIZED VIEW, whose text is `source`. `parameters` are
    /// types and values of the parameters in its query. Returns the number of rows, or `None` if
    /// the statement stores no rows.
    ///
    /// # Errors
    /// Any error of the statement or of its query.
    fn create_table_as(
        &self,
        session: &mut S,
        spec: &CreateTableAs,
        source: &str,
        parameters: &[(TypeOid, Datum)],
        out: &mut dyn ResultSink,
    ) -> Result<Option<u64>>;
}
