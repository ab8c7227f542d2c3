//! Row locks in memory, and the queue in front of a contended row.
//!
//! An exclusive locker or an updater writes its id into the tuple (xmax). Several transactions may
//! hold a shared lock at once, so the tuple has no room for them. Such locks are kept here until
//! the holder ends.

use std::fmt;

use niwaki_env::sync::atomic::Ordering;
use niwaki_storage::{OffsetNumber, RelFileId, Tid};

use crate::error::Result;
use crate::handle::lock_entry::Attempt;
use crate::handle::lock_table::LockManager;
use crate::handle::page_locks::PageLocks;
use crate::handle::session::SessionControl;
use crate::handle::transaction::Transaction;
use crate::locks::held::{HeldLocks, PageNote, level};
use crate::locks::key::{LockKey, PageKey, RowKey, WaitPolicy};
use crate::locks::mode::{Mode, RowLockMode};
use crate::waiting::acquire::Acquired;

/// The right to be the next waiter for a row; released when dropped.
pub struct TupleGuard<'t> {
    transaction: &'t Transaction,
    /// `None` when the transaction had the right already.
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
        // The lock is the newest one in all likelihood. It is missing when a rollback released it
        // meanwhile.
        if let Some(at) = queued.iter().rposition(|held| *held == (key, bit)) {
            queued.remove(at);
            drop(queued);
            self.transaction.manager().locks().release(self.transaction.session(), &key, bit);
        }
    }
}

impl LockManager {
    /// Returns whether any row lock is kept in memory. False is the usual case. The answer is
    /// stable for a row while the caller holds its page's exclusive latch.
    #[inline]
    pub fn any_row_locks(&self) -> bool {
        // Acquire: pairs with the increment in `RowCounts::reserve`.
        self.rows.total.load(Ordering::Acquire) != 0
    }

    /// Locks a row in memory until the transaction ends. Returns false if another transaction holds
    /// the row in an excluding mode. Never waits, so the caller may hold the page's latch. The
    /// answer stays true only under that latch.
    ///
    /// # Errors
    /// [`Error::TooManyRowLocks`](crate::Error::TooManyRowLocks).
    pub fn try_lock_row(
        &self,
        transaction: &Transaction,
        row: RowKey,
        mode: RowLockMode,
    ) -> Result<bool> {
        self.lock_row(transaction, row, mode, WaitPolicy::Skip)
    }

    /// Does the same as [`LockManager::try_lock_row`], but waits as `policy` says. If it may wait,
    /// no latch may be held, and the caller checks the row again afterwards. Returns false only
    /// under [`WaitPolicy::Skip`].
    ///
    /// # Errors
    /// The errors of [`LockManager::acquire_table`], and
    /// [`Error::TooManyRowLocks`](crate::Error::TooManyRowLocks).
    pub fn lock_row(
        &self,
        transaction: &Transaction,
        row: RowKey,
        mode: RowLockMode,
        policy: WaitPolicy,
    ) -> Result<bool> {
        let (key, mode) = (LockKey::Row(row), Mode::from(mode));
        if self.take_bit(transaction, &row, mode)? {
            return Ok(true);
        }
        if !policy.waits(&key)? {
            return Ok(false);
        }
        let (session, held) = (transaction.session(), transaction.held.count());
        if self.acquire_for_session(session, key, mode, policy, held)? == Acquired::Now {
            self.note_bit(transaction, &row, mode.bit);
        }
        Ok(true)
    }

    /// Locks a row if no other transaction's lock or wait prevents it.
    fn take_bit(&self, transaction: &Transaction, row: &RowKey, mode: Mode) -> Result<bool> {
        let (session, held) = (transaction.session(), &transaction.held);
        let (level, offset) = (level(transaction.savepoint_depth()), row.root.offset);
        let mut partition = self.partition(&LockKey::Row(*row)).lock();
        let (page, mut entry) = partition.page(row);
        let (mut attempt, set) = page.attempt(session, mode, level, offset);
        if let Some(entry) = &mut entry {
            let has_bit = attempt == Attempt::Held;
            attempt = entry.attempt(session, mode, false, true);
            let in_entry = attempt == Attempt::Held;
            debug_assert!(!has_bit || in_entry, "the entry of {row:?} does not know of its bit");
        }
        if attempt != Attempt::Granted {
            return Ok(attempt == Attempt::Held);
        }
        if let Some(set) = set {
            page.insert(set, offset);
        } else {
            let note = PageNote { page: PageKey::of(row), mode: mode.bit, level };
            if let Err(error) = self.rows.reserve(held.count()) {
                partition.remove_if_empty(&note.page);
                return Err(error);
            }
            page.add(session, &note, offset);
            held.push_page(note);
        }
        if let Some(entry) = entry {
            entry.add_modes(session, mode.bit);
        }
        self.rows.count(row);
        Ok(true)
    }

