//! The objects of locks, and what a caller says of its wait.

use niwaki_storage::{BlockNumber, OffsetNumber, RelFileId, Tid, Xid};

use crate::error::{Error, Result};

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

// A million of them may be kept.
const _: () = assert!(size_of::<RowKey>() == 24, "the key of a row has more than it names");

/// The rows of one page: the parts of [`RowKey`] that all of them share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PageKey {
    file: RelFileId,
    block: BlockNumber,
    incarnation: u64,
}

impl PageKey {
    pub(crate) fn of(row: &RowKey) -> Self {
        Self { file: row.file, block: row.root.block, incarnation: row.incarnation }
    }

    /// Returns the row with this line pointer.
    pub(crate) fn row(&self, offset: OffsetNumber) -> RowKey {
        let root = Tid { block: self.block, offset };
        RowKey { file: self.file, root, incarnation: self.incarnation }
    }
}

/// The object of an advisory lock: one number of 64 bits, or two of 32, which are never the same.
/// Each database has numbers of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AdvisoryKey {
    /// Number of the database.
    pub database: u32,
    /// The upper half, or the first number (`pg_locks.classid`).
    pub class: u32,
    /// The lower half, or the second number (`pg_locks.objid`).
    pub object: u32,
    /// 1 for one number, 2 for two (`pg_locks.objsubid`).
    pub parts: u16,
}

impl AdvisoryKey {
    /// Returns the key of one number in a database.
    pub fn one(database: u32, number: i64) -> Self {
        let bits = number.cast_unsigned();
        // The halves of 64 bits have 32 each.
        let half = |bits: u64| u32::try_from(bits & u64::from(u32::MAX)).unwrap_or(0);
        let (class, object) = (half(bits >> 32), half(bits));
        debug_assert_eq!(
            u64::from(class) << 32 | u64::from(object),
            bits,
            "two numbers would share a lock"
        );
        Self { database, class, object, parts: 1 }
    }

    /// Returns the key of two numbers in a database.
    pub fn two(database: u32, first: i32, second: i32) -> Self {
        let (class, object) = (first.cast_unsigned(), second.cast_unsigned());
        Self { database, class, object, parts: 2 }
    }
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
    /// `NOWAIT`: fail with [`Error::LockNotAvailable`](crate::Error::LockNotAvailable).
    NoWait,
    /// `SKIP LOCKED`: go on without it. The call returns false.
    Skip,
}

impl WaitPolicy {
    /// Returns whether to wait for this lock, which is not free.
    pub(crate) fn waits(self, key: &LockKey) -> Result<bool> {
        match self {
            Self::Block => Ok(true),
            Self::NoWait => Err(Error::LockNotAvailable { what: describe(key) }),
            Self::Skip => Ok(false),
        }
    }
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

pub(crate) fn describe(key: &LockKey) -> String {
    match key {
        LockKey::Table(table) => format!("relation {}", table.0),
        LockKey::Row(row) => format!("row {} of file {}", row.root, row.file),
        LockKey::Tuple { file, tid } => format!("tuple {tid} of file {file}"),
        LockKey::Transaction(xid) => format!("transaction {xid}"),
        LockKey::Advisory(key) => {
            let AdvisoryKey { database, class, object, parts } = key;
            format!("advisory lock [{database},{class},{object},{parts}]")
        }
        LockKey::Notifications => "the queue of notifications".to_owned(),
    }
}
