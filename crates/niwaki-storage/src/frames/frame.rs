//! A frame's state: pins and flags in one atomic word.
//!
//! ```text
//!             claim (pins 0 -> 1)           link in table
//!   EMPTY ----------------------> CLAIMED ----------------> LOADING
//!     ^  ^                          ^                       |     |
//!     |  |     unlink (pins == 1,   |          read fails   |     | read is fine
//!     |  |     clean)               +--- VALID <------------|-----+
//!     |  +----------------------------------------unlinked--+
//!     +--- drop / truncate: VALID with no pin, unlinked, dirty or not
//! ```
//!
//! A frame is in the table exactly while LOADING or VALID. Its name (`file`, `place`) changes only
//! while it is CLAIMED: not valid, and pinned by the claimer alone. Only a VALID frame can be
//! pinned without the partition's lock. DIRTY, WRITING and COPIED occur only with VALID.

use niwaki_env::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use niwaki_env::sync::plain_atomic::AtomicU32 as Counter;
use niwaki_env::sync::{RwLock, thread};

use crate::ids::{BlockNumber, Fork, PageId, RelFileId};

pub(crate) const PIN_ONE: u64 = 1;
pub(crate) const PIN_MASK: u64 = (1 << 24) - 1;
/// The frame was pinned since the clock hand last passed.
pub(crate) const USED: u64 = 1 << 24;
/// The frame holds the page of its name.
pub(crate) const VALID: u64 = 1 << 32;
/// The page differs from the disk.
pub(crate) const DIRTY: u64 = 1 << 33;
/// The page is being read in by the thread that claimed the frame.
pub(crate) const LOADING: u64 = 1 << 34;
/// The page is being written by one thread.
pub(crate) const WRITING: u64 = 1 << 35;

/// A copy of the page may exist (`optimistic.rs`), which a change of the page must drop first. Set
/// under the shared latch, cleared under the exclusive one; set and cleared together with VALID,
/// too.
pub(crate) const COPIED: u64 = 1 << 36;
/// End of a chain of frames.
pub(crate) const NONE: u32 = u32::MAX;

/// All flags of a frame's state.
const FLAGS: u64 = USED | VALID | DIRTY | LOADING | WRITING | COPIED;

// Each flag has a bit of its own, outside of the pin count.
const _: () = assert!(FLAGS.count_ones() == 6);
const _: () = assert!(FLAGS & PIN_MASK == 0);
const _: () = assert!(PIN_MASK & PIN_ONE == PIN_ONE);
// Without its flags for I/O and copies, the state of a frame without a page is below VALID.
const _: () = assert!(PIN_MASK + USED < VALID);

/// Checks that flags occur together only as the picture at the top allows.
#[inline]
pub(crate) fn assert_state(state: u64) {
    let is_valid = state & VALID != 0;
    debug_assert!(state & !(FLAGS | PIN_MASK) == 0, "unknown flags: {state:#x}");
    debug_assert!(!is_valid || state & LOADING == 0, "LOADING and VALID: {state:#x}");
    debug_assert!(is_valid || state & DIRTY == 0, "DIRTY, not VALID: {state:#x}");
    debug_assert!(is_valid || state & WRITING == 0, "WRITING, not VALID: {state:#x}");
    debug_assert!(is_valid || state & COPIED == 0, "COPIED, not VALID: {state:#x}");
}

/// One frame, without its page, in a cache line of its own.
#[repr(align(64))]
pub(crate) struct Frame {
    pub(crate) state: AtomicU64,
    file: AtomicU64,
    /// Fork in the high half, block in the low half.
    place: AtomicU64,
    /// Version of the page (rule `leaf-version`), from a global counter, so that an old version
    /// never returns.
    pub(crate) version: AtomicU64,
    /// Next frame of the same hash bucket.
    pub(crate) next: AtomicU32,
    /// Pins that found the page in the frame, since the page was read in. Approximate under
    /// contention: a counter is not worth a locked instruction.
    pub(crate) hits: Counter,
    /// Times the page became dirty since it was read in.
    pub(crate) dirtied: Counter,
    pub(crate) latch: RwLock<()>,
}

/// A page's name as two words.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) file: u64,
    pub(crate) place: u64,
}

impl Tag {
    #[inline]
    pub(crate) fn of(id: PageId) -> Self {
        Self { file: id.file.0, place: (u64::from(id.fork as u8) << 32) | u64::from(id.block.0) }
    }

    pub(crate) fn id(self) -> PageId {
        let fork = match self.place >> 32 {
            1 => Fork::FreeSpace,
            2 => Fork::Visibility,
            _ => Fork::Main,
        };
        PageId { file: RelFileId(self.file), fork, block: BlockNumber(self.place as u32) }
    }

