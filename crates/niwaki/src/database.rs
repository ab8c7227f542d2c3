//! An open directory, with the databases in it.

use std::sync::Arc;
use std::time::Duration;

use niwaki_env::Env;
use niwaki_env::sync::Mutex;
use niwaki_env::sync::plain_atomic::{AtomicU16, Ordering};
use niwaki_env::vfs::OverlayVfs;
use niwaki_sql::settings::Settings;
use niwaki_storage::record::CheckpointParticipant;
use niwaki_storage::{
    Background, CheckpointKind, IoMethod, ReadStatistics, Storage, StorageOptions,
};
use niwaki_table::{Engine, MapOptions};
use niwaki_txn::{TransactionManager, TxnOptions};

use crate::activity::Activities;
use crate::autovacuum::{Autovacuum, AutovacuumReport, LauncherThread, workers_max};
use crate::databases::Databases;
use crate::gardener::{Gardener, GardenerThread};
use crate::helpers::Helpers;
use crate::log::Log;
use crate::open_database::OpenDatabase;
use crate::progress::{Builds, Vacuums};
use crate::session::Session;
use crate::{Result, SqlError};

/// How to open a database: settings by PostgreSQL's names, as `niwaki serve --set` takes them.
#[derive(Clone, Debug)]
pub struct Options {
    /// `(name, value)`, for instance `("shared_buffers", "256MB")`.
    pub settings: Vec<(String, String)>,
    background: bool,
    small_files: bool,
    close_patience: Duration,
    log: Log,
    when_lost: Log,
}

/// How long [`Database::close`] waits by itself: longer than any step between two looks for
/// interrupts, short enough for a program that ends.
const CLOSE_PATIENCE: Duration = Duration::from_secs(10);

impl Default for Options {
    fn default() -> Self {
        Self {
            settings: Vec::new(),
            background: false,
            small_files: false,
            close_patience: CLOSE_PATIENCE,
            log: Log::default(),
            when_lost: Log::default(),
        }
    }
}

impl Options {
    /// The defaults: no thread of its own, as simulations need it.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets one setting.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Whether threads of the database's own write the log of asynchronous commits and pages, and
    /// begin checkpoints. Without it the caller does: [`Database::checkpoint`]. Threads that help a statement to read a large table
    /// come and go with it, and are there in any case (`max_parallel_workers_per_gather`).
    #[must_use]
    pub fn background(mut self, background: bool) -> Self {
        self.background = background;
        self
    }

    /// How long [`Database::close`] waits for transactions to end, to the millisecond; 10 seconds by
    /// default. With zero it refuses at once.
    #[must_use]
    pub fn close_patience(mut self, patience: Duration) -> Self {
        self.close_patience = patience;
        self
    }

    /// Where to tell, line by line, what the database does by itself: nowhere by default. `write` is called by threads of the
    /// database's own.
    #[must_use]
    pub fn log(mut self, write: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.log = Log::new(write);
        self
    }

    /// `tell` hears once, and why, that nothing is written any more: somebody removed or changed
    /// the lock file, or a write failed that only the next start mends. Changes and checkpoints
    /// fail from then on; a server ends its process. It is called by a thread of the database's
    /// own, or by whoever asks for a checkpoint.
    #[must_use]
    pub fn when_lost(mut self, tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.when_lost = Log::new(tell);
        self
    }

    /// Log segments of 64 KiB and relation segments of 16 pages, for a database that is created: tests
    /// meet the ends of files often then, and open thousands of databases.
    #[must_use]
    pub fn small_files(mut self, small_files: bool) -> Self {
        self.small_files = small_files;
        self
    }
}

/// An open directory, with the databases in it (`CREATE DATABASE`), of which `postgres` is always there: a cheap handle, to be cloned and shared between threads. The last handle or
/// session that is dropped closes the database; [`Database::close`] also reports errors.
#[derive(Clone)]
pub struct Database {
    inner: Arc<Inner>,
}

