//! An open database: its directory, for programs.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use niwaki_background::autovacuum::work::AutovacuumReport;
use niwaki_env::Env;
use niwaki_env::vfs::OverlayVfs;
use niwaki_session::{Directory, Options};
use niwaki_sql::{Result, SqlError};
use niwaki_storage::{ReadStatistics, Storage};

/// An open directory with its databases (`CREATE DATABASE`); the database `postgres` always exists.
/// The value is a cheap handle that can be cloned and shared between threads. Dropping the last
/// handle or session closes the database. [`Database::close`] also reports errors.
#[derive(Clone)]
pub struct Database {
    directory: Directory,
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let databases = self.directory.databases();
        f.debug_struct("Database").field("databases", databases).finish_non_exhaustive()
    }
}

impl Database {
    /// Opens the database in a directory. Creates the database when absent and recovers it when
    /// needed.
    ///
    /// # Errors
    /// The directory is in use by another process, holds something else or another format version,
    /// or cannot be read or written.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(Env::os(path.as_ref()), Options::default().background(true))
    }

    /// Creates a new database in memory, which goes with its last handle. The database vacuums and
    /// checkpoints as one in a directory does. `max_wal_size` is 64 MB, because the log takes
    /// memory and no recovery ever reads it.
    ///
    /// # Errors
    /// The system has no thread to give (53000).
    pub fn in_memory() -> Result<Self> {
        let options = Options::default().background(true).set("max_wal_size", "64MB");
        Self::open_with(Env::memory(), options)
    }

    /// Creates a new database in memory without background threads, so that nothing happens by
    /// itself: for tests. The log grows until the caller calls [`Database::checkpoint`]. The
    /// versions that writers leave behind stay until [`Database::clean_up`] and
    /// [`Database::maintain`].
    ///
    /// # Errors
    /// None in practice.
    pub fn in_memory_without_threads() -> Result<Self> {
        Self::open_with(Env::memory(), Options::default())
    }

    /// Opens a directory for reading, as for [`Database::check`]. Nothing there is created, written
    /// or removed, so the directory may lie on a read-only file system. The changes that recovery
    /// and sessions make stay in memory, and go with the last handle. No server may use the
    /// directory meanwhile. Other readers may look into the directory at the same time.
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
        Ok(Self { directory: Directory::open_with(env, options)? })
    }

    /// Returns the open directory.
    #[inline]
    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Notes that a server listens on this TCP port, which is the setting `port` of sessions that
    /// begin from now on.
    pub fn listens_on(&self, port: u16) {
        self.directory.listens_on(port);
    }

    /// Returns how many sessions may be open at once (`max_connections`).
    pub fn max_connections(&self) -> usize {
        self.directory.max_connections()
    }

    /// Returns the memory that the process may take, in bytes (`max_server_memory`). `None` without
    /// a limit, or when the system does not report its memory.
    ///
    /// # Errors
    /// `22023` for a limit below the need of shared buffers and a few sessions: every statement
    /// would fail.
    pub fn memory_limit(&self) -> Result<Option<usize>> {
        self.directory.memory_limit()
    }

    /// Returns how many connections a server may hold at once, including those that have not logged
    /// in. The remaining descriptors serve relation files, the log, and the other files of the
    /// database.
    pub fn sockets_max(&self) -> usize {
        self.directory.sockets_max()
    }

    /// Returns how long a client may take to log in (`authentication_timeout`).
    pub fn authentication_timeout(&self) -> Duration {
        self.directory.authentication_timeout()
    }

    /// Returns the method of reading ahead that was chosen at opening: `io_uring`, `worker` or
    /// `sync`, as in the setting `io_method`. The method is `sync` too once `io_uring` has failed.
    pub fn io_method(&self) -> String {
        self.directory.io_method()
    }

    /// Returns the statistics of reading ahead since the directory was opened.
    pub fn read_statistics(&self) -> ReadStatistics {
        self.directory.read_statistics()
    }

    /// Writes a checkpoint.
    ///
    /// # Errors
    /// Write errors.
    pub fn checkpoint(&self) -> Result<()> {
        self.directory.checkpoint()
    }

    /// Cleans the tables up in one round, as the gardener's thread does. A page is visited when no
    /// writer has changed the page since the last call. For a database without background threads.
    ///
    /// # Errors
    /// I/O and corruption; too many sessions (53300).
    pub fn clean_up(&self) -> Result<()> {
        self.directory.clean_up()
    }

    /// Makes one round of autovacuum with all its work, and returns a report of each table. Each
    /// table that needs VACUUM or ANALYZE gets it, unless another session has locked the table. For
    /// a database without background threads. The settings `autovacuum` and `autovacuum_naptime` do
    /// not matter here.
    ///
    /// # Errors
    /// Too many sessions (53300). An error of one table is in the table's report.
    pub fn maintain(&self) -> Result<Vec<AutovacuumReport>> {
        self.directory.maintain()
    }

    /// Returns the environment that the database runs in.
    #[inline]
    pub fn env(&self) -> &Env {
        self.directory.env()
    }

    /// Asks the session with this number to cancel its statement, provided that `secret` is its
    /// secret. This serves a protocol `CancelRequest`.
    pub fn cancel(&self, session: i32, secret: u32) {
        self.directory.cancel(session, secret);
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
    pub fn close(self) -> Result<()> {
        self.directory.close()
    }
}

