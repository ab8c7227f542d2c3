//! Fuzzy checkpoints: they bound the log that recovery must read, while all other work goes on.
//!
//! ```text
//!   redo position fixed    dirty pages written    participants log    record, flush, control file
//!   ------|------------------------|----------------------|------------------|-------> log
//!         ^ recovery begins here once the control file says so
//! ```
//!
//! A checkpoint that no thread waits for spreads its writing. After each write it compares its
//! progress with the part of the time, and of the log, that is used up until the next checkpoint.
//! It pauses while it is ahead.
//!
//! Pages of a record before the redo position are already written, or dirty, because they are
//! marked before the record's insertion. So the walk over dirty frames finds them. A record behind
//! the redo position is replayed.

use std::time::Duration;

use niwaki_env::seeded_bug;
use niwaki_env::sync::atomic::Ordering;
use niwaki_env::sync::plain_atomic::AtomicU64 as Counter;

use super::storage::{Storage, kind};
use crate::disk::file_table;
use crate::error::Result;
use crate::ids::{Lsn, Xid};
use crate::wal::record::{Manager, Record};

/// A layer that must write something in every checkpoint.
pub trait CheckpointParticipant: Send + Sync {
    /// Logs facts that recovery needs and cannot get from earlier records. Recovery would begin at
    /// `redo`, and reads no record before it. Runs after the redo position is fixed and before the
    /// checkpoint record is written.
    ///
    /// # Errors
    /// Gives up this checkpoint; the previous one stays valid.
    fn checkpoint(&self, storage: &Storage, redo: Lsn) -> Result<()>;
}

/// The reason for a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointKind {
    /// A request, as by the CHECKPOINT command.
    Requested,
    /// The time since the last checkpoint.
    Timed,
    /// The volume of the log since the last checkpoint.
    LogVolume,
    /// The end of recovery.
    EndOfRecovery,
    /// The shutdown of the database; no other work runs.
    Shutdown,
}

/// The result of a checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointSummary {
    /// Position where recovery would begin.
    pub redo: Lsn,
    /// LSN of the checkpoint record.
    pub lsn: Lsn,
    /// Pages written.
    pub pages: u64,
    /// Files synced.
    pub synced: u64,
}

/// Counters of checkpoints and of page writes, since the database was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteStatistics {
    /// Checkpoints due to the time.
    pub checkpoints_timed: u64,
    /// Checkpoints that were requested, or due to the volume of the log.
    pub checkpoints_requested: u64,
    /// Time that checkpoints spent writing, pauses included, in microseconds.
    pub checkpoint_write_us: u64,
    /// Time that checkpoints spent syncing, in microseconds.
    pub checkpoint_sync_us: u64,
    /// Pages written by checkpoints.
    pub by_checkpoints: u64,
    /// Pages written by the background writer.
    pub by_background: u64,
    /// Pages that a session had to write to get a frame.
    pub by_sessions: u64,
    /// Rounds that the background writer ended because it had reached its limit.
    pub background_stopped: u64,
    /// Relation files that were synced because they had to be closed.
    pub synced_to_close: u64,
    /// Times a frame was given to another page.
    pub frames_allocated: u64,
    /// Write calls, each of one page or of several neighbours.
    pub writes: u64,
}

/// Time that a checkpoint waits before it compares its progress again.
const NAP: Duration = Duration::from_millis(100);

/// The speed at which a checkpoint writes.
pub(crate) struct Pace<'a> {
    pause: Option<&'a mut dyn FnMut(Duration)>,
}

impl Pace<'_> {
    /// Writes at full speed.
    pub(crate) fn full() -> Self {
        Self { pause: None }
    }

    /// Waits while a checkpoint is ahead. The checkpoint began at time `began`, at log position
    /// `redo`, and has written `done` of `total` pages.
    fn keep(&mut self, storage: &Storage, began: Duration, redo: Lsn, done: u64, total: u64) {
        debug_assert!(done <= total, "{done} pages of {total} are written");
        let Some(pause) = &mut self.pause else { return };
        let part = done as f64 / total.max(1) as f64;
        // Ends: time passes in a pause. On a full disk there is no pause, because changes may be
        // refused until the checkpoint has ended.
        while storage.hurry.load(Ordering::Acquire) == 0 && !storage.wal.segments.is_stuck() {
            let options = &storage.options;
            let time = storage.env.clock.monotonic().saturating_sub(began).as_secs_f64()
                / options.checkpoint_timeout.as_secs_f64();
            let log = storage.wal.insert_lsn().0.saturating_sub(redo.0) as f64
                / storage.checkpoint_distance() as f64;
            if part * options.checkpoint_completion_target <= time.max(log) {
                return;
            }
            pause(NAP);
        }
    }
}

