//! The locks that one transaction holds, for their release.

use std::cell::{Cell, RefCell};

use niwaki_env::sync::atomic::AtomicU64;
use niwaki_env::sync::{MODEL_CHECKED, SCHEDULED};

use crate::locks::key::{LockKey, PageKey, TableId};

/// Tables that a session can lock on the fast path at a time: two cache lines.
pub(crate) const FAST_SLOTS: usize = 16;
/// Low bits of a slot: the weak modes held.
pub(crate) const WEAK_MODES: u64 = 0b111;
/// Bit of a slot: its session has not yet checked for strong locks that are wanted.
pub(crate) const TENTATIVE: u64 = 0b1000;
const LOW_BITS: u32 = 4;

const _: () = assert!(WEAK_MODES & TENTATIVE == 0, "a mode looks like a tentative lock");
const _: () = assert!((WEAK_MODES | TENTATIVE) >> LOW_BITS == 0, "a mode is part of the table");

/// A session's fast-path locks: table and weak modes in one word each, 0 when free. The session
/// writes them. A session that wants a strong lock empties the slots that are not tentative, and
/// moves their locks to the lock table.
#[repr(align(128))]
#[derive(Debug)]
pub(crate) struct FastSlots(pub(crate) [AtomicU64; FAST_SLOTS]);

const _: () = assert!(
    SCHEDULED || MODEL_CHECKED || size_of::<FastSlots>() == 2 * 64,
    "the slots of a session are not two cache lines"
);

impl FastSlots {
    pub(crate) fn new() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

/// Returns the word of a table and a set of weak modes.
pub(crate) fn fast_word(table: TableId, modes: u64) -> u64 {
    debug_assert!(fits_fast_word(table), "{table:?} does not fit beside its modes");
    debug_assert!(modes != 0, "a lock on {table:?} in no mode looks like none");
    debug_assert!(modes & !WEAK_MODES == 0, "{modes:#b} has a mode that is not weak");
    let word = table.0 << LOW_BITS | modes;
    debug_assert_eq!(fast_table(word), table, "{word:#x} is the word of another table");
    word
}

/// Returns the table of a word.
pub(crate) fn fast_table(word: u64) -> TableId {
    TableId(word >> LOW_BITS)
}

/// Returns whether the number fits in a fast-path word.
pub(crate) fn fits_fast_word(table: TableId) -> bool {
    table.0.leading_zeros() >= LOW_BITS
}

/// One set of bits, as its transaction notes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageNote {
    pub(crate) page: PageKey,
    pub(crate) mode: u8,
    /// Number of open savepoints when the locks were taken.
    pub(crate) level: u32,
}

/// Locks of one transaction.
#[derive(Debug)]
pub(crate) struct HeldLocks {
    /// The words that the transaction stored in its session's fast slots, even if a lock was moved
    /// to the lock table meanwhile.
    pub(crate) fast: [Cell<u64>; FAST_SLOTS],
    /// Fast slots in use; later ones are free.
    pub(crate) fast_used: Cell<usize>,
    /// Locks in the lock table, in the order of their acquisition.
    pub(crate) queued: RefCell<Vec<(LockKey, u8)>>,
    /// Number of table locks among `queued`.
    queued_tables: Cell<usize>,
    /// Row locks: a note for each set of bits, ordered by level.
    pages: RefCell<Vec<PageNote>>,
}

/// A position in [`HeldLocks`]: rolling back a savepoint releases the locks taken after its mark.
#[derive(Clone, Debug)]
pub(crate) struct LockMark {
    pub(crate) fast: [u64; FAST_SLOTS],
    pub(crate) fast_used: usize,
    pub(crate) queued: usize,
    /// Number of open savepoints, this one included: the level of row locks taken after the mark.
    pub(crate) level: u32,
}

impl HeldLocks {
    pub(crate) fn new() -> Self {
        Self {
            fast: [const { Cell::new(0) }; FAST_SLOTS],
            fast_used: Cell::new(0),
            queued: RefCell::default(),
            queued_tables: Cell::new(0),
            pages: RefCell::default(),
        }
    }

    /// Asserts what holds between two operations.
    fn assert_state(&self) {
        let (used, tables) = (self.fast_used.get(), self.queued_tables.get());
        debug_assert!(used <= FAST_SLOTS, "{used} fast slots are in use");
        debug_assert!(self.fast[used..].iter().all(|word| word.get() == 0), "a lock is forgotten");
        debug_assert!(tables <= self.queued.borrow().len(), "{tables} locks on tables are noted");
    }

    /// Returns whether the transaction has a lock on the table in the lock table.
    pub(crate) fn is_queued(&self, table: TableId) -> bool {
        self.queued_tables.get() > 0
            && self.queued.borrow().iter().any(|(key, _)| *key == LockKey::Table(table))
    }

    /// Counts the locks in the lock table; each set of row locks counts once.
    pub(crate) fn count(&self) -> usize {
        self.queued.borrow().len() + self.pages.borrow().len()
    }

