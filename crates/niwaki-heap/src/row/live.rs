//! The live version of a row, whatever the snapshot sees, for insertions that give way to a row
//! with the same key.
//!
//! Such an insertion also takes back its own row.
//!
//! ```text
//! entry (k, root), read some time ago
//!   latch the root's page
//!     the chain's live version     none, or without k  → gone: it was changed, look for k again
//!       made by this command       → the row would be changed twice
//!       a writer in progress       → give the latch back, wait, come back here
//!       nothing in the way         → lock it, hand it out
//! ```
//!
//! The key of the version is compared under the latch under which the version is locked. Between
//! the search for the key and the lock, the row may have got another key (a chain has any number of
//! keys). Its line pointer may also have become another row's.

use niwaki_env::{invariant, seeded_bug};
use niwaki_storage::page::Page;
use niwaki_storage::{OffsetNumber, PageKind, Tid, Xid};
use niwaki_txn::{Isolation, RowLockMode, Transaction, View, XidStatus};

use crate::error::{Result, corruption};
use crate::format::change::{EndVersion, kind};
use crate::format::header::{NO_LINK, Tuple, flags};
use crate::format::page::{self, Chain};
use crate::format::rows::{RowRef, row_ref};
use crate::relation::Heap;
use crate::row::judge::Judgement;
use crate::row::outcome::{Blocker, LiveRow, NewestVersion, RowTarget};
use crate::row::read::sees;

impl Heap<'_> {
    /// Returns the live version of the row at `root`, if `matches` says that it has the key. The
    /// version is copied, and locked for this transaction in the mode `lock`, if any. No latch is
    /// held on return.
    ///
    /// # Errors
    /// Storage's; a read-only transaction's; too many locks in memory.
    pub fn live_row(
        &self,
        view: &View<'_>,
        root: Tid,
        lock: Option<RowLockMode>,
        mut matches: impl FnMut(RowRef<'_>) -> bool,
    ) -> Result<LiveRow> {
        let mut page = self.pin_write(root.block.0)?;
        if page.kind() != PageKind::Heap {
            return Ok(LiveRow::Gone);
        }
        let Some((at, tuple)) = self.live(view, &page, root) else { return Ok(LiveRow::Gone) };
        if !matches(row_ref(&page, root, tuple)) && !seeded_bug!("conflict-recheck") {
            return Ok(LiveRow::Gone);
        }
        let base = page::base(&page);
        if view.is_mine(page::xmin(base, tuple)) {
            if view.transaction().inserted_by(tuple.cid()) >= view.command() {
                return Ok(LiveRow::OwnCommand);
            }
        } else if view.transaction().isolation() != Isolation::ReadCommitted
            && !sees(view, base, tuple)
        {
            return Ok(LiveRow::NotSeen);
        }
        let version = Tid { block: root.block, offset: OffsetNumber(at) };
        let target = RowTarget { root, version: Some(version) };
        let newest = NewestVersion { target, row: row_ref(&page, root, tuple).into() };
        let Some(mode) = lock else { return Ok(LiveRow::Found(newest)) };
        match self.judge(view, &page, tuple, root, mode) {
            Judgement::Free => {}
            Judgement::Blocked(blocker) => return Ok(LiveRow::Wait(blocker)),
            Judgement::Replacing(xid) => return Ok(LiveRow::Wait(Blocker::Transaction(xid))),
            // The transaction that was ending the version has committed since the version was found
            // live.
            Judgement::SelfModified | Judgement::Updated | Judgement::Deleted => {
                return Ok(LiveRow::Gone);
            }
        }
        Ok(match self.lock_version(view, &mut page, root, at, mode)? {
            Some(blocker) => LiveRow::Wait(blocker),
            None => LiveRow::Found(newest),
        })
    }

    /// Returns the chain's live version for all transactions that come now. A committed transaction
    /// or this one inserted it, and none of these has ended it.
    fn live<'p>(&self, view: &View<'_>, page: &'p Page, root: Tid) -> Option<(u16, Tuple<'p>)> {
        let base = page::base(page);
        let happened = |xid: Xid| {
            view.is_mine(xid) || matches!(self.txns.status(xid), XidStatus::Committed(_))
        };
        Chain::new(page, root.offset.0).find(|(_, tuple)| {
            !tuple.has(flags::STUB | flags::XMIN_ABORTED)
                && happened(page::xmin(base, *tuple))
                && !(tuple.has_deleter() && happened(page::xmax(base, *tuple)))
        })
    }

    /// Takes back a row that this command inserted. The row's own transaction ends it. So the row
    /// has no effect, whatever becomes of the transaction, and no other transaction needs to wait
    /// for its end ([`Heap::probe_unique`]).
    ///
    /// # Errors
    /// Storage's.
    pub fn take_back(&self, transaction: &Transaction, root: Tid) -> Result<()> {
        let xid = transaction.write_xid()?;
        let mut page = self.pin_write(root.block.0)?;
        self.bring_in_range(&mut page, xid)?;
        let at = root.offset.0;
        let Some(tuple) = page::tuple(&page, at) else {
            return Err(corruption(page.id(), Some(at), "H1", "the version is gone"));
        };
        assert_eq!(page::xmin(page::base(&page), tuple), xid, "only what one inserted oneself");
        invariant!(H1, !tuple.has(flags::HEAP_ONLY), "{root} is no root, and had no entry");
        debug_assert!(!tuple.has_deleter(), "the row at {root} is taken back twice");
        let cid = transaction.delete_cid(xid, tuple.cid())?;
        let xmax_flags = flags::KEYS_UPDATED;
        let end = EndVersion { offset: at, link: NO_LINK, xmax_flags, cid: Some(cid) };
        self.end_version(&mut page, xid, &end, kind::DELETE)
    }
}
