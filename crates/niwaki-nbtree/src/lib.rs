#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod batch;
mod bits;
mod bottom_up;
mod build;
mod by_block;
mod change;
mod check;
mod credit;
mod dedup;
mod delete;
mod descend;
mod empty_leaf;
mod error;
mod held_back;
#[doc(hidden)]
#[cfg(any(test, feature = "hostile"))]
pub mod hostile;
mod index;
mod insert;
mod latch_hold;
mod leaf;
mod make_room;
mod mark;
mod merge;
mod options;
mod pack;
mod page;
mod page_delete;
mod passed;
mod range;
mod ranges;
mod recycle;
mod removal;
mod room;
mod scan;
mod search;
mod separator;
mod shift;
mod simple_delete;
mod split;
mod split_point;
mod stats;
mod table;
mod tuple;
mod unique_check;
mod visits;
mod wal;

pub use batch::{BatchEntry, EntryPlace, LeafBatch, LeafPrefix, LeafRead, LeafVersion};
pub use build::IndexBuilder;
pub use check::CheckReport;
pub use delete::VacuumSummary;
pub use error::{Error, Result};
pub use index::Index;
pub use insert::{InsertOutcome, NewEntry};
pub use latch_hold::LATCH_HOLD_BUCKETS;
pub use mark::Marked;
pub use options::{IndexOptions, SplitStrategy, VersionHint};
pub use range::{Direction, KeyBound, KeyRange};
pub use ranges::{KeyRanges, OneRange, Place, RangeStep};
pub use scan::Scan;
pub use stats::IndexStats;
pub use table::{
    DeletionCandidate, DeletionOracle, EntryDecision, EntryVisitor, HeapGlance, NextVisit,
    RemovedInterval, UniqueCheck, UniqueVerdict,
};
pub use wal::NbtreeManager;

#[cfg(all(test, not(feature = "loom")))]
mod tests;