/// Makes the running checkpoint hurry, as long as this value lives.
pub(crate) struct Hurry<'a>(&'a Storage);

impl<'a> Hurry<'a> {
    pub(crate) fn new(storage: &'a Storage) -> Self {
        // Release: pairs with the acquire in `Pace::keep`, whose pause this ends.
        storage.hurry.fetch_add(1, Ordering::Release);
        storage.background.wake();
        Self(storage)
    }
}

impl Drop for Hurry<'_> {
    fn drop(&mut self) {
        let before = self.0.hurry.fetch_sub(1, Ordering::Release);
        debug_assert!(before > 0, "another thread ended this one's hurry");
    }
}

impl Storage {
    /// Makes a checkpoint: afterwards recovery begins where the log ended when this was called.
    ///
    /// # Errors
    /// An I/O error while pages are written or a participant's error: the previous checkpoint stays
    /// valid. A failed sync ends the process.
    pub fn checkpoint(
        &self,
        kind: CheckpointKind,
        participants: &[&dyn CheckpointParticipant],
    ) -> Result<CheckpointSummary> {
        let _hurry = Hurry::new(self);
        self.checkpoint_with(kind, &mut Pace::full(), |redo| {
            participants.iter().try_for_each(|p| p.checkpoint(self, redo))
        })
    }

    /// Makes a checkpoint like [`Storage::checkpoint`], spread over time. While the checkpoint is
    /// ahead, `pause` is called with the time to wait. No page is pinned during a pause. A request
    /// for another checkpoint ends the pauses.
    ///
    /// # Errors
    /// As [`Storage::checkpoint`].
    pub fn spread_checkpoint(
        &self,
        kind: CheckpointKind,
        participants: &[&dyn CheckpointParticipant],
        pause: &mut dyn FnMut(Duration),
    ) -> Result<CheckpointSummary> {
        self.checkpoint_with(kind, &mut Pace { pause: Some(pause) }, |redo| {
            participants.iter().try_for_each(|p| p.checkpoint(self, redo))
        })
    }

    /// Returns the most bytes of log between the beginnings of two checkpoints. While a checkpoint
    /// is written, the log since the one before is needed too.
    pub(crate) fn checkpoint_distance(&self) -> u64 {
        let rounds = 1.0 + self.options.checkpoint_completion_target;
        ((self.options.max_wal_bytes as f64 / rounds) as u64).max(1)
    }

    /// Returns the counters of checkpoints and of page writes.
    pub fn write_statistics(&self) -> WriteStatistics {
        let get = |counter: &Counter| counter.load(Ordering::Relaxed);
        let (checkpoints, writes) = (&self.checkpoint_counters, &self.pool.writes);
        WriteStatistics {
            checkpoints_timed: get(&checkpoints.timed),
            checkpoints_requested: get(&checkpoints.requested),
            checkpoint_write_us: get(&checkpoints.write_us),
            checkpoint_sync_us: get(&checkpoints.sync_us),
            by_checkpoints: get(&writes.checkpoint),
            by_background: get(&writes.background),
            by_sessions: get(&writes.sessions),
            background_stopped: get(&writes.background_stopped),
            synced_to_close: self.files.synced_to_close(),
            frames_allocated: get(&writes.allocated),
            writes: get(&writes.writes),
        }
    }

