//! The registry of all live sessions.

use std::sync::{Arc, Weak};

use niwaki_env::hash::{HashMap, HashSet};
use niwaki_env::sync::RwLock;
use niwaki_env::sync::atomic::{AtomicI32, Ordering};
use niwaki_storage::Xid;

use crate::error::{Error, Result};
use crate::handle::session::SessionControl;

/// The sessions of one database. A session leaves when its last handle is dropped.
#[derive(Debug)]
pub(crate) struct Registry {
    sessions: RwLock<Vec<Weak<SessionControl>>>,
    sessions_max: usize,
    next_backend: AtomicI32,
}

impl Registry {
    pub(crate) fn new(sessions_max: usize) -> Self {
        Self { sessions: RwLock::new(Vec::new()), sessions_max, next_backend: AtomicI32::new(1) }
    }

    /// Adds the session that `create` makes from its backend number.
    pub(crate) fn add(
        &self,
        create: impl FnOnce(i32) -> SessionControl,
    ) -> Result<Arc<SessionControl>> {
        let mut sessions = self.sessions.write();
        if sessions.len() >= self.sessions_max {
            return Err(Error::TooManySessions);
        }
        // Wraps to negative numbers after two thousand million sessions, which is harmless: the
        // numbers are names only.
        let session = Arc::new(create(self.next_backend.fetch_add(1, Ordering::Relaxed)));
        sessions.push(Arc::downgrade(&session));
        Ok(session)
    }

    /// Removes the sessions that are gone.
    pub(crate) fn forget_dead(&self) {
        self.sessions.write().retain(|session| session.strong_count() > 0);
    }

    /// Returns all live sessions.
    pub(crate) fn all(&self) -> Vec<Arc<SessionControl>> {
        self.sessions.read().iter().filter_map(Weak::upgrade).collect()
    }

    /// Maps each awaited transaction or subtransaction to the session that runs it, by its place in
    /// `sessions`. Only ids that one of `sessions` waits for now are in the map.
    pub(crate) fn owners(sessions: &[Arc<SessionControl>]) -> HashMap<Xid, usize> {
        let wanted: HashSet<Xid> = sessions.iter().filter_map(|it| it.awaited_xid()).collect();
        let mut owners = HashMap::default();
        if wanted.is_empty() {
            return owners;
        }
        for (at, session) in sessions.iter().enumerate() {
            session.each_xid(|xid| {
                if wanted.contains(&xid) {
                    let before = owners.insert(xid, at);
                    debug_assert!(before.is_none_or(|other| other == at), "two sessions run {xid}");
                }
            });
        }
        owners
    }
}
