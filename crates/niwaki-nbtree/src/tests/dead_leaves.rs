//! Leaves whose entries are all marked dead are emptied once, by the scan that marked the last
//! entry, if the table agrees.

use niwaki_storage::Tid;

use super::test_table::TestTable;
use super::{checked, entry, index, index_in, insert, storage};
use crate::{
    CheckReport, DeletionCandidate, Direction, Index, IndexOptions, KeyBound, KeyRange, LeafRead,
    Marked, Scan,
};

const KEYS: u8 = 60;

/// Returns the TID of a key; each heap block has ten keys.
fn tid(key: u8) -> Tid {
    Tid::new(u32::from(key / 10), u16::from(key % 10) + 1)
}

fn filled() -> Index {
    let index = index(IndexOptions { page_items_max: Some(4), ..IndexOptions::default() });
    for key in 0..KEYS {
        insert(&index, &[key], tid(key));
    }
    index
}

/// Returns a table that lets every entry go.
fn everything() -> TestTable<impl Fn(&DeletionCandidate<'_>) -> bool> {
    TestTable::new(|_| true)
}

/// Returns the keys that a table was asked about, ascending; all were marked.
fn asked<F: Fn(&DeletionCandidate<'_>) -> bool>(table: &TestTable<F>) -> Vec<u8> {
    let asked = table.asked.borrow();
    assert!(asked.iter().all(|(_, known_dead)| *known_dead));
    asked.iter().map(|(tid, _)| tid.block.0 as u8 * 10 + tid.offset.0 as u8 - 1).collect()
}

/// Returns the leaves that a scan of everything meets, with their keys.
fn leaves(index: &Index) -> Vec<(LeafRead, Vec<u8>)> {
    let mut scan = Scan::default();
    scan.start(index, &KeyRange::ALL, Direction::Forward);
    let mut found = Vec::new();
    while scan.next(index).unwrap() {
        let keys = scan.batch().iter().map(|entry| entry.key[0]).collect();
        found.push((scan.batch().leaf().unwrap(), keys));
    }
    found
}

/// Marks the entries of some keys; returns the result leaf by leaf.
fn mark(index: &Index, keys: &[u8]) -> Vec<(LeafRead, Marked)> {
    let mut scan = Scan::default();
    scan.start(index, &KeyRange::ALL, Direction::Forward);
    let mut marked = Vec::new();
    while scan.next(index).unwrap() {
        let positions: Vec<usize> = (0..scan.batch().len())
            .filter(|&at| keys.contains(&scan.batch().get(at).unwrap().key[0]))
            .collect();
        let result = index.mark_dead(scan.batch(), &positions);
        if !positions.is_empty() {
            marked.push((scan.batch().leaf().unwrap(), result));
        }
    }
    marked
}

fn report(index: &Index) -> CheckReport {
    let report = index.check(&mut |_| {}).unwrap();
    assert!(report.corruptions.is_empty(), "{:#?}", report.corruptions);
    report
}

fn keys(index: &Index) -> Vec<u8> {
    checked(index).into_iter().map(|(key, _)| key[0]).collect()
}

#[test]
fn who_marks_the_last_entry_empties_the_leaf() {
    let index = filled();
    let before = report(&index);
    // This leaf is not the last child of its parent.
    let (leaf, on_it) = leaves(&index)[1].clone();
    let (first, last) = on_it.split_at(on_it.len() - 1);
    let some = mark(&index, first);
    assert_eq!(some, [(leaf, Marked { entries: first.len(), whole_leaf: false })]);
    let table = everything();
    assert_eq!(index.empty_dead_leaf(leaf, &table).unwrap(), 0, "one entry is not marked");
    assert!(asked(&table).is_empty());
    let rest = mark(&index, last);
    assert_eq!(rest, [(leaf, Marked { entries: 1, whole_leaf: true })]);
    assert_eq!(index.empty_dead_leaf(leaf, &table).unwrap(), on_it.len());
    assert_eq!(asked(&table), on_it, "the table was asked about each entry");
    let after = report(&index);
    assert_eq!((after.leaf_pages, after.unused_pages), (before.leaf_pages - 1, 1));
    assert!(keys(&index).iter().all(|key| !on_it.contains(key)));
    // The leaf is gone; the page that has its number now is not touched.
    assert_eq!(index.empty_dead_leaf(leaf, &table).unwrap(), 0);
    let stats = index.stats();
    assert_eq!((stats.dead_leaves, stats.dead_leaf_entries), (1, on_it.len() as u64));
}

