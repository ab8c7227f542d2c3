//! Posting lists: how they come about, take in TIDs, lose them, and are marked.

use std::cell::RefCell;

use niwaki_storage::{Result, Tid, Xid};

use super::test_table::TestTable;
use super::{checked, entry, index, insert};
use crate::{
    Direction, EntryDecision, EntryOutcome, Index, IndexOptions, KeyRange, NewEntry, Scan,
    UniqueCheck, UniqueVerdict,
};

fn tid(number: u32) -> Tid {
    Tid::new(number, 1)
}

/// Returns one leaf whose items are lists of eight TIDs, the last one perhaps shorter. It has
/// `keys` with TIDs 10, 20, and so on up to `count` times ten.
fn lists(keys: &[&[u8]], count: u32) -> Index {
    let index = index(IndexOptions { page_items_max: Some(8), ..IndexOptions::default() });
    let mut builder = index.builder(Xid::FIRST_NORMAL).unwrap();
    for key in keys {
        (1..=count).for_each(|n| assert!(builder.add(key, b"", tid(n * 10)).is_ok()));
    }
    builder.finish().unwrap();
    index
}

fn posting_lists(index: &Index) -> u64 {
    index.check(&mut |_| {}).unwrap().posting_lists
}

fn tids_of(index: &Index, key: &[u8], direction: Direction) -> Vec<u32> {
    let mut scan = Scan::default();
    scan.start(index, &KeyRange::equal(key), direction);
    let mut found = Vec::new();
    while scan.next(index).unwrap() {
        assert!(scan.batch().iter().all(|entry| entry.key == key));
        found.extend(scan.batch().iter().map(|entry| entry.tid.block.0));
    }
    found
}

#[test]
fn scans_see_every_tid_of_a_list_in_both_directions() {
    let index = lists(&[b"a", b"b", b"c"], 20);
    assert_eq!(posting_lists(&index), 9, "three of eight, eight and four TIDs for each key");
    let ascending: Vec<u32> = (1..=20).map(|n| n * 10).collect();
    let descending: Vec<u32> = ascending.iter().rev().copied().collect();
    for key in [b"a", b"b", b"c"] {
        assert_eq!(tids_of(&index, key, Direction::Forward), ascending);
        assert_eq!(tids_of(&index, key, Direction::Backward), descending);
    }
}

#[test]
fn a_tid_inside_a_list_pushes_out_the_last_one() {
    for new in [5, 10, 15, 75, 79, 80, 81, 85, 165, 999] {
        let index = lists(&[b"k"], 16);
        let there = new % 10 == 0;
        let outcome = insert(&index, b"k", tid(new));
        let expected = if there { EntryOutcome::AlreadyThere } else { EntryOutcome::Inserted };
        assert_eq!(outcome, expected, "{new}");
        let mut expected: Vec<u32> = (1..=16).map(|n| n * 10).chain([new]).collect();
        expected.sort_unstable();
        expected.dedup();
        assert_eq!(tids_of(&index, b"k", Direction::Forward), expected, "{new}");
        assert_eq!(checked(&index).len(), expected.len());
        let inside = !there && [15, 75, 79].contains(&new);
        assert_eq!(index.stats().posting_splits, u64::from(inside), "{new}");
    }
}

/// A version of a row needs no entry of its own where a list has its key and room. Its place may be
/// before, between and behind the list's TIDs.
#[test]
fn a_list_takes_in_versions() {
    for new in [5, 10, 15, 30, 35, 999] {
        let index = lists(&[b"a", b"k", b"z"], 3);
        let version = NewEntry { logically_unchanged: true, ..entry(b"k", tid(new)) };
        let there = new % 10 == 0;
        let outcome = index.insert(&version, None, None).unwrap();
        let expected = if there { EntryOutcome::AlreadyThere } else { EntryOutcome::Inserted };
        assert_eq!(outcome, expected, "{new}");
        let mut expected = vec![10, 20, 30];
        expected.extend((!there).then_some(new));
        expected.sort_unstable();
        assert_eq!(tids_of(&index, b"k", Direction::Forward), expected);
        assert_eq!(tids_of(&index, b"k", Direction::Backward).len(), expected.len());
        assert_eq!(checked(&index).len(), 6 + expected.len());
        assert_eq!(posting_lists(&index), 3);
        let stats = index.stats();
        assert_eq!((stats.lists_grown, stats.posting_splits), (u64::from(!there), 0));
    }
}

