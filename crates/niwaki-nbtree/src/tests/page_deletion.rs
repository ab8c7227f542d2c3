//! Pages that become empty leave the tree, and come back to use.

use std::sync::Arc;

use niwaki_env::Env;
use niwaki_env::vfs::{MemoryVfs, Vfs};
use niwaki_storage::{BlockNumber, Storage, StorageOptions, Tid, Xid};

use super::{checked, index, insert};
use crate::page::layout::IndexPage;
use crate::{
    CheckReport, Direction, EntryDecision, Index, IndexOptions, KeyBound, KeyRange, NbtreeManager,
    Scan, VacuumSummary,
};

fn tiny() -> Index {
    index(options())
}

fn options() -> IndexOptions {
    IndexOptions { page_items_max: Some(4), ..IndexOptions::default() }
}

fn tid(n: u8) -> Tid {
    Tid::new(u32::from(n), 1)
}

fn fill(index: &Index, keys: impl Iterator<Item = u8>) {
    keys.for_each(|n| {
        insert(index, &[n], tid(n));
    });
}

fn delete(index: &Index, keys: impl Iterator<Item = u8>) {
    for n in keys {
        let decide = &mut || Ok((EntryDecision::Delete, None));
        assert!(index.delete_entry(&[n], tid(n), Xid::INVALID, decide).unwrap(), "{n}");
    }
}

fn report(index: &Index) -> CheckReport {
    let report = index.check(&mut |_| {}).unwrap();
    assert!(report.corruptions.is_empty(), "{:#?}", report.corruptions);
    report
}

fn vacuum(index: &Index) -> VacuumSummary {
    index.vacuum(&mut |_: crate::BatchEntry<'_>| EntryDecision::Keep).unwrap()
}

/// Returns the leaf where a key belongs.
fn leaf_of(index: &Index, key: u8) -> BlockNumber {
    index.read_leaf(&crate::page::search::Target::before(&[key])).unwrap().unwrap().id().block
}

fn keys(index: &Index) -> Vec<u8> {
    checked(index).into_iter().map(|(key, _)| key[0]).collect()
}

#[test]
fn an_emptied_index_gives_its_pages_back_and_takes_them_again() {
    for backwards in [false, true] {
        let index = tiny();
        fill(&index, 0..200);
        let (full, blocks) = (report(&index), index.blocks().unwrap());
        assert_eq!(index.stats().root_splits, u64::from(full.levels) - 1);
        if backwards {
            delete(&index, (0..200).rev());
        } else {
            delete(&index, 0..200);
        }
        let empty = report(&index);
        assert_eq!((empty.entries, empty.leaked_pages, empty.half_dead_pages), (0, 0, 0));
        assert_eq!(empty.levels, full.levels, "the tree does not get lower");
        let left = empty.leaf_pages + empty.inner_pages;
        // After deletion from the left, only the right edge stays. From the right, the last child
        // of a parent stays until its siblings have gone.
        assert!(left <= u32::from(full.levels) * if backwards { 8 } else { 2 }, "{empty:?}");
        vacuum(&index);
        assert_eq!(report(&index).leaf_pages, 1);
        assert!(index.stats().deleted_pages > 40);
        assert_eq!(index.stats().recycled_pages, 0);
        fill(&index, 0..200);
        assert_eq!(keys(&index), (0..200).collect::<Vec<u8>>());
        assert_eq!(index.blocks().unwrap(), blocks, "the file did not grow");
        assert!(index.stats().recycled_pages > 40);
    }
}

#[test]
fn a_queue_stays_small() {
    let index = tiny();
    let key = |n: u32| n.to_be_bytes();
    for n in 0..5000u32 {
        insert(&index, &key(n), Tid::new(n, 1));
        if n >= 20 {
            let old = n - 20;
            let decide = &mut || Ok((EntryDecision::Delete, None));
            index.delete_entry(&key(old), Tid::new(old, 1), Xid::INVALID, decide).unwrap();
        }
    }
    let report = report(&index);
    assert_eq!(report.entries, 20);
    assert!(index.blocks().unwrap() < 80, "{} pages", index.blocks().unwrap());
}

#[test]
fn a_vacuum_deletes_what_it_empties() {
    let index = tiny();
    fill(&index, 0..200);
    let before = report(&index).leaf_pages;
    let mut decide = |entry: crate::BatchEntry<'_>| match entry.key[0] {
        20..180 => EntryDecision::Delete,
        _ => EntryDecision::Keep,
    };
    let summary = index.vacuum(&mut decide).unwrap();
    assert_eq!((summary.removed, summary.remaining), (160, 40));
    let after = report(&index);
    assert!(after.leaf_pages + 35 < before && summary.deleted_pages > 40, "{summary:?}");
    assert_eq!(summary.free_pages, after.unused_pages);
    assert_eq!(keys(&index), (0..20).chain(180..200).collect::<Vec<u8>>());
}

