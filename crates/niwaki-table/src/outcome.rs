//! What became of a row that a statement wanted to change or lock.

use niwaki_heap::{RowTarget, VersionRow};
use niwaki_storage::Tid;

/// What to do when a row is locked by another transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LockWait {
    /// Wait for it.
    #[default]
    Block,
    /// `SKIP LOCKED`: leave the row out.
    Skip,
    /// `NOWAIT`: fail with [`crate::Error::RowNotAvailable`].
    Error,
}

/// The newest version of a row that another transaction changed after the statement's snapshot. It
/// is locked for this transaction, strongly enough for what was asked, so it stays the newest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedRow {
    /// Pass this to the next attempt if the row still qualifies.
    pub target: RowTarget,
    /// Its contents.
    pub row: VersionRow,
}

/// Outcome of an update or deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Modify {
    /// Done. `root` is the row's address now: the same after a heap-only update or a deletion.
    Done {
        /// Root of the chain that holds the new version.
        root: Tid,
    },
    /// READ COMMITTED: another transaction changed the row and committed. Judge the newest version
    /// again, and try again with its target.
    Changed(ChangedRow),
    /// READ COMMITTED: another transaction deleted it and committed.
    Gone,
    /// This command, or a later one of this transaction, changed the row already.
    SelfModified,
}

/// Outcome of locking a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockOutcome {
    /// The version that the statement saw is the newest, and is locked.
    Locked,
    /// READ COMMITTED: another transaction changed the row and committed; its newest version is
    /// locked. Judge it again.
    Changed(ChangedRow),
    /// READ COMMITTED: another transaction deleted it and committed.
    Gone,
    /// This command, or a later one of this transaction, changed the row already.
    SelfModified,
    /// `SKIP LOCKED`, and somebody else holds it.
    Skipped,
}
