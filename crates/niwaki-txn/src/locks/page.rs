//! Row locks that nobody waits for: a bit each, in sets for one page.
//!
//! ```text
//! page ─┬─ session A, FOR SHARE,     level 0: rows {1, 2, 3, …}
//!       ├─ session A, FOR SHARE,     level 1: rows {7}               a savepoint is open
//!       ├─ session B, FOR KEY SHARE, level 0: rows {2, 9}
//!       └─ promoted: rows {2}  ──►  entry of row 2: A and B hold it, C waits
//! ```
//!
//! A row that somebody must wait for is promoted: it gets an entry, and who holds it holds the
//! entry too. The bits stay, so its holders need not know: who gives a bit of a promoted row back
//! gives back the entry's mode as well. Sets and entries of a page's rows are under one mutex.
//!
//! A row's bit is in one set of a session and mode. The entry of a promoted row has, beside what
//! the bits say, modes that were carried along with a row, and those that a waiter was just given.

use std::sync::Arc;

use niwaki_env::seeded_bug;
use niwaki_storage::{BlockNumber, OffsetNumber, RelFileId, Tid};

use super::RowKey;
use super::entry::{Attempt, Entry, is};
use super::mode::Mode;
use super::row_set::RowSet;
use crate::session::SessionControl;

/// The rows of one page: what [`RowKey`] says of all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PageKey {
    file: RelFileId,
    block: BlockNumber,
    incarnation: u64,
}

impl PageKey {
    pub(super) fn of(row: &RowKey) -> Self {
        Self { file: row.file, block: row.root.block, incarnation: row.incarnation }
    }

    /// The row with this line pointer.
    pub(super) fn row(&self, offset: OffsetNumber) -> RowKey {
        let root = Tid { block: self.block, offset };
        RowKey { file: self.file, root, incarnation: self.incarnation }
    }
}

/// One set of bits, as its transaction knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageNote {
    pub(super) page: PageKey,
    pub(super) mode: u8,
    /// How many savepoints were open when the locks were taken.
    pub(super) level: u32,
}

/// Locks of rows of one page.
#[derive(Debug, Default)]
pub(crate) struct PageLocks {
    grants: Vec<PageGrant>,
    /// Rows that have an entry.
    promoted: RowSet,
}

/// Rows that one session holds in one mode, and took at one level of savepoints.
#[derive(Debug)]
struct PageGrant {
    session: Arc<SessionControl>,
    mode: u8,
    level: u32,
    rows: RowSet,
}

impl PageLocks {
    /// The modes in which those sessions hold the row. Bits alone: a promoted row has an entry.
    pub(super) fn modes(&self, row: OffsetNumber, whose: impl Fn(&SessionControl) -> bool) -> u8 {
        let grants = self.grants.iter().filter(|it| whose(&it.session) && it.rows.contains(row));
        grants.fold(0, |modes, grant| modes | grant.mode)
    }

    pub(super) fn is_promoted(&self, row: OffsetNumber) -> bool {
        self.promoted.contains(row)
    }

    /// The entry of a row that has none yet.
    pub(super) fn promote(&mut self, row: OffsetNumber) -> Entry {
        self.promoted.insert(row);
        let mut entry = Entry::default();
        if !seeded_bug!("promotion_without_bits") {
            for grant in self.grants.iter().filter(|grant| grant.rows.contains(row)) {
                entry.add_modes(&grant.session, grant.mode);
            }
        }
        entry
    }

    /// The row's entry is gone.
    pub(super) fn demote(&mut self, row: OffsetNumber) {
        self.promoted.remove(row);
    }

    /// The sets, without rows that have an entry: whose, in which mode, which rows.
    pub(super) fn sets(&self) -> impl Iterator<Item = (i32, u8, RowSet)> {
        self.grants.iter().map(|grant| {
            let mut rows = grant.rows.clone();
            self.promoted.iter().for_each(|row| rows.remove(row));
            (grant.session.backend(), grant.mode, rows)
        })
    }

    /// Whether the session can have a row that is not promoted, and the set that the bit goes to,
    /// if there is one.
    ///
    /// One look at each set, since a small table's page may have one of every session.
    pub(super) fn attempt(
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

    /// The set of a note, if there is one.
    pub(super) fn find(&self, session: &SessionControl, mode: u8, level: u32) -> Option<usize> {
        // The newest one in all likelihood.
        self.grants.iter().rposition(|grant| {
            grant.mode == mode && grant.level == level && is(&grant.session, session)
        })
    }

    /// Puts a row into a set.
    pub(super) fn insert(&mut self, set: usize, row: OffsetNumber) {
        self.grants[set].rows.insert(row);
    }

    /// Makes a set for a row.
    pub(super) fn add(
        &mut self,
        session: &Arc<SessionControl>,
        note: &PageNote,
        row: OffsetNumber,
    ) {
        let mut rows = RowSet::default();
        rows.insert(row);
        // One set is all that most pages have.
        self.grants.reserve_exact(usize::from(self.grants.is_empty()));
        let PageNote { mode, level, .. } = *note;
        self.grants.push(PageGrant { session: Arc::clone(session), mode, level, rows });
    }

    /// The level at which the session took the row in this mode.
    pub(super) fn level_of(
        &self,
        session: &SessionControl,
        mode: u8,
        row: OffsetNumber,
    ) -> Option<u32> {
        let has =
            |it: &&PageGrant| it.mode == mode && it.rows.contains(row) && is(&it.session, session);
        self.grants.iter().find(has).map(|grant| grant.level)
    }

    /// Takes a row out of a set; true if that was the set's last one, and the set is gone.
    pub(super) fn clear(
        &mut self,
        session: &SessionControl,
        note: &PageNote,
        row: OffsetNumber,
    ) -> bool {
        let Some(at) = self.find(session, note.mode, note.level) else { return false };
        self.grants[at].rows.remove(row);
        let last = self.grants[at].rows.is_empty();
        if last {
            self.grants.swap_remove(at);
        }
        last
    }

    /// Takes a set away. Returns its rows, and those of them that have an entry.
    pub(super) fn take(
        &mut self,
        session: &SessionControl,
        note: &PageNote,
    ) -> (RowSet, Vec<OffsetNumber>) {
        let Some(at) = self.find(session, note.mode, note.level) else {
            return Default::default();
        };
        let rows = self.grants.swap_remove(at).rows;
        let promoted = if seeded_bug!("bits_released_without_entries") || self.promoted.is_empty() {
            Vec::new()
        } else {
            rows.iter().filter(|row| self.is_promoted(*row)).collect()
        };
        (rows, promoted)
    }

    /// The savepoint of a set is released: its rows belong to `level`, which is an outer one. True
    /// if there was a set of that level, and this one is gone.
    pub(super) fn lower(&mut self, session: &SessionControl, note: &PageNote, level: u32) -> bool {
        let Some(at) = self.find(session, note.mode, note.level) else { return false };
        let Some(into) = self.find(session, note.mode, level) else {
            self.grants[at].level = level;
            return false;
        };
        let rows = std::mem::take(&mut self.grants[at].rows);
        rows.iter().for_each(|row| self.grants[into].rows.insert(row));
        self.grants.swap_remove(at);
        true
    }

    pub(super) fn is_empty(&self) -> bool {
        self.grants.is_empty() && self.promoted.is_empty()
    }
}

#[cfg(all(test, not(any(feature = "shuttle", feature = "loom"))))]
mod tests;
