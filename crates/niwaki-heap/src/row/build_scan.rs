//! The heap's part of an index build: visits every version that some snapshot may see.

use niwaki_env::invariant;
use niwaki_storage::{Csn, OffsetNumber, PageKind, Tid, Xid};
use niwaki_txn::{Horizon, XidStatus};

use crate::error::Result;
use crate::format::header::flags;
use crate::format::page::{self, Chain};
use crate::format::rows::{RowRef, row_ref};
use crate::relation::Heap;

/// The rule for which versions count as live.
#[derive(Clone, Copy)]
pub enum Live<'a> {
    /// The newest version of each row for a transaction, at the moment of the visit. The function
    /// recognizes the ids of this transaction. Pages are visited one after the other. If other
    /// sessions write, a row that moves may be live on two pages, or on none.
    AtVisit(&'a dyn Fn(Xid) -> bool),
    /// Versions that a snapshot of this number sees, whenever they are visited.
    At(Csn),
}

impl Heap<'_> {
    /// Passes every version of a block that is neither aborted nor removable to `visit`, and
    /// whether the version is live. Holds the page's shared latch: `visit` must not wait, or call
    /// this heap.
    ///
    /// # Errors
    /// Storage's.
    pub fn visit_versions(
        &self,
        live_ones: Live<'_>,
        block: u32,
        horizon: &Horizon,
        mut visit: impl FnMut(RowRef<'_>, bool),
    ) -> Result<()> {
        let pin = self.pin(block)?;
        let page = pin.read();
        if page.kind() != PageKind::Heap {
            return Ok(());
        }
        let base = page::base(&page);
        for offset in 1..=page.item_count() {
            let root = Tid { block: pin.id().block, offset: OffsetNumber(offset) };
            // A snapshot sees one version of a chain.
            let mut seen = false;
            // The chain is empty if the line pointer is no root.
            for (_, tuple) in Chain::new(&page, offset) {
                if tuple.has(flags::STUB | flags::XMIN_ABORTED) {
                    continue;
                }
                let xmin = page::xmin(base, tuple);
                let inserted = match self.txns.status(xmin) {
                    XidStatus::Committed(csn) => Some(csn),
                    XidStatus::InProgress => None,
                    XidStatus::Aborted => continue,
                };
                let mut live = match live_ones {
                    Live::AtVisit(is_mine) => inserted.is_some() || is_mine(xmin),
                    Live::At(csn) => inserted.is_some_and(|begin| begin <= csn),
                };
                if tuple.has_deleter() {
                    let xmax = page::xmax(base, tuple);
                    match self.txns.status(xmax) {
                        XidStatus::Committed(end) => {
                            if inserted.is_some_and(|begin| horizon.removable(begin, end)) {
                                continue;
                            }
                            live &= matches!(live_ones, Live::At(csn) if end > csn);
                        }
                        XidStatus::InProgress => {
                            live &= !matches!(live_ones, Live::AtVisit(is_mine) if is_mine(xmax));
                        }
                        XidStatus::Aborted => {}
                    }
                }
                if live && matches!(live_ones, Live::At(_)) {
                    invariant!(S1, !seen, "a snapshot sees two versions of the row at {root}");
                    seen = true;
                }
                visit(row_ref(&page, root, tuple), live);
            }
        }
        Ok(())
    }
}
