//! Deletion of entries: one by its key, or all that a pass over the file finds.

use niwaki_storage::page::PageKind;
use niwaki_storage::{BlockNumber, Tid, Xid};

use crate::batch::{BatchEntry, EntryPlace};
use crate::descend::Descent;
use crate::error::Result;
use crate::index::{Index, Path};
use crate::leaf::Found;
use crate::page::{IndexPage, flag};
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
}

impl Index {
    /// Deletes the entry (key, TID) if it is there and `decide`, called under the leaf's exclusive
    /// latch (rule 9b.10), says so; with the interval of what it allowed. Returns whether an entry
    /// was deleted.
    ///
    /// # Errors
    /// Storage's, and that of `decide`; nothing was deleted then.
    pub fn delete_entry(
        &self,
        key: &[u8],
        tid: Tid,
        xid: Xid,
        decide: &mut dyn FnMut() -> niwaki_storage::Result<(EntryDecision, RemovedInterval)>,
    ) -> Result<bool> {
        let target = Target::entry(key, tid);
        let block = match self.descend(&target, 0, false, &mut Path::new())? {
            Descent::At(block) => block,
            Descent::Incomplete(..) | Descent::Empty => return Ok(false),
        };
        let mut leaf = self.write_from(block, 0, &target)?;
        let Found::There(entry) = self.find_entry(&leaf, leaf.id().block, key, tid)? else {
            return Ok(false);
        };
        let (decision, removes) = decide()?;
        if decision == EntryDecision::Keep {
            return Ok(false);
        }
        self.delete_entries(&mut leaf, &[entry], xid, removes)?;
        count(&self.counters.retail_deleted_entries, 1);
        Ok(true)
    }

    /// Visits every entry, in physical order of the pages, and deletes those that `decide` says,
    /// called under the leaf's exclusive latch. `removes` is the interval of everything it may
    /// delete. `between_pages` is called with no latch held, for delays and interrupts.
    ///
    /// Complete although splits go on: what a split moves, it moves to a higher block
    /// (`Index::allocate`), where the pass has yet to come, and the pass goes on to the end that the
    /// file has when it gets there.
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
        let mut block = 1;
        while block < self.blocks()? {
            self.vacuum_page(BlockNumber(block), removes, decide, &mut summary)?;
            between_pages()?;
            block += 1;
        }
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
        // A page that no split has used yet, or an inner page.
        if leaf.is_new() || (leaf.kind() == PageKind::Nbtree && !leaf.is_leaf()) {
            return Ok(());
        }
        if leaf.index_flags() & (flag::HALF_DEAD | flag::DELETED) != 0 {
            return Ok(());
        }
        leaf.verify(self.page_id(block), Some(0)).map_err(crate::index::storage_damage)?;
        let mut gone = Vec::new();
        let mut count = 0;
        for offset in leaf.first_entry()..=leaf.item_count() {
            let item = self.leaf_tuple(&leaf, block, offset)?;
            count += item.tids.len() as u64;
            for (place, tid) in (0u8..).zip(item.tids.iter()) {
                let entry = BatchEntry { key: item.key, payload: item.payload, tid };
                if decide(entry) == EntryDecision::Delete {
                    gone.push(EntryPlace { offset, place });
                }
            }
        }
        if !gone.is_empty() {
            self.delete_entries(&mut leaf, &gone, Xid::INVALID, removes)?;
        }
        summary.leaf_pages += 1;
        summary.removed += gone.len() as u64;
        summary.remaining += count - gone.len() as u64;
        Ok(())
    }
}
