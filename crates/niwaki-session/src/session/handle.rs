//! One user's session: statements run one after the other, with settings, prepared statements,
//! portals and at most one transaction.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use niwaki_background::vacuum_options::by_settings;
use niwaki_catalog::{Catalog, CatalogState, CatalogTransaction, Oid};
use niwaki_directory::open_database::Connection;
use niwaki_sql::settings::Settings;
use niwaki_sql::{Result, Severity, SqlError};
use niwaki_storage::ReadAhead;
use niwaki_system::monitor::activity::{BackendType, State};
use niwaki_system::monitor::progress::{Build, ProgressEntry};
use niwaki_table::{Engine, TempQuota, TempSpace, Workspace};
use niwaki_txn::{AdvisoryLocks, SessionControl, TableId, Transaction};
use niwaki_types::{TextSettings, UserTypes};

use crate::directory::Directory;
use crate::session::definitions::Definitions;
use crate::session::sequence_values::SequenceValues;
use crate::session::state::block::Block;
use crate::session::state::buffers::Buffers;
use crate::session::state::checks::Checks;
use crate::session::state::command::Command;
use crate::session::state::identity::Identity;
use crate::session::state::messages::Messages;
use crate::session::state::path_cache::PathCache;
use crate::session::state::portals::Portals;
use crate::session::state::statements::Statements;
use crate::session::state::text_form::TextForm;
use crate::session::state::transaction_block::TransactionBlock;
use crate::session::terminator::Terminator;

/// One session, which belongs to one thread at a time.
pub struct Session {
    pub(crate) directory: Directory,
    /// The statements that define.
    pub(crate) definitions: &'static dyn Definitions<Session>,
    /// Connection to one of the databases.
    pub(crate) connection: Connection,
    pub(crate) identity: Identity,
    pub(crate) settings: Settings,
    pub(crate) text: TextForm,
    pub(crate) catalog: CatalogTransaction,
    /// Present exactly while `block` is `Implicit` or `Explicit`, or `Failed` below a savepoint.
    pub(crate) transaction: Option<Transaction>,
    pub(crate) block: TransactionBlock,
    pub(crate) checks: Checks,
    pub(crate) command: Command,
    pub(crate) messages: Messages,
    pub(crate) advisory: AdvisoryLocks,
    pub(crate) path: PathCache,
    pub(crate) statements: Statements,
    pub(crate) portals: Portals,
    pub(crate) sequences: SequenceValues,
    pub(crate) buffers: Buffers,
    /// Dropped last, behind all fields that hold memory.
    _account: AccountSettled,
}

/// Guard that settles the thread's account of memory when the session is dropped. Another thread
/// may have made the session, and the end of the dropping thread may go unnoticed.
struct AccountSettled;

impl Drop for AccountSettled {
    fn drop(&mut self) {
        niwaki_env::memory::settle();
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("id", &self.id())
            .field("block", &self.block.state())
            .finish_non_exhaustive()
    }
}

impl Session {
    pub(crate) fn new(
        directory: Directory,
        definitions: &'static dyn Definitions<Session>,
        connection: Connection,
        control: Arc<SessionControl>,
        settings: Settings,
        user: &str,
    ) -> Self {
        let catalog = CatalogTransaction::new(Arc::clone(connection.catalog()));
        let quota = TempQuota::counted_by(Arc::clone(connection.statistics().temp()));
        let temp = directory.engine().temporary_space(Arc::new(quota));
        let advisory = AdvisoryLocks::new(&control);
        let identity = Identity::new(control, directory.activities(), connection.oid(), user);
        let mut session = Self {
            advisory,
            messages: Messages::default(),
            directory,
            definitions,
            connection,
            identity,
            settings,
            text: TextForm::default(),
            catalog,
            transaction: None,
            block: TransactionBlock::default(),
            checks: Checks::default(),
            command: Command::default(),
            path: PathCache::default(),
            statements: Statements::default(),
            portals: Portals::default(),
            sequences: SequenceValues::default(),
            buffers: Buffers::new(temp),
            _account: AccountSettled,
        };
        session.settings_changed();
        session
    }

    /// Returns `b'I'` when idle, `b'T'` in a transaction block, and `b'E'` in a failed one.
    #[inline]
    pub fn transaction_status(&self) -> u8 {
        match self.block.state() {
            Block::Idle | Block::Implicit => b'I',
            Block::Explicit => b'T',
            Block::Failed => b'E',
        }
    }

    /// Returns the session as locks and interrupts know it: to cancel it, to terminate it, to wait.
    #[inline]
    pub fn control(&self) -> &Arc<SessionControl> {
        self.identity.control()
    }

    /// Returns a handle by which another thread ends this session (57P01), whatever it does.
    pub fn terminator(&self) -> Terminator {
        Terminator { control: Arc::downgrade(self.control()) }
    }

