//! Freeing of line pointers that no index names any more: pauses, and the reports that allow it
//! (`unreferenced.rs`).

use std::sync::Arc;

use niwaki_env::sync::atomic::Ordering;
use niwaki_storage::page::{ItemState, Page};
use niwaki_storage::{BlockNumber, Mixed, OffsetNumber, RelFileId, Tid};

use crate::memory::cleanup_ledger::Begun;
use crate::memory::counters::{HeapCounters, count};
use crate::relation::{Heap, Shared};

/// Guard that keeps all but its holder from freeing line pointers of the heap, and from clearing
/// `mixed` of its roots.
#[derive(Debug)]
pub struct FreeingPaused {
    shared: Arc<Shared>,
    counters: Arc<HeapCounters>,
    forgets: bool,
    changes: bool,
    /// The last record of each part that ends with the pause. Later records know the new index.
    until: Option<Begun>,
}

impl FreeingPaused {
    /// Returns whether this is a pause of `heap`.
    pub(super) fn is_of(&self, heap: &Heap<'_>) -> bool {
        Arc::ptr_eq(&self.shared, &heap.relation.shared)
    }

    /// Makes this the pause of a transaction that changes the table's indexes while no other
    /// transaction writes to the table. It lasts until the transaction ends. Meanwhile, no observer
    /// learns of removed versions, and none is cleaned up: their copies wait. At its end, the
    /// pause forgets as [`FreeingPaused::forgetting`] does, except after [`FreeingPaused::undone`].
    #[must_use]
    pub fn changing(mut self) -> Self {
        debug_assert!(!self.changes, "a pause is counted as changing once");
        (self.forgets, self.changes) = (true, true);
        // The order matters: a writer that sets an observer checks `changing` under the lock that
        // the next call takes.
        self.shared.unreferenced.changing.fetch_add(1, Ordering::SeqCst);
        self.shared.ledger.end_epoch();
        self
    }

    /// Notes that the new index is built: it contains every version that is removed from now on.
    pub fn built(&mut self) {
        debug_assert!(self.forgets, "an index was built, and nothing is forgotten for it");
        self.until = Some(self.shared.ledger.begun());
    }

    /// Ends the pause of a transaction that is rolled back: the former indexes apply, and the
    /// reports about them stay valid.
    pub fn undone(mut self) {
        self.forgets &= !self.changes;
    }

    /// Makes the pause forget all reports from before and meanwhile at its end, because its holder
    /// changes the table's indexes.
    #[must_use]
    pub fn forgetting(mut self) -> Self {
        self.forgets = true;
        self
    }
}

impl Drop for FreeingPaused {
    fn drop(&mut self) {
        if self.forgets {
            let roots = self.shared.unreferenced.forget_all();
            let records = match &self.until {
                Some(until) => self.shared.ledger.end_until(until),
                None => self.shared.ledger.end_all(),
            };
            // Most roots are in both. They wait for vacuum now, and the counter shows that vacuum
            // is needed.
            count(&self.counters.forgotten, roots.max(records));
        }
        if self.changes {
            let changing = self.shared.unreferenced.changing.fetch_sub(1, Ordering::SeqCst);
            debug_assert_ne!(changing, 0, "a change ends that did not begin");
        }
        let paused = self.shared.unreferenced.paused.fetch_sub(1, Ordering::SeqCst);
        debug_assert_ne!(paused, 0, "a pause ends that did not begin");
    }
}

