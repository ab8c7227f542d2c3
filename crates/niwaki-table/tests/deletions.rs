//! Rows that come and go: their remains go without vacuum.

mod support;

use niwaki_heap::ItemKind;
use niwaki_table::UpdateOutcome;
use niwaki_txn::{Durability, Isolation};
use support::World;

fn insert(world: &World, id: i32, v: i32) {
    world.stamp();
    let tx = world.begin(0, Isolation::ReadCommitted);
    world.insert(&tx, id, v, "t").unwrap();
    tx.commit(Durability::Flush).unwrap();
}

fn delete(world: &World, id: i32, commits: bool) {
    let tx = world.begin(0, Isolation::ReadCommitted);
    let snapshot = tx.snapshot_for_write().unwrap();
    let (target, _) = world.find(&tx, &snapshot, id).expect("a row");
    assert!(matches!(world.table.delete(&tx, &snapshot, target), Ok(UpdateOutcome::Done { .. })));
    drop(snapshot);
    if commits {
        tx.commit(Durability::Flush).unwrap();
    } else {
        tx.abort();
    }
}

/// Counts the line pointers that are roots, with or without a row.
fn roots(world: &World) -> usize {
    let mut roots = 0;
    for block in 0..world.table.blocks().unwrap() {
        let see = |_, kind| roots += usize::from(kind == ItemKind::Root { mixed: false });
        world.table.heap().check_page(block, &mut Vec::new(), see, |_| {}).unwrap();
    }
    roots
}

/// Holds for each kind of update, also beside an old snapshot that sees none of the rows.
#[test]
fn rows_that_come_and_go_leave_nothing() {
    const ROWS: i32 = 60;
    for (any_key, held) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut world = World::new(3, false, true);
        if !any_key {
            world.keep_to_same_keys();
        }
        let old = world.begin(2, Isolation::RepeatableRead);
        let snapshot = held.then(|| old.snapshot().unwrap());
        for turn in 0..100 {
            let ids = turn * ROWS..(turn + 1) * ROWS;
            ids.clone().for_each(|id| insert(&world, id, -id));
            if turn % 10 == 0 {
                delete(&world, turn * ROWS, false);
            }
            ids.for_each(|id| delete(&world, id, true));
        }
        world.check();
        let blocks = world.table.blocks().unwrap();
        let leaves = [0, 1].map(|index| world.table.index(index).blocks().unwrap());
        assert!(blocks <= 3, "{blocks} blocks, any_key {any_key}, held {held}");
        assert!(leaves.iter().all(|&pages| pages <= 4), "{leaves:?}, any_key {any_key}");
        let waiting = roots(&world);
        assert!(waiting < 400, "{waiting} of 6000 line pointers");
        let deleted = world.table.stats().gardener_deleted;
        assert!(deleted > 11_000, "{deleted} of 12000 entries");
        drop(snapshot);
        old.abort();
        world.compare_with_redo(&support::Rows::default());
    }
}

/// Rolled back rows go as deleted ones do.
#[test]
fn rows_that_never_were_leave_nothing() {
    let world = World::new(1, false, true);
    for turn in 0..60 {
        let tx = world.begin(0, Isolation::ReadCommitted);
        for id in 0..60 {
            world.stamp();
            world.insert(&tx, id, turn - id, "t").unwrap();
        }
        tx.abort();
        world.prune();
        insert(&world, 100 + turn, turn);
        for block in 0..world.table.blocks().unwrap() {
            world.table.heap().prune_page(block).unwrap();
        }
    }
    world.check();
    let deleted = world.table.stats().gardener_deleted;
    assert!(deleted > 6000, "{deleted} of 7200 entries");
    let waiting = roots(&world);
    assert!(
        waiting < 400,
        "{waiting} of 3600 line pointers, {deleted} deleted, {} blocks",
        world.table.blocks().unwrap()
    );
}
