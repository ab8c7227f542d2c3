//! Costs of a statement's custom plans, which decide whether it gets more of them.

use niwaki_env::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Number of first executions that have custom plans in any case.
const FIRST: u32 = 5;

/// Costs of a statement's custom plans so far.
#[derive(Debug, Default)]
pub(crate) struct CustomPlans {
    made: AtomicU32,
    /// Sum of the costs of all custom plans, as the bits of a float.
    cost: AtomicU64,
    /// Set once the generic plan is known to cost less. Then no more custom plans are made that
    /// could show otherwise.
    dearer: AtomicBool,
}

impl CustomPlans {
    /// Returns the number of custom plans made.
    pub(crate) fn made(&self) -> u32 {
        // Relaxed, here and below: a session has its statements for itself.
        self.made.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, cost: f64) {
        let sum = f64::from_bits(self.cost.load(Ordering::Relaxed)) + cost;
        self.cost.store(sum.to_bits(), Ordering::Relaxed);
        self.made.fetch_add(1, Ordering::Relaxed);
    }

    /// Decides whether the next execution gets a custom plan. `generic` returns the cost of the
    /// generic plan.
    pub(crate) fn serve(&self, generic: impl FnOnce() -> f64) -> bool {
        if self.dearer.load(Ordering::Relaxed) {
            return false;
        }
        let (made, cost) = (self.made(), f64::from_bits(self.cost.load(Ordering::Relaxed)));
        let serve = made < FIRST || cost / f64::from(made) <= generic();
        self.dearer.store(!serve, Ordering::Relaxed);
        serve
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cheaper_plans_are_made() {
        let (cheap, dear) = (CustomPlans::default(), CustomPlans::default());
        for _ in 0..FIRST {
            assert!(cheap.serve(|| 0.0) && dear.serve(|| 0.0), "nothing is known yet");
            cheap.add(10.0);
            dear.add(1000.0);
        }
        assert!(cheap.serve(|| 100.0));
        assert!(!dear.serve(|| 100.0));
        assert!(!dear.serve(|| unreachable!("it is known")));
        assert_eq!(dear.made(), FIRST);
    }
}