impl Heap<'_> {
    /// Keeps other tasks from freeing line pointers. Vacuum holds the pause from before it collects
    /// the first DEAD line pointer until it has freed the last (rule `one-cleaner`). Index builds
    /// hold it too (rule `index-build`).
    pub fn pause_freeing(&self) -> FreeingPaused {
        self.relation.shared.unreferenced.paused.fetch_add(1, Ordering::SeqCst);
        let (shared, counters) = (&self.relation.shared, &self.relation.counters);
        let (shared, counters) = (shared.clone(), counters.clone());
        FreeingPaused { shared, counters, forgets: false, changes: false, until: None }
    }

    /// Returns whether a transaction is changing the table's indexes ([`FreeingPaused::changing`]).
    pub fn indexes_change(&self) -> bool {
        self.relation.shared.unreferenced.is_changing()
    }

    /// Returns whether freeing is paused; an answer under a page's latch is valid until the latch
    /// is released.
    pub(crate) fn is_freeing_paused(&self) -> bool {
        self.relation.shared.unreferenced.is_paused()
    }

    /// Reports that an index has no entry for these roots any more. `position` is its position
    /// among all indexes of the table. All versions of the roots are dead to all snapshots, and
    /// none of the roots is mixed. The caller is a writer, so it holds a lock on the table that
    /// excludes changes of definitions. It also holds the latch of the leaf that lost the entries.
    pub fn note_unreferenced(&self, indexes: &Arc<[RelFileId]>, position: usize, roots: &[Tid]) {
        if !self.indexes_change() {
            self.relation.shared.unreferenced.note(indexes, position, roots);
        }
    }

    /// Returns the line pointers of a page, latched for writing, that a pass may free.
    pub(crate) fn unreferenced_on(&self, page: &Page, block: BlockNumber) -> Vec<u16> {
        let mut free = self.relation.shared.unreferenced.on(block);
        free.retain(|&offset| {
            let id = page.item_id(OffsetNumber(offset));
            debug_assert!(id.state() != ItemState::Unused, "X4: freed, and not forgotten");
            id.state() == ItemState::Dead && id.mixed() == Mixed::No
        });
        free
    }

    /// Forgets the line pointers of a block that were freed, under the page's latch.
    pub(crate) fn forget_freed(&self, block: BlockNumber, offsets: &[u16]) {
        debug_assert!(!offsets.is_empty(), "no line pointer was freed");
        self.relation.shared.unreferenced.forget(block, offsets);
        self.relation.shared.ledger.end(block, offsets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::bits::{MapOptions, VisibilityMap};

    #[test]
    fn nothing_is_freed_while_somebody_remembers_roots() {
        let map = VisibilityMap::new(MapOptions::default(), Arc::default());
        let shared = Arc::new(Shared::new(map, Arc::default()));
        let counters = Arc::new(HeapCounters::default());
        let indexes: Arc<[RelFileId]> = Arc::new([RelFileId(7)]);
        let root = Tid::new(1, 4);
        shared.unreferenced.note(&indexes, 0, &[root]);
        let pause = |forgets| {
            shared.unreferenced.paused.fetch_add(1, Ordering::SeqCst);
            let (shared, counters) = (Arc::clone(&shared), Arc::clone(&counters));
            FreeingPaused { shared, counters, forgets, changes: false, until: None }
        };
        let (vacuum, other) = (pause(false), pause(false));
        assert!(shared.unreferenced.on(BlockNumber(1)).is_empty());
        drop(vacuum);
        assert!(shared.unreferenced.on(BlockNumber(1)).is_empty());
        drop(other);
        assert_eq!(shared.unreferenced.on(BlockNumber(1)), [4]);
        assert_eq!(counters.read().forgotten, 0);
        let change = pause(false).changing();
        assert!(shared.unreferenced.is_changing());
        change.undone();
        assert!(!shared.unreferenced.is_changing());
        assert_eq!(shared.unreferenced.on(BlockNumber(1)), [4], "the indexes are those of before");
        drop(pause(false).changing());
        assert!(
            shared.unreferenced.on(BlockNumber(1)).is_empty() && !shared.unreferenced.is_changing()
        );
        assert_eq!(counters.read().forgotten, 1);
        shared.unreferenced.note(&indexes, 0, &[root]);
        drop(pause(true));
        assert!(shared.unreferenced.on(BlockNumber(1)).is_empty());
        assert_eq!(counters.read().forgotten, 2, "vacuum learns of it");
    }
}