    pub(crate) fn checkpoint_with(
        &self,
        kind: CheckpointKind,
        pace: &mut Pace<'_>,
        participate: impl FnOnce(Lsn) -> Result<()>,
    ) -> Result<CheckpointSummary> {
        self.check_lock()?;
        let _one_at_a_time = self.checkpointing.lock();
        let redo = {
            let _no_file_half_done = self.file_changes.write();
            self.wal.begin_checkpoint()
        };
        // Read before the dirty pages are collected: numbers given later are in records behind
        // `redo`.
        let next_file = self.next_file.load(Ordering::Acquire);
        participate(redo)?;
        let began = self.env.clock.monotonic();
        let pages =
            self.pool.write_dirty(&mut |done, total| pace.keep(self, began, redo, done, total))?;
        let written = self.env.clock.monotonic();
        let redo = if seeded_bug!("late_redo") { self.wal.begin_checkpoint() } else { redo };
        // The sync below makes everything durable that the table states.
        let table = self.files.table();
        let synced = self.files.sync()?;
        self.count_checkpoint(kind, began, written);
        let time_us = self.env.clock.now_unix_us();
        let lsn = self.log_checkpoint(redo, next_file, time_us)?;
        niwaki_env::invariant!(W3, redo < lsn, "recovery would begin at {redo}, not before {lsn}");
        self.wal.flush(lsn)?;
        // Writing takes a while, so the lock is checked again.
        self.check_lock()?;
        let files = self.control().files;
        let files = file_table::write(&self.env, files, &table)?;
        if kind == CheckpointKind::Shutdown {
            // The log is sealed first: where the control file says clean, no record may follow the
            // checkpoint's.
            self.wal.seal(lsn)?;
            // After a clean shutdown nothing is lost, so the listener for losses is removed.
            drop(self.when_lost.lock().take());
        }
        let mut control = self.control.lock();
        let old_redo = control.current.redo;
        niwaki_env::invariant!(
            W2,
            control.current.checkpoint < lsn,
            "the checkpoint at {lsn} is not behind the one at {}",
            control.current.checkpoint
        );
        niwaki_env::invariant!(
            T6,
            control.current.next_file <= next_file,
            "numbers from {next_file} on would be given twice"
        );
        let mut next = control.current;
        next.redo = redo;
        next.checkpoint = lsn;
        next.next_file = next_file;
        next.files = files;
        next.time_us = time_us;
        next.clean = kind == CheckpointKind::Shutdown;
        let replaced = control.replace(next);
        drop(control);
        replaced.inspect_err(|error| self.wal.segments.gate.close(error.clone()))?;
        // After a shutdown the next start takes existing segments for ready. So no segment is made
        // here: the failure of its name's sync would go unnoticed. The next start recycles them.
        if kind != CheckpointKind::Shutdown {
            self.recycle_wal(redo, old_redo)?;
        }
        Ok(CheckpointSummary { redo, lsn, pages, synced })
    }

    fn count_checkpoint(&self, kind: CheckpointKind, began: Duration, written: Duration) {
        let counters = &self.checkpoint_counters;
        let add = |counter: &Counter, by: u64| {
            counter.fetch_add(by, Ordering::Relaxed);
        };
        match kind {
            CheckpointKind::Timed => add(&counters.timed, 1),
            CheckpointKind::Requested | CheckpointKind::LogVolume => add(&counters.requested, 1),
            CheckpointKind::EndOfRecovery | CheckpointKind::Shutdown => {}
        }
        debug_assert!(began <= written, "writing ended at {written:?}, and began at {began:?}");
        let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let now = self.env.clock.monotonic();
        add(&counters.write_us, us(written.saturating_sub(began)));
        add(&counters.sync_us, us(now.saturating_sub(written)));
    }

    fn log_checkpoint(&self, redo: Lsn, next_file: u64, time_us: i64) -> Result<Lsn> {
        self.log(Record {
            manager: Manager::Storage,
            kind: kind::CHECKPOINT,
            version: 1,
            xid: Xid::INVALID,
            body: &[&redo.0.to_le_bytes(), &next_file.to_le_bytes(), &time_us.to_le_bytes()],
            pages: &mut [],
            removes: None,
        })
    }

    /// Recycles old segments, and keeps as many as the last round of log took.
    pub(crate) fn recycle_wal(&self, redo: Lsn, old_redo: Lsn) -> Result<()> {
        debug_assert!(old_redo <= redo, "recovery began at {old_redo}, and now at {redo}");
        let payload = self.wal.segments.payload();
        let most = (self.options.max_wal_bytes / payload).max(2);
        let keep = ((redo.0 - old_redo.0) / payload + 2).min(most);
        self.wal.segments.recycle(redo, keep, self.wal.insert_lsn().0)
    }

    /// Ends all work with a last checkpoint, marks the directory as cleanly shut down, and ends all
    /// writing: later writes are refused.
    ///
    /// The directory may be opened again from then on, even if handles of it are kept: these have
    /// no relation or log file open. The caller has ended all transactions and background work, and
    /// begins none.
    ///
    /// # Errors
    /// Errors of [`Storage::checkpoint`], or a record that was logged meanwhile. The directory is
    /// not marked then, and the next opening recovers from the log. When the mark itself cannot be
    /// written, all writing has ended.
    pub fn shutdown(
        &self,
        participants: &[&dyn CheckpointParticipant],
    ) -> Result<CheckpointSummary> {
        let summary = self.checkpoint(CheckpointKind::Shutdown, participants)?;
        self.files.close_all();
        self.wal.segments.close_all();
        self.control.lock().close();
        drop(self.lock.lock().take());
        Ok(summary)
    }
}
