#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod definition;
mod error;
mod outcome;
mod stats;

pub use definition::{IndexDefinition, KeyColumn, TableDefinition};
pub use error::{Error, Result, UniqueViolation};
pub use niwaki_heap::{PageRows, RowLockMode, RowRef, RowTarget};
pub use outcome::{ChangedRow, LockOutcome, LockWait, Modify};
pub use stats::TableStats;
