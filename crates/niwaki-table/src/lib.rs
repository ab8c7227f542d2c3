#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

// The wings, lowest first. A wing names only itself and the wings before it in this list.

mod error;

// Sorts of more rows than memory holds, with their temporary files.
mod sorting;

// Open tables, indexes and sequences, with the memory that belongs to them.
mod relation;

// Large values: compressed, or in pieces in a heap of their own.
mod values;

// Index entries: whether the versions that an entry leads to have its key.
mod entry;

// Reads of rows.
mod scan;

// Removal of what dead versions leave behind. Changes of rows call it at their end.
mod cleaning;

// Changes of rows.
mod row;

// Index builds and checks: work on whole tables.
mod build;

pub use build::check::TableReport;
pub use build::index_build::BuildOptions;
pub use build::progress::{BuildProgress, BuildState, Phase};
pub use build::stale_entries::{StaleEntries, StaleScan};
pub use cleaning::maintenance_stats::MaintenanceStats;
pub use cleaning::rounds::{Round, Rounds};
pub use error::{Error, ExpressionError, Result, UniqueViolation};
pub use niwaki_heap::{
    ChainStats, Distribution, HeapStats, InsertOptions, LinePointer, MapOptions, NewestVersion,
    PageRows, PageVisibility, Retained, RowRef, RowTarget, SnapshotRetention, StoredTuple,
    VacuumRoots, flags,
};
pub use niwaki_nbtree::Direction;
pub use relation::baseline::Visits;
pub use relation::definition::{
    HeapOnlyUpdates, IndexDefinition, KeyColumn, TableDefinition, UniqueCheckTime,
};
pub use relation::engine::Engine;
pub use relation::expression::{KeyExpression, KeySource};
pub use relation::sequence::{Sequence, SequenceOptions};
pub use relation::stats::TableStats;
pub use relation::table::Table;
pub use relation::update_stats::UpdateStats;
pub use row::conflict::Upsert;
pub use row::deferred::DeferredKey;
pub use row::outcome::{LockOutcome, UpdateOutcome};
pub use row::workspace::Workspace;
pub use scan::bitmap_scan::{BitmapEffort, BitmapScan, BitmapSource};
pub use scan::fetch::Lookup;
pub use scan::index_scan::IndexScan;
pub use scan::scan_keys::{ColumnKeys, ScanKeys};
pub use scan::seq_scan::SeqScan;
pub use sorting::runs::{KeyedRow, KeyedRows, RecordFormat, Run, RunReader, RunWriter};
pub use sorting::sort::{SortSpace, Sorted, Sorter};
pub use sorting::temp_files::{TempCounts, TempFile, TempFiles, TempQuota, TempSpace};
pub use values::placement::can_have_large_values;
