//! Recovery from crash images of a table's work.
//!
//! An image is taken at every change of the file system, with unsynced writes kept, lost and torn.
//! Recovery must give the rows of some commit, and none before the last acknowledged one. Heap and
//! indexes must agree.

mod support;

use std::sync::Arc;

use niwaki_env::vfs::{CrashOptions, FaultyVfs, MemoryVfs, Vfs};
use niwaki_table::{TableDefinition, UpdateOutcome};
use niwaki_txn::{Durability, Isolation, Transaction};

use support::{Rng, Rows, World, open_engine};

/// Rows after a commit, and the number of file changes made when it was acknowledged.
struct Committed {
    rows: Rows,
    at: u64,
}

/// Changes one row, or inserts it. Returns true if it did.
fn change(world: &World, rng: &mut Rng, tx: &Transaction, rows: &mut Rows) {
    let id = rng.below(8) as i32;
    let v = rng.below(3) as i32;
    let len = if rng.below(5) == 0 { 2500 } else { rng.below(60) as usize };
    let text = "x".repeat(len);
    let stamp = world.stamp();
    let snapshot = tx.snapshot_for_write().unwrap();
    let found = world.find(tx, &snapshot, id);
    match found {
        None => {
            world.insert(tx, id, v, &text).unwrap();
            rows.insert(id, (v, len, stamp));
        }
        Some((target, _)) if rng.below(5) == 0 => {
            let done = world.table.delete(tx, &snapshot, target).unwrap();
            assert!(matches!(done, UpdateOutcome::Done { .. }));
            rows.remove(&id);
        }
        Some((target, old)) => {
            let v = if rng.below(2) == 0 { rows[&id].0 } else { v };
            let done = world.update(tx, &snapshot, target, &old, (id, v, &text)).unwrap();
            assert!(matches!(done, UpdateOutcome::Done { .. }));
            rows.insert(id, (v, len, stamp));
        }
    }
    tx.next_command().unwrap();
}

#[test]
fn every_moment_recovers() {
    let vfs = FaultyVfs::new();
    vfs.record();
    let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
    // Few frames, so that pages are written early.
    let engine = open_engine(shared, 16).unwrap();
    let world = World::on(engine, Arc::new(MemoryVfs::new()), 2, true, true);
    let mut rng = Rng::new(7);
    let mut rows = Rows::new();
    let mut history = vec![Committed { rows: rows.clone(), at: vfs.changes() }];
    for round in 0..60 {
        let tx = world.begin(0, Isolation::ReadCommitted);
        let mut after = rows.clone();
        change(&world, &mut rng, &tx, &mut after);
        if rng.below(3) == 0 {
            tx.savepoint("s");
            change(&world, &mut rng, &tx, &mut after.clone());
            tx.rollback_to("s").unwrap();
            tx.next_command().unwrap();
        }
        change(&world, &mut rng, &tx, &mut after);
        if rng.below(6) == 0 {
            tx.abort();
        } else {
            tx.commit(Durability::Flush).unwrap();
            rows = after;
            history.push(Committed { rows: rows.clone(), at: vfs.changes() });
        }
        if round % 15 == 7 {
            world.vacuum(1, round % 2 == 0);
        }
        if round % 20 == 11 {
            world.checkpoint();
        }
    }
    let images = recover_every_moment(&vfs, world.table.definition(), &history);
    assert!(images > 400, "only {images} images");
}

/// A queue with a head that only scans read. They empty the leaves that they find dead.
#[test]
fn every_moment_of_a_queue_recovers() {
    let vfs = FaultyVfs::new();
    vfs.record();
    let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let engine = open_engine(shared, 16).unwrap();
    let world = World::on(engine, Arc::new(MemoryVfs::new()), 2, true, true);
    let mut rows = Rows::new();
    let mut history = vec![Committed { rows: rows.clone(), at: vfs.changes() }];
    for tail in 0..70 {
        let tx = world.begin(0, Isolation::ReadCommitted);
        let stamp = world.stamp();
        world.insert(&tx, tail, tail, "x").unwrap();
        rows.insert(tail, (tail, 1, stamp));
        tx.next_command().unwrap();
        if tail >= 12 {
            let snapshot = tx.snapshot_for_write().unwrap();
            let (target, _) = world.find(&tx, &snapshot, tail - 12).unwrap();
            world.table.delete(&tx, &snapshot, target).unwrap();
            rows.remove(&(tail - 12));
        }
        tx.commit(Durability::Flush).unwrap();
        history.push(Committed { rows: rows.clone(), at: vfs.changes() });
        // Reads both indexes, in both directions.
        let tx = world.begin(0, Isolation::ReadCommitted);
        let snapshot = tx.snapshot().unwrap();
        assert_eq!(world.rows(&tx, &snapshot), rows);
        drop(snapshot);
        drop(tx);
        if tail % 25 == 20 {
            world.checkpoint();
        }
    }
    let deleted = world.table.index_stats(1).deleted_pages;
    assert!(deleted > 8, "only {deleted} pages were deleted");
    let images = recover_every_moment(&vfs, world.table.definition(), &history);
    assert!(images > 400, "only {images} images");
}

