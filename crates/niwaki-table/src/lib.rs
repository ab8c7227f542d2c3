#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod build;
mod check;
mod definition;
mod engine;
mod error;
mod fetch;
mod index_scan;
mod insert;
mod keys;
mod outcome;
mod seq_scan;
mod sequence;
mod stats;
mod table;
mod unique;
mod update;
mod workspace;

pub use check::TableReport;
pub use definition::{IndexDefinition, KeyColumn, TableDefinition};
pub use engine::Engine;
pub use error::{Error, Result, UniqueViolation};
pub use fetch::Lookup;
pub use index_scan::IndexScan;
pub use keys::{ColumnKeys, ScanKeys};
pub use niwaki_heap::{InsertOptions, PageRows, RowRef, RowTarget};
pub use niwaki_nbtree::Direction;
pub use niwaki_txn::RowLockMode;
pub use outcome::{ChangedRow, LockOutcome, LockWait, Modify};
pub use seq_scan::SeqScan;
pub use sequence::{Sequence, SequenceOptions};
pub use stats::TableStats;
pub use table::Table;
pub use workspace::Workspace;
