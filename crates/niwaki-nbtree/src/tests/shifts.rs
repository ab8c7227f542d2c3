//! Shifts: the entries that go over to a right sibling, and the leaves that are split all the same.

use niwaki_storage::{BlockNumber, OffsetNumber, Tid, Xid};

use super::test_table::TestTable;
use super::{checked, entry, index, insert, level};
use crate::memory::credit::SHIFT_PRICE;
use crate::room::siblings::PLENTY;
use crate::{
    Direction, EntryDecision, EntryOutcome, Index, IndexOptions, KeyRange, NewEntry, Scan,
    SplitStrategy,
};

/// The TID of entries whose TID does not matter.
const TID: Tid = Tid { block: BlockNumber(1), offset: OffsetNumber(1) };

fn delete(index: &Index, key: &[u8]) {
    let decide = &mut || Ok((EntryDecision::Delete, None));
    assert!(index.delete_entry(key, TID, Xid::INVALID, decide).unwrap());
}

/// Returns leaves of four entries, the keys 10, 20 and so on; of the second leaf two entries are
/// gone.
fn with_room(options: IndexOptions) -> Index {
    let index = index(IndexOptions { page_items_max: Some(4), ..options });
    (1..=16u8).for_each(|n| {
        insert(&index, &[n * 10], TID);
    });
    let keys = |at: usize| level(&index, 0)[at].1[1..].concat();
    assert_eq!((keys(0), keys(1)), (vec![10, 20, 30, 40], vec![50, 60, 70, 80]));
    delete(&index, &[60]);
    delete(&index, &[70]);
    index
}

