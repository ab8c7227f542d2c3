//! One lock of the lock table: its holders with their modes, and its waiters in order.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::handle::session::SessionControl;
use crate::locks::key::LockKey;
use crate::locks::mode::Mode;

/// A lock that sessions hold or wait for.
#[derive(Debug, Default)]
pub(crate) struct Entry {
    pub(crate) granted: Vec<Grant>,
    pub(crate) waiters: VecDeque<Waiter>,
    /// Sessions that wait for the holders of one moment, and block no other session.
    pub(crate) holder_waiters: Vec<HolderWaiter>,
    /// Locks that a row took along when it moved to another page.
    pub(crate) carried: Vec<Carried>,
}

/// A lock that is held in another place too, and released there together with this one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Carried {
    pub(crate) to: LockKey,
    pub(crate) backend: i32,
    pub(crate) modes: u8,
}

/// All modes that one session holds.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) session: Arc<SessionControl>,
    pub(crate) modes: u8,
}

/// A session in the queue.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) session: Arc<SessionControl>,
    pub(crate) mode: Mode,
    /// True if the waiter takes the lock. False for a probe, which only waits until it could take
    /// the lock. (If probes took the lock and gave it back, two probes could meet each other's lock
    /// for ever.)
    pub(crate) keeps: bool,
}

/// A session that waits until the holders of one moment have released the lock. It does not wait
/// for later holders, and later holders do not wait for it.
#[derive(Debug)]
pub(crate) struct HolderWaiter {
    pub(crate) session: Arc<SessionControl>,
    /// The mode that the session does not take: it waits for holders of the modes that this mode
    /// excludes.
    pub(crate) mode: Mode,
    /// Holders that have not released the lock since.
    pub(crate) holders: Vec<Arc<SessionControl>>,
}

/// Outcome of an attempt to take a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// The session held the lock before.
    Held,
    Granted,
    Busy,
}

impl Entry {
    /// Asserts what holds between two operations.
    fn assert_state(&self) {
        debug_assert!(self.granted.iter().all(|it| it.modes != 0), "held in no mode: {self:?}");
        debug_assert!(
            self.holder_waiters.iter().all(|waiter| !waiter.holders.is_empty()),
            "a session waits for no holder: {self:?}"
        );
        debug_assert!(
            self.carried.iter().all(|carried| carried.modes.is_power_of_two()),
            "modes were carried together: {self:?}"
        );
    }

    /// Returns the modes in which the sessions that `whose` selects hold the lock.
    pub(crate) fn modes(&self, whose: impl Fn(&SessionControl) -> bool) -> u8 {
        let grants = self.granted.iter().filter(|grant| whose(&grant.session));
        grants.fold(0, |modes, grant| modes | grant.modes)
    }

    pub(crate) fn modes_of(&self, session: &SessionControl) -> u8 {
        self.modes(|holder| is(holder, session))
    }

    pub(crate) fn modes_of_others(&self, session: &SessionControl) -> u8 {
        self.modes(|holder| !is(holder, session))
    }

    /// Grants the lock if no other session holds an excluding mode. Unless the session `jumps` the
    /// queue, no waiter in front of its place may exclude it either.
    pub(crate) fn attempt(
        &mut self,
        session: &Arc<SessionControl>,
        mode: Mode,
        keeps: bool,
        jumps: bool,
    ) -> Attempt {
        self.assert_state();
        let own = self.modes_of(session);
        if own & mode.bit != 0 {
            return Attempt::Held;
        }
        if self.modes_of_others(session) & mode.excludes != 0 {
            return Attempt::Busy;
        }
        let mut in_front = self.waiters.iter().take(self.queue_place(own));
        if !jumps && in_front.any(|waiter| mode.excludes & waiter.mode.bit != 0) {
            return Attempt::Busy;
        }
        if keeps {
            self.add_modes(session, mode.bit);
        }
        Attempt::Granted
    }

