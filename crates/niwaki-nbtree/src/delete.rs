//! Deletion of entries: one by its key, or all that a pass over the file finds.

use niwaki_storage::buffer::PageWrite;
use niwaki_storage::page::PageKind;
use niwaki_storage::{BlockNumber, Tid, Xid};

use crate::batch::{BatchEntry, EntryPlace};
use crate::descend::{Descent, RESTARTS_MAX};
use crate::error::Result;
use crate::index::{Index, Path};
use crate::leaf::Found;
use crate::page::{IndexPage, META_BLOCK};
use crate::search::Target;
use crate::stats::count;
use crate::table::{EntryDecision, RemovedInterval};

/// What a pass of vacuum did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VacuumSummary {
    /// Leaf pages visited.
    pub leaf_pages: u32,
    /// Entries removed.
    pub removed: u64,
    /// Entries that stay.
    pub remaining: u64,
    /// Pages that were empty, or half-dead since a crash, and were unlinked.
    pub deleted_pages: u32,
    /// Pages that the next splits will use, found or made.
    pub free_pages: u32,
}

impl Index {
    /// Deletes the entry (key, TID) if it is there and `decide`, called under the leaf's exclusive
    /// latch (rule 9b.10), says so; with the interval of what it allowed. Returns whether an entry
    /// was deleted.
    ///
    /// # Errors
    /// That of `decide`, and storage's: nothing was deleted then, unless the leaf was left empty and its
    /// page could not be deleted, which the next pass of vacuum does.
    pub fn delete_entry(
        &self,
        key: &[u8],
        tid: Tid,
        xid: Xid,
        decide: &mut dyn FnMut() -> niwaki_storage::Result<(EntryDecision, RemovedInterval)>,
    ) -> Result<bool> {
        let target = Target::entry(key, tid);
        let Some(mut leaf) = self.write_leaf_of(&target)? else { return Ok(false) };
        let Found::There(entry) = self.find_entry(&leaf, leaf.id().block, key, tid)? else {
            return Ok(false);
        };
        let (decision, removes) = decide()?;
        if decision == EntryDecision::Keep {
            return Ok(false);
        }
        self.delete_entries(&mut leaf, &[entry], xid, removes)?;
        count(&self.counters.retail_deleted_entries, 1);
        if leaf.entry_count() == 0 {
            self.delete_page(leaf)?;
        }
        Ok(true)
    }

    /// Latches for writing the leaf where `target` belongs; `None` when the index has no pages.
    fn write_leaf_of(&self, target: &Target<'_>) -> Result<Option<PageWrite<'_>>> {
        for _ in 0..RESTARTS_MAX {
            let Descent::At(link) = self.descend(target, 0, false, &mut Path::new())? else {
                return Ok(None);
            };
            if let Some(leaf) = self.write_from(link, 0, target)? {
                return Ok(Some(leaf));
            }
        }
        Err(self.no_way(META_BLOCK))
    }

    /// Visits every entry, in physical order of the pages, and deletes those that `decide` says,
    /// called under the leaf's exclusive latch. `removes` is the interval of everything it may
    /// delete. `between_pages` is called with no latch held, for delays and interrupts.
    ///
    /// Complete although splits go on: the pass goes on to the end that the file has when it gets there, and
    /// then visits again what splits moved to pages behind it (`Recycling::entries_move`).
    ///
    /// Leaves that are empty then are deleted, half-dead pages unlinked, and deleted pages, of an earlier
    /// run too, found for use.
    ///
    /// # Errors
    /// Storage's, and that of `between_pages`; what was deleted until then stays deleted.
    pub fn vacuum(
        &self,
        removes: RemovedInterval,
        decide: &mut dyn FnMut(BatchEntry<'_>) -> EntryDecision,
        between_pages: &mut dyn FnMut() -> niwaki_storage::Result<()>,
    ) -> Result<VacuumSummary> {
        let mut summary = VacuumSummary::default();
        let pass = self.recycling.begin_pass();
        // Ends: entries that the pass has met do not bring it back.
        while let Some(block) = pass.next(self.blocks()?) {
            self.vacuum_page(block, removes, decide, &mut summary)?;
            between_pages()?;
        }
        summary.free_pages = self.recycling.free_count() as u32;
        count(&self.counters.vacuumed_entries, summary.removed);
        Ok(summary)
    }

    fn vacuum_page(
        &self,
        block: BlockNumber,
        removes: RemovedInterval,
        decide: &mut dyn FnMut(BatchEntry<'_>) -> EntryDecision,
        summary: &mut VacuumSummary,
    ) -> Result<()> {
        let mut leaf = self.pin(block)?.into_write();
        if leaf.is_new() {
            self.recycling.add_unused(block);
            return Ok(());
        }
        if leaf.kind() == PageKind::Nbtree && leaf.is_deleted() {
            self.recycling.add_free(block);
            return Ok(());
        }
        if leaf.kind() == PageKind::Nbtree && leaf.is_half_dead() {
            drop(leaf);
            summary.deleted_pages += u32::from(self.unlink(block)?);
            return Ok(());
        }
        if leaf.kind() == PageKind::Nbtree && !leaf.is_leaf() {
            return Ok(());
        }
        leaf.verify(self.page_id(block), Some(0)).map_err(crate::index::storage_damage)?;
        let (removed, remaining) = self.judge_page(&mut leaf, removes, decide)?;
        summary.leaf_pages += 1;
        summary.removed += removed;
        summary.remaining += remaining;
        if leaf.entry_count() == 0 {
            summary.deleted_pages += self.delete_page(leaf)?;
        }
        Ok(())
    }

    /// Deletes the entries of a leaf that `decide` says. Returns how many went, and how many stay.
    pub(crate) fn judge_page(
        &self,
        leaf: &mut PageWrite<'_>,
        removes: RemovedInterval,
        decide: &mut dyn FnMut(BatchEntry<'_>) -> EntryDecision,
    ) -> Result<(u64, u64)> {
        let block = leaf.id().block;
        let mut gone = Vec::new();
        let mut count = 0;
        for offset in leaf.first_entry()..=leaf.item_count() {
            let item = self.leaf_tuple(leaf, block, offset)?;
            count += item.tids.len() as u64;
            for (place, tid) in (0u8..).zip(item.tids.iter()) {
                let entry = BatchEntry { key: item.key, payload: item.payload, tid };
                if decide(entry) == EntryDecision::Delete {
                    gone.push(EntryPlace { offset, place });
                }
            }
        }
        if !gone.is_empty() {
            self.delete_entries(leaf, &gone, Xid::INVALID, removes)?;
        }
        Ok((gone.len() as u64, count - gone.len() as u64))
    }
}