struct Inner {
    env: Env,
    settings: Settings,
    engine: Arc<Engine>,
    transactions: Arc<TransactionManager>,
    databases: Arc<Databases>,
    builds: Arc<Builds>,
    vacuums: Arc<Vacuums>,
    activities: Arc<Activities>,
    autovacuum: Arc<Autovacuum>,
    launcher: Mutex<Option<LauncherThread>>,
    background: Mutex<Option<Background>>,
    gardener: Mutex<Option<GardenerThread>>,
    /// Of [`Database::tend`].
    rounds: Mutex<Option<Gardener>>,
    helpers: Helpers,
    closes_on_drop: bool,
    /// When it was opened, in microseconds since 1970.
    opened_us: i64,
    /// The TCP port of the server that works with it; 0 without one.
    port: AtomicU16,
    sockets_max: usize,
    close_patience: Duration,
    /// The last checkpoint is written. The closing thread holds it.
    closed: Mutex<bool>,
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database").field("databases", &self.inner.databases).finish_non_exhaustive()
    }
}

/// What a few sessions need beside shared buffers, in bytes.
const SESSIONS_BYTES: usize = 16 << 20;

impl Database {
    /// Opens the database in a directory, creating it when absent, recovering when needed.
    ///
    /// # Errors
    /// The directory is in use by another process, holds something else or another format version,
    /// or cannot be read or written.
    pub fn open(path: impl AsRef<std::path::Path>) -> Result<Self> {
        Self::open_with(Env::os(path.as_ref()), Options::default().background(true))
    }

    /// A new database in memory, gone with its last handle. It vacuums and checkpoints as one in a directory
    /// does, and `max_wal_size` is 64 MB: the log takes memory, and nobody recovers from it.
    ///
    /// # Errors
    /// The system has no thread to give (53000).
    pub fn in_memory() -> Result<Self> {
        let options = Options::default().background(true).set("max_wal_size", "64MB");
        Self::open_with(Env::memory(), options)
    }

    /// A new database in memory without threads of its own, so that nothing happens by itself: for
    /// tests. The log grows until the caller says [`Database::checkpoint`], and what writers leave
    /// behind waits for [`Database::tend`] and [`Database::maintain`].
    ///
    /// # Errors
    /// None in practice.
    pub fn in_memory_without_threads() -> Result<Self> {
        Self::open_with(Env::memory(), Options::default())
    }

    /// Opens a directory to look into it, as for [`Database::check`]. Nothing there is created,
    /// written or removed, and it may lie on a read-only file system. What recovery and sessions
    /// change stays in memory, and goes with the last handle. No server may use the directory
    /// meanwhile; others may look, too.
    ///
    /// # Errors
    /// As [`Database::open`]; also when there is no data directory.
    pub fn look_into(env: Env, options: Options) -> Result<Self> {
        if !Storage::is_in(&env)? {
            return Err(SqlError::new("58P01", "there is no data directory"));
        }
        let vfs = Arc::new(OverlayVfs::new(Arc::clone(&env.vfs)));
        Self::open_with(Env { vfs, ..env }, options.background(false))
    }

