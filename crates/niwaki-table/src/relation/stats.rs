//! Statistics of a table since it was opened.

use std::sync::Arc;

use niwaki_env::sync::Mutex;
use niwaki_env::sync::plain_atomic::{AtomicU64, Ordering};
use niwaki_heap::{ChangeFlag, ChangedTables, HeapCounters, HeapStats};
use niwaki_txn::TableId;

use crate::relation::baseline::TableBaseline;
use crate::relation::learned_fillfactor::LearnedFillfactor;
use crate::relation::update_stats::{UpdateCounters, UpdateStats};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counters of one table since it was opened. They are statistics: exact in sum, but not
        /// read at one moment. Changes of transactions that abort are counted too.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct TableStats {
            $($(#[$doc])* pub $name: u64,)*
            /// Outcomes of updates.
            pub updates: UpdateStats,
            /// Work done on the heap.
            pub heap: HeapStats,
        }

        #[derive(Debug)]
        pub(crate) struct Counters {
            $(pub(crate) $name: AtomicU64,)*
            pub(crate) updates: UpdateCounters,
            pub(crate) learned_fillfactor: LearnedFillfactor,
            pub(crate) heap: Arc<HeapCounters>,
            pub(crate) table_baseline: Mutex<TableBaseline>,
            pub(crate) changes: Arc<ChangeFlag>,
        }

        impl Counters {
            /// Makes the counters of a table. Its changes are reported to `changed`.
            pub(crate) fn new(table: TableId, changed: &Arc<ChangedTables>) -> Self {
                Self {
                    $($name: AtomicU64::default(),)*
                    updates: UpdateCounters::default(),
                    learned_fillfactor: LearnedFillfactor::default(),
                    heap: Arc::default(),
                    table_baseline: Mutex::default(),
                    changes: ChangeFlag::new(table, changed),
                }
            }

            pub(crate) fn read(&self) -> TableStats {
                // Relaxed: nothing else is ordered by a statistic.
                TableStats {
                    $($name: self.$name.load(Ordering::Relaxed),)*
                    updates: self.updates.read(),
                    heap: self.heap.read(),
                }
            }
        }
    };
}

counters! {
    /// Rows inserted.
    inserted,
    /// Rows deleted.
    deleted,
    /// Sequential scans begun.
    seq_scans,
    /// Rows returned by sequential scans.
    seq_rows,
    /// Index scans begun.
    index_scans,
    /// Rows fetched for index scans.
    index_rows,
    /// Entries read from index files of the table that are gone.
    gone_entries_read,
    /// Index entries that the gardener deleted.
    gardener_deleted,
    /// Entries that the gardener had no room to remember. They wait for vacuum.
    suspects_forgotten,
    /// Heap pages that the gardener read to judge entries, counted at each read.
    gardener_heap_pages,
    /// Updates delayed because they split index pages whose room only an old snapshot kept.
    update_delays,
    /// Rounds over the table.
    rounds,
    /// Heap pages that rounds looked at.
    round_pages,
    /// The number of these pages that got a pass.
    round_passes,
}
