//! The end of a heap that holds nothing: its pages go back to the file system.
//!
//! ```text
//!  rows   rows   DEAD   rows   –   –   –        – holds nothing: new, or every line pointer UNUSED
//!                              ◄───────────     looked at from the end, under ACCESS EXCLUSIVE
//!                              │
//!   1. the map says nothing of these pages     in the log
//!   2. the fork is shorter                     in the log, flushed, then done (niwaki-storage)
//!   3. memory forgets its state of these pages
//! ```
//!
//! A crash between the steps leaves pages without bits in the map, which costs a look at them. Only
//! the lock's holder has an address on a page that goes: the README gives the reason ("The tail").

use niwaki_env::SIMULATED;
use niwaki_env::seeded_bug;
use niwaki_storage::page::{ItemState, Page};
use niwaki_storage::{BlockNumber, Fork, OffsetNumber, PageKind};

use crate::error::Result;
use crate::relation::Heap;

/// Number of pages to look at between two checks whether another session wants the table.
const LOOKS: u32 = if SIMULATED { 1 } else { 32 };
const _: () = assert!(LOOKS > 0);

/// Returns whether no line pointer of the page is in use. A DEAD one is in use: an index may name
/// it.
fn is_empty(page: &Page) -> bool {
    let unused = |offset| page.item_id(OffsetNumber(offset)).state() == ItemState::Unused;
    page.is_new() || page.kind() == PageKind::Heap && (1..=page.item_count()).all(unused)
}

impl Heap<'_> {
    /// Returns whether a page holds nothing at the moment.
    ///
    /// # Errors
    /// Storage's.
    pub fn is_empty_page(&self, block: u32) -> Result<bool> {
        Ok(is_empty(&self.pin(block)?.read()))
    }

    /// Cuts off pages at the end of the heap that hold nothing, from the last one on, at most
    /// `most` pages. Calls `wanted` every few pages; if another session waits, the cut ends with
    /// the pages found so far. Returns the number of pages cut off.
    ///
    /// The caller holds the table in ACCESS EXCLUSIVE mode. No other session reads or writes the
    /// heap, or pins a page of it for longer than a write of the page takes. No latch is held.
    ///
    /// # Errors
    /// Storage's: then no page was cut off.
    pub fn cut_tail(&self, most: u32, wanted: &mut dyn FnMut() -> bool) -> Result<u32> {
        self.open_visibility_map()?;
        let end = self.blocks()?;
        let mut first = end;
        while end - first < most && first > 0 {
            // The first few pages are cut in any case, so that repeated calls make progress.
            let looked = end - first;
            if looked > 0 && looked.is_multiple_of(LOOKS) && wanted() {
                break;
            }
            if !self.is_empty_page(first - 1)? && !seeded_bug!("tail-believed") {
                break;
            }
            first -= 1;
        }
        debug_assert!(first <= end, "the heap would grow from {end} to {first} pages");
        debug_assert!(end - first <= most, "more than {most} pages go");
        if first < end {
            self.clear_visibility(first..end)?;
            self.storage.truncate_fork(self.relation.file, Fork::Main, first)?;
            self.forget_tail(first);
        }
        Ok(end - first)
    }

    /// Forgets the state in memory of the pages from `first` on, which are gone. Queues for the
    /// gardener stay. The gardener checks whether such a page exists, and which row is there then.
    fn forget_tail(&self, first: u32) {
        let shared = &self.relation.shared;
        shared.space.cut(first);
        let first = BlockNumber(first);
        shared.unreferenced.forget_from(first);
        shared.ledger.end_from(first);
        shared.retained.forget_from(first);
    }
}
