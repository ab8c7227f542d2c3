//! Whether a leaf is split for versions that only an old snapshot keeps.
//!
//! A leaf that versions filled is split when no entry of it may go. If the table kept some of these versions for an old
//! snapshot alone, then that snapshot is why the index grows: the split is counted, and the table, which was asked, may have who made it
//! slow down afterwards. A few heap blocks in memory are asked about, as a pass of bottom-up deletion would be
//! made of them; a split is so rare that nobody feels it.

use niwaki_storage::BlockNumber;
use niwaki_storage::buffer::PageWrite;

use crate::error::Result;
use crate::index::Index;
use crate::stats::count;
use crate::table::DeletionOracle;
use crate::visits::Visits;

/// Most heap blocks that are asked about.
const BLOCKS_MAX: usize = 16;

impl Index {
    /// Counts the split of a leaf for a version, which is about to be made.
    pub(crate) fn note_version_split(
        &self,
        leaf: &PageWrite<'_>,
        oracle: Option<&dyn DeletionOracle>,
    ) -> Result<()> {
        count(&self.counters.version_splits, 1);
        if let Some(oracle) = oracle
            && self.is_held_back(leaf, leaf.id().block, oracle)?
        {
            count(&self.counters.held_splits, 1);
        }
        Ok(())
    }

    fn is_held_back(
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
