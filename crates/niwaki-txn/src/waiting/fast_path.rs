//! The fast path of table locks: weak modes, without a write to shared memory lines.
//!
//! A weak mode excludes no other weak mode.
//!
//! ```text
//! weak locker                            strong locker
//! own slot := (table, mode), tentative   strong[table] += 1
//! fence                                  fence
//! strong[table] = 0 ?                    for every session's slot of the table:
//!   → own slot := (table, mode), held      wait while it is tentative,
//!   else own slot := 0, queue              move it to the lock table if it is held
//! ```
//!
//! Either the weak locker sees the count, or the strong one sees the slot. The mover moves only
//! held locks. A tentative slot may belong to a session that is about to see a strong lock older
//! than the mover's. Both sides empty a held slot by compare-and-exchange. So a lock is in the slot
//! or in the table, never in both and never in neither.

use std::sync::Arc;

use niwaki_env::seeded_bug;
use niwaki_env::sync::atomic::{Ordering, fence};
use niwaki_env::sync::{spin_loop, thread};

use crate::handle::lock_table::{LockManager, Partition};
use crate::handle::session::SessionControl;
use crate::locks::held::{
    FAST_SLOTS, HeldLocks, LockMark, TENTATIVE, WEAK_MODES, fast_table, fast_word, fits_fast_word,
};
use crate::locks::key::{LockKey, TableId};
use crate::locks::mode::{Mode, TableLockMode};

/// Looks of a mover at a tentative slot before it offers the processor to the slot's owner.
const TENTATIVE_SPINS: u32 = 100;

const _: () = assert!(
    WEAK_MODES == (1 << (TableLockMode::RowExclusive as u64 + 1)) - 1,
    "a slot has a bit for each mode up to the strongest weak one"
);

/// Returns whether the mode goes through the fast path.
pub(crate) fn is_weak(mode: TableLockMode) -> bool {
    mode <= TableLockMode::RowExclusive
}

/// Returns whether the mode, given as its bit, excludes any weak mode.
pub(crate) fn is_strong(mode: Mode) -> bool {
    u64::from(mode.excludes) & WEAK_MODES != 0 && u64::from(mode.bit) & WEAK_MODES == 0
}

/// Answer of the fast path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FastPath {
    /// The transaction has the lock.
    Held,
    /// The transaction must ask the lock table.
    Ask,
}

impl LockManager {
    /// Tries to lock a table in a weak mode without the lock table.
    #[inline]
    pub(crate) fn acquire_fast(
        &self,
        session: &SessionControl,
        held: &HeldLocks,
        table: TableId,
        mode: TableLockMode,
    ) -> FastPath {
        debug_assert!(is_weak(mode), "{mode:?} excludes a weak mode, which would not notice it");
        let bit = 1_u64 << mode as u64;
        let used = held.fast_used.get();
        for at in 0..used {
            let word = held.fast[at].get();
            if fast_table(word) == table && word & WEAK_MODES != 0 {
                // A stronger weak mode excludes everything that a weaker one excludes.
                if word & WEAK_MODES >= bit {
                    return FastPath::Held;
                }
                return self.widen_fast(session, held, at, word | bit);
            }
        }
        if used == FAST_SLOTS || !fits_fast_word(table) || held.is_queued(table) {
            return FastPath::Ask;
        }
        let word = fast_word(table, bit);
        // Relaxed: the fence orders the store, and no thread acts on a tentative slot.
        session.fast.0[used].store(word | TENTATIVE, Ordering::Relaxed);
        self.settle_fast(session, held, used, 0, word)
    }

    /// Adds a mode to a slot that the transaction uses already.
    #[cold]
    fn widen_fast(
        &self,
        session: &SessionControl,
        held: &HeldLocks,
        at: usize,
        word: u64,
    ) -> FastPath {
        let before = held.fast[at].get();
        let slot = &session.fast.0[at];
        let widened = word | TENTATIVE;
        if slot.compare_exchange(before, widened, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // The slot was moved to the lock table, and the new mode goes there too.
            return FastPath::Ask;
        }
        self.settle_fast(session, held, at, before, word)
    }

