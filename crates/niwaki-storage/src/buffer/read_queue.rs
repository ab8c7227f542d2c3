//! The queue of reads ahead: runs wait here for a worker, or for the first thread that needs one of
//! their pages.
//!
//! No thread waits for a run that no thread works on. A thread that finds its page in the queue
//! takes the run out and reads the run itself. So looking ahead never makes a stream slower, and
//! without workers only time is lost. Where the system itself reads, runs go on to its ring
//! (`read_ring.rs`).

use std::collections::VecDeque;
use std::sync::Arc;

use niwaki_env::sync::atomic::{AtomicU32, Ordering};
use niwaki_env::sync::plain_atomic::AtomicBool;
use niwaki_env::sync::{Condvar, Mutex};
use niwaki_env::vfs::ReadRing;

use super::pool::BufferPool;
use super::read_run::ReadRun;
use crate::frames::frame::Tag;

/// Divisor of the pool's frames that bounds the frames pinned by all reads ahead together: a
/// quarter.
const SHARE: u32 = 4;

#[derive(Default)]
pub(super) struct Waiting {
    pub(super) runs: VecDeque<ReadRun>,
    /// Number of threads that take runs.
    workers: usize,
    stop: bool,
    /// Runs that are in the ring, by token.
    pub(super) under_way: Vec<Option<ReadRun>>,
    /// A thread is asking the ring for completions.
    pub(super) reaping: bool,
    /// The reason why the ring failed.
    pub(super) failure: Option<String>,
}

/// A listener for the ring's failure.
type Tell = Box<dyn Fn(&str) + Send + Sync>;

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
    pub(super) tell: Mutex<Option<Tell>>,
    /// Frames that reads ahead may still pin.
    frames_left: AtomicU32,
    pub(crate) counters: ReadCounters,
}

/// Counters of reads ahead; statistics.
#[derive(Default)]
pub(crate) struct ReadCounters {
    /// Runs begun, and their pages.
    runs: AtomicCounter,
    blocks: AtomicCounter,
    /// Look-ahead distances of the streams at these runs, in pages: the sum, and the most.
    distances: AtomicCounter,
    distance_max: AtomicCounter,
    /// Runs that the system had in memory.
    pub(crate) cached: AtomicCounter,
    /// Runs left to other threads or to the ring, and their pages.
    queued: AtomicCounter,
    queued_blocks: AtomicCounter,
    /// Pages that were needed before they were there.
    pub(crate) waits: AtomicCounter,
    /// Queued runs that a thread took back because it needed them.
    pub(crate) helped: AtomicCounter,
    /// Runs given to the ring, and calls that gave them.
    begun: AtomicCounter,
    submitted: AtomicCounter,
    /// Runs that the ring returned unfinished.
    repeated: AtomicCounter,
}

impl ReadCounters {
    /// Counts a run of `blocks` pages, of a stream that looks ahead by `distance` pages.
    pub(crate) fn run(&self, blocks: usize, distance: u32) {
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

type AtomicCounter = niwaki_env::sync::plain_atomic::AtomicU64;

/// The counters that [`BufferPool::read_statistics`] returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadStatistics {
    /// Reads of one or several neighbouring pages by streams.
    pub runs: u64,
    /// Pages of these reads.
    pub blocks: u64,
    /// Look-ahead distance of the stream at each read, in pages, added up over all reads.
    pub distances: u64,
    /// The largest of these distances.
    pub distance_max: u64,
    /// Reads whose pages the system had in memory.
    pub cached: u64,
    /// Reads that were left to a worker or to the system.
    pub queued: u64,
    /// Pages of the reads in `queued`.
    pub queued_blocks: u64,
    /// Times a stream's reader needed a page that had to be read first, or was not there yet.
    pub waits: u64,
    /// Reads in `queued` that the thread that needed them did, before a worker came.
    pub helped: u64,
    /// Reads that the system was asked for.
    pub begun: u64,
    /// Calls that asked the system for the reads in `begun`.
    pub submitted: u64,
    /// Reads in `begun` that were read again, because they did not end well.
    pub repeated: u64,
}

impl ReadQueue {
    pub(crate) fn new(frames: usize, ring: Option<Arc<dyn ReadRing>>) -> Self {
        Self {
            ring,
            broken: AtomicBool::new(false),
            tell: Mutex::new(None),
            waiting: Mutex::default(),
            changed: Condvar::new(),
            frames_left: AtomicU32::new(frames as u32 / SHARE),
            counters: ReadCounters::default(),
        }
    }

    /// Takes `wanted` frames, or as many as are left, off those that reads ahead may pin; returns
    /// the number.
    pub(super) fn take_frames(&self, wanted: u32) -> u32 {
        // Relaxed: the counter orders nothing else.
        let take = |left: u32| Some(left - left.min(wanted));
        let before = self.frames_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        before.map_or(0, |left| left.min(wanted))
    }

