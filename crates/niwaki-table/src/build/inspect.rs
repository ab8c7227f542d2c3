//! Inspection of a table as stored: page by page, without changes, latching one page at a time.

use niwaki_heap::{ChainStats, LinePointer, PageVisibility, Retained, SnapshotRetention};
use niwaki_storage::BlockNumber;
use niwaki_txn::RegisteredSnapshots;

use crate::error::Result;
use crate::relation::table::Table;

impl Table {
    /// Returns the visibility map's state of each page, in the order of the blocks.
    ///
    /// # Errors
    /// Storage's.
    pub fn visibility_map(&self) -> Result<impl Iterator<Item = PageVisibility> + '_> {
        let heap = self.heap();
        heap.open_visibility_map()?;
        Ok((0..heap.blocks()?).map(move |block| heap.page_visibility(block)))
    }

    /// Returns the bytes of memory that the map takes.
    pub fn visibility_map_bytes(&self) -> usize {
        self.heap().visibility_map_bytes()
    }

    /// Adds the current state of the chains of a heap page.
    ///
    /// # Errors
    /// Storage's.
    pub fn add_chain_stats(&self, block: BlockNumber, stats: &mut ChainStats) -> Result<()> {
        Ok(self.heap().add_chain_stats(block.0, stats)?)
    }

    /// Returns the line pointers of a heap page, with the items they point at.
    ///
    /// # Errors
    /// Storage's; an error when there is no such block.
    pub fn line_pointers(&self, block: BlockNumber) -> Result<Vec<LinePointer>> {
        Ok(self.heap().line_pointers(block.0)?)
    }

    /// Adds the versions of a heap page that open snapshots keep.
    ///
    /// # Errors
    /// Storage's.
    ///
    /// # Panics
    /// If `holds` was made for other snapshots.
    pub fn add_snapshot_retention(
        &self,
        block: BlockNumber,
        holders: &RegisteredSnapshots,
        holds: &mut SnapshotRetention,
    ) -> Result<()> {
        Ok(self.heap().add_snapshot_retention(block.0, holders, holds)?)
    }

    /// Adds, for each open snapshot, the versions of the heap that it alone keeps, as far as passes
    /// have met them. Costs no I/O.
    ///
    /// # Panics
    /// If the length of `alone` is not the number of snapshots.
    pub fn add_noted_retention(&self, holders: &RegisteredSnapshots, alone: &mut [Retained]) {
        self.heap().add_noted_retention(holders, alone);
    }
}
