//! A waiting place for one thread and one signal.

use std::time::Duration;

use super::atomic::{AtomicU8, Ordering};
use super::{Condvar, Mutex};

const EMPTY: u8 = 0;
const PARKED: u8 = 1;
const NOTIFIED: u8 = 2;

/// A waiting place with one token: [`Parker::unpark`] leaves the token, [`Parker::park`] waits for
/// it and takes it. A token left before the wait is not lost; two tokens count as one.
///
/// At most one thread may park at a time; any number may unpark.
#[derive(Debug)]
pub struct Parker {
    state: AtomicU8,
    lock: Mutex<()>,
    wake: Condvar,
}

impl Parker {
    /// Creates a parker without a token.
    pub fn new() -> Self {
        Self { state: AtomicU8::new(EMPTY), lock: Mutex::new(()), wake: Condvar::new() }
    }

    /// Waits for the token and takes it.
    pub fn park(&self) {
        if self.take() {
            return;
        }
        let mut guard = self.lock.lock();
        if !self.announce() {
            return;
        }
        // Ends: `unpark` ends the loop; a wake-up without a token goes back to sleep.
        loop {
            self.wake.wait(&mut guard);
            if self.take() {
                return;
            }
        }
    }

    /// Waits for the token for at most `timeout`. Returns true when the token came; may return
    /// false early.
    pub fn park_timeout(&self, timeout: Duration) -> bool {
        if self.take() {
            return true;
        }
        if timeout.is_zero() {
            return false;
        }
        let mut guard = self.lock.lock();
        if !self.announce() {
            return true;
        }
        self.wake.wait_for(&mut guard, timeout);
        // Acquire: pairs with the release in `unpark`.
        self.state.swap(EMPTY, Ordering::Acquire) == NOTIFIED
    }

    /// Leaves the token and wakes the thread that waits for it.
    pub fn unpark(&self) {
        // Release: the thread that takes the token sees everything written before.
        if self.state.swap(NOTIFIED, Ordering::Release) == PARKED {
            // The waiter holds the lock from its announcement until it sleeps. Since this thread
            // had the lock, the notification cannot fall between the two.
            drop(self.lock.lock());
            self.wake.notify_one();
        }
    }

    fn take(&self) -> bool {
        // Acquire: pairs with the release in `unpark`.
        self.state.compare_exchange(NOTIFIED, EMPTY, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Announces that the thread is about to sleep. Returns false when the token came first and was
    /// taken.
    fn announce(&self) -> bool {
        if self.state.compare_exchange(EMPTY, PARKED, Ordering::Acquire, Ordering::Acquire).is_ok()
        {
            true
        } else {
            self.state.swap(EMPTY, Ordering::Acquire);
            false
        }
    }
}

impl Default for Parker {
    fn default() -> Self {
        Self::new()
    }
}
