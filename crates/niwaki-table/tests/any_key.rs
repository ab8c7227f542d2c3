//! Updates with `heap_only_updates = any_key`: the indexes they touch, and the entries they leave.

mod support;

use niwaki_heap::ItemKind;
use niwaki_nbtree::IndexStats;
use niwaki_table::UpdateOutcome;
use niwaki_txn::{Durability, Isolation};
use support::{Rows, World};

/// Makes rows 0 to 4 with v = id.
fn world() -> World {
    let world = World::new(3, false, true);
    let tx = world.begin(0, Isolation::ReadCommitted);
    for id in 0..5 {
        world.stamp();
        world.insert(&tx, id, id, "t").unwrap();
    }
    tx.commit(Durability::Flush).unwrap();
    world
}

/// Gives row `id` these values. Returns true when the row kept its root.
fn update(world: &World, id: i32, new: (i32, i32, &str), commits: bool) -> bool {
    world.stamp();
    let tx = world.begin(0, Isolation::ReadCommitted);
    let snapshot = tx.snapshot_for_write().unwrap();
    let (target, old) = world.find(&tx, &snapshot, id).expect("a row");
    let done = world.update(&tx, &snapshot, target, &old, new).unwrap();
    drop(snapshot);
    if commits {
        tx.commit(Durability::Flush).unwrap();
    } else {
        tx.abort();
    }
    world.check();
    done == UpdateOutcome::Done { root: target.root }
}

/// Returns the entries inserted, and the entries found to exist already, by index.
fn entries(world: &World) -> [(u64, u64); 2] {
    let of = |stats: IndexStats| (stats.inserts, stats.suppressed_duplicates);
    [of(world.table.index_stats(0)), of(world.table.index_stats(1))]
}

fn all(world: &World) -> Rows {
    let tx = world.begin(1, Isolation::ReadCommitted);
    let snapshot = tx.snapshot().unwrap();
    world.rows(&tx, &snapshot)
}

#[test]
fn an_entry_only_where_the_key_changed_and_none_that_is_there() {
    let world = world();
    assert_eq!(entries(&world), [(5, 0), (5, 0)]);
    assert!(update(&world, 2, (2, 2, "another text"), true));
    assert_eq!(entries(&world), [(5, 0), (5, 0)], "no key changed");
    assert!(update(&world, 2, (2, 8, "t"), true));
    assert_eq!(entries(&world), [(5, 0), (6, 0)], "v changed");
    assert!(update(&world, 2, (2, 2, "t"), true));
    assert_eq!(entries(&world), [(5, 0), (6, 1)], "and went back");
    assert!(update(&world, 2, (7, 2, "t"), true));
    assert_eq!(entries(&world), [(6, 0), (6, 1)], "the primary key changed");
    assert!(update(&world, 7, (7, 8, "t"), false));
    assert_eq!(entries(&world), [(6, 0), (6, 2)], "rolled back");
    assert_eq!(world.table.stats().updates.heap_only_total(), 5);
    let rows = all(&world);
    assert_eq!(rows.keys().copied().collect::<Vec<_>>(), [0, 1, 3, 4, 7]);
    assert_eq!(rows[&7].0, 2);
    world.compare_with_redo(&rows);
}

/// While an old snapshot holds all versions, a key that goes round has one entry per value (D1).
#[test]
fn keys_that_go_round_leave_one_entry_each() {
    let world = world();
    let old = world.begin(2, Isolation::RepeatableRead);
    let snapshot = old.snapshot().unwrap();
    let before = world.rows(&old, &snapshot);
    let root = world.find(&old, &snapshot, 1).unwrap().0.root;
    for turn in 0..30 {
        assert!(update(&world, 1, (1, 10 + turn % 3, "t"), true), "turn {turn}");
    }
    let [(by_id, _), (by_v, suppressed)] = entries(&world);
    assert_eq!((by_id, by_v, suppressed), (5, 8, 27));
    assert_eq!(world.rows(&old, &snapshot), before, "the old snapshot sees what it saw");
    assert_eq!(world.find(&old, &snapshot, 1).unwrap().0.root, root);
    drop(snapshot);
    drop(old);
    world.compare_with_redo(&all(&world));
    world.vacuum(1, true);
    world.check();
}

/// A version that does not fit is a new root, with entries everywhere.
#[test]
fn a_version_that_does_not_fit_moves() {
    let world = world();
    // The longest value that stays plain.
    let long = "x".repeat(1900);
    (0..4).for_each(|id| assert!(update(&world, id, (id, id, &long), true)));
    let before = entries(&world);
    assert!(!update(&world, 4, (4, 4, &long), true), "the page is full");
    let after = entries(&world);
    assert_eq!((after[0].0, after[1].0), (before[0].0 + 1, before[1].0 + 1));
    world.compare_with_redo(&all(&world));
}

