//! The advisory locks of a session, counted independent of its transactions.

use std::collections::BTreeMap;

use niwaki_env::sync::Mutex;

use crate::locks::key::{AdvisoryKey, LockKey};

/// The advisory locks that the session itself holds, in the order in which it releases them.
#[derive(Debug)]
pub(crate) struct SessionShares(pub(crate) Mutex<BTreeMap<(AdvisoryKey, u8), Share>>);

/// The session's share of a lock in one mode.
#[derive(Debug)]
pub(crate) struct Share {
    /// Number of acquisitions that were not released; at least 1.
    pub(crate) count: u64,
    /// True if the running transaction has noted the lock, too.
    pub(crate) in_transaction: bool,
}

impl SessionShares {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// Takes a lock once more. Returns false when the session has no share of it yet.
    pub(crate) fn take_again(&self, key: AdvisoryKey, mode: u8) -> bool {
        let mut shares = self.0.lock();
        let Some(share) = shares.get_mut(&(key, mode)) else { return false };
        debug_assert!(share.count > 0, "a share of {key:?} stayed without acquisitions");
        share.count = share.count.saturating_add(1);
        true
    }

    pub(crate) fn add(&self, key: AdvisoryKey, mode: u8, in_transaction: bool) {
        let before = self.0.lock().insert((key, mode), Share { count: 1, in_transaction });
        debug_assert!(before.is_none(), "acquisitions of {key:?} are forgotten: {before:?}");
    }

    /// Notes that the transaction takes a lock of the session. Returns true if that is new.
    pub(crate) fn enter(&self, key: AdvisoryKey, mode: u8) -> bool {
        let mut shares = self.0.lock();
        let Some(share) = shares.get_mut(&(key, mode)) else { return false };
        !std::mem::replace(&mut share.in_transaction, true)
    }

    /// Notes that the transaction releases a lock. Returns true if the session keeps the lock.
    pub(crate) fn leave(&self, key: &LockKey, mode: u8) -> bool {
        let LockKey::Advisory(key) = key else { return false };
        let mut shares = self.0.lock();
        let Some(share) = shares.get_mut(&(*key, mode)) else { return false };
        share.in_transaction = false;
        true
    }
}
