//! Updates with an entry in every index (`heap_only_updates = off`), and the entries that they
//! leave.

mod support;

use niwaki_nbtree::{IndexOptions, IndexStats};
use niwaki_table::{HeapOnlyUpdates, Table, UpdateOutcome};
use niwaki_txn::{Durability, Isolation, Transaction};
use support::World;

const ROWS: i32 = 600;

/// Makes rows whose updates never stay heap-only: each puts an entry in both indexes.
fn churning(bottom_up_deletion: bool) -> World {
    let world = churning_with(ROWS, |id| id / 4, "row");
    for number in 0..2 {
        let index = world.table.index(number);
        let extras = bottom_up_deletion;
        let options = IndexOptions { simple_deletion_extras: extras, ..index.options() };
        index.set_options(IndexOptions { bottom_up_deletion, ..options });
    }
    world
}

fn churning_with(rows: i32, v: impl Fn(i32) -> i32, text: &str) -> World {
    let mut world = World::new(2, false, true);
    let mut definition = world.table.definition().clone();
    definition.heap_only_updates = HeapOnlyUpdates::Off;
    world.table = Table::open(&world.engine, definition);
    let tx = world.begin(0, Isolation::ReadCommitted);
    for id in 0..rows {
        world.stamp();
        world.insert(&tx, id, v(id), text).unwrap();
    }
    tx.commit(Durability::Flush).unwrap();
    world
}

/// Replaces a row, keys unchanged.
fn update(world: &World, tx: &Transaction, id: i32) {
    world.stamp();
    let snapshot = tx.snapshot_for_write().unwrap();
    let (target, old) = world.find(tx, &snapshot, id).expect("a row");
    let done = world.update(tx, &snapshot, target, &old, (id, id / 4, "row")).unwrap();
    assert!(matches!(done, UpdateOutcome::Done { .. }), "{done:?}");
    tx.next_command().unwrap();
}

/// Updates rows of one in four places, each in its own transaction. The updates are as uneven as
/// real ones.
fn churn(world: &World, updates: i32) {
    for n in 0..updates {
        let tx = world.begin(0, Isolation::ReadCommitted);
        update(world, &tx, (n * n + n / 7) % (ROWS / 4) * 4);
        tx.commit(Durability::Flush).unwrap();
    }
}

fn sizes(world: &World) -> Vec<u32> {
    (0..2).map(|index| world.table.index(index).blocks().unwrap()).collect()
}

fn stats(world: &World, index: usize) -> IndexStats {
    world.table.index(index).stats()
}

#[test]
fn versions_leave_indexes_their_size() {
    let world = churning(true);
    // The first updates fill the space that the insertion of the rows left free.
    churn(&world, 6_000);
    let before = sizes(&world);
    let splits = || [0, 1].map(|index| stats(&world, index).leaf_splits);
    let splits_before = splits();
    churn(&world, 20_000);
    assert_eq!((sizes(&world), splits()), (before, splits_before), "{:#?}", stats(&world, 1));
    // Unique checks mark dead entries, so the other index needs the deletion.
    let stats = stats(&world, 1);
    assert!(stats.bottom_up_deleted_entries > 10_000, "{stats:?}");
    assert!(stats.bottom_up_heap_blocks_max <= 6, "{stats:?}");
    world.check();
    let tx = world.begin(0, Isolation::ReadCommitted);
    let snapshot = tx.snapshot().unwrap();
    let rows = world.rows(&tx, &snapshot);
    assert_eq!(rows.len(), ROWS as usize);
    world.compare_with_redo(&rows);
}

#[test]
fn without_it_they_grow() {
    let world = churning(false);
    churn(&world, 2_000);
    let before = sizes(&world);
    churn(&world, 6_000);
    let after = sizes(&world);
    // The checks of the unique index mark dead entries.
    assert!(after[1] > before[1], "{before:?} {after:?}");
    assert_eq!(stats(&world, 1).bottom_up_deletions, 0);
    world.check();
}

/// Rows that an old snapshot needs stay, whatever room is wanted.
#[test]
fn a_held_snapshot_keeps_its_rows() {
    let world = churning(true);
    churn(&world, 500);
    let held = world.begin(1, Isolation::RepeatableRead);
    let snapshot = held.snapshot().unwrap();
    let before = world.rows(&held, &snapshot);
    churn(&world, 4_000);
    assert_eq!(world.rows(&held, &snapshot), before);
    world.check();
    drop(snapshot);
    held.commit(Durability::Flush).unwrap();
    churn(&world, 500);
    let grown = sizes(&world);
    churn(&world, 4_000);
    assert_eq!(sizes(&world), grown, "growth ends with the snapshot");
    world.check();
}

/// A transaction's own versions cannot be removed before its end: it makes only a few tries.
#[test]
fn own_versions_are_looked_for_rarely() {
    let world = churning(true);
    let tx = world.begin(0, Isolation::ReadCommitted);
    for _ in 0..30 {
        for id in 0..ROWS {
            update(&world, &tx, id);
        }
    }
    tx.commit(Durability::Flush).unwrap();
    for index in 0..2 {
        let stats = stats(&world, index);
        assert!(stats.leaf_splits + stats.dedup_passes > 40, "{stats:?}");
        assert!(stats.bottom_up_deletions <= 24, "{stats:?}");
    }
    world.check();
}

/// Rows of several pages, updated unevenly ten times each, without vacuum: every leaf finds dead
/// entries.
#[test]
fn ten_updates_a_row_and_not_one_page() {
    const ROWS: i32 = 3_000;
    let world = churning_with(ROWS, |id| id, &"row ".repeat(17));
    let start = sizes(&world);
    let mut rng = support::Rng::new(7);
    for _ in 0..10 * ROWS {
        let id: u64 = (0..3).map(|_| rng.below(1_000)).sum();
        let tx = world.begin(0, Isolation::ReadCommitted);
        world.stamp();
        let snapshot = tx.snapshot_for_write().unwrap();
        let (target, old) = world.find(&tx, &snapshot, id as i32).expect("a row");
        let new = (id as i32, id as i32, &*"row ".repeat(17));
        world.update(&tx, &snapshot, target, &old, new).unwrap();
        drop(snapshot);
        tx.commit(Durability::Flush).unwrap();
    }
    assert_eq!(sizes(&world), start);
    let stats = stats(&world, 1);
    assert!(stats.bottom_up_deleted_entries > 25_000, "{stats:?}");
    assert_eq!(stats.bottom_up_useless, 0, "{stats:?}");
    world.check();
}

/// Entries deleted by passes over leaves free line pointers, without vacuum.
#[test]
fn the_heap_keeps_its_size_without_a_vacuum() {
    let world = churning(true);
    churn(&world, 6_000);
    let before = world.table.blocks().unwrap();
    churn(&world, 30_000);
    assert_eq!(world.table.blocks().unwrap(), before);
    world.check();
    let tx = world.begin(0, Isolation::ReadCommitted);
    let snapshot = tx.snapshot().unwrap();
    let rows = world.rows(&tx, &snapshot);
    assert_eq!(rows.len(), ROWS as usize);
    world.compare_with_redo(&rows);
}
