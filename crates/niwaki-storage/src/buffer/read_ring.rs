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
//!
//! A ring that breaks is given no run again: what waits is read by who meets the failure, and from then on by who needs it, as if nobody read ahead.
//! It gives back what it has not begun, and is asked for what it has. Only if that does not end does the process: a frame that the system may write to at
//! any moment can neither be used again nor be waited for.

use std::sync::Arc;

use niwaki_env::sync::plain_atomic::Ordering;
use niwaki_env::vfs::{ReadDone, ReadRing, RingError};

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
        if !self.reads.ring_works() {
            return self.read_what_waits();
        }
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
            if let Err(error) = ring.submit() {
                self.ring_fails(error);
                self.read_what_waits();
                self.reap_what_is_there();
            }
        }
    }

    /// Reads the runs that wait for a ring that does not work any more; nobody adds one.
    fn read_what_waits(&self) {
        // Ends with the last one.
        loop {
            let Some(run) = self.reads.waiting.lock().runs.pop_front() else { return };
            self.finish_run(&run);
        }
    }

    fn add(&self, ring: &dyn ReadRing, token: usize, run: &ReadRun) {
        let (file, offset) = run.place();
        self.with_slices(run, |slices| {
            // SAFETY: the frames are LOADING, and stay so, as does the pool, until `take` has the token back: see above.
            unsafe { ring.add(token, file, slices, offset) };
        });
    }

    /// Whoever meets the failure of the ring says so, once.
    fn ring_fails(&self, error: RingError) {
        let queue = &self.reads;
        let why = match error {
            RingError::Broken(error) => error.to_string(),
            RingError::Lost(error) => self.files.env().abort(&format!(
                "could not read ahead by io_uring: {error}, and may still change pages in memory"
            )),
        };
        {
            let mut waiting = queue.waiting.lock();
            if !queue.ring_works() {
                return;
            }
            // Relaxed: who adds runs looks again under the lock.
            queue.broken.store(true, Ordering::Relaxed);
            waiting.failure = Some(why.clone());
        }
        if let Some(tell) = &*queue.tell.lock() {
            tell(&why);
        }
    }

    /// Why the system does not read any more, if that happened since the pool was made.
    pub(crate) fn ring_failure(&self) -> Option<String> {
        self.reads.waiting.lock().failure.clone()
    }

    /// `tell` hears once when that happens; at once, if it has.
    pub(crate) fn when_ring_fails(&self, tell: impl Fn(&str) + Send + Sync + 'static) {
        // Held: who meets the failure meanwhile tells after this.
        let mut place = self.reads.tell.lock();
        match self.ring_failure() {
            Some(why) => tell(&why),
            None => *place = Some(Box::new(tell)),
        }
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
        // Ends: what is under way is bounded, nothing is begun here, and a ring breaks once.
        loop {
            match ring.complete(wait) {
                Ok(Some(done)) => {
                    wait = false;
                    let run = self.reads.waiting.lock().under_way[done.token].take();
                    let run = run.expect("a read that has ended was under way");
                    self.end_run(run, &done);
                }
                Ok(None) => return,
                Err(error) => self.ring_fails(error),
            }
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
