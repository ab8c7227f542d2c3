//! The lock-free directory of transaction states.
//!
//! ```text
//! xid ── / 32672 ──> segment number ── % entries ──> entry: segment number + frame, in one word
//!                                                       │
//!     frames[frame][xid % 32672]  <─────────────────────┘      0 running, 1 aborted, else CSN
//! ```
//!
//! A frame is reused for another segment once its own was shrunk or spilled. A reader that read a
//! value looks at the entry again: if it is unchanged, the value belonged to the wanted segment.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use niwaki_env::sync::Mutex;
use niwaki_env::sync::atomic::{AtomicU64, Ordering};
use niwaki_env::{invariant, seeded_bug};
use niwaki_storage::{Csn, Xid};

use crate::error::{Error, Result};
use crate::options::limit;
use crate::xact::segment::{ABORTED, ANCIENT, RUNNING, XIDS_PER_SEGMENT, place_of, segment_of};
use crate::xact::spill::Spilled;

/// Entries of the directory, one per segment: 2.1 thousand million transactions at once.
const ENTRIES: usize = limit(1 << 16, 1024, 2);
/// The greatest number of segments that are not shrunk, in frames or spilled. Reached only when
/// thousands of transactions or snapshots stay open for days.
const FRAMES: usize = limit(4096, 1024, 2);
/// Segments that stay in frames: 16 MiB. Older segments beyond this number are spilled.
pub(crate) const FRAMES_KEPT: usize = limit(64, 0, 2);
const FRAME_BITS: u32 = 12;

const _: () = assert!(FRAMES <= 1 << FRAME_BITS, "an entry has no room for a frame's number");
const _: () = assert!(FRAMES <= ENTRIES, "some frames can have no entry");
const _: () = assert!(FRAMES_KEPT <= FRAMES, "more frames are kept than there are");

type Frame = Box<[AtomicU64]>;

/// States of all transactions that are not yet shrunk.
pub(crate) struct XactStates {
    /// 0, or `segment << 12 | frame`, plus 1.
    entries: Box<[AtomicU64]>,
    frames: Box<[OnceLock<Frame>]>,
    allocator: Mutex<Allocator>,
    /// States of the segments that were spilled from their frames to the file.
    pub(super) spilled: Spilled,
}

#[derive(Debug, Default)]
struct Allocator {
    /// Frames at or past this were never used.
    used: usize,
    free: Vec<usize>,
    /// Segments in memory and their frames.
    live: BTreeMap<u64, usize>,
}

impl Allocator {
    /// Asserts what holds between two operations: each frame that was used holds one segment, or is
    /// free.
    fn assert_state(&self) {
        debug_assert!(self.used <= FRAMES, "{} frames are used", self.used);
        debug_assert_eq!(self.live.len() + self.free.len(), self.used, "a frame is lost or shared");
    }
}

impl XactStates {
    pub(crate) fn new() -> Self {
        Self {
            entries: (0..ENTRIES).map(|_| AtomicU64::new(0)).collect(),
            frames: (0..FRAMES).map(|_| OnceLock::new()).collect(),
            allocator: Mutex::new(Allocator::default()),
            spilled: Spilled::default(),
        }
    }

    /// Returns the state of `xid`, or `None` when its segment is not in memory.
    #[inline]
    pub(crate) fn get(&self, xid: Xid) -> Option<u64> {
        let segment = segment_of(xid);
        let entry = self.entry(segment);
        // Acquire: pairs with the release that installed the entry; the frame was cleared before.
        let word = entry.load(Ordering::Acquire);
        let frame = self.frame_of(word, segment)?;
        // Acquire: pairs with the release of the state's writer, and keeps the second look at the
        // entry behind this load.
        let value = frame[place_of(xid)].load(Ordering::Acquire);
        // Acquire: a reader that finds the entry changed finds the states in their new place.
        (entry.load(Ordering::Acquire) == word).then_some(value)
    }

