//! Choice of the page to evict: of the next few not used since the clock hand passed, the one used
//! least often lately.
//!
//! The hand alone measures recency: a page used once keeps its frame for as long as one used three
//! times as often. In a pool much smaller than the data, both are evicted before they are used
//! again. This holds for the leaves of a small index as for the pages of a large heap.
//! `frames/frequency.rs` remembers uses beyond a page's stay. So one pass over a large table does
//! not empty the pool either: its pages replace each other.

use niwaki_env::sync::atomic::Ordering;
use niwaki_env::sync::{SCHEDULED, thread};

use super::guard::Pin;
use super::pool::BufferPool;
use crate::error::{Error, Result};
use crate::frames::frame::{
    DIRTY, Frame, LOADING, PIN_MASK, PIN_ONE, Tag, USED, VALID, WRITING, assert_state,
};

/// Unused pages compared in one choice; the one used least often is evicted. More would choose
/// better and search longer.
const CANDIDATES: usize = 16;
/// Victims that one pass of the background writer can find in a small pool: one choice compares at
/// most this part of the frames.
const VICTIMS_A_PASS: usize = 8;
/// Passes of the hand after which a pool counts as full of pinned pages. One pass clears USED, one
/// finds the pages unused, and some more allow for frames that other threads take away.
const PASSES_MAX: usize = 16;
/// Attempts to find a frame that has become free, in a pool full of pinned pages.
const TURNS_MAX: usize = if SCHEDULED { 4 } else { 1000 };
/// Pins of a page by a pass that visits the page once.
const HITS_OF_A_PASS: u32 = 2;

const _: () = assert!(CANDIDATES > 0);
// A choice leaves frames for the other victims of a pass.
const _: () = assert!(VICTIMS_A_PASS > 1);
// One pass clears USED, and the next one finds the pages unused.
const _: () = assert!(PASSES_MAX >= 2);
const _: () = assert!(TURNS_MAX > 0);

impl BufferPool {
    /// Finds a frame, evicts its page, and returns the frame CLAIMED: not in the table, pinned
    /// once. When all frames are pinned, waits for frames under I/O, and yields to threads that pin
    /// a frame for a moment.
    ///
    /// # Errors
    /// [`Error::NoBuffers`], when all frames stay pinned; the errors of writing a dirty page.
    pub(super) fn claim_frame(&self) -> Result<u32> {
        for _ in 0..TURNS_MAX {
            if let Some(index) = self.find_frame()? {
                return Ok(index);
            }
            self.reap_completed();
            if !self.wait_for_a_read() {
                thread::yield_now();
            }
        }
        Err(Error::NoBuffers)
    }

    /// Waits until the read of some frame is over, if there is one. Reads end no matter what this
    /// thread holds: they need no latch and no other frame. (A writer may need a latch that this
    /// thread holds.)
    fn wait_for_a_read(&self) -> bool {
        let loading = |frame: &Frame| frame.state.load(Ordering::Relaxed) & LOADING != 0;
        let Some(index) = self.frames.iter().position(loading) else { return false };
        self.wait_until_loaded(index as u32, self.frames[index].tag());
        true
    }

    /// Returns the frame of a page that a pass over many pages is done with, CLAIMED. Returns
    /// `None` if another thread used the page too, or if its changes are not durable in the log
    /// yet. A pass waits for no flush, and leaves such a page to the background writer, among the
    /// first ones to evict.
    pub(super) fn reclaim(&self, tag: Tag) -> Option<u32> {
        let index = self.table.guess(&self.frames, tag)?;
        let frame = &self.frames[index as usize];
        let state = frame.state.load(Ordering::Relaxed);
        let in_use = state & (PIN_MASK | LOADING | WRITING) != 0;
        if state & VALID == 0 || in_use || frame.hits.load(Ordering::Relaxed) > HITS_OF_A_PASS {
            return None;
        }
        // One attempt, as for other victims; the pin keeps the name.
        let pinned = frame.state.compare_exchange(
            state,
            state + PIN_ONE,
            Ordering::Acquire,
            Ordering::Relaxed,
        );
        pinned.ok()?;
        if frame.tag() != tag || (state & DIRTY != 0 && !self.is_log_durable(index)) {
            frame.unpin();
            return None;
        }
        // After an error, the next thread that writes the page meets the error again.
        matches!(self.evict(index), Ok(true)).then_some(index)
    }

