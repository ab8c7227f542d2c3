//! Counts splits for versions that only an old snapshot keeps (snapshot-blocked splits).
//!
//! A leaf that versions filled is split when none of its entries may go. The table may have kept
//! some of these versions for an old snapshot alone. Then that snapshot makes the index grow, and
//! the split is counted. The table may slow down the insertion that caused the split afterwards.
//! The check asks about a few heap blocks in memory, as a pass of bottom-up deletion would. A split
//! is so rare that this cost does not matter.

use niwaki_storage::BlockNumber;
use niwaki_storage::buffer::PageWrite;

use crate::error::Result;
use crate::memory::stats::count;
use crate::room::visits::Visits;
use crate::table::DeletionOracle;
use crate::tree::index::Index;

/// The most heap blocks that one check asks about.
const BLOCKS_MAX: usize = 16;

impl Index {
    /// Counts the split of a leaf for a version. The split is about to be made.
    pub(crate) fn note_version_split(
        &self,
        leaf: &PageWrite<'_>,
        oracle: Option<&dyn DeletionOracle>,
    ) -> Result<()> {
        count(&self.counters.version_splits, 1);
        if let Some(oracle) = oracle
            && self.is_snapshot_blocked(leaf, leaf.id().block, oracle)?
        {
            count(&self.counters.held_splits, 1);
        }
        Ok(())
    }

    fn is_snapshot_blocked(
        &self,
        leaf: &PageWrite<'_>,
        block: BlockNumber,
        oracle: &dyn DeletionOracle,
    ) -> Result<bool> {
        let by_block = self.by_block(leaf, block)?;
        let visits = Visits::all(&by_block, |on| on.promising > 0);
        Ok(visits.list.iter().take(BLOCKS_MAX).any(|visit| {
            let promising = visit.candidates.iter().filter(|candidate| candidate.promising);
            let offsets: Vec<_> = promising.map(|candidate| candidate.tid.offset).collect();
            oracle.keeps_for_old_snapshot(visit.block, &offsets)
        }))
    }
}
