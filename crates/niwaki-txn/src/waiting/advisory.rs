//! Advisory locks: locks on numbers whose meaning only clients know.
//!
//! Advisory locks are in the lock table like all others. So their waits time out, are shown, and
//! take part in the deadlock search.
//!
//! A session has a lock once in the lock table, with up to two owners. The transaction notes the
//! lock as any other lock, and a rollback to a savepoint gives it back. The session counts how
//! often it took the lock, independent of transactions. The owner that lets go last releases the
//! lock.

use std::collections::BTreeMap;
use std::sync::Arc;

use niwaki_env::sync::Mutex;

use crate::error::Result;
use crate::handle::session::SessionControl;
use crate::handle::transaction::Transaction;
use crate::locks::key::{LockKey, WaitPolicy};
use crate::locks::mode::{Mode, TableLockMode};
use crate::waiting::queue::Acquired;

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

/// The advisory locks that the session itself holds, in the order in which it releases them.
#[derive(Debug)]
pub(crate) struct SessionShares(Mutex<BTreeMap<(AdvisoryKey, u8), Share>>);

/// The session's share of a lock in one mode.
#[derive(Debug)]
struct Share {
    /// Number of acquisitions that were not released; at least 1.
    count: u64,
    /// True if the running transaction has noted the lock, too.
    in_transaction: bool,
}

impl SessionShares {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// Takes a lock once more. Returns false when the session has no share of it yet.
    fn take_again(&self, key: AdvisoryKey, mode: u8) -> bool {
        let mut shares = self.0.lock();
        let Some(share) = shares.get_mut(&(key, mode)) else { return false };
        share.count = share.count.saturating_add(1);
        true
    }

    fn add(&self, key: AdvisoryKey, mode: u8, in_transaction: bool) {
        self.0.lock().insert((key, mode), Share { count: 1, in_transaction });
    }

    /// Notes that the transaction takes a lock of the session. Returns true if that is new.
    fn enter(&self, key: AdvisoryKey, mode: u8) -> bool {
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

/// The advisory locks that a session holds for itself, independent of its transactions. Dropping
/// the value releases them.
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
    /// The errors of a wait.
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
        // A lock held before is the transaction's: the session had no share.
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

    /// Releases a lock of the session once. Returns false when the session has none.
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

    /// Releases all locks of the session.
    pub fn unlock_all(&mut self) {
        let shares = std::mem::take(&mut *self.session.advisory.0.lock());
        for ((key, mode), share) in &shares {
            self.release(*key, *mode, share);
        }
    }

    /// Releases a lock after the session's share went, unless the transaction has the lock.
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
