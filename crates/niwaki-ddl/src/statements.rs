//! The statements that define, as a session calls them.

use niwaki_session::{Definitions, ResultSink, Session};
use niwaki_sql::utility::{CreateTableAs, Utility};
use niwaki_sql::{Result, SqlError};
use niwaki_types::{Datum, TypeOid};

use crate::definer::{self, Definer};
use crate::table::create_as::create_table_as;

/// The code of the statements that define, for the sessions of a program.
#[derive(Clone, Copy, Debug)]
pub struct DataDefinition;

impl Definitions<Session> for DataDefinition {
    fn run(
        &self,
        session: &mut Session,
        utility: &Utility,
        source: &str,
        out: &mut dyn ResultSink,
    ) -> Result<&'static str> {
        definer::run(session, utility, source, out)
    }

    fn run_in_steps(
        &self,
        session: &mut Session,
        utility: &Utility,
        out: &mut dyn ResultSink,
    ) -> Result<&'static str> {
        let mut definer = Definer { session, out };
        match utility {
            Utility::CreateIndex(spec) => {
                definer.create_index_concurrently(spec)?;
                Ok("CREATE INDEX")
            }
            Utility::Drop(spec) => {
                definer.drop_index_concurrently(spec)?;
                Ok("DROP INDEX")
            }
            Utility::Reindex(spec) => {
                definer.reindex_in_steps(spec)?;
                Ok("REINDEX")
            }
            _ => Err(SqlError::internal("not a statement with transactions of its own")),
        }
    }

    fn create_table_as(
        &self,
        session: &mut Session,
        spec: &CreateTableAs,
        source: &str,
        parameters: &[(TypeOid, Datum)],
        out: &mut dyn ResultSink,
    ) -> Result<Option<u64>> {
        create_table_as(session, spec, source, parameters, out)
    }
}
