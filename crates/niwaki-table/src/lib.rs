#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod back_pressure;
mod bitmap_scan;
mod build;
mod check;
mod clean;
mod conflict;
mod covered;
mod dead_entries;
mod deferred;
mod definition;
mod engine;
mod entries;
mod error;
mod expression;
mod fetch;
mod fill;
mod gardener;
mod index_scan;
mod insert;
mod inspect;
mod keys;
mod maintained;
mod mark;
mod observer;
mod outcome;
mod over;
mod progress;
mod recheck;
mod records;
mod rounds;
mod row_key;
mod seq_scan;
mod sequence;
mod sort;
mod stale;
mod stats;
mod suspects;
mod table;
mod temp;
mod tid_bitmap;
mod unique;
mod update;
mod update_stats;
mod values;
mod workspace;

pub use bitmap_scan::{BitmapEffort, BitmapScan, BitmapSource};
pub use build::BuildOptions;
pub use check::TableReport;
pub use conflict::Upsert;
pub use deferred::DeferredKey;
pub use definition::{
    HeapOnlyUpdates, IndexDefinition, KeyColumn, TableDefinition, UniqueCheckTime,
};
pub use engine::Engine;
pub use error::{Error, Result, UniqueViolation};
pub use expression::{ExpressionError, KeyExpression, KeySource};
pub use fetch::Lookup;
pub use index_scan::IndexScan;
pub use keys::{ColumnKeys, ScanKeys};
pub use maintained::{MaintenanceStats, Visits};
pub use niwaki_heap::{
    ChainStats, Distribution, HeapStats, Held, InsertOptions, LinePointer, MapOptions, PageRows,
    PageVisibility, RowRef, RowTarget, SnapshotHolds, StoredTuple, VacuumRoots, flags,
};
pub use niwaki_nbtree::Direction;
pub use niwaki_txn::RowLockMode;
pub use outcome::{ChangedRow, LockOutcome, LockWait, Modify};
pub use progress::{BuildProgress, BuildState, Phase};
pub use records::{KeyedRow, KeyedRows, Layout, Run, RunReader, RunWriter};
pub use rounds::{Round, Rounds};
pub use seq_scan::SeqScan;
pub use sequence::{Sequence, SequenceOptions};
pub use sort::{SortSpace, Sorted, Sorter};
pub use stale::{StaleEntries, StaleScan};
pub use stats::TableStats;
pub use table::Table;
pub use temp::{TempCounts, TempFile, TempFiles, TempQuota, TempSpace};
pub use update_stats::UpdateStats;
pub use values::can_have_large_values;
pub use workspace::Workspace;
