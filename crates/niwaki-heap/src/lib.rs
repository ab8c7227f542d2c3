#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod access;
mod alone;
mod arrivals;
mod build;
mod chain_stats;
mod change;
mod changed;
mod check;
mod counters;
mod dead;
mod distribution;
mod error;
mod filled;
mod follow;
mod freespace;
mod header;
mod held;
#[doc(hidden)]
#[cfg(any(test, feature = "hostile"))]
pub mod hostile;
mod insert;
mod inspect;
mod judge;
mod live;
mod mixed;
mod modify;
mod observer;
mod outcome;
mod page;
mod prune;
mod read;
mod rebase;
mod records;
mod redo;
mod relation;
mod removed;
mod rows;
mod share_key;
mod tail;
mod tid_store;
mod unindexed;
mod unique;
mod vacuum;
mod visibility;

pub use access::Look;
pub use alone::Fate;
pub use arrivals::Arrived;
pub use build::Live;
pub use chain_stats::ChainStats;
pub use changed::{ChangeTold, ChangedTables};
pub use check::{ItemKind, LiveVersion};
pub use counters::{HeapCounters, HeapStats};
pub use dead::{DeadProbe, DeadVersions, Deadness};
pub use distribution::Distribution;
pub use error::{Error, Result};
pub use freespace::PAGES_PER_MAP_PAGE;
pub use header::{TUPLE_HEADER_SIZE, flags};
pub use held::{Held, SnapshotHolds};
pub use insert::InsertOptions;
pub use inspect::{LinePointer, StoredTuple};
pub use mixed::UnmixCount;
pub use niwaki_txn::RowLockMode;
pub use observer::{KeyObserver, KeysLeft};
pub use outcome::{Blocker, LiveRow, NewRow, Newest, Outcome, RowTarget, UpdateKind, VersionRow};
pub use page::{MAX_TUPLE_SIZE, SPECIAL_SIZE, mask_hints};
pub use prune::Pruned;
pub use records::RecordId;
pub use redo::HeapRedo;
pub use relation::{Heap, HeapRegistry, HeapRelation};
pub use removed::{EndedRows, RemovedVersion};
pub use rows::{PageRows, RowRef};
pub use tid_store::TidStore;
pub use unindexed::FreeingPaused;
pub use unique::UniqueProbe;
pub use vacuum::{PageVacuum, VacuumRoots};
pub use visibility::{BLOCKS_PER_VISIBILITY_PAGE, MapOptions, PageVisibility};

#[cfg(test)]
mod format_tests;
#[cfg(all(test, not(feature = "loom")))]
mod tests;