    #[inline]
    fn entry(&self, segment: u64) -> &AtomicU64 {
        &self.entries[segment as usize % ENTRIES]
    }

    #[inline]
    fn frame_of(&self, word: u64, segment: u64) -> Option<&Frame> {
        let packed = word.checked_sub(1)?;
        if packed >> FRAME_BITS != segment {
            return None;
        }
        self.frames[(packed & ((1 << FRAME_BITS) - 1)) as usize].get()
    }

    /// Returns the states of a segment in memory. The caller makes sure that the segment is not
    /// shrunk meanwhile.
    pub(crate) fn segment(&self, segment: u64) -> Option<&[AtomicU64]> {
        let word = self.entry(segment).load(Ordering::Acquire);
        self.frame_of(word, segment).map(|frame| &frame[..])
    }

    /// Stores that `xid`, which was running until now, committed. The caller keeps segments from
    /// moving.
    pub(crate) fn commit(&self, xid: Xid, csn: Csn) {
        invariant!(S1, csn.0 > ANCIENT, "the CSN {csn} of {xid} is the word of another state");
        debug_assert!(xid.is_normal(), "the reserved id {xid} commits");
        self.store(xid, csn.0);
    }

    /// Stores that `xid`, which was running until now, aborted. The caller keeps segments from
    /// moving.
    pub(crate) fn abort(&self, xid: Xid) {
        debug_assert!(xid.is_normal(), "the reserved id {xid} aborts");
        self.store(xid, ABORTED);
    }

    fn store(&self, xid: Xid, state: u64) {
        match self.segment(segment_of(xid)) {
            // Release: pairs with the acquire in `get`.
            Some(states) => states[place_of(xid)].store(state, Ordering::Release),
            None => self.store_spilled(xid, state),
        }
    }

    /// Returns the numbers of the segments in memory, ascending.
    pub(crate) fn live(&self) -> Vec<u64> {
        self.allocator.lock().live.keys().copied().collect()
    }

    /// Returns the numbers of the segments that are not shrunk, in order.
    pub(crate) fn unshrunk(&self) -> Vec<u64> {
        // Segments move in this order: none is missed. One that is spilled meanwhile comes twice.
        let mut segments = self.live();
        segments.extend(self.spilled.all().into_iter().map(|(segment, _)| segment));
        segments.sort_unstable();
        segments.dedup();
        segments
    }

    /// Returns the bytes of memory that frames and spilled segments take.
    pub(crate) fn bytes(&self) -> usize {
        let frame = XIDS_PER_SEGMENT as usize * size_of::<u64>();
        self.allocator.lock().used * frame + self.spilled.bytes()
    }

    /// Gives a segment a frame if it has none and is not spilled. `announce` logs the new segment
    /// before any of its transactions can be seen.
    pub(crate) fn open_segment(
        &self,
        segment: u64,
        announce: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let mut allocator = self.allocator.lock();
        allocator.assert_state();
        let entry = self.entry(segment);
        let word = entry.load(Ordering::Acquire);
        // A transaction may use its id so late that the id's segment was spilled meanwhile.
        let spilled = self.spilled.has(segment) && !seeded_bug!("spilled_opened_again");
        if self.frame_of(word, segment).is_some() || spilled {
            return Ok(());
        }
        if word != 0 || segment >= u64::MAX >> (FRAME_BITS + 1) {
            return Err(Error::OutOfMemory { what: "a transaction is open for too long" });
        }
        if allocator.live.len() + self.spilled.count() >= FRAMES {
            return Err(Error::OutOfMemory { what: "too many transactions are open for too long" });
        }
        announce()?;
        let reused = allocator.free.pop();
        let frame = reused.unwrap_or(allocator.used);
        allocator.used = allocator.used.max(frame + 1);
        let before = allocator.live.insert(segment, frame);
        debug_assert_eq!(before, None, "segment {segment} has a frame already");
        allocator.assert_state();
        let fresh = || (0..XIDS_PER_SEGMENT).map(|_| AtomicU64::new(RUNNING)).collect();
        let states = self.frames[frame].get_or_init(fresh);
        if reused.is_some() {
            // Release: a reader of such a value sees that the entry changed before.
            states.iter().for_each(|state| state.store(RUNNING, Ordering::Release));
        }
        if segment == 0 {
            states[place_of(Xid::INVALID)].store(ABORTED, Ordering::Release);
            for reserved in Xid::FROZEN.0..Xid::FIRST_NORMAL.0 {
                states[place_of(Xid(reserved))].store(ANCIENT, Ordering::Release);
            }
        }
        debug_assert!(frame < 1 << FRAME_BITS, "frame {frame} looks like one of segment {segment}");
        let word = (segment << FRAME_BITS | frame as u64) + 1;
        debug_assert!(self.frame_of(word, segment).is_some(), "{word:#x} leads to no frame");
        debug_assert!(self.frame_of(word, segment + 1).is_none(), "{word:#x} is of two segments");
        // Release: pairs with the acquire in `get`.
        entry.store(word, Ordering::Release);
        Ok(())
    }

