//! Reads that somebody else may do: runs wait here for a worker, or for whoever needs one of their pages first.
//!
//! Nobody waits for a run that nobody works at: who finds his page in the queue takes the run out and reads it
//! himself. So a stream is never slower for having looked ahead, and without workers nothing is lost but time.
//! Where the system reads by itself, runs go on to its ring (`read_ring.rs`).

use std::collections::VecDeque;
use std::sync::Arc;

use niwaki_env::sync::atomic::{AtomicU32, Ordering};
use niwaki_env::sync::plain_atomic::AtomicBool;
use niwaki_env::sync::{Condvar, Mutex};
use niwaki_env::vfs::ReadRing;

use super::frame::Tag;
use super::pool::BufferPool;
use super::read_run::ReadRun;

/// Reads ahead pin this part of the pool at most, all together.
const SHARE: u32 = 4;

#[derive(Default)]
pub(super) struct Waiting {
    pub(super) runs: VecDeque<ReadRun>,
    /// Threads that take runs.
    workers: usize,
    stop: bool,
    /// Those that are in the ring, by token.
    pub(super) under_way: Vec<Option<ReadRun>>,
    /// Somebody asks the ring for ends.
    pub(super) reaping: bool,
    /// Why the ring does not work any more.
    pub(super) failure: Option<String>,
}

/// Hears why the ring does not work any more.
type Tell = Box<dyn Fn(&str) + Send + Sync>;

/// The runs that wait.
pub(crate) struct ReadQueue {
    pub(super) waiting: Mutex<Waiting>,
    /// There is something for a worker; or ends were taken out of the ring.
    pub(super) changed: Condvar,
    /// Where the system reads by itself; then there are no workers.
    pub(super) ring: Option<Arc<dyn ReadRing>>,
    /// It does not work any more: only what it has is asked for. Set under `waiting`'s lock.
    pub(super) broken: AtomicBool,
    pub(super) tell: Mutex<Option<Tell>>,
    /// Frames that reads ahead may still pin.
    frames_left: AtomicU32,
    pub(crate) counters: ReadCounters,
}

/// What happened to reads ahead; statistics.
#[derive(Default)]
pub(crate) struct ReadCounters {
    /// Runs begun, and their pages.
    runs: AtomicCounter,
    blocks: AtomicCounter,
    /// By how many pages their streams looked ahead then: the sum, and the most.
    distances: AtomicCounter,
    distance_max: AtomicCounter,
    /// Those that the system had in memory.
    pub(crate) cached: AtomicCounter,
    /// Those that were given to others, and their pages.
    queued: AtomicCounter,
    queued_blocks: AtomicCounter,
    /// Pages that were needed before they were there.
    pub(crate) waits: AtomicCounter,
    /// Those that who needed them took back.
    pub(crate) helped: AtomicCounter,
    /// Those that were given to the system, and how often.
    begun: AtomicCounter,
    submitted: AtomicCounter,
    /// Those that came back unfinished.
    repeated: AtomicCounter,
}

impl ReadCounters {
    /// A run of so many pages begins, of a stream that looks ahead by so many.
    pub(crate) fn run(&self, blocks: usize, distance: u32) {
        self.runs.fetch_add(1, Ordering::Relaxed);
        self.blocks.fetch_add(blocks as u64, Ordering::Relaxed);
        self.distances.fetch_add(distance.into(), Ordering::Relaxed);
        self.distance_max.fetch_max(distance.into(), Ordering::Relaxed);
    }

    /// A run of so many pages is left to others.
    fn queue(&self, blocks: usize) {
        self.queued.fetch_add(1, Ordering::Relaxed);
        self.queued_blocks.fetch_add(blocks as u64, Ordering::Relaxed);
    }

