//! The lock-free directory of transaction states.
//!
//! ```text
//! xid ── / 32672 ──> segment number ── % entries ──> entry: segment number + frame, in one word
//!                                                       │
//!     frames[frame][xid % 32672]  <─────────────────────┘      0 running, 1 aborted, else CSN
//! ```
//!
//! A frame is reused for another segment once its own was shrunk. A reader that read a value looks
//! at the entry again: if it is unchanged, the value belonged to the segment it wanted.

use std::sync::OnceLock;

use niwaki_env::sync::Mutex;
use niwaki_env::sync::atomic::{AtomicU64, Ordering};
use niwaki_storage::{Csn, Xid};

use super::XIDS_PER_SEGMENT;
use crate::error::{Error, Result};

/// State: not ended, or not yet visible to anybody.
pub(crate) const RUNNING: u64 = 0;
/// State: rolled back, or lost in a crash.
pub(crate) const ABORTED: u64 = 1;

/// State: committed before every snapshot.
pub(crate) const ANCIENT: u64 = 2;

/// Entries of the directory: 2.1 thousand million transactions at once.
const ENTRIES: usize = 1 << 16;
/// Frames: 1 GiB of states; reached only when thousands of transactions stay open for days.
const FRAMES: usize = 4096;
const FRAME_BITS: u32 = 12;

type Frame = Box<[AtomicU64]>;

/// States of all transactions that are not yet shrunk.
pub(crate) struct XactStates {
    /// 0, or `segment << 12 | frame`, plus 1.
    entries: Box<[AtomicU64]>,
    frames: Box<[OnceLock<Frame>]>,
    allocator: Mutex<Allocator>,
}

#[derive(Debug, Default)]
struct Allocator {
    /// Frames at or past this were never used.
    used: usize,
    free: Vec<usize>,
}

impl XactStates {
    pub(crate) fn new() -> Self {
        Self {
            entries: (0..ENTRIES).map(|_| AtomicU64::new(0)).collect(),
            frames: (0..FRAMES).map(|_| OnceLock::new()).collect(),
            allocator: Mutex::new(Allocator::default()),
        }
    }

    /// The state of `xid`, or `None` when its segment is not in memory.
    #[inline]
    pub(crate) fn get(&self, xid: Xid) -> Option<u64> {
        let segment = xid.0 / XIDS_PER_SEGMENT;
        let entry = &self.entries[(segment as usize) % ENTRIES];
        // Acquire: pairs with the release that installed the entry; the frame was cleared before.
        let word = entry.load(Ordering::Acquire);
        let frame = self.frame_of(word, segment)?;
        // Acquire: pairs with the release of the state's writer, and keeps the second look at the
        // entry behind this load.
        let value = frame[(xid.0 % XIDS_PER_SEGMENT) as usize].load(Ordering::Acquire);
        (entry.load(Ordering::Relaxed) == word).then_some(value)
    }

    #[inline]
    fn frame_of(&self, word: u64, segment: u64) -> Option<&Frame> {
        let packed = word.checked_sub(1)?;
        if packed >> FRAME_BITS != segment {
            return None;
        }
        self.frames[(packed & (FRAMES as u64 - 1)) as usize].get()
    }

    fn slot(&self, xid: Xid) -> Option<&AtomicU64> {
        let segment = xid.0 / XIDS_PER_SEGMENT;
        let word = self.entries[(segment as usize) % ENTRIES].load(Ordering::Acquire);
        Some(&self.frame_of(word, segment)?[(xid.0 % XIDS_PER_SEGMENT) as usize])
    }

    /// Stores that `xid` committed. Its segment is in memory, since it was running until now.
    pub(crate) fn commit(&self, xid: Xid, csn: Csn) {
        self.store(xid, csn.0);
    }

    /// Stores that `xid` aborted.
    pub(crate) fn abort(&self, xid: Xid) {
        self.store(xid, ABORTED);
    }

    fn store(&self, xid: Xid, state: u64) {
        let slot = self.slot(xid).expect("a segment with a running transaction stays in memory");
        slot.store(state, Ordering::Release);
    }

    /// Gives the segment of `xid` a frame if it has none.
    pub(crate) fn open_segment(&self, xid: Xid) -> Result<()> {
        let segment = xid.0 / XIDS_PER_SEGMENT;
        let entry = &self.entries[(segment as usize) % ENTRIES];
        let mut allocator = self.allocator.lock();
        let word = entry.load(Ordering::Acquire);
        if self.frame_of(word, segment).is_some() {
            return Ok(());
        }
        if word != 0 {
            return Err(Error::OutOfMemory { what: "transaction states of an old transaction" });
        }
        let frame = match allocator.free.pop() {
            Some(frame) => {
                for state in self.frames[frame].get().into_iter().flatten() {
                    state.store(RUNNING, Ordering::Release);
                }
                frame
            }
            None if allocator.used < FRAMES => {
                let frame = allocator.used;
                let fresh = (0..XIDS_PER_SEGMENT).map(|_| AtomicU64::new(RUNNING)).collect();
                self.frames[frame].get_or_init(|| fresh);
                allocator.used += 1;
                frame
            }
            None => return Err(Error::OutOfMemory { what: "transaction states" }),
        };
        if segment == 0
            && let Some(states) = self.frames[frame].get()
        {
            states[Xid::INVALID.0 as usize].store(ABORTED, Ordering::Release);
            for reserved in Xid::FROZEN.0..Xid::FIRST_NORMAL.0 {
                states[reserved as usize].store(ANCIENT, Ordering::Release);
            }
        }
        // Release: pairs with the acquire in `get`.
        entry.store((segment << FRAME_BITS | frame as u64) + 1, Ordering::Release);
        Ok(())
    }
}
