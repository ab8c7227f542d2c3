//! The methods by which a server drives a session, message by message.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use niwaki_directory::notifications::Notification;
use niwaki_session::{ExecuteOutcome, Prepared, ResultFormats, ResultSink, Terminator};
use niwaki_sql::{ColumnInfo, Result, SqlError};
use niwaki_txn::SessionControl;
use niwaki_types::{Datum, TextSettings, TypeOid};

use crate::session::Session;

impl Session {
    /// Returns `b'I'` when idle, `b'T'` in a transaction block, and `b'E'` in a failed one.
    #[inline]
    pub fn transaction_status(&self) -> u8 {
        self.inner.transaction_status()
    }

    /// Returns the session as locks and interrupts know it: to cancel it, to terminate it, to wait.
    #[inline]
    pub fn control(&self) -> &Arc<SessionControl> {
        self.inner.control()
    }

    /// Returns a handle by which another thread ends this session (57P01), whatever it does.
    #[inline]
    pub fn terminator(&self) -> Terminator {
        self.inner.terminator()
    }

    /// Registers `wake`, which another thread calls when this session is told to end. If that has
    /// already happened, `wake` is called at once. It ends a wait for the session's client, and
    /// must not block.
    #[inline]
    pub fn when_terminated(&self, wake: impl Fn() + Send + Sync + 'static) {
        self.inner.when_terminated(wake);
    }

    /// Records where the session's client comes from, for `pg_stat_activity`: an address and port,
    /// or a Unix-domain socket (`None`), which has neither.
    #[inline]
    pub fn set_client(&self, address: Option<(IpAddr, u16)>) {
        self.inner.set_client(address);
    }

    /// Returns whether the session was asked to end: shutdown, `pg_terminate_backend`.
    #[inline]
    pub fn is_terminated(&self) -> bool {
        self.inner.is_terminated()
    }

    /// Returns the session's number, which `pg_backend_pid()` and `BackendKeyData` give.
    #[inline]
    pub fn id(&self) -> i32 {
        self.inner.id()
    }

    /// Returns the secret of this session's cancel key.
    #[inline]
    pub fn secret(&self) -> u32 {
        self.inner.secret()
    }

    /// Returns names and values of the settings that a client gets at the start.
    #[inline]
    pub fn reported_settings(&mut self) -> Vec<(&'static str, String)> {
        self.inner.reported_settings()
    }

    /// Returns the settings by which values are shown as text now.
    #[inline]
    pub fn text_settings(&self) -> &TextSettings {
        self.inner.text_settings()
    }

    /// Returns the time for which the client may stay silent now. It is
    /// `idle_in_transaction_session_timeout` inside a transaction and `idle_session_timeout`
    /// outside. `None` means for ever.
    #[inline]
    pub fn idle_timeout(&self) -> Option<Duration> {
        self.inner.idle_timeout()
    }

    /// Returns the error for a client that stayed silent for longer than [`Session::idle_timeout`]
    /// (25P03 or 57P05).
    #[inline]
    pub fn idle_timeout_error(&self) -> SqlError {
        self.inner.idle_timeout_error()
    }

    /// Takes over the user-defined types, as the current catalog and search path have and name
    /// them.
    #[inline]
    pub fn refresh_types(&mut self) {
        self.inner.refresh_types();
    }

    /// Tells the sink which reported settings changed since the last report. A client gets each
    /// change once, before the server asks for its next query.
    #[inline]
    pub fn report_settings(&mut self, out: &mut dyn ResultSink) {
        self.inner.report_settings(out);
    }

    /// Refuses everything while the transaction block is failed.
    ///
    /// # Errors
    /// 25P02.
    #[inline]
    pub fn refuse_in_failed_block(&self) -> Result<()> {
        self.inner.refuse_in_failed_block()
    }

    /// Records that a statement or message failed. An open transaction block is failed (25P02) from
    /// now on. An implicit transaction is rolled back.
    #[inline]
    pub fn error(&mut self) {
        self.inner.error();
    }

    /// Runs a query string of any number of statements. They share one implicit transaction unless
    /// the string says otherwise. A failure ends the string.
    ///
    /// # Errors
    /// The error of the failed statement. The caller reports it and calls [`Session::error`].
    #[inline]
    pub fn simple_query(&mut self, sql: &str, out: &mut dyn ResultSink) -> Result<()> {
        self.inner.simple_query(sql, out)
    }

