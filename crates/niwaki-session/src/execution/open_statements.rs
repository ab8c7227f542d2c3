//! Open portals and prepared statements of a session, as `pg_cursors` and `pg_prepared_statements`
//! show them.

use niwaki_types::{Datum, TypeOid};

use crate::session::epoch::UNIX_TO_POSTGRES_US;
use crate::session::state::portals::Portals;
use crate::session::state::statements::Statements;

type Result<T> = niwaki_catalog::Result<T>;

/// The portals (cursors and others) and prepared statements of one session.
pub(crate) struct OpenStatements<'s> {
    pub(crate) portals: &'s Portals,
    pub(crate) statements: &'s Statements,
}

fn time(us: i64) -> Datum {
    Datum::TimestampTz(us - UNIX_TO_POSTGRES_US)
}

impl OpenStatements<'_> {
    pub(crate) fn cursor_rows(&self, row: &mut dyn FnMut(&[Datum]) -> Result<()>) -> Result<()> {
        for (name, portal) in self.portals.all() {
            row(&[
                Datum::text(name),
                Datum::text(portal.statement.text()),
                Datum::Bool(portal.kind.holds),
                Datum::Bool(portal.kind.binary),
                Datum::Bool(portal.kind.scrolls),
                time(portal.created_us),
            ])?;
        }
        Ok(())
    }

    pub(crate) fn statement_rows(&self, row: &mut dyn FnMut(&[Datum]) -> Result<()>) -> Result<()> {
        // The unnamed statement is not shown.
        for (name, named) in self.statements.with_names() {
            let types = named.statement.described.parameters.iter();
            let custom = u64::from(named.statement.custom.made());
            row(&[
                Datum::text(name),
                Datum::text(named.statement.text()),
                time(named.prepared_us),
                Datum::array(TypeOid::REGTYPE, types.map(|oid| Datum::Oid(oid.0))),
                Datum::Bool(named.from_sql),
                Datum::Int8(i64::try_from(named.runs.saturating_sub(custom)).unwrap_or(i64::MAX)),
                Datum::Int8(i64::try_from(custom).unwrap_or(i64::MAX)),
            ])?;
        }
        Ok(())
    }
}
