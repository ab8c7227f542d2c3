//! Vacuum of one table.
//!
//! ```text
//! scanning heap ──roots fill their memory──> vacuuming indexes ──> vacuuming heap ──┐
//!      ^  └─end─> vacuuming indexes ──> vacuuming heap ──> truncating heap         │
//!      │                                                    ──> final cleanup      │
//!      └───────────────────────────────────────────────────────────────────────────┘
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use niwaki_env::memory;
use niwaki_env::sync::thread;
use niwaki_heap::{FreeingPaused, Heap};
use niwaki_storage::{ReadAhead, Tid, Xid};
use niwaki_table::{Error, PageVisibility, Result, Table, VacuumRoots};
use niwaki_txn::{Horizon, SessionControl};

use crate::cost::CostOptions;
use crate::delay::DelayPoints;
use crate::progress::{VacuumPhase, VacuumProgress};
use crate::skip::BlocksToRead;
use crate::truncate::{LockedTable, truncate};

/// The part of the heap's pages, in percent, from which on their roots are worth a visit of the
/// indexes.
const BYPASS_PERCENT: u64 = 2;
/// The bytes of roots from which on the indexes are visited, whatever the part: larger sets are not
/// carried from vacuum to vacuum.
const BYPASS_BYTES_MAX: usize = 32 << 20;

const _: () = assert!(BYPASS_PERCENT < 100, "the indexes would never be visited");

/// Stack of a thread that visits an index, in bytes: the system's default.
const STACK_BYTES: usize = 2 << 20;

/// The policy for visiting the indexes (`INDEX_CLEANUP`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexCleanup {
    /// Visits the indexes if enough pages have roots with removable entries. Otherwise these roots
    /// wait for another vacuum. That vacuum finds them again: their pages are not all-visible.
    Auto,
    /// Visits the indexes if any page has such roots.
    On,
    /// Never visits the indexes: DEAD line pointers stay, and so do old entries of mixed roots.
    Off,
}

/// Options of a vacuum.
#[derive(Clone, Debug)]
pub struct VacuumOptions {
    /// The age of inserters, in transactions, from which on their versions are frozen. 0 (VACUUM
    /// FREEZE) freezes all versions that every snapshot sees.
    pub freeze_min_age: u64,
    /// True to leave out pages on which, by the visibility map, vacuum has nothing to do.
    pub skip_pages: bool,
    /// The policy for visiting the indexes.
    pub index_cleanup: IndexCleanup,
    /// The most bytes of roots remembered before the indexes are visited (`maintenance_work_mem`).
    /// More roots mean another pass over the indexes.
    pub memory_bytes: usize,
    /// The number of indexes visited at the same time besides the first (`PARALLEL`).
    pub index_workers: usize,
    /// True to vacuum the heap of large values, too (`PROCESS_TOAST`).
    pub large_values: bool,
    /// True to give back the empty end of a heap (`TRUNCATE`).
    pub truncate: bool,
    /// The pause before another try to cut the heap's end, when other sessions use the table.
    pub truncate_pause: Duration,
    /// The read-ahead in the heap and in indexes.
    pub read_ahead: ReadAhead,
    /// The cost settings that decide about delays.
    pub cost: CostOptions,
    /// Counters that receive the progress of the vacuum.
    pub progress: Arc<VacuumProgress>,
}

impl Default for VacuumOptions {
    fn default() -> Self {
        Self {
            freeze_min_age: 50_000_000,
            skip_pages: true,
            index_cleanup: IndexCleanup::On,
            memory_bytes: 64 << 20,
            index_workers: 0,
            large_values: true,
            truncate: true,
            truncate_pause: Duration::from_millis(20),
            read_ahead: ReadAhead::default(),
            cost: CostOptions::default(),
            progress: Arc::default(),
        }
    }
}

