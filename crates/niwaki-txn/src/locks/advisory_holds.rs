//! The advisory locks of a session, counted independent of its transactions.

use std::collections::BTreeMap;

use niwaki_env::sync::Mutex;

use crate::locks::key::{AdvisoryKey, LockKey};

/// The advisory locks that the session itself holds, in the order in which it releases them.
#[derive(Debug)]
pub(crate) struct AdvisoryHolds(pub(crate) Mutex<BTreeMap<(AdvisoryKey, u8), AdvisoryHold>>);

/// The hold of the session on a lock in one mode.
#[derive(Debug)]
pub(crate) struct AdvisoryHold {
    /// Number of acquisitions that were not released; at least 1.
    pub(crate) count: u64,
    /// True if the running transaction has noted the lock, too.
    pub(crate) in_transaction: bool,
}

impl AdvisoryHolds {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// Takes a lock once more. Returns false when the session does not hold it yet.
    pub(crate) fn take_again(&self, key: AdvisoryKey, mode: u8) -> bool {
        let mut holds = self.0.lock();
        let Some(hold) = holds.get_mut(&(key, mode)) else { return false };
        debug_assert!(hold.count > 0, "a hold of {key:?} stayed without acquisitions");
        hold.count = hold.count.saturating_add(1);
        true
    }

    pub(crate) fn add(&self, key: AdvisoryKey, mode: u8, in_transaction: bool) {
        let before = self.0.lock().insert((key, mode), AdvisoryHold { count: 1, in_transaction });
        debug_assert!(before.is_none(), "acquisitions of {key:?} are forgotten: {before:?}");
    }

    /// Notes that the transaction takes a lock of the session. Returns true if that is new.
    pub(crate) fn enter(&self, key: AdvisoryKey, mode: u8) -> bool {
        let mut holds = self.0.lock();
        let Some(hold) = holds.get_mut(&(key, mode)) else { return false };
        !std::mem::replace(&mut hold.in_transaction, true)
    }

    /// Notes that the transaction releases a lock. Returns true if the session keeps the lock.
    pub(crate) fn leave(&self, key: &LockKey, mode: u8) -> bool {
        let LockKey::Advisory(key) = key else { return false };
        let mut holds = self.0.lock();
        let Some(hold) = holds.get_mut(&(*key, mode)) else { return false };
        hold.in_transaction = false;
        true
    }
}
