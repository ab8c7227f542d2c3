//! Packing: the final size of an index, whatever part of its entries went, and the leaves that
//! stay.

use niwaki_env::rng::SeededRng;
use niwaki_storage::{Fork, Tid, Xid};

use super::churn::{build, built, pages};
use super::{checked, index, index_in, insert, level, storage};
use crate::{EntryDecision, Index, IndexOptions};

const ROWS: u32 = 40_000;

fn entries() -> Vec<(Vec<u8>, Tid)> {
    let rng = SeededRng::new(3);
    let tid = |row: u32| Tid::new(row / 100, 1 + (row % 100) as u16);
    let mut entries: Vec<_> = (0..ROWS)
        .map(|row| ((rng.below(1 << 32) as u32).to_be_bytes().to_vec(), tid(row)))
        .collect();
    entries.sort();
    entries
}

/// Fills an index, and keeps each entry with a chance of `percent` in a hundred.
fn thinned(index: &Index, percent: u64) {
    let all = entries();
    build(index, &all);
    let rng = SeededRng::new(percent);
    let go: Vec<_> = all.iter().filter(|_| rng.below(100) >= percent).collect();
    let list: Vec<(&[u8], Tid)> = go.iter().map(|(key, tid)| (&key[..], *tid)).collect();
    let decide = &mut |_| Ok((EntryDecision::Delete, None));
    assert_eq!(index.delete_listed(&list, Xid::INVALID, decide).unwrap(), go.len() as u64);
}

/// Returns the index's pages as a multiple of the pages of a fresh build.
fn ratio(index: &Index) -> f64 {
    f64::from(pages(index)) / f64::from(built(&checked(index)))
}

#[test]
fn an_index_is_as_small_as_a_fresh_one_whatever_part_of_it_stays() {
    for percent in [3, 10, 20, 33, 45, 50, 60, 66] {
        let index = index(IndexOptions::default());
        thinned(&index, percent);
        let left = checked(&index);
        let (before, fresh) = (pages(&index), built(&left));
        index.pack_all(&mut || Ok(())).unwrap();
        let after = pages(&index);
        // Each parent may have a leaf that is not full, and the last one takes no entries over.
        assert!(after <= fresh * 11 / 10 + 2, "{percent} percent: {after} pages, {fresh} fresh");
        assert!(before > fresh * 13 / 10 + 2, "{percent} percent: {before} pages without packing");
        assert_eq!(checked(&index), left);
        let freed = index.blocks().unwrap() - 1 - pages(&index);
        assert_eq!(index.free_pages(), freed as usize, "what went is free");
        assert!(index.stats().packed_parents > 0);
        // Another pass has nothing to do.
        let moved = |index: &Index| (index.stats().leaf_shifts, index.stats().merged_leaves);
        let before = moved(&index);
        index.pack_all(&mut || Ok(())).unwrap();
        assert_eq!(moved(&index), before, "{percent} percent");
    }
}

/// The sparse leaves get no insertions any more: they are filled up, even while the table is
/// written.
#[test]
fn an_index_that_grows_at_its_end_is_packed_while_it_is_written() {
    let index = index(IndexOptions::default());
    let tid = |row: u32| Tid::new(row / 100, 1 + (row % 100) as u16);
    let all: Vec<_> = (0..ROWS).map(|row| (row.to_be_bytes(), tid(row))).collect();
    for (key, tid) in &all {
        insert(&index, key, *tid);
    }
    let rng = SeededRng::new(7);
    let go: Vec<_> = all.iter().filter(|_| rng.below(100) < 30).collect();
    let list: Vec<(&[u8], Tid)> = go.iter().map(|(key, tid)| (&key[..], *tid)).collect();
    let decide = &mut |_| Ok((EntryDecision::Delete, None));
    index.delete_listed(&list, Xid::INVALID, decide).unwrap();
    let (left, before) = (checked(&index), pages(&index));
    while index.pack_some(1, true).unwrap() {}
    let (after, fresh) = (pages(&index), built(&left));
    assert!(after <= fresh + 2 && fresh < before * 8 / 10, "{before} to {after}, fresh {fresh}");
    assert_eq!(checked(&index), left);
    for row in ROWS..ROWS + 1000 {
        insert(&index, &row.to_be_bytes(), tid(row));
    }
    assert_eq!(checked(&index).len(), left.len() + 1000);
}

#[test]
fn another_index_waits_until_nobody_writes() {
    let index = index(IndexOptions::default());
    thinned(&index, 40);
    assert!(!index.pack_some(100, true).unwrap());
    assert_eq!(index.stats().packed_parents, 0);
    assert!(!index.pack_some(100, false).unwrap());
    assert!(index.stats().packed_parents > 0);
    assert!(ratio(&index) < 1.15);
}