    pub(crate) fn add_modes(&mut self, session: &Arc<SessionControl>, modes: u8) {
        debug_assert_ne!(modes, 0, "a session gets a lock in no mode");
        match self.granted.iter_mut().find(|grant| is(&grant.session, session)) {
            Some(grant) => grant.modes |= modes,
            None => self.granted.push(Grant { session: Arc::clone(session), modes }),
        }
    }

    /// Returns whether the session would wait for a waiter that waits for the session. Each of the
    /// two waits for modes that the other holds of this lock.
    pub(crate) fn crosses(&self, session: &SessionControl, mode: Mode) -> bool {
        let own = self.modes_of(session);
        self.waiters.iter().any(|waiter| {
            waiter.mode.excludes & own != 0 && self.modes_of(&waiter.session) & mode.excludes != 0
        })
    }

    /// Returns the place in the queue of a session that holds the modes `own`: before the first
    /// waiter that waits for one of them, else at the end. Behind that waiter, neither would go on.
    fn queue_place(&self, own: u8) -> usize {
        let first = self.waiters.iter().position(|waiter| waiter.mode.excludes & own != 0);
        first.unwrap_or(self.waiters.len())
    }

    /// Puts the session into the queue.
    pub(crate) fn enqueue(&mut self, session: &Arc<SessionControl>, mode: Mode, keeps: bool) {
        debug_assert!(self.place_of(session).is_none(), "{session:?} waits for one lock twice");
        let own = self.modes_of(session);
        debug_assert!(own & mode.bit == 0, "{session:?} waits for a lock that it holds");
        let at = self.queue_place(own);
        self.waiters.insert(at, Waiter { session: Arc::clone(session), mode, keeps });
    }

    /// Returns the holder waiters of the session for this lock.
    pub(crate) fn holder_waits_of<'e>(
        &'e self,
        session: &'e SessionControl,
    ) -> impl Iterator<Item = &'e HolderWaiter> {
        self.holder_waiters.iter().filter(move |waiter| is(&waiter.session, session))
    }

    /// Returns the session's place in the queue.
    pub(crate) fn place_of(&self, session: &SessionControl) -> Option<usize> {
        self.waiters.iter().position(|waiter| is(&waiter.session, session))
    }

    /// Grants what can be granted, in order: no waiter passes a waiter ahead whose mode it
    /// excludes.
    pub(crate) fn grant_waiters(&mut self) {
        let mut ahead = 0;
        let mut at = 0;
        while at < self.waiters.len() {
            let Waiter { session, mode, .. } = &self.waiters[at];
            let mode = *mode;
            if self.modes_of_others(session) & mode.excludes == 0 && mode.excludes & ahead == 0 {
                let Some(waiter) = self.waiters.remove(at) else { break };
                if waiter.keeps {
                    self.add_modes(&waiter.session, mode.bit);
                }
                waiter.session.grant();
            } else {
                ahead |= mode.bit;
                at += 1;
            }
        }
        debug_assert!(
            self.waiters.front().is_none_or(|first| {
                self.modes_of_others(&first.session) & first.mode.excludes != 0
            }),
            "the first waiter waits for no holder: {self:?}"
        );
    }

    /// Returns the other sessions that hold one of these modes.
    pub(crate) fn other_holders(
        &self,
        session: &SessionControl,
        modes: u8,
    ) -> Vec<Arc<SessionControl>> {
        self.granted
            .iter()
            .filter(|grant| !is(&grant.session, session) && grant.modes & modes != 0)
            .map(|grant| Arc::clone(&grant.session))
            .collect()
    }

    /// Tells the holder waiters which modes the session no longer holds. Called with every release.
    /// Otherwise a session that locks again at once would look like one that never released the
    /// lock.
    fn tell_holder_waiters(&mut self, session: &SessionControl) {
        let left = self.modes_of(session);
        self.holder_waiters.retain_mut(|waiter| {
            let excludes = waiter.mode.excludes;
            waiter.holders.retain(|holder| !is(holder, session) || left & excludes != 0);
            if waiter.holders.is_empty() {
                waiter.session.grant();
            }
            !waiter.holders.is_empty()
        });
    }

    /// Takes modes away from the session and grants the locks that this frees.
    pub(crate) fn remove_modes(&mut self, session: &SessionControl, modes: u8) {
        debug_assert_ne!(modes, 0, "a session releases a lock in no mode");
        if let Some(at) = self.granted.iter().position(|grant| is(&grant.session, session)) {
            self.granted[at].modes &= !modes;
            if self.granted[at].modes == 0 {
                self.granted.swap_remove(at);
            }
        }
        self.tell_holder_waiters(session);
        self.grant_waiters();
        self.assert_state();
    }

    /// Removes and returns the carried locks of the session in these modes; the caller releases
    /// them.
    pub(crate) fn take_carried(&mut self, session: &SessionControl, modes: u8) -> Vec<Carried> {
        let backend = session.backend();
        let goes = |carried: &mut Carried| carried.backend == backend && carried.modes & modes != 0;
        self.carried.extract_if(.., goes).collect()
    }

    /// Returns whether the entry has waiters, holder waiters or carried locks, beside its holders.
    pub(crate) fn is_in_use(&self) -> bool {
        !(self.waiters.is_empty() && self.holder_waiters.is_empty() && self.carried.is_empty())
    }
}

