//! Roots that settled: their records (`cleanup_ledger.rs`) show which entries are left.
//!
//! The gardener reports what it cleaned up. A pass asks which DEAD line pointers have no entry any
//! more, and which roots with several keys have only the entries of their single version.

use niwaki_storage::page::{ItemState, Page};
use niwaki_storage::{BlockNumber, Mixed, OffsetNumber, PageWrite, Tid};

use crate::error::Result;
use crate::memory::counters::count;
use crate::memory::record_id::RecordId;
use crate::relation::Heap;

impl Heap<'_> {
    /// Counts an entry of a version that was removed from this root. The clean-up of the entry will
    /// be reported apart from the version, and later.
    pub fn expect_cleanup(&self, root: Tid, record: RecordId) {
        debug_assert_ne!(root.offset, OffsetNumber::INVALID, "an entry for no line pointer");
        self.relation.shared.ledger.expect_cleanup(root, record);
    }

    /// Reports the clean-up of a version that was removed from this root, or of an entry of such a
    /// version. `payloads_right` means in addition that no entry of the root has a payload that may
    /// belong to another version.
    pub fn note_cleaned(&self, root: Tid, record: RecordId, payloads_right: bool) {
        debug_assert_ne!(root.offset, OffsetNumber::INVALID, "an entry for no line pointer");
        self.relation.shared.ledger.note_cleaned(root, record, payloads_right);
    }

    /// Returns whether a pass may free this line pointer, if it is DEAD, or clear its `mixed`.
    pub(crate) fn settles(&self, block: BlockNumber, offset: u16, dead: bool) -> bool {
        !self.is_freeing_paused() && self.relation.shared.ledger.has_settled(block, offset, !dead)
    }

    /// Returns DEAD line pointers that have a record, and no entry any more. The page is latched
    /// for writing.
    pub(crate) fn settled_dead(&self, page: &Page, block: BlockNumber) -> Vec<u16> {
        if self.is_freeing_paused() {
            return Vec::new();
        }
        let is_dead = |offset, _| page.item_id(OffsetNumber(offset)).state() == ItemState::Dead;
        self.relation.shared.ledger.settled(block, is_dead)
    }

    /// Returns mixed roots of a latched page whose only entries are those for their single version.
    pub(crate) fn settled_single(&self, page: &PageWrite<'_>) -> Vec<u16> {
        if self.is_freeing_paused() {
            return Vec::new();
        }
        let is_mixed =
            |offset, right| right && page.item_id(OffsetNumber(offset)).mixed() != Mixed::No;
        let mut roots = self.relation.shared.ledger.settled(page.id().block, is_mixed);
        self.retain_single(page, &mut roots);
        roots
    }

    /// Clears `mixed` of settled roots where no pass over the page is due.
    pub(crate) fn clear_settled(&self, page: &mut PageWrite<'_>) -> Result<()> {
        let roots = self.settled_single(page);
        self.unmix(page, &roots)?;
        count(&self.relation.counters.settled, roots.len());
        Ok(())
    }
}
