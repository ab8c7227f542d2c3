//! Counters of the work on one heap, which outlive its files.
//!
//! Each pass counts once, under the latch that it holds anyway. An update counts here only when it
//! makes a root mixed, which takes the lock of that root's record too.

use niwaki_env::sync::plain_atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counters of one heap since it was opened. They are statistics: exact in sum, but not all
        /// read at the same moment.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct HeapStats { $($(#[$doc])* pub $name: u64,)* }

        /// Counters shared by all users of the heap, and by its next files (TRUNCATE).
        #[derive(Debug, Default)]
        pub struct HeapCounters { $(pub(crate) $name: AtomicU64,)* }

        impl HeapCounters {
            /// Returns the current values.
            pub fn read(&self) -> HeapStats {
                // Relaxed: a statistic orders nothing else.
                HeapStats { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counters! {
    /// Versions removed that had ended before every open snapshot.
    pruned_by_horizon,
    /// Versions removed although a snapshot older than their end was open: no snapshot was in their
    /// lifetime.
    pruned_by_interval,
    /// Versions removed whose inserter aborted.
    pruned_aborted,
    /// Passes made because a page ran short of room, that freed nothing.
    fruitless,
    /// Roots that became mixed.
    mixed,
    /// Mixed roots cleared by a pass over their page: no entries with other keys were left.
    settled,
    /// Mixed roots cleared by vacuum.
    cleaned,
    /// DEAD line pointers freed by passes other than vacuum's.
    freed,
    /// Removed versions that may have left index entries behind. The observer or the gardener got
    /// them, if there was room.
    reported,
    /// Removed versions for which the gardener had no room, and roots that were forgotten because
    /// the indexes changed. Both wait for vacuum.
    forgotten,
}

/// Counts of what one pass did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Versions removed.
    pub removed: u32,
    /// Removed versions that ended after the oldest open snapshot. No snapshot lies in their
    /// lifetime.
    pub by_interval: u32,
    /// Removed versions whose inserter aborted.
    pub aborted: u32,
    /// Versions frozen.
    pub frozen: u32,
    /// Versions that took over the end of removed versions behind them.
    pub relinked: u32,
    /// Line pointers freed.
    pub freed: u32,
    /// Chains without a remaining version: chains of deleted rows, and of rows that now live on
    /// other pages.
    pub chains: u32,
    /// Versions that have ended, and stay because open snapshots see them.
    pub retained: u32,
    /// Versions that stay, without stubs.
    pub remaining: u32,
}

impl HeapCounters {
    /// Counts the versions that a pass removed.
    pub(crate) fn count_pass(&self, pruned: &Pruned) {
        let Pruned { removed, by_interval, aborted, .. } = *pruned;
        debug_assert!(by_interval <= removed - aborted, "{pruned:?}: each version counts once");
        count(&self.pruned_by_horizon, (removed - by_interval - aborted) as usize);
        count(&self.pruned_by_interval, by_interval as usize);
        count(&self.pruned_aborted, aborted as usize);
    }
}

/// Adds to a counter, if there is anything to add.
#[inline]
pub(crate) fn count(counter: &AtomicU64, by: usize) {
    if by > 0 {
        // Relaxed: a statistic orders nothing else.
        counter.fetch_add(by as u64, Ordering::Relaxed);
    }
}