/// Returns the children of the page of level 1 that leads to a key, each with its first and last
/// key.
fn siblings(index: &Index, key: u8) -> Vec<(BlockNumber, u8, u8)> {
    let key = [key];
    let target = crate::page::search::Target::before(&key);
    let path = &mut crate::tree::index::Path::new();
    let crate::tree::descend::Descent::At(link) = index.descend(&target, 1, false, path).unwrap()
    else {
        panic!("a tree of two levels at least");
    };
    let parent = index.read(link.block, 1).unwrap().clone();
    (parent.first_entry()..=parent.item_count())
        .map(|item| {
            let pivot = crate::page::tuple::PivotTuple::decode(parent.tuple(item)).unwrap();
            let page = index.read(pivot.downlink, 0).unwrap();
            let key = |item: u16| page.tuple(item)[8];
            (pivot.downlink, key(page.first_entry()), key(page.item_count()))
        })
        .collect()
}

/// Deletes the entries of one leaf and makes it half-dead, as a crash between the two steps does.
fn half_dead(index: &Index, range: std::ops::Range<u8>) -> Vec<BlockNumber> {
    let key = range.start;
    let mut decide = |entry: crate::BatchEntry<'_>| {
        if range.contains(&entry.key[0]) { EntryDecision::Delete } else { EntryDecision::Keep }
    };
    let block = leaf_of(index, key);
    let mut leaf = index.pin(block).unwrap().into_write();
    // The entries go as vacuum deletes them; the test itself then makes the page half-dead.
    let (gone, stay) = index.visit_leaf(&mut leaf, &mut decide).unwrap();
    assert!(gone > 0 && stay == 0);
    let branch = index.make_half_dead(leaf).unwrap();
    assert_eq!(branch.last(), Some(&block));
    branch
}

fn scan(index: &Index, range: &KeyRange<'_>, direction: Direction) -> Vec<u8> {
    let mut scan = Scan::default();
    scan.start(index, range, direction);
    let mut found = Vec::new();
    while scan.next(index).unwrap() {
        found.extend(scan.batch().iter().map(|entry| entry.key[0]));
    }
    found
}

#[test]
fn a_half_dead_page_is_passed_by() {
    let index = tiny();
    fill(&index, 0..60);
    let (block, first, last) = siblings(&index, 30)[0];
    assert_eq!(half_dead(&index, first..last + 1), [block]);
    assert_eq!(report(&index).half_dead_pages, 1);
    let expected: Vec<u8> = (0..first).chain(last + 1..60).collect();
    assert_eq!(scan(&index, &KeyRange::ALL, Direction::Forward), expected);
    let reversed: Vec<u8> = expected.iter().rev().copied().collect();
    assert_eq!(scan(&index, &KeyRange::ALL, Direction::Backward), reversed);
    // Ranges that end inside the former range of the page.
    let (low, high) = ([first - 1], [first]);
    let range = KeyRange { lower: KeyBound::Included(&low), upper: KeyBound::Included(&high) };
    assert_eq!(scan(&index, &range, Direction::Forward), [first - 1]);
    insert(&index, &[first], tid(first));
    assert_ne!(leaf_of(&index, first), block, "the range belongs to the right sibling");
    assert_eq!(scan(&index, &range, Direction::Forward), [first - 1, first]);
    let lost = index
        .delete_entry(&[last], tid(last), Xid::INVALID, &mut || Ok((EntryDecision::Delete, None)));
    assert!(!lost.unwrap());
    let summary = vacuum(&index);
    assert_eq!((summary.deleted_pages, report(&index).half_dead_pages), (1, 0));
    assert_eq!(scan(&index, &range, Direction::Backward), [first, first - 1]);
}