    /// Notes a set of bits.
    pub(crate) fn push_page(&self, note: PageNote) {
        let mut pages = self.pages.borrow_mut();
        let at = match pages.last() {
            // The note belongs to an outer savepoint.
            Some(last) if last.level > note.level => {
                pages.partition_point(|other| other.level <= note.level)
            }
            _ => pages.len(),
        };
        let (before, after) = pages.split_at(at);
        debug_assert!(before.last().is_none_or(|other| other.level <= note.level), "{note:?}");
        debug_assert!(after.first().is_none_or(|other| other.level > note.level), "{note:?}");
        debug_assert!(note.mode.is_power_of_two(), "{note:?} is of several modes");
        pages.insert(at, note);
    }

    /// Removes the last note of a set of bits of this level or an inner one.
    pub(crate) fn pop_page(&self, level: u32) -> Option<PageNote> {
        self.pages.borrow_mut().pop_if(|note| note.level >= level)
    }

    /// Removes the note of a set that is gone.
    pub(crate) fn forget_page(&self, note: &PageNote) {
        let mut pages = self.pages.borrow_mut();
        // The note is the newest one in all likelihood.
        let at = pages.iter().rposition(|other| other == note);
        debug_assert!(at.is_some(), "{note:?} would never have been released");
        if let Some(at) = at {
            pages.remove(at);
        }
    }

    /// Moves all notes of inner levels to `level`. `merges` returns true for a note whose set
    /// merged into another; such a note is removed.
    pub(crate) fn lower_pages(&self, level: u32, merges: impl Fn(&PageNote) -> bool) {
        let mut pages = self.pages.borrow_mut();
        let first = pages.iter().rposition(|note| note.level <= level).map_or(0, |at| at + 1);
        let gone = pages.extract_if(first.., |note| {
            merges(note) || {
                note.level = level;
                false
            }
        });
        gone.for_each(drop);
        let deepest = pages.last().map(|note| note.level);
        debug_assert!(deepest.is_none_or(|last| last <= level), "{deepest:?} is above {level}");
    }

    /// Notes a lock in the lock table.
    pub(crate) fn push(&self, key: LockKey, modes: u8) {
        debug_assert_ne!(modes, 0, "{key:?} is held in no mode");
        if let LockKey::Table(_) = key {
            self.queued_tables.set(self.queued_tables.get() + 1);
        }
        self.queued.borrow_mut().push((key, modes));
    }

    /// Removes the last note, unless only `keep` are left.
    pub(crate) fn pop(&self, keep: usize) -> Option<(LockKey, u8)> {
        self.assert_state();
        let mut queued = self.queued.borrow_mut();
        let popped = if queued.len() > keep { queued.pop() } else { None };
        if let Some((LockKey::Table(_), _)) = popped {
            self.queued_tables.set(self.queued_tables.get() - 1);
        }
        popped
    }

    /// Removes the note of one lock, at any position. Returns false if there is none. The caller
    /// makes sure that no mark was taken after the lock.
    pub(crate) fn forget(&self, key: LockKey, mode: u8) -> bool {
        self.assert_state();
        let mut queued = self.queued.borrow_mut();
        let Some(at) = queued.iter().rposition(|lock| *lock == (key, mode)) else { return false };
        queued.remove(at);
        if let LockKey::Table(_) = key {
            self.queued_tables.set(self.queued_tables.get() - 1);
        }
        true
    }

    /// Returns whether a set of modes held on the table satisfies `covers`.
    pub(crate) fn table_modes(&self, table: TableId, covers: &dyn Fn(u8) -> bool) -> bool {
        let fast = &self.fast[..self.fast_used.get()];
        let fast = fast.iter().map(Cell::get).filter(|word| fast_table(*word) == table);
        let queued = self.queued.borrow();
        let mut queued = queued.iter().filter(|(key, _)| *key == LockKey::Table(table));
        fast.map(|word| (word & WEAK_MODES) as u8).any(covers)
            || queued.any(|(_, modes)| covers(*modes))
    }

    /// Returns the mark of a savepoint that is opened inside `outer` others.
    pub(crate) fn mark(&self, outer: usize) -> LockMark {
        self.assert_state();
        LockMark {
            fast: std::array::from_fn(|at| self.fast[at].get()),
            fast_used: self.fast_used.get(),
            queued: self.queued.borrow().len(),
            level: level(outer + 1),
        }
    }
}

/// Returns the level of a lock that is taken while this number of savepoints is open.
pub(crate) fn level(savepoints: usize) -> u32 {
    // A transaction runs out of memory before it has more savepoints than this.
    u32::try_from(savepoints).unwrap_or(u32::MAX)
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "a lock is forgotten")]
    fn a_forgotten_lock_is_noticed() {
        let held = HeldLocks::new();
        held.fast[3].set(fast_word(TableId(7), 1));
        held.assert_state();
    }
}
