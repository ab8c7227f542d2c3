//! Advisory locks: locks on numbers whose meaning only clients know.
//!
//! Advisory locks are in the lock table like all others. So their waits time out, are shown, and
//! take part in the deadlock search.
//!
//! A session has a lock once in the lock table, with up to two owners. The transaction notes the
//! lock as any other lock, and a rollback to a savepoint gives it back. The session counts how
//! often it took the lock, independent of transactions. The owner that lets go last releases the
//! lock.

use std::sync::Arc;

use crate::error::Result;
use crate::handle::session::SessionControl;
use crate::handle::transaction::Transaction;
use crate::locks::advisory_holds::AdvisoryHold;
use crate::locks::key::{AdvisoryKey, LockKey, WaitPolicy};
use crate::locks::mode::{Mode, TableLockMode};
use crate::waiting::acquire::Acquired;

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
        let holds = &self.session.advisory;
        if holds.take_again(key, mode.bit) {
            return Ok(true);
        }
        let locks = self.session.manager().locks();
        let lock = LockKey::Advisory(key);
        let acquired = locks.acquire_for_session(&self.session, lock, mode, policy, 0)?;
        if acquired == Acquired::Skipped {
            return Ok(false);
        }
        // A lock held before is the transaction's: the session did not hold it.
        holds.add(key, mode.bit, acquired == Acquired::Before);
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
        debug_assert!(
            Arc::ptr_eq(&self.session, transaction.session()),
            "the session of another transaction would not know of its lock"
        );
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
        let mut holds = self.session.advisory.0.lock();
        let Some(hold) = holds.get_mut(&(key, mode)) else { return false };
        debug_assert!(hold.count > 0, "a hold of {key:?} stayed without acquisitions");
        hold.count -= 1;
        if hold.count == 0
            && let Some(gone) = holds.remove(&(key, mode))
        {
            drop(holds);
            self.release(key, mode, &gone);
        }
        true
    }

    /// Releases all locks of the session.
    pub fn unlock_all(&mut self) {
        let holds = std::mem::take(&mut *self.session.advisory.0.lock());
        for ((key, mode), hold) in &holds {
            self.release(*key, *mode, hold);
        }
    }

    /// Releases a lock after the session let go of it, unless the transaction has the lock.
    fn release(&self, key: AdvisoryKey, mode: u8, hold: &AdvisoryHold) {
        if !hold.in_transaction {
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
