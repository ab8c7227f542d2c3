//! The heap's part of a unique check: it examines the versions of a chain that have the key.

use niwaki_env::seeded_bug;
use niwaki_storage::page::ItemState;
use niwaki_storage::{Tid, Xid};
use niwaki_txn::{Transaction, XidStatus};

use crate::error::Result;
use crate::format::header::flags;
use crate::format::page::{self, Chain};
use crate::format::rows::{RowRef, row_ref};
use crate::relation::Heap;
use crate::row::judge::is_replaced;

/// The result for an insertion of a row with the same key (rule `unique-check`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UniqueProbe {
    /// No version with this key counts.
    Free,
    /// A version with this key is live.
    Conflict,
    /// Another transaction, still in progress, inserted or ended a version with this key.
    InProgress(Xid),
}

impl Heap<'_> {
    /// Examines every version of the chain at `root` for which `matches` says that it has the key.
    /// Takes one hold of the page's shared latch, and waits for nothing else.
    ///
    /// # Errors
    /// Storage's.
    pub fn probe_unique(
        &self,
        transaction: &Transaction,
        root: Tid,
        mut matches: impl FnMut(RowRef<'_>) -> bool,
    ) -> Result<UniqueProbe> {
        let pin = self.pin(root.block.0)?;
        let page = pin.read();
        if matches!(page.item_id(root.offset).state(), ItemState::Dead | ItemState::Unused) {
            return Ok(UniqueProbe::Free);
        }
        let base = page::base(&page);
        let skipped = if seeded_bug!("unique-all-versions") {
            Chain::new(&page, root.offset.0).count().saturating_sub(1)
        } else {
            0
        };
        for (_, tuple) in Chain::new(&page, root.offset.0).skip(skipped) {
            if tuple.has(flags::STUB | flags::XMIN_ABORTED) {
                continue;
            }
            let xmin = page::xmin(base, tuple);
            let mine = transaction.is_mine(xmin);
            let inserted = if mine { None } else { Some(self.txns.status(xmin)) };
            if inserted == Some(XidStatus::Aborted) || !matches(row_ref(&page, root, tuple)) {
                continue;
            }
            let xmax = tuple.has_deleter().then(|| page::xmax(base, tuple));
            if inserted == Some(XidStatus::InProgress) {
                // The inserter deleted the version on the same level: the version has no effect,
                // however that level ends.
                if xmax == Some(xmin) && !is_replaced(tuple) {
                    continue;
                }
                return Ok(UniqueProbe::InProgress(xmin));
            }
            let Some(xmax) = xmax else { return Ok(UniqueProbe::Conflict) };
            if transaction.is_mine(xmax) {
                continue;
            }
            match self.txns.status(xmax) {
                XidStatus::Aborted => return Ok(UniqueProbe::Conflict),
                XidStatus::InProgress => return Ok(UniqueProbe::InProgress(xmax)),
                XidStatus::Committed(_) => {}
            }
        }
        Ok(UniqueProbe::Free)
    }
}
