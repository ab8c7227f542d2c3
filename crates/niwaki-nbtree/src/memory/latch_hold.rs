//! A histogram of the time for which passes over a full leaf hold its latch.

use std::time::Duration;

use niwaki_env::sync::plain_atomic::{AtomicU64, Ordering};

/// The number of buckets of [`crate::Index::latch_hold`]: the last one has everything from 16 ms
/// on.
pub const LATCH_HOLD_BUCKETS: usize = 16;

/// Passes of deletion and deduplication over full leaves, by the time that each held the leaf's
/// exclusive latch. Bucket 0: under 1 us; bucket n: from 2^(n-1) to under 2^n us.
#[derive(Debug, Default)]
pub(crate) struct LatchHold([AtomicU64; LATCH_HOLD_BUCKETS]);

impl LatchHold {
    pub(crate) fn add(&self, held: Duration) {
        let bits = u128::BITS - held.as_micros().leading_zeros();
        let bucket = (bits as usize).min(LATCH_HOLD_BUCKETS - 1);
        // Relaxed, here and below: a statistic orders nothing else.
        self.0[bucket].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> [u64; LATCH_HOLD_BUCKETS] {
        std::array::from_fn(|bucket| self.0[bucket].load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_ends_at_a_power_of_two() {
        let held = LatchHold::default();
        for nanos in [0, 999, 1_000, 1_999, 2_000, 3_999, 4_000, 16_383_999, 16_384_000, u64::MAX] {
            held.add(Duration::from_nanos(nanos));
        }
        let mut expected = [0; LATCH_HOLD_BUCKETS];
        (expected[0], expected[1], expected[2], expected[3]) = (2, 2, 2, 1);
        (expected[14], expected[15]) = (1, 2);
        assert_eq!(held.read(), expected);
    }
}
