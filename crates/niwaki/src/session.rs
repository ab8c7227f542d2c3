//! A session: one user's statements, one after the other, with settings, prepared statements, portals
//! and at most one transaction.

use std::sync::Arc;
use std::time::Duration;

use niwaki_sql::{ColumnInfo, SqlError};
use niwaki_types::{Datum, TypeOid};

use crate::Result;
use crate::database::Database;
use crate::result::{ExecuteOutcome, ResultSink};

/// A prepared statement, as Describe shows it.
pub struct Prepared {
    /// Types of the parameters `$1`, `$2`, ….
    pub parameters: Vec<TypeOid>,
    /// Columns of the result; `None` when the statement returns no rows.
    pub columns: Option<Arc<[ColumnInfo]>>,
}

/// One session. It belongs to one thread at a time.
pub struct Session {
    database: Database,
    text: niwaki_types::TextSettings,
}

/// Ends a session from another thread.
#[derive(Clone, Debug)]
pub struct Terminator {}

impl Terminator {
    /// Asks the session to end; what it runs is interrupted.
    pub fn terminate(&self) {}
}

impl Session {
    pub(crate) fn new(database: Database) -> Self {
        Self { database, text: niwaki_types::TextSettings::default() }
    }

    /// Runs a query string of any number of statements, in one implicit transaction unless it says
    /// otherwise; a failure ends it.
    ///
    /// # Errors
    /// The failed statement's. The open transaction is in the failed state already.
    pub fn simple_query(&mut self, sql: &str, out: &mut dyn ResultSink) -> Result<()> {
        let _ = (sql, out);
        Err(SqlError::unsupported("simple query"))
    }

    /// Prepares a statement under a name; the unnamed one is replaced. `param_types` may be shorter
    /// than the parameters, and hold 0 where the type is to be inferred.
    ///
    /// # Errors
    /// Syntax, analysis; 42P05 when the name is taken.
    pub fn parse(&mut self, name: &str, sql: &str, param_types: &[u32]) -> Result<()> {
        let _ = (name, sql, param_types);
        Err(SqlError::unsupported("parse"))
    }

    /// A prepared statement.
    ///
    /// # Errors
    /// 26000 when there is none of this name.
    pub fn statement(&mut self, name: &str) -> Result<&Prepared> {
        Err(no_statement(name))
    }

    /// Makes a portal of a prepared statement. `parameter` is called once for each parameter in
    /// order, with its number from 0 and its type.
    ///
    /// # Errors
    /// 26000, 08P01 when `count` is not the statement's, 42P03 when the portal exists, `parameter`'s.
    pub fn bind(
        &mut self,
        portal: &str,
        statement: &str,
        parameter: &mut dyn FnMut(usize, TypeOid) -> Result<Datum>,
        count: usize,
    ) -> Result<()> {
        let _ = (portal, parameter, count);
        Err(no_statement(statement))
    }

    /// Columns of a portal's result; empty when it returns no rows.
    ///
    /// # Errors
    /// 34000 when there is no such portal.
    pub fn portal_columns(&self, portal: &str) -> Result<&[ColumnInfo]> {
        Err(no_portal(portal))
    }

    /// Whether a portal's statement returns rows at all (a row description without columns exists).
    ///
    /// # Errors
    /// 34000 when there is no such portal.
    pub fn portal_returns_rows(&self, portal: &str) -> Result<bool> {
        Err(no_portal(portal))
    }

    /// Runs a portal, or goes on with it, up to `max_rows` rows (0: all).
    ///
    /// # Errors
    /// 34000, and the statement's.
    pub fn execute_portal(
        &mut self,
        portal: &str,
        max_rows: u64,
        out: &mut dyn ResultSink,
    ) -> Result<ExecuteOutcome> {
        let _ = (max_rows, out);
        Err(no_portal(portal))
    }

    /// Forgets a prepared statement; none of this name is no error.
    pub fn close_statement(&mut self, name: &str) {
        let _ = name;
    }

    /// Forgets a portal; none of this name is no error.
    pub fn close_portal(&mut self, name: &str) {
        let _ = name;
    }

    /// Ends the implicit transaction of the messages since the last call: commits, or rolls back
    /// after [`Session::error`].
    ///
    /// # Errors
    /// The commit's.
    pub fn sync(&mut self, out: &mut dyn ResultSink) -> Result<()> {
        let _ = out;
        Ok(())
    }

    /// A message failed: an open transaction block is in the failed state (25P02) from now on, an
    /// implicit transaction is rolled back.
    pub fn error(&mut self) {}

    /// `b'I'` idle, `b'T'` in a transaction block, `b'E'` in a failed one.
    pub fn transaction_status(&self) -> u8 {
        b'I'
    }

    /// This session's number, as `pg_backend_pid()` gives it and BackendKeyData names it.
    pub fn id(&self) -> i32 {
        0
    }

    /// The secret of this session's cancel key.
    pub fn secret(&self) -> u32 {
        0
    }

    /// A handle by which another thread ends this session (57P01), whatever it does.
    pub fn terminator(&self) -> Terminator {
        Terminator {}
    }

    /// Whether somebody asked for the end of this session: shutdown, `pg_terminate_backend`.
    pub fn is_terminated(&self) -> bool {
        false
    }

    /// How values are shown as text and read from it now.
    pub fn text_settings(&self) -> &niwaki_types::TextSettings {
        &self.text
    }

    /// Names and values of the settings that a client is told at start.
    pub fn reported_settings(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// How long the client may stay silent now (`idle_in_transaction_session_timeout` inside a
    /// transaction, `idle_session_timeout` outside); `None`: for ever.
    pub fn idle_timeout(&self) -> Option<Duration> {
        None
    }

    /// What to tell a client that stayed silent for longer than [`Session::idle_timeout`] (25P03 or
    /// 57P05).
    pub fn idle_timeout_error(&self) -> SqlError {
        if self.transaction_status() == b'I' {
            SqlError::new("57P05", "terminating connection due to idle-session timeout")
        } else {
            SqlError::new("25P03", "terminating connection due to idle-in-transaction timeout")
        }
    }

    /// The database.
    pub fn database(&self) -> &Database {
        &self.database
    }
}

fn no_statement(name: &str) -> SqlError {
    if name.is_empty() {
        return SqlError::new("26000", "unnamed prepared statement does not exist");
    }
    SqlError::new("26000", format!("prepared statement \"{name}\" does not exist"))
}

fn no_portal(name: &str) -> SqlError {
    SqlError::new("34000", format!("portal \"{name}\" does not exist"))
}