    /// Ends the tentative state of a slot. The slot becomes `word`, held, if no session wants a
    /// strong lock; otherwise it becomes `before`.
    #[inline]
    fn settle_fast(
        &self,
        session: &SessionControl,
        held: &HeldLocks,
        at: usize,
        before: u64,
        word: u64,
    ) -> FastPath {
        debug_assert!(at <= held.fast_used.get(), "a slot before {at} would stay unused");
        debug_assert!((before | word) & TENTATIVE == 0, "{at} would never be settled");
        debug_assert!(before & !word == 0, "slot {at} would lose a lock: {before:#x}, {word:#x}");
        // Pairs with the fence in `announce`.
        fence(Ordering::SeqCst);
        // Acquire: pairs with the release when a strong lock goes, so its holder's work is visible
        // here.
        let strong = self.strong.of(fast_table(word)).load(Ordering::Acquire) != 0
            && !seeded_bug!("fast_lock_without_check");
        let slot = &session.fast.0[at];
        // Release: a session that moves the lock sees the earlier work of its owner.
        slot.store(if strong { before } else { word }, Ordering::Release);
        if strong {
            return FastPath::Ask;
        }
        held.fast[at].set(word);
        held.fast_used.set(held.fast_used.get().max(at + 1));
        FastPath::Held
    }

    /// Moves all fast-path locks on `table` to `partition`, which is the table's. The caller has
    /// raised the table's strong count.
    pub(crate) fn move_fast_locks(
        sessions: &[Arc<SessionControl>],
        partition: &mut Partition,
        table: TableId,
    ) {
        for session in sessions {
            for slot in &session.fast.0 {
                let mut spins = 0;
                // Ends: the owner settles a tentative slot three instructions later, and adds at
                // most two more modes, or empties the slot.
                loop {
                    let word = slot.load(Ordering::Acquire);
                    if word == 0 || fast_table(word) != table {
                        break;
                    }
                    if word & TENTATIVE != 0 && !seeded_bug!("tentative_locks_moved") {
                        spins += 1;
                        if spins < TENTATIVE_SPINS {
                            spin_loop();
                        } else {
                            thread::yield_now();
                        }
                        continue;
                    }
                    let moved = slot.compare_exchange(word, 0, Ordering::AcqRel, Ordering::Acquire);
                    if moved.is_ok() {
                        let modes = (word & WEAK_MODES) as u8;
                        partition.entry(LockKey::Table(table)).add_modes(session, modes);
                        break;
                    }
                }
            }
        }
    }

    /// Releases the fast-path locks taken after `mark`.
    #[inline]
    pub(crate) fn release_fast(
        &self,
        session: &SessionControl,
        held: &HeldLocks,
        mark: Option<&LockMark>,
    ) {
        let used = held.fast_used.get();
        debug_assert!(
            mark.is_none_or(|mark| mark.fast_used <= used),
            "a lock taken before the savepoint is gone"
        );
        for at in 0..used {
            let word = held.fast[at].get();
            let kept = mark.filter(|mark| at < mark.fast_used).map_or(0, |mark| mark.fast[at]);
            if word == kept {
                continue;
            }
            debug_assert!(kept & !word == 0, "slot {at} lost a lock: {kept:#x}, {word:#x}");
            held.fast[at].set(kept);
            let slot = &session.fast.0[at];
            // Release: the transaction's work comes before a session that finds the table free.
            if slot.compare_exchange(word, kept, Ordering::AcqRel, Ordering::Acquire).is_err() {
                let modes = (word & WEAK_MODES & !kept) as u8;
                self.release(session, &LockKey::Table(fast_table(word)), modes);
            }
        }
        held.fast_used.set(mark.map_or(0, |mark| mark.fast_used));
    }
}
