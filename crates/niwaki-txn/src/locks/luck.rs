//! Statistics of spinning, which decide whether a waiter spins before it sleeps.

use niwaki_env::sync::atomic::{AtomicU32, Ordering};

/// Statistics of recent spinning: the share that was rewarded.
#[derive(Debug)]
pub(crate) struct Luck {
    /// Moving average of rewarded spins, in 1024ths.
    average: AtomicU32,
    /// Waits that began while spinning was not worth it. One in [`TRY_ONE_OF`] of them spins
    /// nevertheless.
    skipped: AtomicU32,
}

const LUCK_ONE: u32 = 1024;
/// The least share of rewarded spins for which every wait spins. Below it, one wait in
/// [`TRY_ONE_OF`] spins, to see whether times have changed.
const LUCK_MIN: u32 = LUCK_ONE / 5;
const TRY_ONE_OF: u32 = 16;
/// Weight of one more spin in the average: one in this many.
const LUCK_WEIGHT: u32 = 8;

const _: () = assert!(LUCK_MIN < LUCK_ONE / 2, "the first waits would not spin");
const _: () = assert!(TRY_ONE_OF > 1, "each wait would spin, worth it or not");

impl Luck {
    pub(crate) fn new() -> Self {
        Self { average: AtomicU32::new(LUCK_ONE / 2), skipped: AtomicU32::new(0) }
    }

    pub(crate) fn is_worth_it(&self) -> bool {
        self.average.load(Ordering::Relaxed) >= LUCK_MIN
            || self.skipped.fetch_add(1, Ordering::Relaxed).is_multiple_of(TRY_ONE_OF)
    }

    pub(crate) fn learn(&self, rewarded: bool) {
        // Lost updates between threads only blur the average.
        let average = self.average.load(Ordering::Relaxed);
        debug_assert!(average <= LUCK_ONE + LUCK_WEIGHT, "{average} of {LUCK_ONE} were rewarded");
        let gain = if rewarded { LUCK_ONE / LUCK_WEIGHT } else { 0 };
        self.average.store(average - average / LUCK_WEIGHT + gain, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(any(feature = "shuttle", feature = "loom"))))]
mod tests {
    use super::*;

    #[test]
    fn bad_luck_ends_spinning_and_good_luck_brings_it_back() {
        let luck = Luck::new();
        assert!(luck.is_worth_it());
        (0..50).for_each(|_| luck.learn(false));
        let tries = (0..160).filter(|_| luck.is_worth_it()).count();
        assert_eq!(tries, 10);
        (0..50).for_each(|_| luck.learn(true));
        assert!((0..100).all(|_| luck.is_worth_it()));
        assert!(luck.average.load(Ordering::Relaxed) <= LUCK_ONE + LUCK_WEIGHT);
    }
}