    /// So many runs were given to the system at once.
    pub(super) fn begun(&self, runs: u64) {
        self.begun.fetch_add(runs, Ordering::Relaxed);
        self.submitted.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn repeat(&self) {
        self.repeated.fetch_add(1, Ordering::Relaxed);
    }
}

type AtomicCounter = niwaki_env::sync::plain_atomic::AtomicU64;

/// What [`BufferPool::read_statistics`] says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadStatistics {
    /// Reads of one or several neighbouring pages by streams.
    pub runs: u64,
    /// Pages of these.
    pub blocks: u64,
    /// By how many pages the stream looked ahead when it came to a read, added up over all reads.
    pub distances: u64,
    /// The most of these.
    pub distance_max: u64,
    /// Of those, how many the system had in memory.
    pub cached: u64,
    /// How many were left to a worker or to the system.
    pub queued: u64,
    /// Pages of these.
    pub queued_blocks: u64,
    /// How often a stream's reader needed a page that had to be read first, or was not there yet.
    pub waits: u64,
    /// How many of these were done by who needed them, before a worker came.
    pub helped: u64,
    /// How many the system was asked for, and by how many calls.
    pub begun: u64,
    /// See there.
    pub submitted: u64,
    /// How many of these were read again, since they did not end well.
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

    /// Takes frames out of those that reads ahead may pin, `wanted` or as many as there are.
    pub(super) fn take_frames(&self, wanted: u32) -> u32 {
        // Relaxed: a counter alone.
        let take = |left: u32| Some(left - left.min(wanted));
        let before = self.frames_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        before.map_or(0, |left| left.min(wanted))
    }

    pub(super) fn give_frames_back(&self, count: u32) {
        self.frames_left.fetch_add(count, Ordering::Relaxed);
    }

    /// Whether the system takes runs.
    pub(super) fn ring_works(&self) -> bool {
        self.ring.is_some() && !self.broken.load(Ordering::Relaxed)
    }

    /// Whether somebody takes runs.
    pub(crate) fn has_takers(&self) -> bool {
        self.ring_works() || self.waiting.lock().workers > 0
    }

    /// Leaves a run to others; gives it back when there are none.
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
    /// What streams read so far.
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

    /// How many frames reads ahead pin now.
    #[cfg(test)]
    pub(crate) fn reads_pin(&self) -> u32 {
        self.frames.len() as u32 / SHARE - self.reads.frames_left.load(Ordering::Relaxed)
    }

    /// Leaves a run to others, from [`BufferPool::begin_waiting`] on; gives it back when it is to be read at once.
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
            // Who waits already thinks that this thread is at it.
            frames.for_each(|index| self.wake_waiters(index));
        }
        back
    }

    /// Whether a page that is LOADING waits for whoever comes, as far as this thread could tell.
    pub(super) fn can_help(&self, tag: Tag) -> bool {
        if self.reads.ring.is_none() {
            return false;
        }
        let waiting = self.reads.waiting.lock();
        waiting.runs.iter().chain(waiting.under_way()).any(|run| run.has(tag.id()))
    }

    /// The caller waits for this page: if the run that brings it waits in the queue, it is done at once; if the system
    /// reads it, the caller asks for ends. When this returns the page is there, cannot be had, or is another thread's.
    pub(super) fn help_reading(&self, tag: Tag) {
        let id = tag.id();
        // Ends: each turn some run ends, or another thread, which will, is waited for.
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
                // Its thread is at it.
                return;
            };
            if waiting.reaping && !niwaki_env::seeded_bug!("everybody_reaps") {
                self.reads.changed.wait(&mut waiting);
                continue;
            }
            waiting.reaping = true;
            drop(waiting);
            self.reap(ring, true);
            // There is room now.
            self.begin_waiting();
        }
    }

    /// Body of a worker: reads runs until it is told to stop and nothing waits.
    pub(crate) fn read_for_others(&self) {
        let queue = &self.reads;
        let mut waiting = queue.waiting.lock();
        // Ends when the queue says stop.
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

    /// A worker is about to begin.
    pub(crate) fn enlist_reader(&self) {
        let mut waiting = self.reads.waiting.lock();
        waiting.stop = false;
        waiting.workers += 1;
    }

    /// A worker ends, once nothing waits.
    pub(crate) fn discharge_reader(&self) {
        // Ends with what waits: streams do not run on without pause.
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
