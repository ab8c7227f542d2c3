//! Rare paths, which a simulation takes now and then.
//!
//! `if full || sometimes!(1, 16) { … }` takes a path on purpose. The macro chooses among the things
//! that production can do, and never changes them. In builds without the feature `sim` it is
//! `false`, as it is in a thread that did not call `start`.

/// True `numerator` times in `denominator`, in simulations; false otherwise.
#[cfg(not(feature = "sim"))]
#[macro_export]
macro_rules! sometimes {
    ($numerator:expr, $denominator:expr) => {
        false
    };
}

/// True `numerator` times in `denominator`, in simulations; false otherwise.
#[cfg(feature = "sim")]
#[macro_export]
macro_rules! sometimes {
    ($numerator:expr, $denominator:expr) => {
        $crate::rare::choose($numerator, $denominator)
    };
}

#[cfg(feature = "sim")]
pub use choices::{choose, is_started, start};

#[cfg(feature = "sim")]
mod choices {
    use std::cell::RefCell;

    use crate::rng::SeededRng;

    // A thread of the system, which all simulated threads of a schedule share.
    std::thread_local! {
        static CHOICES: RefCell<Option<SeededRng>> = const { RefCell::new(None) };
    }

    /// Makes `sometimes!` follow `seed` in this thread from now on; `None` makes it always false.
    pub fn start(seed: Option<u64>) {
        CHOICES.with(|choices| choices.replace(seed.map(SeededRng::new)));
    }

    /// Returns whether rare paths are taken now and then.
    pub fn is_started() -> bool {
        CHOICES.with(|choices| choices.borrow().is_some())
    }

    /// Decides for `sometimes!`.
    pub fn choose(numerator: u64, denominator: u64) -> bool {
        CHOICES.with(|choices| {
            choices.borrow().as_ref().is_some_and(|rng| rng.chance(numerator, denominator))
        })
    }
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(feature = "sim")]
    fn rare_paths_are_taken_now_and_then() {
        let taken = || (0..1600).filter(|_| sometimes!(1, 16)).count();
        assert_eq!(taken(), 0);
        super::start(Some(1));
        let rare = taken();
        assert!((50..200).contains(&rare), "{rare}");
        super::start(None);
        assert_eq!(taken(), 0);
    }

    #[test]
    #[cfg(not(feature = "sim"))]
    fn nothing_is_left_in_normal_builds() {
        let rare: bool = sometimes!(1, 1);
        assert!(!rare);
    }
}
