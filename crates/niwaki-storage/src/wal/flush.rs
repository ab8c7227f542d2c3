//! Making the log durable: one thread writes and syncs for all who wait.
//!
//! ```text
//!   idle --flush()--> leader writes and syncs --> wakes whom it served
//!                        ^      | others queue up meanwhile, sleeping
//!                        +------+ the oldest one not served is woken as the next leader
//! ```
//!
//! A thread is woken once: when its bytes are durable, or when it has the turn. So a commit costs at
//! most one sleep, and those who came too late for a flush share the next one.

use std::sync::Arc;

use niwaki_env::seeded_bug;
use niwaki_env::sync::atomic::{AtomicU8, Ordering};
use niwaki_env::sync::{Parker, thread};
use niwaki_env::vfs::VfsFile;

use super::insert::Wal;
use crate::error::{Error, Result};
use crate::ids::Lsn;

const WAITING: u8 = 0;
const SERVED: u8 = 1;
const LEADING: u8 = 2;

/// A thread that waits for a flush.
struct Sleeper {
    parker: Parker,
    outcome: AtomicU8,
}

niwaki_env::thread_local! {
    static SLEEPER: Arc<Sleeper> =
        Arc::new(Sleeper { parker: Parker::new(), outcome: AtomicU8::new(WAITING) });
}

/// Whether a flush is under way, and who waits for it or for the next one.
#[derive(Default)]
pub(super) struct FlushState {
    active: bool,
    /// Threads with the position that each waits for, oldest first.
    queue: Vec<(u64, Arc<Sleeper>)>,
}

/// What only the flushing thread uses.
pub(super) struct Leader {
    /// Buffer that takes the place of the one being written.
    spare: Vec<u8>,
    /// Segments written but not synced.
    unsynced: Vec<Arc<dyn VfsFile>>,
    /// Everything before is written.
    written: u64,
    /// Whom to wake; kept for its allocation.
    served: Vec<(u64, Arc<Sleeper>)>,
}

impl Leader {
    pub(super) fn new(buffer_bytes: usize) -> Self {
        Self {
            spare: Vec::with_capacity(buffer_bytes),
            unsynced: Vec::new(),
            written: 0,
            served: Vec::new(),
        }
    }
}

/// The right to flush; passes it on and wakes whom it served, even when the flush ends in a panic.
struct Turn<'w> {
    wal: &'w Wal,
    /// A panic was unwinding already when this turn began: a statement is rolled back. Such a panic
    /// says nothing of the log.
    unwinding: bool,
}

impl<'w> Turn<'w> {
    fn new(wal: &'w Wal) -> Self {
        Self { wal, unwinding: thread::panicking() }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if thread::panicking() && !self.unwinding {
            // Nothing may be reported durable any more: everybody is woken to find that out.
            let why =
                std::io::Error::other("a flush ended in a panic; nothing is written any more");
            self.wal.segments.gate.close(Error::io("could not write the log", why));
        }
        let closed = self.wal.segments.gate.is_closed();
        let mut leader = self.wal.leader.lock();
        let mut served = std::mem::take(&mut leader.served);
        drop(leader);
        let flushed = self.wal.flushed().0;
        let mut state = self.wal.flush.lock();
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
            // Release: pairs with the acquire in `take_turn`.
            sleeper.outcome.store(SERVED, Ordering::Release);
            sleeper.parker.unpark();
        }
        self.wal.leader.lock().served = served;
    }
}

impl Wal {
    /// Returns when everything before `upto` is durable. Of several callers one writes and syncs
    /// what all of them inserted. A failure ends the process: what reached the disk is unknown.
    ///
    /// # Errors
    /// Why nothing is written any more, as when the directory's lock is lost. What was not written
    /// will not be; of what the system took and did not sync nobody knows until the directory is
    /// opened again. A flush that is under way is waited for first: what it makes durable is no
    /// failure.
    pub fn flush(&self, upto: Lsn) -> Result<()> {
        if self.flushed() >= upto {
            return Ok(());
        }
        debug_assert!(upto <= self.insert_lsn(), "flush to {upto}, behind the end of the log");
        // Ends: whoever has the turn ends it, and each turn takes everything inserted before it, or
        // finds that nothing is written any more.
        while self.flushed() < upto {
            if let Some(turn) = self.take_turn(upto.0) {
                self.write_out(true);
                drop(turn);
                if self.flushed() < upto {
                    self.segments.gate.pass()?;
                }
                self.segments.allocate_if_low(self.insert_lsn().0);
            }
        }
        Ok(())
    }

    /// Writes the buffer without syncing, so that there is room in it; or waits for somebody else's
    /// write or flush, which does the same.
    pub(super) fn write_buffer(&self) {
        if let Some(turn) = self.take_turn(0) {
            self.write_out(false);
            drop(turn);
        }
    }

    /// Waits for the turn to flush; `None` when a flush up to `upto` was seen to end (any, when it
    /// is 0).
    fn take_turn(&self, upto: u64) -> Option<Turn<'_>> {
        let mut state = self.flush.lock();
        if upto > 0 && self.flushed().0 >= upto {
            return None;
        }
        if !state.active {
            state.active = true;
            return Some(Turn::new(self));
        }
        let sleeper = SLEEPER.with(Arc::clone);
        sleeper.outcome.store(WAITING, Ordering::Relaxed);
        state.queue.push((upto, Arc::clone(&sleeper)));
        drop(state);
        // Ends: the thread with the turn gives every sleeper an outcome, its own turn in the end.
        loop {
            // Acquire: pairs with the release of the turn that ended.
            match sleeper.outcome.load(Ordering::Acquire) {
                WAITING => sleeper.parker.park(),
                LEADING => return Some(Turn::new(self)),
                _ => return None,
            }
        }
    }

    /// Takes the buffer and writes it, unless nothing is written any more; the caller has the turn.
    fn write_out(&self, sync: bool) {
        if self.segments.gate.is_closed() {
            return;
        }
        let mut leader = self.leader.lock();
        let leader = &mut *leader;
        let start = {
            let mut tail = self.tail.lock();
            let start = tail.start;
            std::mem::swap(&mut tail.buffer, &mut leader.spare);
            tail.start = start + leader.spare.len() as u64;
            start
        };
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