    /// Opens with a given environment (files, clock, randomness) and settings.
    ///
    /// # Errors
    /// As [`Database::open`]; also unknown settings and bad values.
    pub fn open_with(env: Env, options: Options) -> Result<Self> {
        let opened_us = env.clock.now_unix_us();
        let mut settings = Settings::new();
        for (name, value) in &options.settings {
            settings.set_at_start(name, value, true)?;
        }
        let transactions = TransactionManager::new(env.clone(), txn_options(&settings));
        let mut managers = Engine::resource_managers();
        managers.push(Arc::clone(&transactions) as Arc<_>);
        let open_files_limit = env.vfs.open_files_limit();
        let mut storage = storage_options(&settings, open_files_limit);
        let sockets_max = sockets_max(&settings, open_files_limit, storage.open_files_max);
        if options.small_files {
            let tiny = StorageOptions::tiny();
            storage.wal_segment_bytes = tiny.wal_segment_bytes;
            storage.wal_buffers = tiny.wal_buffers;
            storage.segment_blocks = tiny.segment_blocks;
        }
        let (storage, summary) = Storage::open(env.clone(), storage, managers)?;
        if summary.recovered {
            options.log.write(&format!("the database was not shut down; {summary}"));
        }
        let in_use = storage.io_method();
        if let (IoMethod::Worker, Some(why)) = (in_use.method, in_use.refused) {
            options
                .log
                .write(&format!("io_uring cannot be used: {why}; threads read ahead instead"));
        }
        let log = options.log.clone();
        storage.when_ring_fails(move |why| {
            log.write(&format!(
                "io_uring does not work any more: {why}; nobody reads ahead from now on"
            ));
        });
        let log = options.log.clone();
        storage.when_background_fails(move |line| log.write(line));
        let lost = options.when_lost.clone();
        storage.when_lost(move |why| lost.write(why));
        transactions.attach(&storage)?;
        let maps = map_options(&settings);
        let engine = Engine::with_maps(Arc::clone(&storage), Arc::clone(&transactions), maps);
        engine.remove_temporary_files()?;
        let databases = Arc::new(Databases::open(&engine)?);
        let moved = match summary.recovered {
            true => databases.tidy_after_crash(&options.log)?,
            false => databases.tidy_after_stop(&options.log)?,
        };
        if moved {
            // The table of files names them no more.
            storage.checkpoint(CheckpointKind::Requested, &[&*transactions])?;
        }
        let background = if options.background {
            let participants = vec![Arc::clone(&transactions) as Arc<dyn CheckpointParticipant>];
            Some(storage.start_background(participants)?)
        } else {
            None
        };
        let delay = u64::try_from(settings.int("version_split_delay")).unwrap_or(0);
        engine.set_version_split_delay(Duration::from_millis(delay));
        let gardener = match options.background && settings.bool("gardener") {
            true => Some(GardenerThread::start(Arc::clone(&engine), Arc::clone(&databases))?),
            false => None,
        };
        let activities = Arc::<Activities>::default();
        let vacuums = Arc::<Vacuums>::default();
        let autovacuum = Autovacuum::new(
            Arc::clone(&engine),
            Arc::clone(&databases),
            Arc::clone(&activities),
            Arc::clone(&vacuums),
            &settings,
            options.log,
        );
        let launcher = match options.background && settings.bool("autovacuum") {
            true => Some(LauncherThread::start(&autovacuum)?),
            false => None,
        };
        Ok(Self {
            inner: Arc::new(Inner {
                env,
                settings,
                engine,
                transactions,
                databases,
                builds: Arc::default(),
                vacuums,
                activities,
                autovacuum,
                launcher: Mutex::new(launcher),
                background: Mutex::new(background),
                gardener: Mutex::new(gardener),
                rounds: Mutex::default(),
                helpers: Helpers::new(),
                closes_on_drop: options.background,
                opened_us,
                port: AtomicU16::new(0),
                sockets_max,
                close_patience: options.close_patience,
                closed: Mutex::new(false),
            }),
        })
    }

    /// A new session for user and database `postgres`.
    ///
    /// # Panics
    /// When there are too many sessions; [`Database::session_as`] reports that instead.
    pub fn session(&self) -> Session {
        self.session_as("postgres", "postgres", &[]).unwrap_or_else(|e| panic!("{e}"))
    }

    /// A new session, as a server opens it for a client: user, database, and the settings of the
    /// start-up packet in their order.
    ///
    /// # Errors
    /// Unknown user (28000) or database (3D000), or one that lets nobody in (55000); a bad setting; too many sessions (53300).
    pub fn session_as(
        &self,
        user: &str,
        database: &str,
        settings: &[(String, String)],
    ) -> Result<Session> {
        if user != "postgres" {
            return Err(SqlError::new("28000", format!("role \"{user}\" does not exist")));
        }
        let definition = self.inner.databases.definition(database)?;
        if definition.refuses_connections {
            let message = format!("database \"{database}\" is not currently accepting connections");
            return Err(SqlError::new("55000", message));
        }
        let mut own = self.settings_of_sessions();
        for (name, value) in &definition.settings {
            // They were checked when they were set; one that has become bad keeps nobody out.
            let _ = own.set_at_start(name, value, false);
        }
        for (name, value) in settings {
            own.set_at_start(name, value, false)?;
        }
        let opened = self.inner.databases.get(&definition)?;
        let session = self.connect(&opened, database, own, user)?;
        opened.statistics().session_began();
        Ok(session)
    }