    /// Registers `wake`, which another thread calls when this session is told to end. If that has
    /// already happened, `wake` is called at once. It ends a wait for the session's client, and
    /// must not block.
    pub fn when_terminated(&self, wake: impl Fn() + Send + Sync + 'static) {
        self.control().when_terminated(wake);
    }

    /// Records where the session's client comes from, for `pg_stat_activity`: an address and port,
    /// or a Unix-domain socket (`None`), which has neither.
    pub fn set_client(&self, address: Option<(IpAddr, u16)>) {
        let mut activity = self.identity.activity();
        activity.client_address = address.map(|(address, _)| address);
        activity.client_port = Some(address.map_or(-1, |(_, port)| port.into()));
    }

    /// Returns whether the session was asked to end: shutdown, `pg_terminate_backend`.
    #[inline]
    pub fn is_terminated(&self) -> bool {
        self.control().is_terminated()
    }

    /// Returns the session's number, which `pg_backend_pid()` and `BackendKeyData` give.
    #[inline]
    pub fn id(&self) -> i32 {
        self.control().backend()
    }

    /// Returns the secret of this session's cancel key.
    pub fn secret(&self) -> u32 {
        self.control().secret()
    }

    /// Returns names and values of the settings that a client gets at the start.
    pub fn reported_settings(&mut self) -> Vec<(&'static str, String)> {
        self.settings.take_changed();
        self.settings.reported().collect()
    }

    /// Returns the settings by which values are shown as text now.
    #[inline]
    pub fn text_settings(&self) -> &TextSettings {
        self.text.settings()
    }

    /// Returns the time for which the client may stay silent now. It is
    /// `idle_in_transaction_session_timeout` inside a transaction and `idle_session_timeout`
    /// outside. `None` means for ever.
    #[inline]
    pub fn idle_timeout(&self) -> Option<Duration> {
        let hot = self.settings.hot();
        let ms = match self.block.state() {
            Block::Idle => hot.idle_session_timeout_ms,
            _ => hot.idle_in_transaction_timeout_ms,
        };
        (ms > 0).then(|| Duration::from_millis(ms))
    }

    /// Returns the error for a client that stayed silent for longer than [`Session::idle_timeout`]
    /// (25P03 or 57P05).
    pub fn idle_timeout_error(&self) -> SqlError {
        if self.block.state() == Block::Idle {
            SqlError::new("57P05", "terminating connection due to idle-session timeout")
        } else {
            SqlError::new("25P03", "terminating connection due to idle-in-transaction timeout")
        }
        .with_severity(Severity::Fatal)
    }

    /// Returns the engine.
    #[inline]
    pub(crate) fn engine(&self) -> &Arc<Engine> {
        self.directory.engine()
    }

    /// Returns a new number for an object.
    pub fn new_oid(&self) -> Oid {
        self.catalog.catalog().new_oid()
    }

    /// Returns the number by which locks know a relation.
    pub fn table_id(&self, oid: Oid) -> TableId {
        self.catalog.catalog().table_number(oid)
    }

    /// Returns the open transaction.
    ///
    /// # Errors
    /// XX000 when none is open, which is a fault of the caller.
    #[inline]
    pub fn open_transaction(&self) -> Result<&Transaction> {
        self.transaction.as_ref().ok_or_else(|| SqlError::internal("no transaction is open"))
    }

    /// Returns the open transaction, and its changes of the catalog.
    ///
    /// # Errors
    /// XX000 when none is open, which is a fault of the caller.
    pub fn transaction_and_catalog(&mut self) -> Result<(&Transaction, &mut CatalogTransaction)> {
        let transaction = self.transaction.as_ref();
        let transaction =
            transaction.ok_or_else(|| SqlError::internal("no transaction is open"))?;
        Ok((transaction, &mut self.catalog))
    }

    /// Returns the open transaction, and the memory for its changes of tables.
    ///
    /// # Errors
    /// XX000 when none is open, which is a fault of the caller.
    pub fn transaction_and_workspace(&mut self) -> Result<(&Transaction, &mut Workspace)> {
        let transaction = self.transaction.as_ref();
        let transaction =
            transaction.ok_or_else(|| SqlError::internal("no transaction is open"))?;
        Ok((transaction, self.buffers.work_mut()))
    }

    /// Returns the definitions as the transaction sees them.
    pub fn state(&mut self) -> Arc<CatalogState> {
        self.catalog.state()
    }

    /// Returns the version of the definitions that the transaction sees.
    pub fn catalog_version(&mut self) -> u64 {
        self.catalog.version()
    }

    /// Returns the database's catalog, with the committed definitions.
    pub fn committed(&self) -> &Arc<Catalog> {
        self.catalog.catalog()
    }

    /// Returns the session's settings.
    #[inline]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the space for rows and values that do not fit into memory.
    pub fn temporary_space(&self) -> &TempSpace {
        self.buffers.temp()
    }