#[test]
fn a_branch_goes_with_its_only_leaf() {
    let index = tiny();
    fill(&index, 0..200);
    // Everything left of the right edge goes, except one entry of a last child.
    let &(_, kept, _) = siblings(&index, 50).last().unwrap();
    delete(&index, (0..150).filter(|&n| n != kept));
    let before = report(&index);
    let branch = half_dead(&index, kept..kept + 1);
    assert!(branch.len() >= 2, "{branch:?}: the leaf was its parent's only child");
    let during = report(&index);
    assert_eq!(during.half_dead_pages as usize, branch.len());
    assert_eq!(during.leaf_pages + 1, before.leaf_pages);
    assert_eq!(scan(&index, &KeyRange::ALL, Direction::Forward), (150..200).collect::<Vec<u8>>());
    fill(&index, 40..60);
    // The last page comes first: each page can be unlinked by itself.
    for &block in branch.iter().rev() {
        assert!(index.unlink(block).unwrap() && !index.unlink(block).unwrap());
        report(&index);
    }
    assert_eq!(keys(&index), (40..60).chain(150..200).collect::<Vec<u8>>());
}

/// A scan rests between two leaves, while everything around it is deleted and used again.
#[test]
fn a_scan_finds_its_place_after_pages_were_recycled() {
    for direction in [Direction::Forward, Direction::Backward] {
        let index = tiny();
        fill(&index, 0..200);
        let mut scan = Scan::default();
        scan.start(&index, &KeyRange::ALL, direction);
        let mut found = Vec::new();
        while found.len() < 60 && scan.next(&index).unwrap() {
            found.extend(scan.batch().iter().map(|entry| entry.key[0]));
        }
        let at = *found.last().unwrap();
        // All but every tenth entry goes; then other entries come and use the pages again.
        delete(&index, (0..200).filter(|n| n % 10 != 5));
        vacuum(&index);
        for n in 0..200u8 {
            insert(&index, &[n, 7], Tid::new(9000, 1));
        }
        assert_eq!(index.recycling.free_count(), 0, "every free page is in use again");
        while scan.next(&index).unwrap() {
            let entries = scan.batch().iter().filter(|entry| entry.key.len() == 1);
            found.extend(entries.map(|entry| entry.key[0]));
        }
        let mut expected: Vec<u8> = match direction {
            Direction::Forward => (0..=at).chain((at + 1..200).filter(|n| n % 10 == 5)).collect(),
            Direction::Backward => (0..at).filter(|n| n % 10 == 5).chain(at..200).collect(),
        };
        if direction == Direction::Backward {
            expected.reverse();
        }
        assert_eq!(found, expected);
    }
}

#[test]
fn free_pages_are_found_again_after_a_restart() {
    let files = Arc::new(MemoryVfs::new());
    let open = |files: Arc<MemoryVfs>| {
        let env = Env { vfs: files as Arc<dyn Vfs>, ..Env::memory() };
        Storage::open(env, StorageOptions::default(), vec![Arc::new(NbtreeManager)]).unwrap().0
    };
    let storage = open(Arc::clone(&files));
    let first = super::index_in(&storage, options());
    fill(&first, 0..200);
    delete(&first, 0..190);
    let free = report(&first).unused_pages;
    let blocks = first.blocks().unwrap();
    storage.wal().flush(storage.wal().insert_lsn()).unwrap();

    let again = open(Arc::new(files.fork()));
    let index = Index::new(again, first.file(), "again", options());
    let found = report(&index);
    assert_eq!((found.unused_pages, found.leaked_pages), (free, free));
    let summary = vacuum(&index);
    assert_eq!((summary.free_pages, report(&index).leaked_pages), (free, 0));
    fill(&index, 0..50);
    assert_eq!(index.blocks().unwrap(), blocks);
    assert!(report(&index).unused_pages < free);
}

