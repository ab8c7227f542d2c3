//! Runs: neighbouring pages that are read at once.
//!
//! ```text
//!   begin_run: frames LOADING, each pinned by the run
//!        |
//!        +-- fill_cached: pages that the system has in memory ---> pages VALID
//!        |
//!        +-- the rest: finish_run, by a worker, or by the first thread that needs a page;
//!            or the system reads it (`read_ring.rs`)
//! ```
//!
//! A page that cannot be read leaves the pool again without an error. A thread that needs the page
//! reads it again, and meets the error itself.

use std::io::IoSliceMut;

use niwaki_env::sync::plain_atomic::Ordering;

use scopeguard::ScopeGuard;

use super::pool::BufferPool;
use super::read_state::{RUN_MAX, ReadRun};
use crate::error::Result;
use crate::frames::frame::{LOADING, Tag, VALID};
use crate::ids::{BlockNumber, PageId};

impl BufferPool {
    /// Returns whether a page is in the pool or being read in. A hint: the answer may change at any
    /// time.
    pub(crate) fn is_resident(&self, id: PageId) -> bool {
        self.peek_state(id) & (VALID | LOADING) != 0
    }

    /// Returns whether a page is being read in. A hint.
    pub(crate) fn is_loading(&self, id: PageId) -> bool {
        self.peek_state(id) & LOADING != 0
    }

    /// Returns the state of the frame that seems to hold the page; 0 without one.
    fn peek_state(&self, id: PageId) -> u64 {
        let found = self.table.guess(&self.frames, Tag::of(id));
        found.map_or(0, |index| self.frames[index as usize].state.load(Ordering::Relaxed))
    }

    /// Begins to read at most `count` pages from `first` on, as far as they are consecutive on disk
    /// and not in the pool yet. Returns how many of the `count` pages are handled, and a run if
    /// pages must be read.
    ///
    /// Pages that need no reading, and pages for which there is no frame now, are left to the
    /// threads that need them. `reuse` names blocks of the fork whose frames are to be used before
    /// other frames.
    pub(crate) fn begin_run(
        &self,
        first: PageId,
        count: u32,
        reuse: &mut dyn FnMut() -> Option<BlockNumber>,
    ) -> (u32, Option<ReadRun>) {
        let Ok(open) = self.files.fork(first.file, first.fork) else { return (count, None) };
        debug_assert!(count > 0, "a run of no page");
        let readable = self.files.readable_from(&open, first.block).min(count).min(RUN_MAX as u32);
        if readable == 0 {
            // The pages were never written, or lie beyond the end.
            return (count, None);
        }
        let mut run = ReadRun { fork: open, first, frames: [0; RUN_MAX], count: 0, place: None };
        let mut frames = self.reads.take_frames(readable);
        if frames == 0 {
            // Reads that no thread waited for may have ended.
            self.reap_completed();
            frames = self.reads.take_frames(readable);
        }
        // The run ends before a page that is in the pool, and before one for which there is no
        // frame.
        let mut end = frames;
        for at in 0..frames {
            if !self.begin_page(&mut run, at as usize, reuse) {
                // A first page that is already in the pool counts as handled too.
                end = at.max(1);
                break;
            }
        }
        debug_assert!(frames <= readable, "{frames} frames for {readable} pages");
        debug_assert!(run.count as u32 <= frames, "{} pages in {frames} frames", run.count);
        self.reads.give_frames_back(frames - run.count as u32);
        let handled = end.max(1);
        debug_assert!(handled <= count, "{handled} pages of {count}");
        debug_assert!(run.count as u32 <= handled, "{} pages of {handled}", run.count);
        (handled, (run.count > 0).then_some(run))
    }

