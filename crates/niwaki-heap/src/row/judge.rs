//! Verdicts on versions: a statement may change or lock a version, or something is in the way.

use niwaki_env::seeded_bug;
use niwaki_storage::page::Page;
use niwaki_storage::{Tid, Xid};
use niwaki_txn::{RowLockMode, Transaction, View, XidStatus};

use crate::error::Result;
use crate::format::header::{NO_LINK, Tuple, flags};
use crate::format::page;
use crate::relation::Heap;
use crate::row::outcome::Blocker;

/// The verdict on a version that a statement wants to change or lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// The version is the newest, and nothing is in the way.
    Free,
    /// This transaction changed the version, at this command or later.
    SelfModified,
    /// A transaction or a row lock is in the way.
    Blocked(Blocker),
    /// This transaction, in progress, is replacing the version, or has replaced it, and leaves its
    /// key alone. Only FOR KEY SHARE can be granted beside that.
    Replacing(Xid),
    /// A committed transaction replaced the version.
    Updated,
    /// A committed transaction deleted the version.
    Deleted,
}

/// Returns the mode in which xmax holds the version.
fn held_mode(tuple: Tuple<'_>) -> RowLockMode {
    if tuple.has(flags::KEYS_UPDATED) { RowLockMode::Update } else { RowLockMode::NoKeyUpdate }
}

/// Returns whether the version was replaced, and not deleted.
pub(crate) fn is_replaced(tuple: Tuple<'_>) -> bool {
    tuple.link() != NO_LINK
}

impl Heap<'_> {
    /// Moves a row lock of an outer level to memory, where a rollback to the savepoint leaves it.
    /// Called before an inner level of `transaction` ends the version that the outer level has
    /// locked.
    pub(crate) fn keep_outer_lock(
        &self,
        transaction: &Transaction,
        page: &Page,
        tuple: Tuple<'_>,
        root: Tid,
    ) -> Result<()> {
        if !tuple.has(flags::XMAX_LOCK_ONLY) {
            return Ok(());
        }
        let holder = page::xmax(page::base(page), tuple);
        if !transaction.is_mine(holder) || holder == transaction.write_xid()? {
            return Ok(());
        }
        debug_assert!(holder.is_normal(), "{holder} holds the lock of a row");
        let key = self.row_key(root);
        Ok(transaction.keep_row_lock(key, held_mode(tuple), holder)?)
    }

    /// Copies the locks in memory of the row at `from` to its new root `to` (rule `root-identity`).
    /// Called under the latches of both, once the log has room and before anything is changed: a
    /// refusal leaves nothing behind.
    pub(crate) fn carry_locks(&self, from: Tid, to: Tid) -> Result<()> {
        if seeded_bug!("locks_stay_behind") {
            return Ok(());
        }
        Ok(self.txns.locks().carry_row_locks(self.row_key(from), self.row_key(to))?)
    }

    /// Judges a version of the row at `root` that some snapshot sees, or that was the newest when
    /// it was found. The caller holds the page's exclusive latch.
    pub(crate) fn judge(
        &self,
        view: &View<'_>,
        page: &Page,
        tuple: Tuple<'_>,
        root: Tid,
        mode: RowLockMode,
    ) -> Judgement {
        let base = page::base(page);
        let free = || {
            let key = self.row_key(root);
            let locks = self.txns.locks();
            // The caller takes shared modes in memory, and finds conflicting locks there.
            let exclusive = mode >= RowLockMode::NoKeyUpdate;
            if !exclusive || locks.row_is_free(view.transaction(), key, mode) {
                return Judgement::Free;
            }
            let own =
                view.is_mine(page::xmin(base, tuple)) || view.is_mine(page::xmax(base, tuple));
            Judgement::Blocked(if own { Blocker::OwnRow(key) } else { Blocker::Row(key) })
        };
        if tuple.xmax() == 0 || tuple.has(flags::XMAX_ABORTED) {
            return free();
        }
        let xmax = page::xmax(base, tuple);
        let lock_only = tuple.has(flags::XMAX_LOCK_ONLY);
        if view.is_mine(xmax) {
            return if lock_only { free() } else { Judgement::SelfModified };
        }
        match self.txns.status(xmax) {
            XidStatus::Aborted => free(),
            XidStatus::InProgress if mode.conflicts_with(held_mode(tuple)) => {
                Judgement::Blocked(Blocker::Transaction(xmax))
            }
            XidStatus::InProgress if !lock_only => {
                debug_assert_eq!(mode, RowLockMode::KeyShare, "{xmax} excludes all other modes");
                Judgement::Replacing(xmax)
            }
            XidStatus::InProgress => free(),
            XidStatus::Committed(_) if lock_only => free(),
            XidStatus::Committed(_) if is_replaced(tuple) => Judgement::Updated,
            XidStatus::Committed(_) => Judgement::Deleted,
        }
    }
}
