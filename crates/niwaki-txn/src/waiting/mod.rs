//! Taking, awaiting and releasing locks, and waits of transactions for each other.
//!
//! The order: the wait itself (`wait`), the fast path (`fast`), the search for deadlocks
//! (`deadlock`), the lock table (`queue`), then those who ask for locks: of rows (`row`), for the
//! end of a transaction (`xid`), and for a session (`kept`, `advisory`).

pub(crate) mod advisory;
pub(crate) mod deadlock;
pub(crate) mod fast;
pub(crate) mod kept;
pub(crate) mod queue;
pub(crate) mod row;
pub(crate) mod wait;
pub(crate) mod xid;
