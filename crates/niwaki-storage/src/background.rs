//! The background thread: checkpoints by time and by log volume, and a flush now and then for those
//! who commit without waiting. Simulations leave it away and call [`Storage::background_step`].

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use niwaki_env::sync::thread::JoinHandle;
use niwaki_env::sync::{Condvar, Mutex, thread};

use crate::checkpoint::CheckpointKind;
use crate::error::{Error, Result};
use crate::record::CheckpointParticipant;
use crate::storage::Storage;

/// How often the thread looks around; bounds what an asynchronous commit may lose.
const PERIOD: Duration = Duration::from_millis(200);

/// How the background thread is told to end.
#[derive(Default)]
pub(crate) struct Signal {
    stop: Mutex<bool>,
    wake: Condvar,
}

/// The running background thread; ends with this handle.
pub struct Background {
    storage: Arc<Storage>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Background").field("running", &self.thread.is_some()).finish()
    }
}

impl Storage {
    /// Starts the background thread. It holds the storage and the participants until the handle is
    /// stopped or dropped.
    ///
    /// # Errors
    /// [`Error::Io`] when the system has no thread to give.
    pub fn start_background(
        self: &Arc<Self>,
        participants: Vec<Arc<dyn CheckpointParticipant>>,
    ) -> Result<Background> {
        *self.background.stop.lock() = false;
        let storage = Arc::clone(self);
        let thread = thread::spawn_named("niwaki-storage", move || {
            let participants: Vec<&dyn CheckpointParticipant> =
                participants.iter().map(AsRef::as_ref).collect();
            storage.background_loop(&participants);
        })
        .map_err(|e| Error::io("could not start the background thread", e))?;
        Ok(Background { storage: Arc::clone(self), thread: Some(thread) })
    }

    fn background_loop(&self, participants: &[&dyn CheckpointParticipant]) {
        let mut last_checkpoint = self.env.clock.monotonic();
        let mut stop = self.background.stop.lock();
        // Ends when the handle says stop.
        while !*stop {
            self.background.wake.wait_for(&mut stop, PERIOD);
            if *stop {
                return;
            }
            drop(stop);
            // What fails here is tried again; sessions meet the same error themselves.
            let _ = self.background_step(&mut last_checkpoint, participants);
            stop = self.background.stop.lock();
        }
    }

    /// One round of the background work; `last_checkpoint` is when the last one began, on the
    /// monotonic clock.
    ///
    /// # Errors
    /// As [`Storage::checkpoint`].
    pub fn background_step(
        &self,
        last_checkpoint: &mut Duration,
        participants: &[&dyn CheckpointParticipant],
    ) -> Result<()> {
        let end = self.wal.insert_lsn();
        self.wal.flush(end);
        // Ahead of those who would have to wait for a new segment.
        let room = self.wal.segments.allocate_until(end.0 + 2 * self.wal.segments.payload());
        let now = self.env.clock.monotonic();
        let since = end.0.saturating_sub(self.wal.redo_lsn().0);
        let due = now.saturating_sub(*last_checkpoint) >= self.options.checkpoint_timeout;
        // The log of two rounds is on disk at most, as a checkpoint takes its time.
        // On a full disk, old segments are the room that can be had.
        let reusable = room.is_err() && since > self.wal.segments.payload();
        // Behind the last checkpoint's own record: an idle database is left alone.
        let changed = end > self.control().checkpoint;
        if since >= self.options.max_wal_bytes / 2 || (due && changed) || reusable {
            *last_checkpoint = now;
            self.checkpoint(CheckpointKind::Timed, participants)?;
        }
        Ok(())
    }
}

impl Background {
    /// Ends the thread and waits for it.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        *self.storage.background.stop.lock() = true;
        self.storage.background.wake.notify_all();
        // A panic there was reported when it happened.
        let _ = thread.join();
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.end();
    }
}
