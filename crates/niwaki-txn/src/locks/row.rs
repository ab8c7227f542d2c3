//! Row locks that live in memory, and the queue in front of a contended row.
//!
//! An exclusive locker, and an updater, is written into the tuple (xmax). What cannot be written there,
//! because several may hold it at once, is kept here until the holder ends.

use std::fmt;

use niwaki_env::sync::atomic::Ordering;
use niwaki_storage::{RelFileId, Tid};

use super::mode::Mode;
use super::{LockKey, LockManager, RowKey, RowLockMode, WaitPolicy};
use crate::error::{Error, Result};
use crate::transaction::Transaction;

/// The right to be the next who waits for a row; given back when dropped.
pub struct TupleGuard<'t> {
    transaction: &'t Transaction,
    /// `None` when the transaction had it already.
    key: Option<(LockKey, u8)>,
}

impl fmt::Debug for TupleGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TupleGuard").field(&self.key).finish()
    }
}

impl Drop for TupleGuard<'_> {
    fn drop(&mut self) {
        let Some((key, bit)) = self.key else { return };
        let mut queued = self.transaction.held.queued.borrow_mut();
        // The newest lock in all likelihood. Missing when a rollback released it meanwhile.
        if let Some(at) = queued.iter().rposition(|held| *held == (key, bit)) {
            queued.remove(at);
            drop(queued);
            self.transaction.manager().locks().release(self.transaction.session(), &key, bit);
        }
    }
}

impl LockManager {
    /// Whether any row lock is kept in memory. False is the usual case, and then a writer need not
    /// ask [`LockManager::row_is_free`]. Call it under the page's latch.
    #[inline]
    pub fn any_row_locks(&self) -> bool {
        self.row_locks.load(Ordering::Acquire) != 0
    }

    /// Locks a row in memory until the transaction ends, if nobody holds it in a mode that excludes
    /// it; false if somebody does. Never waits, so it may be called under the page's latch, and must
    /// be for the answer to stay true.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] when too many row locks are kept.
    pub fn try_lock_row(
        &self,
        transaction: &Transaction,
        row: RowKey,
        mode: RowLockMode,
    ) -> Result<bool> {
        self.count_row_lock()?;
        let before = transaction.held.queued.borrow().len();
        let result = self.acquire(transaction, LockKey::Row(row), mode.into(), WaitPolicy::Skip);
        if transaction.held.queued.borrow().len() == before {
            // Held before, or refused.
            self.row_locks.fetch_sub(1, Ordering::Relaxed);
        }
        result
    }

    /// Like [`LockManager::try_lock_row`], waiting as `policy` says. No latch may be held. The caller
    /// looks at the row again afterwards. False only under [`WaitPolicy::Skip`].
    ///
    /// # Errors
    /// As [`LockManager::acquire_table`], and [`Error::OutOfMemory`].
    pub fn lock_row(
        &self,
        transaction: &Transaction,
        row: RowKey,
        mode: RowLockMode,
        policy: WaitPolicy,
    ) -> Result<bool> {
        self.count_row_lock()?;
        let before = transaction.held.queued.borrow().len();
        let result = self.acquire(transaction, LockKey::Row(row), mode.into(), policy);
        if transaction.held.queued.borrow().len() == before {
            self.row_locks.fetch_sub(1, Ordering::Relaxed);
        }
        result
    }

    fn count_row_lock(&self) -> Result<()> {
        // Counted before it is visible, so that a zero means that there is none.
        if self.row_locks.fetch_add(1, Ordering::AcqRel) >= self.row_locks_max {
            self.row_locks.fetch_sub(1, Ordering::Relaxed);
            return Err(Error::OutOfMemory { what: "too many row locks" });
        }
        Ok(())
    }

    /// Whether no other transaction holds the row in memory in a mode that excludes `mode`. Stays
    /// true while the caller holds the page's exclusive latch.
    pub fn row_is_free(&self, transaction: &Transaction, row: RowKey, mode: RowLockMode) -> bool {
        !self.any_row_locks()
            || self.is_free(transaction.session(), &LockKey::Row(row), Mode::from(mode))
    }

    /// Waits until no other transaction holds the row in memory in a mode that excludes `mode`,
    /// without keeping it. False only under [`WaitPolicy::Skip`].
    ///
    /// # Errors
    /// As [`LockManager::acquire_table`].
    pub fn wait_for_row(
        &self,
        transaction: &Transaction,
        row: RowKey,
        mode: RowLockMode,
        policy: WaitPolicy,
    ) -> Result<bool> {
        let before = transaction.held.queued.borrow().len();
        self.count_row_lock()?;
        let key = LockKey::Row(row);
        let result = self.acquire(transaction, key, mode.into(), policy);
        let added = transaction.held.queued.borrow().len() > before;
        if added {
            transaction.held.queued.borrow_mut().pop();
            self.release(transaction.session(), &key, Mode::from(mode).bit);
        } else {
            self.row_locks.fetch_sub(1, Ordering::Relaxed);
        }
        result
    }

    /// Takes a place in the queue of those who want the row of `tid`, whom its holder makes wait, so
    /// that they get it in the order in which they came. Taken before waiting for the holder's end and
    /// kept until the row is marked. `None` only under [`WaitPolicy::Skip`].
    ///
    /// # Errors
    /// As [`LockManager::acquire_table`].
    pub fn lock_tuple<'t>(
        &self,
        transaction: &'t Transaction,
        file: RelFileId,
        tid: Tid,
        mode: RowLockMode,
        policy: WaitPolicy,
    ) -> Result<Option<TupleGuard<'t>>> {
        let before = transaction.held.queued.borrow().len();
        let key = LockKey::Tuple { file, tid };
        if !self.acquire(transaction, key, mode.into(), policy)? {
            return Ok(None);
        }
        let added = transaction.held.queued.borrow().len() > before;
        Ok(Some(TupleGuard { transaction, key: added.then(|| (key, Mode::from(mode).bit)) }))
    }
}
