//! Statistics of spinning, which decide whether a waiter spins before it sleeps.

use niwaki_env::sync::atomic::{AtomicU32, Ordering};

/// Statistics of recent spinning: the share that was rewarded.
#[derive(Debug)]
pub(crate) struct SpinStats {
    /// Moving average of rewarded spins, in 1024ths.
    average: AtomicU32,
    /// Waits that began while spinning was not worth it. One in [`TRY_ONE_OF`] of them spins
    /// nevertheless.
    skipped: AtomicU32,
}

const REWARD_ONE: u32 = 1024;
/// The least share of rewarded spins for which every wait spins. Below it, one wait in
/// [`TRY_ONE_OF`] spins, to see whether times have changed.
const REWARD_MIN: u32 = REWARD_ONE / 5;
const TRY_ONE_OF: u32 = 16;
/// Weight of one more spin in the average: one in this many.
const REWARD_WEIGHT: u32 = 8;

const _: () = assert!(REWARD_MIN < REWARD_ONE / 2, "the first waits would not spin");
const _: () = assert!(TRY_ONE_OF > 1, "each wait would spin, worth it or not");

impl SpinStats {
    pub(crate) fn new() -> Self {
        Self { average: AtomicU32::new(REWARD_ONE / 2), skipped: AtomicU32::new(0) }
    }

    pub(crate) fn is_worth_it(&self) -> bool {
        self.average.load(Ordering::Relaxed) >= REWARD_MIN
            || self.skipped.fetch_add(1, Ordering::Relaxed).is_multiple_of(TRY_ONE_OF)
    }

    pub(crate) fn learn(&self, rewarded: bool) {
        // Lost updates between threads only blur the average.
        let average = self.average.load(Ordering::Relaxed);
        debug_assert!(
            average <= REWARD_ONE + REWARD_WEIGHT,
            "{average} of {REWARD_ONE} were rewarded"
        );
        let gain = if rewarded { REWARD_ONE / REWARD_WEIGHT } else { 0 };
        self.average.store(average - average / REWARD_WEIGHT + gain, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(any(feature = "shuttle", feature = "loom"))))]
mod tests {
    use super::*;

    #[test]
    fn bad_luck_ends_spinning_and_good_luck_brings_it_back() {
        let stats = SpinStats::new();
        assert!(stats.is_worth_it());
        (0..50).for_each(|_| stats.learn(false));
        let tries = (0..160).filter(|_| stats.is_worth_it()).count();
        assert_eq!(tries, 10);
        (0..50).for_each(|_| stats.learn(true));
        assert!((0..100).all(|_| stats.is_worth_it()));
        assert!(stats.average.load(Ordering::Relaxed) <= REWARD_ONE + REWARD_WEIGHT);
    }
}
