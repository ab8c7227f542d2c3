//! What happened to a table since it was opened.

use niwaki_env::sync::plain_atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counters of one table since it was opened. They are statistics: exact in sum, but not
        /// read at one moment, and changes of transactions that abort are counted too.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct TableStats { $($(#[$doc])* pub $name: u64,)* }

        #[derive(Debug, Default)]
        pub(crate) struct Counters { $(pub(crate) $name: AtomicU64,)* }

        impl Counters {
            pub(crate) fn read(&self) -> TableStats {
                // Relaxed: nothing else is ordered by a statistic.
                TableStats { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counters! {
    /// Rows inserted.
    inserted,
    /// Rows updated.
    updated,
    /// Of those, heap-only updates.
    hot_updated,
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
}

/// Adds to a counter.
#[inline]
pub(crate) fn count(counter: &AtomicU64, by: u64) {
    // Relaxed: nothing else is ordered by a statistic.
    counter.fetch_add(by, Ordering::Relaxed);
}
