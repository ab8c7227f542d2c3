//! How many versions came to roots: whether what a pass saw of a chain still holds.
//!
//! A pass that removes a version sees, under the page's latch, which of its keys no version has that stays (`observer.rs`).
//! A key comes back to a chain with a new version only, and that is counted here, under the same latch, before anything
//! else is done about it. So who finds the count that the pass found knows that no version has such a key, without
//! another look at the page (rule 9b.10).
//!
//! ```text
//! pass, page latched      reads the count, sees the key left behind
//! writer, page latched    counts, puts a version with the key there ── leaf latched: its entry
//! gardener                                                             leaf latched: another count? looks at the page
//! ```
//!
//! Whoever gives the root the key again comes to the leaf after it has counted. Where the gardener was there
//! before, the entry is inserted anew; where it comes after, it finds the other count.
//!
//! Roots share counts, by their TIDs alone, whatever heap they are in: a line pointer that is used again, of an emptied
//! table too, has the count that it had. Who finds a count changed by another root looks in vain, no more.

use std::num::NonZeroU64;

use niwaki_env::seeded_bug;
use niwaki_env::sync::plain_atomic::{AtomicU64, Ordering};
use niwaki_storage::{BlockNumber, Tid};

use crate::relation::Heap;

/// Counts of a database, 8 bytes each; a power of two.
const COUNTS: usize = 1 << 17;

/// How many versions had come to a root, and to those that share its count. Counts are compared, no more; they
/// never come round in the life of a machine. One more than the count, so that "none" takes no room beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived(NonZeroU64);

/// The counts.
#[derive(Debug)]
pub(crate) struct Arrivals(Box<[AtomicU64]>);

impl Default for Arrivals {
    fn default() -> Self {
        Self((0..COUNTS).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Arrivals {
    fn of(&self, root: Tid) -> &AtomicU64 {
        // Neighbours have counts far from each other: multiplication by 2^64 divided by the golden ratio.
        let number = u64::from(root.block.0) << 16 | u64::from(root.offset.0);
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.0[(mixed >> (u64::BITS - COUNTS.trailing_zeros())) as usize]
    }

    /// A version comes to `root`, whose page is latched for writing.
    ///
    /// Relaxed: who must see it latches the leaf of the version's entry later than the writer.
    pub(crate) fn note(&self, root: Tid) {
        if !seeded_bug!("arrivals-counted") {
            self.of(root).fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Heap<'_> {
    /// A version comes to the root at `offset` of `block`, which is latched for writing.
    #[inline]
    pub(crate) fn note_arrival(&self, block: BlockNumber, offset: u16) {
        let root = Tid { block, offset: niwaki_storage::OffsetNumber(offset) };
        self.relation.shared.arrivals.note(root);
    }

    /// How many versions came to `root`: what was seen of its chain under its page's latch, with this count, holds under
    /// the latch of any leaf as long as the count is the same.
    #[inline]
    pub fn arrived(&self, root: Tid) -> Arrived {
        let count = self.relation.shared.arrivals.of(root).load(Ordering::Relaxed);
        Arrived(NonZeroU64::MIN.saturating_add(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_page_have_counts_of_their_own() {
        let arrivals = Arrivals::default();
        let roots: Vec<Tid> = (1..60).map(|offset| Tid::new(700, offset)).collect();
        arrivals.note(roots[3]);
        let counts = roots.iter().map(|root| arrivals.of(*root).load(Ordering::Relaxed));
        assert_eq!(counts.sum::<u64>(), 1);
        assert_eq!(arrivals.of(roots[3]).load(Ordering::Relaxed), 1);
    }
}
