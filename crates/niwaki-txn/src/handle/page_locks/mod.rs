//! Row locks without waiters: one bit each, in sets for one page.
//!
//! ```text
//! page ─┬─ session A, FOR SHARE,     level 0: rows {1, 2, 3, …}
//!       ├─ session A, FOR SHARE,     level 1: rows {7}               a savepoint is open
//!       ├─ session B, FOR KEY SHARE, level 0: rows {2, 9}
//!       └─ promoted: rows {2}  ──►  entry of row 2: A and B hold it, C waits
//! ```
//!
//! A row with a waiter is promoted: it gets an entry, and the holders of its bits hold the entry
//! too. The bits stay, so the holders need not know about the entry. A release of a promoted row's
//! bit releases the entry's mode as well. One mutex protects the sets and the entries of a page's
//! rows.
//!
//! For each session and mode, a row's bit is in at most one set. The entry of a promoted row has
//! the modes of the bits. It also has modes that were carried along with a row, and modes just
//! granted to a waiter.

use crate::locks::held::PageNote;
use std::sync::Arc;

use niwaki_env::seeded_bug;
use niwaki_storage::OffsetNumber;

use crate::handle::lock_entry::{Attempt, Entry, is};
use crate::handle::session::SessionControl;
use crate::locks::mode::Mode;
use crate::locks::row_set::RowSet;

/// Locks of rows of one page.
#[derive(Debug, Default)]
pub(crate) struct PageLocks {
    grants: Vec<PageGrant>,
    /// Rows that have an entry.
    promoted: RowSet,
}

/// Rows that one session holds in one mode, taken at one savepoint level.
#[derive(Debug)]
struct PageGrant {
    session: Arc<SessionControl>,
    mode: u8,
    level: u32,
    rows: RowSet,
}

impl PageLocks {
    /// Returns the modes in which the sessions that `whose` selects hold the row. Reads the bits
    /// only: a promoted row has an entry.
    pub(crate) fn modes(&self, row: OffsetNumber, whose: impl Fn(&SessionControl) -> bool) -> u8 {
        let grants = self.grants.iter().filter(|it| whose(&it.session) && it.rows.contains(row));
        grants.fold(0, |modes, grant| modes | grant.mode)
    }

    pub(crate) fn is_promoted(&self, row: OffsetNumber) -> bool {
        self.promoted.contains(row)
    }

    /// Creates the entry of a row that has none yet, and marks the row as promoted.
    pub(crate) fn promote(&mut self, row: OffsetNumber) -> Entry {
        debug_assert!(!self.is_promoted(row), "row {row} has an entry already");
        self.promoted.insert(row);
        let mut entry = Entry::default();
        if !seeded_bug!("promotion_without_bits") {
            for grant in self.grants.iter().filter(|grant| grant.rows.contains(row)) {
                entry.add_modes(&grant.session, grant.mode);
            }
        }
        entry
    }

    /// Marks the row as not promoted: its entry is gone.
    pub(crate) fn demote(&mut self, row: OffsetNumber) {
        debug_assert!(self.is_promoted(row), "row {row} had no entry");
        self.promoted.remove(row);
    }

    /// Returns the sets, without promoted rows: session, mode and rows of each.
    pub(crate) fn sets(&self) -> impl Iterator<Item = (i32, u8, RowSet)> {
        self.grants.iter().map(|grant| {
            let mut rows = grant.rows.clone();
            self.promoted.iter().for_each(|row| rows.remove(row));
            (grant.session.backend(), grant.mode, rows)
        })
    }

    /// Returns whether the session can have a row that is not promoted, and the set for the bit, if
    /// there is one.
    ///
    /// One pass over the sets, since a small table's page may have a set of every session.
    pub(crate) fn attempt(
        &self,
        session: &SessionControl,
        mode: Mode,
        level: u32,
        row: OffsetNumber,
    ) -> (Attempt, Option<usize>) {
        let mut set = None;
        for (at, grant) in self.grants.iter().enumerate() {
            if is(&grant.session, session) {
                if grant.mode == mode.bit && grant.rows.contains(row) {
                    return (Attempt::Held, None);
                }
                let level_fits = grant.level == level || seeded_bug!("bit_joins_outer_level");
                if grant.mode == mode.bit && level_fits {
                    set = Some(at);
                }
            } else if grant.mode & mode.excludes != 0 && grant.rows.contains(row) {
                return (Attempt::Busy, None);
            }
        }
        (Attempt::Granted, set)
    }

