//! Locks that belong to transactions, and every way one transaction waits for another.

mod advisory;
mod deadlock;
mod entry;
mod fast;
mod held;
mod info;
mod kept;
mod mode;
mod page;
mod partition;
mod queue;
mod row;
mod row_set;
mod wait;
mod xid;

use niwaki_storage::{RelFileId, Tid, Xid};

pub use advisory::{AdvisoryKey, AdvisoryLocks};
pub(crate) use held::{FastSlots, HeldLocks, LockMark};
pub use kept::KeptLock;
pub use mode::{RowLockMode, TableLockMode};
pub use queue::LockManager;
pub use row::TupleGuard;
pub(crate) use wait::WaitInfo;

/// The number of a relation among those of all databases: its own number, with its database in it.
///
/// Locks, counters and lists of changes know a table by it. A relation's number in its own database is
/// another type, in the catalog, which alone turns one into the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u64);

/// A row, as locks in memory know it: its root line pointer, and which row of those that ever had
/// this line pointer (rule 9b.15).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowKey {
    /// The heap's file.
    pub file: RelFileId,
    /// Root TID.
    pub root: Tid,
    /// Incarnation of the line pointer.
    pub incarnation: u64,
}

/// What can be waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockKey {
    /// A table.
    Table(TableId),
    /// A row, for the shared modes, which live in memory.
    Row(RowKey),
    /// The right to be the next who waits for a row.
    Tuple {
        /// The heap's file.
        file: RelFileId,
        /// The row's version that is waited for.
        tid: Tid,
    },
    /// The end of a transaction or subtransaction.
    Transaction(Xid),
    /// What clients agree on.
    Advisory(AdvisoryKey),
    /// The right to be the next whose notifications are delivered.
    Notifications,
}

/// What to do when a lock is not free.
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
    /// Whose.
    pub backend: i32,
    /// On what.
    pub key: LockKey,
    /// PostgreSQL's name of the mode.
    pub mode: &'static str,
    /// Held, or waited for.
    pub granted: bool,
    /// Held on the fast path.
    pub fast_path: bool,
}