/// Lists do not take in an entry that is no version. A list of the greatest length, a marked list
/// and a list under a switched-off option take in none. Then the entry stands by itself.
#[test]
fn lists_do_not_take_in_everything() {
    const K: &[u8] = &[0, 1];
    let grown = |index: &Index, hinted| {
        let new = NewEntry { logically_unchanged: hinted, ..entry(K, tid(999)) };
        index.insert(&new, None, None).unwrap();
        index.stats().lists_grown
    };
    assert_eq!(grown(&lists(&[K], 3), true), 1);
    assert_eq!(grown(&lists(&[K], 3), false), 0);
    assert_eq!(grown(&lists(&[K], 8), true), 0);
    let marked = lists(&[K], 3);
    super::table_calls::mark(&marked, &[1]);
    assert_eq!(grown(&marked, true), 0);
    let switched_off = lists(&[K], 3);
    switched_off.set_options(IndexOptions { deduplicate_items: false, ..switched_off.options() });
    assert_eq!(grown(&switched_off, true), 0);
}

/// Covers every place inside every list of a page that takes no more items: the page is divided at
/// that place.
#[test]
fn a_page_can_be_divided_where_a_list_takes_in_a_tid() {
    for list in 0..8 {
        for place in 1..8 {
            let index = lists(&[b"k"], 64);
            // Deduplication could not help: all lists are full.
            insert(&index, b"k", tid(list * 80 + place * 10 + 5));
            let stats = index.stats();
            assert_eq!((stats.leaf_splits, stats.dedup_passes), (1, 0));
            let mut expected: Vec<u32> =
                (1..=64).map(|n| n * 10).chain([list * 80 + place * 10 + 5]).collect();
            expected.sort_unstable();
            assert_eq!(tids_of(&index, b"k", Direction::Forward), expected);
            assert_eq!(checked(&index).len(), 65);
        }
    }
}

#[test]
fn a_list_gets_shorter_until_it_is_gone() {
    let index = lists(&[b"a", b"k", b"z"], 8);
    let mut left: Vec<u32> = (1..=8).map(|n| n * 10).collect();
    for gone in [40, 10, 80, 70, 20, 30, 60, 50] {
        let delete = |tid| {
            let decide = &mut || Ok((EntryDecision::Delete, None));
            index.delete_entry(b"k", tid, Xid::INVALID, decide).unwrap()
        };
        assert!(!delete(tid(gone + 1)));
        assert!(delete(tid(gone)));
        assert!(!delete(tid(gone)));
        left.retain(|&number| number != gone);
        assert_eq!(tids_of(&index, b"k", Direction::Backward).len(), left.len());
        assert_eq!(tids_of(&index, b"k", Direction::Forward), left);
        assert_eq!(checked(&index).len(), 16 + left.len());
    }
    assert_eq!(posting_lists(&index), 2);
}

#[test]
fn vacuum_takes_single_tids_out_of_lists() {
    let index = lists(&[b"a", b"b"], 24);
    let mut decide = |entry: crate::BatchEntry<'_>| {
        let goes =
            entry.tid.block.0.is_multiple_of(30) || (entry.key == b"a" && entry.tid.block.0 <= 80);
        if goes { EntryDecision::Delete } else { EntryDecision::Keep }
    };
    let summary = index.vacuum(&mut decide).unwrap();
    assert_eq!((summary.removed, summary.remaining), (8 + 6 + 8, 48 - 22));
    let expected: Vec<u32> = (1..=24).filter(|n| n % 3 != 0).map(|n| n * 10).collect();
    assert_eq!(tids_of(&index, b"b", Direction::Forward), expected);
    assert_eq!(checked(&index).len(), 26);
}

#[test]
fn a_list_is_marked_only_whole() {
    let index = lists(&[b"k"], 16);
    let mut scan = Scan::default();
    let mut mark = |positions: &[usize]| {
        scan.start(&index, &KeyRange::equal(b"k"), Direction::Backward);
        assert!(scan.next(&index).unwrap());
        index.mark_dead(scan.batch(), positions).entries
    };
    // Backward: positions 0..8 are the second list.
    assert_eq!(mark(&[0, 1, 2, 3, 4, 5, 6]), 0);
    assert_eq!(mark(&[0, 0, 1, 2, 3, 4, 5, 6]), 0, "named twice is not two");
    assert_eq!(mark(&[1, 2, 3, 4, 5, 6, 7, 8]), 0);
    assert_eq!(tids_of(&index, b"k", Direction::Forward).len(), 16);
    assert_eq!(mark(&[9, 7, 6, 5, 4, 3, 2, 1, 0]), 8);
    assert_eq!(
        tids_of(&index, b"k", Direction::Forward),
        (1..=8).map(|n| n * 10).collect::<Vec<_>>()
    );
    assert_eq!(index.check(&mut |_| {}).unwrap().dead_entries, 8);
}

