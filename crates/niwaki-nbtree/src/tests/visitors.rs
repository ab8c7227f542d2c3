//! Passes over all entries that do more than keep or delete them.

use std::sync::Arc;

use niwaki_env::Env;
use niwaki_env::vfs::MemoryVfs;
use niwaki_storage::{Storage, StorageOptions, Tid};

use super::{entry, index_in};
use crate::{
    BatchEntry, EntryDecision, EntryVisitor, Index, IndexOptions, NbtreeManager, NewEntry,
    NextVisit,
};

fn open(vfs: Arc<MemoryVfs>) -> Arc<Storage> {
    let env = Env { vfs, ..Env::memory() };
    let options = StorageOptions { full_page_writes: false, ..StorageOptions::default() };
    Storage::open(env, options, vec![Arc::new(NbtreeManager)]).unwrap().0
}

fn fill(index: &Index, entries: u16, payload: &[u8]) {
    for n in 0..entries {
        let key = n.to_be_bytes();
        let new = NewEntry { payload, ..entry(&key, Tid::new(n.into(), 1)) };
        index.insert(&new, None, None).unwrap();
    }
}

/// Returns the numbers of the entries, and their payloads.
fn payloads(index: &Index) -> Vec<(u32, Vec<u8>)> {
    let mut found = Vec::new();
    let report =
        index.check(&mut |entry| found.push((entry.tid.block.0, entry.payload.to_vec()))).unwrap();
    assert!(report.corruptions.is_empty(), "{:#?}", report.corruptions);
    found
}

/// A visitor that deletes every third entry, and gives the others the payload that `payload` has
/// for them.
struct Rewriter {
    wanted: fn(u32) -> Vec<u8>,
    payload: Vec<u8>,
    refused: Vec<Tid>,
    /// The number of times that the page is visited again.
    again: u32,
    visits: u32,
}

impl Rewriter {
    fn new(wanted: fn(u32) -> Vec<u8>, again: u32) -> Self {
        Self { wanted, payload: Vec::new(), refused: Vec::new(), again, visits: 0 }
    }
}

impl EntryVisitor for Rewriter {
    fn decide(&mut self, entry: BatchEntry<'_>) -> EntryDecision {
        let number = entry.tid.block.0;
        self.payload = (self.wanted)(number);
        match number % 3 {
            0 => EntryDecision::Delete,
            _ if self.payload == entry.payload => EntryDecision::Keep,
            _ => EntryDecision::Rewrite,
        }
    }

    fn payload(&self) -> &[u8] {
        &self.payload
    }

    fn did_not_fit(&mut self, root: Tid) {
        self.refused.push(root);
    }

    fn between_pages(&mut self, _: u64, _: bool) -> niwaki_storage::Result<NextVisit> {
        self.visits += 1;
        let again = self.visits <= self.again;
        Ok(if again { NextVisit::SamePage } else { NextVisit::NextPage })
    }
}

#[test]
fn payloads_are_rewritten_beside_entries_that_go_and_redo_does_the_same() {
    let files = Arc::new(MemoryVfs::new());
    let storage = open(Arc::clone(&files));
    let index = index_in(&storage, IndexOptions::default());
    fill(&index, 600, b"old");
    // The new payloads are shorter, longer, or of the same length.
    let wanted = |number| vec![b'n'; number as usize % 7];
    let mut rewriter = Rewriter::new(wanted, 0);
    let summary = index.vacuum(&mut rewriter).unwrap();
    assert_eq!((summary.removed, summary.remaining), (200, 400));
    let left = (0..600).filter(|number| number % 3 != 0);
    let expected: Vec<_> = left.map(|number| (number, wanted(number))).collect();
    assert_eq!(payloads(&index), expected);
    assert!(rewriter.refused.is_empty());
    assert_eq!(index.stats().payloads_rewritten, 400);

    storage.wal().flush(storage.wal().insert_lsn()).unwrap();
    let redone = open(Arc::new(files.fork()));
    let again = Index::new(redone, index.file(), "again", index.options());
    assert_eq!(payloads(&again), expected);
}

#[test]
fn a_payload_that_does_not_fit_leaves_the_entry_as_it_was() {
    let index = super::index(IndexOptions::default());
    fill(&index, 600, b"old");
    let wanted = |number| if number == 7 { vec![b'n'; 4000] } else { b"old".to_vec() };
    let mut rewriter = Rewriter::new(wanted, 0);
    index.vacuum(&mut rewriter).unwrap();
    assert_eq!(rewriter.refused, [Tid::new(7, 1)], "longer than any entry may be");
    assert!(payloads(&index).iter().all(|(_, payload)| payload == b"old"));

    // Entries not decided at first are decided when the page is visited again, and entries count
    // once.
    let mut rewriter = Rewriter::new(|_| b"new".to_vec(), 2);
    let summary = index.vacuum(&mut rewriter).unwrap();
    assert_eq!((summary.removed, summary.remaining), (0, 400));
    // All pages but the metapage are visited, the first of them twice more.
    assert_eq!(rewriter.visits, index.blocks().unwrap() - 1 + 2);
    assert!(payloads(&index).iter().all(|(_, payload)| payload == b"new"));
}
