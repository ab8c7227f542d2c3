//! Reads by the operating system itself (`io_method = io_uring`).
//!
//! ```text
//!   queue ---- submit_waiting ---> under way ---- reap ----> pages VALID, or gone from the pool
//!     |        as far as there                     ^
//!     |        is room, one call                   | a thread that needs one of the pages, or that
//!     +-----> finish_run, by the first             | passes by; one thread at a time
//!             thread that needs a page
//! ```
//!
//! No dedicated thread waits for completions of reads. **A thread that waits for a page under way
//! asks for completions itself**, until the page is there. One thread asks at a time. The others
//! sleep until that thread has processed the completions that it got, and look again. Asking needs
//! no latch and no other frame, so it does not matter what these threads hold.
//!
//! Other threads take completions that are there already when they pass by: a stream that looks
//! ahead, or a thread that finds no frame. Pages that no thread wants stay pinned until then; a
//! quarter of the pool at most.
//!
//! A frame under way is LOADING, pinned by its run, and named in `in_flight` until its completion
//! was taken out of the ring. Only then the system has released its memory. Nothing ends that
//! earlier: no error, no cancelled statement, no stream that is dropped. The pool is dropped only
//! when nothing is under way.
//!
//! A broken ring gets no more runs. The thread that meets the failure reads the waiting runs. From
//! then on every page is read by the thread that needs it, as if without read-ahead. The ring
//! returns the runs it has not begun, and is asked for the completions of the others. Only if these
//! never complete, the process ends. The system may write to their frames at any moment, so the
//! frames can neither be used again nor be waited for.

use std::sync::Arc;

use niwaki_env::sync::plain_atomic::Ordering;
use niwaki_env::vfs::{ReadDone, ReadRing, RingError};

use super::pool::BufferPool;
use super::read_state::{ReadQueue, ReadRun, Waiting};
use crate::page::PAGE_SIZE;

/// The right to ask for completions, held by one thread. Dropping it gives the right back, however
/// the thread ends.
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
    /// Returns the runs that are under way.
    pub(super) fn in_flight(&self) -> impl Iterator<Item = &ReadRun> {
        self.in_flight.iter().flatten()
    }

    /// Returns a token for one more run, if there is room.
    fn token(&mut self, capacity: usize) -> Option<usize> {
        if let Some(free) = self.in_flight.iter().position(Option::is_none) {
            debug_assert!(free < capacity, "the ring has no token {free}");
            return Some(free);
        }
        let count = self.in_flight.len();
        debug_assert!(count <= capacity, "{count} tokens of a ring for {capacity} runs");
        (count < capacity).then(|| {
            self.in_flight.push(None);
            count
        })
    }
}

impl BufferPool {
    /// Begins the runs that wait in the queue, as far as the ring has room, and takes completions
    /// that are there. Does nothing without a ring: workers take the runs then.
    pub(crate) fn submit_waiting(&self) {
        let Some(ring) = &self.reads.ring else { return };
        self.reap_completed();
        if !self.reads.ring_works() {
            return self.read_waiting();
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
            // Under the same lock: a thread that looks for the run finds it in the queue or under
            // way.
            waiting.in_flight[token] = Some(run);
            begun += 1;
        }
        if begun > 0 {
            self.reads.counters.begun(begun);
            if let Err(error) = ring.submit() {
                self.ring_fails(error);
                self.read_waiting();
                self.reap_completed();
            }
        }
    }

    /// Reads the runs that wait for a broken ring; no thread adds one.
    fn read_waiting(&self) {
        // Ends: with the last run.
        loop {
            let Some(run) = self.reads.waiting.lock().runs.pop_front() else { return };
            self.finish_run(&run);
        }
    }

    fn add(&self, ring: &dyn ReadRing, token: usize, run: &ReadRun) {
        let (file, offset) = run.place();
        self.with_slices(run, |slices| {
            // SAFETY: the frames are LOADING, and stay so, as does the pool, until `take` has the
            // token back: see above.
            unsafe { ring.add(token, file, slices, offset) };
        });
    }

    /// Marks the ring as failed, and reports that once.
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
            // Relaxed: threads that add runs look again under the lock.
            queue.broken.store(true, Ordering::Relaxed);
            waiting.failure = Some(why.clone());
        }
        if let Some(tell) = &*queue.tell.lock() {
            tell(&why);
        }
    }

    /// Returns the reason why the ring failed, if it has failed since the pool was made.
    pub(crate) fn ring_failure(&self) -> Option<String> {
        self.reads.waiting.lock().failure.clone()
    }

    /// Registers `tell`, which is called once when the ring fails; at once, if it has failed
    /// already.
    pub(crate) fn when_ring_fails(&self, tell: impl Fn(&str) + Send + Sync + 'static) {
        // The lock is held, so that a thread that meets the failure meanwhile reports it after
        // this.
        let mut place = self.reads.tell.lock();
        match self.ring_failure() {
            Some(why) => tell(&why),
            None => *place = Some(Box::new(tell)),
        }
    }

    /// Takes completions that are there already, unless another thread does so right now.
    pub(crate) fn reap_completed(&self) {
        let Some(ring) = &self.reads.ring else { return };
        let mut waiting = self.reads.waiting.lock();
        if waiting.reaping || waiting.in_flight().next().is_none() {
            return;
        }
        waiting.reaping = true;
        drop(waiting);
        self.reap(ring, false);
    }

    /// Takes completions, at least one with `wait`. The caller has set `reaping`, and has seen that
    /// a run is under way.
    pub(super) fn reap(&self, ring: &Arc<dyn ReadRing>, mut wait: bool) {
        let _reaper = Reaper { queue: &self.reads };
        // Ends: the number of runs under way is bounded, no run is begun here, and a ring breaks
        // once.
        loop {
            match ring.complete(wait) {
                Ok(Some(done)) => {
                    wait = false;
                    let run = self.reads.waiting.lock().in_flight[done.token].take();
                    let run = run.expect("a read that has ended was under way");
                    self.end_run(run, &done);
                }
                Ok(None) => return,
                Err(error) => self.ring_fails(error),
            }
        }
    }

    /// Accepts the pages of a run whose frames the system has released, and reads the missing pages
    /// again.
    fn end_run(&self, run: ReadRun, done: &ReadDone) {
        // An error may have another cause than the file: reading again shows that.
        let bytes = done.result.as_ref().map_or(0, |&bytes| bytes);
        run.assert_state();
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
        // Ends: with the last read under way; no thread begins another.
        while self.reads.waiting.lock().in_flight().next().is_some() {
            self.reap(&ring, true);
        }
    }
}
