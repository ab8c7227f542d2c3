//! Tests of the index as a whole, on files in memory.

mod concurrent;
mod concurrent_merges;
mod concurrent_packing;
mod concurrent_shifts;
mod format;
mod test_table;
// Locks of the deterministic scheduler work inside its runs only.
#[cfg(not(feature = "shuttle"))]
mod bottom_up;
#[cfg(not(feature = "shuttle"))]
mod churn;
#[cfg(not(feature = "shuttle"))]
mod damage;
#[cfg(not(feature = "shuttle"))]
mod dead_leaves;
#[cfg(not(feature = "shuttle"))]
mod leaf_pages_per_lookup;
#[cfg(not(feature = "shuttle"))]
mod merges;
#[cfg(not(feature = "shuttle"))]
mod model;
#[cfg(not(feature = "shuttle"))]
mod packing;
#[cfg(not(feature = "shuttle"))]
mod page_deletion;
#[cfg(not(feature = "shuttle"))]
mod posting;
#[cfg(not(feature = "shuttle"))]
mod replay;
#[cfg(not(feature = "shuttle"))]
mod shifts;
#[cfg(not(feature = "shuttle"))]
mod table_calls;
#[cfg(not(feature = "shuttle"))]
mod visitors;

use std::sync::Arc;

use niwaki_env::Env;
use niwaki_storage::{BlockNumber, RelFile, Storage, StorageOptions, Tid, Xid};

use crate::page::layout::IndexPage;
use crate::page::tuple::{PivotTuple, sort_key};
use crate::{EntryOutcome, Index, IndexOptions, NbtreeManager, NewEntry};

/// Returns a database in memory with room for `frames` pages.
pub(crate) fn storage(frames: usize) -> Arc<Storage> {
    // Where every schedule has a database of its own, clearing the log's files would take most of
    // the time.
    let defaults = StorageOptions::default();
    let (wal_segment_bytes, wal_buffers) = if cfg!(feature = "shuttle") {
        (256 << 10, 128 << 10)
    } else {
        (defaults.wal_segment_bytes, defaults.wal_buffers)
    };
    let options =
        StorageOptions { shared_buffers: frames, wal_segment_bytes, wal_buffers, ..defaults };
    Storage::open(Env::memory(), options, vec![Arc::new(NbtreeManager)]).unwrap().0
}

/// Returns an index in a file of its own.
pub(crate) fn index_in(storage: &Arc<Storage>, options: IndexOptions) -> Index {
    let file = RelFile { id: storage.allocate_file(), logged: true };
    storage.create_file(file, Xid::FIRST_NORMAL).unwrap();
    Index::new(Arc::clone(storage), file, "test_index", options)
}

/// Returns an index in a database of its own.
#[cfg(not(feature = "shuttle"))]
pub(crate) fn index(options: IndexOptions) -> Index {
    index_in(&storage(2000), options)
}

pub(crate) fn entry(key: &[u8], tid: Tid) -> NewEntry<'_> {
    NewEntry { key, payload: b"", tid, xid: Xid::FIRST_NORMAL, logically_unchanged: false }
}

pub(crate) fn insert(index: &Index, key: &[u8], tid: Tid) -> EntryOutcome {
    index.insert(&entry(key, tid), None, None).unwrap()
}

/// Returns all entries in order; fails with the findings of `check`.
pub(crate) fn checked(index: &Index) -> Vec<(Vec<u8>, Tid)> {
    let mut entries = Vec::new();
    let report = index.check(&mut |entry| entries.push((entry.key.to_vec(), entry.tid))).unwrap();
    assert!(report.corruptions.is_empty(), "{:#?}", report.corruptions);
    entries
}

/// Returns the pages of a level, left to right, with the keys of their items, high key included.
fn level(index: &Index, level: u16) -> Vec<(BlockNumber, Vec<Vec<u8>>)> {
    let (mut block, mut here) = index.root().unwrap().unwrap();
    while here > level {
        let page = index.read(block, here).unwrap();
        block = PivotTuple::decode(page.tuple(page.first_entry())).unwrap().downlink;
        here -= 1;
    }
    let mut pages = Vec::new();
    while block != BlockNumber(0) {
        let page = index.read(block, level).unwrap();
        let keys = (1..=page.item_count()).map(|item| sort_key(page.tuple(item)).0.to_vec());
        pages.push((block, keys.collect()));
        block = page.next();
    }
    pages
}
