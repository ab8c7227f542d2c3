//! What was done to one heap: counters that outlive its files.
//!
//! Passes count once each, whatever they did, under the latch that they hold anyway. An update counts here only when it
//! makes a root mixed, which takes that root's record too.

use niwaki_env::sync::plain_atomic::{AtomicU64, Ordering};

use crate::prune::Pruned;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counters of one heap since it was opened. They are statistics: exact in sum, but not read at one
        /// moment.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct HeapStats { $($(#[$doc])* pub $name: u64,)* }

        /// Counts; shared by all who know the heap, and by its next files (TRUNCATE).
        #[derive(Debug, Default)]
        pub struct HeapCounters { $(pub(crate) $name: AtomicU64,)* }

        impl HeapCounters {
            /// What was counted so far.
            pub fn read(&self) -> HeapStats {
                // Relaxed: nothing else is ordered by a statistic.
                HeapStats { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counters! {
    /// Versions removed that had ended before every open snapshot.
    pruned_by_horizon,
    /// Versions removed although a snapshot older than their end was open: none was in their lifetime.
    pruned_by_interval,
    /// Versions removed whose inserter aborted.
    pruned_aborted,
    /// Roots that became mixed.
    mixed,
    /// Mixed roots cleared by a pass over their page: nothing of other keys was left.
    settled,
    /// Mixed roots cleared by vacuum.
    cleaned,
    /// DEAD line pointers freed by passes other than vacuum's.
    freed,
    /// Removed versions that may have left index entries behind: the gardener was told of them, if its queue had room.
    told,
    /// Of those, how many it had no room for, and roots that a change of the indexes made forgotten:
    /// they wait for vacuum.
    forgotten,
}

impl HeapCounters {
    /// Counts what a pass removed.
    pub(crate) fn count_pass(&self, pruned: &Pruned) {
        let Pruned { removed, by_interval, aborted, .. } = *pruned;
        count(&self.pruned_by_horizon, (removed - by_interval - aborted) as usize);
        count(&self.pruned_by_interval, by_interval as usize);
        count(&self.pruned_aborted, aborted as usize);
    }
}

/// Adds to a counter, if there is anything to add.
#[inline]
pub(crate) fn count(counter: &AtomicU64, by: usize) {
    if by > 0 {
        // Relaxed: nothing else is ordered by a statistic.
        counter.fetch_add(by as u64, Ordering::Relaxed);
    }
}