#[test]
fn the_last_entries_of_a_full_leaf_go_over_to_its_right_sibling() {
    // The new entry may belong to either page, also next to the place where they are parted.
    for new in [5u8, 15, 25, 35, 45] {
        let index = with_room(IndexOptions::default());
        let before = index.stats();
        assert_eq!(insert(&index, &[new], TID), EntryOutcome::Inserted);
        let after = index.stats();
        assert_eq!(after.leaf_splits, before.leaf_splits);
        assert_eq!((after.leaf_shifts, after.inserts), (1, before.inserts + 1));
        let leaves = level(&index, 0);
        let (first, second) = (&leaves[0].1, &leaves[1].1);
        assert_eq!(first.len() - 1 + second.len() - 1, 7);
        assert!((3..=4).contains(&(first.len() - 1)), "{first:?} {second:?}");
        let moved = second[1..].iter().filter(|key| key[0] < 50 && key[0] != new).count();
        assert_eq!(after.shifted_entries, moved as u64);
        // The pivot in the parent is the leaf's high key, which the check compares too.
        assert!(level(&index, 1)[0].1.contains(&first[0]));
        let mut expected: Vec<u8> =
            (1..=16u8).map(|n| n * 10).filter(|n| ![60, 70].contains(n)).collect();
        expected.push(new);
        expected.sort_unstable();
        let found: Vec<u8> = checked(&index).iter().map(|(key, _)| key[0]).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn without_room_on_the_right_or_with_plain_halves_a_leaf_is_split() {
    let index = with_room(IndexOptions::default());
    insert(&index, &[60], TID);
    insert(&index, &[70], TID);
    insert(&index, &[25], TID);
    assert_eq!((index.stats().leaf_shifts, index.stats().halved_splits), (0, 1));

    let half = IndexOptions { split_strategy: SplitStrategy::Half, ..IndexOptions::default() };
    let index = with_room(half);
    insert(&index, &[25], TID);
    assert_eq!((index.stats().leaf_shifts, index.stats().halved_splits), (0, 1));
}

/// A pivot between pages of two parents is the bound of these parents, and stands in the level
/// above too.
#[test]
fn a_right_sibling_under_another_parent_takes_nothing() {
    let index = with_room(IndexOptions::default());
    (161..=240u8).for_each(|n| {
        insert(&index, &[n], TID);
    });
    let bound = level(&index, 1)[0].1[0].clone();
    let leaves = level(&index, 0);
    let last = leaves.iter().position(|(_, keys)| keys[0] == bound).unwrap();
    let (full, right) = (&leaves[last].1[1..], &leaves[last + 1].1[1..]);
    assert_eq!((full.len(), right.len()), (4, 4));
    right[1..].iter().for_each(|key| delete(&index, key));
    let before = index.stats();
    insert(&index, &[full[1][0], 5], TID);
    let after = index.stats();
    assert_eq!(after.leaf_shifts, before.leaf_shifts);
    assert_eq!(after.leaf_splits, before.leaf_splits + 1);
    checked(&index);
}

/// Returns four full leaves of four entries under one parent; one entry of the last leaf is gone.
fn with_room_further_right() -> Index {
    let index = with_room(IndexOptions::default());
    insert(&index, &[60], TID);
    insert(&index, &[70], TID);
    (161..=240u8).for_each(|n| {
        insert(&index, &[n], TID);
    });
    let full = level(&index, 0)[..3].iter().all(|(_, keys)| keys.len() == 5);
    assert!(full && level(&index, 0)[2].1[1..].concat() == [90, 100, 110, 120]);
    assert!(level(&index, 1)[0].1.len() >= 4, "three children, and the high key");
    delete(&index, &[110]);
    index.credit.spend(u64::MAX);
    index
}

#[test]
fn room_comes_from_further_right_where_deletions_pay_for_it() {
    for credit in [2 * SHIFT_PRICE - 1, 2 * SHIFT_PRICE] {
        let index = with_room_further_right();
        let before = index.stats();
        index.earn(credit);
        assert_eq!(insert(&index, &[25], TID), EntryOutcome::Inserted);
        let after = index.stats();
        let expected = if credit < 2 * SHIFT_PRICE { (1, 0) } else { (0, 2) };
        let splits = after.leaf_splits - before.leaf_splits;
        assert_eq!((splits, after.tight_shifts - before.tight_shifts), expected);
        assert_eq!(after.leaf_shifts - before.leaf_shifts, expected.1);
        assert_eq!(index.credit.affords(1), splits == 1, "what it cost was paid");
        if splits == 0 {
            let leaves = level(&index, 0);
            let keys = |at: usize| leaves[at].1[1..].concat();
            assert_eq!(keys(0), [10, 20, 25, 30]);
            assert_eq!(keys(1), [40, 50, 60, 70]);
            assert_eq!(keys(2), [80, 90, 100, 120]);
        }
        checked(&index);
    }
}

/// Two leaves beside full ones have room for one entry each: too little for a way to either leaf.
#[test]
fn room_that_several_have_together_is_brought_where_there_is_plenty_of_credit() {
    let key = |n: u32| [&n.to_be_bytes()[..], &[7; 97]].concat();
    for credit in [2 * SHIFT_PRICE, PLENTY * 2 * SHIFT_PRICE] {
        let index = index(IndexOptions { fillfactor: 100, ..IndexOptions::default() });
        let mut builder = index.builder(Xid::FIRST_NORMAL).unwrap();
        for n in 0..3000 {
            builder.add(&key(2 * n), b"", TID).unwrap();
        }
        builder.finish().unwrap();
        let leaves = level(&index, 0);
        // Returns a key between two keys of the build.
        let new = |leaf: usize, at: usize| {
            let mut key: Vec<u8> = leaves[leaf].1[at].clone();
            key[3] += 1;
            key
        };
        // A build leaves room for a high key that is not shortened.
        for leaf in 1..leaves.len() - 1 {
            insert(&index, &new(leaf, 2), TID);
        }
        delete(&index, &leaves[2].1[2]);
        delete(&index, &leaves[3].1[2]);
        index.credit.spend(u64::MAX);
        index.earn(credit);
        let before = index.stats();
        assert_eq!(insert(&index, &new(1, 3), TID), EntryOutcome::Inserted);
        let after = index.stats();
        let expected = if credit == 2 * SHIFT_PRICE { (1, 0) } else { (0, 2) };
        let splits = after.leaf_splits - before.leaf_splits;
        assert_eq!((splits, after.tight_shifts - before.tight_shifts), expected);
        assert_eq!(checked(&index).len() as u64, 3000 + after.inserts - 2);
    }
}

#[test]
fn room_under_another_parent_is_not_brought() {
    let index = with_room_further_right();
    index.earn(100 * SHIFT_PRICE);
    let bound = level(&index, 1)[0].1[0].clone();
    let leaves = level(&index, 0);
    let last = leaves.iter().position(|(_, keys)| keys[0] == bound).unwrap();
    let beyond: Vec<_> = leaves[last + 1].1[1..].to_vec();
    let full: Vec<_> = leaves[last].1[1..].to_vec();
    assert_eq!((full.len(), beyond.len()), (4, 4));
    delete(&index, &beyond[1]);
    let before = index.stats();
    insert(&index, &[full[1][0], 5], TID);
    let after = index.stats();
    assert_eq!(after.leaf_shifts, before.leaf_shifts);
    assert_eq!(after.leaf_splits, before.leaf_splits + 1);
    checked(&index);
}

/// A group that grows at its end has the page for itself, whatever room there is on the right.
#[test]
fn a_group_that_grows_at_its_end_is_split_behind_the_new_entry() {
    let index = index(IndexOptions::default());
    let key = |group: u8, n: u16| [&[group][..], &n.to_be_bytes()].concat();
    let mut rows = 0;
    let mut row = || {
        rows += 1;
        Tid::new(rows / 100, 1 + (rows % 100) as u16)
    };
    for n in 0..4000 {
        for group in [7, 3, 5] {
            insert(&index, &key(group, n), row());
        }
    }
    let stats = index.stats();
    assert!(stats.after_new_splits > 10, "{stats:?}");
    assert_eq!(stats.leaf_shifts, 0, "{stats:?}");
    let report = index.check(&mut |_| {}).unwrap();
    let fill = 1.0 - report.leaf_free_bytes as f64 / (f64::from(report.leaf_pages) * 8152.0);
    assert!(fill > 0.85, "{fill}");
}

#[test]
fn marks_go_along() {
    let index = with_room(IndexOptions::default());
    let mut scan = Scan::default();
    scan.start(&index, &KeyRange::equal(&[40]), Direction::Forward);
    assert!(scan.next(&index).unwrap());
    assert_eq!(index.mark_dead(scan.batch(), &[0]).entries, 1);
    let leaf = scan.batch().leaf().unwrap();
    let place = scan.batch().place(0).unwrap();
    insert(&index, &[25], TID);
    assert_eq!(index.stats().leaf_shifts, 1);
    assert!(level(&index, 0)[1].1[1..].contains(&vec![40]), "it went over");
    let report = index.check(&mut |_| {}).unwrap();
    assert_eq!(report.dead_entries, 1);
    scan.start(&index, &KeyRange::equal(&[40]), Direction::Forward);
    assert!(!scan.next(&index).unwrap(), "still marked");
    // Entries read before the shift cannot be marked any more, on either page.
    assert_eq!(index.mark_dead_places(leaf, &mut [place]).entries, 0);
}

/// Deletion comes first; where it finds nothing, room on the right keeps a version from splitting
/// the leaf.
#[test]
fn a_version_finds_room_among_the_dead_then_on_the_right() {
    for anything_dead in [true, false] {
        let options = IndexOptions { deduplicate_items: false, ..IndexOptions::default() };
        let index = with_room(options);
        delete(&index, &[30]);
        insert(&index, &[20], Tid::new(2, 1));
        let table = TestTable::new(|candidate| anything_dead && candidate.tid == TID);
        let version = NewEntry { logically_unchanged: true, ..entry(&[20], Tid::new(3, 1)) };
        let before = index.stats();
        index.insert(&version, None, Some(&table)).unwrap();
        let after = index.stats();
        assert_eq!(after.bottom_up_deleted_entries > 0, anything_dead);
        assert_eq!(after.leaf_shifts, u64::from(!anything_dead));
        assert_eq!((after.leaf_splits, after.version_splits), (before.leaf_splits, 0));
        checked(&index);
    }
}

/// In random order pages stay fuller than the 69 % of plain halves, at any time.
#[test]
fn random_keys_keep_pages_seven_tenths_full_at_any_time() {
    let index = index(IndexOptions::default());
    let mut number = 1u64;
    for n in 1..=60_000u32 {
        number =
            number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        insert(&index, &((number >> 32) as u32).to_be_bytes(), Tid::new(n, 1));
        if n >= 30_000 && n % 5_000 == 0 {
            let report = index.check(&mut |_| {}).unwrap();
            assert!(report.corruptions.is_empty(), "{:#?}", report.corruptions);
            let bytes = f64::from(report.leaf_pages) * 8152.0;
            let fill = 1.0 - report.leaf_free_bytes as f64 / bytes;
            assert!(fill > 0.69, "{fill} at {n}");
        }
    }
    let stats = index.stats();
    assert!(stats.leaf_shifts > stats.leaf_splits / 4, "{stats:?}");
    assert_eq!(stats.tight_shifts, 0, "nothing was deleted");
}