/// The ends of the heap and of the heap of large values are cut and grow again, with checkpoints at
/// every point.
#[test]
fn every_moment_of_a_heap_that_is_cut_and_grows_again_recovers() {
    const KEPT: i32 = 4;
    const ROWS: i32 = 24;
    let vfs = FaultyVfs::new();
    vfs.record();
    let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let engine = open_engine(shared, 16).unwrap();
    let world = World::on(engine, Arc::new(MemoryVfs::new()), 2, true, true);
    let mut rows = Rows::new();
    let mut history = vec![Committed { rows: rows.clone(), at: vfs.changes() }];
    let (mut cut, mut values_cut) = (0, 0);
    for round in 0..6 {
        let first = if round == 0 { 0 } else { KEPT };
        for ids in (first..ROWS).collect::<Vec<_>>().chunks(7) {
            let tx = world.begin(0, Isolation::ReadCommitted);
            for &id in ids {
                let stamp = world.stamp();
                // Five rows on a page, or texts that do not compress.
                let text = if id % 3 == 2 { noise(stamp) } else { "x".repeat(1_500) };
                world.insert(&tx, id, id + round, &text).unwrap();
                rows.insert(id, (id + round, text.len(), stamp));
                tx.next_command().unwrap();
            }
            tx.commit(Durability::Flush).unwrap();
            history.push(Committed { rows: rows.clone(), at: vfs.changes() });
        }
        if round % 3 == 0 {
            world.checkpoint();
        }
        let tx = world.begin(0, Isolation::ReadCommitted);
        let snapshot = tx.snapshot_for_write().unwrap();
        for id in KEPT..ROWS {
            let (target, _) = world.find(&tx, &snapshot, id).unwrap();
            world.table.delete(&tx, &snapshot, target).unwrap();
            rows.remove(&id);
            tx.next_command().unwrap();
        }
        drop(snapshot);
        tx.commit(Durability::Flush).unwrap();
        history.push(Committed { rows: rows.clone(), at: vfs.changes() });
        if round % 3 == 1 {
            world.checkpoint();
        }
        let summary = world.vacuum(1, round % 2 == 0);
        (cut, values_cut) = (cut + summary.cut, values_cut + summary.values_cut);
        if round % 3 == 2 {
            world.checkpoint();
        }
    }
    assert!(cut >= 12 && values_cut >= 6, "{cut} and {values_cut} pages were cut");
    let images = recover_every_moment(&vfs, world.table.definition(), &history);
    assert!(images > 400, "only {images} images");
}

/// Returns text that does not compress.
fn noise(seed: u64) -> String {
    let mut rng = Rng::new(seed);
    (0..4_000).map(|_| char::from(b'!' + rng.below(90) as u8)).collect()
}

/// Recovers from every image that a crash at each moment could leave, and returns their number.
fn recover_every_moment(
    vfs: &FaultyVfs,
    definition: &TableDefinition,
    history: &[Committed],
) -> usize {
    let changes = vfs.history().unwrap();
    let mut replay = changes.replay();
    let mut images = 0;
    while let Some(operation) = replay.step() {
        let at = replay.done() as u64;
        if at < history[0].at {
            continue;
        }
        let acknowledged = history.iter().rposition(|committed| committed.at <= at).unwrap_or(0);
        // The commit in progress at that moment may be there or not.
        let possible = &history[acknowledged..(acknowledged + 2).min(history.len())];
        let options = CrashOptions { images_max: 4, seed: at, ..CrashOptions::default() };
        for image in replay.images(&options) {
            images += 1;
            let what = format!("after change {at} ({operation:?}), kept {}", image.survivors);
            let engine = match open_engine(Arc::new(image.vfs), 32) {
                Ok(engine) => engine,
                Err(error) => panic!("{what}: {error}"),
            };
            let recovered = World::reopened(engine, definition);
            let report = recovered.table.check().unwrap();
            assert!(report.corruptions.is_empty(), "{what}: {:#?}", report.corruptions);
            let tx = recovered.begin(0, Isolation::ReadCommitted);
            let snapshot = tx.snapshot().unwrap();
            let found = recovered.rows(&tx, &snapshot);
            let known = possible.iter().any(|committed| committed.rows == found);
            assert!(known, "{what}: commit {acknowledged} or the next, not {found:?}");
            drop(snapshot);
            drop(tx);
        }
    }
    images
}
