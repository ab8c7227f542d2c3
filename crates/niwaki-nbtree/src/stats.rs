//! What one index has done since it was opened.

use niwaki_env::sync::plain_atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counters of one index since it was opened. They are statistics: not read at one moment,
        /// and those of scans may lose increments under contention.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct IndexStats { $($(#[$doc])* pub $name: u64,)* }

        #[derive(Debug, Default)]
        pub(crate) struct Counters { $(pub(crate) $name: AtomicU64,)* }

        impl Counters {
            pub(crate) fn read(&self) -> IndexStats {
                // Relaxed: nothing else is ordered by a statistic.
                IndexStats { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counters! {
    /// Entries inserted.
    inserts,
    /// Insertions of an entry that was there already.
    suppressed_duplicates,
    /// Insertions that went to the cached rightmost leaf without a descent.
    fast_path_inserts,
    /// Leaf pages split.
    leaf_splits,
    /// Inner pages split.
    inner_splits,
    /// Incomplete splits found and finished.
    finished_splits,
    /// Passes of simple deletion over a full leaf.
    simple_deletions,
    /// Entries that simple deletion removed, marked or not.
    simple_deleted_entries,
    /// Entries removed by retail deletion.
    retail_deleted_entries,
    /// Entries removed by vacuum.
    vacuumed_entries,
    /// Entries marked LP_DEAD.
    marked_dead,
    /// Scans started.
    scans,
    /// Leaf pages visited by scans.
    leaf_visits,
    /// Entries returned by scans.
    entries_read,
}

/// Adds to a counter of the read path, where a locked instruction would be felt: increments that
/// several threads make at the same moment may be lost.
#[inline]
pub(crate) fn count_roughly(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}

/// Adds to a counter.
#[inline]
pub(crate) fn count(counter: &AtomicU64, by: u64) {
    // Relaxed: nothing else is ordered by a statistic.
    counter.fetch_add(by, Ordering::Relaxed);
}
