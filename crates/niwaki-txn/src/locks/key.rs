//! The objects of locks, and what a caller says of its wait.

use niwaki_storage::{RelFileId, Tid, Xid};

use crate::waiting::advisory::AdvisoryKey;

/// The number of a relation among all databases: its number in its own database, combined with the
/// database.
///
/// Locks, counters and lists of changes identify a table by this number. A relation's number in its
/// own database is another type, in the catalog. Only the catalog converts one into the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u64);

/// A row, as locks in memory know it: its chain root and the incarnation of that line pointer. The
/// incarnation distinguishes the rows that used the line pointer one after another
/// (rule `root-identity`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowKey {
    /// The heap's file.
    pub file: RelFileId,
    /// Root TID.
    pub root: Tid,
    /// Incarnation of the line pointer.
    pub incarnation: u64,
}

/// The objects that a session can wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockKey {
    /// A table.
    Table(TableId),
    /// A row, for the shared modes, whose locks are in memory.
    Row(RowKey),
    /// The right to be the next waiter for a row.
    Tuple {
        /// The heap's file.
        file: RelFileId,
        /// The row's version that sessions wait for.
        tid: Tid,
    },
    /// The end of a transaction or subtransaction.
    Transaction(Xid),
    /// An advisory lock, whose meaning clients agree on.
    Advisory(AdvisoryKey),
    /// The right to be the next transaction whose notifications are delivered.
    Notifications,
}

/// Reaction to a lock that is not free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum WaitPolicy {
    /// Wait for it, within `lock_timeout`.
    #[default]
    Block,
    /// Fail with [`Error::LockNotAvailable`](crate::Error::LockNotAvailable).
    NoWait,
    /// Go on without it: the call returns false.
    Skip,
}

/// One line of `pg_locks`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockInfo {
    /// The session that holds the lock or waits for it.
    pub backend: i32,
    /// The locked object.
    pub key: LockKey,
    /// PostgreSQL's name of the mode.
    pub mode: &'static str,
    /// True if held, false if waited for.
    pub granted: bool,
    /// True if held on the fast path.
    pub fast_path: bool,
}