    /// A session of the database's own, for work in one of the databases.
    ///
    /// # Errors
    /// Too many sessions (53300); the database is about to go (3D000).
    pub(crate) fn session_in(&self, database: &Arc<OpenDatabase>) -> Result<Session> {
        let settings = self.settings_of_sessions();
        self.connect(database, &database.name(), settings, "postgres")
    }

    fn settings_of_sessions(&self) -> Settings {
        let mut settings = self.inner.settings.for_session();
        // Relaxed: it stands for itself, and is set before anybody can connect.
        match self.inner.port.load(Ordering::Relaxed) {
            0 => {}
            port => settings.set_port(port),
        }
        settings
    }

    /// A server listens on this TCP port: the setting `port` of sessions that begin from now on.
    pub fn listens_on(&self, port: u16) {
        self.inner.port.store(port, Ordering::Relaxed);
    }

    /// When it was opened, in microseconds since 1970.
    pub(crate) fn opened_us(&self) -> i64 {
        self.inner.opened_us
    }

    fn connect(
        &self,
        database: &Arc<OpenDatabase>,
        name: &str,
        settings: Settings,
        user: &str,
    ) -> Result<Session> {
        let control = self.inner.transactions.register_session()?;
        let connection = database.connect(&control, name)?;
        Ok(Session::new(self.clone(), connection, control, settings, user))
    }

    pub(crate) fn helpers(&self) -> &Helpers {
        &self.inner.helpers
    }

    /// Sessions that may be open at once (`max_connections`).
    pub fn max_connections(&self) -> usize {
        usize::try_from(self.inner.settings.int("max_connections")).unwrap_or(1)
    }

    /// Memory that the process may take, in bytes (`max_server_memory`); `None` without a limit, or
    /// when the system does not tell what there is.
    ///
    /// # Errors
    /// `22023` for less than shared buffers and a few sessions take: every statement would fail.
    pub fn memory_limit(&self) -> Result<Option<usize>> {
        let setting = |name| self.inner.settings.int(name);
        let blocks = usize::try_from(setting("shared_buffers")).unwrap_or(usize::MAX);
        let least =
            blocks.saturating_mul(niwaki_storage::page::PAGE_SIZE).saturating_add(SESSIONS_BYTES);
        match usize::try_from(setting("max_server_memory")) {
            Ok(0) => Ok(None),
            Ok(kilobytes) if kilobytes.saturating_mul(1024) < least => {
                let kb = least.div_ceil(1024);
                let message = format!(
                    "max_server_memory is {kilobytes}kB, and must be at least {kb}kB: \
                     shared_buffers, and 16MB for sessions"
                );
                Err(SqlError::new("22023", message))
            }
            Ok(kilobytes) => Ok(kilobytes.checked_mul(1024)),
            Err(_) => {
                let system = niwaki_env::memory::of_process();
                let limit = system.map(niwaki_env::memory::default_limit);
                let limit = limit.and_then(|bytes| usize::try_from(bytes).ok());
                Ok(limit.map(|bytes| bytes.max(least)))
            }
        }
    }

    /// Connections that a server may hold at once, those that have not logged in included: beside them
    /// descriptors are left for relation files, the log, and what else the database opens.
    pub fn sockets_max(&self) -> usize {
        self.inner.sockets_max
    }

    /// How long a client may take to log in (`authentication_timeout`).
    pub fn authentication_timeout(&self) -> Duration {
        let seconds = self.inner.settings.int("authentication_timeout");
        Duration::from_secs(u64::try_from(seconds).unwrap_or(1))
    }

    /// Who reads ahead, chosen when it was opened: `io_uring`, `worker` or `sync`, as the setting `io_method` has them; `sync` too
    /// once io_uring has failed.
    pub fn io_method(&self) -> String {
        self.inner.engine.storage().io_method().method.to_string()
    }

    /// What was read ahead since it was opened.
    pub fn read_statistics(&self) -> ReadStatistics {
        self.inner.engine.storage().pool().read_statistics()
    }

