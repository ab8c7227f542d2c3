//! One vacuum of one table.

use std::collections::BTreeSet;

use niwaki_heap::FreeingPaused;
use niwaki_storage::{Tid, Xid};
use niwaki_table::{Error, PageVisibility, Result, Table, VacuumRoots};
use niwaki_txn::SessionControl;

use crate::skip::BlocksToRead;

/// How a vacuum is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VacuumOptions {
    /// Versions of inserters at least this many transactions old are frozen; 0 (VACUUM FREEZE): all
    /// that every snapshot sees.
    pub freeze_min_age: u64,
    /// Leave out pages of which the visibility map says that there is nothing to do.
    pub skip_pages: bool,
    /// Visit the indexes at all; without it DEAD line pointers stay, and so do old entries of mixed roots.
    pub index_cleanup: bool,
    /// Most DEAD line pointers and mixed roots remembered before the indexes are visited; more means
    /// another pass over them. 8 bytes each.
    pub roots_max: usize,
}

impl Default for VacuumOptions {
    fn default() -> Self {
        Self {
            freeze_min_age: 50_000_000,
            skip_pages: true,
            index_cleanup: true,
            roots_max: 8 << 20,
        }
    }
}

impl VacuumOptions {
    /// Pages of which the map says so much have nothing for it.
    fn skips(&self) -> Option<PageVisibility> {
        self.skip_pages.then_some(match self.freeze_min_age {
            0 => PageVisibility::AllFrozen,
            _ => PageVisibility::AllVisible,
        })
    }
}

/// What a vacuum did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VacuumSummary {
    /// Heap pages read.
    pub pages: u32,
    /// Heap pages left out, by what the visibility map says of them.
    pub skipped: u32,
    /// Versions removed.
    pub removed: u64,
    /// Versions frozen.
    pub frozen: u64,
    /// Versions left on the pages read.
    pub remaining: u64,
    /// Of those, how many have ended and stay for open snapshots.
    pub held: u64,
    /// Line pointers freed for reuse.
    pub freed: u64,
    /// Mixed roots, to which index entries of other keys led, that have only their own now.
    pub cleared: u64,
    /// Entries removed, of all indexes together.
    pub entries_removed: u64,
    /// Times the indexes were visited.
    pub index_passes: u32,
    /// Pages read of the heap of large values.
    pub value_pages: u32,
    /// Pieces of large values removed there.
    pub pieces_removed: u64,
}

impl VacuumSummary {
    /// About how many rows the table has, where `known` versions were on so many pages before: the pages that were
    /// left out are taken to hold what pages held then.
    pub fn estimate_rows(&self, known: (f64, u32)) -> f64 {
        let read = self.remaining.saturating_sub(self.held) as f64;
        let skipped = f64::from(self.skipped);
        match (self.pages, known) {
            (_, (rows, pages)) if pages > 0 => read + rows / f64::from(pages) * skipped,
            (0, _) => 0.0,
            // Nothing was known: they are like those that were read.
            (pages, _) => read + read / f64::from(pages) * skipped,
        }
    }
}

/// Vacuums a table. The caller holds it in SHARE UPDATE EXCLUSIVE mode or stronger, so that no other
/// cleaner and no index build is at it (rules 9b.10, 9b.12).
///
/// # Errors
/// Storage's; the session's interrupts, between pages. What was done stays done.
pub fn vacuum(
    table: &Table,
    session: &SessionControl,
    options: &VacuumOptions,
) -> Result<VacuumSummary> {
    let mut pass =
        Pass { table, session, summary: VacuumSummary::default(), roots: VacuumRoots::default() };
    let transactions = table.engine().transactions();
    let freeze_before = Xid(transactions.next_xid().0.saturating_sub(options.freeze_min_age));
    let heap = table.heap();
    let paused = heap.pause_freeing();
    heap.open_visibility_map()?;
    let mut blocks = BlocksToRead::new(options.skips());
    // Up to the end that the heap has when the pass gets there.
    while let Some(block) = blocks.next(table.blocks()?, |block| heap.page_visibility(block)) {
        pass.interrupts()?;
        // Anew for each page: reading the slots costs little, and what ended meanwhile counts.
        let horizon = transactions.horizon();
        let found = heap.vacuum_page(block, &horizon, freeze_before, &mut pass.roots)?;
        pass.summary.pages += 1;
        pass.summary.removed += u64::from(found.pruned.removed);
        pass.summary.frozen += u64::from(found.pruned.frozen);
        pass.summary.remaining += u64::from(found.versions);
        pass.summary.held += u64::from(found.pruned.held);
        if options.index_cleanup && pass.roots.len() >= options.roots_max {
            pass.clean(&paused)?;
        }
    }
    pass.summary.skipped = blocks.skipped();
    if options.index_cleanup && !pass.roots.is_empty() {
        pass.clean(&paused)?;
    }
    heap.save_free_space()?;
    pass.vacuum_values(freeze_before, options)?;
    Ok(pass.summary)
}

