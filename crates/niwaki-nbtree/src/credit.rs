//! What deletions pay for: the work that keeps an index small while entries come and go.
//!
//! An index that only grows needs all the pages it gets, sooner or later: moving entries about to put a split
//! off is work for nothing. One in which as many entries go as come needs none: there room is on some page near
//! the full one, and to bring it there pays for itself, since the page that a split makes stays. So each deleted
//! entry adds to a credit, and what is only worth its price where entries go is paid from it.
//!
//! The credit is lost with the handle; nothing but the size of the index depends on it.

use niwaki_env::SIMULATED;
use niwaki_env::sync::plain_atomic::{AtomicU64, Ordering};

/// What a shift costs that an index which only grows would not make, in deleted entries. It takes about as long
/// as thirty deletions that share their leaves: so where all credit is spent, deletions and the shifts they pay for take three
/// times as long as deletions; mostly a shift comes with a hundred of them. In
/// simulation as little as can be, so that schedules have such shifts.
pub(crate) const SHIFT_PRICE: u64 = if SIMULATED { 1 } else { 16 };
/// The most that is saved up, in deleted entries: what a pass of vacuum leaves for the insertions after it. Of a large index so
/// much for each page: enough for a dozen shifts.
const CREDIT_MAX: u64 = 1 << 16;
const CREDIT_MAX_PER_PAGE: u64 = 192;

/// Deleted entries that nothing was paid with yet.
#[derive(Debug, Default)]
pub(crate) struct Credit(AtomicU64);

impl Credit {
    /// So many entries were deleted, of an index of so many pages.
    pub(crate) fn earn(&self, entries: u64, pages: impl FnOnce() -> u64) {
        // Relaxed, here and below: nothing else is ordered by it.
        let left = self.0.load(Ordering::Relaxed);
        // Pages are asked for where the credit is large.
        let most = if left < CREDIT_MAX { CREDIT_MAX } else { pages() * CREDIT_MAX_PER_PAGE };
        if left < most {
            self.0.fetch_add(entries.min(most), Ordering::Relaxed);
        }
    }

    /// Whether there is so much.
    pub(crate) fn affords(&self, price: u64) -> bool {
        self.0.load(Ordering::Relaxed) >= price
    }

    /// Pays, as far as there is anything left: others may have paid meanwhile.
    pub(crate) fn spend(&self, price: u64) {
        let left = |credit: u64| Some(credit.saturating_sub(price));
        // Always some: it cannot fail.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_earned_can_be_spent_once() {
        let credit = Credit::default();
        assert!(credit.affords(0) && !credit.affords(1));
        credit.earn(3, || 1);
        assert!(credit.affords(3) && !credit.affords(4));
        credit.spend(2);
        assert!(credit.affords(1) && !credit.affords(2));
        credit.spend(5);
        assert!(!credit.affords(1));
    }

    #[test]
    fn it_is_bounded() {
        let credit = Credit::default();
        (0..5).for_each(|_| credit.earn(CREDIT_MAX, || 1));
        assert!(credit.affords(CREDIT_MAX) && !credit.affords(CREDIT_MAX + 1));
        (0..5).for_each(|_| credit.earn(u64::MAX, || 1000));
        let most = 1000 * CREDIT_MAX_PER_PAGE;
        assert!(credit.affords(most) && !credit.affords(2 * most));
    }
}
