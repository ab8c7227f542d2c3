//! Fuzzy checkpoints: bound the log that recovery must read, while everybody works on.
//!
//! ```text
//!   redo position fixed    dirty pages written      participants log      record, flush, control file
//!   ------|------------------------|------------------------|--------------------|-------> log
//!         ^ recovery begins here once the control file says so
//! ```
//!
//! A record before the redo position has its pages dirty (they are marked before it is inserted) or
//! written already, so the walk over dirty frames meets them. A record behind it is replayed.

use niwaki_env::seeded_bug;
use niwaki_env::sync::atomic::Ordering;

use crate::error::Result;
use crate::ids::{Lsn, Xid};
use crate::record::{CheckpointParticipant, Manager, Record};
use crate::storage::{Storage, kind};

/// Why a checkpoint is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointKind {
    /// Somebody asked (the CHECKPOINT command).
    Requested,
    /// Enough time went by, or enough log was written.
    Timed,
    /// Recovery is over.
    EndOfRecovery,
    /// The database closes; nobody else works on it.
    Shutdown,
}

/// What a checkpoint did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointSummary {
    /// Where recovery would begin.
    pub redo: Lsn,
    /// LSN of the checkpoint record.
    pub lsn: Lsn,
    /// Pages written.
    pub pages: u64,
    /// Files synced.
    pub synced: u64,
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
        self.checkpoint_with(kind, |redo| {
            participants.iter().try_for_each(|p| p.checkpoint(self, redo))
        })
    }

    pub(crate) fn checkpoint_with(
        &self,
        kind: CheckpointKind,
        participate: impl FnOnce(Lsn) -> Result<()>,
    ) -> Result<CheckpointSummary> {
        let _one_at_a_time = self.checkpointing.lock();
        let redo = {
            let _no_file_half_done = self.file_changes.write();
            self.wal.begin_checkpoint()
        };
        // Before the dirty pages are collected: numbers given later are in records behind `redo`.
        let next_file = self.next_file.load(Ordering::Acquire);
        participate(redo)?;
        let pages = self.pool.write_dirty()?;
        let redo = if seeded_bug!("late_redo") { self.wal.begin_checkpoint() } else { redo };
        let synced = self.files.sync();
        let time_us = self.env.clock.now_unix_us();
        let lsn = self.log_checkpoint(redo, next_file, time_us)?;
        self.wal.flush(lsn);
        let mut control = self.control.lock();
        let old_redo = control.current.redo;
        let mut next = control.current;
        next.redo = redo;
        next.checkpoint = lsn;
        next.next_file = next_file;
        next.time_us = time_us;
        next.clean = kind == CheckpointKind::Shutdown;
        control.replace(next);
        drop(control);
        self.recycle_wal(redo, old_redo)?;
        Ok(CheckpointSummary { redo, lsn, pages, synced })
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

    /// Keeps as many old segments for reuse as the last round of log took.
    fn recycle_wal(&self, redo: Lsn, old_redo: Lsn) -> Result<()> {
        let payload = self.wal.segments.payload();
        let most = (self.options.max_wal_bytes / payload).max(2);
        let keep = ((redo.0 - old_redo.0) / payload + 2).min(most);
        self.wal.segments.recycle(redo, keep, self.wal.insert_lsn().0)
    }

    /// Ends all work with a last checkpoint and marks the directory as cleanly shut down. Nobody may
    /// change anything from here on.
    ///
    /// # Errors
    /// As [`Storage::checkpoint`]; the next opening then recovers from the log.
    pub fn shutdown(
        &self,
        participants: &[&dyn CheckpointParticipant],
    ) -> Result<CheckpointSummary> {
        self.checkpoint(CheckpointKind::Shutdown, participants)
    }
}
