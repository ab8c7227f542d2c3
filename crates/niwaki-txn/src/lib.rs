#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod closing;
mod command;
mod commit;
mod error;
mod holders;
#[doc(hidden)]
#[cfg(any(test, feature = "hostile"))]
pub mod hostile;
pub mod locks;
mod manager;
#[cfg(all(test, feature = "loom"))]
mod model;
mod options;
mod record;
mod registry;
mod session;
mod snapshot;
mod transaction;
mod turns;
mod view;
mod xact;

pub use command::{CommandId, TupleCid};
pub use commit::{CommitLog, Durability};
pub use error::{Error, Interrupted, Result};
pub use holders::{Holders, RegisteredSnapshot};
pub use locks::{
    AdvisoryKey, AdvisoryLocks, KeptLock, LockInfo, LockKey, LockManager, RowKey, RowLockMode,
    TableId, TableLockMode, TupleGuard, WaitPolicy,
};
pub use manager::{TransactionManager, XidStatus};
pub use options::TxnOptions;
pub use session::{SessionControl, SessionInfo, Sleep};
pub use snapshot::{Horizon, Snapshot};
pub use transaction::{BeginOptions, Isolation, Readers, Transaction};
pub use view::View;
