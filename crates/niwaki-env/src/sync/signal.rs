//! How a background thread is told to end, or to look around now.

use std::fmt;
use std::time::Duration;

use super::{Condvar, Mutex};

/// Shared by a background thread, which waits, and by who owns it.
#[derive(Default)]
pub struct Signal {
    stop: Mutex<bool>,
    changed: Condvar,
}

impl Signal {
    /// Waits for a while, or until somebody calls [`Signal::wake`] or [`Signal::set_stop`]. Whether to stop: then it does not
    /// wait at all. A wake-up that comes while nobody waits is not kept.
    pub fn wait(&self, time: Duration) -> bool {
        let mut stop = self.stop.lock();
        if !*stop {
            self.changed.wait_for(&mut stop, time);
        }
        *stop
    }

    /// Ends all waits.
    pub fn wake(&self) {
        self.changed.notify_all();
    }

    /// Says whether those who wait are to stop, and ends all waits.
    pub fn set_stop(&self, stop: bool) {
        *self.stop.lock() = stop;
        self.wake();
    }

    /// Whether to stop.
    pub fn is_stopped(&self) -> bool {
        *self.stop.lock()
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signal").finish_non_exhaustive()
    }
}
