//! Waiting: on the session's own parker, until granted, interrupted or out of time.

use std::time::Duration;

use niwaki_env::sync::atomic::Ordering;

use super::LockKey;
use crate::error::{Error, Interrupted, Result};
use crate::session::SessionControl;

/// Signal: the wait goes on.
pub(crate) const WAITING: u8 = 0;
/// Signal: what was waited for is there.
pub(crate) const GRANTED: u8 = 1;

/// What a session waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitInfo {
    pub(crate) key: LockKey,
    /// Monotonic time at which the wait began.
    pub(crate) since: Duration,
}

impl SessionControl {
    /// Arms the signal; before the session enters any queue.
    pub(crate) fn prepare_wait(&self, key: LockKey) {
        self.signal.store(WAITING, Ordering::Relaxed);
        *self.waiting.lock() = Some(WaitInfo { key, since: self.now() });
    }

    /// Ends the wait of this session with success.
    pub(crate) fn grant(&self) {
        // Release: pairs with the acquire in `granted`.
        self.signal.store(GRANTED, Ordering::Release);
        self.parker.unpark();
    }

    pub(crate) fn granted(&self) -> bool {
        self.signal.load(Ordering::Acquire) == GRANTED
    }

    /// Waits for [`SessionControl::grant`].
    pub(crate) fn wait_granted(&self, find_deadlock: impl Fn() -> Option<String>) -> Result<()> {
        let result = self.wait_loop(find_deadlock);
        *self.waiting.lock() = None;
        result
    }

    fn wait_loop(&self, find_deadlock: impl Fn() -> Option<String>) -> Result<()> {
        let begin = self.now();
        let mut deadlock_at = Some(begin.saturating_add(self.manager().options().deadlock_timeout));
        let lock_end = self.lock_timeout().map(|timeout| begin.saturating_add(timeout));
        // Ends: by the grant, by an interrupt or a timeout, or by the end of the other transaction.
        loop {
            if self.granted() {
                return Ok(());
            }
            self.check_interrupts()?;
            let now = self.now();
            if lock_end.is_some_and(|end| now >= end) {
                return Err(Interrupted::LockTimeout.into());
            }
            if deadlock_at.is_some_and(|at| now >= at) {
                deadlock_at = None;
                if let Some(detail) = find_deadlock() {
                    return Err(Error::Deadlock { detail });
                }
                continue;
            }
            match [deadlock_at, lock_end, self.deadline()].into_iter().flatten().min() {
                Some(until) => {
                    self.parker.park_timeout(until.saturating_sub(now));
                }
                None => self.parker.park(),
            }
        }
    }
}
