//! The state of reads ahead: runs of pages, the queue in which they wait, and counters.

use std::collections::VecDeque;
use std::sync::Arc;

use niwaki_env::sync::atomic::{AtomicU32, Ordering};
use niwaki_env::sync::plain_atomic::AtomicBool;
use niwaki_env::sync::{Condvar, Mutex};
use niwaki_env::vfs::{ReadRing, VfsFile};

use crate::disk::files::ForkFile;
use crate::ids::{BlockNumber, PageId};

/// The most pages that are read at once (`io_combine_limit`).
pub(crate) const RUN_MAX: usize = 32;

/// Consecutive pages of a file whose frames are LOADING, each pinned once by the run. The run must
/// end with `BufferPool::finish_run`, or threads that wait for its pages wait forever.
pub(crate) struct ReadRun {
    pub(super) fork: Arc<ForkFile>,
    pub(super) first: PageId,
    pub(super) frames: [u32; RUN_MAX],
    pub(super) count: usize,
    /// The file and offset for a read by the system itself.
    pub(super) place: Option<(Arc<dyn VfsFile>, u64)>,
}

impl ReadRun {
    /// Checks that the run has pages, and a frame of its own for each: threads and the system write
    /// to these frames without a latch.
    pub(super) fn assert_state(&self) {
        debug_assert!(self.count > 0, "a run of no page");
        debug_assert!(self.count <= RUN_MAX, "a run of {} pages", self.count);
        debug_assert!(
            (1..self.count).all(|at| !self.frames[..at].contains(&self.frames[at])),
            "two pages of a run share a frame: {:?}",
            &self.frames[..self.count]
        );
        debug_assert!(
            self.first.block.0.checked_add(self.count as u32).is_some(),
            "the run at {} ends behind the last block",
            self.first
        );
    }

    pub(super) fn page(&self, at: usize) -> PageId {
        debug_assert!(at <= self.count, "page {at} of a run of {}", self.count);
        PageId { block: BlockNumber(self.first.block.0 + at as u32), ..self.first }
    }

    /// Returns the number of pages.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Returns the run's frames.
    pub(super) fn frames(&self) -> impl Iterator<Item = u32> + use<> {
        self.frames.into_iter().take(self.count)
    }

    /// Returns whether the page belongs to the run.
    pub(super) fn has(&self, id: PageId) -> bool {
        let same = (id.file, id.fork) == (self.first.file, self.first.fork);
        same && id.block.0.wrapping_sub(self.first.block.0) < self.count as u32
    }

    /// Returns the file and the offset that the run is read from.
    pub(super) fn place(&self) -> (Arc<dyn VfsFile>, u64) {
        self.place.clone().expect("a run for the system has a file")
    }

    /// Returns the pages from `from` on, as a run.
    pub(super) fn rest(mut self, from: usize) -> Self {
        debug_assert!(from < self.count, "no page is left from {from} on, of {}", self.count);
        self.place = None;
        self.first = self.page(from);
        self.frames.copy_within(from..self.count, 0);
        self.count -= from;
        self
    }
}

/// Divisor of the pool's frames that bounds the frames pinned by all reads ahead together: a
/// quarter.
pub(super) const SHARE: u32 = 4;
const _: () = assert!(SHARE > 1);

#[derive(Default)]
pub(super) struct Waiting {
    pub(super) runs: VecDeque<ReadRun>,
    /// Number of threads that take runs.
    pub(super) workers: usize,
    pub(super) stop: bool,
    /// Runs that are in the ring, by token.
    pub(super) in_flight: Vec<Option<ReadRun>>,
    /// A thread is asking the ring for completions.
    pub(super) reaping: bool,
    /// The reason why the ring failed.
    pub(super) failure: Option<String>,
}

/// A listener for the ring's failure.
type Listener = Box<dyn Fn(&str) + Send + Sync>;

/// The queue of waiting runs, with the ring and the counters.
pub(crate) struct ReadQueue {
    pub(super) waiting: Mutex<Waiting>,
    /// Signals a run for a worker, or completions taken out of the ring.
    pub(super) changed: Condvar,
    /// The ring, where the system itself reads; there are no workers then.
    pub(super) ring: Option<Arc<dyn ReadRing>>,
    /// The ring has failed: it gets no new runs, and only returns its old ones. Set under the lock
    /// of `waiting`.
    pub(super) broken: AtomicBool,
    pub(super) tell: Mutex<Option<Listener>>,
    /// Frames that reads ahead may still pin.
    pub(super) frames_left: AtomicU32,
    /// Frames that reads ahead may pin, when none is under way.
    frames_max: u32,
    pub(crate) counters: ReadCounters,
}

/// Counters of reads ahead; statistics.
#[derive(Default)]
pub(crate) struct ReadCounters {
    /// Runs begun, and their pages.
    pub(super) runs: AtomicCounter,
    pub(super) blocks: AtomicCounter,
    /// Look-ahead distances of the streams at these runs, in pages: the sum, and the most.
    pub(super) distances: AtomicCounter,
    pub(super) distance_max: AtomicCounter,
    /// Runs that the system had in memory.
    pub(crate) cached: AtomicCounter,
    /// Runs left to other threads or to the ring, and their pages.
    pub(super) queued: AtomicCounter,
    pub(super) queued_blocks: AtomicCounter,
    /// Pages that were needed before they were there.
    pub(crate) waits: AtomicCounter,
    /// Queued runs that a thread took back because it needed them.
    pub(crate) helped: AtomicCounter,
    /// Runs given to the ring, and calls that gave them.
    pub(super) begun: AtomicCounter,
    pub(super) submitted: AtomicCounter,
    /// Runs that the ring returned unfinished.
    pub(super) repeated: AtomicCounter,
}

