//! Cursors, and statements run by EXECUTE.

use std::sync::Arc;

use niwaki_sql::parse::ParsedStatement;
use niwaki_sql::utility::FetchCount;
use niwaki_sql::{ColumnInfo, Progress, RowSink, SqlError};
use niwaki_types::{Datum, TypeOid};
use pg_query::NodeEnum;

use super::extended::{Action, PortalState, Statement};
use super::{Block, Session};
use crate::Result;
use crate::result::ResultSink;

/// A statement inside another one, with the positions of the whole text.
pub(super) fn statement_of(node: &Arc<NodeEnum>, source: &str) -> ParsedStatement {
    let source: Arc<str> = Arc::from(source);
    let end = source.len();
    ParsedStatement { node: Arc::clone(node), source, start: 0, end }
}

/// Counts rows, and passes them on unless they are to be skipped.
struct Counting<'o> {
    out: Option<&'o mut dyn RowSink>,
    rows: u64,
}

impl RowSink for Counting<'_> {
    fn row(&mut self, row: &[Datum]) -> Result<()> {
        self.rows += 1;
        match &mut self.out {
            Some(out) => out.row(row),
            None => Ok(()),
        }
    }
}

impl Session {
    /// Runs a prepared statement to its end and leaves its tag in `self.tag`.
    pub(super) fn run_prepared(
        &mut self,
        statement: Arc<Statement>,
        parameters: Vec<Datum>,
        out: &mut dyn ResultSink,
    ) -> Result<()> {
        match &statement.action {
            Action::Empty => {
                self.tag.clear();
                Ok(())
            }
            Action::Utility(_) => Err(SqlError::unsupported("EXECUTE of a utility statement")),
            Action::Query(_) => {
                let mut portal = self.new_portal(statement, parameters);
                let planned = self.lock_portal(&mut portal)?;
                let completion = self.run_planned(&planned, &portal.parameters, out)?;
                completion.write_tag(&mut self.tag);
                Ok(())
            }
        }
    }

    pub(super) fn declare_cursor(
        &mut self,
        name: &str,
        query: &Arc<NodeEnum>,
        parameters: &[(TypeOid, Datum)],
        source: &str,
    ) -> Result<()> {
        if self.block != Block::Explicit {
            return Err(SqlError::new(
                "25P01",
                "DECLARE CURSOR can only be used in transaction blocks",
            ));
        }
        if self.portals.contains_key(name) {
            return Err(SqlError::new("42P03", format!("cursor \"{name}\" already exists")));
        }
        let (types, values) = parameters.iter().cloned().unzip();
        let statement = self.prepare_parsed(Some(statement_of(query, source)), types)?;
        if statement.described.columns.is_none() {
            return Err(SqlError::new("42601", "DECLARE CURSOR needs a SELECT"));
        }
        if matches!(&statement.action, Action::Query(planned) if planned.changes_in_with()) {
            let message = "DECLARE CURSOR must not contain data-modifying statements in WITH";
            return Err(SqlError::new("0A000", message));
        }
        let mut portal = self.new_portal(Arc::new(statement), values);
        // A cursor sees what was there when it was declared.
        self.start_portal(&mut portal)?;
        portal.state = PortalState::Suspended;
        self.portals.insert(name.to_owned(), portal);
        Ok(())
    }

    pub(super) fn cursor_columns(&self, name: &str) -> Result<Option<Arc<[ColumnInfo]>>> {
        let portal = self.portals.get(name).ok_or_else(|| no_cursor(name))?;
        Ok(portal.statement.described.columns.clone())
    }

    pub(super) fn fetch_cursor(
        &mut self,
        name: &str,
        count: FetchCount,
        is_move: bool,
        out: &mut dyn ResultSink,
    ) -> Result<u64> {
        let (key, mut portal) = self.portals.remove_entry(name).ok_or_else(|| no_cursor(name))?;
        let rows: &mut dyn RowSink = out;
        let mut counting = Counting { out: if is_move { None } else { Some(rows) }, rows: 0 };
        let limit = match count {
            FetchCount::All => 0,
            FetchCount::Rows(0) => {
                self.portals.insert(key, portal);
                return Ok(0);
            }
            FetchCount::Rows(n) => n,
        };
        if portal.state == PortalState::Suspended
            && let Some(running) = portal.running.as_mut()
            && let Progress::Complete(_) = self.advance(running, limit, &mut counting)?
        {
            portal.state = PortalState::Done;
            portal.running = None;
        }
        let fetched = counting.rows;
        self.portals.insert(key, portal);
        Ok(fetched)
    }

    pub(super) fn close_cursor(&mut self, name: Option<&str>) -> Result<&'static str> {
        let Some(name) = name else {
            self.portals.clear();
            return Ok("CLOSE CURSOR ALL");
        };
        if self.portals.remove(name).is_none() {
            return Err(no_cursor(name));
        }
        Ok("CLOSE CURSOR")
    }
}

fn no_cursor(name: &str) -> SqlError {
    SqlError::new("34000", format!("cursor \"{name}\" does not exist"))
}
