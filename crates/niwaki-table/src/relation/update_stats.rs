//! Statistics of updates: one cell for each kind of outcome.
//!
//! An update is counted once, in the cell of its outcome, with one relaxed addition. Every other
//! number is a sum of cells:
//!
//! ```text
//! heap-only, entries in    0    1    2    3    more indexes
//! new root, because        no room      same_keys      off
//!   on its page            -            .              .
//!   on another page        .            .              .
//! ```

use niwaki_env::sync::plain_atomic::{AtomicU64, Ordering};

use crate::relation::count::count;
use crate::relation::definition::HeapOnlyUpdates;

/// The number of index entries from which on heap-only updates share a cell.
pub(crate) const MANY_INDEXES: usize = 4;
/// The first cells of the other outcomes, behind the cells of heap-only updates.
const NO_ROOM: usize = MANY_INDEXES + 1;
const SAME_KEYS: usize = NO_ROOM + 1;
const OFF: usize = SAME_KEYS + 2;
const CELLS: usize = OFF + 2;

const _: () = assert!(CELLS == MANY_INDEXES + 1 + 1 + 2 + 2);

/// Counters of updates: one cell for each kind of outcome.
#[derive(Debug, Default)]
pub(crate) struct UpdateCounters([AtomicU64; CELLS]);

/// Outcomes of the updates of one table since it was opened, including updates of aborted
/// transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpdateStats {
    /// Heap-only updates by the number of indexes that got an entry: 0, 1, 2, 3, more.
    pub heap_only: [u64; MANY_INDEXES + 1],
    /// New roots because the new version did not fit on the page of the old one.
    pub no_room: u64,
    /// New roots because of `same_keys`, when an index needed another entry.
    pub same_keys: u64,
    /// New roots because of `heap_only_updates = off`.
    pub off: u64,
    /// New roots on another page, for whichever reason.
    pub left_page: u64,
}

impl UpdateStats {
    /// Returns the number of all updates.
    pub fn total(&self) -> u64 {
        self.heap_only_total() + self.no_room + self.same_keys + self.off
    }

    /// Returns the number of updates whose version stayed in its chain.
    pub fn heap_only_total(&self) -> u64 {
        self.heap_only.iter().sum()
    }
}

impl UpdateCounters {
    /// Counts an update that stayed in its chain. `entries` is the number of indexes in which its
    /// version needed an entry.
    #[inline]
    pub(crate) fn heap_only(&self, entries: usize) {
        count(&self.0[entries.min(MANY_INDEXES)], 1);
    }

    /// Counts an update that made a new root. `tried`: a heap-only update was tried, and did not
    /// fit.
    #[inline]
    pub(crate) fn new_root(&self, tried: bool, setting: HeapOnlyUpdates, left_page: bool) {
        debug_assert!(!tried || left_page, "a version that did not fit stayed on its page");
        debug_assert!(tried || setting != HeapOnlyUpdates::AnyKey, "any_key tries each update");
        debug_assert!(!tried || setting != HeapOnlyUpdates::Off, "off tries no update");
        let cell = match setting {
            _ if tried => NO_ROOM,
            HeapOnlyUpdates::Off => OFF + usize::from(left_page),
            HeapOnlyUpdates::AnyKey | HeapOnlyUpdates::SameKeys => {
                SAME_KEYS + usize::from(left_page)
            }
        };
        count(&self.0[cell], 1);
    }

    pub(crate) fn read(&self) -> UpdateStats {
        // Relaxed: nothing else is ordered by a statistic.
        let cell = |at: usize| self.0[at].load(Ordering::Relaxed);
        let (no_room, moved_by_key, moved_off) =
            (cell(NO_ROOM), cell(SAME_KEYS + 1), cell(OFF + 1));
        UpdateStats {
            heap_only: std::array::from_fn(cell),
            no_room,
            same_keys: cell(SAME_KEYS) + moved_by_key,
            off: cell(OFF) + moved_off,
            left_page: no_room + moved_by_key + moved_off,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_update_is_in_one_cell() {
        let counters = UpdateCounters::default();
        [0, 0, 1, 2, 3, 4, 9].into_iter().for_each(|entries| counters.heap_only(entries));
        counters.new_root(true, HeapOnlyUpdates::AnyKey, true);
        counters.new_root(true, HeapOnlyUpdates::SameKeys, true);
        counters.new_root(false, HeapOnlyUpdates::SameKeys, false);
        counters.new_root(false, HeapOnlyUpdates::SameKeys, true);
        for left_page in [false, true, true] {
            counters.new_root(false, HeapOnlyUpdates::Off, left_page);
        }
        let stats = counters.read();
        let expected = UpdateStats {
            heap_only: [2, 1, 1, 1, 2],
            no_room: 2,
            same_keys: 2,
            off: 3,
            left_page: 5,
        };
        assert_eq!(stats, expected);
        assert_eq!((stats.heap_only_total(), stats.total()), (7, 14));
    }
}
