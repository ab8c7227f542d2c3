//! The index's questions to the table: unique checks, simple deletion, and related cases.

use std::cell::RefCell;

use niwaki_env::rng::{Rng, SeededRng};
use niwaki_env::sync::atomic::Ordering;
use niwaki_storage::{Csn, Result, Tid, Xid};

use super::test_table::TestTable;
use super::{checked, entry, index, insert};
use crate::{
    Direction, EntryOutcome, Error, Index, IndexOptions, KeyRange, Scan, UniqueCheck, UniqueVerdict,
};

/// A table that answers from a list, and notes the questions.
struct Scripted<F: Fn(Tid) -> UniqueVerdict> {
    answer: F,
    asked: RefCell<Vec<Tid>>,
}

impl<F: Fn(Tid) -> UniqueVerdict> Scripted<F> {
    fn new(answer: F) -> Self {
        Self { answer, asked: RefCell::default() }
    }
}

impl<F: Fn(Tid) -> UniqueVerdict> UniqueCheck for Scripted<F> {
    fn check(&self, key: &[u8], tid: Tid) -> Result<UniqueVerdict> {
        assert_eq!(key, b"key");
        self.asked.borrow_mut().push(tid);
        Ok((self.answer)(tid))
    }
}

/// Returns an index with versions of one row spread over many leaves, between neighbours.
fn versions(count: u32) -> (Index, Vec<Tid>) {
    let index = index(IndexOptions { page_items_max: Some(4), ..IndexOptions::default() });
    let tids: Vec<Tid> = (1..=count).map(|n| Tid::new(n * 10, 1)).collect();
    for &tid in &tids {
        for key in [&b"kex"[..], b"key", b"keyz", b"kez"] {
            insert(&index, key, tid);
        }
    }
    (index, tids)
}

#[test]
fn a_unique_check_asks_about_every_equal_entry_once() {
    let (index, tids) = versions(20);
    for new in [Tid::new(5, 1), Tid::new(105, 1), Tid::new(999, 1)] {
        let check = Scripted::new(|_| UniqueVerdict::NotConflicting);
        let outcome = index.insert(&entry(b"key", new), Some(&check), None).unwrap();
        assert_eq!(outcome, EntryOutcome::Inserted);
        let mut expected = tids.clone();
        expected.extend([Tid::new(5, 1), Tid::new(105, 1)].into_iter().filter(|&tid| tid < new));
        expected.sort_unstable();
        assert_eq!(*check.asked.borrow(), expected);
    }
    assert_eq!(checked(&index).iter().filter(|found| found.0 == b"key").count(), 23);
}

#[test]
fn conflicts_and_waits_insert_nothing() {
    let (index, tids) = versions(20);
    let before = checked(&index);
    for &at in &[tids[0], tids[7], tids[19]] {
        for (verdict, expected) in [
            (UniqueVerdict::Conflict, EntryOutcome::Conflict(at)),
            (UniqueVerdict::InProgress(Xid(77)), EntryOutcome::Wait(Xid(77))),
        ] {
            let check =
                Scripted::new(
                    |tid| if tid == at { verdict } else { UniqueVerdict::NotConflicting },
                );
            let new = entry(b"key", Tid::new(3, 3));
            assert_eq!(index.insert(&new, Some(&check), None).unwrap(), expected);
            assert_eq!(check.asked.borrow().last(), Some(&at), "asked no further");
        }
    }
    assert_eq!(checked(&index), before);
}

/// Rule `unique-check`: the check is made before duplicate suppression, so even an entry that
/// exists already does not hide a conflict.
#[test]
fn the_check_comes_before_suppression() {
    let (index, tids) = versions(3);
    let check = Scripted::new(|tid| {
        if tid == tids[2] { UniqueVerdict::Conflict } else { UniqueVerdict::NotConflicting }
    });
    let again = index.insert(&entry(b"key", tids[0]), Some(&check), None).unwrap();
    assert_eq!(again, EntryOutcome::Conflict(tids[2]));
    let check = Scripted::new(|_| UniqueVerdict::NotConflicting);
    let again = index.insert(&entry(b"key", tids[0]), Some(&check), None).unwrap();
    assert_eq!(again, EntryOutcome::AlreadyThere);
}

