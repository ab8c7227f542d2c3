//! Simple deletion: entries known to be dead make room on a full leaf.
//!
//! Scans mark what they found dead to everyone (LP_DEAD). When the leaf is full, the marked entries go,
//! and with them every other entry that the table says may go on the same heap blocks, or on the new
//! entry's own: those blocks are visited anyway, or likely in cache. Nothing marked, nothing tried.
//!
//! Source: design section 6; thread 000.

use niwaki_env::seeded_bug;
use niwaki_storage::BlockNumber;
use niwaki_storage::buffer::PageWrite;
use niwaki_storage::record::{LoggedPage, record_bytes};

use crate::batch::EntryPlace;
use crate::bottom_up::union;
use crate::change;
use crate::error::Result;
use crate::index::Index;
use crate::insert::NewEntry;
use crate::make_room::Deletion;
use crate::page::IndexPage;
use crate::removal::Removal;
use crate::stats::count;
use crate::table::{DeletionCandidate, RemovedInterval};
use crate::visits::Visits;
use crate::wal;

impl Index {
    /// Removes what may go from a full leaf. Returns heap blocks that are to be read in first, if there
    /// are any; then nothing was removed.
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
        let mut candidates = self.candidates(leaf, leaf.id().block)?;
        self.keep_worthwhile(&mut candidates, entry);
        candidates.sort_unstable_by_key(|candidate| (candidate.tid, candidate.at));
        let visits = Visits::all(&candidates);
        if let Some(absent) = deletion.absent(&visits.list, &candidates) {
            return Ok(Some(absent));
        }
        let mut removes = None;
        for visit in &visits.list {
            let on_block = &mut candidates[visit.candidates.clone()];
            removes = union(removes, deletion.oracle.judge(on_block)?);
        }
        let gone = judged_deletable(&candidates);
        count(&self.counters.simple_deletions, 1);
        count(&self.counters.simple_heap_blocks, visits.list.len() as u64);
        if gone.is_empty() {
            count(&self.counters.simple_useless, 1);
            return Ok(None);
        }
        let bytes = self.delete_entries(leaf, &gone, entry.xid, removes)?;
        count(&self.counters.simple_wal_bytes, bytes as u64);
        count(&self.counters.simple_deleted_entries, gone.len() as u64);
        Ok(None)
    }

    /// Drops the candidates that are neither marked nor on a heap block worth looking at.
    fn keep_worthwhile(&self, candidates: &mut Vec<DeletionCandidate<'_>>, entry: &NewEntry<'_>) {
        if !self.options().simple_deletion_extras {
            return candidates.retain(|candidate| candidate.known_dead);
        }
        let mut blocks: Vec<_> = candidates
            .iter()
            .filter(|candidate| candidate.known_dead)
            .map(|candidate| candidate.tid.block)
            .chain(std::iter::once(entry.tid.block))
            .collect();
        blocks.sort_unstable();
        candidates.retain(|candidate| {
            candidate.known_dead || blocks.binary_search(&candidate.tid.block).is_ok()
        });
    }

    /// Removes entries of a leaf, given ascending, and logs that. A posting list gets shorter, or goes
    /// with its last TID. Returns the bytes of the log record, a page image not counted.
    pub(crate) fn delete_entries(
        &self,
        leaf: &mut PageWrite<'_>,
        entries: &[EntryPlace],
        xid: niwaki_storage::Xid,
        removes: RemovedInterval,
    ) -> Result<usize> {
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
        Ok(record_bytes(&[data.len()], removes.is_some()))
    }
}

/// Where the entries are that the table allowed to go, ascending.
pub(crate) fn judged_deletable(candidates: &[DeletionCandidate<'_>]) -> Vec<EntryPlace> {
    let takes_promising = seeded_bug!("deletion_trusts_promises");
    let deletable = candidates
        .iter()
        .filter(|candidate| candidate.deletable || (takes_promising && candidate.promising));
    let mut gone: Vec<EntryPlace> = deletable.map(|candidate| candidate.at).collect();
    gone.sort_unstable();
    gone
}
