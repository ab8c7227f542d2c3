//! Scans by array keys, by skipping and by bitmaps: index reads, LP_DEAD marks, and leaves of dead
//! entries only.

mod support;

use std::ops::Bound;

use niwaki_nbtree::IndexStats;
use niwaki_table::{
    BitmapEffort, BitmapSource, BuildOptions, ColumnKeys, Direction, IndexDefinition, KeyColumn,
    PageRows, ScanKeys, Table,
};
use niwaki_txn::{Durability, Isolation, TableId, Transaction};
use niwaki_types::{ColumnMask, Datum, KeyOrder, TypeOid, encode_key};
use support::World;

const COLUMNS: usize = 4;

fn key(value: i32) -> Vec<u8> {
    let mut key = Vec::new();
    encode_key(&Datum::Int4(value), KeyOrder::ascending(TypeOid::INT4), &mut key);
    key
}

fn values(wanted: &[i32]) -> ColumnKeys {
    ColumnKeys::values(wanted.iter().map(|value| key(*value)).collect())
}

fn one(column: ColumnKeys) -> ScanKeys {
    ScanKeys { columns: vec![column], bounding: 1 }
}

fn filled(rows: i32, value: impl Fn(i32) -> i32) -> World {
    let world = World::new(2, false, true);
    let tx = world.begin(0, Isolation::ReadCommitted);
    for id in 0..rows {
        world.insert(&tx, id, value(id), "t").unwrap();
    }
    tx.commit(Durability::Flush).unwrap();
    world
}

fn scan(table: &Table, tx: &Transaction, index: usize, keys: ScanKeys, way: Direction) -> Vec<i32> {
    let snapshot = tx.snapshot().unwrap();
    let mut scan = table.index_scan_keys(index, keys, way);
    let mut out = vec![Datum::Null; COLUMNS];
    let mut found = Vec::new();
    let all = ColumnMask::all(COLUMNS);
    while scan.next(table, tx, &snapshot, &all, &mut out).unwrap().is_some() {
        let Datum::Int4(id) = out[0] else { panic!("{out:?}") };
        found.push(id);
    }
    found
}

fn bitmap(
    table: &Table,
    tx: &Transaction,
    source: BitmapSource,
    memory: usize,
) -> (Vec<i32>, BitmapEffort) {
    let snapshot = tx.snapshot().unwrap();
    let mut scan = table.bitmap_scan(source, memory);
    let mut page = PageRows::new();
    let mut out = vec![Datum::Null; COLUMNS];
    let mut found = Vec::new();
    while scan.next_page(table, tx, &snapshot, &mut page).unwrap() {
        for row in page.iter() {
            table.deform(row, &ColumnMask::all(COLUMNS), &mut out).unwrap();
            let Datum::Int4(id) = out[0] else { panic!("{out:?}") };
            found.push(id);
        }
    }
    (found, scan.effort())
}

fn delete(world: &World, tx: &Transaction, ids: impl Iterator<Item = i32>) {
    for id in ids {
        let snapshot = tx.snapshot_for_write().unwrap();
        let (target, _) = world.find(tx, &snapshot, id).expect("a row");
        world.table.delete(tx, &snapshot, target).unwrap();
        tx.next_command().unwrap();
    }
}

/// Returns an index's counters before and after `work`.
fn counted(
    world: &World,
    index: usize,
    work: impl FnOnce(&Transaction),
) -> (IndexStats, IndexStats) {
    let before = world.table.index_stats(index);
    let tx = world.begin(0, Isolation::ReadCommitted);
    work(&tx);
    tx.commit(Durability::Flush).unwrap();
    (before, world.table.index_stats(index))
}

fn leaves(world: &World, index: usize, work: impl FnOnce(&Transaction)) -> u64 {
    let (before, after) = counted(world, index, work);
    after.leaf_visits - before.leaf_visits
}