/// A leaf that had left the pool was read in again, in vain: it has another version then. And a
/// reader failed where the disk is full and a changed page had to make room.
#[test]
fn a_leaf_that_left_the_pool_is_not_read_to_be_marked() {
    let storage = storage(32);
    let index =
        index_in(&storage, IndexOptions { page_items_max: Some(4), ..IndexOptions::default() });
    (0..=u8::MAX).for_each(|key| _ = insert(&index, &[key], tid(key)));
    let mut scan = Scan::default();
    scan.start(&index, &KeyRange::ALL, Direction::Forward);
    assert!(scan.next(&index).unwrap());
    let (leaf, place) = (scan.batch().leaf().unwrap(), scan.batch().place(0).unwrap());
    // All other leaves come and go.
    for _ in 0..20 {
        while scan.next(&index).unwrap() {}
        let range = KeyRange { lower: KeyBound::Included(&[40]), ..KeyRange::ALL };
        scan.start(&index, &range, Direction::Forward);
    }
    assert!(index.pin_if_resident(leaf.block).is_none(), "it has left the pool");
    let reads = || storage.pool().statistics().reads;
    let before = reads();
    assert_eq!(index.mark_dead_places(leaf, &mut [place]), Marked::default());
    assert_eq!(index.empty_dead_leaf(leaf, &everything()).unwrap(), 0);
    assert_eq!(reads(), before);
}

#[test]
fn what_the_table_keeps_stays_and_is_not_asked_about_again() {
    let index = filled();
    let (leaf, on_it) = leaves(&index)[3].clone();
    let table = TestTable::new(|_| false);
    assert!(mark(&index, &on_it)[0].1.whole_leaf);
    assert_eq!(index.empty_dead_leaf(leaf, &table).unwrap(), 0);
    assert_eq!(report(&index).dead_entries, on_it.len() as u64);
    assert_eq!(keys(&index), (0..KEYS).collect::<Vec<u8>>());
    assert!(mark(&index, &on_it).is_empty(), "marked entries are not read again");
    assert_eq!(index.stats().dead_leaves, 1);

    // The table keeps one entry of another leaf: the leaf stays with that entry.
    let dead_before = report(&index).dead_entries;
    let (leaf, on_it) = leaves(&index)[5].clone();
    let table = TestTable::new(|candidate| candidate.key != &on_it[..1]);
    assert!(mark(&index, &on_it)[0].1.whole_leaf);
    assert_eq!(index.empty_dead_leaf(leaf, &table).unwrap(), on_it.len() - 1);
    let left = keys(&index);
    assert!(left.contains(&on_it[0]) && !left.contains(&on_it[1]));
    assert_eq!(report(&index).dead_entries, dead_before + 1);
    // The entry is inserted again, and stays.
    insert(&index, &on_it[..1], tid(on_it[0]));
    assert!(leaves(&index).iter().any(|(_, keys)| keys.contains(&on_it[0])));
}

#[test]
fn a_leaf_that_has_changed_is_left_alone() {
    let index = filled();
    let (leaf, on_it) = leaves(&index)[3].clone();
    assert!(mark(&index, &on_it)[0].1.whole_leaf);
    // The entry is inserted again: its mark is cleared, and the leaf's version moves.
    insert(&index, &on_it[..1], tid(on_it[0]));
    let table = everything();
    assert_eq!(index.empty_dead_leaf(leaf, &table).unwrap(), 0);
    // The entry is dead again: marked with the rest of the leaf's current version.
    let marked = mark(&index, &on_it);
    assert_eq!(marked[0].1, Marked { entries: 1, whole_leaf: true });
    assert_eq!(index.empty_dead_leaf(leaf, &table).unwrap(), 0, "read before");
    assert!(asked(&table).is_empty());
    assert_eq!(index.empty_dead_leaf(marked[0].0, &table).unwrap(), on_it.len());
}

