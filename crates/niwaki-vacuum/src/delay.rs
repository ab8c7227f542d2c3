//! Delay points: vacuum delays and interrupt checks between two pages.
//!
//! All threads of one vacuum share one state, so that several disturb other sessions no more than
//! one would. A thread that sleeps keeps the others from going on. A thread that meets an interrupt
//! stops them all.

use std::time::Duration;

use niwaki_env::sync::Mutex;
use niwaki_table::{Error, Result};
use niwaki_txn::{Interrupted, SessionControl, Sleep};

use crate::cost::{CostBalance, CostOptions};

/// The delays of one vacuum.
#[derive(Debug)]
pub(crate) struct DelayPoints<'s> {
    session: &'s SessionControl,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    cost: CostBalance,
    reads: u64,
    /// The interrupt that one thread got: a session reports an interrupt only once.
    over: Option<Interrupted>,
}

impl<'s> DelayPoints<'s> {
    pub(crate) fn new(session: &'s SessionControl, cost: CostOptions) -> Self {
        let state = State { cost: CostBalance::new(cost), reads: 0, over: None };
        Self { session, state: Mutex::new(state) }
    }

    /// Adds the cost of a visited page, checks for interrupts, and sleeps if due. `reads` pages
    /// were read, for it and for the next ones. No latch is held. The lock is kept during the
    /// sleep: the session expects one thread to wait.
    ///
    /// # Errors
    /// The session's interrupts, whichever thread met them.
    pub(crate) fn delay_point(&self, reads: u64, changed: bool) -> Result<()> {
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
        debug_assert!(
            !matches!(state.over, Some(Interrupted::LockTimeout)),
            "a delay point waits for no lock"
        );
        match state.over {
            Some(why) => Err(Error::Transaction(why.into())),
            None => Ok(()),
        }
    }

    /// Does the same as [`DelayPoints::delay_point`], after a page that was only looked at. Then
    /// waits for `nap` or less, whatever the clock says. No other thread works for this vacuum.
    ///
    /// # Errors
    /// As [`DelayPoints::delay_point`].
    pub(crate) fn delay_point_and_nap(&self, nap: Duration) -> Result<()> {
        self.delay_point(0, false)?;
        let done = if nap.is_zero() { Ok(()) } else { self.session.nap(nap) };
        done.map_err(|why| Error::Transaction(why.into()))
    }

    /// Returns the number of pages read so far, by all threads.
    pub(crate) fn reads(&self) -> u64 {
        self.state.lock().reads
    }
}