    /// Writes a checkpoint.
    ///
    /// # Errors
    /// Write errors.
    pub fn checkpoint(&self) -> Result<()> {
        let storage = self.inner.engine.storage();
        storage.checkpoint(CheckpointKind::Requested, &[&*self.inner.transactions])?;
        Ok(())
    }

    /// Goes round the tables once, as the gardener's thread does: where nobody has written since the last call, what
    /// writers left behind is seen to. For a database without threads of its own.
    ///
    /// # Errors
    /// I/O and corruption; too many sessions (53300).
    pub fn tend(&self) -> Result<()> {
        let mut rounds = self.inner.rounds.lock();
        let gardener = match rounds.take() {
            Some(gardener) => rounds.insert(gardener),
            None => {
                let (engine, databases) = (self.engine().clone(), self.databases().clone());
                rounds.insert(Gardener::new(engine, databases, Duration::ZERO)?)
            }
        };
        gardener.round().map(drop)
    }

    /// One round of autovacuum, and the work that it finds: each table that needs VACUUM or ANALYZE gets it, those that
    /// somebody has locked excepted. Returns what was done. For a database without threads of its own; then `autovacuum` and
    /// `autovacuum_naptime` do not matter.
    ///
    /// # Errors
    /// Too many sessions (53300). What a table met with is in its report.
    pub fn maintain(&self) -> Result<Vec<AutovacuumReport>> {
        self.inner.autovacuum.round()
    }

    /// The environment the database runs in.
    pub fn env(&self) -> &Env {
        &self.inner.env
    }

    /// Asks the session with this number to cancel its statement if `secret` is its secret; the
    /// answer to a protocol CancelRequest.
    pub fn cancel(&self, session: i32, secret: u32) {
        self.inner.transactions.cancel_request(session, secret);
    }

    /// Ends all work, writes a last checkpoint and marks the directory as cleanly closed.
    ///
    /// No session and no transaction begins any more (57P03, 57P01); statements that run in other
    /// threads end at their next look for interrupts (57P01). It waits until every transaction has
    /// ended, as nothing may be written behind the last checkpoint. A session that is idle in a
    /// transaction ends it when its owner uses it again, or drops it; one without a transaction is in
    /// nobody's way, and is refused from now on. Its temporary tables are gone.
    ///
    /// # Errors
    /// 55006 when a transaction is still open after [`Options::close_patience`]. Then the database
    /// is not closed: commits that were reported stay, and the next open recovers, unless the last
    /// handle and session are dropped or it is closed again before. Write errors; the next open
    /// recovers then, too.
    pub fn close(self) -> Result<()> {
        self.inner.close()
    }

    pub(crate) fn vacuums(&self) -> &Arc<Vacuums> {
        &self.inner.vacuums
    }

    pub(crate) fn builds(&self) -> &Arc<Builds> {
        &self.inner.builds
    }

    pub(crate) fn databases(&self) -> &Arc<Databases> {
        &self.inner.databases
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.inner.engine
    }

    /// What each session is doing.
    pub(crate) fn activities(&self) -> &Activities {
        &self.inner.activities
    }

    pub(crate) fn transactions(&self) -> &Arc<TransactionManager> {
        &self.inner.transactions
    }
}

impl Inner {
    fn close(&self) -> Result<()> {
        // One of several closers does the work; the others wait for it.
        let mut closed = self.closed.lock();
        if *closed {
            return Ok(());
        }
        self.transactions.refuse_new_work();
        // They work on tables, whose log the other threads write.
        drop(self.launcher.lock().take());
        drop(self.gardener.lock().take());
        self.transactions.wait_for_transactions(self.close_patience)?;
        if let Some(background) = self.background.lock().take() {
            background.stop();
        }
        self.engine.settle()?;
        self.databases.end_temporary();
        self.engine.storage().shutdown(&[&*self.transactions])?;
        // Sessions that are kept have no file open either.
        self.engine.close_temporary_files();
        self.transactions.close_files();
        *closed = true;
        Ok(())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.closes_on_drop && !niwaki_env::sync::thread::panicking() {
            // Nobody is left to be told; the next open recovers.
            let _ = self.close();
        }
    }
}

