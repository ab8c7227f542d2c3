//! Which page gives its frame up: a clock hand over usage counts.

use niwaki_env::sync::atomic::Ordering;

use super::frame::{DIRTY, LOADING, PIN_MASK, PIN_ONE, USAGE_MASK, USAGE_ONE, VALID, WRITING};
use super::pool::BufferPool;
use crate::error::{Error, Result};

/// Passes of the hand after which a pool counts as full of pinned pages: each usage count needs one,
/// and some more for frames that others snatch away.
const PASSES_MAX: usize = 16;

impl BufferPool {
    /// Finds a frame, evicts its page, and returns it CLAIMED: not in the table, pinned once.
    ///
    /// # Errors
    /// [`Error::NoBuffers`]; the errors of writing a dirty page.
    pub(super) fn claim_frame(&self) -> Result<u32> {
        let count = self.frames.len() as u32;
        for _ in 0..self.frames.len() * PASSES_MAX {
            let index = self.hand.fetch_add(1, Ordering::Relaxed) % count;
            if self.pin_victim(index) && self.evict(index)? {
                self.writes.allocated.fetch_add(1, Ordering::Relaxed);
                return Ok(index);
            }
        }
        Err(Error::NoBuffers)
    }

    /// Pins the frame if nobody uses it; lowers its usage count otherwise.
    fn pin_victim(&self, index: u32) -> bool {
        let frame = &self.frames[index as usize];
        let state = frame.state.load(Ordering::Relaxed);
        if state & (PIN_MASK | LOADING | WRITING) != 0 {
            return false;
        }
        let evict = state & VALID == 0 || state & USAGE_MASK == 0;
        let next = if evict { state + PIN_ONE } else { state - USAGE_ONE };
        // One try: whoever changed the state meanwhile uses the page.
        let changed =
            frame.state.compare_exchange(state, next, Ordering::Acquire, Ordering::Relaxed).is_ok();
        changed && evict
    }

    /// Writes and removes the page of a frame that this thread pinned. False, and the pin is gone,
    /// when somebody came to use the page.
    fn evict(&self, index: u32) -> Result<bool> {
        let frame = &self.frames[index as usize];
        let state = frame.state.load(Ordering::Acquire);
        if state & VALID == 0 {
            return Ok(true);
        }
        if state & DIRTY != 0 {
            let written = self.write_out(index, &self.writes.sessions);
            if !matches!(written, Ok(true)) {
                frame.unpin();
                return written;
            }
        }
        let tag = frame.tag();
        let partition = self.table.lock(tag);
        let state = frame.state.load(Ordering::Acquire);
        let alone = state & PIN_MASK == PIN_ONE && state & (DIRTY | WRITING) == 0;
        // AcqRel: later uses of the frame come after everything that was done under earlier pins.
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
