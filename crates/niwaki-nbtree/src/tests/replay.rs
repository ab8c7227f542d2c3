//! Redo: the log alone brings every page back, from any point at which it was cut off.

use std::sync::Arc;

use niwaki_env::Env;
use niwaki_env::rng::SeededRng;
use niwaki_env::vfs::{MemoryVfs, OpenMode, Vfs};
use niwaki_storage::{ItemState, OffsetNumber, Page, PageKind, RelFile, Storage, StorageOptions};
use niwaki_storage::{Tid, Xid};

use super::test_table::TestTable;
use super::{checked, entry, insert};
use crate::page::layout::IndexPage;
use crate::{
    CheckReport, Direction, EntryDecision, Index, IndexOptions, KeyBound, KeyRange, NbtreeManager,
    NewEntry, Scan, SplitStrategy,
};

type Entry = (Vec<u8>, Tid);

fn open(vfs: MemoryVfs, full_page_writes: bool) -> Arc<Storage> {
    let options = StorageOptions {
        shared_buffers: 400,
        wal_segment_bytes: 1 << 20,
        full_page_writes,
        ..StorageOptions::default()
    };
    let env = Env { vfs: Arc::new(vfs), ..Env::memory() };
    Storage::open(env, options, vec![Arc::new(NbtreeManager)]).unwrap().0
}

/// Returns one page of the file, as the pool holds it.
fn page(storage: &Storage, file: RelFile, block: u32) -> Page {
    let id = niwaki_storage::PageId {
        file: file.id,
        fork: niwaki_storage::Fork::Main,
        block: niwaki_storage::BlockNumber(block),
    };
    let mut page = storage.pool().pin(id).unwrap().read().clone();
    if page.kind() == PageKind::Nbtree {
        // Clears contents that are not logged: marks, the checksum, and the bytes in the hole.
        for number in (1..=page.item_count()).map(OffsetNumber) {
            let id = page.item_id(number);
            page.set_item_id(number, id.with_state(ItemState::Normal));
        }
        page.0[8..12].fill(0);
        let (lower, upper) = (usize::from(page.lower()), usize::from(page.upper()));
        page.0[lower..upper].fill(0);
    }
    page
}

/// Runs a workload that meets every kind of record. `log` gets the entries after each step.
fn work(index: &Index, seed: u64, steps: u64, log: &mut dyn FnMut(&Index)) {
    let rng = SeededRng::new(seed);
    let mut scan = Scan::default();
    for step in 0..steps {
        let key = (rng.below(200) as u16).to_be_bytes();
        let tid = Tid::new(rng.below(5) as u32, 1 + rng.below(5) as u16);
        match rng.below(20) {
            0..14 => {
                // Inserts versions, some of them dead, beside others: DELETE of both kinds.
                let table = TestTable::new(|candidate| candidate.tid.offset.0 == 2);
                let logically_unchanged = step % 2 == 0;
                let new = NewEntry { logically_unchanged, ..entry(&key, tid) };
                index.insert(&new, None, Some(&table)).unwrap();
            }
            14 | 15 => {
                let mut decide = || Ok((EntryDecision::Delete, None));
                index.delete_entry(&key, tid, Xid::INVALID, &mut decide).unwrap();
            }
            16 | 17 => {
                // Marks an entry and brings it back: CLEAR_DEAD.
                scan.start(index, &KeyRange::equal(&key), Direction::Forward);
                if scan.next(index).unwrap() {
                    index.mark_dead(scan.batch(), &[0]);
                    let tid = scan.batch().get(0).unwrap().tid;
                    insert(index, &key, tid);
                }
            }
            18 => {
                // Empties pages: HALF_DEAD, UNLINK.
                let lower = (rng.below(200) as u16).to_be_bytes();
                let upper = (u16::from_be_bytes(lower) + 40).to_be_bytes();
                let (lower, upper) = (KeyBound::Included(&lower), KeyBound::Included(&upper));
                scan.start(index, &KeyRange { lower, upper }, Direction::Forward);
                while scan.next(index).unwrap() {
                    for entry in scan.batch().iter() {
                        let mut decide = || Ok((EntryDecision::Delete, None));
                        let xid = Xid::INVALID;
                        index.delete_entry(entry.key, entry.tid, xid, &mut decide).unwrap();
                        log(index);
                    }
                }
            }
            _ => {
                let long = [vec![7u8; rng.below(1500) as usize], step.to_be_bytes().to_vec()];
                insert(index, &long.concat(), tid);
            }
        }
        log(index);
    }
}

fn options(seed: u64) -> IndexOptions {
    IndexOptions {
        page_items_max: [Some(4), Some(5), None][seed as usize % 3],
        suffix_truncation: seed % 4 != 3,
        split_strategy: if seed % 5 == 4 { SplitStrategy::Half } else { SplitStrategy::Informed },
        ..IndexOptions::default()
    }
}

