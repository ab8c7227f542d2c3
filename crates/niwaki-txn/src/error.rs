//! Errors of this crate: one variant for each reaction that a caller can have.

/// Reason for the interruption of a session's wait or work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupted {
    /// A cancel request came (57014).
    Cancel,
    /// The session must end (57P01).
    Terminate,
    /// `statement_timeout` is over (57014).
    StatementTimeout,
    /// `lock_timeout` is over (55P03).
    LockTimeout,
}

/// Errors of transactions, snapshots and locks.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// This session was chosen to break a cycle of waits (40P01). `detail` names the waits.
    #[error("deadlock detected")]
    Deadlock {
        /// One line per wait of the cycle.
        detail: String,
    },
    /// `lock_timeout` is over (55P03).
    #[error("canceling statement due to lock timeout")]
    LockTimeout,
    /// `statement_timeout` is over (57014).
    #[error("canceling statement due to statement timeout")]
    StatementTimeout,
    /// A cancel request came (57014).
    #[error("canceling statement due to user request")]
    Cancelled,
    /// The session must end (57P01).
    #[error("terminating connection due to administrator command")]
    Terminated,
    /// NOWAIT, and another transaction holds the lock (55P03). `what` names the locked object: the
    /// caller, which knows the name, fills in `relation "t"`.
    #[error("could not obtain lock on {what}")]
    LockNotAvailable {
        /// The object of the lock.
        what: String,
    },
    /// REPEATABLE READ met a row that another transaction changed after its snapshot (40001).
    #[error("could not serialize access due to concurrent {cause}")]
    SerializationFailure {
        /// `update` or `delete`.
        cause: &'static str,
    },
    /// SERIALIZABLE is not supported yet (0A000).
    #[error("isolation level SERIALIZABLE is not supported")]
    SerializableUnsupported,
    /// A READ ONLY transaction tried to write (25006).
    #[error("cannot write in a read-only transaction")]
    ReadOnly,
    /// `ROLLBACK TO` or `RELEASE` of a savepoint that does not exist (3B001).
    #[error("savepoint \"{0}\" does not exist")]
    NoSuchSavepoint(String),
    /// More than 2^32 − 2 commands in one transaction (54000).
    #[error("cannot have more than 2^32-2 commands in a transaction")]
    TooManyCommands,
    /// The transaction cannot keep more row locks in memory (53200).
    #[error("out of shared memory: too many row locks")]
    TooManyRowLocks {
        /// The limit, which all transactions share.
        most: usize,
    },
    /// No memory is left for snapshots, sessions or transaction states (53200). `what` names the
    /// limit.
    #[error("out of shared memory: {what}")]
    OutOfMemory {
        /// The limit that was reached.
        what: &'static str,
    },
    /// The database closes and accepts no session any more (57P03).
    #[error("the database system is shutting down")]
    ShuttingDown,
    /// The caller tried to close the database while transactions were open (55006).
    #[error("cannot close the database: {sessions} of its sessions have an open transaction")]
    StillInUse {
        /// Sessions with an open transaction.
        sessions: usize,
    },
    /// More sessions than [`TxnOptions::sessions_max`](crate::TxnOptions) (53300).
    #[error("sorry, too many clients already")]
    TooManySessions,
    /// The layer below failed.
    #[error(transparent)]
    Storage(#[from] niwaki_storage::Error),
}

/// Result of operations of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl From<Interrupted> for Error {
    fn from(interrupted: Interrupted) -> Self {
        match interrupted {
            Interrupted::Cancel => Self::Cancelled,
            Interrupted::Terminate => Self::Terminated,
            Interrupted::StatementTimeout => Self::StatementTimeout,
            Interrupted::LockTimeout => Self::LockTimeout,
        }
    }
}
