//! An open database with its connected sessions.

use std::sync::{Arc, Weak};
use std::time::Duration;

use niwaki_catalog::{Catalog, Oid};
use niwaki_env::hash::HashMap;
use niwaki_env::seeded_bug;
use niwaki_env::sync::{Condvar, Mutex};
use niwaki_sql::{Result, SqlError};
use niwaki_system::monitor::statistics::DatabaseCounters;
use niwaki_txn::SessionControl;

use crate::notifications::Notifications;

/// Longest single wait for sessions to end before a database can be closed.
const NAP: Duration = Duration::from_millis(100);
/// Number of such waits, as in PostgreSQL: 5 seconds together. Clients disconnect and report it at
/// once.
const PATIENCE_NAPS: u32 = 50;

/// A database that is open.
#[derive(Debug)]
pub struct OpenDatabase {
    catalog: Arc<Catalog>,
    notifications: Notifications,
    statistics: DatabaseCounters,
    connections: Mutex<Connections>,
    /// Signalled when a connection ends.
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Connections {
    sessions: HashMap<i32, Weak<SessionControl>>,
    /// Number of statements that keep the database closed. While there is one, no new session
    /// connects.
    closed_by: u32,
}

pub(crate) const JUST_DROPPED: &str = "It seems to have just been dropped or renamed.";

/// Returns the error 3D000.
pub fn no_database(name: &str) -> SqlError {
    SqlError::new("3D000", format!("database \"{name}\" does not exist"))
}

impl OpenDatabase {
    /// Creates an open database without connections.
    pub fn new(catalog: Arc<Catalog>) -> Self {
        Self {
            catalog,
            notifications: Notifications::default(),
            statistics: DatabaseCounters::default(),
            connections: Mutex::default(),
            ended: Condvar::new(),
        }
    }

    /// Returns the database's catalog.
    #[inline]
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// Returns the database's number.
    pub fn oid(&self) -> Oid {
        self.catalog.state().database_oid()
    }

    /// Returns the database's present name.
    pub fn name(&self) -> String {
        self.catalog.state().database().map(|database| database.name.clone()).unwrap_or_default()
    }

    /// Returns the messages between the database's sessions.
    #[inline]
    pub fn notifications(&self) -> &Notifications {
        &self.notifications
    }

    /// Returns the database's statistics.
    #[inline]
    pub fn statistics(&self) -> &DatabaseCounters {
        &self.statistics
    }

    /// Connects a session that found the database by this name.
    ///
    /// # Errors
    /// 3D000 when the database is about to be dropped.
    pub fn connect(
        self: &Arc<Self>,
        session: &Arc<SessionControl>,
        name: &str,
    ) -> Result<Connection> {
        let mut connections = self.connections.lock();
        if connections.closed_by > 0 && !seeded_bug!("let-in") {
            return Err(no_database(name).with_detail(JUST_DROPPED));
        }
        let backend = session.backend();
        connections.sessions.insert(backend, Arc::downgrade(session));
        Ok(Connection { database: Arc::clone(self), backend })
    }

    /// Lets no new session in, and waits until no session but `session`, the waiting one, is
    /// connected. With `force` it terminates the other sessions. The error calls the database
    /// `what`.
    ///
    /// # Errors
    /// 55006 when a session stays; the interrupts of the waiting session. After an error new
    /// sessions are let in again.
    pub fn close(
        self: &Arc<Self>,
        session: &SessionControl,
        what: &str,
        force: bool,
    ) -> Result<ClosedDatabase> {
        self.connections.lock().closed_by += 1;
        let closed = ClosedDatabase { database: Arc::clone(self), is_gone: false };
        if force {
            let connections = self.connections.lock();
            let connected: Vec<_> =
                connections.sessions.values().filter_map(Weak::upgrade).collect();
            drop(connections);
            connected.iter().for_each(|session| session.terminate());
        }
        let mut naps = PATIENCE_NAPS;
        loop {
            session.check_interrupts().map_err(niwaki_txn::Error::from)?;
            let mut connections = self.connections.lock();
            let others = connections.sessions.keys().filter(|other| **other != session.backend());
            let count = others.count();
            if count == 0 {
                break;
            }
            if naps == 0 {
                drop(connections);
                return Err(in_use(what, &self.name(), count));
            }
            if self.ended.wait_for(&mut connections, NAP).timed_out() {
                naps -= 1;
            }
        }
        Ok(closed)
    }

    /// Refuses when any session is connected, for work that needs none.
    ///
    /// # Errors
    /// 55006 when a session is connected.
    pub fn refuse_connected(&self) -> Result<()> {
        match self.connections.lock().sessions.len() {
            0 => Ok(()),
            count => Err(in_use("database", &self.name(), count)),
        }
    }
}

/// Returns the error 55006.
fn in_use(what: &str, name: &str, count: usize) -> SqlError {
    let message = format!("{what} \"{name}\" is being accessed by other users");
    let (is, sessions) = if count == 1 { ("is", "session") } else { ("are", "sessions") };
    SqlError::new("55006", message)
        .with_detail(format!("There {is} {count} other {sessions} using the database."))
}

/// A session's connection to its database. Dropping the value disconnects.
#[derive(Debug)]
pub struct Connection {
    database: Arc<OpenDatabase>,
    backend: i32,
}

impl std::ops::Deref for Connection {
    type Target = OpenDatabase;
    #[inline]
    fn deref(&self) -> &OpenDatabase {
        &self.database
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.database.connections.lock().sessions.remove(&self.backend);
        self.database.ended.notify_all();
    }
}

/// A database without connections. As long as this value lives, no session can connect, and after
/// [`ClosedDatabase::gone`] none ever can.
#[derive(Debug)]
pub struct ClosedDatabase {
    database: Arc<OpenDatabase>,
    is_gone: bool,
}

impl ClosedDatabase {
    /// Notes that the database was dropped.
    pub fn gone(mut self) {
        self.is_gone = true;
    }
}

impl Drop for ClosedDatabase {
    fn drop(&mut self) {
        if !self.is_gone {
            self.database.connections.lock().closed_by -= 1;
        }
    }
}
