//! An open directory, with the databases in it.

use std::sync::Arc;
use std::time::Duration;

use niwaki_background::autovacuum::launcher::LauncherThread;
use niwaki_background::autovacuum::limits::workers_max;
use niwaki_background::autovacuum::rounds::Autovacuum;
use niwaki_background::autovacuum::work::AutovacuumReport;
use niwaki_background::gardener::{Gardener, GardenerThread};
use niwaki_directory::databases::Databases;
use niwaki_directory::log::Log;
use niwaki_directory::parallel_workers::Helpers;
use niwaki_env::Env;
use niwaki_env::sync::Mutex;
use niwaki_env::sync::plain_atomic::{AtomicU16, Ordering};
use niwaki_sql::settings::Settings;
use niwaki_sql::{Result, SqlError};
use niwaki_storage::record::CheckpointParticipant;
use niwaki_storage::{
    Background, CheckpointKind, IoMethod, ReadStatistics, Storage, StorageOptions,
};
use niwaki_system::monitor::activity::Activities;
use niwaki_system::monitor::progress::{Builds, Vacuums};
use niwaki_table::{Engine, MapOptions};
use niwaki_txn::{TransactionManager, TxnOptions};

/// Options for opening a database: settings by PostgreSQL's names, as `niwaki serve --set` takes
/// them.
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

/// Time that [`Directory::close`] waits by default. Every step between two checks for interrupts is
/// shorter, and a program that ends can wait this long.
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
    /// Returns the defaults: no threads of the database's own, as simulations need it.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets one setting.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Decides whether the database has background threads, which write pages and the log of
    /// asynchronous commits, and begin checkpoints. Without them the caller begins checkpoints:
    /// `Database::checkpoint`. Parallel workers, which help a statement to read a large table,
    /// start and end with the statement in both cases (`max_parallel_workers_per_gather`).
    #[must_use]
    pub fn background(mut self, background: bool) -> Self {
        self.background = background;
        self
    }

    /// Sets how long `Database::close` waits for transactions to end, to the millisecond. The
    /// default is 10 seconds. With zero, closing refuses at once.
    #[must_use]
    pub fn close_patience(mut self, patience: Duration) -> Self {
        self.close_patience = patience;
        self
    }

    /// Sets the receiver of the lines that report the database's background work. By default there
    /// is no receiver. Background threads of the database call `write`.
    #[must_use]
    pub fn log(mut self, write: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.log = Log::new(write);
        self
    }

    /// Sets a function that learns, once, why the database has stopped writing. The reason is
    /// either a lock file that another program removed or changed, or a failed write that only the
    /// next start repairs. From then on changes and checkpoints fail, and a server ends its
    /// process. A background thread calls `tell`, or the thread that asked for a checkpoint.
    #[must_use]
    pub fn when_lost(mut self, tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.when_lost = Log::new(tell);
        self
    }

    /// Gives a new database log segments of 64 KiB and relation segments of 16 pages. Tests then
    /// reach the ends of files often, and can open thousands of databases.
    #[must_use]
    pub fn small_files(mut self, small_files: bool) -> Self {
        self.small_files = small_files;
        self
    }
}

/// An open directory with its databases. The value is a cheap handle that can be cloned and shared
/// between threads. Dropping the last handle or session closes the directory. [`Directory::close`]
/// also reports errors.
#[derive(Clone)]
pub struct Directory {
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
    /// State of the rounds that [`Directory::clean_up`] makes.
    rounds: Mutex<Option<Gardener>>,
    helpers: Helpers,
    closes_on_drop: bool,
    /// When the directory was opened, in microseconds since 1970.
    opened_us: i64,
    /// The TCP port of the server that serves this directory; 0 without a server.
    port: AtomicU16,
    sockets_max: usize,
    close_patience: Duration,
    /// True once the last checkpoint is written. The closing thread holds the mutex.
    closed: Mutex<bool>,
}

impl std::fmt::Debug for Directory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Directory")
            .field("databases", &self.inner.databases)
            .finish_non_exhaustive()
    }
}

/// Memory that a few sessions need beside shared buffers, in bytes.
const SESSIONS_BYTES: usize = 16 << 20;