#[test]
fn what_a_unique_check_finds_dead_is_marked_and_not_asked_about_again() {
    let index = index(IndexOptions::default());
    for n in 1..=5 {
        insert(&index, b"key", Tid::new(n, 1));
    }
    let check = Scripted::new(|tid| {
        if tid.block.0 <= 3 { UniqueVerdict::Dead } else { UniqueVerdict::NotConflicting }
    });
    index.insert(&entry(b"key", Tid::new(9, 1)), Some(&check), None).unwrap();
    assert_eq!(check.asked.borrow().len(), 5);
    assert_eq!(index.check(&mut |_| {}).unwrap().dead_entries, 3);
    let check = Scripted::new(|_| UniqueVerdict::NotConflicting);
    index.insert(&entry(b"key", Tid::new(10, 1)), Some(&check), None).unwrap();
    assert_eq!(check.asked.borrow().len(), 3);
    // Entries passed over because they are marked are not counted. A check that ends early counts
    // only the entries up to its end.
    let conflict = Scripted::new(|_| UniqueVerdict::Conflict);
    let outcome = index.insert(&entry(b"key", Tid::new(11, 1)), Some(&conflict), None).unwrap();
    assert_eq!(outcome, EntryOutcome::Conflict(Tid::new(4, 1)));
    let stats = index.stats();
    assert_eq!((stats.unique_checks, stats.unique_entries), (3, 5 + 3 + 1));
}

/// Returns a leaf with eight entries, two for each of four heap blocks, that takes no more.
fn full_leaf(simple_deletion_extras: bool) -> Index {
    let index = index(IndexOptions {
        page_items_max: Some(8),
        simple_deletion_extras,
        ..IndexOptions::default()
    });
    for n in 0..8u16 {
        insert(&index, &n.to_be_bytes(), Tid::new(u32::from(n % 4), n + 1));
    }
    index
}

pub(super) fn mark(index: &Index, keys: &[u16]) {
    let mut scan = Scan::default();
    scan.start(index, &KeyRange::ALL, Direction::Forward);
    while scan.next(index).unwrap() {
        let positions: Vec<usize> = (0..scan.batch().len())
            .filter(|&at| {
                keys.iter().any(|key| key.to_be_bytes() == scan.batch().get(at).unwrap().key)
            })
            .collect();
        index.mark_dead(scan.batch(), &positions);
    }
}

/// Entries that must not be marked, because a commit is not flushed, are deleted when there are
/// many.
#[test]
fn what_a_unique_check_may_only_delete_goes_in_bulk() {
    let index = index(IndexOptions::default());
    for n in 1..=30 {
        insert(&index, b"key", Tid::new(n, 1));
    }
    let dead = |below: u32| {
        move |tid: Tid| {
            if tid.block.0 < below {
                UniqueVerdict::Removable(Some((Csn(3), Csn(9))))
            } else {
                UniqueVerdict::NotConflicting
            }
        }
    };
    let few = Scripted::new(dead(16));
    index.insert(&entry(b"key", Tid::new(40, 1)), Some(&few), None).unwrap();
    assert_eq!(checked(&index).len(), 31);
    let conflict = Scripted::new(|tid| match tid.block.0 {
        ..30 => UniqueVerdict::Removable(None),
        _ => UniqueVerdict::Conflict,
    });
    index.insert(&entry(b"key", Tid::new(41, 1)), Some(&conflict), None).unwrap();
    assert_eq!(checked(&index).len(), 31, "an insertion that fails changes nothing");
    let many = Scripted::new(dead(17));
    index.insert(&entry(b"key", Tid::new(41, 1)), Some(&many), None).unwrap();
    let left: Vec<u32> = checked(&index).iter().map(|(_, tid)| tid.block.0).collect();
    assert_eq!(left, (17..=30).chain([40, 41]).collect::<Vec<_>>());
    assert_eq!(index.stats().unique_deleted_entries, 16);
    assert_eq!(index.check(&mut |_| {}).unwrap().dead_entries, 0);
}

