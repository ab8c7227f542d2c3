//! Merges: the leaves that go over to their right siblings, and the final size of an index.

use niwaki_env::rng::SeededRng;
use niwaki_storage::{BlockNumber, OffsetNumber, Tid, Xid};

use super::churn::{build, built, pages};
use super::{checked, index, insert, level};
use crate::page::layout::IndexPage;
use crate::{Direction, EntryDecision, Index, IndexOptions, KeyRange, Scan};

/// The TID of entries whose TID does not matter.
const TID: Tid = Tid { block: BlockNumber(1), offset: OffsetNumber(1) };

fn delete(index: &Index, key: &[u8], tid: Tid) {
    let decide = &mut || Ok((EntryDecision::Delete, None));
    assert!(index.delete_entry(key, tid, Xid::INVALID, decide).unwrap());
}

/// Returns the leaves' keys, left to right, without high keys.
fn leaves(index: &Index) -> Vec<Vec<u8>> {
    let mut leaves: Vec<_> =
        level(index, 0).into_iter().map(|(_, keys)| keys[1..].concat()).collect();
    // The last leaf has no high key.
    leaves.pop();
    leaves
}

/// Returns leaves of four entries, with the keys 10, 20 and so on; the third leaf has two of them.
fn four_each() -> Index {
    let index = index(IndexOptions { page_items_max: Some(4), ..IndexOptions::default() });
    (1..=24u8).for_each(|n| {
        insert(&index, &[n * 10], TID);
    });
    assert_eq!(leaves(&index)[..2], [[10, 20, 30, 40], [50, 60, 70, 80]]);
    delete(&index, &[100], TID);
    delete(&index, &[110], TID);
    index
}

#[test]
fn a_sparse_leaf_goes_over_to_its_right_sibling() {
    let index = four_each();
    let before = level(&index, 1)[0].1.len();
    delete(&index, &[50], TID);
    delete(&index, &[80], TID);
    assert_eq!(index.stats().merged_leaves, 0, "half full");
    delete(&index, &[60], TID);
    assert_eq!(leaves(&index)[..2], [[10, 20, 30, 40].as_slice(), &[70, 90, 120]]);
    assert_eq!((index.stats().merged_leaves, index.stats().deleted_pages), (1, 1));
    assert_eq!(level(&index, 1)[0].1.len(), before - 1);
    assert_eq!(index.recycling.free_count(), 1);
    let keys: Vec<u8> = checked(&index).iter().map(|(key, _)| key[0]).collect();
    let gone = [50, 60, 80, 100, 110];
    assert!(keys.into_iter().eq((1..=24u8).map(|n| n * 10).filter(|key| !gone.contains(key))));
}

#[test]
fn what_does_not_fit_well_together_stays_apart() {
    let index = four_each();
    insert(&index, &[100], TID);
    for key in [50, 60, 70] {
        delete(&index, &[key], TID);
    }
    assert_eq!(leaves(&index)[1..3], [[80].as_slice(), &[90, 100, 120]]);
    assert_eq!(index.stats().merged_leaves, 0);
    // The next deletion merges the leaf.
    delete(&index, &[100], TID);
    insert(&index, &[81], TID);
    delete(&index, &[81], TID);
    assert_eq!(leaves(&index)[1], [80, 90, 120]);
    checked(&index);
}

/// The last child of a parent does not go over to a page of another parent. The rightmost leaf, to
/// which insertions come without a descent, takes no entries over.
#[test]
fn the_last_children_stay_where_they_are() {
    let index = four_each();
    let bound = level(&index, 1)[0].1[0].clone();
    let all = level(&index, 0);
    let last = all.iter().position(|(_, keys)| keys[0] == bound).unwrap();
    for (at, (_, keys)) in all.iter().enumerate() {
        let has_high_key = at + 1 < all.len();
        if [last, last + 1].contains(&at) || at + 2 >= all.len() {
            for key in keys.iter().skip(1 + usize::from(has_high_key)) {
                delete(&index, key, TID);
            }
        }
    }
    let after = level(&index, 0);
    assert!([last, all.len() - 2].iter().all(|&at| after.iter().any(|it| it.0 == all[at].0)));
    checked(&index);
}

#[test]
fn marks_go_along() {
    let index = four_each();
    let mut scan = Scan::default();
    scan.start(&index, &KeyRange::equal(&[70]), Direction::Forward);
    assert!(scan.next(&index).unwrap());
    assert_eq!(index.mark_dead(scan.batch(), &[0]).entries, 1);
    let (leaf, place) = (scan.batch().leaf().unwrap(), scan.batch().place(0).unwrap());
    for key in [50, 60, 80] {
        delete(&index, &[key], TID);
    }
    assert_eq!(index.stats().merged_leaves, 1);
    assert_eq!(index.check(&mut |_| {}).unwrap().dead_entries, 1);
    scan.start(&index, &KeyRange::equal(&[70]), Direction::Forward);
    assert!(!scan.next(&index).unwrap(), "still marked");
    assert_eq!(index.mark_dead_places(leaf, &mut [place]).entries, 0);
}