impl Directory {
    /// Opens with a given environment (files, clock, randomness) and settings.
    ///
    /// # Errors
    /// The directory is in use by another process, holds something else or another format version,
    /// or cannot be read or written; unknown settings and bad values.
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
        report_failures(&storage, &options);
        transactions.attach(&storage)?;
        let maps = map_options(&settings);
        let engine = Engine::with_maps(Arc::clone(&storage), Arc::clone(&transactions), maps);
        engine.remove_temporary_files()?;
        let databases = Arc::new(Databases::open(&engine)?);
        let moved = if summary.recovered {
            databases.tidy_after_crash(&options.log)?
        } else {
            databases.tidy_after_stop(&options.log)?
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
        let gardener = if options.background && settings.bool("gardener") {
            Some(GardenerThread::start(Arc::clone(&engine), Arc::clone(&databases))?)
        } else {
            None
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
        let launcher = if options.background && settings.bool("autovacuum") {
            Some(LauncherThread::start(&autovacuum)?)
        } else {
            None
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

    /// Returns the settings with which sessions begin.
    pub(crate) fn settings_of_sessions(&self) -> Settings {
        let mut settings = self.inner.settings.for_session();
        // Relaxed: the port orders nothing else, and is set before any session can connect.
        match self.inner.port.load(Ordering::Relaxed) {
            0 => {}
            port => settings.set_port(port),
        }
        settings
    }

    /// Notes that a server listens on this TCP port, which is the setting `port` of sessions that
    /// begin from now on.
    pub fn listens_on(&self, port: u16) {
        self.inner.port.store(port, Ordering::Relaxed);
    }

    /// Returns when the directory was opened, in microseconds since 1970.
    pub(crate) fn opened_us(&self) -> i64 {
        self.inner.opened_us
    }

    /// Returns the counter of parallel workers.
    #[inline]
    pub(crate) fn helpers(&self) -> &Helpers {
        &self.inner.helpers
    }

    /// Returns how many sessions may be open at once (`max_connections`).
    pub fn max_connections(&self) -> usize {
        usize::try_from(self.inner.settings.int("max_connections")).unwrap_or(1)
    }

    /// Returns the memory that the process may take, in bytes (`max_server_memory`). `None` without
    /// a limit, or when the system does not report its memory.
    ///
    /// # Errors
    /// `22023` for a limit below the need of shared buffers and a few sessions: every statement
    /// would fail.
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

    /// Returns how many connections a server may hold at once, including those that have not logged
    /// in. The remaining descriptors serve relation files, the log, and the other files of the
    /// database.
    pub fn sockets_max(&self) -> usize {
        self.inner.sockets_max
    }

    /// Returns how long a client may take to log in (`authentication_timeout`).
    pub fn authentication_timeout(&self) -> Duration {
        let seconds = self.inner.settings.int("authentication_timeout");
        Duration::from_secs(u64::try_from(seconds).unwrap_or(1))
    }

    /// Returns the method of reading ahead that was chosen at opening: `io_uring`, `worker` or
    /// `sync`, as in the setting `io_method`. The method is `sync` too once `io_uring` has failed.
    pub fn io_method(&self) -> String {
        self.inner.engine.storage().io_method().method.to_string()
    }

    /// Returns the statistics of reading ahead since the directory was opened.
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

    /// Cleans the tables up in one round, as the gardener's thread does. A page is visited when no
    /// writer has changed the page since the last call. For a database without background threads.
    ///
    /// # Errors
    /// I/O and corruption; too many sessions (53300).
    pub fn clean_up(&self) -> Result<()> {
        let mut rounds = self.inner.rounds.lock();
        let gardener = if let Some(gardener) = rounds.take() {
            rounds.insert(gardener)
        } else {
            let (engine, databases) = (self.engine().clone(), self.databases().clone());
            rounds.insert(Gardener::new(engine, databases, Duration::ZERO)?)
        };
        gardener.round().map(drop)
    }

    /// Makes one round of autovacuum with all its work, and returns a report of each table. Each
    /// table that needs VACUUM or ANALYZE gets it, unless another session has locked the table. For
    /// a database without background threads. The settings `autovacuum` and `autovacuum_naptime` do
    /// not matter here.
    ///
    /// # Errors
    /// Too many sessions (53300). An error of one table is in the table's report.
    pub fn maintain(&self) -> Result<Vec<AutovacuumReport>> {
        self.inner.autovacuum.round()
    }

    /// Returns the environment that the database runs in.
    #[inline]
    pub fn env(&self) -> &Env {
        &self.inner.env
    }

    /// Asks the session with this number to cancel its statement, provided that `secret` is its
    /// secret. This serves a protocol `CancelRequest`.
    pub fn cancel(&self, session: i32, secret: u32) {
        self.inner.transactions.cancel_request(session, secret);
    }

    /// Ends all work, writes a last checkpoint and marks the directory as cleanly closed.
    ///
    /// No session and no transaction begins any more (57P03, 57P01). Statements that run in other
    /// threads end at their next check for interrupts (57P01). Closing waits until every
    /// transaction has ended, because nothing may be written behind the last checkpoint. A session
    /// that is idle in a transaction ends the transaction when its owner uses or drops the session.
    /// A session without a transaction does not delay the closing, and is refused from now on. Its
    /// temporary tables are gone.
    ///
    /// # Errors
    /// 55006 when a transaction is still open after [`Options::close_patience`]. The database is
    /// then not closed: reported commits stay. The next open recovers, unless the database is
    /// closed again before, or its last handle and session are dropped. Write errors: after these,
    /// too, the next open recovers.
    pub fn close(&self) -> Result<()> {
        self.inner.close()
    }

    /// Returns the vacuums that run.
    pub(crate) fn vacuums(&self) -> &Arc<Vacuums> {
        &self.inner.vacuums
    }

    /// Returns the index builds that run.
    pub(crate) fn builds(&self) -> &Arc<Builds> {
        &self.inner.builds
    }

    /// Returns the open databases.
    #[inline]
    pub fn databases(&self) -> &Arc<Databases> {
        &self.inner.databases
    }

    /// Returns the engine.
    #[inline]
    pub fn engine(&self) -> &Arc<Engine> {
        &self.inner.engine
    }

    /// Returns the activities of the sessions.
    pub(crate) fn activities(&self) -> &Activities {
        &self.inner.activities
    }

    /// Returns the transaction manager.
    #[inline]
    pub fn transactions(&self) -> &Arc<TransactionManager> {
        &self.inner.transactions
    }
}

impl Inner {
    fn close(&self) -> Result<()> {
        // One of several closing threads does the work, and the others wait for it.
        let mut closed = self.closed.lock();
        if *closed {
            return Ok(());
        }
        self.transactions.refuse_new_work();
        // The launcher and the gardener change tables, and the background threads write the log of
        // that.
        drop(self.launcher.lock().take());
        drop(self.gardener.lock().take());
        self.transactions.wait_for_transactions(self.close_patience)?;
        if let Some(background) = self.background.lock().take() {
            background.stop();
        }
        self.engine.settle()?;
        self.databases.end_temporary();
        self.engine.storage().shutdown(&[&*self.transactions])?;
        // Idle sessions that their owners keep have no open files either.
        self.engine.close_temporary_files();
        self.transactions.close_files();
        *closed = true;
        Ok(())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.closes_on_drop && !niwaki_env::sync::thread::panicking() {
            // An error here has no receiver. The next open recovers.
            let _ = self.close();
        }
    }
}

/// Sends the failures of reading ahead and of the background to the log. Tells the embedder when
/// the storage is lost.
fn report_failures(storage: &Storage, options: &Options) {
    let in_use = storage.io_method();
    if let (IoMethod::Worker, Some(why)) = (in_use.method, in_use.refused) {
        options.log.write(&format!("io_uring cannot be used: {why}; threads read ahead instead"));
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

/// Number of sessions for the database's own work, beside autovacuum's workers. They serve the
/// gardener's thread, [`Directory::clean_up`], the launcher and [`Directory::maintain`]. A few more
/// can begin while others end.
const OWN_SESSIONS: usize = 10;

fn map_options(settings: &Settings) -> MapOptions {
    match &*settings.text("visibility_map_pin") {
        "off" => MapOptions::NONE,
        "per_access" => MapOptions { resident: false, ..MapOptions::default() },
        _ => MapOptions::default(),
    }
}

/// Number of descriptors that are neither relation files nor sockets: log segments, folders,
/// streams, and the files of the rest of the program.
const OTHER_OPEN_FILES: u64 = 64;
/// Least number of open relation files, even when the system allows fewer: a system that refuses a
/// file reports it.
const OPEN_FILES_MIN: u64 = 16;

/// Least number of blocks of the log's buffer, even when the setting `wal_buffers` is lower.
const WAL_BUFFERS_MIN: usize = 8;
/// Most blocks of the log's buffer by default: as many as a segment of the log has.
const WAL_BUFFERS_MAX: usize = 2048;

/// Least number of connections, even when the system allows few descriptors.
const SOCKETS_MIN: u64 = 4;

/// Returns the most sockets of a server: twice the number of sessions, as in PostgreSQL, so that
/// logins and cancel requests find room. The number is lower when the database would otherwise lack
/// descriptors.
fn sockets_max(settings: &Settings, open_files_limit: Option<u64>, relation_files: usize) -> usize {
    let wanted = 2 * u64::try_from(settings.int("max_connections")).unwrap_or(1);
    let others = relation_files as u64 + OTHER_OPEN_FILES;
    let most = open_files_limit.map_or(u64::MAX, |limit| limit.saturating_sub(others));
    usize::try_from(wanted.min(most).max(SOCKETS_MIN)).unwrap_or(usize::MAX)
}

/// Derives the storage options. `open_files_limit` is the number of files that the system allows
/// the process.
fn storage_options(settings: &Settings, open_files_limit: Option<u64>) -> StorageOptions {
    let defaults = StorageOptions::default();
    let number = |name: &str| u64::try_from(settings.int(name)).unwrap_or(0);
    let wal_buffers = settings.int("wal_buffers");
    let others = number("max_connections") + OTHER_OPEN_FILES;
    let open_files = open_files_limit.map_or(u64::MAX, |limit| limit.saturating_sub(others));
    StorageOptions {
        shared_buffers: number("shared_buffers") as usize,
        // As in PostgreSQL, the default is a 32nd of the pool. A buffer of that size outlasts a
        // slow sync of the log.
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
