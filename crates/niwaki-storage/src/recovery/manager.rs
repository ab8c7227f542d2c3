//! The interface to the layers above: they redo their own records.

use super::analysis::LogAnalysis;
use super::redo::Redo;
use crate::directory::storage::Storage;
use crate::error::Result;
use crate::wal::record::{DecodedRecord, Manager};

/// The functions of one layer that recovery calls for the records of that layer.
pub trait ResourceManager: Send + Sync {
    /// Returns the owner of the records that this manager understands.
    fn manager(&self) -> Manager;

    /// Reports the fate of files, and of the transactions that create them, to `analysis`.
    /// Recovery calls this for records that name no page, in the order of the log, before it redoes
    /// anything.
    ///
    /// # Errors
    /// [`crate::Error::Corruption`] when the record cannot be understood; recovery stops.
    fn analyze(&self, record: &DecodedRecord<'_>, analysis: &mut LogAnalysis) -> Result<()> {
        let _ = (record, analysis);
        Ok(())
    }

    /// Repeats the record's change on pages that do not have it yet.
    ///
    /// # Errors
    /// [`crate::Error::Corruption`] when the record or a page cannot be understood; recovery stops.
    fn redo(&self, record: &DecodedRecord<'_>, redo: &Redo<'_>) -> Result<()>;

    /// Finishes recovery; called once, when all records are replayed and the log can be written
    /// again.
    ///
    /// Unless the directory was shut down cleanly, a checkpoint follows. Records that are logged
    /// here are then behind its redo position, as in
    /// [`crate::CheckpointParticipant::checkpoint`]. `clean` means that the directory was shut down
    /// cleanly, and that no record follows the checkpoint of that shutdown.
    ///
    /// # Errors
    /// Every error that keeps the database from being opened.
    fn finish_recovery(&self, storage: &Storage, clean: bool) -> Result<()> {
        let _ = (storage, clean);
        Ok(())
    }

    /// Describes the record in words, for readers of the log.
    fn describe(&self, record: &DecodedRecord<'_>) -> String {
        format!("{:?} kind {}", record.manager, record.kind)
    }
}
