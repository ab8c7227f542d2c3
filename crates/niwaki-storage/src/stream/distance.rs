//! The look-ahead distance of a stream, in pages.
//!
//! ```text
//!   page was needed before it was there      twice as far, up to what the concurrency allows
//!   the system had it in memory              twice as far, up to one read
//!   it was there in time                     a little less far
//!   it was in the pool already               a page less far
//!   it has left the pool again               half as far
//! ```
//!
//! The distance doubles once for all pages that were named before it doubled: these cannot show the
//! effect yet. So a table in the pool costs nothing, and one in the system's memory is read in
//! large pieces. A device gets as many reads at once as it takes not to wait for it.

/// The distance of one stream, in pages. 1 means no look-ahead: a page is named when it is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Distance {
    now: u32,
    /// Pages of one read.
    combine: u32,
    most: u32,
    /// Pages in a row that were there in time.
    in_time: u32,
    /// Pages named, and given back.
    named: u64,
    given: u64,
    /// `named` when the distance was doubled last.
    doubled_at: u64,
}

impl Distance {
    /// Begins with no look-ahead. Allows reads of `combine` pages, and `concurrency` of them
    /// besides the one that is consumed. `share` is the number of pages of the pool that this
    /// stream may use.
    pub(crate) fn new(combine: u32, concurrency: u32, share: u32) -> Self {
        let share = share.max(1);
        let combine = combine.clamp(1, share);
        let most = combine.saturating_mul(concurrency.saturating_add(1)).min(share);
        Self { now: 1, combine, most, in_time: 0, named: 0, given: 0, doubled_at: 0 }
    }

    /// Checks the bounds of the distance, and that pages are counted in their order.
    fn assert_state(self) {
        debug_assert!(self.combine > 0, "a read of no page");
        debug_assert!(self.combine <= self.most, "a read is longer than the farthest look");
        debug_assert!(self.now > 0, "the page that is needed next counts");
        debug_assert!(self.now <= self.most, "{} pages ahead, of {}", self.now, self.most);
        debug_assert!(self.given <= self.named, "{} of {} pages", self.given, self.named);
        debug_assert!(self.doubled_at <= self.named, "doubled at {}", self.doubled_at);
        debug_assert!(self.in_time < 2 * self.combine, "{} pages in time", self.in_time);
    }

    pub(crate) fn pages(self) -> u32 {
        self.assert_state();
        self.now
    }

    pub(crate) fn combine(self) -> u32 {
        self.combine
    }

    /// Counts a page that was named.
    pub(crate) fn name(&mut self) {
        self.named += 1;
    }

    /// Counts the oldest named page, which is given back.
    pub(crate) fn give(&mut self) {
        self.given += 1;
        self.assert_state();
    }

    /// Lowers the distance: the named page is in the pool.
    pub(crate) fn was_resident(&mut self) {
        self.now = (self.now - 1).max(1);
        self.assert_state();
    }

    /// Raises the distance: a read found its pages in the system's memory.
    pub(crate) fn was_cached(&mut self) {
        if self.now < self.combine {
            self.now = (self.now * 2).min(self.combine);
        }
        self.assert_state();
    }

    /// Raises the distance: the page to be given back next is needed before it is there.
    pub(crate) fn was_late(&mut self) {
        self.in_time = 0;
        if self.given < self.doubled_at {
            return;
        }
        self.doubled_at = self.named;
        self.now = self.now.saturating_mul(2).min(self.most);
        self.assert_state();
    }

    /// Lowers the distance slowly: a page that others read was there when it was needed.
    pub(crate) fn was_in_time(&mut self) {
        self.in_time += 1;
        // Slowly: the next wait doubles it.
        if self.in_time >= 2 * self.combine {
            self.in_time = 0;
            self.now = (self.now - 1).max(self.combine.min(self.now));
        }
        self.assert_state();
    }

    /// Halves the distance: a page that was read ahead has left the pool before it was needed.
    pub(crate) fn was_lost(&mut self) {
        self.now = (self.now / 2).max(1);
        self.assert_state();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "1 of 0 pages")]
    fn a_page_that_was_not_named_is_not_given_back() {
        Distance::new(16, 16, 1000).give();
    }
}
