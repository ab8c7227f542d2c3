#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

// The wings, lowest first. A wing names only itself and the wings before it.
//
// Errors of index operations.
mod error;
// Pages, tuples and log records, byte by byte.
mod page;
// What an index asks its table about entries.
mod table;
// What an open index keeps in memory between operations.
mod memory;
// The handle, the descent, splits, builds and checks.
mod tree;
// Scans of ranges, a leaf at a time.
mod scan;
// Room on a full leaf, before it is split.
mod room;
// Insertions and the unique check.
mod insert;
// Removal of entries and of leaves.
mod cleaning;
// Fuzz targets of the decoders.
#[doc(hidden)]
#[cfg(any(test, feature = "hostile"))]
pub mod hostile;

pub use cleaning::entry_delete::VacuumSummary;
pub use cleaning::mark::Marked;
pub use error::{Error, Result};
pub use insert::outcome::EntryOutcome;
pub use memory::latch_hold::LATCH_HOLD_BUCKETS;
pub use memory::options::{IndexOptions, SplitStrategy, VersionHint};
pub use memory::stats::IndexStats;
pub use page::entry::{BatchEntry, EntryPlace, NewEntry};
pub use page::wal::NbtreeManager;
pub use scan::batch::{LeafBatch, LeafPrefix, LeafRead, LeafVersion};
pub use scan::key_range::{Direction, KeyBound, KeyRange};
pub use scan::range_scan::Scan;
pub use scan::range_source::{OneRange, Place, RangeSource, RangeStep};
pub use table::{
    DeletionCandidate, DeletionOracle, EntryDecision, EntryVisitor, HeapGlance, NextVisit,
    RemovedInterval, UniqueCheck, UniqueVerdict,
};
pub use tree::build::IndexBuilder;
pub use tree::check::CheckReport;
pub use tree::index::Index;

#[cfg(all(test, not(feature = "loom")))]
mod tests;
