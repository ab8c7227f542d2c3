//! FOR KEY SHARE beside changes that leave the key alone: neither waits for the other.
//!
//! Such a change may give the row another root, on this page or another one, and may be rolled
//! back. So the key is locked at each root at which the row may be afterwards:
//!
//! ```text
//! root R1  v1 ──────► root R2  v2 ──────► root R3  v3     a transaction in progress moves the row
//!    1. lock R1          2. lock R2          3. lock R3   under one page's latch after the other
//! ```
//!
//! If the row moves on from a locked root, it takes the lock along, under the root's latch
//! (`carry_locks`). If the row has moved on before, its next version is behind the link, and is
//! judged under the latch of its own page. A transaction that deletes the row or changes its key
//! looks for locks there.

use niwaki_env::seeded_bug;
use niwaki_storage::{BlockNumber, OffsetNumber, PageKind, PageWrite, Tid};
use niwaki_txn::{RowKey, RowLockMode, Transaction, View, XidStatus};

use crate::error::{Result, corruption};
use crate::format::header::flags;
use crate::format::page;
use crate::relation::Heap;
use crate::row::follow::{HOPS_MAX, successor};
use crate::row::judge::Judgement;
use crate::row::outcome::{Blocker, RowTarget};
use crate::row::read::targeted;

/// The mode in which the key is locked.
const MODE: RowLockMode = RowLockMode::KeyShare;

/// The result of an attempt to lock the key of a row.
pub(crate) enum SharedKey {
    /// The row has the key, and keeps it as long as the transaction holds its locks.
    Locked,
    /// Wait without any latch, then try again. Nothing was locked.
    Blocked(Blocker),
    /// The key has changed, the row is gone, or its state is unknown. Nothing was locked.
    Changed,
    /// A transaction that was in progress has ended meanwhile: look again. Nothing was locked.
    Again,
}

impl<'e> Heap<'e> {
    /// Locks the key of the version at `at` of the row at `root`, on the latched `page`.
    pub(crate) fn share_key(
        &self,
        view: &View<'_>,
        page: PageWrite<'e>,
        root: Tid,
        at: u16,
    ) -> Result<SharedKey> {
        let mut taken = Vec::new();
        let shared = self.share_along(view, page, (root, at), &mut taken);
        if !matches!(shared, Ok(SharedKey::Locked)) {
            let locks = self.txns.locks();
            taken.iter().for_each(|row| locks.unlock_row(view.transaction(), *row, MODE));
        }
        shared
    }

    /// Follows all changes that leave the key alone, and locks the key at each root. `taken` gets
    /// the locks that are new.
    fn share_along(
        &self,
        view: &View<'_>,
        mut page: PageWrite<'e>,
        (mut root, mut at): (Tid, u16),
        taken: &mut Vec<RowKey>,
    ) -> Result<SharedKey> {
        // True once the inserter of a version on the way was in progress when the version before
        // was judged.
        let mut moving = false;
        let ended = |moving: bool| if moving { SharedKey::Again } else { SharedKey::Changed };
        for _ in 0..HOPS_MAX {
            debug_assert_eq!(page.id().block, root.block, "the latched page is not the root's");
            let Some(tuple) = page::tuple(&page, at) else { return Ok(ended(moving)) };
            let expected = page::xmax(page::base(&page), tuple);
            let link = tuple.link();
            if !tuple.has(flags::STUB) {
                match self.judge(view, &page, tuple, root, MODE) {
                    Judgement::Free => {
                        let blocker = self.take_key(view.transaction(), root, taken)?;
                        return Ok(blocker.map_or(SharedKey::Locked, SharedKey::Blocked));
                    }
                    Judgement::Replacing(_) => {
                        moving = true;
                        if let Some(blocker) = self.take_key(view.transaction(), root, taken)? {
                            return Ok(SharedKey::Blocked(blocker));
                        }
                        if seeded_bug!("shares-one-root") {
                            return Ok(SharedKey::Locked);
                        }
                    }
                    Judgement::Blocked(blocker) => return Ok(SharedKey::Blocked(blocker)),
                    Judgement::Updated => {}
                    Judgement::SelfModified | Judgement::Deleted => return Ok(ended(moving)),
                }
            }
            if tuple.has(flags::KEYS_UPDATED) {
                return Ok(ended(moving));
            }
            // The end of the heap, to which the link leads, was cut off: the row was deleted
            // (rule `hop-check`).
            if link.block == BlockNumber::INVALID || !self.has_block(link)? {
                return Ok(ended(moving));
            }
            if link.block != page.id().block {
                // The link is the one TID that outlives a latch, with the xmin expected there
                // (rule `follow-again`).
                drop(page);
                page = self.pin_write(link.block.0)?;
            }
            if page.kind() != PageKind::Heap {
                return Ok(ended(moving));
            }
            let Some(next) = successor(&page, link.offset, expected) else {
                return Ok(ended(moving));
            };
            // The change was rolled back since: the row is at an earlier root, and may go on from
            // there.
            if moving && self.txns.status(expected) == XidStatus::Aborted {
                return Ok(SharedKey::Again);
            }
            at = link.offset.0;
            root = Tid { block: link.block, offset: OffsetNumber(next.root()) };
        }
        Err(corruption(page.id(), Some(at), "H3", "links run in a circle"))
    }

    /// Locks the key of the row at `root`, whose page is latched, or returns the conflicting lock.
    fn take_key(
        &self,
        transaction: &Transaction,
        root: Tid,
        taken: &mut Vec<RowKey>,
    ) -> Result<Option<Blocker>> {
        let (key, locks) = (self.row_key(root), self.txns.locks());
        // A lock that the transaction already holds, in whatever mode, lasts as long.
        if locks.holds_row(transaction, key) {
            return Ok(None);
        }
        if !locks.try_lock_row(transaction, key, MODE)? {
            return Ok(Some(Blocker::Row(key)));
        }
        debug_assert!(!taken.contains(&key), "the lock on {key:?} would be released twice");
        taken.push(key);
        Ok(None)
    }

    /// Locks the key of the row that `target` means, unless the target no longer leads to that row.
    pub(crate) fn share_key_of(&self, view: &View<'_>, target: RowTarget) -> Result<SharedKey> {
        // Ends: each turn but the first follows the end of a transaction.
        loop {
            let page = self.pin_write(target.root.block.0)?;
            if page.kind() != PageKind::Heap {
                return Ok(SharedKey::Changed);
            }
            let Some((at, _)) = targeted(view, &page, target) else {
                return Ok(SharedKey::Changed);
            };
            match self.share_key(view, page, target.root, at)? {
                SharedKey::Again => {}
                shared => return Ok(shared),
            }
        }
    }
}
