//! Rounds over a table whose writers have gone: what they left is seen to, and the visibility map speaks of its pages
//! again.
//!
//! ```text
//!  nobody wrote since the last round ──► what waits for the gardener, all of it         (gardener.rs)
//!  pages of which the map says nothing, in the pool, quiet for a while ──► a pass       (niwaki-heap, access.rs)
//! ```
//!
//! The map is the list of what is to be done: it needs no memory, and cannot be lost. A page that changes all the time is
//! never quiet, and nobody sets a bit that is cleared a moment later. Pages on disk are left to vacuum: a round reads
//! nothing. How much one round does is bounded, and so is what a definition that wants the table waits for.

use niwaki_heap::Look;
use niwaki_storage::{Csn, Lsn};

use crate::error::Result;
use crate::table::Table;

/// Looks at pages in one round over a table.
const LOOKS_MAX: u32 = 2048;

/// What is remembered of a table from one round to the next.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rounds {
    /// Where the next round goes on.
    next_block: u32,
    /// What waited for the gardener when the last one ended.
    waiting: usize,
    /// The oldest snapshot when the first page was looked at; `None` once some page was passed over, or was too busy.
    fruitless_since: Option<Csn>,
    /// By this oldest snapshot nothing was to be done on any page: nothing is until it is another one.
    rests_at: Option<Csn>,
}

/// What a round came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Pages passed over.
    pub passes: u32,
    /// Whether there are more pages to look at.
    pub more: bool,
}

impl Table {
    /// Whether a round may find something to do.
    ///
    /// # Errors
    /// Storage's.
    pub fn wants_round(&self) -> Result<bool> {
        if self.gardener_waiting() > 0 {
            return Ok(true);
        }
        let heap = self.heap();
        // One that nobody has used since the database was opened is not looked at: its files stay closed.
        Ok(heap.knows_visibility()
            && heap.has_visibility_map()?
            && heap.all_visible_pages()? < heap.blocks()?)
    }

    /// One round. The caller holds the table in ROW EXCLUSIVE mode, as writers do. `quiet`: where the log ended a while ago;
    /// pages changed since are let be.
    ///
    /// # Errors
    /// Storage's. What was done stays done.
    pub fn round(&self, rounds: &mut Rounds, quiet: Lsn) -> Result<Round> {
        let waiting = self.gardener_waiting();
        if waiting > 0 && waiting == rounds.waiting {
            self.tend_all()?;
            // Roots settle by it.
            rounds.rests_at = None;
        }
        let round = self.look_after_pages(rounds, quiet)?;
        rounds.waiting = self.gardener_waiting();
        Ok(round)
    }

    fn look_after_pages(&self, rounds: &mut Rounds, quiet: Lsn) -> Result<Round> {
        let heap = self.heap();
        let mut round = Round::default();
        if !heap.has_visibility_map()? {
            return Ok(round);
        }
        let horizon = self.engine.transactions().horizon();
        if rounds.rests_at == Some(horizon.oldest()) {
            return Ok(round);
        }
        rounds.rests_at = None;
        if rounds.next_block == 0 {
            rounds.fruitless_since = Some(horizon.oldest());
        }
        for _ in 0..LOOKS_MAX {
            let Some(block) = heap.next_unknown_page(rounds.next_block)? else {
                rounds.next_block = 0;
                // What became visible to all meanwhile would have moved it.
                rounds.rests_at = rounds.fruitless_since.filter(|since| *since == horizon.oldest());
                return Ok(round);
            };
            rounds.next_block = block + 1;
            let look = heap.look_after(block, quiet, &horizon);
            if look != Look::Nothing {
                rounds.fruitless_since = None;
            }
            round.passes += u32::from(look == Look::Passed);
        }
        round.more = true;
        Ok(round)
    }
}