#[test]
fn many_values_on_one_leaf_read_it_once() {
    let world = filled(4000, |id| id);
    let near: Vec<i32> = (100..160).collect();
    for way in [Direction::Forward, Direction::Backward] {
        let visits = leaves(&world, 0, |tx| {
            let mut found = scan(&world.table, tx, 0, one(values(&near)), way);
            found.sort_unstable();
            assert_eq!(found, near);
        });
        assert!(visits <= 2, "{visits} leaves {way:?}");
    }
    // Keys far apart: one leaf each, and no leaf in between.
    let far: Vec<i32> = (0..4).map(|n| n * 1000).collect();
    let visits = leaves(&world, 0, |tx| {
        assert_eq!(scan(&world.table, tx, 0, one(values(&far)), Direction::Forward), far);
    });
    assert!(visits <= 4 + 1, "{visits} leaves");
}

#[test]
fn a_skip_scan_reads_what_it_needs_of_each_prefix() {
    let mut world = filled(6000, |id| id % 4);
    let tx = world.begin(0, Isolation::ReadCommitted);
    let order = KeyOrder::ascending(TypeOid::INT4);
    let file = world.engine.create_file(&tx, true).unwrap();
    let mut definition = world.table.definition().clone();
    definition.indexes.push(IndexDefinition::new(
        TableId(4),
        "t_v_id",
        file,
        vec![KeyColumn::column(1, order), KeyColumn::column(0, order)],
    ));
    world.table = Table::open(&world.engine, definition);
    world.table.build_index(&tx, 2, &BuildOptions::default()).unwrap();
    tx.commit(Durability::Flush).unwrap();
    let whole = leaves(&world, 2, |tx| {
        assert_eq!(scan(&world.table, tx, 2, ScanKeys::ALL, Direction::Forward).len(), 6000);
    });
    let range =
        ColumnKeys::Range { lower: Bound::Included(key(4000)), upper: Bound::Excluded(key(4008)) };
    for wanted in [values(&[4000, 4001, 4002, 4003, 4004, 4005, 4006, 4007]), range] {
        let keys = |bounding| ScanKeys { columns: vec![ColumnKeys::Any, wanted.clone()], bounding };
        let in_order = [4000, 4004, 4001, 4005, 4002, 4006, 4003, 4007];
        let skipping = leaves(&world, 2, |tx| {
            let found = scan(&world.table, tx, 2, keys(2), Direction::Forward);
            assert_eq!(found, in_order);
        });
        let backward = leaves(&world, 2, |tx| {
            let mut found = scan(&world.table, tx, 2, keys(2), Direction::Backward);
            found.reverse();
            assert_eq!(found, in_order);
        });
        let comparing = leaves(&world, 2, |tx| {
            assert_eq!(scan(&world.table, tx, 2, keys(0), Direction::Forward), in_order);
        });
        assert_eq!(comparing, whole, "without bounds everything is compared");
        // Two descents for each of four values, and one that finds no fifth value.
        assert!(skipping <= 10 && backward <= 12, "{skipping}, {backward} of {whole} leaves");
    }
}

/// Ways to read the rows with `v = 3`. One of them reads other keys too, which have no rows.
type Way = fn(&World, &Transaction) -> Vec<i32>;

const WAYS: [(&str, Way); 5] = [
    ("forward", |w, tx| scan(&w.table, tx, 1, one(values(&[3])), Direction::Forward)),
    ("backward", |w, tx| scan(&w.table, tx, 1, one(values(&[3])), Direction::Backward)),
    ("array keys", |w, tx| scan(&w.table, tx, 1, one(values(&[3, 77])), Direction::Backward)),
    ("bitmap", |w, tx| {
        let source = BitmapSource::Index { index: 1, keys: one(values(&[3])) };
        bitmap(&w.table, tx, source, 1 << 20).0
    }),
    ("both bitmaps", |w, tx| {
        let low = ColumnKeys::Range {
            lower: Bound::Included(key(0)),
            upper: Bound::Included(key(10_000)),
        };
        let source = BitmapSource::And(vec![
            BitmapSource::Index { index: 0, keys: one(low) },
            BitmapSource::Index { index: 1, keys: one(values(&[3])) },
        ]);
        bitmap(&w.table, tx, source, 1 << 20).0
    }),
];

