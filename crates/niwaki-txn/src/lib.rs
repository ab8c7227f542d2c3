#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

// The wings, lowest first. A wing names only itself and the wings before it.
//
// Errors of transactions, snapshots and locks.
mod error;
// Options of the manager.
mod options;
// States of transactions, in memory, in a file and on pages.
mod xact;
// Snapshots, and the versions that must stay for them.
mod visibility;
// Objects, modes and sets of locks, without their holders.
mod locks;
// The handles, which own each other: manager, sessions, lock table. Transactions.
mod handle;
// Taking, awaiting and releasing locks.
mod waiting;
// Commits, checkpoints, recovery, closing.
mod durability;
// Sessions, snapshots and locks, as monitoring shows them.
mod monitoring;
// Fuzz targets of the decoders.
#[doc(hidden)]
#[cfg(any(test, feature = "hostile"))]
pub mod hostile;

pub use error::{Error, Interrupted, Result};
pub use handle::lock_table::LockManager;
pub use handle::manager::{TransactionManager, XidStatus};
pub use handle::session::{SessionControl, SessionInfo, Sleep};
pub use handle::transaction::{BeginOptions, Isolation, Readers, Transaction};
pub use handle::view::View;
pub use locks::key::{AdvisoryKey, LockInfo, LockKey, RowKey, TableId, WaitPolicy};
pub use locks::mode::{RowLockMode, TableLockMode};
pub use monitoring::registered_snapshots::{RegisteredSnapshot, RegisteredSnapshots};
pub use options::TxnOptions;
pub use visibility::command::{CommandId, TupleCid};
pub use visibility::snapshot::{Horizon, Snapshot};
pub use waiting::advisory::AdvisoryLocks;
pub use waiting::row::TupleGuard;
pub use waiting::session_lock::SessionLock;
pub use xact::transaction_log::{Durability, TransactionLog};

#[cfg(all(test, feature = "loom"))]
mod model;
