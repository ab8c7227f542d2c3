//! One lock: who holds it in which modes, and who waits, in order.

use std::collections::VecDeque;
use std::sync::Arc;

use super::LockKey;
use super::mode::Mode;
use crate::session::SessionControl;

/// A lock that somebody holds or waits for.
#[derive(Debug, Default)]
pub(crate) struct Entry {
    pub(crate) granted: Vec<Grant>,
    pub(crate) waiters: VecDeque<Waiter>,
    /// Those who wait for the holders of a moment, and stand in nobody's way.
    pub(crate) observers: Vec<Observer>,
    /// What a row that moved to another page took along to its new place.
    pub(crate) carried: Vec<Carried>,
}

/// A lock that is held in another place too, and released there with this one.
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
    /// Wants the lock; else it only wants to know that it could have it. (Were a lock taken for that
    /// and given back, two who ask could find each other's for ever.)
    pub(crate) keeps: bool,
}

/// A session that waits until those who held the lock at one moment have let go of it. Who comes later
/// is not waited for, and does not wait.
#[derive(Debug)]
pub(crate) struct Observer {
    pub(crate) session: Arc<SessionControl>,
    /// What it does not take: holders of a mode that this excludes matter.
    pub(crate) mode: Mode,
    /// Holders that have not let go since.
    pub(crate) holders: Vec<Arc<SessionControl>>,
}

/// What came of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// The session held it before.
    Held,
    Granted,
    Busy,
}

impl Entry {
    /// The modes in which those sessions hold it.
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

    /// Grants the lock if nobody excludes it and, unless it `jumps` the queue, nobody is to have it before.
    pub(crate) fn attempt(
        &mut self,
        session: &Arc<SessionControl>,
        mode: Mode,
        keeps: bool,
        jumps: bool,
    ) -> Attempt {
        let own = self.modes_of(session);
        if own & mode.bit != 0 {
            return Attempt::Held;
        }
        if self.modes_of_others(session) & mode.excludes != 0 {
            return Attempt::Busy;
        }
        // Behind the waiters that would exclude it, unless they wait for what this session holds:
        // then waiting for them would never end.
        let mut waiters = self.waiters.iter();
        let queued = !jumps
            && waiters.any(|waiter| {
                mode.excludes & waiter.mode.bit != 0 && waiter.mode.excludes & own == 0
            });
        if queued {
            return Attempt::Busy;
        }
        if keeps {
            self.add_modes(session, mode.bit);
        }
        Attempt::Granted
    }

    pub(crate) fn add_modes(&mut self, session: &Arc<SessionControl>, modes: u8) {
        match self.granted.iter_mut().find(|grant| is(&grant.session, session)) {
            Some(grant) => grant.modes |= modes,
            None => self.granted.push(Grant { session: Arc::clone(session), modes }),
        }
    }

    /// Whether the session would wait for a waiter that waits for it, each for what the other one
    /// holds of this lock.
    pub(crate) fn crosses(&self, session: &SessionControl, mode: Mode) -> bool {
        let own = self.modes_of(session);
        self.waiters.iter().any(|waiter| {
            waiter.mode.excludes & own != 0 && self.modes_of(&waiter.session) & mode.excludes != 0
        })
    }

    /// Puts the session into the queue: before the first waiter that waits for what it holds already,
    /// else at the end.
    pub(crate) fn enqueue(&mut self, session: &Arc<SessionControl>, mode: Mode, keeps: bool) {
        let own = self.modes_of(session);
        let first = self.waiters.iter().position(|waiter| waiter.mode.excludes & own != 0);
        let at = first.unwrap_or(self.waiters.len());
        self.waiters.insert(at, Waiter { session: Arc::clone(session), mode, keeps });
    }

    /// What the session waits to see gone, if it is an observer.
    pub(crate) fn observed_by<'e>(
        &'e self,
        session: &'e SessionControl,
    ) -> impl Iterator<Item = &'e Observer> {
        self.observers.iter().filter(move |observer| is(&observer.session, session))
    }

    /// The session's place in the queue.
    pub(crate) fn place_of(&self, session: &SessionControl) -> Option<usize> {
        self.waiters.iter().position(|waiter| is(&waiter.session, session))
    }

    /// Grants what can be granted, in order: nobody passes a waiter ahead that excludes it.
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
    }

    /// Other sessions that hold one of these modes.
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

    /// Tells the observers that the session has let go of what it has no more. Called with every
    /// release, so that a session that locks again at once is not taken for one that never let go.
    fn tell_observers(&mut self, session: &SessionControl) {
        let left = self.modes_of(session);
        self.observers.retain_mut(|observer| {
            let excludes = observer.mode.excludes;
            observer.holders.retain(|holder| !is(holder, session) || left & excludes != 0);
            if observer.holders.is_empty() {
                observer.session.grant();
            }
            !observer.holders.is_empty()
        });
    }

    /// Takes modes away from the session and grants what that frees.
    pub(crate) fn remove_modes(&mut self, session: &SessionControl, modes: u8) {
        if let Some(at) = self.granted.iter().position(|grant| is(&grant.session, session)) {
            self.granted[at].modes &= !modes;
            if self.granted[at].modes == 0 {
                self.granted.swap_remove(at);
            }
        }
        self.tell_observers(session);
        self.grant_waiters();
    }

    /// What was carried along of these modes of the session, which releases them.
    pub(crate) fn take_carried(&mut self, session: &SessionControl, modes: u8) -> Vec<Carried> {
        let backend = session.backend();
        let goes = |carried: &mut Carried| carried.backend == backend && carried.modes & modes != 0;
        self.carried.extract_if(.., goes).collect()
    }

    /// Whether it says more than who holds it.
    pub(crate) fn is_wanted(&self) -> bool {
        !(self.waiters.is_empty() && self.observers.is_empty() && self.carried.is_empty())
    }
}

/// Whether the two are one session.
pub(crate) fn is(one: &SessionControl, other: &SessionControl) -> bool {
    std::ptr::eq(one, other)
}
