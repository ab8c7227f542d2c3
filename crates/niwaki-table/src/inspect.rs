//! Looking at a table as it is stored: page by page, changing nothing, latching one page at a time.

use niwaki_heap::{ChainStats, Held, LinePointer, PageVisibility, SnapshotHolds};
use niwaki_txn::Holders;

use crate::error::Result;
use crate::table::Table;

impl Table {
    /// What the visibility map says of each page now, in the order of the blocks.
    ///
    /// # Errors
    /// Storage's.
    pub fn visibility_map(&self) -> Result<impl Iterator<Item = PageVisibility> + '_> {
        let heap = self.heap();
        heap.open_visibility_map()?;
        Ok((0..heap.blocks()?).map(move |block| heap.page_visibility(block)))
    }

    /// Bytes of memory that the map takes.
    pub fn visibility_map_bytes(&self) -> usize {
        self.heap().visibility_map_bytes()
    }

    /// Adds what the chains of a heap page look like now.
    ///
    /// # Errors
    /// Storage's.
    pub fn add_chain_stats(&self, block: u32, stats: &mut ChainStats) -> Result<()> {
        Ok(self.heap().add_chain_stats(block, stats)?)
    }

    /// The line pointers of a heap page, with what they point at.
    ///
    /// # Errors
    /// Storage's; there being no such block.
    pub fn line_pointers(&self, block: u32) -> Result<Vec<LinePointer>> {
        Ok(self.heap().line_pointers(block)?)
    }

    /// Adds what open snapshots keep of a heap page.
    ///
    /// # Errors
    /// Storage's.
    ///
    /// # Panics
    /// If `holds` was made for other snapshots.
    pub fn add_snapshot_holds(
        &self,
        block: u32,
        holders: &Holders,
        holds: &mut SnapshotHolds,
    ) -> Result<()> {
        Ok(self.heap().add_snapshot_holds(block, holders, holds)?)
    }

    /// Adds, for each open snapshot, what it alone keeps of the heap, as far as passes over its pages have met
    /// it: costs no I/O.
    ///
    /// # Panics
    /// If `alone` is not as long as there are snapshots.
    pub fn add_noted_holds(&self, holders: &Holders, alone: &mut [Held]) {
        self.heap().add_noted_holds(holders, alone);
    }
}
