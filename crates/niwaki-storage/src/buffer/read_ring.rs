//! Reads that the system does by itself (`io_method = io_uring`).
//!
//! ```text
//!   queue ---- begin_waiting ----> under way ---- reap ----> pages VALID, or gone from the pool
//!     |        as far as there                     ^
//!     |        is room, one call                   | whoever needs one of the pages, or comes by
//!     +-----> finish_run, by who needs it first    |
//!                                                  +-- one thread at a time
//! ```
//!
//! Nobody is there for the ends of reads: **who waits for a page that is under way asks for ends himself**, until it is there. One asks at a
//! time; the others sleep until he has seen to what he got, and look again. He needs no latch and no other frame for that, so it does not matter
//! what he or they hold. Who reads nothing but comes by (a stream that looks ahead, somebody who finds no frame) takes the ends that are there
//! already. What nobody wants stays pinned until then; a quarter of the pool at most.
//!
//! A frame under way is LOADING, pinned by its run, and named in `under_way` until its end was taken out of the ring: only then the system has
//! let go of its memory. Nothing ends that earlier: no error, no cancelled statement, no stream that is dropped. The pool goes only when nothing is under way.

use std::sync::Arc;

use niwaki_env::vfs::{ReadDone, ReadRing};

use super::pool::BufferPool;
use super::read_queue::{ReadQueue, Waiting};
use super::read_run::ReadRun;
use crate::page::PAGE_SIZE;

/// One thread asks for ends. Whatever happens to it, others may when it has gone.
struct Reaper<'q> {
    queue: &'q ReadQueue,
}

impl Drop for Reaper<'_> {
    fn drop(&mut self) {
        self.queue.waiting.lock().reaping = false;
        self.queue.changed.notify_all();
    }
}

impl Waiting {
    /// Runs that are under way.
    pub(super) fn under_way(&self) -> impl Iterator<Item = &ReadRun> {
        self.under_way.iter().flatten()
    }

    /// A token for one more run, if there is room.
    fn token(&mut self, capacity: usize) -> Option<usize> {
        if let Some(free) = self.under_way.iter().position(Option::is_none) {
            return Some(free);
        }
        let count = self.under_way.len();
        (count < capacity).then(|| {
            self.under_way.push(None);
            count
        })
    }
}

impl BufferPool {
    /// Begins what waits in the queue, as far as the ring has room, and takes the ends that are there. Without a ring workers do.
    pub(crate) fn begin_waiting(&self) {
        let Some(ring) = &self.reads.ring else { return };
        self.reap_what_is_there();
        let capacity = ring.capacity();
        let mut begun = 0;
        // Ends: the ring becomes full, or nothing waits.
        loop {
            let mut waiting = self.reads.waiting.lock();
            let Some(token) = waiting.token(capacity) else { break };
            let Some(run) = waiting.runs.pop_front() else { break };
            if niwaki_env::seeded_bug!("run_between_lists") {
                drop(waiting);
                waiting = self.reads.waiting.lock();
            }
            self.add(ring.as_ref(), token, &run);
            // In the same moment: who looks for the run finds it here or there.
            waiting.under_way[token] = Some(run);
            begun += 1;
        }
        if begun > 0 {
            self.reads.counters.begun(begun);
            self.must(ring.submit());
        }
    }

    fn add(&self, ring: &dyn ReadRing, token: usize, run: &ReadRun) {
        let (file, offset) = run.place();
        self.with_slices(run, |slices| {
            // SAFETY: the frames are LOADING, and stay so, as does the pool, until `take` has the token back: see above.
            unsafe { ring.add(token, file, slices, offset) };
        });
    }

    /// A ring that does not work any more may still write to frames.
    fn must<T>(&self, result: std::io::Result<T>) -> T {
        result.unwrap_or_else(|error| {
            self.files.env().abort(&format!("could not read ahead by io_uring: {error}"))
        })
    }

    /// Takes the ends that are there already, unless somebody else does right now.
    pub(crate) fn reap_what_is_there(&self) {
        let Some(ring) = &self.reads.ring else { return };
        let mut waiting = self.reads.waiting.lock();
        if waiting.reaping || waiting.under_way().next().is_none() {
            return;
        }
        waiting.reaping = true;
        drop(waiting);
        self.reap(ring, false);
    }

    /// Takes ends; with `wait` at least one. The caller has set `reaping`, and seen that something is under way.
    pub(super) fn reap(&self, ring: &Arc<dyn ReadRing>, mut wait: bool) {
        let _reaper = Reaper { queue: &self.reads };
        // Ends: what is under way is bounded, and nothing is begun here.
        while let Some(done) = self.must(ring.complete(wait)) {
            wait = false;
            let run = self.reads.waiting.lock().under_way[done.token].take();
            let run = run.expect("a read that has ended was under way");
            self.end_run(run, &done);
        }
    }

    /// The system has let go of a run's frames.
    fn end_run(&self, run: ReadRun, done: &ReadDone) {
        // An error may be none of the file's: reading it again tells.
        let bytes = done.result.as_ref().map_or(0, |&bytes| bytes);
        let got = (bytes / PAGE_SIZE).min(run.len());
        self.accept_pages(&run, got);
        if got < run.len() {
            self.reads.counters.repeat();
            self.finish_run(&run.rest(got));
        }
    }
}

impl Drop for BufferPool {
    fn drop(&mut self) {
        let Some(ring) = self.reads.ring.clone() else { return };
        // Ends with the last read that is under way; nobody begins another.
        while self.reads.waiting.lock().under_way().next().is_some() {
            self.reap(&ring, true);
        }
    }
}
