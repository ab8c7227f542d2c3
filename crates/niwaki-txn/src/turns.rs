//! Long statements make room for short ones: between two of its steps, a thread that has had a processor for a while
//! lets those run that wait for one.
//!
//! The system takes a processor away from a busy thread at its own clock's ticks, some milliseconds apart. Who wakes up
//! meanwhile, a session whose commit has reached the disk, or its client, waits that long, at each of the several times a
//! short transaction wakes up. Beside a report and an autovacuum on two processors this made transactions of one
//! millisecond take ten or more, and those behind them wait for a tenth of a second.

use std::time::Duration;

use niwaki_env::SIMULATED;
use niwaki_env::clock::{Clock, OsClock};
use niwaki_env::sync::atomic::Ordering;
use niwaki_env::sync::{plain_atomic, thread};

/// So long a thread goes on before it lets others run.
const TURN: Duration = Duration::from_micros(250);
/// A statement's first steps do not look at the clock: most statements have no more.
const FIRST_STEPS: u64 = 8;

/// The turns of one session. Relaxed throughout: its own thread asks; where several work for it, an error costs a yield.
#[derive(Debug)]
pub(crate) struct Turns {
    /// The machine's, whatever the database is told of time: its processors are shared.
    clock: OsClock,
    /// Since the statement began, up to [`FIRST_STEPS`].
    steps: plain_atomic::AtomicU64,
    /// When the turn began, in microseconds; 0 if nobody has looked yet.
    began_us: plain_atomic::AtomicU64,
}

impl Turns {
    pub(crate) fn new() -> Self {
        let (steps, began_us) = Default::default();
        Self { clock: OsClock::new(), steps, began_us }
    }

    /// A statement begins.
    #[inline]
    pub(crate) fn begin(&self) {
        self.steps.store(0, Ordering::Relaxed);
        self.began_us.store(0, Ordering::Relaxed);
    }

    /// Between two steps, with no latch held: lets others run if the turn is over.
    #[inline]
    pub(crate) fn step(&self) {
        // Whose turn it is there says the schedule.
        if !SIMULATED {
            self.step_at(|| self.clock.monotonic().as_micros() as u64);
        }
    }

    #[inline]
    fn step_at(&self, now_us: impl Fn() -> u64) -> bool {
        let steps = self.steps.load(Ordering::Relaxed);
        if steps < FIRST_STEPS {
            self.steps.store(steps + 1, Ordering::Relaxed);
            return false;
        }
        self.step_by_clock(now_us)
    }

    fn step_by_clock(&self, now_us: impl Fn() -> u64) -> bool {
        let began = self.began_us.load(Ordering::Relaxed);
        let now = now_us().max(1);
        if began != 0 && now.saturating_sub(began) < TURN.as_micros() as u64 {
            return false;
        }
        let over = began != 0;
        if over {
            thread::yield_now();
        }
        // Of which the time that others had is no part.
        self.began_us.store(if over { now_us().max(1) } else { now }, Ordering::Relaxed);
        over
    }
}

// A schedule has no processors to share.
#[cfg(all(test, not(any(feature = "shuttle", feature = "loom"))))]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_long_statement_lets_others_run_and_a_short_one_does_not_look_at_the_clock() {
        let (turns, now, looks) = (Turns::new(), Cell::new(5), Cell::new(0));
        let step = |us: u64| {
            now.set(now.get() + us);
            turns.step_at(|| {
                looks.set(looks.get() + 1);
                now.get()
            })
        };
        for _ in 0..2 {
            turns.begin();
            looks.set(0);
            assert!((0..FIRST_STEPS).all(|_| !step(1000)));
            assert_eq!(looks.get(), 0, "a short statement");
            // The first look only begins a turn.
            assert!(!step(1000) && !step(100) && !step(149));
            assert!(step(1), "250 us are over");
            assert!(!step(249));
            assert!(step(1));
            assert!(step(1000));
        }
    }
}