    /// Sets the bit of a lock that the session waited for and has now. The lock is counted already.
    fn note_bit(&self, transaction: &Transaction, row: &RowKey, mode: u8) {
        let (session, level) = (transaction.session(), level(transaction.savepoint_depth()));
        let key = LockKey::Row(*row);
        let mut partition = self.partition(&key).lock();
        let (page, _) = partition.page(row);
        if let Some(set) = page.find(session, mode, level) {
            page.insert(set, row.root.offset);
            self.rows.give_back();
        } else {
            let note = PageNote { page: PageKey::of(row), mode, level };
            debug_assert!(
                page.is_promoted(row.root.offset),
                "{row:?} was awaited without an entry"
            );
            page.add(session, &note, row.root.offset);
            transaction.held.push_page(note);
        }
        partition.remove_if_idle(&key);
    }

    /// Makes a row lock of the transaction survive rollbacks to all savepoints except the first
    /// `outer`.
    ///
    /// # Errors
    /// [`Error::TooManyRowLocks`](crate::Error::TooManyRowLocks).
    pub(crate) fn keep_row(
        &self,
        transaction: &Transaction,
        row: RowKey,
        mode: RowLockMode,
        outer: usize,
    ) -> Result<()> {
        debug_assert!(
            outer < transaction.savepoint_depth(),
            "{outer} savepoints are not outer ones"
        );
        let (session, held) = (transaction.session(), &transaction.held);
        let (mode, level, offset) = (Mode::from(mode).bit, level(outer), row.root.offset);
        let mut partition = self.partition(&LockKey::Row(row)).lock();
        let Some(page) = partition.pages.get_mut(&PageKey::of(&row)) else { return Ok(()) };
        // Without a bit, the lock was carried along with another row, and goes with that row's
        // lock.
        let Some(inner) = page.level_of(session, mode, offset) else { return Ok(()) };
        if inner <= level {
            return Ok(());
        }
        let note = PageNote { page: PageKey::of(&row), mode, level };
        if let Some(set) = page.find(session, mode, level) {
            page.insert(set, offset);
        } else {
            self.rows.reserve(held.count())?;
            page.add(session, &note, offset);
            held.push_page(note);
        }
        self.clear_bit(transaction, page, &PageNote { level: inner, ..note }, offset);
        Ok(())
    }

    /// Takes a bit out of its set. The set goes with its last bit.
    fn clear_bit(
        &self,
        transaction: &Transaction,
        page: &mut PageLocks,
        note: &PageNote,
        row: OffsetNumber,
    ) {
        if page.clear(transaction.session(), note, row) {
            transaction.held.forget_page(note);
            self.rows.give_back();
        }
    }

    /// Releases a lock that [`LockManager::try_lock_row`] took and that the transaction did not
    /// hold before in this mode.
    pub fn unlock_row(&self, transaction: &Transaction, row: RowKey, mode: RowLockMode) {
        let session = transaction.session();
        let (key, mode, offset) = (LockKey::Row(row), Mode::from(mode).bit, row.root.offset);
        let page_key = PageKey::of(&row);
        let mut partition = self.partition(&key).lock();
        let Some(page) = partition.pages.get_mut(&page_key) else { return };
        let Some(level) = page.level_of(session, mode, offset) else { return };
        self.clear_bit(transaction, page, &PageNote { page: page_key, mode, level }, offset);
        let carried = partition.drop_modes(session, &key, mode);
        partition.remove_if_empty(&page_key);
        drop(partition);
        self.rows.discount(&row);
        self.release_carried(session, carried);
    }

    /// Releases all bits of a set.
    pub(crate) fn release_page(&self, session: &SessionControl, note: &PageNote) {
        let key = LockKey::Row(note.page.row(OffsetNumber::INVALID));
        let (rows, carried) = self.partition(&key).lock().drop_bits(session, note);
        rows.iter().for_each(|row| self.rows.discount(&note.page.row(row)));
        self.rows.give_back();
        self.release_carried(session, carried);
    }

