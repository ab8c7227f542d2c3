//! Waiting: on the session's own parker, until granted, interrupted or out of time.

use std::time::Duration;

use niwaki_env::seeded_bug;
use niwaki_env::sync::atomic::Ordering;
use niwaki_env::sync::spin_loop;

use crate::error::{Interrupted, Result};
use crate::handle::lock_table::LockManager;
use crate::handle::session::SessionControl;

/// Looks at the signal between two readings of the clock.
const SPINS_PER_CLOCK: u32 = 32;
/// Number of deadlock timeouts after which a wait is checked for deadlocks again: an edge may have
/// come from a row that moved.
const RECHECK_AFTER: u32 = 4;
/// Limit of the growing interval between two searches: below it, the interval doubles with each
/// search. A search locks the lock table, and a session may set its timeout to a millisecond.
const RECHECK_OFTEN: Duration = Duration::from_secs(10);

const _: () = assert!(SPINS_PER_CLOCK > 0, "a waiter would read the clock and not the signal");
const _: () = assert!(RECHECK_AFTER > 0, "one search would follow the other without a pause");

impl SessionControl {
    /// Waits for [`SessionControl::grant`]. When `check_for_deadlock` fails, the session is in no
    /// queue any more.
    pub(crate) fn wait_granted(&self, check_for_deadlock: impl Fn() -> Result<()>) -> Result<()> {
        let options = self.manager().options();
        if self.spin(self.manager().locks(), options.spin, options.spinners_max) {
            return Ok(());
        }
        let begin = self.now();
        let deadlock_timeout = self.deadlock_timeout();
        let mut deadlock_at = begin.saturating_add(deadlock_timeout);
        let mut recheck_after = deadlock_timeout.saturating_mul(RECHECK_AFTER);
        let lock_end = self.lock_timeout().map(|timeout| begin.saturating_add(timeout));
        // Ends: by the grant, by an interrupt or a timeout, or by the end of the other transaction.
        loop {
            if self.granted() {
                return Ok(());
            }
            if self.is_interrupted() && !seeded_bug!("waits_uncancelled") {
                // The wait ends first. Otherwise a search would take this wait, which ends now, for
                // part of a deadlock.
                self.end_wait();
                self.interrupted()?;
            }
            let now = self.now();
            if lock_end.is_some_and(|end| now >= end) {
                self.end_wait();
                return Err(Interrupted::LockTimeout.into());
            }
            if now >= deadlock_at {
                deadlock_at = now.saturating_add(recheck_after);
                if recheck_after < RECHECK_OFTEN {
                    recheck_after = recheck_after.saturating_mul(2);
                }
                check_for_deadlock()?;
                continue;
            }
            let until = [Some(deadlock_at), lock_end, self.deadline()].into_iter().flatten().min();
            self.parker.park_timeout(until.unwrap_or(deadlock_at).saturating_sub(now));
        }
    }

    /// Polls the signal for a short while, since a sleeping thread is slow to wake. Only a few
    /// sessions may do so at a time: the awaited session needs a processor too. If spinning hardly
    /// ever helps, the session hardly ever spins.
    fn spin(&self, locks: &LockManager, limit: Duration, spinners_max: usize) -> bool {
        if limit.is_zero() || !locks.spin_stats.is_worth_it() {
            return false;
        }
        let mut granted = self.granted();
        if locks.spinning.fetch_add(1, Ordering::Relaxed) < spinners_max {
            let end = self.now().saturating_add(limit);
            while !granted && self.now() < end {
                for _ in 0..SPINS_PER_CLOCK {
                    spin_loop();
                    granted = self.granted();
                    if granted {
                        break;
                    }
                }
            }
            locks.spin_stats.learn(granted);
        }
        let before = locks.spinning.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "a spinner was not counted");
        granted
    }
}

#[cfg(all(test, not(any(feature = "shuttle", feature = "loom"))))]
mod tests {
    use std::cell::RefCell;
    use std::sync::Arc;

    use niwaki_env::Env;
    use niwaki_env::clock::ManualClock;

    use super::*;
    use crate::{LockKey, TransactionManager, TxnOptions};

    /// Without the growing interval, a session with `deadlock_timeout = '1ms'` locked the lock
    /// table every 4 ms.
    #[test]
    fn looks_for_deadlocks_become_rare() {
        const MICROSECOND: Duration = Duration::from_micros(1);
        let env = Env { clock: Arc::new(ManualClock::ticking(MICROSECOND)), ..Env::memory() };
        let options = TxnOptions { spin: Duration::ZERO, ..TxnOptions::default() };
        let manager = TransactionManager::new(env, options);
        let session = manager.register_session().unwrap();
        session.set_deadlock_timeout(MICROSECOND);
        session.prepare_wait(LockKey::Notifications);
        let looks = RefCell::new(Vec::new());
        let waited = session.wait_granted(|| {
            looks.borrow_mut().push(session.now());
            if looks.borrow().len() == 6 {
                session.grant();
            }
            Ok(())
        });
        assert!(waited.is_ok());
        let mut least = RECHECK_AFTER * MICROSECOND;
        for pair in looks.borrow().windows(2) {
            assert!(pair[1].checked_sub(pair[0]).unwrap() >= least, "{looks:?}");
            least *= 2;
        }
    }
}