    /// Frees the frame of a segment whose states are found elsewhere from now on.
    pub(crate) fn close_segment(&self, segment: u64) {
        let mut allocator = self.allocator.lock();
        allocator.assert_state();
        if let Some(frame) = allocator.live.remove(&segment) {
            // Release: a reader that finds the entry gone finds the states in their new place.
            self.entry(segment).store(0, Ordering::Release);
            allocator.free.push(frame);
        }
        allocator.assert_state();
    }
}

#[cfg(all(test, not(any(feature = "shuttle", feature = "loom"))))]
mod tests {
    use super::*;

    fn xid(segment: u64, at: u64) -> Xid {
        Xid(segment * XIDS_PER_SEGMENT + at)
    }

    #[test]
    fn states_are_found_until_their_segment_closes() {
        let states = XactStates::new();
        assert_eq!(states.get(xid(3, 5)), None);
        states.open_segment(3, || Ok(())).unwrap();
        assert_eq!(states.get(xid(3, 5)), Some(RUNNING));
        states.commit(xid(3, 5), Csn(99));
        states.abort(xid(3, 6));
        assert_eq!(states.get(xid(3, 5)), Some(99));
        assert_eq!(states.get(xid(3, 6)), Some(ABORTED));
        // The same entry of the directory, another segment.
        assert_eq!(states.get(xid(3 + ENTRIES as u64, 5)), None);
        states.close_segment(3);
        assert_eq!(states.get(xid(3, 5)), None);
        // The frame comes back empty.
        states.open_segment(4, || Ok(())).unwrap();
        assert_eq!(states.get(xid(4, 5)), Some(RUNNING));
        assert_eq!(states.live(), [4]);
    }

    #[test]
    fn a_stuck_segment_refuses_its_entry_to_others() {
        let states = XactStates::new();
        states.open_segment(1, || Ok(())).unwrap();
        let refused = states.open_segment(1 + ENTRIES as u64, || Ok(()));
        assert!(matches!(refused, Err(Error::OutOfMemory { .. })));
        states.open_segment(1, || unreachable!("it is open")).unwrap();
    }

    #[test]
    #[should_panic(expected = "a frame is lost or shared")]
    #[cfg(debug_assertions)]
    fn a_lost_frame_is_noticed() {
        Allocator { used: 1, ..Allocator::default() }.assert_state();
    }

    #[test]
    fn reserved_ids_have_their_states() {
        let states = XactStates::new();
        states.open_segment(0, || Ok(())).unwrap();
        assert_eq!(states.get(Xid::INVALID), Some(ABORTED));
        assert_eq!(states.get(Xid::FROZEN), Some(ANCIENT));
        assert_eq!(states.get(Xid::FIRST_NORMAL), Some(RUNNING));
    }
}