/// Keys that change again and again leave no entries behind: pruning passes report them, and the
/// next writer removes them (D1).
#[test]
fn entries_of_removed_versions_go_without_vacuum() {
    let world = world();
    let (rows, rounds) = (5, 400);
    for round in 0..rounds {
        for id in 0..rows {
            assert!(update(&world, id, (id, 10 + round * rows + id, "t"), true));
        }
    }
    let changes = u64::try_from(rows * rounds).unwrap();
    let [(by_id, _), (by_v, _)] = entries(&world);
    assert_eq!((by_id, by_v), (5, 5 + changes));
    let gone = world.table.index_stats(1).retail_deleted_entries;
    // A page holds about a hundred of these versions, and two batches may wait.
    assert!(gone + 150 > changes, "{gone} of {changes}");
    assert_eq!(world.table.index_stats(0).retail_deleted_entries, 0, "no key of it changed");
    assert_eq!(world.table.index_stats(1).leaf_splits, 0, "the index stays a single leaf");
    world.compare_with_redo(&all(&world));
}

/// Versions that a snapshot sees keep their entries, and lose them when the snapshot ends.
#[test]
fn entries_of_versions_that_a_snapshot_sees_stay() {
    let world = world();
    let old = world.begin(2, Isolation::RepeatableRead);
    let snapshot = old.snapshot().unwrap();
    let before = world.rows(&old, &snapshot);
    for round in 0..600 {
        assert!(update(&world, round % 5, (round % 5, 10 + round, "t"), true));
    }
    let gone = world.table.index_stats(1).retail_deleted_entries;
    assert!((300..600).contains(&gone), "those between go: {gone}");
    assert_eq!(world.rows(&old, &snapshot), before);
    drop(snapshot);
    drop(old);
    for round in 600..1200 {
        assert!(update(&world, round % 5, (round % 5, 10 + round, "t"), true));
    }
    let later = world.table.index_stats(1).retail_deleted_entries;
    assert!(later >= gone + 500, "{gone}, {later}");
    world.compare_with_redo(&all(&world));
}

/// Counts the mixed roots.
fn mixed(world: &World) -> usize {
    let mut mixed = 0;
    for block in 0..world.table.blocks().unwrap() {
        let see = |_, kind| mixed += usize::from(kind == ItemKind::Root { mixed: true });
        world.table.heap().check_page(block, &mut Vec::new(), see, |_| {}).unwrap();
    }
    mixed
}

/// Changes of keys make roots mixed. Once the entries of all old versions are gone, the next pass
/// over the page clears the roots, without vacuum (rule `complete-record`).
#[test]
fn roots_settle() {
    let world = world();
    let change_keys = |from: i32| {
        for v in from..from + 40 {
            (0..5).for_each(|id| assert!(update(&world, id, (id, v, "t"), true)));
        }
    };
    // Row 0's versions fill the page and the gardener's batches.
    let fill = || {
        (0..400).for_each(|turn: i32| {
            let v = all(&world)[&0].0;
            assert!(update(&world, 0, (0, v, if turn % 2 == 0 { "u" } else { "t" }), true));
        });
    };
    change_keys(100);
    assert_eq!(mixed(&world), 5);
    fill();
    assert!(mixed(&world) <= 1, "only row 0 can be: {}", mixed(&world));
    let rows = all(&world);
    world.compare_with_redo(&rows);
    // While freeing is paused, no root is cleared.
    let paused = world.table.heap().pause_freeing();
    change_keys(200);
    fill();
    assert_eq!(mixed(&world), 5);
    drop(paused);
    fill();
    assert!(mixed(&world) <= 1);
    // A change of indexes drops the clean-up ledger: from then on only vacuum clears roots.
    change_keys(300);
    drop(world.table.heap().pause_freeing().forgetting());
    fill();
    assert!(mixed(&world) >= 4);
    world.vacuum(1, false);
    assert_eq!(mixed(&world), 0);
}

/// Line pointers of deleted rows that had several keys come back without vacuum.
#[test]
fn line_pointers_of_mixed_roots_come_back() {
    let world = world();
    for id in 5..4_000 {
        world.stamp();
        let tx = world.begin(0, Isolation::ReadCommitted);
        world.insert(&tx, id, id, "t").unwrap();
        tx.commit(Durability::Flush).unwrap();
        let tx = world.begin(0, Isolation::ReadCommitted);
        let snapshot = tx.snapshot_for_write().unwrap();
        let (target, old) = world.find(&tx, &snapshot, id).expect("a row");
        world.update(&tx, &snapshot, target, &old, (id, -id, "t")).unwrap();
        drop(snapshot);
        tx.commit(Durability::Flush).unwrap();
        let tx = world.begin(0, Isolation::ReadCommitted);
        let snapshot = tx.snapshot_for_write().unwrap();
        let (target, _) = world.find(&tx, &snapshot, id).expect("a row");
        assert!(matches!(
            world.table.delete(&tx, &snapshot, target),
            Ok(UpdateOutcome::Done { .. })
        ));
        drop(snapshot);
        tx.commit(Durability::Flush).unwrap();
    }
    world.check();
    let blocks = world.table.blocks().unwrap();
    assert!(blocks <= 4, "{blocks} blocks for 5 rows");
    world.compare_with_redo(&all(&world));
}
