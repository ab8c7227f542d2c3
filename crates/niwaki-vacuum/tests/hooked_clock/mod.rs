//! A clock that calls a hook at each reading.
//!
//! A vacuum whose delays have a length reads the clock at each delay. There a test looks at the
//! state that other sessions see meanwhile, or cancels.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part")]

use std::fmt;
use std::time::Duration;

use niwaki_env::clock::Clock;
use niwaki_env::sync::Mutex;
use niwaki_env::sync::plain_atomic::{AtomicU64, Ordering};

type Hook = Box<dyn FnMut() + Send>;

/// A test clock. Each reading moves it by a second, which is longer than a delay: no thread sleeps.
#[derive(Default)]
pub(crate) struct HookedClock {
    readings: AtomicU64,
    hook: Mutex<Option<Hook>>,
}

/// 2026-01-01 00:00:00 UTC.
const START_UNIX_US: i64 = 1_767_225_600_000_000;

impl HookedClock {
    /// Sets the hook of each reading. The hook may read the clock itself.
    pub(crate) fn at_each_reading(&self, hook: impl FnMut() + Send + 'static) {
        *self.hook.lock() = Some(Box::new(hook));
    }

    /// Removes the hook.
    pub(crate) fn quiet(&self) {
        *self.hook.lock() = None;
    }

    /// Returns the number of readings.
    pub(crate) fn readings(&self) -> u64 {
        self.readings.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for HookedClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HookedClock({})", self.readings())
    }
}

impl Clock for HookedClock {
    fn now_unix_us(&self) -> i64 {
        START_UNIX_US.saturating_add_unsigned(self.readings() * 1_000_000)
    }

    fn monotonic(&self) -> Duration {
        let reading = self.readings.fetch_add(1, Ordering::Relaxed) + 1;
        let hook = self.hook.lock().take();
        if let Some(mut hook) = hook {
            hook();
            self.hook.lock().get_or_insert(hook);
        }
        Duration::from_secs(reading)
    }
}