    /// Prepares a statement under a name. A new unnamed statement replaces the old one.
    /// `param_types` may be shorter than the list of parameters, and holds 0 where the type is to
    /// be inferred.
    ///
    /// # Errors
    /// Errors of syntax and analysis, and 42P05 when the name is taken.
    #[inline]
    pub fn parse(&mut self, name: &str, sql: &str, param_types: &[u32]) -> Result<()> {
        self.inner.parse(name, sql, param_types)
    }

    /// Returns the description of a prepared statement.
    ///
    /// # Errors
    /// 26000 when no statement has this name.
    #[inline]
    pub fn statement(&mut self, name: &str) -> Result<&Prepared> {
        self.inner.statement(name)
    }

    /// Makes a portal of a prepared statement. `parameter` is called once for each parameter in
    /// order, with its number from 0 and its type. It may return an object's name where the
    /// object's number is wanted.
    ///
    /// # Errors
    /// 26000, 08P01 when `count` is not the statement's number of parameters, 42P03 when the portal
    /// exists, and errors of `parameter`.
    #[inline]
    pub fn bind(
        &mut self,
        portal: &str,
        statement: &str,
        parameter: &mut dyn FnMut(usize, TypeOid) -> Result<Datum>,
        count: usize,
    ) -> Result<()> {
        self.inner.bind(portal, statement, parameter, count)
    }

    /// Returns the columns of a portal's result. Empty when it returns no rows.
    ///
    /// # Errors
    /// 34000 when there is no such portal.
    #[inline]
    pub fn portal_columns(&self, portal: &str) -> Result<&[ColumnInfo]> {
        self.inner.portal_columns(portal)
    }

    /// Returns whether a portal's statement returns rows at all. (A row description may have no
    /// columns.)
    ///
    /// # Errors
    /// 34000 when there is no such portal.
    #[inline]
    pub fn portal_returns_rows(&self, portal: &str) -> Result<bool> {
        self.inner.portal_returns_rows(portal)
    }

    /// Returns the formats in which a client wants the rows of a portal. A cursor has text format,
    /// because no Bind message made it.
    ///
    /// # Errors
    /// 34000 when there is no such portal.
    #[inline]
    pub fn portal_formats(&self, portal: &str) -> Result<&ResultFormats> {
        self.inner.portal_formats(portal)
    }

    /// Sets the formats in which a client wants the rows of a portal.
    ///
    /// # Errors
    /// 34000 when there is no such portal.
    #[inline]
    pub fn set_portal_formats(&mut self, portal: &str, formats: ResultFormats) -> Result<()> {
        self.inner.set_portal_formats(portal, formats)
    }

    /// Runs a portal, or continues it, up to `max_rows` rows (0: all).
    ///
    /// # Errors
    /// 34000, and errors of the statement.
    #[inline]
    pub fn execute_portal(
        &mut self,
        portal: &str,
        max_rows: u64,
        out: &mut dyn ResultSink,
    ) -> Result<ExecuteOutcome> {
        self.inner.execute_portal(portal, max_rows, out)
    }

    /// Forgets a prepared statement. A name without a statement is no error.
    #[inline]
    pub fn close_statement(&mut self, name: &str) {
        self.inner.close_statement(name);
    }

    /// Forgets a portal. A name without a portal is no error.
    #[inline]
    pub fn close_portal(&mut self, name: &str) {
        self.inner.close_portal(name);
    }

    /// Ends the implicit transaction of the messages since the last call. It commits, or rolls back
    /// after [`Session::error`].
    ///
    /// # Errors
    /// Errors of the commit.
    #[inline]
    pub fn sync(&mut self, out: &mut dyn ResultSink) -> Result<()> {
        self.inner.sync(out)
    }

    /// Takes the next message on a channel that this session listens to. Returns `None` while a
    /// transaction is open: other sessions' messages do not change what a transaction sees.
    #[inline]
    pub fn take_notification(&mut self) -> Option<Notification> {
        self.inner.take_notification()
    }

    /// Waits for the next message, at most for `timeout`. Returns `None` when no message came.
    ///
    /// # Errors
    /// 57014 when the wait is cancelled, 57P01 when the session is to end.
    #[inline]
    pub fn wait_for_notification(&mut self, timeout: Duration) -> Result<Option<Notification>> {
        self.inner.wait_for_notification(timeout)
    }

    /// Returns whether this session listens to some channel, or has listened to one.
    #[inline]
    pub fn has_listened(&self) -> bool {
        self.inner.has_listened()
    }

    /// Registers `wake`, which the sender's thread calls when a message can be taken. `wake` must
    /// not block. It is called from the first committed LISTEN until the session ends.
    #[inline]
    pub fn wake_by(&self, wake: Arc<dyn Fn() + Send + Sync>) {
        self.inner.wake_by(wake);
    }
}
