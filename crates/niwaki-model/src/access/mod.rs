//! Access to the shared state, under latches.
//!
//! - `chains`: line pointers, chains, and the versions that a reader sees.
//! - `leaves`: changes of leaves, and their latches.
//! - `snapshots`: snapshots, the view of a collector, and waits for transactions.
//! - `early_release`: commits that are marked when logged, and published when durable.
//! - `transaction`: the state of a transaction in its session.
//! - `locks`: row locks.
//! - `durable`: the log and the disk, with crashes and recovery.

pub(crate) mod chains;
pub(crate) mod durable;
pub(crate) mod early_release;
pub(crate) mod leaves;
pub(crate) mod locks;
pub(crate) mod snapshots;
pub(crate) mod transaction;
