//! What a vacuum does between two pages: it looks for interrupts, and rests if it has done enough.
//!
//! All threads of one vacuum share it, so that several disturb others no more than one would. Who rests keeps the others
//! from going on; who is told to stop stops them all.

use std::time::Duration;

use niwaki_env::sync::Mutex;
use niwaki_table::{Error, Result};
use niwaki_txn::{Interrupted, SessionControl, Sleep};

use crate::cost::{CostBalance, CostOptions};

/// The rests of one vacuum.
#[derive(Debug)]
pub(crate) struct Rests<'s> {
    session: &'s SessionControl,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    cost: CostBalance,
    reads: u64,
    /// One thread was told: a session tells an interrupt once.
    over: Option<Interrupted>,
}

impl<'s> Rests<'s> {
    pub(crate) fn new(session: &'s SessionControl, cost: CostOptions) -> Self {
        let state = State { cost: CostBalance::new(cost), reads: 0, over: None };
        Self { session, state: Mutex::new(state) }
    }

    /// A page was visited, `reads` pages were read for it and those that come next, and it was changed or not. No
    /// latch is held. The lock is kept while it sleeps: the session has one thread that waits, as it expects.
    ///
    /// # Errors
    /// The session's interrupts, of whichever thread met them.
    pub(crate) fn rest(&self, reads: u64, changed: bool) -> Result<()> {
        let mut state = self.state.lock();
        state.reads += reads;
        if state.over.is_none() {
            let reads = u32::try_from(reads).unwrap_or(u32::MAX);
            let done = match state.cost.visit(reads, changed) {
                None => self.session.check_interrupts(),
                Some(time) => self.session.sleep(time, Sleep::VacuumDelay),
            };
            state.over = done.err();
        }
        match state.over {
            Some(why) => Err(Error::Transaction(why.into())),
            None => Ok(()),
        }
    }

    /// As [`Rests::rest`], after a page that was only looked at; then waits for `nap` or less, whatever the clock says. No
    /// other thread is at work.
    ///
    /// # Errors
    /// As [`Rests::rest`].
    pub(crate) fn rest_and_nap(&self, nap: Duration) -> Result<()> {
        self.rest(0, false)?;
        let done = if nap.is_zero() { Ok(()) } else { self.session.nap(nap) };
        done.map_err(|why| Error::Transaction(why.into()))
    }

    /// Pages that were read so far, by all threads.
    pub(crate) fn reads(&self) -> u64 {
        self.state.lock().reads
    }
}
