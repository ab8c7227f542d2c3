//! One vacuum of one table.

use niwaki_heap::FreeingPaused;
use niwaki_nbtree::EntryDecision;
use niwaki_storage::{Tid, Xid};
use niwaki_table::{Error, Result, Table};
use niwaki_txn::SessionControl;

/// How a vacuum is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VacuumOptions {
    /// Versions of inserters at least this many transactions old are frozen; 0 (VACUUM FREEZE): all
    /// that every snapshot sees.
    pub freeze_min_age: u64,
    /// Visit the indexes at all; without it DEAD line pointers stay.
    pub index_cleanup: bool,
    /// Most DEAD line pointers remembered before the indexes are visited; more means another pass
    /// over them. 8 bytes each.
    pub dead_tids_max: usize,
}

impl Default for VacuumOptions {
    fn default() -> Self {
        Self { freeze_min_age: 50_000_000, index_cleanup: true, dead_tids_max: 8 << 20 }
    }
}

/// What a vacuum did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VacuumSummary {
    /// Heap pages read.
    pub pages: u32,
    /// Versions removed.
    pub removed: u64,
    /// Versions frozen.
    pub frozen: u64,
    /// Versions left.
    pub remaining: u64,
    /// Line pointers freed for reuse.
    pub freed: u64,
    /// Entries removed, of all indexes together.
    pub entries_removed: u64,
    /// Times the indexes were visited.
    pub index_passes: u32,
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
    let mut pass = Pass { table, session, summary: VacuumSummary::default(), dead: Vec::new() };
    let transactions = table.engine().transactions();
    let freeze_before = Xid(transactions.next_xid().0.saturating_sub(options.freeze_min_age));
    let heap = table.heap();
    let paused = heap.pause_freeing();
    let mut block = 0;
    // Up to the end that the heap has when the pass gets there.
    while block < table.blocks()? {
        pass.interrupts()?;
        // Anew for each page: reading the slots costs little, and what ended meanwhile counts.
        let horizon = transactions.horizon();
        let found = heap.vacuum_page(block, &horizon, freeze_before, &mut pass.dead)?;
        pass.summary.pages += 1;
        pass.summary.removed += u64::from(found.pruned.removed);
        pass.summary.frozen += u64::from(found.pruned.frozen);
        pass.summary.remaining += u64::from(found.versions);
        if options.index_cleanup && pass.dead.len() >= options.dead_tids_max {
            pass.clean(&paused)?;
        }
        block += 1;
    }
    if options.index_cleanup && !pass.dead.is_empty() {
        pass.clean(&paused)?;
    }
    heap.save_free_space()?;
    Ok(pass.summary)
}

struct Pass<'t> {
    table: &'t Table,
    session: &'t SessionControl,
    summary: VacuumSummary,
    /// DEAD line pointers, ascending.
    dead: Vec<Tid>,
}

impl Pass<'_> {
    fn interrupts(&self) -> Result<()> {
        self.session.check_interrupts().map_err(|why| Error::Transaction(why.into()))
    }

    /// Removes the entries of the dead line pointers from every index, then frees them.
    fn clean(&mut self, paused: &FreeingPaused) -> Result<()> {
        let dead = std::mem::take(&mut self.dead);
        for index in 0..self.table.definition().indexes.len() {
            let mut interrupted = None;
            let visited = self.table.index(index).vacuum(
                // Pruning has logged what these entries led to.
                None,
                &mut |entry| {
                    if dead.binary_search(&entry.tid).is_ok() {
                        EntryDecision::Delete
                    } else {
                        EntryDecision::Keep
                    }
                },
                &mut || match self.session.check_interrupts() {
                    Ok(()) => Ok(()),
                    Err(why) => {
                        interrupted = Some(why);
                        Err(niwaki_storage::Error::Refused("interrupted".to_owned()))
                    }
                },
            );
            if let Some(why) = interrupted {
                return Err(Error::Transaction(why.into()));
            }
            self.summary.entries_removed += visited?.removed;
        }
        self.summary.index_passes += 1;
        let heap = self.table.heap();
        let mut rest = dead.as_slice();
        let mut offsets = Vec::new();
        while let Some(first) = rest.first() {
            self.interrupts()?;
            let count = rest.iter().take_while(|tid| tid.block == first.block).count();
            offsets.clear();
            offsets.extend(rest[..count].iter().map(|tid| tid.offset.0));
            let horizon = self.table.engine().transactions().horizon();
            self.summary.freed +=
                u64::from(heap.free_dead(paused, first.block.0, &offsets, &horizon)?);
            rest = &rest[count..];
        }
        Ok(())
    }
}
