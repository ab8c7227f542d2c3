//! The ends of transactions, durable first and visible after; checkpoints, recovery and closing.
//!
//! The order: commits and rollbacks (`commit`), states on status pages and in the log
//! (`checkpoint`), the end of the last transaction (`closing`).

pub(crate) mod checkpoint;
pub(crate) mod closing;
pub(crate) mod commit;
