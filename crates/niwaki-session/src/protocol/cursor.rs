//! Cursors: DECLARE, FETCH, MOVE and CLOSE, and their fate at the end of a transaction.

use std::sync::Arc;

use niwaki_sql::utility::{DeclareCursor, Fetch, Utility};
use niwaki_sql::{ColumnInfo, Result, RowSink, SqlError};
use niwaki_types::{Datum, TypeOid};

use crate::execution::current_row::no_cursor;
use crate::result::ResultSink;
use crate::session::handle::Session;
use crate::session::portal::{CursorKind, Portal, PortalState, cannot_be_run};
use crate::session::state::block::Block;
use crate::session::statement::{Statement, statement_of};

impl Session {
    /// Runs DECLARE. `several` is set for one of several statements in a query string, which form a
    /// block.
    pub(crate) fn declare_cursor(
        &mut self,
        declared: &DeclareCursor,
        parameters: &[(TypeOid, Datum)],
        source: &str,
        several: bool,
    ) -> Result<()> {
        let name = &declared.name;
        if !declared.hold && self.block.state() != Block::Explicit && !several {
            return Err(SqlError::new(
                "25P01",
                "DECLARE CURSOR can only be used in transaction blocks",
            ));
        }
        let (types, values): (Vec<TypeOid>, Vec<Datum>) = parameters.iter().cloned().unzip();
        let parsed = statement_of(&declared.query, source);
        if niwaki_sql::utility::read(&parsed.node, &parsed.source)?.is_some() {
            return Err(SqlError::new("42601", "DECLARE CURSOR needs a SELECT"));
        }
        self.refuse_in_failed_block()?;
        self.ensure_transaction()?;
        let planned = self.plan_until_locked(|context| {
            niwaki_sql::analyze_for_cursor(&parsed, context, &types, &values)
        })?;
        if planned.changes_in_with() {
            let message = "DECLARE CURSOR must not contain data-modifying statements in WITH";
            return Err(SqlError::new("0A000", message));
        }
        declared.check_locks()?;
        if self.portals.is_open(name) || self.portals.is_running(name) {
            return Err(SqlError::new("42P03", format!("cursor \"{name}\" already exists")));
        }
        let by_itself = planned.goes_backward() && !planned.locks_rows();
        let scrolls = declared.scroll.unwrap_or(by_itself);
        // Hashed rows may come in another order the second time.
        let repeatable = !planned.is_volatile() && planned.goes_backward();
        let version = self.plan_version();
        let statement = Statement::of_query(parsed, types, planned, version);
        let mut portal = self.new_portal(Arc::new(statement), values);
        portal.kind = CursorKind { scrolls, holds: declared.hold, binary: declared.binary };
        // The snapshot of a cursor dates from its declaration.
        self.start_portal(&mut portal)?;
        if scrolls && !repeatable {
            self.keep_rows(&mut portal);
        }
        self.portals.insert(name.clone(), portal);
        Ok(())
    }

    pub(crate) fn cursor_columns(&self, name: &str) -> Option<Arc<[ColumnInfo]>> {
        self.portals.get(name)?.statement.described.columns.clone()
    }

    /// Returns whether the statement gives rows of a BINARY cursor.
    pub(crate) fn gives_binary(&self, utility: &Utility) -> bool {
        let Utility::Fetch(fetch) = utility else { return false };
        self.portals.get(&fetch.name).is_some_and(|portal| portal.kind.binary)
    }

    /// Runs FETCH and MOVE. Returns the number of rows.
    pub(crate) fn fetch_cursor(&mut self, fetch: &Fetch, out: &mut dyn ResultSink) -> Result<u64> {
        let name = &fetch.name;
        if self.portals.is_running(name) {
            return Err(cannot_be_run(name));
        }
        let (key, mut portal) = self.portals.take(name).ok_or_else(|| no_cursor(name))?;
        self.portals.begin(key);
        let rows: &mut dyn RowSink = out;
        let out = if fetch.is_move { None } else { Some(rows) };
        let fetched = match portal.check_usable(name) {
            Ok(()) => self.fetch(&mut portal, fetch.to, out),
            Err(error) => Err(error),
        };
        self.put_back(portal, fetched.is_err());
        fetched
    }

    /// Runs CLOSE. Returns its tag.
    pub(crate) fn close_cursor(&mut self, name: Option<&str>) -> Result<&'static str> {
        let Some(name) = name else {
            self.portals.close_all();
            return Ok("CLOSE CURSOR ALL");
        };
        if self.portals.is_running(name) {
            let message = format!("cannot drop active portal \"{name}\"");
            return Err(SqlError::new("24000", message));
        }
        if !self.portals.close(name) {
            return Err(no_cursor(name));
        }
        Ok("CLOSE CURSOR")
    }

    /// Makes the cursors WITH HOLD outlive the transaction, which is about to be committed.
    ///
    /// # Errors
    /// Errors from computing the rows. The transaction cannot be committed then.
    pub(crate) fn hold_cursors(&mut self) -> Result<()> {
        let waits = |portal: &Portal| {
            let usable = !matches!(portal.state, PortalState::Ready | PortalState::Failed);
            portal.kind.holds && !portal.held && usable
        };
        let names: Vec<String> = self
            .portals
            .all()
            .filter(|(_, portal)| waits(portal))
            .map(|(n, _)| n.clone())
            .collect();
        for name in names {
            let Some((name, mut portal)) = self.portals.take(&name) else { continue };
            self.hold(&mut portal)?;
            self.portals.insert(name, portal);
        }
        Ok(())
    }
}
