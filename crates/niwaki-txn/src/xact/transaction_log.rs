//! The log, as transactions use it.

use std::sync::Arc;

use niwaki_env::seeded_bug;
use niwaki_storage::{Csn, Lsn, Manager, Record, RelFile, Storage, Xid};

use crate::error::Result;

/// Moment at which a commit may be reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Report after the commit record is flushed (`synchronous_commit = on`).
    Flush,
    /// Report once the record is in the log's buffer (`synchronous_commit = off`). A crash may lose
    /// the commit, but no later record survives without it.
    Async,
}

/// Operations of the log that transactions use.
pub trait TransactionLog: Send + Sync {
    /// Appends a record of the transaction manager and returns its LSN. The records are in the
    /// order of the calls if the caller serializes the calls.
    ///
    /// # Errors
    /// When the log cannot take the record; nothing was written.
    fn append(&self, kind: u8, xid: Xid, body: &[u8]) -> Result<Lsn>;
    /// Returns when everything up to `upto` is durable. A failure ends the process.
    ///
    /// # Errors
    /// When the log writes nothing any more: a record that is not durable now will not become
    /// durable.
    fn flush(&self, upto: Lsn) -> Result<()>;
    /// Returns the position up to which the log is durable.
    fn flushed(&self) -> Lsn;
    /// Removes the files of a relation that a finished transaction dropped, or created in vain.
    fn drop_file(&self, file: RelFile);
    /// Calls `commit`, whose record names `files` for removal, and then removes the files. Recovery
    /// repeats both or finds both done: no checkpoint comes in between.
    ///
    /// # Errors
    /// The errors of `commit`; nothing is removed then.
    fn commit_and_drop(
        &self,
        files: &[RelFile],
        commit: &mut dyn FnMut() -> Result<Csn>,
    ) -> Result<Csn> {
        let csn = commit()?;
        files.iter().for_each(|&file| self.drop_file(file));
        Ok(csn)
    }
}

/// The log of a [`Storage`].
pub(crate) struct StorageLog(pub(crate) Arc<Storage>);

impl TransactionLog for StorageLog {
    fn append(&self, kind: u8, xid: Xid, body: &[u8]) -> Result<Lsn> {
        Ok(self.0.log(Record {
            manager: Manager::Transaction,
            kind,
            version: 1,
            xid,
            body: &[body],
            pages: &mut [],
            removes: None,
        })?)
    }

    fn flush(&self, upto: Lsn) -> Result<()> {
        Ok(self.0.wal().flush(upto)?)
    }

    fn flushed(&self) -> Lsn {
        self.0.wal().flushed()
    }

    fn drop_file(&self, file: RelFile) {
        // A file that could not be removed is an orphan, which the next opening finds. The
        // transaction has ended either way.
        let _ = self.0.drop_file(file);
    }

    fn commit_and_drop(
        &self,
        files: &[RelFile],
        commit: &mut dyn FnMut() -> Result<Csn>,
    ) -> Result<Csn> {
        if files.is_empty() || seeded_bug!("drop_beside_checkpoint") {
            let csn = commit()?;
            files.iter().for_each(|file| self.drop_file(*file));
            return Ok(csn);
        }
        let changes = self.0.change_files();
        let csn = commit()?;
        for file in files {
            // An error is ignored as in `drop_file`.
            let _ = changes.drop_file(*file);
        }
        Ok(csn)
    }
}