    /// Moves the row locks of all savepoints except the first `outer`, which are being released, to
    /// the last of those `outer`.
    pub(crate) fn lower_rows(&self, session: &SessionControl, held: &HeldLocks, outer: usize) {
        let level = level(outer);
        held.lower_pages(level, |note| {
            let key = LockKey::Row(note.page.row(OffsetNumber::INVALID));
            let mut partition = self.partition(&key).lock();
            let page = partition.pages.get_mut(&note.page);
            let merged = page.is_some_and(|page| page.lower(session, note, level));
            if merged {
                self.rows.give_back();
            }
            merged
        });
    }

    /// Returns whether no other transaction holds the row in memory in a mode that excludes `mode`.
    /// The answer stays true while the caller holds the page's exclusive latch.
    #[inline]
    pub fn row_is_free(&self, transaction: &Transaction, row: RowKey, mode: RowLockMode) -> bool {
        !self.rows.maybe(&row)
            || self.is_free(transaction.session(), &LockKey::Row(row), Mode::from(mode))
    }

    /// Returns whether the transaction holds the row in memory, in any mode.
    pub fn holds_row(&self, transaction: &Transaction, row: RowKey) -> bool {
        self.rows.maybe(&row) && self.is_held_by(transaction.session(), &LockKey::Row(row))
    }

    /// Returns whether any transaction, the own one included, holds the row in memory. If so, its
    /// line pointer is not freed (rule `root-identity`).
    pub fn row_is_locked(&self, row: RowKey) -> bool {
        self.rows.maybe(&row) && self.is_held(&LockKey::Row(row))
    }

    /// Waits until no other transaction holds the row in memory in a mode that excludes `mode`.
    /// Does not take the lock. Returns false only under [`WaitPolicy::Skip`].
    ///
    /// # Errors
    /// The errors of [`LockManager::acquire_table`].
    pub fn wait_for_row(
        &self,
        transaction: &Transaction,
        row: RowKey,
        mode: RowLockMode,
        policy: WaitPolicy,
    ) -> Result<bool> {
        let key = LockKey::Row(row);
        if self.row_is_free(transaction, row, mode) {
            return Ok(true);
        }
        if !policy.waits(&key)? {
            return Ok(false);
        }
        self.probe(transaction, key, mode.into())?;
        Ok(true)
    }

    /// Copies the row locks in memory when a row moves to a chain root on another page: every
    /// holder of `from` holds `to` too. The caller holds both pages' exclusive latches
    /// (rule `root-identity`).
    ///
    /// # Errors
    /// [`Error::TooManyRowLocks`](crate::Error::TooManyRowLocks).
    pub fn carry_row_locks(&self, from: RowKey, to: RowKey) -> Result<()> {
        debug_assert_ne!(to.root.offset, OffsetNumber::INVALID, "no row is at {}", to.root);
        // The release of a lock releases the locks that were carried along with it.
        debug_assert_ne!(from, to, "the release of a lock would never end");
        if !self.rows.maybe(&from) {
            return Ok(());
        }
        self.copy_grants(LockKey::Row(from), LockKey::Row(to))
    }

    /// Takes a place in the queue for the row of `tid`, whose holder makes others wait. The queue
    /// hands the row to the waiters in the order of their arrival. Take the place before the wait
    /// for the holder's end, and keep it until the row is marked. Returns `None` only under
    /// [`WaitPolicy::Skip`].
    ///
    /// # Errors
    /// The errors of [`LockManager::acquire_table`].
    pub fn lock_tuple<'t>(
        &self,
        transaction: &'t Transaction,
        file: RelFileId,
        tid: Tid,
        mode: RowLockMode,
        policy: WaitPolicy,
    ) -> Result<Option<TupleGuard<'t>>> {
        debug_assert_ne!(tid.offset, OffsetNumber::INVALID, "no row is at {tid} of file {file}");
        let key = LockKey::Tuple { file, tid };
        let held = (key, Mode::from(mode).bit);
        Ok(match self.acquire(transaction, key, mode.into(), policy)? {
            Acquired::Now => Some(TupleGuard { transaction, key: Some(held) }),
            Acquired::Before => Some(TupleGuard { transaction, key: None }),
            Acquired::Skipped => None,
        })
    }
}
