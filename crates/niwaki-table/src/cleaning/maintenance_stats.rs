//! Maintenance statistics: changes of a table since its last VACUUM and ANALYZE.
//!
//! ```text
//!  counters     ──────┬──────────────────────┬──────────────► only ever grow
//!                  VACUUM                  now
//!                     └─ remembered ──────►  the difference
//! ```
//!
//! This adds no counting: VACUUM and ANALYZE remember the values of the running counters. Counters
//! are in memory. After a start the counters and the remembered values begin at zero.
//! [`MaintenanceStats::vacuumed`] and [`MaintenanceStats::analyzed`] say whether the numbers go
//! back to a VACUUM or an ANALYZE.

use niwaki_storage::RelFileId;
use niwaki_txn::{RegisteredSnapshots, TableId};

use crate::relation::baseline::{HeapBaseline, TableBaseline, Visits};
use crate::relation::engine::Engine;
use crate::relation::stats::TableStats;
use crate::relation::table::Table;

/// Maintenance of a table, and changes since then. The numbers are estimates: changes of aborted
/// transactions count like committed ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MaintenanceStats {
    /// Runs by the statement VACUUM.
    pub vacuum: Visits,
    /// Vacuum runs by autovacuum.
    pub autovacuum: Visits,
    /// Runs by the statement ANALYZE.
    pub analyze: Visits,
    /// Analyze runs by autovacuum.
    pub autoanalyze: Visits,
    /// True when the table was vacuumed since the database was opened.
    pub vacuumed: bool,
    /// True when the table was analyzed since the database was opened.
    pub analyzed: bool,
    /// Ended versions that were not removed, and removed versions whose index entries only vacuum
    /// will find.
    pub dead: u64,
    /// Rows inserted since the last VACUUM.
    pub inserted: u64,
    /// Rows inserted, updated and deleted since the last ANALYZE.
    pub modified: u64,
    /// Rows inserted less rows deleted since the catalog last got the number of rows.
    pub rows_more: i64,
}

/// Returns the number of versions and entries that wait for removal, by the counters.
///
/// Each update and each deletion ends a version, or leaves one that an abort made. Each pass counts
/// its removals. Entries that the gardener had no room for, or forgot when the indexes changed,
/// wait for vacuum, too.
fn garbage(stats: &TableStats) -> i64 {
    let heap = &stats.heap;
    let left = stats.updates.total() + stats.deleted + heap.forgotten + stats.suspects_forgotten;
    let removed = heap.pruned_by_horizon + heap.pruned_by_interval + heap.pruned_aborted;
    left.cast_signed() - removed.cast_signed()
}

fn rows(stats: &TableStats) -> i64 {
    stats.inserted.cast_signed() - stats.deleted.cast_signed()
}

fn modified(stats: &TableStats) -> u64 {
    stats.inserted + stats.updates.total() + stats.deleted
}

impl Table {
    /// Returns the maintenance of the table, and the changes since then.
    pub fn maintenance_stats(&self) -> MaintenanceStats {
        let stats = self.stats();
        let table_baseline = self.counters.table_baseline.lock();
        let heap = table_baseline.heap(self.definition.file.id);
        let dead = garbage(&stats) - heap.garbage + heap.held.cast_signed();
        let TableBaseline { vacuum, autovacuum, analyze, autoanalyze, .. } = *table_baseline;
        for runs in [vacuum, autovacuum, analyze, autoanalyze] {
            debug_assert_eq!(runs.last_us.is_some(), runs.count > 0, "the time of the last run");
        }
        MaintenanceStats {
            vacuum,
            autovacuum,
            analyze,
            autoanalyze,
            vacuumed: vacuum.count + autovacuum.count > 0,
            analyzed: analyze.count + autoanalyze.count > 0,
            dead: u64::try_from(dead).unwrap_or(0),
            inserted: stats.inserted.saturating_sub(heap.inserted),
            modified: modified(&stats).saturating_sub(table_baseline.modified),
            rows_more: rows(&stats) - heap.rows,
        }
    }

    /// Notes that VACUUM has passed over the heap and left `held` versions to open snapshots.
    /// VACUUM also gives the number of rows to the catalog.
    pub fn note_vacuum(&self, automatic: bool, held: u64) {
        let now_us = self.engine.storage().env().clock.now_unix_us();
        let stats = self.stats();
        let mut table_baseline = self.counters.table_baseline.lock();
        if automatic {
            table_baseline.autovacuum.add(now_us);
        } else {
            table_baseline.vacuum.add(now_us);
        }
        let baseline = HeapBaseline {
            garbage: garbage(&stats),
            held,
            inserted: stats.inserted,
            rows: rows(&stats),
        };
        table_baseline.set_heap(self.definition.file.id, baseline);
    }

    /// Notes that ANALYZE has read its sample; `before` holds the counters at the start of the
    /// sample. ANALYZE also gives the number of rows to the catalog.
    pub fn note_analyze(&self, automatic: bool, before: &TableStats) {
        let now_us = self.engine.storage().env().clock.now_unix_us();
        let file = self.definition.file.id;
        debug_assert!(modified(before) <= modified(&self.stats()), "a counter fell: {before:?}");
        let mut table_baseline = self.counters.table_baseline.lock();
        if automatic {
            table_baseline.autoanalyze.add(now_us);
        } else {
            table_baseline.analyze.add(now_us);
        }
        table_baseline.modified = modified(before);
        let baseline = HeapBaseline { rows: rows(before), ..table_baseline.heap(file) };
        table_baseline.set_heap(file, baseline);
    }

    /// Returns the ended versions that one of these snapshots keeps, as far as passes have met
    /// them. Reads no page.
    pub fn noted_retention(&self, holders: &RegisteredSnapshots) -> niwaki_heap::Retained {
        self.heap().noted_retention(holders)
    }

    /// Returns true when the table was used since the database was opened.
    pub fn is_used(&self) -> bool {
        let stats = self.stats();
        self.heap().knows_visibility() || modified(&stats) + stats.seq_scans + stats.index_scans > 0
    }

    /// Returns the number of pages that the visibility map does not call all-visible. Returns
    /// `None` without a map, which small tables do not have.
    ///
    /// # Errors
    /// Storage's.
    pub fn hidden_pages(&self) -> crate::Result<Option<u32>> {
        let heap = self.heap();
        if !heap.has_visibility_map()? {
            return Ok(None);
        }
        Ok(Some(heap.blocks()?.saturating_sub(heap.all_visible_pages()?)))
    }
}

impl Engine {
    /// Notes that a table has a new, empty heap in this file (TRUNCATE).
    pub fn note_emptied(&self, table: TableId, file: RelFileId) {
        let counters = self.counters(table);
        let stats = counters.read();
        let baseline = HeapBaseline {
            garbage: garbage(&stats),
            held: 0,
            inserted: stats.inserted,
            rows: rows(&stats),
        };
        counters.table_baseline.lock().set_heap(file, baseline);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_what_ended_less_what_was_removed() {
        let mut stats = TableStats { deleted: 5, ..TableStats::default() };
        stats.updates.heap_only[0] = 10;
        stats.updates.no_room = 1;
        assert_eq!(garbage(&stats), 16);
        stats.heap.pruned_by_horizon = 7;
        stats.heap.pruned_by_interval = 2;
        stats.heap.pruned_aborted = 1;
        assert_eq!(garbage(&stats), 6);
        stats.heap.forgotten = 3;
        stats.suspects_forgotten = 1;
        assert_eq!(garbage(&stats), 10);
    }
}
