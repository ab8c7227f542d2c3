//! The background threads of a storage.
//!
//! The *checkpointer* begins checkpoints by time and by log volume, and spreads their writing. The
//! *writer* writes dirty pages before their frames are needed, and flushes the log for transactions
//! that commit without waiting. The *I/O workers* read pages ahead for streams. Simulations start
//! no threads, and call [`Storage::background_step`] and [`Storage::background_write`].

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use niwaki_env::sync::thread::{self, JoinHandle};

use super::checkpoint::{CheckpointKind, CheckpointParticipant, Hurry};
use super::io_workers::IoWorkers;
use super::storage::Storage;
use crate::buffer::write_out::CleanAhead;
use crate::error::{Error, Result};
use crate::ids::{Lsn, Xid};
use crate::stream::method::IoMethod;

/// Longest time between two rounds of a thread; it bounds how long an asynchronous commit stays
/// unflushed.
const PERIOD: Duration = Duration::from_millis(200);

/// Time between two checks that this process still holds the directory's lock.
const LOOK_AT_LOCK: Duration = Duration::from_secs(1);

const _: () = assert!(
    PERIOD.as_millis() < LOOK_AT_LOCK.as_millis(),
    "the lock is looked at between two rounds"
);

/// State of the background writer between rounds.
#[derive(Debug, Default)]
pub struct BackgroundWriter {
    ahead: CleanAhead,
    /// Time of the last search for pages, on the monotonic clock.
    last: Duration,
    /// End of the last record whose only purpose is to state how far the log was durable.
    durable_record: Lsn,
}

/// The running background threads; they end with this handle.
pub struct Background {
    storage: Arc<Storage>,
    threads: Vec<JoinHandle<()>>,
    io_workers: Option<IoWorkers>,
}

impl fmt::Debug for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Background").field("threads", &self.threads.len()).finish_non_exhaustive()
    }
}

impl Storage {
    /// Starts the background threads. They hold the storage and the participants until the handle
    /// is stopped or dropped.
    ///
    /// # Errors
    /// [`Error::Io`] when the system has no thread to give.
    pub fn start_background(
        self: &Arc<Self>,
        participants: Vec<Arc<dyn CheckpointParticipant>>,
    ) -> Result<Background> {
        self.background.set_stop(false);
        let failed = |e| Error::io("could not start a background thread", e);
        // If a later thread cannot be started, dropping `background` stops the earlier ones.
        let workers = match self.io_method.method {
            IoMethod::Worker => self.options.io_workers,
            IoMethod::Sync | IoMethod::IoUring => 0,
        };
        let io_workers = Some(self.start_io_workers(workers)?);
        let mut background =
            Background { storage: Arc::clone(self), threads: Vec::new(), io_workers };
        let storage = Arc::clone(self);
        let writer = thread::spawn_named("niwaki-writer", move || storage.writer_loop());
        background.threads.push(writer.map_err(failed)?);
        let storage = Arc::clone(self);
        let checkpointer = thread::spawn_named("niwaki-checkpt", move || {
            let participants: Vec<&dyn CheckpointParticipant> =
                participants.iter().map(AsRef::as_ref).collect();
            storage.checkpointer_loop(&participants);
        });
        background.threads.push(checkpointer.map_err(failed)?);
        Ok(background)
    }

    fn writer_loop(&self) {
        let mut writer = BackgroundWriter::default();
        let period = PERIOD.min(self.options.bgwriter_delay);
        // Ends: when the handle sets stop.
        while !self.background.wait(period) {
            self.attempt("the background writer", || self.background_write(&mut writer));
        }
    }

    fn checkpointer_loop(&self, participants: &[&dyn CheckpointParticipant]) {
        let mut last_checkpoint = self.env.clock.monotonic();
        let mut looked = last_checkpoint;
        // Ends: when the handle sets stop.
        while !self.background.wait(PERIOD) {
            let now = self.env.clock.monotonic();
            if now.saturating_sub(looked) >= LOOK_AT_LOCK {
                looked = now;
                // Every writer gets the error from its own write. This call informs the listener of
                // `when_lost` at once.
                let _ = self.check_lock();
            }
            let pause = &mut |time| {
                self.background.wait(time);
            };
            self.attempt("a checkpoint", || {
                self.background_step(&mut last_checkpoint, participants, pause)
            });
        }
    }