    /// Returns whether deferred checks of the table's keys wait for the end of the transaction.
    pub fn defers_checks_of(&self, table: Oid) -> bool {
        self.checks.deferred().concerns(table)
    }

    /// Sets whether the texts that the session analyzes come from the catalog. Returns the former
    /// value.
    pub fn set_stored_text(&mut self, stored: bool) -> bool {
        self.command.set_stored_text(stored)
    }

    /// Enters an index build into the list of running builds.
    pub fn begin_progress(&self, command: &'static str) -> ProgressEntry {
        let (backend, database) = (self.control().backend(), self.connection.oid());
        let build = Build { backend, database, command, relations: None };
        self.directory.builds().begin(build)
    }

    /// Notes that the relation's files are new in this transaction, since its last savepoint.
    pub fn note_created(&mut self, oid: Oid) {
        self.block.note_created(oid);
    }

    /// Applies changed settings to the places that keep their own copy.
    pub(crate) fn settings_changed(&mut self) {
        let name = self.settings.text("application_name");
        {
            let mut activity = self.identity.activity();
            if activity.application_name != *name {
                activity.application_name = name.to_string();
            }
        }
        let hot = self.settings.hot();
        let timeout = hot.lock_timeout_ms;
        self.control().set_lock_timeout((timeout > 0).then(|| Duration::from_millis(timeout)));
        self.control().set_deadlock_timeout(Duration::from_millis(hot.deadlock_timeout_ms));
        self.text.follow(&self.settings);
    }

    /// Takes over the user-defined types, as the current catalog and search path have and name
    /// them.
    pub fn refresh_types(&mut self) {
        let version = self.plan_version();
        if self.text.has_types_of(version) {
            return;
        }
        let path = self.search_path();
        let types = self.catalog.state().types_shown(&path);
        self.text.set_types(version, types);
    }

    /// Returns the user-defined types, as the current catalog and search path have and name them.
    pub fn types(&mut self) -> Arc<UserTypes> {
        self.refresh_types();
        Arc::clone(&self.text.settings().types)
    }

    /// Begins a statement with this text, and starts its clock and its time limit.
    ///
    /// # Errors
    /// 57P01 when the session was told to end. The open transaction is then rolled back, here at
    /// the latest, so that no other session waits for it any more.
    pub(crate) fn begin_statement(&mut self, text: &str) -> Result<()> {
        if self.control().is_terminated() {
            self.rollback();
            self.note_rest();
            return Err(niwaki_txn::Error::Terminated.into());
        }
        let now_us = self.now_unix_us();
        self.command.begin(now_us);
        self.identity.activity().begin(text, now_us);
        self.control().statement_began(now_us);
        let ms = self.settings.hot().statement_timeout_ms;
        self.control().begin_statement((ms > 0).then(|| Duration::from_millis(ms)));
        Ok(())
    }

    pub(crate) fn now_unix_us(&self) -> i64 {
        self.directory.env().clock.now_unix_us()
    }

    /// Ends a statement, whether it succeeded or failed.
    pub(crate) fn end_statement(&mut self) {
        self.control().end_statement();
        self.note_rest();
    }

    /// Shows other sessions that this one waits for its client. Does nothing while an implicit
    /// transaction is open, because then more messages follow.
    pub(crate) fn note_rest(&self) {
        let state = match self.block.state() {
            Block::Implicit => return,
            Block::Idle => State::Idle,
            Block::Explicit => State::InTransaction,
            Block::Failed => State::InFailedTransaction,
        };
        let mut activity = self.identity.activity();
        if activity.state != state {
            activity.state = state;
            activity.state_since_us = Some(self.now_unix_us());
        }
    }

    /// Forgets everything that belongs to the session but not to its transaction, for DISCARD ALL.
    pub(crate) fn forget_everything(&mut self) {
        self.portals.close_all();
        self.statements.clear();
        self.sequences.clear();
        self.advisory.unlock_all();
        self.messages.pending_mut().unlisten(None);
        self.settings.discard_all();
        self.settings_changed();
    }

    /// Returns the versions that plans depend on. A plan is valid while they stay the same.
    pub(crate) fn plan_version(&mut self) -> (u64, u64) {
        (self.catalog.version(), self.settings.hot().plan_version)
    }

    /// Returns the read-ahead of index builds. It has no ring, so the pages may stay in the buffer
    /// pool.
    pub fn maintenance_read_ahead(&self) -> ReadAhead {
        ReadAhead { ring: 0, ..by_settings(&self.settings).read_ahead }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.abandon_transaction();
        let of_client = self.identity.activity().backend_type == BackendType::Client;
        if of_client && self.is_terminated() {
            self.connection.statistics().session_killed();
        }
        self.connection.notifications().forget(self.id());
        self.end_temporary();
        self.identity.leave(self.directory.activities());
    }
}
