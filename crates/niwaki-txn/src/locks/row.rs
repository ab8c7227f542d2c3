//! Row locks that live in memory, and the queue in front of a contended row.
//!
//! An exclusive locker, and an updater, is written into the tuple (xmax). What cannot be written there,
//! because several may hold it at once, is kept here until the holder ends.

use std::fmt;

use niwaki_env::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use niwaki_storage::{RelFileId, Tid};

use super::mode::Mode;
use super::queue::Acquired;
use super::{LockKey, LockManager, RowKey, RowLockMode, WaitPolicy};
use crate::error::{Error, Result};
use crate::transaction::Transaction;
use crate::xact::limit;

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

/// Counters of row locks; rows share one when their keys collide, which costs only speed.
const ROW_COUNTERS: usize = limit(4096, 8, 2);

/// One in so many of all row locks is kept for transactions that hold few.
const RESERVED: usize = 8;
/// Locks, row locks or others, that a transaction with few of them holds: a hundred sessions with so
/// many find room in what is kept for them.
const FEW: usize = 1_000;

/// How many row locks are kept or wanted.
#[derive(Debug)]
pub(crate) struct RowCounts {
    pub(crate) total: AtomicUsize,
    total_max: usize,
    /// Most of them when one more comes to a transaction that holds many: it leaves some to others.
    shared_max: usize,
    counters: Box<[AtomicU32]>,
}

impl RowCounts {
    pub(crate) fn new(total_max: usize) -> Self {
        Self {
            total: AtomicUsize::new(0),
            total_max,
            shared_max: total_max - total_max / RESERVED,
            counters: (0..ROW_COUNTERS).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    fn counter(&self, row: &RowKey) -> &AtomicU32 {
        let place = u64::from(row.root.block.0) << 16 | u64::from(row.root.offset.0);
        let mixed = (place ^ row.file.0.rotate_left(48)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        &self.counters[(mixed >> (u64::BITS - ROW_COUNTERS.trailing_zeros())) as usize]
    }

    /// Counts a lock, before it is taken by a transaction that has `held` locks already.
    pub(crate) fn add(&self, row: &RowKey, held: usize) -> Result<()> {
        let most = if held < FEW { self.total_max } else { self.shared_max };
        if self.total.fetch_add(1, Ordering::AcqRel) >= most {
            self.total.fetch_sub(1, Ordering::Relaxed);
            return Err(Error::TooManyRowLocks { most: self.total_max });
        }
        self.counter(row).fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    pub(crate) fn remove(&self, row: &RowKey) {
        self.counter(row).fetch_sub(1, Ordering::Release);
        self.total.fetch_sub(1, Ordering::Release);
    }

    /// False when nobody has a lock on the row.
    #[inline]
    pub(crate) fn maybe(&self, row: &RowKey) -> bool {
        // Acquire: pairs with `add`. Two loads: the first is of a line that hardly ever changes.
        self.total.load(Ordering::Acquire) != 0 && self.counter(row).load(Ordering::Acquire) != 0
    }
}

impl LockManager {
    /// Whether any row lock is kept in memory. False is the usual case. Stable, for a row, while the
    /// caller holds its page's exclusive latch.
    #[inline]
    pub fn any_row_locks(&self) -> bool {
        // Acquire: pairs with the increment in `RowCounts::add`.
        self.rows.total.load(Ordering::Acquire) != 0
    }

    /// Locks a row in memory until the transaction ends, if nobody holds it in a mode that excludes
    /// it; false if somebody does. Never waits, so it may be called under the page's latch, and must
    /// be for the answer to stay true.
    ///
    /// # Errors
    /// [`Error::TooManyRowLocks`].
    pub fn try_lock_row(
        &self,
        transaction: &Transaction,
        row: RowKey,
        mode: RowLockMode,
    ) -> Result<bool> {
        self.lock_row(transaction, row, mode, WaitPolicy::Skip)
    }

    /// Like [`LockManager::try_lock_row`], waiting as `policy` says. When it may wait, no latch may be
    /// held, and the caller looks at the row again afterwards. False only under [`WaitPolicy::Skip`].
    ///
    /// # Errors
    /// As [`LockManager::acquire_table`], and [`Error::TooManyRowLocks`].
    pub fn lock_row(
        &self,
        transaction: &Transaction,
        row: RowKey,
        mode: RowLockMode,
        policy: WaitPolicy,
    ) -> Result<bool> {
        let acquired = self.acquire(transaction, LockKey::Row(row), mode.into(), policy)?;
        Ok(acquired != Acquired::Skipped)
    }

    /// Gives back a lock of [`LockManager::try_lock_row`] that the transaction did not hold before, in
    /// this mode. No savepoint was opened since.
    pub fn unlock_row(&self, transaction: &Transaction, row: RowKey, mode: RowLockMode) {
        let (key, mode) = (LockKey::Row(row), Mode::from(mode));
        if transaction.held.forget(key, mode.bit) {
            self.release(transaction.session(), &key, mode.bit);
        }
    }

    /// Whether no other transaction holds the row in memory in a mode that excludes `mode`. Stays
    /// true while the caller holds the page's exclusive latch.
    #[inline]
    pub fn row_is_free(&self, transaction: &Transaction, row: RowKey, mode: RowLockMode) -> bool {
        !self.rows.maybe(&row)
            || self.is_free(transaction.session(), &LockKey::Row(row), Mode::from(mode))
    }

    /// Whether the transaction holds the row in memory, in any mode.
    pub fn holds_row(&self, transaction: &Transaction, row: RowKey) -> bool {
        self.rows.maybe(&row) && self.is_held_by(transaction.session(), &LockKey::Row(row))
    }

    /// Whether anybody, the own transaction included, holds the row in memory: then its line pointer
    /// is not freed (rule 9b.15).
    pub fn row_is_locked(&self, row: RowKey) -> bool {
        self.rows.maybe(&row) && self.is_held(&LockKey::Row(row))
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
        let acquired = self.probe(transaction, LockKey::Row(row), mode.into(), policy)?;
        Ok(acquired != Acquired::Skipped)
    }

    /// A row moves to a root on another page: who holds `from` in memory holds `to` too. Called under
    /// both pages' exclusive latches (rule 9b.15).
    ///
    /// # Errors
    /// [`Error::TooManyRowLocks`].
    pub fn carry_row_locks(&self, from: RowKey, to: RowKey) -> Result<()> {
        if !self.rows.maybe(&from) {
            return Ok(());
        }
        self.copy_grants(LockKey::Row(from), LockKey::Row(to))
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
        let key = LockKey::Tuple { file, tid };
        let held = (key, Mode::from(mode).bit);
        Ok(match self.acquire(transaction, key, mode.into(), policy)? {
            Acquired::Now => Some(TupleGuard { transaction, key: Some(held) }),
            Acquired::Before => Some(TupleGuard { transaction, key: None }),
            Acquired::Skipped => None,
        })
    }
}
