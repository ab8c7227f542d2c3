//! What the sessions are doing, as `pg_stat_activity` shows it.

use std::net::IpAddr;
use std::sync::Arc;

use niwaki_catalog::Oid;
use niwaki_env::hash::HashMap;
use niwaki_env::sync::Mutex;

/// Most bytes of a statement's text that are kept (`track_activity_query_size` of PostgreSQL).
const QUERY_BYTES_MAX: usize = 1024;

/// Whether a session works or waits for its client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    /// No transaction is open.
    #[default]
    Idle,
    /// A statement runs, or belongs to an implicit transaction that has not ended.
    Active,
    /// The client has the next word in a transaction block.
    InTransaction,
    /// The same, and the block can only be rolled back.
    InFailedTransaction,
}

impl State {
    /// PostgreSQL's word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Active => "active",
            Self::InTransaction => "idle in transaction",
            Self::InFailedTransaction => "idle in transaction (aborted)",
        }
    }
}

/// Who works in a session, in the words of `pg_stat_activity.backend_type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum BackendType {
    /// A client, or the program that the library is part of.
    #[default]
    Client,
    AutovacuumLauncher,
    AutovacuumWorker,
}

impl BackendType {
    /// PostgreSQL's word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Client => "client backend",
            Self::AutovacuumLauncher => "autovacuum launcher",
            Self::AutovacuumWorker => "autovacuum worker",
        }
    }
}

/// One session's activity.
#[derive(Clone, Debug, Default)]
pub(crate) struct Activity {
    pub(crate) backend_type: BackendType,
    /// The database that it works in.
    pub(crate) database: Option<Oid>,
    pub(crate) state: State,
    /// When that came, in microseconds since 1970; `None`: with the session.
    pub(crate) state_since_us: Option<i64>,
    /// Where its client is; `None` for one of this machine without an address.
    pub(crate) client_address: Option<IpAddr>,
    /// The port of its client's socket, -1 for one without; `None` without a socket.
    pub(crate) client_port: Option<i32>,
    /// Text of the statement that runs, or ran last, from its beginning.
    pub(crate) query: String,
    /// The setting `application_name`.
    pub(crate) application_name: String,
}

impl Activity {
    /// A statement with this text begins at `now_us`, in microseconds since 1970.
    pub(crate) fn begin(&mut self, query: &str, now_us: i64) {
        self.state = State::Active;
        self.state_since_us = Some(now_us);
        self.query.clear();
        self.query.push_str(&query[..query.floor_char_boundary(QUERY_BYTES_MAX)]);
    }
}

/// Activities by session number. A session writes its own, under a lock that only those who look take
/// besides.
#[derive(Debug, Default)]
pub(crate) struct Activities {
    sessions: Mutex<HashMap<i32, Arc<Mutex<Activity>>>>,
}

impl Activities {
    /// A new session's activity; it is forgotten by [`Activities::remove`].
    pub(crate) fn add(&self, session: i32, backend_type: BackendType) -> Arc<Mutex<Activity>> {
        let activity = Arc::new(Mutex::new(Activity { backend_type, ..Activity::default() }));
        self.sessions.lock().insert(session, Arc::clone(&activity));
        activity
    }

    /// The session has ended. Its number may belong to a new one already, which stays.
    pub(crate) fn remove(&self, session: i32, activity: &Arc<Mutex<Activity>>) {
        let mut sessions = self.sessions.lock();
        if sessions.get(&session).is_some_and(|found| Arc::ptr_eq(found, activity)) {
            sessions.remove(&session);
        }
    }

    /// What a session does now; `None` for one that has just begun or ended.
    pub(crate) fn of(&self, session: i32) -> Option<Activity> {
        let found = self.sessions.lock().get(&session).cloned();
        found.map(|activity| activity.lock().clone())
    }
}
