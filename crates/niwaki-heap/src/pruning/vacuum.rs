//! The heap's part of vacuum: prunes pages, collects DEAD line pointers, and frees them once no
//! index names them any more.

use niwaki_storage::page::ItemState;
use niwaki_storage::{Mixed, PageKind, Xid};
use niwaki_txn::Horizon;

use crate::error::Result;
use crate::memory::counters::Pruned;
use crate::pruning::freeing::FreeingPaused;
use crate::pruning::prune::PruneOptions;
use crate::pruning::tid_store::TidStore;
use crate::relation::Heap;

/// Roots whose entries a pass over the indexes visits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VacuumRoots {
    /// DEAD line pointers: all of their entries go.
    pub dead: TidStore,
    /// Roots that are `mixed` and have versions: entries go whose key no version of the root has.
    pub mixed: TidStore,
    /// Blocks with a root of either kind.
    block_count: u64,
}

impl VacuumRoots {
    /// Adds the roots of a block behind all blocks added before.
    fn add(&mut self, block: u32, dead: &[u16], mixed: &[u16]) {
        self.dead.add(block, dead);
        self.mixed.add(block, mixed);
        self.block_count += u64::from(!dead.is_empty() || !mixed.is_empty());
        debug_assert!(self.block_count <= self.len(), "a block without a root was counted");
    }

    /// Returns the number of blocks with a root of either kind.
    pub fn block_count(&self) -> u64 {
        self.block_count
    }

    /// Returns the number of roots.
    pub fn len(&self) -> u64 {
        self.dead.len() + self.mixed.len()
    }

    /// Returns the bytes of memory that the roots take.
    pub fn memory_bytes(&self) -> usize {
        self.dead.memory_bytes() + self.mixed.memory_bytes()
    }

    /// Returns whether there is no root.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The result of vacuum for one page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageVacuum {
    /// The counts of the pruning pass.
    pub pruned: Pruned,
    /// The page holds no line pointer in use.
    pub empty: bool,
}

impl Heap<'_> {
    /// Prunes a page, and adds its roots with entries to visit to `roots`, which contains the roots
    /// of earlier pages. `freeze_before` makes the pass freeze versions of older inserters, where
    /// every snapshot sees them. `report` makes the pass report removed versions to the gardener,
    /// for a vacuum that may not visit their entries. In a heap of pieces, pieces of keys then
    /// stay.
    ///
    /// # Errors
    /// Storage's.
    pub fn vacuum_page(
        &self,
        block: u32,
        horizon: &Horizon,
        freeze_before: Xid,
        report: bool,
        roots: &mut VacuumRoots,
    ) -> Result<PageVacuum> {
        self.load_map()?;
        let mut page = self.pin_write(block)?;
        if page.kind() != PageKind::Heap {
            self.note_room(&page);
            return Ok(PageVacuum { empty: true, ..PageVacuum::default() });
        }
        let (unreported, key_pieces) = (!report, report.then_some::<&[u16]>(&[]));
        let map = true;
        let options =
            PruneOptions { freeze_before, map, unreported, key_pieces, ..PruneOptions::default() };
        let pruned = self.prune(&mut page, horizon, options)?;
        let mut found = PageVacuum { pruned, empty: true };
        let (mut dead, mut mixed) = (Vec::new(), Vec::new());
        for (id, offset) in page.item_ids().zip(1..) {
            found.empty &= id.state() == ItemState::Unused;
            match id.state() {
                ItemState::Dead => dead.push(offset),
                ItemState::Normal | ItemState::Redirect if id.mixed() != Mixed::No => {
                    mixed.push(offset);
                }
                ItemState::Normal | ItemState::Redirect | ItemState::Unused => {}
            }
        }
        debug_assert!(!found.empty || dead.is_empty(), "a DEAD line pointer is in use");
        debug_assert!(!found.empty || mixed.is_empty(), "a mixed root is in use");
        self.note_room(&page);
        roots.add(block, &dead, &mixed);
        Ok(found)
    }

    /// Frees DEAD line pointers of one page without remaining index entries. Rule `one-cleaner`:
    /// there is one cleaner per table at a time, from its first index visit to this call. `paused`
    /// has existed since before the line pointers were collected.
    ///
    /// # Errors
    /// Storage's.
    pub fn free_dead(
        &self,
        paused: &FreeingPaused,
        block: u32,
        offsets: &[u16],
        horizon: &Horizon,
    ) -> Result<u32> {
        debug_assert!(paused.is_of(self), "the pause is another heap's");
        self.load_map()?;
        let mut page = self.pin_write(block)?;
        if page.kind() != PageKind::Heap {
            return Ok(0);
        }
        let options = PruneOptions { free: offsets, map: true, ..PruneOptions::default() };
        let pruned = self.prune(&mut page, horizon, options)?;
        debug_assert!(pruned.freed as usize <= offsets.len(), "nothing but {offsets:?} is freed");
        self.note_room(&page);
        Ok(pruned.freed)
    }
}