#[cfg(test)]
mod tests {
    use niwaki_env::Env;
    use niwaki_storage::{RelFile, Xid};

    use super::Database;
    use crate::Options;

    /// A database may be created while all databases are closed, or while no session is free to
    /// open it. Closing once took the unlogged tables of such a database for temporary ones and
    /// removed their files.
    #[test]
    fn unlogged_tables_of_a_database_that_is_not_open_outlast_a_close() {
        let env = Env::memory();
        let open = || Database::open_with(env.clone(), Options::new()).unwrap();
        let database = open();
        database.session().execute("create database b", ()).unwrap();
        let mut inside = database.session_as("postgres", "b", &[]).unwrap();
        inside.execute("create unlogged table u as select 1 as a", ()).unwrap();
        drop(inside);
        let oid = database.directory().databases().definition("b").unwrap().oid;
        database.directory().databases().forget(oid);
        database.close().unwrap();
        let database = open();
        let mut inside = database.session_as("postgres", "b", &[]).unwrap();
        let count: i64 = inside.query_one("select count(*) from u", ()).unwrap().get(0).unwrap();
        assert_eq!(count, 1);
        drop(inside);
        assert_eq!(database.check().unwrap().violations, []);
    }

    /// An older version closed the directory while a session had a temporary table.
    #[test]
    fn what_an_earlier_life_left_of_temporary_relations_is_moved_aside() {
        let env = Env::memory();
        let open = || Database::open_with(env.clone(), Options::new()).unwrap();
        let is_there = |path: &str| env.vfs.exists(path).unwrap();
        let database = open();
        database.session().execute("create unlogged table u as select 1 as a", ()).unwrap();
        let storage = database.directory().engine().storage();
        let left = RelFile { id: storage.allocate_file(), logged: false };
        storage.create_file(left, Xid::INVALID).unwrap();
        database.directory().engine().settle().unwrap();
        storage.shutdown(&[&**database.directory().transactions()]).unwrap();
        drop(database);
        let path = format!("base/{}.main", left.id);
        assert!(is_there(&path));
        for _ in 0..2 {
            let database = open();
            assert!(!is_there(&path) && is_there(&format!("aside/{}.main", left.id)));
            let mut session = database.session();
            let count: i64 =
                session.query_one("select count(*) from u", ()).unwrap().get(0).unwrap();
            assert_eq!(count, 1);
            drop(session);
            assert_eq!(database.check().unwrap().violations, []);
            database.close().unwrap();
        }
    }
}
