//! The room of pieces that went: who writes to the table makes it free again, without vacuum.
//!
//! ```text
//!  a value is ended (update, delete)  ─► its pieces wait ─┐
//!  pruning removes a version with pointers ─► walk ───────┤  the first piece removable?
//!     (those of aborted writers among them)               │    yes ─► their blocks are pruned, the room is offered
//!                                                         └─   no  ─► wait on, behind the others
//! ```
//!
//! A piece can go as soon as no snapshot is in its life, whether or not the versions that named it are pruned: these are
//! removable too then, and nobody reads them. All pieces of a value have one life, so the first
//! speaks for all.
//!
//! The gardener does read removed versions, for their keys. Pieces that keys are made of are
//! marked, and no pass over their block takes them before they are named. Who has read the keys of
//! a removed version names its pieces ([`Heap::give_up_pieces`]). Versions of a row may share them,
//! and those that leave no entry behind are not read at all: they name nothing before the keys of
//! all removed versions that wait are read. One that another session has in hand just then may
//! lose its key. Pieces that were stored before their index came are not marked. Where they are
//! gone, the entry waits for vacuum. That takes marked pieces too, unless it leaves entries.
//!
//! Every list that is looked at and must wait goes behind the others, so one that an old snapshot holds back does not
//! keep later ones from going. The queues are bounded, and may be lost: vacuum visits the value heap too.

use std::sync::Arc;

use niwaki_env::SIMULATED;
use niwaki_heap::{Fate, Heap};
use niwaki_storage::Xid;
use niwaki_txn::{Error as TxnError, Horizon, SessionControl};

use super::pieces;
use crate::error::Result;
use crate::table::Table;

/// Lists of ended pieces that a write looks at: more than most writes add.
const ENDED_LOOKS: usize = 6;
/// How often it looks at so many more, as long as all of them can go.
const ROUNDS_MAX: usize = 16;
/// So many removed versions with values out of line are waited for, and so many seen to at once.
const BATCH: usize = if SIMULATED { 1 } else { 16 };
const BATCH_MAX: usize = 64;

impl Table {
    /// Whether a batch of removed versions with values out of line waits.
    #[inline]
    pub(crate) fn values_are_due(&self) -> bool {
        self.heap().external_waiting() >= BATCH
    }

    /// How many removed versions with values out of line wait, and lists of ended pieces.
    pub(crate) fn values_waiting(&self) -> usize {
        let ended = self.value_heap().map_or(0, |values| values.ended_waiting());
        self.heap().external_waiting() + ended
    }

    /// Sees to the pieces of values that were ended. Called by those who changed the table, with no latch held.
    ///
    /// # Errors
    /// Storage's; interrupts of `session`.
    #[inline]
    pub(crate) fn tend_values(&self, session: &Arc<SessionControl>) -> Result<()> {
        self.tend_values_of(session, self.values_are_due())
    }

    /// Sees to all pieces that wait now, however few: for who does it when the writers have gone.
    ///
    /// # Errors
    /// As [`Table::tend_values`].
    pub(crate) fn tend_all_values(&self, session: &Arc<SessionControl>) -> Result<()> {
        // What comes meanwhile is for the next round.
        let rounds = self.values_waiting().div_ceil(BATCH_MAX);
        (0..rounds).try_for_each(|_| self.tend_values_of(session, true))
    }

    /// Sees to lists of ended pieces, and before that to those of versions that were pruned, if
    /// `removed`.
    #[inline]
    fn tend_values_of(&self, session: &Arc<SessionControl>, removed: bool) -> Result<()> {
        let Some(values) = self.value_heap() else { return Ok(()) };
        if !removed && values.ended_waiting() == 0 {
            return Ok(());
        }
        // A version that waits may share pieces with those that name them here.
        if removed && self.tend_keys(session)? {
            self.tend_removed(values)?;
        }
        let horizon = self.engine.transactions().horizon();
        // While all can go, so that what one statement left behind goes soon.
        for _ in 0..ROUNDS_MAX {
            session.check_interrupts().map_err(TxnError::from)?;
            if !self.tend_ended(values, &horizon)? {
                break;
            }
        }
        Ok(())
    }

    /// Sees to a few lists of ended pieces. False: that was all, or one must wait.
    fn tend_ended(&self, values: Heap<'_>, horizon: &Horizon) -> Result<bool> {
        let ended = values.take_ended(ENDED_LOOKS);
        let mut go_on = ended.len() == ENDED_LOOKS;
        for ended in ended {
            let is_it = |row: &[u8]| pieces::is_of(row, ended.inserter);
            let Some(first) = ended.rows.first() else { continue };
            let done = match values.fate_alone(*first, horizon, is_it)? {
                Fate::Gone => pieces::take_away(values, &ended.rows, horizon)?,
                Fate::GoesLater => false,
                // Who ended them rolled back.
                Fate::Stays => true,
            };
            if !done {
                values.note_ended(ended);
                go_on = false;
            }
        }
        Ok(go_on)
    }

    /// Sees to the pieces of versions that were pruned: those go that no other version names.
    #[cold]
    fn tend_removed(&self, values: Heap<'_>) -> Result<()> {
        let versions = self.heap().take_external(BATCH_MAX);
        // Behind the passes that removed them: what could go for these can go by it.
        let horizon = self.engine.transactions().horizon();
        for version in versions {
            for (_, pointer) in self.pointers_of(&version)? {
                let inserter = Xid(pointer.xid);
                let is_it = |row: &[u8]| pieces::is_of(row, inserter);
                let first = pieces::first_piece(&pointer);
                if values.fate_alone(first, &horizon, is_it)? != Fate::Gone {
                    continue;
                }
                // All of them, before any goes.
                let rows = pieces::left(values, &pointer)?;
                if !pieces::take_away(values, &rows, &horizon)? {
                    pieces::note_ended(values, inserter, &rows);
                }
            }
        }
        Ok(())
    }
}
