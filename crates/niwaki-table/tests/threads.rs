//! Sessions on threads of their own: no update is lost, and no unique key comes twice.
//!
//! Every waiting session gets on, and deadlocks are broken.

mod support;

use std::sync::Arc;

use niwaki_env::sync::plain_atomic::{AtomicI64, AtomicU64, Ordering};
use niwaki_env::sync::thread;
use niwaki_table::{Error, RowTarget, UpdateOutcome, Workspace};
use niwaki_txn::{Durability, Error as TransactionError, Isolation, Transaction};
use niwaki_types::{ColumnMask, Datum};

use support::{Rng, World, open_world};

const THREADS: usize = 4;

/// The outcome of a worker's statement.
enum Did {
    Done,
    /// The transaction must end: deadlock, serialization failure, unique violation.
    Failed,
}

/// Adds `delta` to v of the row with this id. Follows to the newest version where needed.
fn add(world: &World, tx: &Transaction, work: &mut Workspace, id: i32, delta: i32) -> Option<Did> {
    let snapshot = tx.snapshot_for_write().unwrap();
    let (mut target, mut row) = world.find(tx, &snapshot, id)?;
    // Ends: after a wait the newest version is locked for this transaction.
    loop {
        let Datum::Int4(v) = row[1] else { panic!("{row:?}") };
        let mut new = row.clone();
        new[1] = Datum::Int4(v + delta);
        match world.table.update(tx, &snapshot, target, &row, &new, work) {
            Ok(UpdateOutcome::Done { .. }) => break,
            Ok(UpdateOutcome::Changed(newest)) => {
                target = newest.target;
                let all = ColumnMask::all(4);
                let stored = &newest.row;
                world
                    .table
                    .deform_parts(stored.natts, stored.has_nulls, &stored.bytes, &all, &mut row)
                    .unwrap();
            }
            Ok(UpdateOutcome::Gone) => return None,
            Ok(UpdateOutcome::SelfModified) => panic!("one update per command"),
            Err(error) => return Some(failed(&error)),
        }
    }
    tx.next_command().unwrap();
    Some(Did::Done)
}

fn failed(error: &Error) -> Did {
    match error {
        Error::UniqueViolation(_)
        | Error::Transaction(
            TransactionError::Deadlock { .. } | TransactionError::SerializationFailure { .. },
        ) => Did::Failed,
        other => panic!("{other}"),
    }
}

fn spawn_all(
    world: &Arc<World>,
    work: impl Fn(&World, usize, &mut Rng) + Send + Sync + Clone + 'static,
) {
    let threads: Vec<_> = (0..THREADS)
        .map(|number| {
            let world = Arc::clone(world);
            let work = work.clone();
            thread::spawn(move || work(&world, number, &mut Rng::new(number as u64 + 1)))
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn transfers_lose_nothing() {
    let world = Arc::new(open_world(THREADS + 2));
    let tx = world.begin(THREADS, Isolation::ReadCommitted);
    for id in 0..3 {
        world.insert(&tx, id, 0, "x").unwrap();
    }
    tx.commit(Durability::Flush).unwrap();
    let expected: Arc<[AtomicI64; 3]> = Arc::default();
    let sums = Arc::clone(&expected);
    spawn_all(&world, move |world, number, rng| {
        let mut work = Workspace::new();
        for round in 0..600 {
            let isolation = match rng.below(4) {
                0 => Isolation::RepeatableRead,
                _ => Isolation::ReadCommitted,
            };
            let tx = world.begin(number, isolation);
            let (from, to) = (rng.below(3) as usize, rng.below(3) as usize);
            let mut fine = true;
            for (id, delta) in [(from, -1), (to, 1)] {
                match add(world, &tx, &mut work, id as i32, delta) {
                    Some(Did::Done) => thread::yield_now(),
                    Some(Did::Failed) => {
                        fine = false;
                        break;
                    }
                    None => panic!("nobody deletes"),
                }
            }
            if !fine || rng.below(8) == 0 {
                tx.abort();
                continue;
            }
            tx.commit(Durability::Flush).unwrap();
            sums[from].fetch_sub(1, Ordering::Relaxed);
            sums[to].fetch_add(1, Ordering::Relaxed);
            if round % 16 == number {
                world.prune();
            }
        }
    });
    let tx = world.begin(THREADS, Isolation::ReadCommitted);
    let snapshot = tx.snapshot().unwrap();
    for (id, row) in world.rows(&tx, &snapshot) {
        let sum = expected[id as usize].load(Ordering::Relaxed);
        assert_eq!(i64::from(row.0), sum, "row {id}");
    }
    drop(snapshot);
    drop(tx);
    world.check();
}

#[test]
fn a_unique_key_is_never_there_twice() {
    let world = Arc::new(open_world(THREADS + 2));
    let rows: Arc<AtomicI64> = Arc::default();
    let refused: Arc<AtomicU64> = Arc::default();
    let (count, violations) = (Arc::clone(&rows), Arc::clone(&refused));
    spawn_all(&world, move |world, number, rng| {
        for _ in 0..600 {
            let id = rng.below(3) as i32;
            let tx = world.begin(number, Isolation::ReadCommitted);
            let snapshot = tx.snapshot_for_write().unwrap();
            let found = world.find(&tx, &snapshot, id);
            let mut change = 0;
            let outcome = match found {
                Some((target, _)) => {
                    let RowTarget { root, .. } = target;
                    world.table.delete(&tx, &snapshot, RowTarget::visible(root)).map(|modify| {
                        change = -i64::from(matches!(modify, UpdateOutcome::Done { .. }));
                        // The session that deletes may insert again, before any other can.
                        matches!(modify, UpdateOutcome::Done { .. }) && rng.below(2) == 0
                    })
                }
                None => Ok(true),
            };
            drop(snapshot);
            tx.next_command().unwrap();
            // Another session's turn, in the middle.
            thread::yield_now();
            let outcome = outcome.and_then(|inserts| {
                if inserts {
                    world.insert_with(&tx, id, number as i32, "y")?;
                    change += 1;
                }
                Ok(())
            });
            match outcome {
                Ok(()) if rng.below(6) > 0 => {
                    tx.commit(Durability::Flush).unwrap();
                    count.fetch_add(change, Ordering::Relaxed);
                }
                Ok(()) => tx.abort(),
                Err(error) => {
                    let Did::Failed = failed(&error) else { panic!("{error}") };
                    violations.fetch_add(1, Ordering::Relaxed);
                    tx.abort();
                }
            }
        }
    });
    let tx = world.begin(THREADS, Isolation::ReadCommitted);
    let snapshot = tx.snapshot().unwrap();
    // Fails by itself when an id comes twice.
    let found = world.rows(&tx, &snapshot);
    assert_eq!(found.len() as i64, rows.load(Ordering::Relaxed), "committed rows");
    drop(snapshot);
    drop(tx);
    world.check();
}