fn txn_options(settings: &Settings) -> TxnOptions {
    let defaults = TxnOptions::default();
    let connections = usize::try_from(settings.int("max_connections")).unwrap_or(1);
    TxnOptions {
        sessions_max: connections + OWN_SESSIONS + workers_max(settings),
        deadlock_timeout: Duration::from_millis(settings.hot().deadlock_timeout_ms),
        interval_gc: settings.bool("interval_gc"),
        row_locks_max: usize::try_from(settings.int("max_row_locks")).unwrap_or(usize::MAX),
        ..defaults
    }
}

/// Sessions for the database's own work, beside autovacuum's workers: the gardener's thread, [`Database::tend`], the launcher,
/// [`Database::maintain`], and some that begin while others end.
const OWN_SESSIONS: usize = 10;

fn map_options(settings: &Settings) -> MapOptions {
    match &*settings.text("visibility_map_pin") {
        "off" => MapOptions::NONE,
        "per_access" => MapOptions { resident: false, ..MapOptions::default() },
        _ => MapOptions::default(),
    }
}

/// Descriptors that are neither relation files nor sockets: log segments, folders, streams, and what
/// the rest of the program has.
const OTHER_OPEN_FILES: u64 = 64;
/// However few the system allows, so many relation files are opened: a system that refuses says so.
const OPEN_FILES_MIN: u64 = 16;

/// Blocks of the log's buffer: never fewer, and by itself never more than a segment of the log has.
const WAL_BUFFERS_MIN: usize = 8;
const WAL_BUFFERS_MAX: usize = 2048;

/// Least number of connections, however few descriptors the system allows.
const SOCKETS_MIN: u64 = 4;

/// As PostgreSQL: twice as many as sessions, so that those that log in, or cancel, find a place; but
/// no more than leave the database its descriptors.
fn sockets_max(settings: &Settings, open_files_limit: Option<u64>, relation_files: usize) -> usize {
    let wanted = 2 * u64::try_from(settings.int("max_connections")).unwrap_or(1);
    let others = relation_files as u64 + OTHER_OPEN_FILES;
    let most = open_files_limit.map_or(u64::MAX, |limit| limit.saturating_sub(others));
    usize::try_from(wanted.min(most).max(SOCKETS_MIN)).unwrap_or(usize::MAX)
}

/// `open_files_limit` is what the system allows the process.
fn storage_options(settings: &Settings, open_files_limit: Option<u64>) -> StorageOptions {
    let defaults = StorageOptions::default();
    let number = |name: &str| u64::try_from(settings.int(name)).unwrap_or(0);
    let wal_buffers = settings.int("wal_buffers");
    let others = number("max_connections") + OTHER_OPEN_FILES;
    let open_files = open_files_limit.map_or(u64::MAX, |limit| limit.saturating_sub(others));
    StorageOptions {
        shared_buffers: number("shared_buffers") as usize,
        // As in PostgreSQL: by itself a 32nd of the pool, and what a slow sync of the log is to outlast fits.
        wal_buffers: match usize::try_from(wal_buffers) {
            Ok(blocks) if blocks > 0 => blocks,
            _ => (number("shared_buffers") as usize / 32).min(WAL_BUFFERS_MAX),
        }
        .max(WAL_BUFFERS_MIN)
            * niwaki_storage::page::PAGE_SIZE,
        full_page_writes: settings.bool("full_page_writes"),
        max_wal_bytes: number("max_wal_size") << 20,
        checkpoint_timeout: Duration::from_secs(number("checkpoint_timeout")),
        checkpoint_completion_target: settings.float("checkpoint_completion_target"),
        bgwriter_delay: Duration::from_millis(number("bgwriter_delay")),
        bgwriter_lru_maxpages: number("bgwriter_lru_maxpages") as usize,
        bgwriter_lru_multiplier: settings.float("bgwriter_lru_multiplier"),
        io_method: match &*settings.text("io_method") {
            "sync" => IoMethod::Sync,
            "io_uring" => IoMethod::IoUring,
            _ => IoMethod::Worker,
        },
        io_workers: number("io_workers") as usize,
        open_files_max: number("max_files_per_process").min(open_files).max(OPEN_FILES_MIN)
            as usize,
        ..defaults
    }
}
