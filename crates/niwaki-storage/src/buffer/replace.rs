//! Which page gives its frame up: of the next few that were not used since a clock hand came by last,
//! the one that was used least often of late.
//!
//! The hand alone tells recency: a page used once keeps its frame for as long as one used three times
//! as often. In a pool much smaller than the data both are gone before they are used again, the leaves of a small
//! index like the pages of a large heap. `frequency.rs` remembers uses beyond a page's stay. So one pass over a
//! large table does not empty the pool either: its pages give way to each other.

use niwaki_env::sync::atomic::Ordering;

use super::frame::{DIRTY, LOADING, PIN_MASK, PIN_ONE, USED, VALID, WRITING};
use super::pool::BufferPool;
use crate::error::{Error, Result};

/// Pages of which the least often used is evicted. More choose better and look longer.
const CANDIDATES: usize = 16;
/// In a small pool they are no more than this part of it: one pass of the background writer finds as many victims.
const VICTIMS_A_PASS: usize = 8;
/// Passes of the hand after which a pool counts as full of pinned pages: one for what was used, one to
/// find it unused, and some more for frames that others snatch away.
const PASSES_MAX: usize = 16;

impl BufferPool {
    /// Finds a frame, evicts its page, and returns it CLAIMED: not in the table, pinned once.
    ///
    /// # Errors
    /// [`Error::NoBuffers`]; the errors of writing a dirty page.
    pub(super) fn claim_frame(&self) -> Result<u32> {
        let count = self.frames.len();
        let next = |_| self.hand.fetch_add(1, Ordering::Relaxed) % count as u32;
        let mut frames = (0..count * PASSES_MAX).map(next);
        while let Some(index) = self.choose_victim(&mut frames, true) {
            if self.pin_victim(index) && self.evict(index)? {
                self.writes.allocated.fetch_add(1, Ordering::Relaxed);
                return Ok(index);
            }
        }
        Err(Error::NoBuffers)
    }

    /// The frame to be reused among the next of `frames`: one without a page, or of some that nobody
    /// uses the least often used. With `pass` those that were used count as unused from now on.
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

    /// Pins the frame if nobody uses it.
    fn pin_victim(&self, index: u32) -> bool {
        let frame = &self.frames[index as usize];
        let state = frame.state.load(Ordering::Relaxed);
        let unused =
            state & (PIN_MASK | LOADING | WRITING) == 0 && state & (VALID | USED) != VALID | USED;
        // One try: whoever changed the state meanwhile uses the page.
        unused
            && frame
                .state
                .compare_exchange(state, state + PIN_ONE, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
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
