//! Vacuum of mixed roots whose versions are on disk, or whose keys come from expressions.

mod support;

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use niwaki_table::{
    BuildOptions, Error, ExpressionError, HeapOnlyUpdates, IndexDefinition, KeyColumn,
    KeyExpression, KeySource, Table,
};
use niwaki_txn::{Durability, Error as TxnError, Isolation, SessionControl, TableId};
use niwaki_types::{ColumnMask, Datum, KeyOrder, TypeOid, work};
use niwaki_vacuum::{VacuumOptions, VacuumSummary, vacuum};
use support::World;

/// The expression `v % 7`, which can be made to fail.
#[derive(Debug)]
struct Flaky {
    fails: Arc<AtomicBool>,
    columns: ColumnMask,
}

impl KeyExpression for Flaky {
    fn columns(&self) -> &ColumnMask {
        &self.columns
    }

    fn evaluate(&self, row: &[Datum]) -> Result<Datum, ExpressionError> {
        match &row[1] {
            _ if self.fails.load(Ordering::Relaxed) => {
                Err(Arc::new(std::io::Error::other("it changed its mind")))
            }
            Datum::Int4(v) => Ok(Datum::Int4(v % 7)),
            _ => Ok(Datum::Null),
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The expression `v`. Its first evaluation cancels the session, with work left to do.
#[derive(Debug)]
struct Cancelled {
    session: Arc<SessionControl>,
    /// The number of evaluations.
    asked: Arc<AtomicUsize>,
    cancels: Arc<AtomicBool>,
    columns: ColumnMask,
}

impl KeyExpression for Cancelled {
    fn columns(&self) -> &ColumnMask {
        &self.columns
    }

    fn evaluate(&self, row: &[Datum]) -> Result<Datum, ExpressionError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if self.cancels.swap(false, Ordering::Relaxed) {
            self.session.cancel();
            work::tick(2 * work::UNITS).map_err(|error| Arc::new(error) as ExpressionError)?;
        }
        Ok(row[1].clone())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Makes a world with chains of any keys, and an index on `v % 7` besides its others.
fn world(fails: &Arc<AtomicBool>) -> World {
    let columns = [1].into_iter().collect();
    world_with(|_| Arc::new(Flaky { fails: Arc::clone(fails), columns }))
}

/// Makes a world with chains of any keys, and an index on an expression besides its others.
fn world_with(expression: impl FnOnce(&World) -> Arc<dyn KeyExpression>) -> World {
    let mut world = World::new(2, false, true);
    let mut definition = world.table.definition().clone();
    definition.heap_only_updates = HeapOnlyUpdates::AnyKey;
    let tx = world.begin(0, Isolation::ReadCommitted);
    let source = KeySource::Expression(expression(&world));
    let key = vec![KeyColumn { source, order: KeyOrder::ascending(TypeOid::INT4) }];
    let file = world.engine.create_file(&tx, true).unwrap();
    definition.indexes.push(IndexDefinition::new(TableId(90), "computed", file, key));
    let place = definition.indexes.len() - 1;
    let table = Table::open(&world.engine, definition);
    table.build_index(&tx, place, &BuildOptions::default()).unwrap();
    tx.commit(Durability::Flush).unwrap();
    world.table = table;
    world
}

/// Inserts rows, and gives each another `v` while its page has room.
fn insert_and_change(world: &World, rows: i32, text: &str) {
    for id in 0..rows {
        world.stamp();
        let tx = world.begin(0, Isolation::ReadCommitted);
        world.insert(&tx, id, id, text).unwrap();
        tx.commit(Durability::Flush).unwrap();
        let tx = world.begin(0, Isolation::ReadCommitted);
        let snapshot = tx.snapshot_for_write().unwrap();
        let (target, old) = world.find(&tx, &snapshot, id).expect("a row");
        world.update(&tx, &snapshot, target, &old, (id, id + 10_000, text)).unwrap();
        drop(snapshot);
        tx.commit(Durability::Flush).unwrap();
    }
}

fn vacuumed(world: &World) -> VacuumSummary {
    let options = VacuumOptions { freeze_min_age: u64::MAX, ..VacuumOptions::default() };
    let summary = vacuum(&world.table, &world.sessions[1], None, &options).unwrap();
    world.check();
    summary
}

#[test]
fn a_heap_larger_than_the_pool_is_read_in_between_visits() {
    const ROWS: i32 = 600;
    let world = world(&Arc::default());
    insert_and_change(&world, ROWS, &"x".repeat(900));
    // The pool has 64 pages.
    assert!(world.table.blocks().unwrap() > 100);
    let first = vacuumed(&world);
    assert!(first.cleared > 400, "{first:?}");
    // The old key of each mixed root goes, in the index on v and in the index on v % 7: 10,000 is 4
    // more.
    assert!(first.entries_removed >= 2 * first.cleared, "{first:?}");
    let second = vacuumed(&world);
    assert_eq!((second.cleared, second.entries_removed), (0, 0));
}

#[test]
fn what_an_expression_does_not_tell_stays_mixed_until_it_does() {
    let fails = Arc::default();
    let world = world(&fails);
    // Too few rows for an update to find the page crowded.
    insert_and_change(&world, 7, "t");
    fails.store(true, Ordering::Relaxed);
    let options = VacuumOptions { freeze_min_age: u64::MAX, ..VacuumOptions::default() };
    let first = vacuum(&world.table, &world.sessions[1], None, &options).unwrap();
    // The index on v lost its old keys. The keys in the other one are unknown.
    assert_eq!((first.entries_removed, first.cleared), (7, 0));
    fails.store(false, Ordering::Relaxed);
    world.check();
    let second = vacuumed(&world);
    assert_eq!((second.entries_removed, second.cleared), (7, 7));
}

/// Regression test: a writer that cleaned up behind others ignored a cancellation. Now it ends
/// within a long expression, and its batch waits for the next writer.
#[test]
fn a_writer_that_cleans_up_can_be_cancelled() {
    const ROWS: i32 = 7;
    let (asked, cancels) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let world = world_with(|world| {
        Arc::new(Cancelled {
            session: Arc::clone(&world.sessions[0]),
            asked: Arc::clone(&asked),
            cancels: Arc::clone(&cancels),
            columns: [1].into_iter().collect(),
        })
    });
    // Too few rows for an update to find the page crowded.
    insert_and_change(&world, ROWS, "t");
    for turn in 1..3 {
        for id in 0..ROWS {
            let tx = world.begin(0, Isolation::ReadCommitted);
            let snapshot = tx.snapshot_for_write().unwrap();
            let (target, old) = world.find(&tx, &snapshot, id).expect("a row");
            let v = id + 10_000 * (turn + 1);
            world.update(&tx, &snapshot, target, &old, (id, v, "t")).unwrap();
            drop(snapshot);
            tx.commit(Durability::Flush).unwrap();
        }
    }
    world.prune();
    let waiting = || world.table.heap().removed_waiting();
    let removed = waiting();
    assert!(removed > 16, "{removed}");
    let before = asked.load(Ordering::Relaxed);
    cancels.store(true, Ordering::Relaxed);
    let delete = |id: i32| {
        let tx = world.begin(0, Isolation::ReadCommitted);
        let snapshot = tx.snapshot_for_write().unwrap();
        let (target, _) = world.find(&tx, &snapshot, id).expect("a row");
        let deleted = world.table.delete(&tx, &snapshot, target);
        drop(snapshot);
        deleted
    };
    let error = delete(0).expect_err("it is cancelled");
    assert!(matches!(error, Error::Transaction(TxnError::Cancelled)), "{error}");
    assert_eq!(asked.load(Ordering::Relaxed), before + 1);
    assert_eq!(waiting(), removed, "the one whose key it was asked for, too");
    // The next writer goes on.
    delete(1).unwrap();
    assert!(waiting() < removed);
    world.check();
}