#[test]
fn a_full_leaf_gives_up_its_dead_and_their_neighbours() {
    let index = full_leaf(true);
    mark(&index, &[1]);
    let oracle = TestTable::new(|c| c.known_dead || [1, 2].contains(&c.tid.block.0));
    // The new entry lies on heap block 3, which is visited too, but no entry may go there.
    let new = 100u16.to_be_bytes();
    index.insert(&entry(&new, Tid::new(3, 50)), None, Some(&oracle)).unwrap();
    let asked = oracle.asked.borrow().clone();
    let expected = [(1, 2, true), (1, 6, false), (3, 4, false), (3, 8, false)]
        .map(|(b, o, d)| (Tid::new(b, o), d));
    assert_eq!(asked, expected, "blocks of marked entries and of the new one, nothing else");
    let keys: Vec<u16> =
        checked(&index).iter().map(|e| u16::from_be_bytes([e.0[0], e.0[1]])).collect();
    assert_eq!(keys, [0, 2, 3, 4, 6, 7, 100]);
    let stats = index.stats();
    assert_eq!((stats.simple_deletions, stats.simple_deleted_entries), (1, 2));
    assert_eq!((stats.simple_heap_blocks, stats.simple_useless), (2, 0));
    assert!((61..=64).contains(&stats.simple_wal_bytes), "{}", stats.simple_wal_bytes);
    assert_eq!(stats.leaf_splits, 0);
}

#[test]
fn without_extras_only_marked_entries_go() {
    let index = full_leaf(false);
    mark(&index, &[1, 2]);
    let oracle = TestTable::new(|_| true);
    index.insert(&entry(&[9, 9], Tid::new(3, 50)), None, Some(&oracle)).unwrap();
    assert_eq!(oracle.asked.borrow().len(), 2);
    assert_eq!(checked(&index).len(), 7);
}

#[test]
fn nothing_marked_means_nothing_asked() {
    let index = full_leaf(true);
    let oracle = TestTable::new(|_| true);
    index.insert(&entry(&[9, 9], Tid::new(3, 50)), None, Some(&oracle)).unwrap();
    assert!(oracle.asked.borrow().is_empty());
    assert_eq!(index.stats().leaf_splits, 1);
}

#[test]
fn a_pass_that_may_delete_nothing_is_counted_as_useless() {
    let index = full_leaf(true);
    mark(&index, &[1, 2]);
    // Marks are hints: the table takes them back.
    let oracle = TestTable::new(|_| false);
    index.insert(&entry(&[9, 9], Tid::new(3, 50)), None, Some(&oracle)).unwrap();
    assert_eq!(oracle.asked.borrow().len(), 6);
    let stats = index.stats();
    assert_eq!((stats.simple_deletions, stats.simple_useless, stats.leaf_splits), (1, 1, 1));
    assert_eq!(checked(&index).len(), 9);
}

#[test]
fn an_entry_of_a_third_of_a_page_is_the_largest() {
    let index = index(IndexOptions::default());
    for n in 0..20u8 {
        let key = vec![n; 2696];
        insert(&index, &key, Tid::new(1, 1));
        insert(&index, &key, Tid::new(2, 1));
    }
    assert_eq!(checked(&index).len(), 40);
    let error = index.insert(&entry(&[0; 2697], Tid::new(1, 1)), None, None).unwrap_err();
    assert!(matches!(error, Error::RowTooLarge { size: 2705, max: 2704, .. }));
    assert_eq!(
        error.to_string(),
        "index row size 2705 exceeds maximum 2704 for index \"test_index\""
    );
}

#[test]
fn ascending_keys_take_the_fast_path_and_fill_pages() {
    let index = index(IndexOptions::default());
    for n in 0..20_000u32 {
        insert(&index, &n.to_be_bytes(), Tid::new(n, 1));
    }
    let stats = index.stats();
    assert!(stats.fast_path_inserts > 19_000, "{stats:?}");
    let report = index.check(&mut |_| {}).unwrap();
    let used = f64::from(report.leaf_pages) * 8152.0 - report.leaf_free_bytes as f64;
    let fill = used / (f64::from(report.leaf_pages) * 8152.0);
    assert!((0.87..0.93).contains(&fill), "{fill}");
}