#[test]
fn what_is_two_thirds_full_is_left_alone() {
    let index = index(IndexOptions::default());
    thinned(&index, 85);
    let before = (pages(&index), index.stats());
    index.pack_all(&mut || Ok(())).unwrap();
    assert_eq!((pages(&index), index.stats()), before);
}

/// Leaves of four: the first two have lost two entries, the third three, and the fourth none. The
/// second goes over to the third, which then has room for one more.
#[test]
fn each_leaf_gives_its_right_sibling_what_that_has_room_for() {
    let index = index(IndexOptions { page_items_max: Some(4), ..IndexOptions::default() });
    let tid = Tid::new(1, 1);
    (1..=40u8).for_each(|n| {
        insert(&index, &[n * 6], tid);
    });
    let leaves = |index: &Index| -> Vec<Vec<u8>> {
        let all = level(index, 0).into_iter().map(|(_, keys)| keys[1..].concat());
        all.take(4).collect()
    };
    let full =
        [vec![6, 12, 18, 24], vec![30, 36, 42, 48], vec![54, 60, 66, 72], vec![78, 84, 90, 96]];
    assert_eq!(leaves(&index), full);
    // The leaves have one parent: it has its high key and their pivots.
    assert_eq!(level(&index, 1)[0].1.len(), 1 + 4);
    for key in [12, 24, 36, 48, 60, 66, 72] {
        let list: [(&[u8], Tid); 1] = [(&[key], tid)];
        // This is not the deletion that merges.
        let mut leaf = index.write(index_leaf(&index, key), 0).unwrap();
        let mut decide = |entry: crate::BatchEntry<'_>| {
            if entry.key == list[0].0 { EntryDecision::Delete } else { EntryDecision::Keep }
        };
        assert_eq!(index.visit_leaf(&mut leaf, &mut decide).unwrap().0, 1);
    }
    assert_eq!(leaves(&index)[..3], [vec![6, 18], vec![30, 42], vec![54]]);
    index.pack_all(&mut || Ok(())).unwrap();
    assert_eq!(leaves(&index)[..3], [vec![6], vec![18, 30, 42, 54], vec![78, 84, 90, 96]]);
    checked(&index);
}

/// Returns the leaf that has a key.
fn index_leaf(index: &Index, key: u8) -> niwaki_storage::BlockNumber {
    let leaves = level(index, 0);
    leaves.iter().find(|(_, keys)| keys[1..].contains(&vec![key])).unwrap().0
}

#[test]
fn leaves_are_looked_at_after_so_many_deletions_and_step_by_step() {
    let index = index(IndexOptions::default());
    let all = entries();
    build(&index, &all);
    let step = |rows: std::ops::Range<usize>| {
        let list: Vec<(&[u8], Tid)> =
            all[rows].iter().step_by(2).map(|(key, tid)| (&key[..], *tid)).collect();
        let decide = &mut |_| Ok((EntryDecision::Delete, None));
        index.delete_listed(&list, Xid::INVALID, decide).unwrap();
    };
    let due = 2 * 32 * index.blocks().unwrap() as usize;
    step(0..due - 2);
    assert!(!index.pack_some(1, false).unwrap());
    assert_eq!(index.stats().packed_parents, 0, "too few went");
    step(due - 2..all.len());
    let parents = level(&index, 1).len();
    for _ in 0..parents - 1 {
        assert!(index.pack_some(1, false).unwrap(), "there is more");
    }
    assert!(!index.pack_some(1, false).unwrap());
    assert_eq!(index.stats().packed_parents, parents as u64);
    assert!(ratio(&index) < 1.15);
    assert!(!index.pack_some(9, false).unwrap());
    assert_eq!(index.stats().packed_parents, parents as u64, "nothing went since");
}

/// In a pool that has room for a part of the leaves: packing reads no leaf in, and does no damage.
#[test]
fn who_looks_after_quiet_tables_reads_no_leaf() {
    let storage = storage(64);
    let index = index_in(&storage, IndexOptions::default());
    thinned(&index, 40);
    let reads = || storage.pool().statistics_of(index.file().id, Fork::Main).reads;
    let (before, left) = (reads(), pages(&index));
    let checked_at = reads();
    assert!(checked_at > before, "a check reads what is not there");
    assert!(!index.pack_some(100, false).unwrap());
    let read = reads() - checked_at;
    // Only pages of the levels above may be read.
    assert!(read <= 2, "{read}");
    assert!(pages(&index) <= left);
    checked(&index);
}
