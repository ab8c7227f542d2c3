#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

// The wings, lowest first. A wing names only itself and the wings before it.
//
// Errors of heap operations.
mod error;
// Pages, tuples and log records, byte by byte.
mod format;
// What an open heap keeps in memory between operations.
mod memory;
// The handle, which joins a heap's files and its memory.
mod relation;
// The free space map and the visibility map.
mod maps;
// Removal of versions, and the clean-up that follows.
mod pruning;
// Reading and changing rows.
mod row;
// Checks and statistics.
mod diagnostics;
// Fuzz targets of the decoders.
#[doc(hidden)]
#[cfg(any(test, feature = "hostile"))]
pub mod hostile;

pub use diagnostics::by_snapshot::SnapshotRetention;
pub use diagnostics::chain_stats::ChainStats;
pub use diagnostics::check::{ItemKind, LiveVersion};
pub use diagnostics::distribution::Distribution;
pub use diagnostics::inspect::{LinePointer, StoredTuple};
pub use error::{Error, Result};
pub use format::header::{TUPLE_HEADER_SIZE, flags};
pub use format::map_page::{BLOCKS_PER_VISIBILITY_PAGE, PageVisibility};
pub use format::page::{MAX_TUPLE_SIZE, SPECIAL_SIZE, mask_hints};
pub use format::redo::HeapRedo;
pub use format::rows::{PageRows, RowRef, VersionRow};
pub use maps::room::PAGES_PER_MAP_PAGE;
pub use memory::bits::MapOptions;
pub use memory::changed_tables::{ChangeFlag, ChangedTables};
pub use memory::counters::{HeapCounters, HeapStats, Pruned};
pub use memory::observer::{KeyObserver, KeysLeft};
pub use memory::record_id::RecordId;
pub use memory::removed::{EndedRows, RemovedVersion};
pub use memory::retained::Retained;
pub use memory::root_changes::RootChangeCount;
pub use memory::unmix_counter::UnmixCount;
pub use niwaki_txn::RowLockMode;
pub use pruning::access::PageVisit;
pub use pruning::freeing::FreeingPaused;
pub use pruning::tid_store::TidStore;
pub use pruning::vacuum::{PageVacuum, VacuumRoots};
pub use relation::{Heap, HeapRegistry, HeapRelation};
pub use row::build_scan::Live;
pub use row::dead::{DeadProbe, DeadVersions, Deadness};
pub use row::insert::InsertOptions;
pub use row::outcome::{
    Blocker, HeapOutcome, LiveRow, NewRow, NewestVersion, RowTarget, UpdateKind,
};
pub use row::pieces::PieceFate;
pub use row::unique::UniqueProbe;

#[cfg(test)]
mod format_tests;
#[cfg(all(test, not(feature = "loom")))]
mod tests;
