//! Rounds: background clean-up passes over the pages that writers of a table left behind.
//!
//! A round also sets the visibility map's bits for these pages again.
//!
//! ```text
//!  nothing written since the last round ──► all that waits for the gardener       (gardener.rs)
//!                                       ──► value chunks that may be removed    (value_cleanup.rs)
//!  pages without map bits, in the pool, quiet for a while ──► a pass      (niwaki-heap, access.rs)
//!  all pages of a table without a map
//!  index leaves that deletions left half empty ──► packed                 (niwaki-nbtree, pack.rs)
//! ```
//!
//! Tables that are written all the time have rounds, too. Versions that came and went behind an old
//! snapshot lie on pages that may have no other visitor. An index whose entries go one by one keeps
//! sparse leaves, however few entries are left on them.
//!
//! The visibility map is the work list: it needs no memory, and cannot be lost. A page that changes
//! all the time is never quiet, so no round sets a bit that is cleared a moment later. Pages on
//! disk are left to vacuum: a round reads nothing. The work of one round is bounded, and so is the
//! wait of a DDL statement that needs the table.
//!
//! Passes report removed versions to the gardener. Rounds report no more than its queue has room
//! for. When the queue is half full, they wait for the next round, which empties it first.
//!
//! A table with nothing left to do ([`Round::is_idle`]) needs no round before it is changed
//! ([`Engine::take_changed_tables`]).
//!
//! [`Engine::take_changed_tables`]: crate::Engine::take_changed_tables

use std::sync::Arc;

use niwaki_heap::PageVisit;
use niwaki_storage::{Csn, Lsn};
use niwaki_txn::{Horizon, SessionControl};

use crate::error::Result;
use crate::relation::count::count;
use crate::relation::table::Table;

/// The most heap pages that one round over a table looks at.
const LOOKS_MAX: u32 = 2048;
/// The most parent pages of each index whose leaves one round looks at. A parent has some hundred
/// leaves.
const PARENTS_MAX: u32 = 8;

const _: () = assert!(LOOKS_MAX > 0);
const _: () = assert!(PARENTS_MAX > 0);

/// State of a table that is kept from one round to the next.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rounds {
    /// The heap block where the next round goes on.
    next_block: u32,
    /// The number of removed versions and of suspects (stale-entry candidates) that waited for the
    /// gardener when the last round ended.
    waiting: usize,
    /// The number of removed versions with large values, and of lists of ended chunks, that waited
    /// when the last round ended.
    values: usize,
    /// The oldest snapshot when the first page was looked at. `None` once a page got a pass, or was
    /// too busy.
    fruitless_since: Option<Csn>,
    /// True when some page since then may give work to another look.
    unfinished: bool,
    /// The oldest snapshot at which no page had work. Pages have none until the oldest snapshot
    /// changes.
    idle_since: Option<Csn>,
    /// True when the table was changed since the last round.
    written: bool,
}

impl Rounds {
    /// Notes that the table was changed, or may have been.
    pub fn changed(&mut self) {
        (self.idle_since, self.written) = (None, true);
    }

    fn begin_pages(&mut self, oldest: Csn) {
        (self.fruitless_since, self.unfinished) = (Some(oldest), false);
    }

    fn note(&mut self, look: PageVisit) {
        if matches!(look, PageVisit::Passed | PageVisit::Busy) {
            self.fruitless_since = None;
        }
        self.unfinished |= look != PageVisit::Absent;
    }

    /// Notes that all pages were looked at. Returns true when no page has work left.
    fn end_pages(&mut self, oldest: Csn) -> bool {
        self.next_block = 0;
        // A change that became visible to all meanwhile would have moved the oldest snapshot.
        self.idle_since = self.fruitless_since.filter(|since| *since == oldest);
        !self.unfinished
    }
}

/// The result of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Pages looked at.
    pub looks: u32,
    /// The number of these pages that got a pass.
    pub passes: u32,
    /// True when more pages of the heap or of an index are left to look at, probably with work.
    pub soon: bool,
    /// True when other rounds would find nothing before the table is changed.
    pub is_idle: bool,
}

impl Round {
    fn note(&mut self, look: PageVisit) {
        self.looks += u32::from(look != PageVisit::Absent);
        self.passes += u32::from(look == PageVisit::Passed);
        debug_assert!(self.passes <= self.looks, "a page got a pass without a look");
    }
}

impl Table {
    /// Runs one round. The caller holds the table in ROW EXCLUSIVE mode, as writers do. `quiet` is
    /// the end of the log some time ago: pages changed since then are left alone. Between two pages
    /// the round lets other tasks run, by `session`.
    ///
    /// # Errors
    /// Storage's; the session's interrupts. Completed work stays.
    pub fn round(
        &self,
        session: &Arc<SessionControl>,
        rounds: &mut Rounds,
        quiet: Lsn,
    ) -> Result<Round> {
        let waiting = self.gardener_waiting();
        if waiting > 0 && (waiting == rounds.waiting || self.gardener_is_half_full()) {
            self.clean_up_all(session)?;
            // The clean-up settles roots, so pages may have work again.
            rounds.idle_since = None;
        } else if self.values_waiting() > 0 && self.values_waiting() == rounds.values {
            self.clean_up_all_values(session)?;
        }
        let mut round = Round::default();
        self.look_after_pages(session, rounds, quiet, &mut round)?;
        rounds.waiting = self.gardener_waiting();
        rounds.values = self.values_waiting();
        let cleaned_up = rounds.waiting == 0;
        // A table under constant writes always has entries waiting.
        let written = std::mem::take(&mut rounds.written) || !cleaned_up;
        let packing = !self.gardener_is_half_full() && self.pack_indexes(written)?;
        round.soon |= packing;
        round.is_idle &= !written && !packing && rounds.values == 0;
        debug_assert!(!(round.soon && round.is_idle), "an idle table needs a round soon");
        debug_assert!(round.looks <= LOOKS_MAX, "a round looked at {} pages", round.looks);
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
        if rounds.idle_since == Some(horizon.oldest()) {
            round.is_idle = !rounds.unfinished;
            return Ok(());
        }
        rounds.idle_since = None;
        if self.heap().has_visibility_map()? {
            self.look_after_mapped(session, rounds, quiet, &horizon, round)
        } else {
            self.prune_if_quiet_unmapped(session, rounds, quiet, &horizon, round)
        }
    }

    /// Packs leaves that deletions left half empty. `written` says that the table is being written.
    /// Returns true when more leaves are left to look at.
    fn pack_indexes(&self, written: bool) -> Result<bool> {
        let mut more = false;
        for index in self.indexes.iter().filter(|index| index.definition.valid) {
            more |= index.handle.pack_some(PARENTS_MAX, written)?;
        }
        Ok(more)
    }

    /// Continues over the pages about which the visibility map says nothing.
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
                round.is_idle = rounds.end_pages(horizon.oldest());
                return Ok(());
            };
            rounds.next_block = block + 1;
            session.let_others_run();
            let look = heap.prune_if_quiet(block, quiet, horizon);
            rounds.note(look);
            round.note(look);
            if look == PageVisit::Passed && self.gardener_is_half_full() {
                break;
            }
        }
        round.soon = round.passes > 0;
        Ok(())
    }

    /// Looks at all pages: a table without a map has few.
    fn prune_if_quiet_unmapped(
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
            if let Some(look) = heap.prune_if_quiet_unmapped(block, quiet, horizon) {
                rounds.note(look);
                round.note(look);
            }
        }
        round.is_idle = rounds.end_pages(horizon.oldest());
        Ok(())
    }
}