fn mark_all(index: &Index, key: &[u8]) {
    let mut scan = Scan::default();
    scan.start(index, &KeyRange::equal(key), Direction::Forward);
    while scan.next(index).unwrap() {
        let all: Vec<usize> = (0..scan.batch().len()).collect();
        assert_eq!(index.mark_dead(scan.batch(), &all).entries, all.len());
    }
}

/// Rule `dead-marks` inside a list: an entry that is inserted again is wanted, so the list's mark
/// is cleared.
#[test]
fn an_entry_inserted_again_frees_its_list_of_the_mark() {
    let index = lists(&[b"k"], 16);
    mark_all(&index, b"k");
    assert!(tids_of(&index, b"k", Direction::Forward).is_empty());
    assert_eq!(insert(&index, b"k", tid(30)), EntryOutcome::AlreadyThere);
    assert_eq!(
        tids_of(&index, b"k", Direction::Forward),
        (1..=8).map(|n| n * 10).collect::<Vec<_>>()
    );
}

/// A new entry that falls inside a marked list must not inherit the mark.
#[test]
fn a_tid_that_a_marked_list_takes_in_is_alive() {
    let index = lists(&[b"k"], 16);
    mark_all(&index, b"k");
    assert_eq!(insert(&index, b"k", tid(35)), EntryOutcome::Inserted);
    assert!(tids_of(&index, b"k", Direction::Forward).contains(&35));
    // The same holds on a page that must be divided for the entry.
    let index = lists(&[b"k"], 64);
    mark_all(&index, b"k");
    assert_eq!(insert(&index, b"k", tid(35)), EntryOutcome::Inserted);
    assert!(tids_of(&index, b"k", Direction::Forward).contains(&35));
    assert_eq!(checked(&index).len(), 65);
}

/// With a table to ask, the knowledge in a list's mark is used before it is lost.
#[test]
fn a_marked_list_goes_before_it_takes_in_a_tid() {
    let index = lists(&[b"k"], 16);
    mark_all(&index, b"k");
    let oracle = TestTable::new(|candidate| candidate.known_dead);
    index.insert(&entry(b"k", tid(35)), None, Some(&oracle)).unwrap();
    assert_eq!(oracle.asked.borrow().len(), 16);
    assert_eq!(checked(&index), [(b"k".to_vec(), tid(35))]);
}

#[test]
fn simple_deletion_takes_single_tids_out_of_lists() {
    let index = index(IndexOptions { page_items_max: Some(4), ..IndexOptions::default() });
    let mut builder = index.builder(Xid::FIRST_NORMAL).unwrap();
    for key in [b"a", b"b", b"c"] {
        (1..=4).for_each(|n| assert!(builder.add(key, b"", tid(n)).is_ok()));
    }
    builder.add(b"d", b"", tid(2)).unwrap();
    builder.finish().unwrap();
    mark_all(&index, b"d");
    // Heap block 2 is visited for the marked entry, block 3 for the new one.
    let oracle = TestTable::new(|candidate| candidate.tid.block.0 == 2);
    index.insert(&entry(b"e", tid(3)), None, Some(&oracle)).unwrap();
    let asked: Vec<u32> = oracle.asked.borrow().iter().map(|(tid, _)| tid.block.0).collect();
    assert_eq!(asked, [2, 2, 2, 2, 3, 3, 3]);
    for key in [b"a", b"b", b"c"] {
        assert_eq!(tids_of(&index, key, Direction::Forward), [1, 3, 4]);
    }
    assert_eq!(index.stats().simple_deleted_entries, 4);
    assert_eq!(checked(&index).len(), 10);
    assert_eq!(index.stats().leaf_splits, 0);
}

struct Versions<F: Fn(u32) -> UniqueVerdict> {
    answer: F,
    asked: RefCell<Vec<u32>>,
}

impl<F: Fn(u32) -> UniqueVerdict> UniqueCheck for Versions<F> {
    fn check(&self, _: &[u8], tid: Tid) -> Result<UniqueVerdict> {
        self.asked.borrow_mut().push(tid.block.0);
        Ok((self.answer)(tid.block.0))
    }
}

