//! Long statements yield the processor to short ones.
//!
//! Between two of its steps, a thread that has had a processor for one time slice lets waiting
//! threads run.
//!
//! The operating system takes a processor away from a busy thread only at its own clock's ticks,
//! some milliseconds apart. A thread that wakes up meanwhile waits that long. Examples are a
//! session whose commit has reached the disk, and its client. A short transaction wakes up several
//! times and waits each time.
//!
//! With a report and an autovacuum on two processors, transactions of one millisecond took ten or
//! more. The transactions behind them waited for a tenth of a second.

use std::time::Duration;

use niwaki_env::SIMULATED;
use niwaki_env::clock::{Clock, OsClock};
use niwaki_env::sync::atomic::Ordering;
use niwaki_env::sync::{plain_atomic, thread};

/// Time that a thread runs before it yields: 250 microseconds.
const TIME_SLICE: Duration = Duration::from_micros(250);
/// Steps of a statement that do not read the clock: most statements have no more.
const FIRST_STEPS: u64 = 8;

const _: () = assert!(TIME_SLICE.as_micros() > 0, "a thread would yield at each step");

/// The time slices of one session. Relaxed throughout: normally only the session's own thread asks.
/// With parallel workers an error costs one superfluous or missing yield.
#[derive(Debug)]
pub(crate) struct TimeSlices {
    /// The machine's clock, even if the database runs on another clock: the machine's processors
    /// are shared.
    clock: OsClock,
    /// Steps since the statement began, up to [`FIRST_STEPS`].
    steps: plain_atomic::AtomicU64,
    /// Start of the time slice, in microseconds; 0 before the first reading of the clock.
    began_us: plain_atomic::AtomicU64,
}

impl TimeSlices {
    pub(crate) fn new() -> Self {
        let (steps, began_us) = Default::default();
        Self { clock: OsClock::new(), steps, began_us }
    }

    /// Begins a statement.
    #[inline]
    pub(crate) fn begin(&self) {
        self.steps.store(0, Ordering::Relaxed);
        self.began_us.store(0, Ordering::Relaxed);
    }

    /// Yields if the time slice is over. Call it between two steps, with no latch held.
    #[inline]
    pub(crate) fn step(&self) {
        // In a simulation the schedule decides which thread runs.
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
        if began != 0 && now.saturating_sub(began) < TIME_SLICE.as_micros() as u64 {
            return false;
        }
        let over = began != 0;
        if over {
            thread::yield_now();
        }
        // The next time slice does not include the time that other threads had.
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
        let (slices, now, looks) = (TimeSlices::new(), Cell::new(5), Cell::new(0));
        let step = |us: u64| {
            now.set(now.get() + us);
            slices.step_at(|| {
                looks.set(looks.get() + 1);
                now.get()
            })
        };
        for _ in 0..2 {
            slices.begin();
            looks.set(0);
            assert!((0..FIRST_STEPS).all(|_| !step(1000)));
            assert_eq!(looks.get(), 0, "a short statement");
            // The first look only begins a time slice.
            assert!(!step(1000) && !step(100) && !step(149));
            assert!(step(1), "250 us are over");
            assert!(!step(249));
            assert!(step(1));
            assert!(step(1000));
        }
    }
}
