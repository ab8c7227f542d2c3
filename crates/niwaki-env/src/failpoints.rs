//! Places where a simulation may interfere.
//!
//! `failpoint!("wal.before_flush")` is a point where threads may be switched, and where a test may
//! have something done; `failpoint!("wal.before_flush", return Err(…))` runs the statement when a
//! test has armed the point. `if sometimes!(1, 16) || full { … }` takes a rare path on purpose: it
//! chooses, never changes, what production can do. In builds without the feature `sim` both
//! disappear: the first is nothing, the second is `false`.

/// Marks a place where a simulation may interfere.
#[cfg(not(feature = "sim"))]
#[macro_export]
macro_rules! failpoint {
    ($site:literal) => {};
    ($site:literal, $action:expr) => {};
}

/// Marks a place where a simulation may interfere.
#[cfg(feature = "sim")]
#[macro_export]
macro_rules! failpoint {
    ($site:literal) => {
        $crate::failpoints::hit($site);
    };
    ($site:literal, $action:expr) => {
        if $crate::failpoints::hit($site) {
            $action;
        }
    };
}

/// Whether this build is one for simulations: what is done once enough of something has gathered is done for
/// little then, so that it happens in short runs.
pub const SIMULATED: bool = cfg!(feature = "sim");

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
        $crate::failpoints::choose($numerator, $denominator)
    };
}

#[cfg(feature = "sim")]
pub use simulation::{Action, arm, choose, disarm, hit, hits, start};

#[cfg(feature = "sim")]
mod simulation {
    use std::collections::BTreeMap;

    use parking_lot::Mutex;

    use crate::environment::Crashed;
    use crate::rng::SeededRng;

    /// What an armed failpoint does.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Action {
        /// Runs the statement given at the place.
        Trigger,
        /// Panics with [`Crashed`]: the simulated process ends here.
        Crash,
    }

    struct Armed {
        action: Action,
        after: u64,
    }

    struct State {
        rng: Option<SeededRng>,
        armed: BTreeMap<String, Armed>,
        hits: BTreeMap<&'static str, u64>,
    }

    static STATE: Mutex<State> =
        Mutex::new(State { rng: None, armed: BTreeMap::new(), hits: BTreeMap::new() });

    /// Starts a simulation: forgets what was armed and counted, and from here on `sometimes!` is
    /// what `seed` says. `None` makes it always false.
    pub fn start(seed: Option<u64>) {
        let rng = seed.map(SeededRng::new);
        *STATE.lock() = State { rng, armed: BTreeMap::new(), hits: BTreeMap::new() };
    }

    /// Lets the place named `site` do `action` once, after `after` more visits.
    pub fn arm(site: &str, action: Action, after: u64) {
        STATE.lock().armed.insert(site.to_owned(), Armed { action, after });
    }

    /// Undoes [`arm`].
    pub fn disarm(site: &str) {
        STATE.lock().armed.remove(site);
    }

    /// How often each place was visited.
    pub fn hits() -> BTreeMap<&'static str, u64> {
        STATE.lock().hits.clone()
    }

    /// A visit; true when the statement at the place is to run.
    ///
    /// # Panics
    /// With [`Crashed`] when the place is armed to crash.
    pub fn hit(site: &'static str) -> bool {
        crate::sync::yield_point();
        let action = {
            let mut state = STATE.lock();
            *state.hits.entry(site).or_default() += 1;
            match state.armed.get_mut(site) {
                None => None,
                Some(armed) if armed.after > 0 => {
                    armed.after -= 1;
                    None
                }
                Some(_) => state.armed.remove(site).map(|armed| armed.action),
            }
        };
        if action == Some(Action::Crash) {
            std::panic::panic_any(Crashed { reason: format!("failpoint {site}") });
        }
        action == Some(Action::Trigger)
    }

    /// The decision behind `sometimes!`.
    pub fn choose(numerator: u64, denominator: u64) -> bool {
        STATE.lock().rng.as_ref().is_some_and(|rng| rng.chance(numerator, denominator))
    }
}

#[cfg(test)]
mod tests {
    fn guarded() -> Result<(), &'static str> {
        failpoint!("test.guarded", return Err("injected"));
        Ok(())
    }

    #[test]
    #[cfg(feature = "sim")]
    fn an_armed_point_triggers_once() {
        super::start(Some(1));
        super::arm("test.guarded", super::Action::Trigger, 1);
        assert_eq!([guarded(), guarded(), guarded()], [Ok(()), Err("injected"), Ok(())]);
        assert_eq!(super::hits()["test.guarded"], 3);
        let rare = (0..1600).filter(|_| sometimes!(1, 16)).count();
        assert!((50..200).contains(&rare), "{rare}");
    }

    #[test]
    #[cfg(not(feature = "sim"))]
    fn nothing_is_left_in_normal_builds() {
        assert_eq!(guarded(), Ok(()));
        let rare: bool = sometimes!(1, 1);
        assert!(!rare);
    }
}
