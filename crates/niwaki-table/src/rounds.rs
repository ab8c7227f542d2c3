//! Rounds over a table: what its writers left when they went is seen to, and the visibility map speaks of its pages again.
//!
//! ```text
//!  nobody wrote since the last round ──► what waits for the gardener, all of it         (gardener.rs)
//!                                    ──► pieces of large values that may go             (values/tend.rs)
//!  pages of which the map says nothing, in the pool, quiet for a while ──► a pass       (niwaki-heap, access.rs)
//!  of a table without a map, all its pages
//!  leaves of its indexes that deletions left half empty ──► packed                     (niwaki-nbtree, pack.rs)
//! ```
//!
//! Tables that somebody writes all the time have rounds, too: what came and went behind an old snapshot lies on pages that may
//! have no other visitor, and an index whose entries go one by one becomes as large as what is left on its sparse leaves.
//!
//! The map is the list of what is to be done: it needs no memory, and cannot be lost. A page that changes all the time is
//! never quiet, and nobody sets a bit that is cleared a moment later. Pages on disk are left to vacuum: a round reads
//! nothing. How much one round does is bounded, and so is what a definition that wants the table waits for.
//!
//! Passes tell the gardener of what they remove. Rounds make no more of it than there is room for: with half of its queue
//! full they wait for the next round, which sees to that first.
//!
//! A table to which nothing is left to do ([`Round::rests`]) needs no round before somebody changes it
//! ([`Engine::take_changed_tables`]).
//!
//! [`Engine::take_changed_tables`]: crate::Engine::take_changed_tables

use std::sync::Arc;

use niwaki_heap::Look;
use niwaki_storage::{Csn, Lsn};
use niwaki_txn::{Horizon, SessionControl};

use crate::error::Result;
use crate::stats::count;
use crate::table::Table;

/// Looks at pages in one round over a table.
const LOOKS_MAX: u32 = 2048;
/// Pages of each index in one round whose leaves are looked at, some hundred each.
const PARENTS_MAX: u32 = 8;

/// What is remembered of a table from one round to the next.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rounds {
    /// Where the next round goes on.
    next_block: u32,
    /// What waited for the gardener when the last one ended.
    waiting: usize,
    /// The same of the pieces of large values.
    values: usize,
    /// The oldest snapshot when the first page was looked at; `None` once some page was passed over, or was too busy.
    fruitless_since: Option<Csn>,
    /// Since then there was a page to which another look may find something to do.
    unfinished: bool,
    /// By this oldest snapshot nothing was to be done on any page: nothing is until it is another one.
    rests_at: Option<Csn>,
    /// Somebody has changed the table since the last round.
    written: bool,
}

impl Rounds {
    /// Somebody has changed the table, or may have.
    pub fn changed(&mut self) {
        (self.rests_at, self.written) = (None, true);
    }

    fn begin_pages(&mut self, oldest: Csn) {
        (self.fruitless_since, self.unfinished) = (Some(oldest), false);
    }

    fn note(&mut self, look: Look) {
        if matches!(look, Look::Passed | Look::Busy) {
            self.fruitless_since = None;
        }
        self.unfinished |= look != Look::Absent;
    }

    /// All pages were looked at. Whether nothing is left to do on any.
    fn end_pages(&mut self, oldest: Csn) -> bool {
        self.next_block = 0;
        // What became visible to all meanwhile would have moved it.
        self.rests_at = self.fruitless_since.filter(|since| *since == oldest);
        !self.unfinished
    }
}

/// What a round came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Pages looked at.
    pub looks: u32,
    /// Of those, how many it passed over.
    pub passes: u32,
    /// Whether there are more pages to look at, of the heap or of an index, and probably something to do there.
    pub soon: bool,
    /// Whether other rounds would find nothing before somebody changes the table.
    pub rests: bool,
}

impl Round {
    fn note(&mut self, look: Look) {
        self.looks += u32::from(look != Look::Absent);
        self.passes += u32::from(look == Look::Passed);
    }
}

