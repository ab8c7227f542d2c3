//! The findings of a table check: each test makes one damage, and has the name of its invariant.

mod support;

use niwaki_nbtree::{EntryDecision, NewEntry};
use niwaki_storage::{Tid, Xid};
use niwaki_table::{RowTarget, Table, UpdateOutcome, Workspace};
use niwaki_txn::{Durability, Isolation};

use support::World;

/// Makes a table with rows 0 to 3; row 0 has been updated on its page.
fn world() -> World {
    let world = World::new(2, false, true);
    let tx = world.begin(0, Isolation::ReadCommitted);
    for id in 0..4 {
        world.insert(&tx, id, id, "x").unwrap();
    }
    tx.commit(Durability::Flush).unwrap();
    let tx = world.begin(0, Isolation::ReadCommitted);
    let snapshot = tx.snapshot_for_write().unwrap();
    let (target, old) = world.find(&tx, &snapshot, 0).unwrap();
    let done = world.update(&tx, &snapshot, target, &old, (0, 0, "y")).unwrap();
    assert_eq!(done, UpdateOutcome::Done { root: target.root }, "heap-only");
    drop(snapshot);
    tx.commit(Durability::Flush).unwrap();
    world.check();
    world
}

fn key(world: &World, index: usize, value: i32) -> Vec<u8> {
    let mut key = Vec::new();
    world.table.encode_index_key(index, &world.row(value, value, ""), &mut key).unwrap();
    key
}

fn root(world: &World, id: i32) -> Tid {
    let tx = world.begin(0, Isolation::ReadCommitted);
    let snapshot = tx.snapshot().unwrap();
    let RowTarget { root, .. } = world.find(&tx, &snapshot, id).unwrap().0;
    drop(snapshot);
    drop(tx);
    root
}

/// Puts an entry into the index on v that does not belong there.
fn enter(world: &World, value: i32, tid: Tid) {
    let key = key(world, 1, value);
    let entry = NewEntry { key: &key, payload: &[], tid, xid: Xid(3), logically_unchanged: false };
    world.table.index(1).insert(&entry, None, None).unwrap();
}

fn found(world: &World) -> Vec<&'static str> {
    let mut names: Vec<_> =
        world.table.check().unwrap().corruptions.into_iter().map(|c| c.invariant).collect();
    names.dedup();
    names
}

#[test]
fn x1_a_row_without_an_entry() {
    let world = world();
    let root = root(&world, 2);
    let key = key(&world, 1, 2);
    let index = world.table.index(1);
    let mut decide = || Ok((EntryDecision::Delete, None));
    assert!(index.delete_entry(&key, root, Xid(3), &mut decide).unwrap());
    assert_eq!(found(&world), ["X1"]);
}

#[test]
fn x3_a_stale_entry_of_a_root_that_is_not_mixed() {
    let world = world();
    let root = root(&world, 2);
    enter(&world, 77, root);
    assert_eq!(found(&world), ["X3"]);
}

#[test]
fn x4_an_entry_of_an_unused_line_pointer() {
    let world = world();
    enter(&world, 77, Tid::new(0, 200));
    assert_eq!(found(&world), ["X4"]);
}

#[test]
fn h2_an_entry_of_a_heap_only_version() {
    let world = world();
    // Rows 0 to 3 are at 1 to 4, the second version of row 0 at 5.
    enter(&world, 0, Tid::new(0, 5));
    assert_eq!(found(&world), ["H2"]);
}

/// A reader that follows an entry to a root that is not mixed does not look at the version's key.
#[test]
fn x3_a_version_of_another_key_under_a_root_that_is_not_mixed() {
    let world = world();
    // An update by a session that does not know of the index on v stays on its page.
    let unindexed = {
        let mut definition = world.table.definition().clone();
        definition.indexes.truncate(1);
        Table::open(&world.engine, definition)
    };
    let tx = world.begin(0, Isolation::ReadCommitted);
    let snapshot = tx.snapshot_for_write().unwrap();
    let (target, old) = world.find(&tx, &snapshot, 2).unwrap();
    let new = world.row(2, 77, "x");
    let done = unindexed.update(&tx, &snapshot, target, &old, &new, &mut Workspace::new());
    assert_eq!(done.unwrap(), UpdateOutcome::Done { root: target.root }, "heap-only");
    drop(snapshot);
    tx.commit(Durability::Flush).unwrap();
    // The new version has no entry of its own (X1). The entry of the old version leads to it; that
    // version is still on the page.
    assert_eq!(found(&world), ["X1", "X3"]);
}