    /// Hashes the name: two multiplications spread file, fork and block over all bits.
    #[inline]
    pub(crate) fn hash(self) -> u64 {
        let mixed = (self.file.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ self.place)
            .wrapping_mul(0xd6e8_feb8_6659_fd93);
        mixed ^ (mixed >> 32)
    }
}

impl Frame {
    pub(crate) fn new() -> Self {
        Self {
            state: AtomicU64::new(0),
            file: AtomicU64::new(0),
            place: AtomicU64::new(0),
            version: AtomicU64::new(0),
            next: AtomicU32::new(NONE),
            hits: Counter::new(0),
            dirtied: Counter::new(0),
            latch: RwLock::new(()),
        }
    }

    /// Returns the name. It is stable only while the caller holds a pin, the claim, or the lock of
    /// the frame's partition.
    #[inline]
    pub(crate) fn tag(&self) -> Tag {
        // Relaxed: a thread that relies on the name pinned the frame before (acquire), or holds a
        // lock.
        Tag { file: self.file.load(Ordering::Relaxed), place: self.place.load(Ordering::Relaxed) }
    }

    /// Renames a CLAIMED frame.
    pub(crate) fn set_tag(&self, tag: Tag) {
        self.file.store(tag.file, Ordering::Relaxed);
        self.place.store(tag.place, Ordering::Relaxed);
    }

    /// Pins the frame if it is VALID, and returns the state before. After that the name cannot
    /// change.
    #[inline]
    pub(crate) fn try_pin_to_use(&self) -> Option<u64> {
        self.try_pin(USED)
    }

    /// Pins like [`Frame::try_pin_to_use`], for writing the page out, which does not count as a
    /// use.
    pub(crate) fn try_pin_to_write(&self) -> bool {
        self.try_pin(0).is_some()
    }

    #[inline]
    fn try_pin(&self, used: u64) -> Option<u64> {
        let mut state = self.state.load(Ordering::Relaxed);
        // Ends: each failed exchange means that another thread's succeeded.
        loop {
            if state & VALID == 0 {
                return None;
            }
            assert_state(state);
            debug_assert!(state & PIN_MASK < PIN_MASK, "one pin more than can be counted");
            // Acquire: pairs with the release that set VALID, and with the release of unpins.
            match self.state.compare_exchange_weak(
                state,
                (state + PIN_ONE) | used,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(state),
                Err(now) => state = now,
            }
        }
    }

    /// Pins a frame once more. The frame is in the table and the caller holds its partition's lock,
    /// or the caller has pinned it already.
    #[inline]
    pub(crate) fn pin_again(&self) {
        let before = self.state.fetch_add(PIN_ONE, Ordering::Acquire);
        debug_assert!(before & PIN_MASK < PIN_MASK, "one pin more than can be counted");
        debug_assert!(before & (VALID | LOADING) != 0, "the frame has no page: {before:#x}");
    }

    /// Gives a pin back.
    #[inline]
    pub(crate) fn unpin(&self) {
        // Release: work done under the pin happens before a claim of the frame.
        let before = self.state.fetch_sub(PIN_ONE, Ordering::Release);
        debug_assert!(before & PIN_MASK > 0, "a pin was given back twice");
        // A simulation may end a thread at any point.
        debug_assert!(
            before & PIN_MASK > PIN_ONE || before & (LOADING | WRITING) == 0 || thread::panicking(),
            "the last pin of a frame under I/O: {before:#x}"
        );
    }

    /// Marks the page as different from the disk. The caller holds the latch exclusively.
    #[inline]
    pub(crate) fn mark_dirty(&self) {
        // The latch keeps writers from clearing DIRTY meanwhile: they clear it under the shared
        // latch.
        let state = self.state.load(Ordering::Relaxed);
        debug_assert!(state & VALID != 0, "a frame without a page is changed: {state:#x}");
        debug_assert!(state & PIN_MASK > 0, "a frame without a pin is changed: {state:#x}");
        if state & DIRTY == 0 {
            self.state.fetch_or(DIRTY, Ordering::Release);
            let count = self.dirtied.load(Ordering::Relaxed);
            self.dirtied.store(count.wrapping_add(1), Ordering::Relaxed);
        }
    }

    /// Counts a pin that found its page in the frame.
    #[inline]
    pub(crate) fn count_hit(&self) {
        self.hits.store(self.hits.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn a_life_of_a_frame_has_legal_states() {
        let states = [0, PIN_ONE, LOADING | USED | PIN_ONE, VALID | COPIED | USED | PIN_MASK];
        states.into_iter().for_each(assert_state);
        assert_state(VALID | DIRTY | WRITING | PIN_ONE);
    }

    #[test]
    #[cfg(debug_assertions)]
    fn illegal_states_are_noticed() {
        for state in [VALID | LOADING, DIRTY, WRITING | PIN_ONE, COPIED | LOADING, 1 << 40] {
            let noticed = std::panic::catch_unwind(|| assert_state(state)).is_err();
            assert!(noticed, "{state:#x}");
        }
    }
}
