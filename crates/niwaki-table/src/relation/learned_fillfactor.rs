//! Free space that insertions leave on pages for updates, learnt from updates that found none.
//!
//! ```text
//! after each 64 updates that left their page, as a part of all updates meanwhile:
//!    more than one in 20       insertions leave 2 % of a page more, up to 10 %
//!    fewer than one in 200     1 % less
//! ```
//!
//! An update that leaves its page costs an entry in every index. A row that could stay costs none,
//! wherever its new keys lie. Most updates find room where pruning left some before. A table that
//! is only inserted into, or whose updates find room, is filled as its fillfactor says. Learning
//! fills pages less, never more. It concerns inserted rows, not rows that move, and starts anew
//! after a restart.
//!
//! Source: docs/internals/design.md, "Placement and free space".

use niwaki_env::sync::plain_atomic::{AtomicU32, AtomicU64, Ordering};

use crate::relation::update_stats::UpdateCounters;

/// The number of updates that left their page between two adjustments.
const MOVES: u32 = 64;
/// More room is left when more than one update in `MANY` leaves its page.
const MANY: u64 = 20;
/// Less room is left when fewer than one update in `FEW` leave their page.
const FEW: u64 = 200;
/// The steps up and down, and the upper limit of the room that is left, in percent of a page.
const MORE: u8 = 2;
const LESS: u8 = 1;
const MOST: u8 = 10;

const _: () = assert!(MANY < FEW);
const _: () = assert!(LESS < MORE);
const _: () = assert!(MORE <= MOST);
const _: () = assert!(MOST < 100);
const _: () = assert!(MOVES > 0);

/// The learning state of one table.
#[derive(Debug, Default)]
pub(crate) struct LearnedFillfactor {
    moves: AtomicU32,
    /// The number of all updates at the last adjustment.
    updates: AtomicU64,
}

impl LearnedFillfactor {
    /// Notes that an update left its page. `left` is the room that insertions leave now, in
    /// percent. Returns the new percentage if it changes.
    pub(crate) fn moved(&self, updates: &UpdateCounters, left: u8) -> Option<u8> {
        debug_assert!(left <= MOST, "insertions leave {left} % to updates");
        // Relaxed: the ratio needs only approximate numbers.
        let moves = self.moves.fetch_add(1, Ordering::Relaxed) + 1;
        if !moves.is_multiple_of(MOVES) {
            return None;
        }
        let all = updates.read().total();
        let since = all.saturating_sub(self.updates.swap(all, Ordering::Relaxed));
        let moved = u64::from(MOVES);
        let next = if moved * MANY > since {
            (left + MORE).min(MOST)
        } else if moved * FEW < since {
            left.saturating_sub(LESS)
        } else {
            left
        };
        debug_assert!(next <= MOST, "insertions are to leave {next} % to updates");
        (next != left).then_some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relation::definition::HeapOnlyUpdates;

    /// Returns the room left after `moves` updates that leave their page, each beside `stay`
    /// updates that stay.
    fn after(
        fill: &LearnedFillfactor,
        counters: &UpdateCounters,
        mut left: u8,
        moves: u32,
        stay: u32,
    ) -> u8 {
        for _ in 0..moves {
            (0..stay).for_each(|_| counters.heap_only(1));
            counters.new_root(true, HeapOnlyUpdates::AnyKey, true);
            left = fill.moved(counters, left).unwrap_or(left);
        }
        left
    }

    #[test]
    fn what_is_left_follows_what_leaves() {
        let (fill, counters) = (LearnedFillfactor::default(), UpdateCounters::default());
        assert_eq!(after(&fill, &counters, 0, 63, 2), 0, "too few to say");
        assert_eq!(after(&fill, &counters, 0, 1, 2), 2);
        assert_eq!(after(&fill, &counters, 2, 640, 2), 10, "not more");
        assert_eq!(after(&fill, &counters, 10, 640, 50), 10, "one in 51 is fine");
        assert_eq!(after(&fill, &counters, 10, 3 * 64, 300), 7, "little is needed");
        assert_eq!(after(&fill, &counters, 7, 64, 10), 9);
    }
}
