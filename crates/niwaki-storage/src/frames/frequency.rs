//! Use counts of pages, including pages that have left the pool since.
//!
//! The counts form a count-min sketch whose counters are halved from time to time (TinyLFU:
//! Einziger, Friedman and Manes, ACM Transactions on Storage 13(4), 2017). A page's own recency
//! separates frequent from rare use only while the page stays in the pool. A pool much smaller than
//! the data keeps neither a page used in every thousandth read nor one used in every hundred
//! thousandth. So their difference must be remembered beyond their stay. Leaves of an index that
//! does not grow are of the former kind, pages of a heap of the latter.

use niwaki_env::sync::atomic::Ordering;
use niwaki_env::sync::plain_atomic::{AtomicU8 as Cell, AtomicUsize as Counter};

use super::frame::Tag;

/// Cells of each of the two rows, per frame; they take at most a 250th of the pool. With fewer
/// cells, pages that share cells count as hot ones.
const CELLS_PER_FRAME: usize = 8;
/// Largest count.
const COUNT_MAX: u8 = 63;
/// Counted uses, per frame, after which the counts are halved; later halvings follow after half as
/// many each. A page that is no longer hot is forgotten after three and a half times as many uses
/// at the latest.
///
/// A shorter memory adapts faster, but reads more than that saves. The measurement replayed
/// accesses of updates in a pool of an eighth of the data. With 64 instead of 16 they read 4.5%
/// fewer pages, and 20% fewer pages of indexes.
const USES_PER_FRAME: usize = 64;

// A count that others raise beside this thread still fits its cell.
const _: () = assert!(COUNT_MAX < u8::MAX);
// The counts are halved less often than once for each use.
const _: () = assert!(USES_PER_FRAME > 1);

/// Approximate use counts. Some are lost under contention: a count is not worth a locked
/// instruction.
pub(crate) struct Frequencies {
    rows: [Box<[Cell]>; 2],
    counted: Counter,
    /// Uses after which the counts are halved.
    limit: usize,
}

impl Frequencies {
    pub(crate) fn new(frames: usize) -> Self {
        debug_assert!(frames > 0, "a pool has at least one frame");
        let cells = (frames * CELLS_PER_FRAME).next_power_of_two();
        let row = || (0..cells).map(|_| Cell::new(0)).collect();
        Self { rows: [row(), row()], counted: Counter::new(0), limit: frames * USES_PER_FRAME }
    }

    fn cells(&self, tag: Tag) -> [&Cell; 2] {
        let hash = tag.hash();
        // Rows need independent places: one row uses the high half of the hash, spread again, the
        // other the low half.
        let other = (hash >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24;
        let place = |row: &'_ [Cell], hash: u64| hash as usize & (row.len() - 1);
        let [first, second] = &self.rows;
        debug_assert!(first.len().is_power_of_two(), "a mask of the hash selects a cell");
        debug_assert_eq!(first.len(), second.len(), "cells of the two rows");
        [&first[place(first, hash)], &second[place(second, other)]]
    }

    /// Returns how often the page was used lately, at most [`COUNT_MAX`]. The count is approximate,
    /// but too low only through lost counts.
    pub(crate) fn of(&self, tag: Tag) -> u8 {
        let [a, b] = self.cells(tag).map(|cell| cell.load(Ordering::Relaxed));
        debug_assert!(a <= COUNT_MAX, "a count of {a}");
        debug_assert!(b <= COUNT_MAX, "a count of {b}");
        a.min(b)
    }

    /// Counts one use. The caller counts uses in quick succession, as within one operation, as one.
    pub(crate) fn count(&self, tag: Tag) {
        let cells = self.cells(tag);
        let [a, b] = cells.map(|cell| cell.load(Ordering::Relaxed));
        let count = a.min(b);
        if count < COUNT_MAX {
            // Only the lower cell: the other one also counts uses of other pages.
            for cell in cells {
                if cell.load(Ordering::Relaxed) == count {
                    cell.store(count + 1, Ordering::Relaxed);
                }
            }
        }
        let counted = self.counted.load(Ordering::Relaxed) + 1;
        if counted < self.limit {
            self.counted.store(counted, Ordering::Relaxed);
        } else {
            self.counted.store(counted / 2, Ordering::Relaxed);
            self.halve();
        }
    }

    #[cold]
    fn halve(&self) {
        for cell in self.rows.iter().flatten() {
            cell.store(cell.load(Ordering::Relaxed) / 2, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;
    use crate::ids::{BlockNumber, Fork, PageId, RelFileId};

    fn page(block: u32) -> Tag {
        Tag::of(PageId { file: RelFileId(7), fork: Fork::Main, block: BlockNumber(block) })
    }

    #[test]
    fn pages_used_more_often_count_higher_and_are_forgotten() {
        let frequencies = Frequencies::new(100);
        // 50 pages are used five times as often as 500 others.
        for _ in 0..2 {
            (0..50).for_each(|block| (0..5).for_each(|_| frequencies.count(page(block))));
            (50..550).for_each(|block| frequencies.count(page(block)));
        }
        let often = (0..50).map(|block| u32::from(frequencies.of(page(block)))).min().unwrap();
        let others: u32 = (50..550).map(|block| u32::from(frequencies.of(page(block)))).sum();
        assert!(often >= 4, "{often}");
        assert!(f64::from(others) / 500.0 < 2.5, "{others}");
        // Others come.
        for round in 1..240 {
            (0..100).for_each(|block| frequencies.count(page(10_000 * round + block)));
        }
        // The 50 pages count no more than pages that were never used, which share cells with others
        // too.
        let sum = |blocks: std::ops::Range<u32>| -> u32 {
            blocks.map(|block| u32::from(frequencies.of(page(block)))).sum()
        };
        let (left, never) = (sum(0..50), sum(600..650));
        assert!(never < 500 && left < 2 * never + 10, "{left}, {never}");
    }
}