    /// Returns the set of a note, if there is one.
    pub(crate) fn find(&self, session: &SessionControl, mode: u8, level: u32) -> Option<usize> {
        // The set is the newest one in all likelihood.
        self.grants.iter().rposition(|grant| {
            grant.mode == mode && grant.level == level && is(&grant.session, session)
        })
    }

    /// Puts a row into a set.
    pub(crate) fn insert(&mut self, set: usize, row: OffsetNumber) {
        debug_assert!(!self.grants[set].rows.contains(row), "the lock on row {row} counts twice");
        self.grants[set].rows.insert(row);
    }

    /// Makes a set for a row.
    pub(crate) fn add(
        &mut self,
        session: &Arc<SessionControl>,
        note: &PageNote,
        row: OffsetNumber,
    ) {
        debug_assert!(note.mode.is_power_of_two(), "a set is of one mode: {note:?}");
        debug_assert!(
            self.find(session, note.mode, note.level).is_none(),
            "one note stands for two sets: {note:?}"
        );
        let mut rows = RowSet::default();
        rows.insert(row);
        // Most pages have one set only.
        self.grants.reserve_exact(usize::from(self.grants.is_empty()));
        let PageNote { mode, level, .. } = *note;
        self.grants.push(PageGrant { session: Arc::clone(session), mode, level, rows });
    }

    /// Returns the level at which the session took the row in this mode.
    pub(crate) fn level_of(
        &self,
        session: &SessionControl,
        mode: u8,
        row: OffsetNumber,
    ) -> Option<u32> {
        let has =
            |it: &&PageGrant| it.mode == mode && it.rows.contains(row) && is(&it.session, session);
        self.grants.iter().find(has).map(|grant| grant.level)
    }

    /// Takes a row out of a set. Returns true if the row was the set's last one; then the set is
    /// removed.
    pub(crate) fn clear(
        &mut self,
        session: &SessionControl,
        note: &PageNote,
        row: OffsetNumber,
    ) -> bool {
        let Some(at) = self.find(session, note.mode, note.level) else { return false };
        debug_assert!(self.grants[at].rows.contains(row), "row {row} is in another set");
        self.grants[at].rows.remove(row);
        let last = self.grants[at].rows.is_empty();
        if last {
            self.grants.swap_remove(at);
        }
        last
    }

    /// Removes a set. Returns its rows, and the promoted ones among them.
    pub(crate) fn take(
        &mut self,
        session: &SessionControl,
        note: &PageNote,
    ) -> (RowSet, Vec<OffsetNumber>) {
        let Some(at) = self.find(session, note.mode, note.level) else {
            return Default::default();
        };
        let rows = self.grants.swap_remove(at).rows;
        debug_assert!(!rows.is_empty(), "a set outlived its last row: {note:?}");
        let promoted = if seeded_bug!("bits_released_without_entries") || self.promoted.is_empty() {
            Vec::new()
        } else {
            rows.iter().filter(|row| self.is_promoted(*row)).collect()
        };
        (rows, promoted)
    }

    /// Moves a set to the outer level `level`, because its savepoint is released. Returns true if a
    /// set of that level absorbed the rows; then this set is removed.
    pub(crate) fn lower(&mut self, session: &SessionControl, note: &PageNote, level: u32) -> bool {
        debug_assert!(level < note.level, "level {level} is not outside of {note:?}");
        let Some(at) = self.find(session, note.mode, note.level) else { return false };
        let Some(into) = self.find(session, note.mode, level) else {
            self.grants[at].level = level;
            return false;
        };
        debug_assert_ne!(at, into, "a set would absorb itself: {note:?}");
        let rows = std::mem::take(&mut self.grants[at].rows);
        debug_assert!(
            !rows.iter().any(|row| self.grants[into].rows.contains(row)),
            "a row is in two sets of one session and mode: {note:?}"
        );
        rows.iter().for_each(|row| self.grants[into].rows.insert(row));
        self.grants.swap_remove(at);
        true
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.grants.is_empty() && self.promoted.is_empty()
    }
}

#[cfg(all(test, not(any(feature = "shuttle", feature = "loom"))))]
mod tests;
