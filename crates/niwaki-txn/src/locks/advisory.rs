//! Advisory locks: locks on numbers whose meaning only clients know.
//!
//! They are locks of the lock table like all others, so that waits for them time out, are seen and
//! are part of the search for deadlocks.
//!
//! A lock is in the lock table once for a session, and may have two owners there. The transaction
//! notes it as any other lock, and a rollback to a savepoint gives it back. The session counts how
//! often it took the lock, whatever transactions do. Who lets go last releases it.

use std::collections::BTreeMap;
use std::sync::Arc;

use niwaki_env::sync::Mutex;

use super::mode::Mode;
use super::queue::Acquired;
use super::{LockKey, TableLockMode, WaitPolicy};
use crate::error::Result;
use crate::session::SessionControl;
use crate::transaction::Transaction;

/// The object of an advisory lock: one number of 64 bits, or two of 32, which are never the same.
/// Each database has numbers of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AdvisoryKey {
    /// Number of the database.
    pub database: u32,
    /// The upper half, or the first number (`pg_locks.classid`).
    pub class: u32,
    /// The lower half, or the second number (`pg_locks.objid`).
    pub object: u32,
    /// 1 for one number, 2 for two (`pg_locks.objsubid`).
    pub parts: u16,
}

impl AdvisoryKey {
    /// Returns the key of one number in a database.
    pub fn one(database: u32, number: i64) -> Self {
        let bits = number.cast_unsigned();
        // The halves of 64 bits have 32 each.
        let half = |bits: u64| u32::try_from(bits & u64::from(u32::MAX)).unwrap_or(0);
        Self { database, class: half(bits >> 32), object: half(bits), parts: 1 }
    }

    /// Returns the key of two numbers in a database.
    pub fn two(database: u32, first: i32, second: i32) -> Self {
        let (class, object) = (first.cast_unsigned(), second.cast_unsigned());
        Self { database, class, object, parts: 2 }
    }
}

/// What a session itself holds; in order, since it is given back in this order.
#[derive(Debug)]
pub(crate) struct SessionShares(Mutex<BTreeMap<(AdvisoryKey, u8), Share>>);

/// The session's share of a lock, which is in one mode.
#[derive(Debug)]
struct Share {
    /// How often it was taken, and not given back; at least 1.
    count: u64,
    /// The running transaction has noted the lock too.
    in_transaction: bool,
}

impl SessionShares {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// Takes a lock once more; false when the session has no share of it yet.
    fn take_again(&self, key: AdvisoryKey, mode: u8) -> bool {
        let mut shares = self.0.lock();
        let Some(share) = shares.get_mut(&(key, mode)) else { return false };
        share.count = share.count.saturating_add(1);
        true
    }

    fn add(&self, key: AdvisoryKey, mode: u8, in_transaction: bool) {
        self.0.lock().insert((key, mode), Share { count: 1, in_transaction });
    }

    /// The transaction takes a lock that the session has; whether it had not noted it before.
    fn enter(&self, key: AdvisoryKey, mode: u8) -> bool {
        let mut shares = self.0.lock();
        let Some(share) = shares.get_mut(&(key, mode)) else { return false };
        !std::mem::replace(&mut share.in_transaction, true)
    }

    /// The transaction lets go of a lock; whether the session keeps it.
    pub(super) fn leave(&self, key: &LockKey, mode: u8) -> bool {
        let LockKey::Advisory(key) = key else { return false };
        let mut shares = self.0.lock();
        let Some(share) = shares.get_mut(&(*key, mode)) else { return false };
        share.in_transaction = false;
        true
    }
}

/// The advisory locks that a session holds for itself, whatever its transactions do. Dropping it
/// releases them.
#[derive(Debug)]
pub struct AdvisoryLocks {
    session: Arc<SessionControl>,
}

fn mode_of(shared: bool) -> Mode {
    if shared { TableLockMode::Share } else { TableLockMode::Exclusive }.into()
}

impl AdvisoryLocks {
    /// Creates an empty list of locks.
    pub fn new(session: &Arc<SessionControl>) -> Self {
        Self { session: Arc::clone(session) }
    }

    /// Takes a lock for the session. Returns false only under [`WaitPolicy::Skip`].
    ///
    /// # Errors
    /// Those of a wait.
    pub fn lock(&mut self, key: AdvisoryKey, shared: bool, policy: WaitPolicy) -> Result<bool> {
        let mode = mode_of(shared);
        let shares = &self.session.advisory;
        if shares.take_again(key, mode.bit) {
            return Ok(true);
        }
        let locks = self.session.manager().locks();
        let lock = LockKey::Advisory(key);
        let acquired = locks.acquire_for_session(&self.session, lock, mode, policy, 0)?;
        if acquired == Acquired::Skipped {
            return Ok(false);
        }
        // Held before, and not by the session: by its transaction.
        shares.add(key, mode.bit, acquired == Acquired::Before);
        Ok(true)
    }

    /// Takes a lock for the transaction. Returns false only under [`WaitPolicy::Skip`].
    ///
    /// # Errors
    /// The errors of a wait.
    pub fn lock_in_transaction(
        &mut self,
        transaction: &Transaction,
        key: AdvisoryKey,
        shared: bool,
        policy: WaitPolicy,
    ) -> Result<bool> {
        let mode = mode_of(shared);
        let locks = self.session.manager().locks();
        let lock = LockKey::Advisory(key);
        let acquired = locks.acquire(transaction, lock, mode, policy)?;
        if acquired == Acquired::Before && self.session.advisory.enter(key, mode.bit) {
            transaction.held.push(lock, mode.bit);
        }
        Ok(acquired != Acquired::Skipped)
    }

    /// Gives back a lock of the session once; false when it has none.
    pub fn unlock(&mut self, key: AdvisoryKey, shared: bool) -> bool {
        let mode = mode_of(shared).bit;
        let mut shares = self.session.advisory.0.lock();
        let Some(share) = shares.get_mut(&(key, mode)) else { return false };
        share.count -= 1;
        if share.count == 0
            && let Some(gone) = shares.remove(&(key, mode))
        {
            drop(shares);
            self.release(key, mode, &gone);
        }
        true
    }

    /// Gives back all locks of the session.
    pub fn unlock_all(&mut self) {
        let shares = std::mem::take(&mut *self.session.advisory.0.lock());
        for ((key, mode), share) in &shares {
            self.release(*key, *mode, share);
        }
    }

    /// Releases a lock of which the session's share is gone.
    fn release(&self, key: AdvisoryKey, mode: u8, share: &Share) {
        if !share.in_transaction {
            let locks = self.session.manager().locks();
            locks.release(&self.session, &LockKey::Advisory(key), mode);
        }
    }
}

impl Drop for AdvisoryLocks {
    fn drop(&mut self) {
        self.unlock_all();
    }
}
