//! The signal that ends the wait of a session, and what other sessions see of the wait.

use niwaki_env::sync::atomic::Ordering;
use niwaki_storage::Xid;

use crate::handle::session::{SessionControl, WaitInfo};
use crate::locks::key::LockKey;

/// Signal: the wait goes on.
const WAITING: u8 = 0;
/// Signal: the awaited lock or event is there.
const GRANTED: u8 = 1;

const _: () = assert!(WAITING == 0, "the signal of a new session is 0");
const _: () = assert!(WAITING != GRANTED, "a wait would end as it begins");

impl SessionControl {
    /// Arms the signal. Call it before the session enters any queue.
    pub(crate) fn prepare_wait(&self, key: LockKey) {
        self.signal.store(WAITING, Ordering::Relaxed);
        let number = self.waits.fetch_add(1, Ordering::Relaxed);
        let since = self.now();
        let wait = WaitInfo { key, since, number, checked: false };
        let before = self.waiting.lock().replace(wait);
        // A session that waits for several holders of one lock prepares itself for each.
        debug_assert!(
            before.is_none_or(|before| before.key == key),
            "{self:?} waits for {key:?} during {before:?}"
        );
    }

    /// Ends the wait. From here on it is part of no cycle, even if the session has not left its
    /// queue yet.
    pub(crate) fn end_wait(&self) {
        *self.waiting.lock() = None;
    }

    /// Notes that the session looks for deadlocks. Returns whether it did so earlier in this wait.
    pub(crate) fn note_deadlock_check(&self) -> bool {
        let mut waiting = self.waiting.lock();
        waiting.as_mut().is_some_and(|wait| std::mem::replace(&mut wait.checked, true))
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

    /// Returns the wait in progress, unless it was granted already.
    pub(crate) fn current_wait(&self) -> Option<WaitInfo> {
        let wait = *self.waiting.lock();
        wait.filter(|_| !self.granted())
    }

    /// Returns the transaction whose end the session waits for.
    pub(crate) fn awaited_xid(&self) -> Option<Xid> {
        match self.current_wait()?.key {
            LockKey::Transaction(xid) => Some(xid),
            _ => None,
        }
    }
}