impl ReadCounters {
    /// Counts a run of `blocks` pages, of a stream that looks ahead by `distance` pages.
    pub(crate) fn run(&self, blocks: usize, distance: u32) {
        debug_assert!(blocks > 0, "a run of no page");
        debug_assert!(distance > 0, "the distance counts the page that is needed next");
        self.runs.fetch_add(1, Ordering::Relaxed);
        self.blocks.fetch_add(blocks as u64, Ordering::Relaxed);
        self.distances.fetch_add(distance.into(), Ordering::Relaxed);
        self.distance_max.fetch_max(distance.into(), Ordering::Relaxed);
    }

    /// Counts a run of `blocks` pages that is left to others.
    fn queue(&self, blocks: usize) {
        self.queued.fetch_add(1, Ordering::Relaxed);
        self.queued_blocks.fetch_add(blocks as u64, Ordering::Relaxed);
    }

    /// Counts `runs` runs that were given to the ring in one call.
    pub(super) fn begun(&self, runs: u64) {
        self.begun.fetch_add(runs, Ordering::Relaxed);
        self.submitted.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn repeat(&self) {
        self.repeated.fetch_add(1, Ordering::Relaxed);
    }
}

pub(super) type AtomicCounter = niwaki_env::sync::plain_atomic::AtomicU64;

impl ReadQueue {
    pub(crate) fn new(frames: usize, ring: Option<Arc<dyn ReadRing>>) -> Self {
        Self {
            ring,
            broken: AtomicBool::new(false),
            tell: Mutex::new(None),
            waiting: Mutex::default(),
            changed: Condvar::new(),
            frames_left: AtomicU32::new(frames as u32 / SHARE),
            frames_max: frames as u32 / SHARE,
            counters: ReadCounters::default(),
        }
    }

    /// Takes `wanted` frames, or as many as are left, off those that reads ahead may pin; returns
    /// the number.
    pub(super) fn take_frames(&self, wanted: u32) -> u32 {
        // Relaxed: the counter orders nothing else.
        let take = |left: u32| Some(left - left.min(wanted));
        let before = self.frames_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        debug_assert!(before.is_ok_and(|left| left <= self.frames_max), "{before:?} frames left");
        before.map_or(0, |left| left.min(wanted))
    }

    pub(super) fn give_frames_back(&self, count: u32) {
        let before = self.frames_left.fetch_add(count, Ordering::Relaxed);
        debug_assert!(
            before.checked_add(count).is_some_and(|left| left <= self.frames_max),
            "{count} frames came back to {before}, of {}",
            self.frames_max
        );
    }

    /// Returns whether the ring takes runs.
    pub(super) fn ring_works(&self) -> bool {
        self.ring.is_some() && !self.broken.load(Ordering::Relaxed)
    }

    /// Returns whether the ring or a worker takes runs.
    pub(crate) fn has_takers(&self) -> bool {
        self.ring_works() || self.waiting.lock().workers > 0
    }

    /// Leaves a run to others; returns the run when there are none.
    pub(super) fn submit(&self, run: ReadRun) -> Option<ReadRun> {
        let mut waiting = self.waiting.lock();
        if !self.ring_works() && waiting.workers == 0 {
            return Some(run);
        }
        run.assert_state();
        let blocks = run.len();
        waiting.runs.push_back(run);
        drop(waiting);
        self.counters.queue(blocks);
        if self.ring.is_none() {
            self.changed.notify_one();
        }
        None
    }

    /// Tells the workers to end once nothing waits.
    pub(crate) fn stop(&self) {
        self.waiting.lock().stop = true;
        self.changed.notify_all();
    }
}

#[cfg(all(test, not(any(feature = "shuttle", feature = "loom"))))]
mod tests {
    use niwaki_env::Env;
    use niwaki_env::hash::HashMap;

    use super::*;
    use crate::disk::files::Files;
    use crate::disk::gate::WriteGate;
    use crate::ids::{Fork, RelFileId};

    fn run(frames: &[u32]) -> ReadRun {
        let (env, known) = (Env::memory(), HashMap::default());
        let files = Files::new(env, 16, false, 8, known, WriteGate::default());
        let first = PageId { file: RelFileId(16), fork: Fork::Main, block: BlockNumber(3) };
        let fork = files.fork(first.file, first.fork).unwrap();
        let count = frames.len();
        let mut run = ReadRun { fork, first, frames: [0; RUN_MAX], count, place: None };
        run.frames[..count].copy_from_slice(frames);
        run
    }

    #[test]
    fn the_rest_of_a_run_is_a_run() {
        let run = run(&[5, 0, 7]);
        run.assert_state();
        let rest = run.rest(1);
        rest.assert_state();
        assert_eq!(rest.frames().collect::<Vec<_>>(), [0, 7]);
        assert_eq!(rest.page(0).block, BlockNumber(4));
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "two pages of a run share a frame")]
    fn a_frame_that_a_run_has_twice_is_noticed() {
        run(&[5, 7, 5]).assert_state();
    }
}
