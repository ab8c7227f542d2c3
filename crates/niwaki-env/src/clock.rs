//! Wall and monotonic time.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Source of time.
pub trait Clock: Send + Sync + Debug {
    /// Returns microseconds since 1970-01-01 00:00:00 UTC.
    fn now_unix_us(&self) -> i64;
    /// Returns the time since an arbitrary fixed moment; never goes back.
    fn monotonic(&self) -> Duration;
}

/// The machine's clocks.
#[derive(Debug)]
pub struct OsClock {
    start: Instant,
}

impl OsClock {
    /// Creates the machine's clocks; monotonic time counts from now.
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for OsClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for OsClock {
    fn now_unix_us(&self) -> i64 {
        let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(elapsed.as_micros()).unwrap_or(i64::MAX)
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }
}

/// Start of a [`ManualClock`]: 2026-01-01 00:00:00 UTC.
const MANUAL_START_UNIX_US: i64 = 1_767_225_600_000_000;

/// A clock that moves on request, and by a fixed step at every reading.
///
/// The step makes every wait with a deadline end, even where nothing else moves the clock. Under
/// the deterministic scheduler a timed wait that times out moves every manual clock by its length.
#[derive(Debug)]
pub struct ManualClock {
    elapsed_us: AtomicU64,
    step_us: u64,
    /// Simulated waiting time before this clock existed.
    base_us: u64,
}

impl ManualClock {
    /// Creates a clock that moves only by [`ManualClock::advance`].
    pub fn new() -> Self {
        Self::ticking(Duration::ZERO)
    }

    /// Creates a clock that also moves by `step` (whole microseconds) at every reading.
    pub fn ticking(step: Duration) -> Self {
        Self {
            elapsed_us: AtomicU64::new(0),
            step_us: micros(step),
            base_us: crate::sync::waited_us(),
        }
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        // Relaxed: no other data is published through the value.
        self.elapsed_us.fetch_add(micros(by), Ordering::Relaxed);
    }

    fn read_us(&self) -> u64 {
        let own = self.elapsed_us.fetch_add(self.step_us, Ordering::Relaxed) + self.step_us;
        own + crate::sync::waited_us().saturating_sub(self.base_us)
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn now_unix_us(&self) -> i64 {
        MANUAL_START_UNIX_US.saturating_add_unsigned(self.read_us())
    }

    fn monotonic(&self) -> Duration {
        Duration::from_micros(self.read_us())
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_only_when_told() {
        let clock = ManualClock::new();
        assert_eq!(clock.monotonic(), clock.monotonic());
        let before = clock.now_unix_us();
        clock.advance(Duration::from_secs(3));
        assert_eq!(clock.now_unix_us() - before, 3_000_000);
    }

    #[test]
    fn a_ticking_clock_ends_every_wait() {
        let clock = ManualClock::ticking(Duration::from_micros(5));
        let deadline = clock.monotonic() + Duration::from_millis(1);
        let readings = (0..1000).take_while(|_| clock.monotonic() < deadline).count();
        assert_eq!(readings, 199);
    }
}
