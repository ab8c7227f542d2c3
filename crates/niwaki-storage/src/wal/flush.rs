//! Making the log durable: one thread writes and syncs for all who wait.

use std::sync::Arc;

use niwaki_env::sync::atomic::Ordering;
use niwaki_env::vfs::VfsFile;

use super::insert::Wal;
use crate::ids::Lsn;

/// Whether a flush is under way.
#[derive(Default)]
pub(super) struct FlushState {
    active: bool,
}

/// What only the flushing thread uses.
pub(super) struct Leader {
    /// Buffer that takes the place of the one being written.
    spare: Vec<u8>,
    /// Segments written but not synced.
    unsynced: Vec<Arc<dyn VfsFile>>,
    /// Everything before is written.
    written: u64,
}

impl Leader {
    pub(super) fn new(buffer_bytes: usize) -> Self {
        Self { spare: Vec::with_capacity(buffer_bytes), unsynced: Vec::new(), written: 0 }
    }
}

/// The right to flush; gives it back and wakes the others, even when the flush ends in a panic.
struct Turn<'w>(&'w Wal);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if niwaki_env::sync::thread::panicking() {
            // Nothing may be reported durable any more.
            self.0.dead.store(true, Ordering::Release);
        }
        self.0.flush.lock().active = false;
        self.0.flush_done.notify_all();
    }
}

impl Wal {
    /// Returns when everything before `upto` is durable. Of several callers one writes and syncs
    /// what all of them inserted. A failure ends the process: what reached the disk is unknown.
    pub fn flush(&self, upto: Lsn) {
        if self.flushed() >= upto {
            return;
        }
        debug_assert!(upto <= self.insert_lsn(), "flush to {upto}, behind the end of the log");
        // Ends: whoever has the turn ends it, and each turn takes everything inserted before it.
        while self.flushed() < upto {
            if let Some(turn) = self.take_turn(Some(upto)) {
                self.write_out(true);
                drop(turn);
                self.segments.allocate_if_low(self.insert_lsn().0);
            }
        }
    }

    /// Writes the buffer without syncing, so that there is room in it.
    pub(super) fn write_buffer(&self) {
        if let Some(turn) = self.take_turn(None) {
            self.write_out(false);
            drop(turn);
        }
    }

    /// Waits for the turn to flush; `None` when another thread's flush did what was wanted (with
    /// `upto`), or something (without).
    fn take_turn(&self, upto: Option<Lsn>) -> Option<Turn<'_>> {
        let mut state = self.flush.lock();
        let mut waited = false;
        // Ends: the active thread gives its turn back, and notifies under this lock.
        loop {
            if self.dead.load(Ordering::Acquire) {
                drop(state);
                self.env.abort("the log cannot be written any more");
            }
            match upto {
                Some(upto) if self.flushed() >= upto => return None,
                None if waited => return None,
                _ => {}
            }
            if !state.active {
                state.active = true;
                return Some(Turn(self));
            }
            waited = true;
            self.flush_done.wait(&mut state);
        }
    }

    /// Takes the buffer and writes it; the caller has the turn.
    fn write_out(&self, sync: bool) {
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
            if let Err(error) = written {
                self.env.abort(&format!("could not write the log: {error}"));
            }
            self.counters.writes.fetch_add(1, Ordering::Relaxed);
            leader.spare.clear();
        }
        if !sync {
            return;
        }
        for file in leader.unsynced.drain(..) {
            if let Err(error) = file.sync_data() {
                self.env.abort(&format!("could not sync the log: {error}"));
            }
            self.counters.syncs.fetch_add(1, Ordering::Relaxed);
        }
        // Release: pairs with the acquire in `flushed`.
        self.flushed.store(leader.written, Ordering::Release);
    }
}