/// A crash between the two steps leaves a half-dead leaf whose entries are on its right sibling.
#[test]
fn half_a_merge_is_an_index() {
    let index = four_each();
    let (block, into) = (level(&index, 0)[1].0, level(&index, 0)[2].0);
    let latched = [block, into].map(|block| index.write(block, 0).unwrap());
    let [leaf, right] = latched;
    delete_all_but_one(&index, leaf, right);
    let report = index.check(&mut |_| {}).unwrap();
    assert!(report.corruptions.is_empty(), "{:#?}", report.corruptions);
    assert_eq!(report.half_dead_pages, 1);
    for direction in [Direction::Forward, Direction::Backward] {
        let mut scan = Scan::default();
        scan.start(&index, &KeyRange::ALL, direction);
        let mut found = Vec::new();
        while scan.next(&index).unwrap() {
            found.extend(scan.batch().iter().map(|entry| entry.key[0]));
        }
        if direction == Direction::Backward {
            found.reverse();
        }
        assert_eq!(found[..8], [10, 20, 30, 40, 80, 90, 120, 130]);
    }
    insert(&index, &[55], TID);
    assert_eq!(leaves(&index)[2], [55, 80, 90, 120], "the range is the right sibling's");
    let keep = &mut |_: crate::BatchEntry<'_>| EntryDecision::Keep;
    assert_eq!(index.vacuum(keep).unwrap().deleted_pages, 1);
    assert_eq!(leaves(&index)[1], [55, 80, 90, 120]);
    checked(&index);
}

/// Makes the first step alone, as a crash leaves it.
fn delete_all_but_one(
    index: &Index,
    mut leaf: niwaki_storage::buffer::PageWrite<'_>,
    right: niwaki_storage::buffer::PageWrite<'_>,
) {
    let last = leaf.tuple(leaf.item_count())[8..].to_vec();
    let mut decide = |entry: crate::BatchEntry<'_>| {
        if entry.key == last { EntryDecision::Keep } else { EntryDecision::Delete }
    };
    assert_eq!(index.visit_leaf(&mut leaf, &mut decide).unwrap(), (3, 1));
    assert!(index.give_all_right(leaf, right).unwrap());
}

fn entries() -> Vec<(Vec<u8>, Tid)> {
    let rng = SeededRng::new(3);
    let tid = |row: u32| Tid::new(row / 100, 1 + (row % 100) as u16);
    let mut entries: Vec<_> = (0..40_000)
        .map(|row| ((rng.below(1 << 32) as u32).to_be_bytes().to_vec(), tid(row)))
        .collect();
    entries.sort();
    entries
}

/// Nine of ten rows go, in random order. No leaf is ever empty.
#[test]
fn an_index_shrinks_while_its_entries_go() {
    let index = index(IndexOptions::default());
    let entries = entries();
    build(&index, &entries);
    let (full, blocks) = (pages(&index), index.blocks().unwrap());
    let mut order: Vec<_> = entries.iter().collect();
    let rng = SeededRng::new(5);
    for at in (1..order.len()).rev() {
        order.swap(at, rng.below(at as u64 + 1) as usize);
    }
    let (stay, go) = order.split_at(entries.len() / 10);
    for (key, tid) in go {
        delete(&index, key, *tid);
    }
    let left = checked(&index);
    assert_eq!(left.len(), stay.len());
    let ratio = f64::from(pages(&index)) / f64::from(built(&left));
    assert!(ratio < 1.9, "{ratio} of a fresh build, {full} pages before");
    // The rows come back, and go again: the pages are used again, and no entry goes back and forth.
    for (key, tid) in go {
        insert(&index, key, *tid);
    }
    assert_eq!(checked(&index), entries);
    let merged = index.stats().merged_leaves;
    assert_eq!(index.stats().recycled_pages, merged);
    assert!(index.blocks().unwrap() < blocks * 5 / 4, "{:?}", index.stats());
    for (key, tid) in &go[..go.len() / 4] {
        delete(&index, key, *tid);
        insert(&index, key, *tid);
    }
    assert_eq!(index.stats().merged_leaves, merged);
}

/// A pass of vacuum finds sparse leaves in the order of the file, which is the order of the keys,
/// or the opposite.
#[test]
fn a_vacuum_merges_what_it_leaves_sparse_and_counts_each_entry_once() {
    for backwards in [false, true] {
        let index = index(IndexOptions::default());
        let mut entries = entries();
        if backwards {
            entries.reverse();
        }
        for (key, tid) in &entries {
            insert(&index, key, *tid);
        }
        let before = pages(&index);
        let mut decide = |entry: crate::BatchEntry<'_>| match entry.tid.offset.0 % 10 {
            3 => EntryDecision::Keep,
            _ => EntryDecision::Delete,
        };
        let summary = index.vacuum(&mut decide).unwrap();
        let left = checked(&index);
        assert_eq!((summary.removed, summary.remaining), (36_000, 4_000));
        assert_eq!(left.len(), 4_000);
        let report = index.check(&mut |_| {}).unwrap();
        assert_eq!(summary.leaf_pages, report.leaf_pages);
        assert_eq!(u64::from(summary.deleted_pages), index.stats().merged_leaves);
        let ratio = f64::from(pages(&index)) / f64::from(built(&left));
        assert!(
            ratio < 1.25 && before > 6 * pages(&index),
            "{ratio} of a fresh build, {before} before"
        );
    }
}
