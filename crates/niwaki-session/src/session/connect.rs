//! Opens the sessions of a directory.

use std::sync::Arc;

use niwaki_catalog::DatabaseDefinition;
use niwaki_directory::open_database::OpenDatabase;
use niwaki_sql::settings::Settings;
use niwaki_sql::{Result, SqlError};

use crate::directory::Directory;
use crate::session::definitions::Definitions;
use crate::session::handle::Session;

/// Name of the only user, and of the first database.
const USER: &str = "postgres";

impl Session {
    /// Opens a new session as a server does for a client. The client gives the user, the database,
    /// and the settings of the start-up packet in their order.
    ///
    /// # Errors
    /// Unknown user (28000) or database (3D000); a database that allows no connections (55000); a
    /// bad setting; too many sessions (53300).
    pub fn open(
        directory: &Directory,
        definitions: &'static dyn Definitions<Self>,
        user: &str,
        database: &str,
        settings: &[(String, String)],
    ) -> Result<Self> {
        if user != USER {
            return Err(SqlError::new("28000", format!("role \"{user}\" does not exist")));
        }
        let definition = directory.databases().definition(database)?;
        if definition.refuses_connections {
            let message = format!("database \"{database}\" is not currently accepting connections");
            return Err(SqlError::new("55000", message));
        }
        enter(directory, definitions, &definition, user, settings)
    }

    /// Opens a session in the first database, for the program that has opened the directory. As in
    /// PostgreSQL's single-user mode, the session is let in even if the database allows no
    /// connections. So such a database can be opened again when no other database exists.
    ///
    /// # Errors
    /// Too many sessions (53300); errors of reading the database.
    pub fn open_first(
        directory: &Directory,
        definitions: &'static dyn Definitions<Self>,
    ) -> Result<Self> {
        let definition = directory.databases().definition(USER)?;
        enter(directory, definitions, &definition, USER, &[])
    }

    /// Opens a session for the database's own work in one of the databases.
    ///
    /// # Errors
    /// Too many sessions (53300); the database is about to go (3D000).
    pub fn open_in(
        directory: &Directory,
        definitions: &'static dyn Definitions<Self>,
        database: &Arc<OpenDatabase>,
    ) -> Result<Self> {
        let settings = directory.settings_of_sessions();
        connect(directory, definitions, database, &database.name(), settings, USER)
    }
}

/// Opens a session in a database for a user, whom the caller has let in.
fn enter(
    directory: &Directory,
    definitions: &'static dyn Definitions<Session>,
    definition: &DatabaseDefinition,
    user: &str,
    settings: &[(String, String)],
) -> Result<Session> {
    let mut own = directory.settings_of_sessions();
    for (name, value) in &definition.settings {
        // ALTER checked these settings. A setting that has become bad blocks no login.
        let _ = own.set_at_start(name, value, false);
    }
    for (name, value) in settings {
        own.set_at_start(name, value, false)?;
    }
    let opened = directory.databases().get(definition)?;
    let session = connect(directory, definitions, &opened, &definition.name, own, user)?;
    opened.statistics().session_began();
    Ok(session)
}

fn connect(
    directory: &Directory,
    definitions: &'static dyn Definitions<Session>,
    database: &Arc<OpenDatabase>,
    name: &str,
    settings: Settings,
    user: &str,
) -> Result<Session> {
    let control = directory.transactions().register_session()?;
    let connection = database.connect(&control, name)?;
    Ok(Session::new(directory.clone(), definitions, connection, control, settings, user))
}