struct Pass<'t> {
    table: &'t Table,
    session: &'t SessionControl,
    summary: VacuumSummary,
    /// Whose entries the next visit of the indexes is about.
    roots: VacuumRoots,
}

impl Pass<'_> {
    fn interrupts(&self) -> Result<()> {
        self.session.check_interrupts().map_err(|why| Error::Transaction(why.into()))
    }

    /// Prunes the heap of the table's large values: what is left there of versions that went, and of transactions that
    /// aborted. No index names its rows.
    fn vacuum_values(&mut self, freeze_before: Xid, options: &VacuumOptions) -> Result<()> {
        let Some(values) = self.table.value_heap() else { return Ok(()) };
        let mut none = VacuumRoots::default();
        values.open_visibility_map()?;
        let mut blocks = BlocksToRead::new(options.skips());
        while let Some(block) = blocks.next(values.blocks()?, |at| values.page_visibility(at)) {
            self.interrupts()?;
            let horizon = self.table.engine().transactions().horizon();
            let found = values.vacuum_page(block, &horizon, freeze_before, &mut none)?;
            self.summary.value_pages += 1;
            self.summary.pieces_removed += u64::from(found.pruned.removed);
        }
        Ok(values.save_free_space()?)
    }

    /// Visits all entries of the roots found in every index: those of DEAD line pointers and those whose keys
    /// no version has go. Then frees the line pointers, and clears `mixed` where one version is left
    /// (rules 9b.8, 9b.9).
    fn clean(&mut self, paused: &FreeingPaused) -> Result<()> {
        let roots = std::mem::take(&mut self.roots);
        let heap = self.table.heap();
        // Before the first visit of an index: who changes a key meanwhile says *yes*.
        let mut cleaning = Vec::new();
        for (block, offsets) in by_block(&roots.mixed) {
            let found = heap.begin_cleaning(block, &offsets)?;
            cleaning.extend(found.into_iter().map(|offset| Tid::new(block, offset)));
        }
        let mut unclean = BTreeSet::new();
        for index in 0..self.table.definition().indexes.len() {
            let interrupts = &mut || self.interrupts();
            let visited = self.table.clean_index(index, &roots, &mut unclean, interrupts)?;
            self.summary.entries_removed += visited.removed;
        }
        self.summary.index_passes += 1;
        for (block, offsets) in by_block(&roots.dead) {
            self.interrupts()?;
            let horizon = self.table.engine().transactions().horizon();
            let freed = heap.free_dead(paused, block, &offsets, &horizon)?;
            self.summary.freed += u64::from(freed);
        }
        cleaning.retain(|root| !unclean.contains(root));
        for (block, offsets) in by_block(&cleaning) {
            self.interrupts()?;
            self.summary.cleared += heap.clear_mixed(block, &offsets)?.len() as u64;
        }
        Ok(())
    }
}

/// Roots, given ascending, by their blocks.
fn by_block(roots: &[Tid]) -> impl Iterator<Item = (u32, Vec<u16>)> {
    let groups = roots.chunk_by(|a, b| a.block == b.block);
    groups.map(|group| (group[0].block.0, group.iter().map(|tid| tid.offset.0).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_pages_that_were_left_out_are_estimated() {
        let summary = |pages, skipped, remaining| VacuumSummary {
            pages,
            skipped,
            remaining,
            ..VacuumSummary::default()
        };
        let estimate = |summary: VacuumSummary, known| summary.estimate_rows(known).round() as u64;
        assert_eq!(estimate(summary(10, 0, 700), (1e6, 10)), 700, "all pages were read");
        assert_eq!(estimate(summary(0, 10, 0), (800.0, 10)), 800, "none was");
        assert_eq!(estimate(summary(1, 9, 50), (800.0, 10)), 50 + 720);
        assert_eq!(estimate(summary(2, 8, 100), (-1.0, 0)), 500, "nothing was known");
        assert_eq!(estimate(summary(0, 0, 0), (-1.0, 0)), 0);
    }
}
