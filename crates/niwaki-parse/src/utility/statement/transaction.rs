//! Commands of transactions and of settings.

/// Options of BEGIN and SET TRANSACTION.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransactionModes {
    /// `Some(true)`: REPEATABLE READ; `Some(false)`: READ COMMITTED.
    pub repeatable_read: Option<bool>,
    /// READ ONLY or READ WRITE.
    pub read_only: Option<bool>,
    /// DEFERRABLE or NOT DEFERRABLE. The mode is only stored: no transaction is serializable.
    pub deferrable: Option<bool>,
}

/// A transaction command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionCommand {
    /// BEGIN, or START TRANSACTION when `start`.
    Begin {
        /// Modes.
        modes: TransactionModes,
        /// True for START TRANSACTION.
        start: bool,
    },
    /// COMMIT, END
    Commit {
        /// AND CHAIN
        chain: bool,
    },
    /// ROLLBACK, ABORT
    Rollback {
        /// AND CHAIN
        chain: bool,
    },
    /// SAVEPOINT
    Savepoint(String),
    /// RELEASE
    Release(String),
    /// ROLLBACK TO
    RollbackTo(String),
}

/// SET and RESET.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetCommand {
    /// SET name = value
    Value {
        /// Setting.
        name: String,
        /// Text of the value; lists are joined with `, `.
        value: String,
        /// SET LOCAL
        local: bool,
    },
    /// SET name TO DEFAULT, RESET name
    Default {
        /// Setting.
        name: String,
        /// SET LOCAL
        local: bool,
        /// True for RESET, false for SET.
        reset: bool,
    },
    /// RESET ALL
    ResetAll,
    /// SET TRANSACTION, or SET SESSION CHARACTERISTICS AS TRANSACTION when `session`.
    Transaction {
        /// Modes.
        modes: TransactionModes,
        /// True if the modes apply to the following transactions, not to this one.
        session: bool,
    },
}
