//! Scans by array keys, by skipping and by bitmaps: how much of an index they read, and which dead
//! entries they leave marked.

mod support;

use std::ops::Bound;

use niwaki_nbtree::IndexStats;
use niwaki_table::{
    BitmapSource, BuildOptions, ColumnKeys, Direction, IndexDefinition, KeyColumn, PageRows,
    ScanKeys, Table,
};
use niwaki_txn::{Durability, Isolation, Transaction};
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

fn bitmap(table: &Table, tx: &Transaction, source: BitmapSource, memory: usize) -> Vec<i32> {
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
    found
}

/// What `work` does to an index's counters.
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
    // Far apart: one leaf each, and none in between.
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
        4,
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
        // Two descents for each of four values, and one to find out that there is no fifth.
        assert!(skipping <= 10 && backward <= 12, "{skipping}, {backward} of {whole} leaves");
    }
}

#[test]
fn every_kind_of_scan_marks_what_it_finds_dead() {
    type Way = fn(&World, &Transaction) -> Vec<i32>;
    let ways: [(&str, Way); 5] = [
        ("forward", |w, tx| scan(&w.table, tx, 1, one(values(&[3])), Direction::Forward)),
        ("backward", |w, tx| scan(&w.table, tx, 1, one(values(&[3])), Direction::Backward)),
        ("array keys", |w, tx| scan(&w.table, tx, 1, one(values(&[3, 77])), Direction::Backward)),
        ("bitmap", |w, tx| {
            let source = BitmapSource::Index { index: 1, keys: one(values(&[3])) };
            bitmap(&w.table, tx, source, 1 << 20)
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
            bitmap(&w.table, tx, source, 1 << 20)
        }),
    ];
    for (name, way) in ways {
        let world = filled(300, |id| id % 10);
        let tx = world.begin(0, Isolation::ReadCommitted);
        for id in (3..300).step_by(20) {
            let snapshot = tx.snapshot_for_write().unwrap();
            let (target, _) = world.find(&tx, &snapshot, id).expect("a row");
            world.table.delete(&tx, &snapshot, target).unwrap();
            tx.next_command().unwrap();
        }
        // Somebody still sees the rows: nothing is marked.
        let held = world.begin(1, Isolation::RepeatableRead);
        let snapshot = held.snapshot().unwrap();
        tx.commit(Durability::Flush).unwrap();
        let (before, after) = counted(&world, 1, |tx| {
            assert_eq!(way(&world, tx).len(), 15, "{name}");
        });
        assert_eq!(after.marked_dead, before.marked_dead, "{name}");
        drop(snapshot);
        held.commit(Durability::Flush).unwrap();
        let (before, after) = counted(&world, 1, |tx| {
            assert_eq!(way(&world, tx).len(), 15, "{name}");
        });
        assert_eq!(after.marked_dead - before.marked_dead, 15, "{name}");
        // Marked entries are not read again.
        let (before, after) = counted(&world, 1, |tx| {
            assert_eq!(way(&world, tx).len(), 15, "{name}");
        });
        assert_eq!(after.entries_read - before.entries_read, 15, "{name}");
        world.check();
    }
}

#[test]
fn without_memory_a_bitmap_gives_the_same_rows_and_more() {
    let world = filled(3000, |id| id % 7);
    let tx = world.begin(0, Isolation::ReadCommitted);
    let source = || BitmapSource::Index { index: 1, keys: one(values(&[2])) };
    let exact = bitmap(&world.table, &tx, source(), 1 << 20);
    let expected: Vec<i32> = (0..3000).filter(|id| id % 7 == 2).collect();
    assert_eq!(exact, expected);
    let lossy = bitmap(&world.table, &tx, source(), 0);
    assert!(lossy.is_sorted() && expected.iter().all(|id| lossy.binary_search(id).is_ok()));
    assert!(lossy.len() > expected.len(), "pages became lossy");
}