    /// Does one round of the background writer, and returns the number of pages written. Flushes
    /// the log, makes its next segments ready, and when it is time writes dirty pages that will
    /// soon be evicted.
    ///
    /// # Errors
    /// Errors of writing a page, which stays dirty; [`Error::DiskFull`] for the log's segments.
    pub fn background_write(&self, writer: &mut BackgroundWriter) -> Result<u64> {
        let end = self.wal.insert_lsn();
        self.wal.flush(end)?;
        let now = self.env.clock.monotonic();
        let mut written = 0;
        if now.saturating_sub(writer.last) >= self.options.bgwriter_delay {
            writer.last = now;
            let (pages, times) =
                (self.options.bgwriter_lru_maxpages, self.options.bgwriter_lru_multiplier);
            written = self.pool.clean_ahead(&mut writer.ahead, pages, times)?;
        }
        // Allocates segments early, so that no inserting thread has to wait for one.
        self.wal.segments.allocate_until(end.0 + 2 * self.wal.segments.payload())?;
        self.log_durable_position(end, writer)?;
        Ok(written)
    }

    /// Logs how far the log is durable, once, when no thread appends records any more.
    ///
    /// Every record states the durable position of its time. This distinguishes a damaged record
    /// from a torn tail. After the last commits before a pause, no later record would do so. The
    /// record itself need not be durable soon.
    fn log_durable_position(&self, end: Lsn, writer: &mut BackgroundWriter) -> Result<()> {
        // The control file vouches for the record of a checkpoint, and may not be written yet.
        let Some(_no_checkpoint) = self.checkpointing.try_lock() else { return Ok(()) };
        let known = writer.durable_record.max(self.control().checkpoint);
        let flushed = self.wal.flushed();
        if flushed <= known || self.wal.insert_lsn() > end.max(flushed) {
            return Ok(());
        }
        self.wal.ensure_room()?;
        writer.durable_record = self.log_images(Xid::INVALID, &mut [])?;
        debug_assert!(writer.durable_record > flushed, "the record vouches for itself");
        debug_assert!(writer.durable_record > known, "an older record vouched for as much");
        Ok(())
    }

    /// Does one round of the checkpointer: a checkpoint if one is due. `last_checkpoint` is the
    /// start of the last one, on the monotonic clock. `pause` waits as in
    /// [`Storage::spread_checkpoint`].
    ///
    /// # Errors
    /// As [`Storage::checkpoint`].
    pub fn background_step(
        &self,
        last_checkpoint: &mut Duration,
        participants: &[&dyn CheckpointParticipant],
        pause: &mut dyn FnMut(Duration),
    ) -> Result<()> {
        let end = self.wal.insert_lsn();
        let room = self.wal.segments.allocate_until(end.0 + 2 * self.wal.segments.payload());
        let now = self.env.clock.monotonic();
        let since = end.0.saturating_sub(self.wal.redo_lsn().0);
        // Only log behind the last checkpoint's own record counts: an idle database is left alone.
        let changed = end > self.control().checkpoint;
        let due = now.saturating_sub(*last_checkpoint) >= self.options.checkpoint_timeout;
        let segment = |position: u64| position / self.wal.segments.payload();
        let kind = if room.is_err() && segment(self.wal.redo_lsn().0) < segment(end.0) {
            // On a full disk only old segments can be freed, and their room is needed now.
            *last_checkpoint = now;
            self.checkpoint(CheckpointKind::LogVolume, participants)?;
            return Ok(());
        } else if since >= self.checkpoint_distance() {
            CheckpointKind::LogVolume
        } else if due && changed {
            CheckpointKind::Timed
        } else {
            return Ok(());
        };
        *last_checkpoint = now;
        self.spread_checkpoint(kind, participants, pause)?;
        Ok(())
    }
}

impl Background {
    /// Ends the threads and waits for them; a running checkpoint is finished at full speed.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let _hurry = Hurry::new(&self.storage);
        self.storage.background.set_stop(true);
        for thread in self.threads.drain(..) {
            // A panic of the thread was reported when it happened.
            let _ = thread.join();
        }
        self.io_workers = None;
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.end();
    }
}