/// Rows 3, 13, 23, … have `v = 3`. Every second one is deleted: first while a snapshot sees them,
/// then not. Without posting lists each entry has a mark of its own. In a list, live entries keep
/// the dead ones unmarked.
#[test]
fn every_kind_of_scan_marks_what_it_finds_dead() {
    for (name, way) in WAYS {
        for lists in [false, true] {
            let world = filled(300, |id| id % 10);
            let handle = world.table.index(1);
            if lists {
                // More rows of each key fill the leaf, so that its duplicates are merged.
                let tx = world.begin(0, Isolation::ReadCommitted);
                (300..600).for_each(|id| world.insert(&tx, id, id % 10, "t").unwrap());
                tx.commit(Durability::Flush).unwrap();
            }
            assert_eq!(handle.stats().dedup_passes > 0, lists, "{name}");
            let rows = if lists { 60 } else { 30 };
            let tx = world.begin(0, Isolation::ReadCommitted);
            delete(&world, &tx, (3..rows * 10).step_by(20));
            // A snapshot still sees the rows: no entry is marked.
            let held = world.begin(1, Isolation::RepeatableRead);
            let snapshot = held.snapshot().unwrap();
            tx.commit(Durability::Flush).unwrap();
            let living = rows as usize / 2;
            let read = || {
                let (before, after) = counted(&world, 1, |tx| {
                    assert_eq!(way(&world, tx).len(), living, "{name}");
                });
                // The gardener gets no versions that the scan pruned.
                world.table.lose_waiting();
                (after.marked_dead - before.marked_dead, after.entries_read - before.entries_read)
            };
            assert_eq!(read(), (0, rows as u64), "{name}: nobody may be robbed");
            drop(snapshot);
            held.commit(Durability::Flush).unwrap();
            let marked = read().0;
            if lists {
                assert!(marked < living as u64, "{name}: {marked} marked inside lists");
            } else {
                assert_eq!(marked, living as u64, "{name}");
            }
            // Marked entries are not read again.
            assert_eq!(read(), (0, rows as u64 - marked), "{name}");
            world.check();
            // A list that is wholly dead has its mark. Of two bitmaps, the other one then lacks the
            // rows that were dead before: the rest of its list is left to another scan.
            let tx = world.begin(0, Isolation::ReadCommitted);
            delete(&world, &tx, (13..rows * 10).step_by(20));
            tx.commit(Durability::Flush).unwrap();
            let mut now = 0;
            for way in [way, WAYS[0].1] {
                assert!(lists && name == "both bitmaps" || now == 0 || now == rows as u64 - marked);
                let (before, after) = counted(&world, 1, |tx| {
                    assert!(way(&world, tx).is_empty(), "{name}");
                });
                now += after.marked_dead - before.marked_dead;
            }
            assert_eq!(now, rows as u64 - marked, "{name}");
            world.check();
        }
    }
}

/// A scan that stops at the first row has marked the entries that it passed.
#[test]
fn a_scan_that_is_not_read_to_its_end_marks_what_it_passed() {
    let world = filled(200, |id| id);
    let tx = world.begin(0, Isolation::ReadCommitted);
    delete(&world, &tx, 0..50);
    tx.commit(Durability::Flush).unwrap();
    let first = |tx: &Transaction| {
        let snapshot = tx.snapshot().unwrap();
        let mut scan = world.table.index_scan_keys(1, ScanKeys::ALL, Direction::Forward);
        let mut out = vec![Datum::Null; COLUMNS];
        let all = ColumnMask::all(COLUMNS);
        scan.next(&world.table, tx, &snapshot, &all, &mut out).unwrap().expect("a row");
        scan.pause(&world.table).unwrap();
        assert!(matches!(out[0], Datum::Int4(50)), "{out:?}");
    };
    let (before, after) = counted(&world, 1, first);
    assert_eq!(after.marked_dead - before.marked_dead, 50);
    let (before, after) = counted(&world, 1, first);
    assert_eq!(after.marked_dead - before.marked_dead, 0);
    assert_eq!(after.entries_read - before.entries_read, 150);
}

