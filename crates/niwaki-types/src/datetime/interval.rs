//! `interval`: months, days and microseconds, kept apart because neither a month nor a day has a
//! fixed length.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use super::MICROS_PER_DAY;

/// `interval`: months, days, microseconds
#[derive(Clone, Copy, Debug, Default)]
pub struct Interval {
    /// months
    pub months: i32,
    /// days
    pub days: i32,
    /// microseconds
    pub micros: i64,
}

impl Interval {
    /// An interval of its three parts.
    pub const fn new(months: i32, days: i32, micros: i64) -> Self {
        Self { months, days, micros }
    }

    /// What intervals are compared by: microseconds, with 30 days a month and 24 hours a day.
    #[inline]
    pub fn comparable(&self) -> i128 {
        let days = i128::from(self.months) * 30 + i128::from(self.days);
        days * i128::from(MICROS_PER_DAY) + i128::from(self.micros)
    }

    /// Whether the parts are the same, which is more than being equal: `1 day` equals `24:00`.
    pub fn same_image(&self, other: &Self) -> bool {
        (self.months, self.days, self.micros) == (other.months, other.days, other.micros)
    }
}

impl Ord for Interval {
    fn cmp(&self, other: &Self) -> Ordering {
        self.comparable().cmp(&other.comparable())
    }
}

impl PartialOrd for Interval {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Interval {
    /// SQL equality.
    fn eq(&self, other: &Self) -> bool {
        self.comparable() == other.comparable()
    }
}

impl Eq for Interval {}

impl Hash for Interval {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_i128(self.comparable());
    }
}