    /// Returns whether a pinned page could be written without a flush of the log.
    fn is_log_durable(&self, index: u32) -> bool {
        let Some(_shared) = self.frames[index as usize].latch.try_read() else { return false };
        // SAFETY: the caller has the frame pinned, and the latch is held in shared mode.
        let page = unsafe { self.page(index) };
        page.lsn() <= self.flushed()
    }

    /// Finds a frame like [`BufferPool::claim_frame`], without waiting for pinned frames.
    pub(super) fn find_frame(&self) -> Result<Option<u32>> {
        let count = self.frames.len();
        let next = |_| self.hand.fetch_add(1, Ordering::Relaxed) % count as u32;
        let mut frames = (0..count * PASSES_MAX).map(next);
        while let Some(index) = self.choose_victim(&mut frames, true) {
            if self.pin_victim(index) && self.evict(index)? {
                self.writes.allocated.fetch_add(1, Ordering::Relaxed);
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    /// Returns the frame to reuse among the next of `frames`: one without a page, or the least
    /// often used of some unused ones. With `pass`, frames that were used count as unused from now
    /// on.
    pub(super) fn choose_victim(
        &self,
        frames: &mut dyn Iterator<Item = u32>,
        pass: bool,
    ) -> Option<u32> {
        let most = CANDIDATES.min(self.frames.len() / VICTIMS_A_PASS);
        let mut best = None;
        let mut candidates = 0;
        for index in frames {
            let frame = &self.frames[index as usize];
            let state = frame.state.load(Ordering::Relaxed);
            if state & (PIN_MASK | LOADING | WRITING) != 0 {
                continue;
            }
            if state & VALID == 0 {
                return Some(index);
            }
            if state & USED != 0 {
                if pass {
                    frame.state.fetch_and(!USED, Ordering::Relaxed);
                }
                continue;
            }
            // The name may change meanwhile; then the frame is pinned, or used.
            let frequency = self.frequencies.of(frame.tag());
            if best.is_none_or(|(least, _)| frequency < least) {
                best = Some((frequency, index));
            }
            candidates += 1;
            if candidates >= most {
                break;
            }
        }
        best.map(|(_, index)| index)
    }

    /// Pins the frame if no thread uses it.
    fn pin_victim(&self, index: u32) -> bool {
        let frame = &self.frames[index as usize];
        let state = frame.state.load(Ordering::Relaxed);
        let unused =
            state & (PIN_MASK | LOADING | WRITING) == 0 && state & (VALID | USED) != VALID | USED;
        // One attempt: a thread that changed the state meanwhile uses the page.
        unused
            && frame
                .state
                .compare_exchange(state, state + PIN_ONE, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
    }

    /// Writes and removes the page of a frame that this thread pinned. Returns false, with the pin
    /// given back, when another thread came to use the page.
    fn evict(&self, index: u32) -> Result<bool> {
        let frame = &self.frames[index as usize];
        let state = frame.state.load(Ordering::Acquire);
        assert_state(state);
        debug_assert!(state & PIN_MASK > 0, "the caller has not pinned frame {index}");
        if state & VALID == 0 {
            debug_assert!(state & LOADING == 0, "frame {index} is being read: {state:#x}");
            return Ok(true);
        }
        if state & DIRTY != 0 {
            // The pin is given back if the page is not written, even by a panic.
            let pin = Pin::new(self, frame, index);
            let written = self.write_out(index, &self.writes.sessions);
            if !matches!(written, Ok(true)) {
                return written;
            }
            std::mem::forget(pin);
        }
        let tag = frame.tag();
        let partition = self.table.lock(tag);
        let state = frame.state.load(Ordering::Acquire);
        assert_state(state);
        debug_assert!(state & VALID != 0, "the page left frame {index} in spite of the pin");
        let alone = state & PIN_MASK == PIN_ONE && state & (DIRTY | WRITING) == 0;
        // AcqRel: later uses of the frame come after all work under earlier pins.
        let taken = alone
            && frame
                .state
                .compare_exchange(state, PIN_ONE, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok();
        if taken {
            self.table.unlink(&self.frames, tag, index);
        }
        drop(partition);
        if taken {
            self.account(index, tag.id());
        } else {
            frame.unpin();
        }
        Ok(taken)
    }

    /// Gives a CLAIMED frame back.
    pub(super) fn abandon_claim(&self, index: u32) {
        self.frames[index as usize].unpin();
    }
}
