//! Opens the sessions of a database.

use std::sync::Arc;

use niwaki_directory::open_database::OpenDatabase;
use niwaki_sql::settings::Settings;

use crate::database::Database;
use crate::session::handle::Session;
use crate::{Result, SqlError};

impl Database {
    /// Opens a new session for user and database `postgres`.
    ///
    /// # Panics
    /// When there are too many sessions; [`Database::session_as`] reports that instead.
    pub fn session(&self) -> Session {
        self.session_as("postgres", "postgres", &[]).unwrap_or_else(|e| panic!("{e}"))
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
        if user != "postgres" {
            return Err(SqlError::new("28000", format!("role \"{user}\" does not exist")));
        }
        let definition = self.databases().definition(database)?;
        if definition.refuses_connections {
            let message = format!("database \"{database}\" is not currently accepting connections");
            return Err(SqlError::new("55000", message));
        }
        let mut own = self.settings_of_sessions();
        for (name, value) in &definition.settings {
            // ALTER checked these settings. A setting that has become bad blocks no login.
            let _ = own.set_at_start(name, value, false);
        }
        for (name, value) in settings {
            own.set_at_start(name, value, false)?;
        }
        let opened = self.databases().get(&definition)?;
        let session = self.connect(&opened, database, own, user)?;
        opened.statistics().session_began();
        Ok(session)
    }

    /// Opens a session for the database's own work in one of the databases.
    ///
    /// # Errors
    /// Too many sessions (53300); the database is about to go (3D000).
    pub(crate) fn session_in(&self, database: &Arc<OpenDatabase>) -> Result<Session> {
        let settings = self.settings_of_sessions();
        self.connect(database, &database.name(), settings, "postgres")
    }

    fn connect(
        &self,
        database: &Arc<OpenDatabase>,
        name: &str,
        settings: Settings,
        user: &str,
    ) -> Result<Session> {
        let control = self.transactions().register_session()?;
        let connection = database.connect(&control, name)?;
        Ok(Session::new(self.clone(), connection, control, settings, user))
    }
}
