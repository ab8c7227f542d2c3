//! Writing dirty pages.

use niwaki_env::seeded_bug;
use niwaki_env::sync::atomic::Ordering;

use super::frame::{DIRTY, LOADING, PIN_MASK, VALID, WRITING};
use super::pool::BufferPool;
use crate::error::Result;
use crate::page::Page;

impl BufferPool {
    /// Writes the page of a pinned frame if it is dirty, after flushing the log to its LSN (W1). Only
    /// one thread at a time writes a page, and from a copy of its own, so that the bytes cannot
    /// change on their way. With `wait` false it gives up where it would wait for a latch or another
    /// writer. Returns whether the page was clean at some moment after the call.
    pub(super) fn write_out(&self, index: u32, wait: bool) -> Result<bool> {
        let frame = &self.frames[index as usize];
        let mut state = frame.state.load(Ordering::Acquire);
        // Ends: a failed exchange means another thread's progress, and a waited-for write is over.
        loop {
            if state & WRITING != 0 {
                if !wait {
                    return Ok(false);
                }
                state = self.wait_while(index, WRITING);
                continue;
            }
            if state & DIRTY == 0 {
                return Ok(true);
            }
            match frame.state.compare_exchange_weak(
                state,
                state | WRITING,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => break,
                Err(now) => state = now,
            }
        }
        let latch = if wait { Some(frame.latch.read()) } else { frame.latch.try_read() };
        let Some(latch) = latch else {
            self.end_io(index, 0, WRITING);
            return Ok(false);
        };
        // Under the latch nobody sets DIRTY: what is set after it is released is a later change.
        frame.state.fetch_and(!DIRTY, Ordering::AcqRel);
        // SAFETY: the frame is pinned and its shared latch is held.
        let mut copy: Page = unsafe { self.page(index) }.clone();
        drop(latch);
        match self.write_copy(index, &mut copy) {
            Ok(()) => {
                self.end_io(index, 0, WRITING);
                Ok(true)
            }
            Err(error) => {
                self.end_io(index, DIRTY, WRITING);
                Err(error)
            }
        }
    }

    fn write_copy(&self, index: u32, copy: &mut Page) -> Result<()> {
        let id = self.frames[index as usize].tag().id();
        if !seeded_bug!("page_before_log") {
            self.wal.flush(copy.lsn());
        }
        if !copy.is_new() {
            let checksum = copy.compute_checksum(id);
            copy.set_checksum(checksum);
        }
        let fork = self.fork_of(id)?;
        self.files.write(&fork, id, copy)
    }

    /// Writes every page that is dirty at the time of the call, in the order of files and blocks.
    /// Returns how many it wrote or found being written.
    pub(crate) fn write_dirty(&self) -> Result<u64> {
        let mut dirty: Vec<_> = (0..self.frames.len() as u32)
            .filter(|&index| {
                let state = self.frames[index as usize].state.load(Ordering::Acquire);
                state & (DIRTY | WRITING) != 0
            })
            .map(|index| (self.frames[index as usize].tag(), index))
            .collect();
        dirty.sort_unstable_by_key(|(tag, _)| (tag.file, tag.place));
        let mut written = 0;
        for (tag, index) in dirty {
            let frame = &self.frames[index as usize];
            if !frame.try_pin_valid() {
                continue;
            }
            let pin = super::Pin::new(self, frame, index);
            // Another page came here meanwhile: this one was written when it was evicted.
            if frame.tag() == tag {
                self.write_out(index, true)?;
                written += 1;
            }
            drop(pin);
        }
        Ok(written)
    }

    /// Writes whatever page the clock hand is at, if that needs no waiting: what an eviction might do
    /// at any time, made frequent in simulations.
    pub(super) fn write_any(&self) {
        let index = self.hand.load(Ordering::Relaxed) % self.frames.len() as u32;
        let frame = &self.frames[index as usize];
        if frame.try_pin_valid() {
            let pin = super::Pin::new(self, frame, index);
            // On failure the page stays dirty.
            let _ = self.write_out(index, false);
            drop(pin);
        }
    }

    /// Whether nothing is pinned, read or written: the state of a pool at rest.
    pub fn is_idle(&self) -> bool {
        self.frames.iter().all(|frame| {
            let state = frame.state.load(Ordering::Acquire);
            state & (PIN_MASK | LOADING | WRITING) == 0
        })
    }

    /// How many frames hold a page.
    pub fn used_frames(&self) -> usize {
        self.frames.iter().filter(|f| f.state.load(Ordering::Relaxed) & VALID != 0).count()
    }
}
