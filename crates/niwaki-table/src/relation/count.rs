//! Additions to the counters of statistics.

use niwaki_env::sync::plain_atomic::{AtomicU64, Ordering};

/// Adds to a counter, unless `by` is 0: an atomic addition has a noticeable cost.
#[inline]
pub(crate) fn count(counter: &AtomicU64, by: u64) {
    if by > 0 {
        // Relaxed: nothing else is ordered by a statistic.
        counter.fetch_add(by, Ordering::Relaxed);
    }
}