impl VacuumOptions {
    /// Returns the visibility from which on this vacuum has nothing to do on a page.
    fn skips(&self) -> Option<PageVisibility> {
        self.skip_pages.then_some(match self.freeze_min_age {
            0 => PageVisibility::AllFrozen,
            _ => PageVisibility::AllVisible,
        })
    }
}

/// The result of a vacuum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VacuumSummary {
    /// Heap pages read.
    pub pages: u32,
    /// Heap pages left out because of the visibility map.
    pub skipped: u32,
    /// Versions removed.
    pub removed: u64,
    /// Versions frozen.
    pub frozen: u64,
    /// Versions left on the pages read.
    pub remaining: u64,
    /// The part of the remaining versions that have ended and stay for open snapshots.
    pub held: u64,
    /// Line pointers freed for reuse.
    pub freed: u64,
    /// Mixed roots (with index entries of several keys) that have only entries of their own key
    /// now.
    pub cleared: u64,
    /// Entries removed, of all indexes together.
    pub entries_removed: u64,
    /// Times the indexes were visited.
    pub index_passes: u32,
    /// Roots whose index entries were left for another vacuum, because the roots lie on too few
    /// pages.
    pub bypassed: u64,
    /// Pages of the heap and of the indexes that were read from their files.
    pub reads: u64,
    /// Pages read of the heap of large values.
    pub value_pages: u32,
    /// Pieces of large values removed there.
    pub pieces_removed: u64,
    /// Pages at the end of the heap that were given back.
    pub cut: u32,
    /// Pages at the end of the heap of large values that were given back.
    pub values_cut: u32,
}

impl VacuumSummary {
    /// Asserts what holds between two pages, and at the end.
    fn assert_state(&self) {
        debug_assert!(self.held <= self.remaining, "{} of {} stay", self.held, self.remaining);
        debug_assert!(
            self.bypassed == 0 || self.index_passes == 0,
            "{} roots were left although the indexes were visited",
            self.bypassed
        );
    }

    /// Estimates the number of rows of the table. `known` is an earlier number of rows, with the
    /// number of pages that held them. Pages that were left out count as holding what pages held
    /// then.
    pub fn estimate_rows(&self, known: (f64, u32)) -> f64 {
        let read = self.remaining.saturating_sub(self.held) as f64;
        let skipped = f64::from(self.skipped);
        match (self.pages, known) {
            (_, (rows, pages)) if pages > 0 => read + rows / f64::from(pages) * skipped,
            (0, _) => 0.0,
            // Without a known number, the left-out pages count like the read ones.
            (pages, _) => read + read / f64::from(pages) * skipped,
        }
    }
}

/// Vacuums a table. The caller holds the table in SHARE UPDATE EXCLUSIVE mode or stronger. This
/// excludes other cleaners and index builds (rules `one-cleaner` and `index-build`). `locked` names
/// that lock. Without it, the heap's empty end is not given back.
///
/// # Errors
/// Storage's; the session's interrupts, between pages. Completed work stays.
pub fn vacuum(
    table: &Table,
    session: &SessionControl,
    locked: Option<LockedTable<'_>>,
    options: &VacuumOptions,
) -> Result<VacuumSummary> {
    if let Some(locked) = &locked {
        locked.assert_held();
    }
    let next = table.engine().transactions().next_xid().0;
    let mut pass = Pass {
        table,
        locked: locked.filter(|_| options.truncate),
        options,
        freeze_before: Xid(next.saturating_sub(options.freeze_min_age)),
        first_horizon: table.engine().transactions().horizon(),
        delays: DelayPoints::new(session, options.cost),
        summary: VacuumSummary::default(),
        roots: VacuumRoots::default(),
    };
    let progress = &options.progress;
    progress.blocks_total(table.blocks()?);
    progress.roots_bytes_max(options.memory_bytes);
    progress.indexes_total(ready_indexes(table).len());
    let paused = table.heap().pause_freeing();
    pass.scan(&paused)?;
    pass.finish_roots(&paused)?;
    let begun = &mut || progress.begin(VacuumPhase::TruncatingHeap);
    pass.summary.cut = pass.cut_tail(&table.heap(), begun)?;
    progress.begin(VacuumPhase::FinalCleanup);
    table.heap().save_free_space()?;
    if let Some(values) = table.value_heap().filter(|_| options.large_values) {
        pass.vacuum_values(&values)?;
        pass.summary.values_cut = pass.cut_tail(&values, &mut || {})?;
        values.save_free_space()?;
    }
    pass.summary.assert_state();
    Ok(VacuumSummary { reads: pass.delays.reads(), ..pass.summary })
}

