//! Activity of each session, for the view `pg_stat_activity`.

use std::net::IpAddr;
use std::sync::Arc;

use niwaki_catalog::Oid;
use niwaki_env::hash::HashMap;
use niwaki_env::sync::Mutex;

/// The most bytes of a statement's text that an activity keeps, as PostgreSQL's default for
/// `track_activity_query_size`.
const QUERY_BYTES_MAX: usize = 1024;

/// State of a session: it works, or it waits for its client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// No transaction is open.
    #[default]
    Idle,
    /// A statement runs, or has run in an implicit transaction that has not ended.
    Active,
    /// A transaction block is open, and the session waits for the client's next statement.
    InTransaction,
    /// As [`State::InTransaction`], but the block can only be rolled back.
    InFailedTransaction,
}

impl State {
    /// Returns the state's name in PostgreSQL.
    pub fn word(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Active => "active",
            Self::InTransaction => "idle in transaction",
            Self::InFailedTransaction => "idle in transaction (aborted)",
        }
    }
}

/// Kind of a session's owner, as in `pg_stat_activity.backend_type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackendType {
    /// A client, or the program that has the library linked in.
    #[default]
    Client,
    /// The thread that starts workers of autovacuum.
    AutovacuumLauncher,
    /// A thread that vacuums and analyzes tables.
    AutovacuumWorker,
}

impl BackendType {
    /// Returns the kind's name in PostgreSQL.
    pub fn word(self) -> &'static str {
        match self {
            Self::Client => "client backend",
            Self::AutovacuumLauncher => "autovacuum launcher",
            Self::AutovacuumWorker => "autovacuum worker",
        }
    }
}

/// One session's activity.
#[derive(Clone, Debug, Default)]
pub struct Activity {
    /// The kind of the session's owner.
    pub backend_type: BackendType,
    /// The database that the session works in.
    pub database: Option<Oid>,
    /// The work that the session does now.
    pub state: State,
    /// When the session entered this state, in microseconds since 1970. `None`: when the session
    /// began.
    pub state_since_us: Option<i64>,
    /// The address of the client. `None` for a client of this machine without an address.
    pub client_address: Option<IpAddr>,
    /// The port of the client's socket; -1 for a socket without a port, `None` without a socket.
    pub client_port: Option<i32>,
    /// The beginning of the text of the statement that runs, or ran last.
    pub query: String,
    /// The setting `application_name`.
    pub application_name: String,
}

impl Activity {
    /// Notes that a statement with the text `query` begins at `now_us`, in microseconds since 1970.
    #[inline]
    pub fn begin(&mut self, query: &str, now_us: i64) {
        self.state = State::Active;
        self.state_since_us = Some(now_us);
        self.query.clear();
        self.query.push_str(&query[..query.floor_char_boundary(QUERY_BYTES_MAX)]);
    }
}

/// Activities by session number. A session writes its own activity under a lock. Only readers of
/// the activities take that lock too.
#[derive(Debug, Default)]
pub struct Activities {
    sessions: Mutex<HashMap<i32, Arc<Mutex<Activity>>>>,
}

impl Activities {
    /// Adds the activity of a new session. [`Activities::remove`] removes the activity.
    pub fn add(&self, session: i32, backend_type: BackendType) -> Arc<Mutex<Activity>> {
        let activity = Arc::new(Mutex::new(Activity { backend_type, ..Activity::default() }));
        self.sessions.lock().insert(session, Arc::clone(&activity));
        activity
    }

    /// Removes the activity of a session that has ended. If a new session already has the same
    /// number, its activity stays.
    pub fn remove(&self, session: i32, activity: &Arc<Mutex<Activity>>) {
        let mut sessions = self.sessions.lock();
        if sessions.get(&session).is_some_and(|found| Arc::ptr_eq(found, activity)) {
            sessions.remove(&session);
        }
    }

    /// Returns the activity of a session; `None` when the session has just begun or ended.
    pub fn of(&self, session: i32) -> Option<Activity> {
        let found = self.sessions.lock().get(&session).cloned();
        found.map(|activity| activity.lock().clone())
    }
}
