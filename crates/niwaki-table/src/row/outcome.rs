//! Outcomes of changing or locking a row.

use niwaki_heap::NewestVersion;
use niwaki_storage::Tid;

/// Outcome of an update or deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpdateOutcome {
    /// The change was made. `root` is the row's address now: the same after a heap-only update or a
    /// deletion.
    Done {
        /// Root of the chain that holds the new version.
        root: Tid,
    },
    /// READ COMMITTED: another transaction changed the row and committed. Judge the newest version
    /// again, and try again with its target.
    Changed(NewestVersion),
    /// READ COMMITTED: another transaction deleted the row and committed.
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
    Changed(NewestVersion),
    /// READ COMMITTED: another transaction deleted the row and committed.
    Gone,
    /// This command, or a later one of this transaction, changed the row already.
    SelfModified,
    /// `SKIP LOCKED`, and another transaction holds the row.
    Skipped,
}
