//! Scans by array keys and by skipping: how much of an index they read.

mod support;

use std::ops::Bound;

use niwaki_nbtree::IndexStats;
use niwaki_table::{
    BuildOptions, ColumnKeys, Direction, IndexDefinition, KeyColumn, ScanKeys, Table,
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
