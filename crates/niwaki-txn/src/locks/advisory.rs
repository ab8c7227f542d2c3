//! Advisory locks: locks on numbers whose meaning only clients know.
//!
//! Advisory locks are in the lock table like all others. So their waits time out, are shown, and
//! take part in the deadlock search. A lock taken for the transaction is released with it. A lock
//! taken for the session is counted here, and outlives transactions and rollbacks.
//!
//! A session that has one lock in both ways holds it in the lock table once. Releasing one of the
//! two leaves the lock to the other.

use std::sync::Arc;

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

/// The advisory locks that a session holds for itself, independent of its transactions. Dropping
/// the value releases them.
#[derive(Debug)]
pub struct AdvisoryLocks {
    session: Arc<SessionControl>,
    held: Vec<Held>,
}

#[derive(Debug)]
struct Held {
    key: AdvisoryKey,
    mode: Mode,
    /// Number of acquisitions that were not released; at least 1.
    count: u64,
    /// True if the running transaction has the lock too.
    by_transaction: bool,
}

fn mode_of(shared: bool) -> Mode {
    if shared { TableLockMode::Share } else { TableLockMode::Exclusive }.into()
}

impl AdvisoryLocks {
    /// Creates an empty list of locks.
    pub fn new(session: &Arc<SessionControl>) -> Self {
        Self { session: Arc::clone(session), held: Vec::new() }
    }

    fn find(&mut self, key: AdvisoryKey, mode: Mode) -> Option<usize> {
        self.held.iter().position(|held| held.key == key && held.mode == mode)
    }

    /// Takes a lock for the session. Returns false only under [`WaitPolicy::Skip`].
    ///
    /// # Errors
    /// The errors of a wait.
    pub fn lock(
        &mut self,
        transaction: &Transaction,
        key: AdvisoryKey,
        shared: bool,
        policy: WaitPolicy,
    ) -> Result<bool> {
        let mode = mode_of(shared);
        if let Some(held) = self.find(key, mode).and_then(|at| self.held.get_mut(at)) {
            held.count = held.count.saturating_add(1);
            return Ok(true);
        }
        let locks = self.session.manager().locks();
        let by_transaction = match locks.acquire_for_session(
            &self.session,
            LockKey::Advisory(key),
            mode,
            policy,
            0,
        )? {
            Acquired::Skipped => return Ok(false),
            Acquired::Now => false,
            // The transaction held the lock. Its note is removed, so that its end does not release
            // the lock.
            Acquired::Before => transaction.held.forget(LockKey::Advisory(key), mode.bit),
        };
        self.held.push(Held { key, mode, count: 1, by_transaction });
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
        let acquired = locks.acquire(transaction, LockKey::Advisory(key), mode, policy)?;
        if acquired == Acquired::Before
            && let Some(held) = self.find(key, mode).and_then(|at| self.held.get_mut(at))
        {
            held.by_transaction = true;
        }
        Ok(acquired != Acquired::Skipped)
    }

    /// Releases a lock of the session once. Returns false when the session has none.
    pub fn unlock(&mut self, transaction: &Transaction, key: AdvisoryKey, shared: bool) -> bool {
        let Some(at) = self.find(key, mode_of(shared)) else { return false };
        let Some(held) = self.held.get_mut(at) else { return false };
        if held.count > 1 {
            held.count -= 1;
        } else {
            let held = self.held.swap_remove(at);
            self.give_up(Some(transaction), &held);
        }
        true
    }

    /// Releases all locks of the session.
    pub fn unlock_all(&mut self, transaction: Option<&Transaction>) {
        for held in std::mem::take(&mut self.held) {
            self.give_up(transaction, &held);
        }
    }

    fn give_up(&self, transaction: Option<&Transaction>, held: &Held) {
        let key = LockKey::Advisory(held.key);
        match transaction {
            Some(transaction) if held.by_transaction => transaction.held.push(key, held.mode.bit),
            _ => self.session.manager().locks().release(&self.session, &key, held.mode.bit),
        }
    }

    /// Notes that the transaction ended: a lock that the transaction also had belongs to the
    /// session alone now.
    pub fn transaction_ended(&mut self) {
        self.held.iter_mut().for_each(|held| held.by_transaction = false);
    }
}

impl Drop for AdvisoryLocks {
    fn drop(&mut self) {
        self.unlock_all(None);
    }
}
