//! The credit that deletions earn for the work that keeps an index small while entries come and go.
//!
//! An index that only grows needs all the pages it gets, sooner or later. Moving entries there, to
//! put a split off, is wasted work. An index in which as many entries go as come needs no new
//! pages: some page near the full one has room. Bringing that room to the full page pays for
//! itself, since a page that a split makes stays. So each deleted entry adds to a credit. The
//! credit pays for work that is worth its price only where entries go.
//!
//! The credit is lost with the handle; nothing but the size of the index depends on it.

use niwaki_env::SIMULATED;
use niwaki_env::sync::plain_atomic::{AtomicU64, Ordering};

/// The price, in deleted entries, of a shift that an index which only grows would not make. Such a
/// shift takes about as long as thirty deletions that share their leaves. So where all credit is
/// spent, deletions and the shifts they pay for take three times as long as the deletions alone.
/// Mostly there are a hundred deletions for each shift. In simulation the price is the least
/// possible, so that schedules have such shifts.
pub(crate) const SHIFT_PRICE: u64 = if SIMULATED { 1 } else { 16 };
/// The credit from which on an index saves no more, in deleted entries: a pass of vacuum leaves it
/// for the insertions after it. A large index may save up `CREDIT_MAX_PER_PAGE` for each page:
/// enough for a dozen shifts.
const CREDIT_MAX: u64 = 1 << 16;
const CREDIT_MAX_PER_PAGE: u64 = 192;
const _: () = assert!(SHIFT_PRICE > 0);
const _: () = assert!(CREDIT_MAX_PER_PAGE >= 12 * SHIFT_PRICE);

/// The number of deleted entries that have not paid for anything yet.
#[derive(Debug, Default)]
pub(crate) struct Credit(AtomicU64);

impl Credit {
    /// Adds the credit of `entries` deleted entries. `pages` returns the number of pages of the
    /// index.
    pub(crate) fn earn(&self, entries: u64, pages: impl FnOnce() -> u64) {
        // Relaxed, here and below: the credit orders nothing else.
        let left = self.0.load(Ordering::Relaxed);
        // The number of pages is looked up only where the credit is large.
        let most = if left < CREDIT_MAX { CREDIT_MAX } else { pages() * CREDIT_MAX_PER_PAGE };
        if left < most {
            self.0.fetch_add(entries.min(most), Ordering::Relaxed);
        }
    }

    /// Decides whether the credit covers `price`.
    pub(crate) fn affords(&self, price: u64) -> bool {
        self.0.load(Ordering::Relaxed) >= price
    }

    /// Pays `price`, as far as there is credit left: other threads may have spent it meanwhile.
    pub(crate) fn spend(&self, price: u64) {
        let left = |credit: u64| Some(credit.saturating_sub(price));
        // The closure always returns `Some`, so the update cannot fail.
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