    pub(super) fn give_frames_back(&self, count: u32) {
        self.frames_left.fetch_add(count, Ordering::Relaxed);
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
    fn submit(&self, run: ReadRun) -> Option<ReadRun> {
        let mut waiting = self.waiting.lock();
        if !self.ring_works() && waiting.workers == 0 {
            return Some(run);
        }
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

impl BufferPool {
    /// Returns the statistics of streams' reads.
    pub fn read_statistics(&self) -> ReadStatistics {
        let counters = &self.reads.counters;
        let number = |counter: &AtomicCounter| counter.load(Ordering::Relaxed);
        ReadStatistics {
            runs: number(&counters.runs),
            blocks: number(&counters.blocks),
            distances: number(&counters.distances),
            distance_max: number(&counters.distance_max),
            cached: number(&counters.cached),
            queued: number(&counters.queued),
            queued_blocks: number(&counters.queued_blocks),
            waits: number(&counters.waits),
            helped: number(&counters.helped),
            begun: number(&counters.begun),
            submitted: number(&counters.submitted),
            repeated: number(&counters.repeated),
        }
    }

    /// Returns the number of frames that reads ahead pin now.
    #[cfg(test)]
    pub(crate) fn reads_pin(&self) -> u32 {
        self.frames.len() as u32 / SHARE - self.reads.frames_left.load(Ordering::Relaxed)
    }

    /// Leaves a run to others; the ring begins it in [`BufferPool::begin_waiting`]. Returns the run
    /// when it must be read at once.
    pub(crate) fn leave_run(&self, mut run: ReadRun) -> Option<ReadRun> {
        if !self.reads.ring_works() {
            return self.reads.submit(run);
        }
        if !self.open_for(&mut run) {
            return Some(run);
        }
        let frames = run.frames();
        let back = self.reads.submit(run);
        if !niwaki_env::seeded_bug!("left_in_silence") {
            // A waiting thread still believes that this thread does the read.
            frames.for_each(|index| self.wake_waiters(index));
        }
        back
    }

    /// Returns whether this thread can help to read a LOADING page by a ring: the page's run waits
    /// in the queue or is under way.
    pub(super) fn can_help(&self, tag: Tag) -> bool {
        if self.reads.ring.is_none() {
            return false;
        }
        let waiting = self.reads.waiting.lock();
        waiting.runs.iter().chain(waiting.under_way()).any(|run| run.has(tag.id()))
    }

    /// Helps to read a page that the caller waits for. A run that waits in the queue is read at
    /// once. For a run under way in the ring, the caller asks for completions. When this returns,
    /// the page is there, cannot be read, or is being read by another thread.
    pub(super) fn help_reading(&self, tag: Tag) {
        let id = tag.id();
        // Ends: in each round some run ends, or another thread is waited for, which will end one.
        while self.is_loading(id.file, id.fork, id.block.0) {
            let mut waiting = self.reads.waiting.lock();
            if let Some(at) = waiting.runs.iter().position(|run| run.has(id)) {
                let run = waiting.runs.remove(at);
                drop(waiting);
                self.reads.counters.helped.fetch_add(1, Ordering::Relaxed);
                run.iter().for_each(|run| self.finish_run(run));
                return;
            }
            let ring = self.reads.ring.as_ref();
            let Some(ring) = ring.filter(|_| waiting.under_way().any(|run| run.has(id))) else {
                // The thread that reads the page is at work.
                return;
            };
            if waiting.reaping && !niwaki_env::seeded_bug!("everybody_reaps") {
                self.reads.changed.wait(&mut waiting);
                continue;
            }
            waiting.reaping = true;
            drop(waiting);
            self.reap(ring, true);
            // The ring has room now.
            self.begin_waiting();
        }
    }

    /// Runs a worker: reads runs until it is told to stop and no run waits.
    pub(crate) fn read_for_others(&self) {
        let queue = &self.reads;
        let mut waiting = queue.waiting.lock();
        // Ends: when the queue says stop.
        loop {
            if let Some(run) = waiting.runs.pop_front() {
                drop(waiting);
                self.finish_run(&run);
                waiting = queue.waiting.lock();
            } else if waiting.stop {
                drop(waiting);
                self.discharge_reader();
                return;
            } else {
                queue.changed.wait(&mut waiting);
            }
        }
    }

    /// Registers a worker that is about to begin.
    pub(crate) fn enlist_reader(&self) {
        let mut waiting = self.reads.waiting.lock();
        waiting.stop = false;
        waiting.workers += 1;
    }

    /// Unregisters a worker, once no run waits.
    pub(crate) fn discharge_reader(&self) {
        // Ends: with the waiting runs, because streams do not run on without pause.
        loop {
            let mut waiting = self.reads.waiting.lock();
            let run = waiting.runs.pop_front();
            if run.is_none() {
                waiting.workers -= 1;
                return;
            }
            drop(waiting);
            run.iter().for_each(|run| self.finish_run(run));
        }
    }
}