/// Returns whether the two are one session.
pub(crate) fn is(one: &SessionControl, other: &SessionControl) -> bool {
    std::ptr::eq(one, other)
}

#[cfg(all(test, debug_assertions, not(any(feature = "shuttle", feature = "loom"))))]
mod tests {
    use niwaki_env::Env;

    use super::*;
    use crate::{TableLockMode, TransactionManager, TxnOptions};

    /// A session with a weak lock asked for a stronger one. It was put in front of the waiter that
    /// waits for it, and slept for the sake of a waiter behind that one. No release woke it.
    #[test]
    fn a_waiter_behind_ones_place_is_no_reason_to_wait() {
        let manager = TransactionManager::new(Env::memory(), TxnOptions::default());
        let [reader, exclusive, writer] = [(); 3].map(|()| manager.register_session().unwrap());
        let mut entry = Entry::default();
        entry.add_modes(&reader, Mode::from(TableLockMode::AccessShare).bit);
        for (session, mode) in
            [(&exclusive, TableLockMode::AccessExclusive), (&writer, TableLockMode::RowExclusive)]
        {
            assert_eq!(entry.attempt(session, mode.into(), true, false), Attempt::Busy);
            entry.enqueue(session, mode.into(), true);
        }
        let share = TableLockMode::Share.into();
        assert_eq!(entry.attempt(&reader, share, true, false), Attempt::Granted);
    }

    /// A waiter in front of one's place stays in front.
    #[test]
    fn a_waiter_before_ones_place_comes_first() {
        let manager = TransactionManager::new(Env::memory(), TxnOptions::default());
        let [holder, writer, other] = [(); 3].map(|()| manager.register_session().unwrap());
        let mut entry = Entry::default();
        entry.add_modes(&holder, Mode::from(TableLockMode::Share).bit);
        let writes = TableLockMode::RowExclusive.into();
        assert_eq!(entry.attempt(&writer, writes, true, false), Attempt::Busy);
        entry.enqueue(&writer, writes, true);
        let share = TableLockMode::Share.into();
        assert_eq!(entry.attempt(&other, share, true, false), Attempt::Busy);
    }

    #[test]
    #[should_panic(expected = "held in no mode")]
    fn a_holder_without_a_mode_is_noticed() {
        let manager = TransactionManager::new(Env::memory(), TxnOptions::default());
        let session = manager.register_session().unwrap();
        let granted = vec![Grant { session, modes: 0 }];
        Entry { granted, ..Entry::default() }.assert_state();
    }
}
