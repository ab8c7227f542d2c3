//! Simple deletion: entries known to be dead make room on a full leaf.
//!
//! Scans mark the entries that they find dead to every snapshot (LP_DEAD). When the leaf is full,
//! the marked entries go. Every other entry on the same heap blocks, or on the new entry's own,
//! goes too if the table allows. Those blocks are visited anyway, or likely in cache. Without a
//! marked entry, nothing is tried.
//!
//! Source: docs/internals/design.md, "A full leaf"; thread `bottom-up-deletion`.

use niwaki_storage::buffer::PageWrite;
use niwaki_storage::page::Page;
use niwaki_storage::record::{LoggedPage, record_bytes};
use niwaki_storage::{BlockNumber, Tid};

use crate::error::Result;
use crate::memory::stats::count;
use crate::page::entry::{EntryPlace, NewEntry};
use crate::page::layout::IndexPage;
use crate::page::removal::Removal;
use crate::page::tuple::LeafTuple;
use crate::page::{change, wal};
use crate::room::by_block::HeapBlock;
use crate::room::visits::{Deletion, Visits};
use crate::table::{DeletionOracle, RemovedInterval, union};
use crate::tree::index::Index;

impl Index {
    /// Removes the entries that may go from a full leaf. Returns heap blocks that must be read in
    /// first, if there are any; then nothing was removed.
    pub(crate) fn simple_delete(
        &self,
        leaf: &mut PageWrite<'_>,
        entry: &NewEntry<'_>,
        deletion: &Deletion<'_>,
    ) -> Result<Option<Vec<BlockNumber>>> {
        let mut offsets = leaf.first_entry()..=leaf.item_count();
        if !offsets.any(|offset| change::is_dead(leaf, offset)) {
            return Ok(None);
        }
        let by_block = self.by_block(leaf, leaf.id().block)?;
        let extras = self.options().simple_deletion_extras;
        let is_worthwhile =
            |on: &HeapBlock| on.known_dead > 0 || (extras && on.block == entry.tid.block);
        let mut visits = Visits::all(&by_block, is_worthwhile);
        debug_assert!(!visits.list.is_empty(), "a marked entry leads to a heap block");
        if !extras {
            let lists = visits.list.iter_mut().map(|visit| &mut visit.candidates);
            lists.for_each(|list| list.retain(|candidate| candidate.known_dead));
        }
        if let Some(absent) = deletion.absent(&visits.list) {
            return Ok(Some(absent));
        }
        let mut removes = None;
        for visit in &mut visits.list {
            removes = union(removes, visit.judge(deletion.oracle)?);
        }
        let gone = visits.judged_deletable();
        count(&self.counters.simple_deletions, 1);
        count(&self.counters.simple_heap_blocks, visits.list.len() as u64);
        if gone.is_empty() {
            count(&self.counters.simple_useless, 1);
            return Ok(None);
        }
        let bytes = self.delete_allowed(leaf, &gone, entry.xid, removes, deletion.oracle)?;
        count(&self.counters.simple_wal_bytes, bytes as u64);
        count(&self.counters.simple_deleted_entries, gone.len() as u64);
        Ok(None)
    }

    /// Deletes as [`Index::delete_entries`], and informs the table.
    pub(crate) fn delete_allowed(
        &self,
        leaf: &mut PageWrite<'_>,
        entries: &[EntryPlace],
        xid: niwaki_storage::Xid,
        removes: RemovedInterval,
        oracle: &dyn DeletionOracle,
    ) -> Result<usize> {
        let roots = tids_at(leaf, entries);
        let bytes = self.delete_entries(leaf, entries, xid, removes)?;
        oracle.deleted(&roots);
        Ok(bytes)
    }

    /// Removes entries of a leaf, given ascending, and logs that. A posting list gets shorter, or
    /// goes with its last TID. Returns the bytes of the log record, without page images.
    pub(crate) fn delete_entries(
        &self,
        leaf: &mut PageWrite<'_>,
        entries: &[EntryPlace],
        xid: niwaki_storage::Xid,
        removes: RemovedInterval,
    ) -> Result<usize> {
        debug_assert!(!entries.is_empty(), "a removal of nothing is no change");
        let Some(removal) = Removal::of(leaf, entries) else {
            let block = leaf.id().block;
            return Err(self.damaged(block, None, "format", "the entries are not on the leaf"));
        };
        let data = removal.encode();
        let critical = self.storage.begin_change()?;
        let deleted = removal.apply(leaf);
        assert!(deleted, "the entries were just found");
        leaf.bump_version();
        let delta: &[&[u8]] = &[&data];
        self.log(wal::kind::DELETE, xid, &mut [LoggedPage::delta(leaf, delta)], removes);
        drop(critical);
        self.earn(entries.len() as u64);
        self.packing.deleted(entries.len() as u64);
        Ok(record_bytes(&[data.len()], removes))
    }
}

/// Returns the TIDs of these entries of a leaf.
pub(crate) fn tids_at(leaf: &Page, entries: &[EntryPlace]) -> Vec<Tid> {
    let tid = |entry: &EntryPlace| {
        let item = LeafTuple::decode(leaf.tuple(entry.offset))?;
        item.tids.get(usize::from(entry.place))
    };
    let tids: Vec<Tid> = entries.iter().filter_map(tid).collect();
    debug_assert_eq!(tids.len(), entries.len(), "the entries were read under the same latch");
    tids
}