#[test]
fn keys_that_do_not_ascend_leave_the_rightmost_leaf_alone() {
    let index = index(IndexOptions::default());
    let append = |n: u32| {
        insert(&index, &(2 * n).to_be_bytes(), Tid::new(n, 1));
    };
    (0..2_000).for_each(append);
    let named = || index.rightmost.load(Ordering::Relaxed);
    assert_ne!(named(), 0);
    insert(&index, &3u32.to_be_bytes(), Tid::new(1, 2));
    assert_eq!(named(), 0, "the next one would latch it in vain");
    let before = index.stats().fast_path_inserts;
    (2_000..2_010).for_each(append);
    assert_eq!(index.stats().fast_path_inserts, before + 9);
}

#[test]
fn random_keys_keep_pages_two_thirds_full() {
    let index = index(IndexOptions::default());
    let rng = SeededRng::new(5);
    for n in 0..40_000u32 {
        insert(&index, &(rng.next_u64() as u32).to_be_bytes(), Tid::new(n, 1));
    }
    let report = index.check(&mut |_| {}).unwrap();
    let fill = 1.0 - report.leaf_free_bytes as f64 / (f64::from(report.leaf_pages) * 8152.0);
    assert!((0.62..0.78).contains(&fill), "{fill}");
}

/// Truncation keeps pivots short: of long keys that differ early, only the difference is kept.
#[test]
fn pivots_are_cut_to_what_tells_neighbours_apart() {
    let long = |n: u32| [format!("{n:08}").into_bytes(), vec![b'x'; 200]].concat();
    let inner_pages = |suffix_truncation| {
        let index = index(IndexOptions { suffix_truncation, ..IndexOptions::default() });
        for n in 0..8_000 {
            insert(&index, &long(n), Tid::new(n, 1));
        }
        index.check(&mut |_| {}).unwrap().inner_pages
    };
    assert_eq!(inner_pages(true), 1);
    assert!(inner_pages(false) > 5);
}

/// A user reported this: after a crash just behind the file's growth every use of a new index
/// failed with "not the metapage of an index". The growth had survived and the first pages had not.
#[test]
fn a_file_that_only_grew_is_an_empty_index() {
    for grown in [1, 2, 5] {
        let index = index(IndexOptions::default());
        index.storage.pool().extend(index.file, niwaki_storage::Fork::Main, grown).unwrap();
        let mut scan = Scan::default();
        scan.start(&index, &KeyRange::ALL, Direction::Forward);
        assert!(!scan.next(&index).unwrap());
        assert!(checked(&index).is_empty());
        assert_eq!(insert(&index, b"key", Tid::new(1, 1)), EntryOutcome::Inserted);
        assert_eq!(checked(&index).len(), 1);
    }
}

/// But a lost metapage is not taken for an empty index: the remaining pages are not overwritten.
#[test]
fn a_lost_metapage_is_damage() {
    let index = index(IndexOptions::default());
    insert(&index, b"key", Tid::new(1, 1));
    let mut meta = index.pin(crate::page::layout::META_BLOCK).unwrap().into_write();
    meta.0.fill(0);
    meta.mark_hint();
    drop(meta);
    let again = Index::new(index.storage.clone(), index.file, "again", IndexOptions::default());
    assert!(again.insert(&entry(b"other", Tid::new(2, 1)), None, None).is_err());
    let report = again.check(&mut |_| {}).unwrap();
    assert_eq!(report.corruptions.len(), 1);
    assert_eq!(report.corruptions[0].invariant, "B2");
}

/// A page is handed out once, and comes back if it was not written.
#[test]
fn free_pages_are_handed_out_lowest_first() {
    let index = index(IndexOptions::default());
    index.create(Xid::FIRST_NORMAL).unwrap();
    let file = index.storage.pool().extend(index.file, niwaki_storage::Fork::Main, 60).unwrap();
    let (low, high) = (file.first, niwaki_storage::BlockNumber(file.first.0 + 20));
    index.recycling.add_free(high);
    index.recycling.add_free(low);
    let first = index.allocate().unwrap();
    index.recycling.add_free(low);
    let second = index.allocate().unwrap();
    assert_eq!((first.block, second.block), (low, high));
    second.written();
    drop(first);
    assert_eq!(index.recycling.free_count(), 1);
    assert_eq!(index.allocate().unwrap().block, low);
}
