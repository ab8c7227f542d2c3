//! State of a transaction block.

use crate::session::state::deferred::DeferredMark;

/// State of a session's transaction block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Block {
    /// No transaction.
    Idle,
    /// A transaction that ends with the message or query that began it.
    Implicit,
    /// After BEGIN.
    Explicit,
    /// A statement failed after BEGIN: every statement except the end of the block is refused.
    Failed,
}

/// The session's part of a savepoint. The transaction keeps a part of its own.
#[derive(Debug)]
pub(crate) struct Level {
    pub(crate) name: String,
    pub(crate) catalog: usize,
    pub(crate) settings: usize,
    pub(crate) created: usize,
    pub(crate) freeing: usize,
    pub(crate) pending: (usize, usize),
    /// Access mode of the transaction at SAVEPOINT. It is restored when the savepoint is released
    /// or rolled back to.
    pub(crate) read_only: bool,
    pub(crate) deferred: DeferredMark,
}

/// Statements that ran in the open transaction, as far as later statements are refused because of
/// them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ran {
    /// Set by a query, or by a utility statement that takes a snapshot: the isolation level is
    /// settled.
    pub(crate) query: bool,
    /// Set by an Execute message: a statement that follows in the pipeline is not alone in its
    /// transaction.
    pub(crate) message: bool,
}
