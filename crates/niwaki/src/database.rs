//! An open database.

use std::sync::Arc;

use niwaki_env::Env;

use crate::session::Session;
use crate::{Result, SqlError};

/// How to open a database: settings by PostgreSQL's names, as `niwaki serve --set` takes them.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `(name, value)`, for instance `("shared_buffers", "256MB")`.
    pub settings: Vec<(String, String)>,
}

impl Options {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }
    /// Sets one setting.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// One broken invariant that [`Database::check`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Relation or file.
    pub file: String,
    /// Block, when one is concerned.
    pub block: Option<u32>,
    /// Item on the block, when one is concerned.
    pub item: Option<u16>,
    /// Name of the invariant (`X1`, `B2`, `checksum`, …).
    pub invariant: String,
    /// What was found.
    pub detail: String,
}

/// What [`Database::check`] visited and found.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// Tables visited.
    pub tables: usize,
    /// Indexes visited.
    pub indexes: usize,
    /// Blocks read.
    pub blocks: u64,
    /// Broken invariants; empty when all is well.
    pub violations: Vec<Violation>,
}

/// An open database: a cheap handle, to be cloned and shared between threads. The last handle or
/// session that is dropped closes the database; [`Database::close`] also reports errors.
#[derive(Clone)]
pub struct Database {
    inner: Arc<Inner>,
}

struct Inner {
    env: Env,
}

impl Database {
    /// Opens the database in a directory, creating it when absent, recovering when needed.
    ///
    /// # Errors
    /// The directory is in use by another process, holds something else or another format version,
    /// or cannot be read or written.
    pub fn open(path: impl AsRef<std::path::Path>) -> Result<Self> {
        Self::open_with(Env::os(path.as_ref()), Options::default())
    }

    /// A new database in memory, gone with its last handle.
    ///
    /// # Errors
    /// None in practice.
    pub fn in_memory() -> Result<Self> {
        Self::open_with(Env::memory(), Options::default())
    }

    /// Opens with a given environment (files, clock, randomness) and settings.
    ///
    /// # Errors
    /// As [`Database::open`]; also unknown settings and bad values.
    pub fn open_with(env: Env, options: Options) -> Result<Self> {
        let _ = options;
        Ok(Self { inner: Arc::new(Inner { env }) })
    }

    /// A new session for user and database `postgres`.
    pub fn session(&self) -> Session {
        self.session_as("postgres", "postgres", &[]).unwrap_or_else(|e| panic!("{e}"))
    }

    /// A new session, as a server opens it for a client: user, database, and the settings of the
    /// start-up packet in their order.
    ///
    /// # Errors
    /// Unknown user (28000) or database (3D000); a bad setting.
    pub fn session_as(
        &self,
        user: &str,
        database: &str,
        settings: &[(String, String)],
    ) -> Result<Session> {
        let _ = (user, database, settings);
        Ok(Session::new(self.clone()))
    }

    /// Visits everything and reports every invariant that does not hold.
    ///
    /// # Errors
    /// Read errors; damage is no error but a finding.
    pub fn check(&self) -> Result<CheckReport> {
        Err(SqlError::unsupported("check"))
    }

    /// Writes a checkpoint.
    ///
    /// # Errors
    /// Write errors.
    pub fn checkpoint(&self) -> Result<()> {
        Err(SqlError::unsupported("CHECKPOINT"))
    }

    /// Sessions that may be open at once (`max_connections`).
    pub fn max_connections(&self) -> usize {
        100
    }

    /// The environment the database runs in.
    pub fn env(&self) -> &Env {
        &self.inner.env
    }

    /// Asks the session with this number to cancel its statement if `secret` is its secret; the
    /// answer to a protocol CancelRequest.
    pub fn cancel(&self, session: i32, secret: u32) {
        let _ = (session, secret);
    }

    /// Ends all sessions (57P01), writes a last checkpoint and marks the directory as cleanly closed.
    ///
    /// # Errors
    /// Write errors; the next open recovers then.
    pub fn close(self) -> Result<()> {
        Ok(())
    }
}
