//! Taking, awaiting and releasing locks, and waits of transactions for each other.
//!
//! The order: the wait itself (`parking`), the fast path (`fast_path`), the search for deadlocks
//! (`deadlock`), the lock table (`acquire`), then those who ask for locks: of rows (`row`), for the
//! end of a transaction (`xid_wait`), and for a session (`session_lock`, `advisory`).

pub(crate) mod acquire;
pub(crate) mod advisory;
pub(crate) mod deadlock;
pub(crate) mod fast_path;
pub(crate) mod parking;
pub(crate) mod row;
pub(crate) mod session_lock;
pub(crate) mod xid_wait;