#[test]
fn a_unique_check_asks_about_every_tid_of_a_list() {
    let index = lists(&[b"k"], 16);
    let check = Versions { answer: |_| UniqueVerdict::NotConflicting, asked: RefCell::default() };
    let outcome = index.insert(&entry(b"k", tid(35)), Some(&check), None).unwrap();
    assert_eq!(outcome, EntryOutcome::Inserted);
    assert_eq!(*check.asked.borrow(), (1..=16).map(|n| n * 10).collect::<Vec<_>>());
    let conflict = |n| {
        if n == 120 { UniqueVerdict::Conflict } else { UniqueVerdict::NotConflicting }
    };
    let check = Versions { answer: conflict, asked: RefCell::default() };
    let outcome = index.insert(&entry(b"k", tid(36)), Some(&check), None).unwrap();
    assert_eq!(outcome, EntryOutcome::Conflict(tid(120)));
    // One list is dead, of the other all but one entry: only the first is marked.
    let dead = |n| if n == 160 { UniqueVerdict::NotConflicting } else { UniqueVerdict::Dead };
    let check = Versions { answer: dead, asked: RefCell::default() };
    index.insert(&entry(b"k", tid(999)), Some(&check), None).unwrap();
    assert_eq!(index.stats().marked_dead, 9, "a list of eight, and the plain entry behind it");
    assert_eq!(
        tids_of(&index, b"k", Direction::Forward),
        [90, 100, 110, 120, 130, 140, 150, 160, 999]
    );
}

/// Fills an index with entries of one key, and returns its counters.
fn fill(
    count: u32,
    options: IndexOptions,
    payload: &[u8],
    check: Option<&dyn UniqueCheck>,
) -> crate::IndexStats {
    let index = index(options);
    for n in 0..count {
        let new = NewEntry { payload, ..entry(b"key", tid(n)) };
        index.insert(&new, check, None).unwrap();
    }
    assert_eq!(checked(&index).len(), count as usize);
    index.stats()
}

#[test]
fn duplicates_are_merged_where_it_is_safe() {
    let on = IndexOptions::default();
    let merged = fill(6_000, on, b"", None);
    assert!(merged.dedup_passes > 0 && merged.leaf_splits <= 5, "{merged:?}");
    let off = fill(6_000, IndexOptions { deduplicate_items: false, ..on }, b"", None);
    assert!(off.dedup_passes == 0 && off.leaf_splits > 10, "{off:?}");
    let payload = fill(6_000, on, b"include", None);
    assert_eq!(payload.dedup_passes, 0, "lists have no payload");
    let check = Versions { answer: |_| UniqueVerdict::NotConflicting, asked: RefCell::default() };
    let versions = fill(1_500, on, b"", Some(&check));
    assert!(versions.dedup_passes > 0, "versions are duplicates in a unique index, too");
}

/// In a unique index a leaf that is full of rows, and has only few versions, is split.
#[test]
fn a_unique_index_merges_only_versions_of_the_new_row() {
    let options = IndexOptions { page_items_max: Some(8), ..IndexOptions::default() };
    for (key, merges) in [(b"new", false), (b"k02", true)] {
        let index = index(options);
        for n in 0..4u32 {
            insert(&index, format!("k{n:02}").as_bytes(), tid(1));
            insert(&index, format!("k{n:02}").as_bytes(), tid(2));
        }
        let check =
            Versions { answer: |_| UniqueVerdict::NotConflicting, asked: RefCell::default() };
        index.insert(&entry(key, tid(3)), Some(&check), None).unwrap();
        let stats = index.stats();
        assert_eq!(
            (stats.dedup_passes, stats.leaf_splits),
            (u64::from(merges), u64::from(!merges))
        );
        assert_eq!(checked(&index).len(), 9);
    }
}

/// TIDs in random order split lists everywhere; deduplication cuts them anew, so that pages do not
/// fill with short lists.
#[test]
fn lists_that_became_short_are_filled_again() {
    let index = index(IndexOptions::default());
    let rng = niwaki_env::rng::SeededRng::new(7);
    let mut numbers: Vec<u32> = (0..20_000).collect();
    for at in (1..numbers.len()).rev() {
        numbers.swap(at, rng.below(at as u64 + 1) as usize);
    }
    for &number in &numbers {
        insert(&index, b"key", tid(number));
    }
    let report = index.check(&mut |_| {}).unwrap();
    assert_eq!(checked(&index).len(), 20_000);
    let bytes = f64::from(report.leaf_pages) * 8152.0 / 20_000.0;
    assert!(bytes < 10.0, "{bytes} bytes for each entry of 6");
}
