//! The end of a heap that holds nothing: given back to the file system.
//!
//! ```text
//!  rows   rows   DEAD   rows   –   –   –        – holds nothing: new, or every line pointer UNUSED
//!                              ◄───────────     looked at from the end, under ACCESS EXCLUSIVE
//!                              │
//!   1. the map says nothing of these pages     in the log
//!   2. the fork is shorter                     in the log, flushed, then done (niwaki-storage)
//!   3. what memory knows of them is forgotten
//! ```
//!
//! A crash between the steps leaves pages of which the map says nothing, which costs a look at them. Nobody but the
//! lock's holder has an address on a page that goes: why, the README says ("The tail").

use niwaki_env::SIMULATED;
use niwaki_env::seeded_bug;
use niwaki_storage::page::{ItemState, Page};
use niwaki_storage::{Fork, OffsetNumber, PageKind};

use crate::error::Result;
use crate::relation::Heap;

/// Pages that are looked at between two questions whether somebody wants the table.
const LOOKS: u32 = if SIMULATED { 1 } else { 32 };

/// Whether no line pointer of the page is in use. A DEAD one is: an index may name it.
fn is_empty(page: &Page) -> bool {
    let unused = |offset| page.item_id(OffsetNumber(offset)).state() == ItemState::Unused;
    page.is_new() || page.kind() == PageKind::Heap && (1..=page.item_count()).all(unused)
}

impl Heap<'_> {
    /// Whether a page holds nothing, now.
    ///
    /// # Errors
    /// Storage's.
    pub fn holds_nothing(&self, block: u32) -> Result<bool> {
        Ok(is_empty(&self.pin(block)?.read()))
    }

    /// Cuts off pages at the end of the heap that hold nothing, from the last one on, `most` at most, and ends with what
    /// it has when `wanted`, which is asked every few pages, says that somebody waits. Returns how many went.
    ///
    /// The caller holds the table in ACCESS EXCLUSIVE mode: nobody reads or writes the heap, or has a page of it pinned
    /// for longer than it takes to write it. No latch is held.
    ///
    /// # Errors
    /// Storage's: then nothing went.
    pub fn cut_tail(&self, most: u32, wanted: &mut dyn FnMut() -> bool) -> Result<u32> {
        self.open_visibility_map()?;
        let end = self.blocks()?;
        let mut first = end;
        while end - first < most && first > 0 {
            // Not before the first few: who comes again and again gets on.
            let looked = end - first;
            if looked > 0 && looked.is_multiple_of(LOOKS) && wanted() {
                break;
            }
            if !self.holds_nothing(first - 1)? && !seeded_bug!("tail-believed") {
                break;
            }
            first -= 1;
        }
        if first < end {
            self.clear_visibility(first..end)?;
            self.storage.truncate_fork(self.relation.file, Fork::Main, first)?;
            self.forget_tail(first);
        }
        Ok(end - first)
    }

    /// Forgets what memory knows of the pages from `first` on, which are gone. What waits for the gardener stays: it looks
    /// whether there is such a page, and at the row that is there then.
    fn forget_tail(&self, first: u32) {
        let shared = &self.relation.shared;
        shared.space.cut(first);
        shared.unindexed.forget_from(first);
        shared.records.end_from(first);
        shared.held.forget_from(first);
    }
}
