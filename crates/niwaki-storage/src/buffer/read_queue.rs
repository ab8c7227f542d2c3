//! The queue of reads ahead: runs wait here for a worker, or for the first thread that needs one of
//! their pages.
//!
//! No thread waits for a run that no thread works on. A thread that finds its page in the queue
//! takes the run out and reads the run itself. So looking ahead never makes a stream slower, and
//! without workers only time is lost. Where the system itself reads, runs go on to its ring
//! (`read_ring.rs`).

use niwaki_env::sync::atomic::Ordering;

use super::pool::BufferPool;
use super::read_state::{AtomicCounter, ReadRun};
use crate::frames::frame::Tag;

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
        self.frames.len() as u32 / super::read_state::SHARE
            - self.reads.frames_left.load(Ordering::Relaxed)
    }

    /// Leaves a run to others; the ring begins it in [`BufferPool::submit_waiting`]. Returns the
    /// run when it must be read at once.
    pub(crate) fn leave_run(&self, mut run: ReadRun) -> Option<ReadRun> {
        run.assert_state();
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
        waiting.runs.iter().chain(waiting.in_flight()).any(|run| run.has(tag.id()))
    }

    /// Helps to read a page that the caller waits for. A run that waits in the queue is read at
    /// once. For a run under way in the ring, the caller asks for completions. When this returns,
    /// the page is there, cannot be read, or is being read by another thread.
    pub(super) fn help_reading(&self, tag: Tag) {
        let id = tag.id();
        // Ends: in each round some run ends, or another thread is waited for, which will end one.
        while self.is_loading(id) {
            let mut waiting = self.reads.waiting.lock();
            if let Some(at) = waiting.runs.iter().position(|run| run.has(id)) {
                let run = waiting.runs.remove(at);
                drop(waiting);
                self.reads.counters.helped.fetch_add(1, Ordering::Relaxed);
                run.iter().for_each(|run| self.finish_run(run));
                return;
            }
            let ring = self.reads.ring.as_ref();
            let Some(ring) = ring.filter(|_| waiting.in_flight().any(|run| run.has(id))) else {
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
            self.submit_waiting();
        }
    }

    /// Runs a worker: reads runs until it is told to stop and no run waits.
    pub(crate) fn run_io_worker(&self) {
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
                self.unregister_io_worker();
                return;
            } else {
                queue.changed.wait(&mut waiting);
            }
        }
    }

    /// Registers a worker that is about to begin.
    pub(crate) fn register_io_worker(&self) {
        let mut waiting = self.reads.waiting.lock();
        waiting.stop = false;
        waiting.workers += 1;
    }

    /// Unregisters a worker, once no run waits.
    pub(crate) fn unregister_io_worker(&self) {
        // Ends: with the waiting runs, because streams do not run on without pause.
        loop {
            let mut waiting = self.reads.waiting.lock();
            let run = waiting.runs.pop_front();
            if run.is_none() {
                debug_assert!(waiting.workers > 0, "a worker that was not registered ends");
                waiting.workers -= 1;
                return;
            }
            drop(waiting);
            run.iter().for_each(|run| self.finish_run(run));
        }
    }
}
