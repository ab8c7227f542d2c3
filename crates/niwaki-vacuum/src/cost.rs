//! Cost-based delay: a vacuum sleeps after a set amount of work, to disturb other sessions little.

use std::time::Duration;

/// The costs of page visits and the delay, as PostgreSQL's settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostOptions {
    /// The length of a delay (`vacuum_cost_delay`); zero for none.
    pub delay: Duration,
    /// The cost after which vacuum sleeps (`vacuum_cost_limit`), at least 1.
    pub limit: u32,
    /// The cost of a page found in the pool (`vacuum_cost_page_hit`).
    pub page_hit: u32,
    /// The cost of a page read from disk (`vacuum_cost_page_miss`).
    pub page_miss: u32,
    /// The additional cost of a changed page (`vacuum_cost_page_dirty`).
    pub page_dirty: u32,
}

impl Default for CostOptions {
    fn default() -> Self {
        Self { delay: Duration::ZERO, limit: 200, page_hit: 1, page_miss: 2, page_dirty: 20 }
    }
}

/// The longest sleep, in delays, however large a piece of work was.
const DELAYS_MAX: f64 = 4.0;

const _: () = assert!(DELAYS_MAX >= 1.0, "a sleep would be shorter than a delay");

/// The cost since the last delay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CostBalance {
    options: CostOptions,
    balance: u32,
}

impl CostBalance {
    pub(crate) fn new(options: CostOptions) -> Self {
        Self { options, balance: 0 }
    }

    /// Adds the cost of a visited page. `reads` pages were read, for it and for the next ones.
    /// Returns how long to sleep now.
    pub(crate) fn visit(&mut self, reads: u32, changed: bool) -> Option<Duration> {
        let CostOptions { delay, limit, page_hit, page_miss, page_dirty } = self.options;
        if delay.is_zero() {
            return None;
        }
        let dirty = if changed { page_dirty } else { 0 };
        let visit = match reads {
            0 => page_hit,
            reads => reads.saturating_mul(page_miss),
        };
        self.balance = self.balance.saturating_add(visit).saturating_add(dirty);
        let limit = limit.max(1);
        if self.balance < limit {
            return None;
        }
        let delays = (f64::from(self.balance) / f64::from(limit)).min(DELAYS_MAX);
        debug_assert!((1.0..=DELAYS_MAX).contains(&delays), "a sleep of {delays} delays");
        self.balance = 0;
        Some(delay.mul_f64(delays))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn balance(delay: Duration, limit: u32) -> CostBalance {
        CostBalance::new(CostOptions { delay, limit, ..CostOptions::default() })
    }

    #[test]
    fn it_rests_after_so_much_work() {
        let mut hits = balance(2 * MS, 200);
        let rests: Vec<_> = (0..1000).filter_map(|_| hits.visit(0, false)).collect();
        assert_eq!(rests, [2 * MS; 5], "200 pages each");
        let mut changed = balance(2 * MS, 200);
        let rests: Duration = (0..1000).filter_map(|_| changed.visit(1, true)).sum();
        // 22 a page: every tenth page, a little longer each time.
        assert_eq!(rests, 100 * 2 * MS * 220 / 200);
    }

    #[test]
    fn a_rest_is_bounded_and_without_delay_there_is_none() {
        assert_eq!(balance(2 * MS, 1).visit(1000, true), Some(8 * MS));
        assert_eq!(balance(2 * MS, 0).visit(u32::MAX, true), Some(8 * MS));
        let mut none = balance(Duration::ZERO, 1);
        assert!((0..1000).all(|_| none.visit(5, true).is_none()));
    }
}
