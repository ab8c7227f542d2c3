//! Writing dirty pages: one for an eviction, or several neighbours for checkpoints and the
//! background writer.

use niwaki_env::seeded_bug;
use niwaki_env::sync::atomic::Ordering;
use niwaki_env::sync::plain_atomic::AtomicU64 as Counter;
use scopeguard::ScopeGuard;

use super::guard::Pin;
use super::pool::BufferPool;
use crate::error::Result;
use crate::frames::frame::{DIRTY, LOADING, PIN_MASK, Tag, VALID, WRITING, assert_state};
use crate::ids::{Lsn, PageId};
use crate::page::{PAGE_SIZE, Page};

/// The most neighbouring pages written at once: 128 KiB.
const RUN_MAX: usize = 16;
const _: () = assert!(RUN_MAX * PAGE_SIZE == 128 << 10);

/// The result of [`BufferPool::take_copy`].
enum Taken {
    /// The page equals its state on disk.
    Clean,
    /// Another thread writes the page or holds its latch.
    Busy,
    /// The page was copied, and is WRITING until [`BufferPool::end_io`].
    Copied,
}

/// Copies of neighbouring pages on their way to the disk.
struct Run<'p> {
    pins: Vec<(Pin<'p>, u32)>,
    pages: Vec<Page>,
    bytes: Vec<u8>,
}

/// State of the background writer between rounds.
#[derive(Debug, Default)]
pub(crate) struct CleanAhead {
    /// Frames that had been claimed up to the last round.
    allocated: u64,
    /// Frames that a round is expected to claim: rises at once with the demand, falls slowly.
    expected: f64,
}

impl BufferPool {
    /// Writes the page of a pinned frame if the page is dirty, after flushing the log to the page's
    /// LSN (W1).
    ///
    /// Only one thread at a time writes a page. The thread writes from a copy of its own, so that
    /// the bytes cannot change on their way. The call gives up where it would wait for a latch or
    /// another writer. Returns whether the page was clean at some moment after the call.
    pub(super) fn write_out(&self, index: u32, count: &Counter) -> Result<bool> {
        let mut copy = Page::zeroed();
        match self.take_copy(index, false, &mut copy) {
            Taken::Clean => return Ok(true),
            Taken::Busy => return Ok(false),
            Taken::Copied => {}
        }
        let id = self.frames[index as usize].tag().id();
        // Threads that wait for the end of this write must not wait for ever.
        let panicked = scopeguard::guard((), |()| self.end_io(index, DIRTY, WRITING));
        let result = self.write_copies(id, std::slice::from_mut(&mut copy), &mut Vec::new());
        ScopeGuard::into_inner(panicked);
        self.end_io(index, if result.is_err() { DIRTY } else { 0 }, WRITING);
        result?;
        count.fetch_add(1, Ordering::Relaxed);
        Ok(true)
    }

