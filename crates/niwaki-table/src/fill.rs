//! Room that insertions leave to updates, learnt from updates that found none.
//!
//! ```text
//! each 64 updates that left their page are, of all updates since the 64 before
//!    more than one in 20       insertions leave 2 % of a page more, up to 10 %
//!    fewer than one in 200     1 % less
//! ```
//!
//! An update that leaves its page costs an entry in every index; a row that could stay costs none, wherever its new
//! keys lie. A table that is only inserted into, or whose updates find room (most do, where what was pruned
//! before left some), is filled as its fillfactor says: what is learnt fills pages less, never more. It concerns rows
//! that are inserted, not those that move, and is learnt anew after a start.
//!
//! Source: design section 5.

use niwaki_env::sync::plain_atomic::{AtomicU32, AtomicU64, Ordering};

use crate::update_stats::UpdateCounters;

/// So many updates that left their page are looked at together.
const MOVES: u32 = 64;
/// One in so many updates may leave its page before more room is left.
const MANY: u64 = 20;
/// And one in so many before less is.
const FEW: u64 = 200;
/// Steps, and the most that is left, in percent of a page.
const MORE: u8 = 2;
const LESS: u8 = 1;
const MOST: u8 = 10;

/// What is learnt about one table.
#[derive(Debug, Default)]
pub(crate) struct Fill {
    moves: AtomicU32,
    /// All updates when it was last looked.
    updates: AtomicU64,
}

impl Fill {
    /// An update left its page. What insertions are to leave free from now on, in percent, if that
    /// changes; `left`: what they leave now.
    pub(crate) fn moved(&self, updates: &UpdateCounters, left: u8) -> Option<u8> {
        // Relaxed: it is learnt from about so many.
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
        (next != left).then_some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::HeapOnlyUpdates;

    /// What is left after so many updates that leave their page, each beside so many that stay.
    fn after(fill: &Fill, counters: &UpdateCounters, mut left: u8, moves: u32, stay: u32) -> u8 {
        for _ in 0..moves {
            (0..stay).for_each(|_| counters.heap_only(1));
            counters.new_root(true, HeapOnlyUpdates::AnyKey, true);
            left = fill.moved(counters, left).unwrap_or(left);
        }
        left
    }

    #[test]
    fn what_is_left_follows_what_leaves() {
        let (fill, counters) = (Fill::default(), UpdateCounters::default());
        assert_eq!(after(&fill, &counters, 0, 63, 2), 0, "too few to say");
        assert_eq!(after(&fill, &counters, 0, 1, 2), 2);
        assert_eq!(after(&fill, &counters, 2, 640, 2), 10, "not more");
        assert_eq!(after(&fill, &counters, 10, 640, 50), 10, "one in 51 is fine");
        assert_eq!(after(&fill, &counters, 10, 3 * 64, 300), 7, "little is needed");
        assert_eq!(after(&fill, &counters, 7, 64, 10), 9);
    }
}
