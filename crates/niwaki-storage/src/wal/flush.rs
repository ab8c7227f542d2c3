//! Making the log durable: one thread writes and syncs for all waiting threads.
//!
//! ```text
//!   idle --flush()--> leader writes and syncs --> wakes the threads it served
//!                        ^      | other threads queue up meanwhile, sleeping
//!                        +------+ the oldest thread not served is woken as the next leader
//! ```
//!
//! A thread is woken once: when its bytes are durable, or when it becomes the leader. So a commit
//! costs at most one sleep, and threads that came too late for a flush share the next one.

use std::sync::Arc;

use niwaki_env::seeded_bug;
use niwaki_env::sync::atomic::{AtomicU8, Ordering};
use niwaki_env::sync::{Parker, thread};

use super::insert::Wal;
use super::leader::{LEADING, SERVED, Sleeper, WAITING};
use crate::error::{Error, Result};
use crate::ids::Lsn;

niwaki_env::thread_local! {
    static SLEEPER: Arc<Sleeper> =
        Arc::new(Sleeper { parker: Parker::new(), outcome: AtomicU8::new(WAITING) });
}

/// The right to flush. Dropping it wakes the served threads and passes the right on, even when the
/// flush ends in a panic.
struct Leadership<'w> {
    wal: &'w Wal,
    /// A panic was already unwinding when this leadership began, as when a statement is rolled
    /// back. Such a panic is no failure of the log.
    unwinding: bool,
}

impl<'w> Leadership<'w> {
    fn new(wal: &'w Wal) -> Self {
        Self { wal, unwinding: thread::panicking() }
    }
}

impl Drop for Leadership<'_> {
    fn drop(&mut self) {
        if thread::panicking() && !self.unwinding {
            // Nothing may be reported durable any more. All waiting threads are woken, and get the
            // error.
            let why =
                std::io::Error::other("a flush ended in a panic; nothing is written any more");
            self.wal.segments.gate.close(Error::io("could not write the log", why));
        }
        let closed = self.wal.segments.gate.is_closed();
        let mut leader = self.wal.leader.lock();
        let mut served = std::mem::take(&mut leader.served);
        debug_assert!(served.is_empty(), "{} threads of an earlier turn sleep", served.len());
        drop(leader);
        let flushed = self.wal.flushed().0;
        let mut state = self.wal.flush.lock();
        debug_assert!(state.active, "two threads had the turn at one time");
        let covered = |entry: &mut (u64, Arc<Sleeper>)| closed || entry.0 <= flushed;
        served.extend(state.queue.extract_if(.., covered));
        let next = (!state.queue.is_empty()).then(|| state.queue.remove(0).1);
        state.active = next.is_some();
        drop(state);
        if let Some(next) = next {
            next.outcome.store(LEADING, Ordering::Release);
            next.parker.unpark();
        }
        for (_, sleeper) in served.drain(..) {
            // Release: pairs with the acquire in `become_leader`.
            sleeper.outcome.store(SERVED, Ordering::Release);
            sleeper.parker.unpark();
        }
        self.wal.leader.lock().served = served;
    }
}

impl Wal {
    /// Returns when everything before `upto` is durable. Of several callers, one writes and syncs
    /// the records of all. A failed write or sync ends the process, because it is unknown which
    /// bytes reached the disk.
    ///
    /// # Errors
    /// The reason why writing has ended, for example the loss of the directory's lock. Unwritten
    /// records are never written then. The fate of bytes that the system took and did not sync is
    /// unknown until the directory is opened again. A running flush is waited for first: records
    /// that it makes durable are no failure.
    pub fn flush(&self, upto: Lsn) -> Result<()> {
        if self.flushed() >= upto {
            return Ok(());
        }
        debug_assert!(upto <= self.insert_lsn(), "flush to {upto}, behind the end of the log");
        // Ends: every flush ends, and each flush takes everything inserted before it, or finds that
        // writing has ended.
        while self.flushed() < upto {
            if let Some(leadership) = self.become_leader(upto.0) {
                self.write_out(true);
                drop(leadership);
                if self.flushed() < upto {
                    self.segments.gate.pass()?;
                }
                self.segments.allocate_if_low(self.insert_lsn().0);
            }
        }
        Ok(())
    }

    /// Writes the buffer without syncing, to make room in it. If another thread writes or flushes,
    /// waits for that thread, which makes room as well.
    pub(super) fn write_buffer(&self) {
        if let Some(leadership) = self.become_leader(0) {
            self.write_out(false);
            drop(leadership);
        }
    }

    /// Waits for the right to flush. Returns `None` when a flush up to `upto` has ended meanwhile
    /// (any flush, when `upto` is 0).
    fn become_leader(&self, upto: u64) -> Option<Leadership<'_>> {
        let mut state = self.flush.lock();
        if upto > 0 && self.flushed().0 >= upto {
            return None;
        }
        if !state.active {
            state.active = true;
            return Some(Leadership::new(self));
        }
        let sleeper = SLEEPER.with(Arc::clone);
        sleeper.outcome.store(WAITING, Ordering::Relaxed);
        state.queue.push((upto, Arc::clone(&sleeper)));
        drop(state);
        // Ends: the leader gives every sleeper an outcome, in the end the sleeper's
        // own leadership.
        loop {
            // Acquire: pairs with the release of the flush that ended.
            match sleeper.outcome.load(Ordering::Acquire) {
                WAITING => sleeper.parker.park(),
                LEADING => return Some(Leadership::new(self)),
                _ => return None,
            }
        }
    }

    /// Takes the buffer and writes it, unless writing has ended. The caller is the leader.
    fn write_out(&self, sync: bool) {
        if self.segments.gate.is_closed() {
            return;
        }
        let mut leader = self.leader.lock();
        let leader = &mut *leader;
        debug_assert!(
            leader.spare.is_empty(),
            "the flush before left {} bytes",
            leader.spare.len()
        );
        let start = {
            let mut tail = self.tail.lock();
            let start = tail.start;
            std::mem::swap(&mut tail.buffer, &mut leader.spare);
            tail.start = start + leader.spare.len() as u64;
            start
        };
        // The leader before wrote everything in front of this buffer.
        niwaki_env::invariant!(W2, leader.written <= start, "written up to {}", leader.written);
        leader.written = start + leader.spare.len() as u64;
        if !leader.spare.is_empty() {
            let written = self.segments.write(start, &leader.spare, &mut leader.unsynced);
            if let Err(error) = written
                && !seeded_bug!("ignored_log_write")
            {
                self.env.abort(&format!("could not write the log: {error}"));
            }
            self.counters.writes.fetch_add(1, Ordering::Relaxed);
            leader.spare.clear();
        }
        if seeded_bug!("acknowledged_before_sync") {
            self.flushed.store(leader.written, Ordering::Release);
            return;
        }
        if !sync {
            return;
        }
        for file in leader.unsynced.drain(..) {
            if let Err(error) = file.sync_data()
                && !seeded_bug!("ignored_sync_failure")
            {
                self.env.abort(&format!("could not sync the log: {error}"));
            }
            self.counters.syncs.fetch_add(1, Ordering::Relaxed);
        }
        // Release: pairs with the acquire in `flushed`.
        self.flushed.store(leader.written, Ordering::Release);
    }
}
