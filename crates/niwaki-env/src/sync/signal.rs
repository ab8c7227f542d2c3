//! A signal to a background thread to stop, or to look for work now.

use std::fmt;
use std::time::Duration;

use super::{Condvar, Mutex};

/// A signal shared by a background thread, which waits, and its owner.
#[derive(Default)]
pub struct Signal {
    stop: Mutex<bool>,
    changed: Condvar,
}

impl Signal {
    /// Waits for `time`, or until a thread calls [`Signal::wake`] or [`Signal::set_stop`]. Returns
    /// whether to stop; if so already, it does not wait at all. A wake-up without a waiting thread
    /// is not kept.
    pub fn wait(&self, time: Duration) -> bool {
        let mut stop = self.stop.lock();
        if !*stop {
            self.changed.wait_for(&mut stop, time);
        }
        *stop
    }

    /// Ends all waits in progress.
    pub fn wake(&self) {
        self.changed.notify_all();
    }

    /// Sets whether the waiting threads have to stop, and ends all waits in progress.
    pub fn set_stop(&self, stop: bool) {
        *self.stop.lock() = stop;
        self.wake();
    }

    /// Returns whether to stop.
    pub fn is_stopped(&self) -> bool {
        *self.stop.lock()
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signal").finish_non_exhaustive()
    }
}