impl Table {
    /// One round. The caller holds the table in ROW EXCLUSIVE mode, as writers do. `quiet`: where the log ended a while ago;
    /// pages changed since are let be. Between two pages it lets others run, by `session`.
    ///
    /// # Errors
    /// Storage's; the session's interrupts. What was done stays done.
    pub fn round(
        &self,
        session: &Arc<SessionControl>,
        rounds: &mut Rounds,
        quiet: Lsn,
    ) -> Result<Round> {
        let waiting = self.gardener_waiting();
        if waiting > 0 && (waiting == rounds.waiting || self.gardener_is_half_full()) {
            self.tend_all(session)?;
            // Roots settle by it.
            rounds.rests_at = None;
        } else if self.values_waiting() > 0 && self.values_waiting() == rounds.values {
            self.tend_all_values(session)?;
        }
        let mut round = Round::default();
        self.look_after_pages(session, rounds, quiet, &mut round)?;
        rounds.waiting = self.gardener_waiting();
        rounds.values = self.values_waiting();
        let tended = rounds.waiting == 0;
        // Where somebody writes all the time, something waits always.
        let written = std::mem::take(&mut rounds.written) || !tended;
        let packing = !self.gardener_is_half_full() && self.pack_indexes(written)?;
        round.soon |= packing;
        round.rests &= !written && !packing && rounds.values == 0;
        count(&self.counters.rounds, 1);
        count(&self.counters.round_pages, round.looks.into());
        count(&self.counters.round_passes, round.passes.into());
        Ok(round)
    }

    fn look_after_pages(
        &self,
        session: &SessionControl,
        rounds: &mut Rounds,
        quiet: Lsn,
        round: &mut Round,
    ) -> Result<()> {
        let horizon = self.engine.transactions().horizon();
        if rounds.rests_at == Some(horizon.oldest()) {
            round.rests = !rounds.unfinished;
            return Ok(());
        }
        rounds.rests_at = None;
        match self.heap().has_visibility_map()? {
            true => self.look_after_mapped(session, rounds, quiet, &horizon, round),
            false => self.look_after_unmapped(session, rounds, quiet, &horizon, round),
        }
    }

    /// Packs leaves that deletions left half empty. `written`: somebody writes the table. Whether there are more to look at.
    fn pack_indexes(&self, written: bool) -> Result<bool> {
        let mut more = false;
        for index in self.indexes.iter().filter(|index| index.definition.valid) {
            more |= index.handle.pack_some(PARENTS_MAX, written)?;
        }
        Ok(more)
    }

    /// Goes on over the pages of which the map says nothing.
    fn look_after_mapped(
        &self,
        session: &SessionControl,
        rounds: &mut Rounds,
        quiet: Lsn,
        horizon: &Horizon,
        round: &mut Round,
    ) -> Result<()> {
        let heap = self.heap();
        if rounds.next_block == 0 {
            rounds.begin_pages(horizon.oldest());
        }
        for _ in 0..LOOKS_MAX {
            let Some(block) = heap.next_unknown_page(rounds.next_block)? else {
                round.rests = rounds.end_pages(horizon.oldest());
                return Ok(());
            };
            rounds.next_block = block + 1;
            session.let_others_run();
            let look = heap.look_after(block, quiet, horizon);
            rounds.note(look);
            round.note(look);
            if look == Look::Passed && self.gardener_is_half_full() {
                break;
            }
        }
        round.soon = round.passes > 0;
        Ok(())
    }

    /// Looks at all pages: there are few, as there is no map.
    fn look_after_unmapped(
        &self,
        session: &SessionControl,
        rounds: &mut Rounds,
        quiet: Lsn,
        horizon: &Horizon,
        round: &mut Round,
    ) -> Result<()> {
        let heap = self.heap();
        rounds.begin_pages(horizon.oldest());
        for block in 0..heap.blocks()?.min(LOOKS_MAX) {
            session.let_others_run();
            if let Some(look) = heap.look_after_unmapped(block, quiet, horizon) {
                rounds.note(look);
                round.note(look);
            }
        }
        round.rests = rounds.end_pages(horizon.oldest());
        Ok(())
    }
}