/// A scan rests inside a key, whose entries before and behind then come into one posting list.
#[test]
fn a_scan_goes_on_in_the_middle_of_a_posting_list() {
    let index = index(IndexOptions::default());
    let tid = |n: u32| Tid::new(n / 100, 1 + (n % 100) as u16);
    let insert = |n: u32| insert(&index, b"key", tid(n));
    (0..6000).for_each(|n| {
        insert(n);
    });
    let mut scan = Scan::default();
    scan.start(&index, &KeyRange::ALL, Direction::Forward);
    assert!(scan.next(&index).unwrap());
    let mut found: Vec<Tid> = scan.batch().iter().map(|entry| entry.tid).collect();
    let read = found.len() as u32;
    for n in 0..read {
        let decide = &mut || Ok((EntryDecision::Delete, None));
        assert!(index.delete_entry(b"key", tid(n), Xid::INVALID, decide).unwrap());
    }
    assert!(index.stats().deleted_pages > 0);
    // The right sibling has the range now. Filling it makes it divide, into the page that was
    // deleted.
    let free = index.recycling.free_count();
    (0..read).for_each(|n| {
        insert(n);
    });
    assert!(index.recycling.free_count() < free && index.stats().dedup_passes > 0);
    while scan.next(&index).unwrap() {
        found.extend(scan.batch().iter().map(|entry| entry.tid));
    }
    assert_eq!(found, (0..6000).map(tid).collect::<Vec<_>>());
}

/// Links to pages grow old when any page is used again. A scan that was slower than this failed
/// after 1000 leaves, as if the file were damaged, although each time it found its place again.
#[test]
fn a_scan_whose_every_link_grows_old_comes_to_its_end() {
    for direction in [Direction::Forward, Direction::Backward] {
        let index = tiny();
        let expected: Vec<u16> = (0..5000).collect();
        for &n in &expected {
            insert(&index, &n.to_be_bytes(), Tid::new(1, 1));
        }
        assert!(report(&index).leaf_pages > 1200);
        let (mut scan, mut found, mut leaves) = (Scan::default(), Vec::new(), 0);
        scan.start(&index, &KeyRange::ALL, direction);
        while scan.next(&index).unwrap() {
            let entries = scan.batch().iter().filter(|entry| entry.key.len() == 2);
            found.extend(entries.map(|entry| u16::from_be_bytes([entry.key[0], entry.key[1]])));
            leaves += 1;
            // Pages come and go far behind the last of these keys, or at it.
            for n in 0..8 {
                insert(&index, &[200, n, n], Tid::new(2, 1));
            }
            for n in 0..8 {
                let decide = &mut || Ok((EntryDecision::Delete, None));
                let tid = Tid::new(2, 1);
                assert!(index.delete_entry(&[200, n, n], tid, Xid::INVALID, decide).unwrap());
            }
        }
        assert!(leaves > 1200 && index.stats().deleted_pages > 1000);
        if direction == Direction::Backward {
            found.reverse();
        }
        assert_eq!(found, expected);
    }
}

/// A crash may come after the file grew and before anything was logged. A vacuum then took the page
/// of the first root for a free page, and no split ever succeeded again.
#[test]
fn a_file_that_only_grew_before_a_crash_can_be_vacuumed_and_filled() {
    let index = tiny();
    index.storage.pool().extend(index.file(), niwaki_storage::Fork::Main, 4).unwrap();
    assert_eq!(vacuum(&index).free_pages, 2, "all but the metapage and the first root");
    fill(&index, 0..200);
    assert_eq!(keys(&index), (0..200).collect::<Vec<u8>>());
    assert_eq!(report(&index).leaked_pages, 0);
}