    /// Copies the page of a pinned frame if the page is dirty, and makes it clean and WRITING.
    fn take_copy(&self, index: u32, wait: bool, copy: &mut Page) -> Taken {
        let frame = &self.frames[index as usize];
        let mut state = frame.state.load(Ordering::Acquire);
        // Ends: a failed exchange means another thread's progress, and a waited-for write is over.
        loop {
            assert_state(state);
            debug_assert!(state & PIN_MASK > 0, "frame {index} is written without a pin");
            debug_assert!(state & VALID != 0, "frame {index} is written without a page");
            if state & WRITING != 0 {
                if !wait {
                    return Taken::Busy;
                }
                state = self.wait_while(index, WRITING);
                continue;
            }
            if state & DIRTY == 0 {
                return Taken::Clean;
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
            return Taken::Busy;
        };
        // No thread sets DIRTY while this latch is held: a DIRTY flag set after its release stands
        // for a later change.
        let before = frame.state.fetch_and(!DIRTY, Ordering::AcqRel);
        debug_assert!(before & DIRTY != 0, "another thread wrote frame {index}: {before:#x}");
        debug_assert!(before & WRITING != 0, "another write of frame {index} ended this one");
        debug_assert!(before & VALID != 0, "the page left frame {index} in spite of the pin");
        // SAFETY: the frame is pinned and its shared latch is held.
        let page = unsafe { self.page(index) };
        copy.0.copy_from_slice(&page.0);
        drop(latch);
        Taken::Copied
    }

    /// Writes copies of neighbouring pages, which begin with `first`, in one write. Joins several
    /// copies in `bytes`.
    fn write_copies(&self, first: PageId, copies: &mut [Page], bytes: &mut Vec<u8>) -> Result<()> {
        debug_assert!(!copies.is_empty(), "no page is written");
        debug_assert!(copies.len() <= RUN_MAX, "{} pages are written at once", copies.len());
        let newest = copies.iter().map(|copy| copy.lsn()).max().unwrap_or(Lsn(0));
        if !seeded_bug!("page_before_log") {
            self.wal.flush(newest)?;
        }
        let mut id = first;
        for copy in copies.iter_mut() {
            if !copy.is_new() {
                // The next read of the page would refuse other pages.
                let checksum = copy.compute_checksum(id);
                copy.set_checksum(checksum);
            }
            id.block.0 += 1;
        }
        let fork = self.fork_of(first)?;
        self.writes.writes.fetch_add(1, Ordering::Relaxed);
        if let [one] = copies {
            return self.files.write(&fork, first, &one.0);
        }
        bytes.clear();
        copies.iter().for_each(|copy| bytes.extend_from_slice(&copy.0));
        self.files.write(&fork, first, bytes)
    }

    /// Writes every page that is dirty at the time of the call, in the order of files and blocks.
    /// Returns the number of pages written. Calls `pace` with the number of pages done and the
    /// total.
    pub(crate) fn write_dirty(&self, pace: &mut dyn FnMut(u64, u64)) -> Result<u64> {
        let dirty = (0..self.frames.len() as u32)
            .filter(|&index| {
                let state = self.frames[index as usize].state.load(Ordering::Acquire);
                state & (DIRTY | WRITING) != 0
            })
            .map(|index| (self.frames[index as usize].tag(), index))
            .collect();
        self.write_listed(dirty, true, &self.writes.checkpoint, pace)
    }

    /// Writes pages that will be evicted soon, so that threads that need a frame find it clean.
    /// Looks ahead of the hand by the number of frames that the last rounds claimed, times
    /// `multiplier`. Writes at most `pages_max` pages, waits for no latch, and returns the number
    /// of pages written.
    pub(crate) fn clean_ahead(
        &self,
        state: &mut CleanAhead,
        pages_max: usize,
        multiplier: f64,
    ) -> Result<u64> {
        let allocated = self.writes.allocated.load(Ordering::Relaxed);
        let recent = allocated.saturating_sub(state.allocated) as f64;
        state.allocated = allocated;
        state.expected = recent.max(state.expected + (recent - state.expected) / 16.0);
        debug_assert!(state.expected >= 0.0, "{} frames are expected to go", state.expected);
        if pages_max == 0 {
            return Ok(0);
        }
        let wanted = (state.expected * multiplier).ceil() as usize;
        let (count, hand) = (self.frames.len(), self.hand.load(Ordering::Relaxed) as usize);
        let mut ahead = (0..count).map(|step| ((hand + step) % count) as u32);
        let mut dirty = Vec::new();
        for _ in 0..wanted {
            let Some(index) = self.choose_victim(&mut ahead, false) else { break };
            let frame = &self.frames[index as usize];
            if frame.state.load(Ordering::Acquire) & DIRTY != 0 {
                if dirty.len() >= pages_max {
                    self.writes.background_stopped.fetch_add(1, Ordering::Relaxed);
                    break;
                }
                dirty.push((frame.tag(), index));
            }
        }
        debug_assert!(dirty.len() <= pages_max, "{} pages of {pages_max}", dirty.len());
        self.write_listed(dirty, false, &self.writes.background, &mut |_, _| ())
    }

    /// Writes those pages of a list that are still in their frames and dirty, neighbours together.
    /// With `wait`, each page of the list was clean at some moment after the call.
    fn write_listed(
        &self,
        mut list: Vec<(Tag, u32)>,
        wait: bool,
        count: &Counter,
        pace: &mut dyn FnMut(u64, u64),
    ) -> Result<u64> {
        list.sort_unstable_by_key(|(tag, _)| (tag.file, tag.place));
        let total = list.len() as u64;
        let mut written = 0;
        let mut run = Run { pins: Vec::new(), pages: Vec::new(), bytes: Vec::new() };
        for (done, (tag, index)) in list.into_iter().enumerate() {
            if !run.continues(self, tag) {
                written += self.write_run(&mut run, count)?;
                // No page is pinned during the call, which may take long.
                pace(done as u64, total);
            }
            let frame = &self.frames[index as usize];
            let pin = frame.try_pin_to_write().then(|| Pin::new(self, frame, index));
            // Another page is in the frame now: this page was written when it was evicted.
            let Some(pin) = pin.filter(|_| frame.tag() == tag) else { continue };
            let mut copy = Page::zeroed();
            // Pages of the run are WRITING. A thread that waits for them may hold a latch, so this
            // thread must not wait for that latch.
            let mut taken = self.take_copy(index, wait && run.pins.is_empty(), &mut copy);
            if wait && matches!(taken, Taken::Busy) {
                written += self.write_run(&mut run, count)?;
                taken = self.take_copy(index, true, &mut copy);
            }
            if matches!(taken, Taken::Copied) {
                run.pages.push(copy);
                run.pins.push((pin, index));
            }
        }
        Ok(written + self.write_run(&mut run, count)?)
    }

    /// Writes the gathered pages, empties the run, and returns the number of pages. On failure the
    /// pages stay dirty.
    fn write_run(&self, run: &mut Run<'_>, count: &Counter) -> Result<u64> {
        debug_assert_eq!(run.pins.len(), run.pages.len(), "a copy for each pinned page");
        debug_assert!(run.pages.len() <= RUN_MAX, "a run of {} pages", run.pages.len());
        let Some((first, _)) = run.pins.first() else { return Ok(0) };
        let (first, pages) = (first.id(), run.pages.len() as u64);
        if seeded_bug!("written_unpinned") {
            run.pins.drain(..).for_each(|(_, index)| self.end_io(index, 0, WRITING));
        }
        let end = |set| run.pins.iter().for_each(|(_, index)| self.end_io(*index, set, WRITING));
        let panicked = scopeguard::guard((), |()| end(DIRTY));
        let result = self.write_copies(first, &mut run.pages, &mut run.bytes);
        ScopeGuard::into_inner(panicked);
        end(if result.is_err() { DIRTY } else { 0 });
        run.pins.clear();
        run.pages.clear();
        result?;
        count.fetch_add(pages, Ordering::Relaxed);
        Ok(pages)
    }

    /// Writes the page at the clock hand, if that needs no waiting. An eviction might do so at any
    /// time; simulations do it often.
    pub(super) fn write_any(&self) {
        let index = self.hand.load(Ordering::Relaxed) % self.frames.len() as u32;
        let frame = &self.frames[index as usize];
        if frame.try_pin_to_write() {
            let pin = Pin::new(self, frame, index);
            // On failure the page stays dirty.
            let _ = self.write_out(index, &self.writes.background);
            drop(pin);
        }
    }

    /// Returns whether no page is pinned, read or written: the state of a pool at rest.
    pub fn is_idle(&self) -> bool {
        self.frames.iter().all(|frame| {
            let state = frame.state.load(Ordering::Acquire);
            state & (PIN_MASK | LOADING | WRITING) == 0
        })
    }

    /// Returns the number of frames that hold a page.
    pub fn used_frames(&self) -> usize {
        self.frames.iter().filter(|f| f.state.load(Ordering::Relaxed) & VALID != 0).count()
    }
}

impl Run<'_> {
    /// Returns whether a page is the next one of this run, or the run is empty.
    fn continues(&self, pool: &BufferPool, tag: Tag) -> bool {
        let Some((last, _)) = self.pins.last() else { return true };
        let (last, next) = (last.id(), tag.id());
        // The pages of a run are pinned, and a small pool needs frames for other pages.
        self.pages.len() < RUN_MAX.min(pool.frames.len() / 4)
            && (last.file, last.fork) == (next.file, next.fork)
            && pool.files.are_neighbours(last.block, next.block)
    }
}
