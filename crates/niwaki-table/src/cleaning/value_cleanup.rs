//! Clean-up of removed pieces (chunks of out-of-line values): writers free their space, without
//! vacuum.
//!
//! ```text
//!  a value is ended (update, delete)  ─► its pieces wait ─┐
//!  pruning removes a version with pointers ─► walk ───────┤  the first piece removable?
//!     (also versions of aborted writers)                  │    yes ─► their blocks are pruned,
//!                                                         │           the room is offered
//!                                                         └─   no  ─► wait on, behind the others
//! ```
//!
//! A piece can go as soon as no snapshot falls into its life, whether or not the versions that
//! named it are pruned. Those versions are removable then too, and are not read any more. All
//! pieces of a value have one life, so the first one decides for all.
//!
//! The gardener does read removed versions, for their keys. So pieces that keys are made of are
//! marked, and no pass over their block takes them before they are given up. A reader of a removed
//! version's keys then gives its pieces up ([`Heap::give_up_pieces`]).
//!
//! Versions of a row may share pieces. Versions that leave no entry behind are not read at all.
//! They give nothing up before the keys of all waiting removed versions are read. A version that
//! another session has in hand just then may lose its key. Pieces stored before their index was
//! created are not marked. If they are gone, the entry waits for vacuum. Vacuum takes marked pieces
//! too, unless it leaves entries.
//!
//! A list that must wait goes behind the others. So a list that an old snapshot holds back does not
//! block later ones. The queues are bounded, and may be lost: vacuum visits the value heap too.

use std::sync::Arc;

use niwaki_env::SIMULATED;
use niwaki_heap::{Heap, PieceFate};
use niwaki_storage::Xid;
use niwaki_txn::{Error as TxnError, Horizon, SessionControl};

use crate::error::Result;
use crate::relation::table::Table;
use crate::values::pieces;

/// The most lists of ended pieces that one round examines: more than most writes add.
const ENDED_LOOKS: usize = 6;
/// The most rounds of one write. Another round follows only if all lists of the last one could go.
const ROUNDS_MAX: usize = 16;
/// The number of removed versions with out-of-line values that must wait before a write handles
/// them. Simulations use 1. `BATCH_MAX` is the most handled at once.
const BATCH: usize = if SIMULATED { 1 } else { 16 };
const BATCH_MAX: usize = 64;

const _: () = assert!(BATCH <= BATCH_MAX);
const _: () = assert!(ENDED_LOOKS > 0);
const _: () = assert!(ROUNDS_MAX > 0);

impl Table {
    /// Returns true when a batch of removed versions with out-of-line values waits.
    #[inline]
    pub(crate) fn values_are_due(&self) -> bool {
        self.heap().external_waiting() >= BATCH
    }

    /// Returns the number of waiting removed versions with out-of-line values, plus waiting lists
    /// of ended pieces.
    pub(crate) fn values_waiting(&self) -> usize {
        let ended = self.value_heap().map_or(0, |values| values.ended_waiting());
        self.heap().external_waiting() + ended
    }

    /// Removes pieces of ended values. Called after a change of the table, with no latch held.
    ///
    /// # Errors
    /// Storage's; interrupts of `session`.
    #[inline]
    pub(crate) fn clean_up_values(&self, session: &Arc<SessionControl>) -> Result<()> {
        self.clean_up_values_of(session, self.values_are_due())
    }

    /// Removes all waiting pieces, however few. Called in the background when the writers have
    /// gone.
    ///
    /// # Errors
    /// As [`Table::clean_up_values`].
    pub(crate) fn clean_up_all_values(&self, session: &Arc<SessionControl>) -> Result<()> {
        // Work that comes meanwhile is for the next round.
        let rounds = self.values_waiting().div_ceil(BATCH_MAX);
        (0..rounds).try_for_each(|_| self.clean_up_values_of(session, true))
    }

    /// Handles lists of ended pieces. With `removed`, handles the pieces of pruned versions before
    /// that.
    #[inline]
    fn clean_up_values_of(&self, session: &Arc<SessionControl>, removed: bool) -> Result<()> {
        let Some(values) = self.value_heap() else { return Ok(()) };
        if !removed && values.ended_waiting() == 0 {
            return Ok(());
        }
        // A waiting version may share pieces with the versions that give them up here.
        if removed && self.read_removed_keys(session)? {
            self.remove_unnamed_pieces(values)?;
        }
        let horizon = self.engine.transactions().horizon();
        // Goes on while all lists can go, so that the pieces one statement left go soon.
        for _ in 0..ROUNDS_MAX {
            session.check_interrupts().map_err(TxnError::from)?;
            if !self.remove_ended_pieces(values, &horizon)? {
                break;
            }
        }
        Ok(())
    }

    /// Handles a few lists of ended pieces. Returns false when none is left, or one must wait.
    fn remove_ended_pieces(&self, values: Heap<'_>, horizon: &Horizon) -> Result<bool> {
        let ended = values.take_ended(ENDED_LOOKS);
        debug_assert!(ended.len() <= ENDED_LOOKS, "{} lists were handed out", ended.len());
        let mut go_on = ended.len() == ENDED_LOOKS;
        for ended in ended {
            debug_assert!(!ended.rows.is_empty(), "a list of no pieces was queued");
            let is_it = |row: &[u8]| pieces::is_of(row, ended.inserter);
            let Some(first) = ended.rows.first() else { continue };
            let done = match values.piece_fate(*first, horizon, is_it)? {
                PieceFate::Gone => pieces::take_away(values, &ended.rows, horizon)?,
                PieceFate::GoesLater => false,
                // The transaction that ended the pieces rolled back.
                PieceFate::Stays => true,
            };
            if !done {
                values.note_ended(ended);
                go_on = false;
            }
        }
        Ok(go_on)
    }

    /// Removes the pieces of pruned versions that no other version names.
    #[cold]
    fn remove_unnamed_pieces(&self, values: Heap<'_>) -> Result<()> {
        let versions = self.heap().take_external(BATCH_MAX);
        debug_assert!(versions.len() <= BATCH_MAX, "{} versions were handed out", versions.len());
        // Read after the passes that removed the versions: their horizon lets these pieces go, too.
        let horizon = self.engine.transactions().horizon();
        for version in versions {
            for (_, pointer) in self.pointers_of(&version)? {
                let inserter = Xid(pointer.xid);
                let is_it = |row: &[u8]| pieces::is_of(row, inserter);
                let first = pieces::first_piece(&pointer);
                if values.piece_fate(first, &horizon, is_it)? != PieceFate::Gone {
                    continue;
                }
                // All addresses are read before any piece goes.
                let rows = pieces::left(values, &pointer)?;
                if !pieces::take_away(values, &rows, &horizon)? {
                    pieces::note_ended(values, inserter, &rows);
                }
            }
        }
        Ok(())
    }
}