struct Pass<'t> {
    table: &'t Table,
    /// The lock with which the heap's end may be cut.
    locked: Option<LockedTable<'t>>,
    options: &'t VacuumOptions,
    freeze_before: Xid,
    /// The horizon at the beginning of the vacuum.
    first_horizon: Horizon,
    delays: DelayPoints<'t>,
    summary: VacuumSummary,
    /// The roots whose entries the next visit of the indexes removes.
    roots: VacuumRoots,
}

impl Pass<'_> {
    /// Prunes the heap's pages, except those that the map leaves out. Ends at the heap's current
    /// end.
    fn scan(&mut self, paused: &FreeingPaused) -> Result<()> {
        let (table, heap) = (self.table, self.table.heap());
        let pool = table.engine().storage().pool();
        heap.open_visibility_map()?;
        self.options.progress.begin(VacuumPhase::ScanningHeap);
        let mut blocks = BlocksToRead::new(self.options.skips());
        let mut stream = heap.read_stream(self.options.read_ahead);
        while let Some(block) = stream.next(pool, &mut || {
            Ok::<_, Error>(blocks.next(table.blocks()?, |block| heap.page_visibility(block)))
        })? {
            // Read anew for each page: this costs little, and covers snapshots that ended
            // meanwhile.
            let horizon = table.engine().transactions().horizon();
            let report = self.may_leave_roots()?;
            let (before, roots) = (self.freeze_before, &mut self.roots);
            let found = heap.vacuum_page(block, &horizon, before, report, roots)?;
            let summary = &mut self.summary;
            summary.pages += 1;
            summary.removed += u64::from(found.pruned.removed);
            summary.frozen += u64::from(found.pruned.frozen);
            summary.remaining += u64::from(found.pruned.remaining);
            summary.held += u64::from(found.pruned.retained);
            summary.assert_state();
            self.options.progress.blocks_scanned(block);
            self.report_roots();
            self.delays
                .delay_point(stream.take_reads(), found.pruned.removed + found.pruned.frozen > 0)?;
            let full = self.roots.memory_bytes() >= self.options.memory_bytes;
            if full && self.options.index_cleanup != IndexCleanup::Off {
                self.clean(paused)?;
                self.options.progress.begin(VacuumPhase::ScanningHeap);
            }
        }
        self.summary.skipped = blocks.skipped();
        self.options.progress.blocks_scanned(table.blocks()?);
        Ok(())
    }

    fn report_roots(&self) {
        self.options.progress.roots_bytes(self.roots.memory_bytes());
        self.options.progress.roots(self.roots.len());
    }

    /// Handles the roots that are left at the end of the heap.
    fn finish_roots(&mut self, paused: &FreeingPaused) -> Result<()> {
        if self.roots.is_empty() {
            return Ok(());
        }
        match self.options.index_cleanup {
            IndexCleanup::Off => {}
            IndexCleanup::Auto if self.bypasses(0)? => self.summary.bypassed = self.roots.len(),
            IndexCleanup::Auto | IndexCleanup::On => self.clean(paused)?,
        }
        Ok(())
    }

    /// Returns true when the roots found so far may be left to the gardener. Pages then report the
    /// versions that they remove.
    fn may_leave_roots(&self) -> Result<bool> {
        match self.options.index_cleanup {
            IndexCleanup::On => Ok(false),
            IndexCleanup::Off => Ok(true),
            // The next page may have such roots.
            IndexCleanup::Auto => self.bypasses(1),
        }
    }

    /// Returns true when the indexes are not worth a visit, because few pages have roots. `more`
    /// pages with roots are added to the count.
    fn bypasses(&self, more: u64) -> Result<bool> {
        let pages = self.roots.block_count() + more;
        let few = pages * 100 < u64::from(self.table.blocks()?) * BYPASS_PERCENT;
        let indexed = !self.table.definition().indexes.is_empty();
        let small = self.roots.memory_bytes() < BYPASS_BYTES_MAX;
        Ok(few && indexed && small && self.summary.index_passes == 0)
    }

    /// Prunes the heap of the table's large values. It removes chunks of versions that went, and of
    /// aborted transactions. No index names its rows, but keys may be made of them.
    ///
    /// The gardener may still read the keys of versions whose entries no pass visits. These are
    /// versions that this vacuum leaves, and versions removed meanwhile by others. So chunks ended
    /// since the vacuum began stay for the next vacuum, or for the gardener.
    fn vacuum_values(&mut self, values: &Heap<'_>) -> Result<()> {
        let mut none = VacuumRoots::default();
        let left = self.summary.bypassed > 0 || self.options.index_cleanup == IndexCleanup::Off;
        values.open_visibility_map()?;
        let pool = self.table.engine().storage().pool();
        let mut blocks = BlocksToRead::new(self.options.skips());
        let mut stream = values.read_stream(self.options.read_ahead);
        while let Some(block) = stream.next(pool, &mut || {
            Ok::<_, Error>(blocks.next(values.blocks()?, |at| values.page_visibility(at)))
        })? {
            let (horizon, before) = (&self.first_horizon, self.freeze_before);
            let found = values.vacuum_page(block, horizon, before, left, &mut none)?;
            self.summary.value_pages += 1;
            self.summary.pieces_removed += u64::from(found.pruned.removed);
            self.delays
                .delay_point(stream.take_reads(), found.pruned.removed + found.pruned.frozen > 0)?;
        }
        Ok(())
    }

    /// Gives back the empty pages at the end of a heap of the table, and returns their number.
    /// `begun` is called if such pages exist.
    fn cut_tail(&self, heap: &Heap<'_>, begun: &mut dyn FnMut()) -> Result<u32> {
        let Some(locked) = self.locked else { return Ok(0) };
        let pause = &mut |nap| self.delays.delay_point_and_nap(nap);
        truncate(heap, &locked, self.options.truncate_pause, begun, pause)
    }

    /// Visits all entries of the found roots in every index. Removes entries of DEAD line pointers,
    /// and entries whose keys no version has. Then frees the line pointers, and clears `mixed`
    /// where one version is left (rules `complete-record` and `mixed-flag`).
    fn clean(&mut self, paused: &FreeingPaused) -> Result<()> {
        let roots = std::mem::take(&mut self.roots);
        debug_assert_ne!(self.options.index_cleanup, IndexCleanup::Off, "indexes are visited");
        let (heap, progress) = (self.table.heap(), Arc::clone(&self.options.progress));
        // Set before the first visit of an index: a writer that changes a key meanwhile sets *yes*
        // again.
        let mut cleaning = Vec::new();
        for (block, offsets) in roots.mixed.blocks() {
            let found = heap.begin_cleaning(block, &offsets)?;
            cleaning.extend(found.into_iter().map(|offset| Tid::new(block, offset)));
        }
        debug_assert!(
            cleaning.iter().all(|root| roots.mixed.contains(*root)),
            "a root is cleaned that was not remembered as mixed"
        );
        progress.begin(VacuumPhase::VacuumingIndexes);
        let unclean = self.clean_indexes(&roots)?;
        self.summary.index_passes += 1;
        progress.index_passes(self.summary.index_passes);
        progress.begin(VacuumPhase::VacuumingHeap);
        self.free_dead(&heap, &roots, paused)?;
        cleaning.retain(|root| !unclean.contains(root));
        for (block, offsets) in by_block(&cleaning) {
            self.summary.cleared += heap.clear_mixed(block, &offsets)?.len() as u64;
            self.delays.delay_point(0, true)?;
        }
        self.report_roots();
        Ok(())
    }

    /// Visits the indexes, several of them at the same time. Returns the mixed roots that must stay
    /// mixed.
    fn clean_indexes(&mut self, roots: &VacuumRoots) -> Result<BTreeSet<Tid>> {
        let (table, delays, read_ahead) = (self.table, &self.delays, self.options.read_ahead);
        let visit = |index| {
            let mut unclean = BTreeSet::new();
            let rest = &mut |reads, changed| delays.delay_point(reads, changed);
            let done = table.vacuum_index(index, roots, &mut unclean, read_ahead, rest)?;
            Ok::<_, Error>((done.removed, unclean))
        };
        let indexes = ready_indexes(table);
        let count = indexes.len();
        let mut unclean = BTreeSet::new();
        let mut begin = 0;
        while begin < count {
            let end = count.min(begin + 1 + self.options.index_workers);
            let visited = thread::scope(|scope| {
                let visit = &visit;
                let others = indexes[begin + 1..end].iter().map(|&index| {
                    let body = move || (visit(index), memory::leave());
                    let start = || thread::spawn_scoped(scope, "vacuum", STACK_BYTES, body);
                    memory::apart(start).map_err(|_| index)
                });
                let others: Vec<_> = others.collect();
                let mut visited = vec![visit(indexes[begin])];
                visited.extend(others.into_iter().map(|other| match other {
                    Ok(helper) => {
                        let joined = memory::apart(|| helper.join());
                        let (done, left) =
                            joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                        memory::join(left);
                        done
                    }
                    // The system has no further thread.
                    Err(index) => visit(index),
                }));
                visited
            });
            debug_assert_eq!(visited.len(), end - begin, "an index was not visited");
            for done in visited {
                let (removed, left) = done?;
                debug_assert!(
                    left.iter().all(|root| roots.mixed.contains(*root)),
                    "a root stays mixed that was not remembered"
                );
                self.summary.entries_removed += removed;
                unclean.extend(left);
            }
            begin = end;
            self.options.progress.indexes_processed(end);
        }
        Ok(unclean)
    }

    /// Frees the DEAD line pointers, whose entries are gone.
    fn free_dead(
        &mut self,
        heap: &Heap<'_>,
        roots: &VacuumRoots,
        paused: &FreeingPaused,
    ) -> Result<()> {
        let numbers = roots.dead.blocks().map(|(block, _)| block);
        let mut ahead = heap.ahead(numbers, self.options.read_ahead);
        let mut blocks = roots.dead.blocks();
        while let (Some(read), Some((block, offsets))) = (ahead.next(), blocks.next()) {
            debug_assert_eq!(read, block, "another block is read ahead than freed");
            debug_assert!(!offsets.is_empty(), "no root of block {block} is remembered");
            let horizon = self.table.engine().transactions().horizon();
            let freed = heap.free_dead(paused, block, &offsets, &horizon)?;
            self.summary.freed += u64::from(freed);
            self.options.progress.blocks_vacuumed(block + 1);
            self.delays.delay_point(ahead.take_reads(), freed > 0)?;
        }
        Ok(())
    }
}

/// Returns the numbers of the indexes that take entries. The contents of the others are not read,
/// and a build gives them another file.
fn ready_indexes(table: &Table) -> Vec<usize> {
    let indexes = table.definition().indexes.iter().enumerate();
    indexes.filter(|(_, index)| index.ready).map(|(number, _)| number).collect()
}

/// Groups roots, given ascending, by their blocks.
fn by_block(roots: &[Tid]) -> impl Iterator<Item = (u32, Vec<u16>)> {
    debug_assert!(roots.is_sorted_by(|a, b| a < b), "a block would be visited twice");
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
