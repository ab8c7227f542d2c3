//! Vacuum and mixed roots: what it needs to judge entries may be on disk, or come from expressions.

mod support;

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use niwaki_table::{
    BuildOptions, ExpressionError, HeapOnlyUpdates, IndexDefinition, KeyColumn, KeyExpression,
    KeySource, Table,
};
use niwaki_txn::{Durability, Isolation, TableId};
use niwaki_types::{ColumnMask, Datum, KeyOrder, TypeOid};
use niwaki_vacuum::{VacuumOptions, VacuumSummary, vacuum};
use support::World;

/// `v % 7`, while it works.
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

/// A world with chains of any keys, and an index on an expression besides its others.
fn world(fails: &Arc<AtomicBool>) -> World {
    let mut world = World::new(2, false, true);
    let mut definition = world.table.definition().clone();
    definition.heap_only_updates = HeapOnlyUpdates::AnyKey;
    let tx = world.begin(0, Isolation::ReadCommitted);
    let columns = [1].into_iter().collect();
    let source = KeySource::Expression(Arc::new(Flaky { fails: Arc::clone(fails), columns }));
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
    // Of each mixed root the old key goes, in the index on v and in that on v % 7: 10,000 is 4 more.
    assert!(first.entries_removed >= 2 * first.cleared, "{first:?}");
    let second = vacuumed(&world);
    assert_eq!((second.cleared, second.entries_removed), (0, 0));
}

#[test]
fn what_an_expression_does_not_tell_stays_mixed_until_it_does() {
    let fails = Arc::default();
    let world = world(&fails);
    // So few that no update finds the page crowded.
    insert_and_change(&world, 7, "t");
    fails.store(true, Ordering::Relaxed);
    let options = VacuumOptions { freeze_min_age: u64::MAX, ..VacuumOptions::default() };
    let first = vacuum(&world.table, &world.sessions[1], None, &options).unwrap();
    // The index on v lost its old keys; nothing is known of the other.
    assert_eq!((first.entries_removed, first.cleared), (7, 0));
    fails.store(false, Ordering::Relaxed);
    world.check();
    let second = vacuumed(&world);
    assert_eq!((second.entries_removed, second.cleared), (7, 7));
}