#[test]
fn redo_makes_the_pages_that_were_made() {
    let (mut shifts, mut merges) = (0, 0);
    for seed in 0..12 {
        let files = Arc::new(MemoryVfs::new());
        let env = Env { vfs: Arc::clone(&files) as Arc<dyn Vfs>, ..Env::memory() };
        let storage_options = StorageOptions {
            shared_buffers: 400,
            wal_segment_bytes: 1 << 20,
            full_page_writes: seed % 2 == 0,
            ..StorageOptions::default()
        };
        let (done, _) = Storage::open(env, storage_options, vec![Arc::new(NbtreeManager)]).unwrap();
        let index = super::index_in(&done, options(seed));
        if seed % 3 == 1 {
            let mut builder = index.builder(Xid::FIRST_NORMAL).unwrap();
            for n in 0..500u16 {
                builder.add(&n.to_be_bytes(), b"p", Tid::new(1, 1)).unwrap();
            }
            builder.finish().unwrap();
        }
        work(&index, seed, 500, &mut |_| {});
        shifts += index.stats().leaf_shifts;
        merges += index.stats().merged_leaves;
        done.wal().flush(done.wal().insert_lsn()).unwrap();

        let redone = open(files.fork(), false);
        let again = Index::new(Arc::clone(&redone), index.file(), "again", index.options());
        assert_eq!(again.blocks().unwrap(), index.blocks().unwrap());
        for block in 0..index.blocks().unwrap() {
            let (done, redone) =
                (page(&done, index.file(), block), page(&redone, index.file(), block));
            let differs = done.0.iter().zip(&redone.0).position(|(a, b)| a != b);
            assert_eq!(differs, None, "seed {seed} block {block}: {done:?} {redone:?}");
        }
        assert_eq!(checked(&again), checked(&index));
    }
    assert!(shifts > 50, "only {shifts} shifts were redone");
    assert!(merges > 50, "only {merges} merges were redone");
}

/// Cuts the log at many places. After each cut the index has the entries of some moment of the run.
/// The tree is whole except for splits that the next insertions finish.
#[test]
fn every_prefix_of_the_log_is_an_index() {
    let (mut incomplete_seen, mut half_dead_seen) = (0, 0);
    for seed in 0..6 {
        let files = Arc::new(MemoryVfs::new());
        let env = Env { vfs: Arc::clone(&files) as Arc<dyn Vfs>, ..Env::memory() };
        let storage_options = StorageOptions {
            shared_buffers: 400,
            wal_segment_bytes: 1 << 20,
            full_page_writes: false,
            ..StorageOptions::default()
        };
        let (storage, _) =
            Storage::open(env, storage_options, vec![Arc::new(NbtreeManager)]).unwrap();
        let index =
            super::index_in(&storage, IndexOptions { page_items_max: Some(4), ..options(seed) });
        let mut moments = vec![Vec::new()];
        work(&index, seed, 120, &mut |index| {
            let now = checked(index);
            if moments.last() != Some(&now) {
                moments.push(now);
            }
        });
        storage.wal().flush(storage.wal().insert_lsn()).unwrap();

        let (path, bytes) = files
            .dump()
            .into_iter()
            .find(|(path, _)| path.starts_with("wal/"))
            .expect("a segment of the log");
        let end = bytes.iter().rposition(|&byte| byte != 0).unwrap() + 1;
        let rng = SeededRng::new(seed);
        // The file was created, durably, in the first bytes of the log.
        let begin = 4096 + 400;
        for _ in 0..90 {
            let cut = begin + rng.below((end - begin) as u64) as usize;
            let copy = files.fork();
            let segment = copy.open(&path, OpenMode::Existing).unwrap();
            // A sector is written whole or not at all: inside of one, something else is there.
            let mut rest = vec![0; bytes.len() - cut];
            rest[..cut.next_multiple_of(512) - cut].fill(0xa5);
            segment.write_at(&rest, cut as u64).unwrap();
            drop(segment);
            let report = recover_and_go_on(copy, &index, &moments);
            incomplete_seen += report.incomplete_splits;
            half_dead_seen += report.half_dead_pages;
        }
    }
    assert!(incomplete_seen > 10, "only {incomplete_seen} cuts fell between split and parent");
    assert!(half_dead_seen > 5, "only {half_dead_seen} cuts fell between the steps of a deletion");
}

/// Decides whether `found` is the state of an insertion that had made room, but had not added its
/// entry. It has all entries that exist before and after, and none that did not exist before. Each
/// list is in order.
fn is_between(before: &[Entry], after: &[Entry], found: &[Entry]) -> bool {
    let is_in = |entries: &[Entry], entry| entries.binary_search(entry).is_ok();
    found.iter().all(|entry| is_in(before, entry))
        && before.iter().all(|entry| is_in(found, entry) || !is_in(after, entry))
}

/// Recovers and works on. Returns the check's report after recovery.
fn recover_and_go_on(files: MemoryVfs, original: &Index, moments: &[Vec<Entry>]) -> CheckReport {
    let storage = open(files, false);
    let index = Index::new(Arc::clone(&storage), original.file(), "again", original.options());
    let report = index.check(&mut |_| {}).unwrap();
    let found = checked(&index);
    let is_moment = moments.contains(&found)
        || moments.windows(2).any(|pair| is_between(&pair[0], &pair[1], &found));
    assert!(is_moment, "{} entries that were never there together", found.len());
    for (key, _) in &found {
        insert(&index, key, Tid::new(77, 1));
    }
    checked(&index);
    for block in 1..index.blocks().unwrap() {
        let page = page(&storage, index.file(), block);
        if page.kind() == PageKind::Nbtree && page.is_leaf() && page.entry_count() > 0 {
            assert!(!page.is_incomplete(), "an insertion came by block {block}");
        }
    }
    index.vacuum(&mut |_: crate::BatchEntry<'_>| EntryDecision::Keep).unwrap();
    let mended = index.check(&mut |_| {}).unwrap();
    assert_eq!((mended.half_dead_pages, mended.leaked_pages), (0, 0));
    report
}
