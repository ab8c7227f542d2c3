//! The root change counter: counts the versions that came to roots, which shows whether a pass's
//! view of a chain still holds.
//!
//! A pass that removes a version sees, under the page's latch, which of its keys no remaining
//! version has (`observer.rs`). A key comes back to a chain only with a new version. Each new
//! version is counted here, under the same latch, before anything else happens to it. So a thread
//! that finds the pass's count unchanged knows that no version has such a key, without another look
//! at the page (rule `one-hold`).
//!
//! ```text
//! pass, page latched      reads the count, sees the key left behind
//! writer, page latched    counts, puts a version with the key there ── leaf latched: its entry
//! gardener                               leaf latched: another count? then it looks at the page
//! ```
//!
//! A writer that gives the root the key again latches the leaf after it has counted. If the
//! gardener was at the leaf before, the writer inserts the entry anew. If the gardener comes after,
//! it finds another count.
//!
//! Roots share counts, by their TIDs alone, in whatever heap they are. A line pointer that is used
//! again, also in an emptied table, keeps its count. When another root has changed a count, the
//! only loss is a needless look at the page.

use std::num::NonZeroU64;

use niwaki_env::seeded_bug;
use niwaki_env::sync::plain_atomic::{AtomicU64, Ordering};
use niwaki_storage::Tid;

/// Number of counts of a database, 8 bytes each; a power of two.
const COUNTS: usize = 1 << 17;
// The upper bits of a hash choose the count.
const _: () = assert!(COUNTS.is_power_of_two() && COUNTS > 1);
const _: () = assert!(size_of::<Option<RootChangeCount>>() == size_of::<u64>());

/// The number of versions that had come to a root, and to the roots that share its count. Counts
/// are only compared, and never wrap around in the life of a machine. The value is the count plus
/// one, so that an `Option` of it takes no more room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootChangeCount(NonZeroU64);

/// The counts of a database.
#[derive(Debug)]
pub(crate) struct RootChanges(Box<[AtomicU64]>);

impl Default for RootChanges {
    fn default() -> Self {
        Self((0..COUNTS).map(|_| AtomicU64::new(0)).collect())
    }
}

impl RootChanges {
    fn of(&self, root: Tid) -> &AtomicU64 {
        // Neighbours get counts far from each other: multiplication by 2^64 divided by the golden
        // ratio.
        let number = u64::from(root.block.0) << 16 | u64::from(root.offset.0);
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.0[(mixed >> (u64::BITS - COUNTS.trailing_zeros())) as usize]
    }

    /// Counts a version that comes to `root`, whose page is latched for writing.
    ///
    /// Relaxed: a thread that must see the count latches the leaf of the version's entry later than
    /// the writer.
    pub(crate) fn note(&self, root: Tid) {
        if !seeded_bug!("arrivals-counted") {
            self.of(root).fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the count for `root`.
    #[inline]
    pub(crate) fn root_change_count(&self, root: Tid) -> RootChangeCount {
        let count = self.of(root).load(Ordering::Relaxed);
        RootChangeCount(NonZeroU64::MIN.saturating_add(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_page_have_counts_of_their_own() {
        let root_changes = RootChanges::default();
        let roots: Vec<Tid> = (1..60).map(|offset| Tid::new(700, offset)).collect();
        root_changes.note(roots[3]);
        let counts = roots.iter().map(|root| root_changes.of(*root).load(Ordering::Relaxed));
        assert_eq!(counts.sum::<u64>(), 1);
        assert_eq!(root_changes.of(roots[3]).load(Ordering::Relaxed), 1);
    }
}
