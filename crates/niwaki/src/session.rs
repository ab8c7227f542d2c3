//! A session of a database.

use std::fmt;
use std::sync::Arc;

use niwaki_ddl::DataDefinition;
use niwaki_directory::open_database::OpenDatabase;
use niwaki_session::Session as InnerSession;
use niwaki_sql::Result;

use crate::database::Database;

/// One session, which belongs to one thread at a time.
pub struct Session {
    /// Dropped before the session. So the session has the last handle, and settles the account of
    /// memory behind it.
    database: Database,
    /// The session below, which has more methods than programs may call.
    pub(crate) inner: InnerSession,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl Session {
    /// Returns the database.
    #[inline]
    pub fn database(&self) -> &Database {
        &self.database
    }
}

impl Database {
    /// Opens a new session for user and database `postgres`, even if ALTER DATABASE lets no client
    /// into this database.
    ///
    /// # Panics
    /// When there are too many sessions. [`Database::session_as`] reports that instead.
    pub fn session(&self) -> Session {
        let inner = InnerSession::open_first(self.directory(), &DataDefinition);
        Session { database: self.clone(), inner: inner.unwrap_or_else(|e| panic!("{e}")) }
    }

    /// Opens a new session as a server does for a client. The client gives the user, the database,
    /// and the settings of the start-up packet in their order.
    ///
    /// # Errors
    /// Unknown user (28000) or database (3D000); a database that allows no connections (55000); a
    /// bad setting; too many sessions (53300).
    pub fn session_as(
        &self,
        user: &str,
        database: &str,
        settings: &[(String, String)],
    ) -> Result<Session> {
        let directory = self.directory();
        let inner = InnerSession::open(directory, &DataDefinition, user, database, settings)?;
        Ok(Session { database: self.clone(), inner })
    }

    /// Opens a session for the database's own work in one of the databases.
    ///
    /// # Errors
    /// Too many sessions (53300); the database is about to go (3D000).
    pub(crate) fn session_in(&self, database: &Arc<OpenDatabase>) -> Result<InnerSession> {
        InnerSession::open_in(self.directory(), &DataDefinition, database)
    }
}
