//! Distribution of small numbers.

use std::collections::BTreeMap;

/// Numbers, each with its frequency. The distribution is exact. Memory grows with the number of
/// different values, not with the number of occurrences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    times: BTreeMap<u64, u64>,
    total: u64,
}

impl Distribution {
    /// Adds a number that occurred `times` times.
    pub fn add(&mut self, number: u64, times: u64) {
        if times > 0 {
            *self.times.entry(number).or_default() += times;
            self.total += times;
        }
        debug_assert!(self.times.len() as u64 <= self.total, "a number that never occurred");
    }

    /// Returns how many numbers were added.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns the smallest number that `percent` of all numbers (1 to 100) do not exceed; `None`
    /// when there is none.
    pub fn percentile(&self, percent: u8) -> Option<u64> {
        debug_assert!((1..=100).contains(&percent), "{percent} percent");
        let wanted = (u128::from(self.total) * u128::from(percent)).div_ceil(100);
        let mut passed = 0;
        let found = self.times.iter().find_map(|(number, times)| {
            passed += u128::from(*times);
            (passed >= wanted).then_some(*number)
        });
        debug_assert_eq!(found.is_some(), self.total > 0, "{percent} percent of {}", self.total);
        found
    }

    /// Returns the largest number; `None` when there is none.
    pub fn max(&self) -> Option<u64> {
        self.times.last_key_value().map(|(number, _)| *number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_numbers_that_occurred() {
        let mut numbers = Distribution::default();
        assert_eq!((numbers.percentile(50), numbers.max()), (None, None));
        numbers.add(7, 0);
        assert_eq!(numbers.max(), None);
        numbers.add(3, 1);
        assert_eq!((numbers.percentile(1), numbers.percentile(100)), (Some(3), Some(3)));
        numbers.add(1, 98);
        numbers.add(9, 1);
        let found = [50, 98, 99, 100].map(|percent| numbers.percentile(percent));
        assert_eq!(found, [Some(1), Some(1), Some(3), Some(9)]);
        assert_eq!((numbers.max(), numbers.total()), (Some(9), 100));
    }
}