#[test]
fn without_memory_a_bitmap_gives_the_same_rows_and_more() {
    // Long rows: more pages than a bitmap without memory distinguishes.
    let world = World::new(2, false, true);
    let tx = world.begin(0, Isolation::ReadCommitted);
    (0..600).for_each(|id| world.insert(&tx, id, id % 7, &"t".repeat(1500)).unwrap());
    tx.commit(Durability::Flush).unwrap();
    let tx = world.begin(0, Isolation::ReadCommitted);
    let source = || BitmapSource::Index { index: 1, keys: one(values(&[2])) };
    let (exact, effort) = bitmap(&world.table, &tx, source(), 1 << 20);
    let expected: Vec<i32> = (0..600).filter(|id| id % 7 == 2).collect();
    assert_eq!((exact, effort.lossy_pages), (expected.clone(), 0));
    let (lossy, effort) = bitmap(&world.table, &tx, source(), 0);
    assert!(lossy.is_sorted_by(|a, b| a < b), "each row comes once");
    assert!(effort.lossy_pages > 0 && lossy.len() > expected.len(), "{effort:?}");
    let judged: Vec<i32> = lossy.into_iter().filter(|id| id % 7 == 2).collect();
    assert_eq!(judged, expected);
    // Memory for some pages: exact ones and lossy ones in one scan.
    let (mixed, effort) = bitmap(&world.table, &tx, source(), 6000);
    assert!(effort.lossy_pages > 0 && effort.exact_pages > 0, "{effort:?}");
    assert_eq!(mixed.into_iter().filter(|id| id % 7 == 2).collect::<Vec<_>>(), expected);
}

/// A queue: rows come at the tail and go at the head, and scans read the due rows. The index keeps
/// its size, with each kind of scan.
#[test]
fn a_queue_keeps_its_index_small() {
    const LENGTH: i32 = 40;
    for by_bitmap in [false, true] {
        let world = World::new(2, true, true);
        let due = |tx: &Transaction, head: i32| {
            let upper = Bound::Included(key(head));
            let range = one(ColumnKeys::Range { lower: Bound::Unbounded, upper });
            if by_bitmap {
                let source = BitmapSource::Index { index: 1, keys: range };
                bitmap(&world.table, tx, source, 1 << 20).0
            } else {
                scan(&world.table, tx, 1, range, Direction::Forward)
            }
        };
        let mut blocks = 0;
        for tail in 0..1500 {
            let tx = world.begin(0, Isolation::ReadCommitted);
            world.insert(&tx, tail, tail, "t").unwrap();
            tx.next_command().unwrap();
            if tail >= LENGTH {
                let head = tail - LENGTH;
                assert_eq!(due(&tx, head), [head]);
                delete(&world, &tx, std::iter::once(head));
            }
            tx.commit(Durability::Flush).unwrap();
            if tail == 300 {
                blocks = world.table.index(1).blocks().unwrap();
            }
        }
        assert_eq!(world.table.index(1).blocks().unwrap(), blocks, "by bitmap: {by_bitmap}");
        let stats = world.table.index_stats(1);
        assert!(stats.dead_leaf_entries > 1200 && stats.deleted_pages > 300, "{stats:?}");
        world.check();
        let rows = (1500 - LENGTH..1500).collect::<Vec<i32>>();
        let tx = world.begin(0, Isolation::ReadCommitted);
        assert_eq!(due(&tx, 1500), rows);
    }
}
