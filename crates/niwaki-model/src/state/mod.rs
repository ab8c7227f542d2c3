//! The state that actors share.
//!
//! - `transactions`: states of transactions, slots of snapshots, and the view of a collector.
//! - `heap`: pages, line pointers and versions.
//! - `index`: indexes, leaves and entries.
//! - `row_locks`: row locks in memory.
//! - `settling`: counts of removed versions.
//! - `share`: slots that several actors use.
//! - `oracle`: the rows that must be seen.
//! - `log`: the log, and the pages on disk.
//! - `violation`: broken invariants.
//! - `world`: all of these, and the record of a run.

pub(crate) mod heap;
pub(crate) mod index;
pub(crate) mod log;
pub(crate) mod oracle;
pub(crate) mod row_locks;
pub(crate) mod settling;
pub(crate) mod share;
pub(crate) mod transactions;
pub(crate) mod violation;
pub(crate) mod world;