#[test]
fn the_last_leaf_is_left_to_simple_deletion() {
    let index = filled();
    let (leaf, on_it) = leaves(&index).pop().unwrap();
    assert!(mark(&index, &on_it)[0].1.whole_leaf);
    let table = everything();
    assert_eq!(index.empty_dead_leaf(leaf, &table).unwrap(), 0);
    assert!(asked(&table).is_empty());
    // Insertions that fill the leaf get the room.
    let splits = index.stats().leaf_splits;
    for key in KEYS..KEYS + 2 {
        index.insert(&entry(&[key], tid(key)), None, Some(&table)).unwrap();
    }
    assert_eq!((index.stats().leaf_splits, index.stats().dead_leaves), (splits, 0));
}

/// A queue, read by scans from its head, does not make the index grow.
#[test]
fn a_queue_that_is_only_scanned_stays_small() {
    for direction in [Direction::Forward, Direction::Backward] {
        let index = index(IndexOptions { page_items_max: Some(4), ..IndexOptions::default() });
        let table = everything();
        let key = |n: u32| n.to_be_bytes();
        let mut blocks = 0;
        for n in 0..4000u32 {
            insert(&index, &key(n), Tid::new(n / 50, 1 + (n % 50) as u16));
            let Some(head) = n.checked_sub(20) else { continue };
            let end = key(head);
            let range = KeyRange { lower: KeyBound::Unbounded, upper: KeyBound::Included(&end) };
            let mut scan = Scan::default();
            scan.start(&index, &range, direction);
            let mut found = 0;
            while scan.next(&index).unwrap() {
                found += scan.batch().len();
                let all: Vec<usize> = (0..scan.batch().len()).collect();
                if index.mark_dead(scan.batch(), &all).whole_leaf {
                    index.empty_dead_leaf(scan.batch().leaf().unwrap(), &table).unwrap();
                }
            }
            assert_eq!(found, 1);
            if n == 1000 {
                blocks = index.blocks().unwrap();
            }
        }
        assert_eq!(index.blocks().unwrap(), blocks, "{direction:?}");
        assert!(report(&index).leaf_pages < 16, "{:?}", report(&index));
        assert!(index.stats().deleted_pages > 900);
    }
}

/// The last child of a parent may not go while the parent has others; it goes with the last of
/// them.
#[test]
fn an_empty_last_child_goes_with_its_siblings() {
    let index = filled();
    let all = leaves(&index);
    let (edge, others) = all.split_last().unwrap();
    // From the right: so last children become empty first.
    for (leaf, on_it) in others.iter().rev() {
        assert!(mark(&index, on_it)[0].1.whole_leaf);
        index.empty_dead_leaf(*leaf, &everything()).unwrap();
    }
    assert_eq!(keys(&index), edge.1);
    let report = report(&index);
    assert_eq!((report.entries, report.leaf_pages), (edge.1.len() as u64, 1), "{report:?}");
}

/// Heap blocks that are not in memory are read in without the leaf's latch; then the leaf is looked
/// at again.
#[test]
fn heap_blocks_are_read_in_first() {
    let index = filled();
    let (leaf, on_it) = leaves(&index)[1].clone();
    assert!(mark(&index, &on_it)[0].1.whole_leaf);
    let table = everything();
    table.on_disk.borrow_mut().insert(tid(on_it[0]).block.0);
    assert_eq!(index.empty_dead_leaf(leaf, &table).unwrap(), on_it.len());
    assert!(table.on_disk.borrow().is_empty());
    assert_eq!(asked(&table), on_it);
}