    fn begin_page(
        &self,
        run: &mut ReadRun,
        at: usize,
        reuse: &mut dyn FnMut() -> Option<BlockNumber>,
    ) -> bool {
        debug_assert_eq!(run.count, at, "the pages of a run are consecutive");
        let id = run.page(at);
        if self.is_resident(id) {
            return false;
        }
        let done_with = reuse().map(|block| PageId { block, ..id });
        let reused = done_with.and_then(|page| self.reclaim(Tag::of(page)));
        let Some(index) = reused.or_else(|| self.find_frame().ok().flatten()) else {
            return false;
        };
        if self.begin_load(Tag::of(id), index) {
            run.frames[at] = index;
            run.count = at + 1;
            return true;
        }
        false
    }

    /// Ends the pages of a run that the system has in memory; returns the rest as a run.
    pub(crate) fn fill_cached(&self, run: ReadRun) -> Option<ReadRun> {
        run.assert_state();
        let got = self.fill(&run, true).unwrap_or(0);
        debug_assert!(got <= run.count, "{got} pages of {}", run.count);
        (0..got).for_each(|at| self.end_page(&run, at, true));
        (got < run.count).then(|| run.rest(got))
    }

    /// Reads a run and ends it.
    pub(crate) fn finish_run(&self, run: &ReadRun) {
        if niwaki_env::seeded_bug!("run_valid_before_read") {
            (0..run.count).for_each(|at| self.end_io(run.frames[at], VALID, 0));
        }
        run.assert_state();
        let got = self.fill(run, false).unwrap_or(0);
        debug_assert!(got <= run.count, "{got} pages of {}", run.count);
        (0..run.count).for_each(|at| self.end_page(run, at, at < got));
    }

    /// Opens the file for a read by the system; false when the file cannot be opened.
    pub(super) fn open_for(&self, run: &mut ReadRun) -> bool {
        run.place = self.files.place_of_run(&run.fork, run.first).ok();
        run.place.is_some()
    }

    /// Accepts the first pages of a run, which the system has read.
    pub(super) fn accept_pages(&self, run: &ReadRun, count: usize) {
        debug_assert!(count <= run.count, "{count} pages of {}", run.count);
        run.fork.counters.reads.fetch_add(count as u64, Ordering::Relaxed);
        (0..count).for_each(|at| self.end_page(run, at, true));
    }

    fn fill(&self, run: &ReadRun, cached: bool) -> Result<usize> {
        let end = |()| (0..run.count).for_each(|at| self.end_page(run, at, false));
        let panicked = scopeguard::guard((), end);
        let got = self
            .with_slices(run, |slices| self.files.read_run(&run.fork, run.first, slices, cached));
        ScopeGuard::into_inner(panicked);
        got
    }

    /// Calls `work` with the memory of a run's frames, in order.
    pub(super) fn with_slices<T>(
        &self,
        run: &ReadRun,
        work: impl FnOnce(&mut [IoSliceMut<'_>]) -> T,
    ) -> T {
        let mut slices: [IoSliceMut<'_>; RUN_MAX] =
            std::array::from_fn(|_| IoSliceMut::new(&mut []));
        for (slice, &index) in slices.iter_mut().zip(&run.frames[..run.count]) {
            // SAFETY: the frame is LOADING and belongs to the run: no other thread touches its
            // page. The frames of a run differ.
            let page = unsafe { self.page_mut(index) };
            *slice = IoSliceMut::new(&mut page.0);
        }
        work(&mut slices[..run.count])
    }

    /// Accepts or refuses a page that was read, and unpins its frame.
    fn end_page(&self, run: &ReadRun, at: usize, read: bool) {
        debug_assert!(at < run.count, "page {at} of a run of {}", run.count);
        let (id, index) = (run.page(at), run.frames[at]);
        // SAFETY: as above; nothing else has a reference to the page now.
        let page = unsafe { self.page_mut(index) };
        let sound = read && self.accept(id, page, false).is_ok();
        self.end_load(Tag::of(id), index, sound);
        self.frames[index as usize].unpin();
        self.reads.give_frames_back(1);
    }
}
