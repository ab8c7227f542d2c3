//! Index builds: memory limits, helpers and interrupts, as well as keys that come from expressions.

mod support;

use std::any::Any;
use std::sync::Arc;

use niwaki_env::vfs::Vfs;
use niwaki_table::{
    BuildOptions, BuildProgress, Error, ExpressionError, IndexDefinition, KeyColumn, KeyExpression,
    KeySource, Phase, Table,
};
use niwaki_txn::{Durability, Isolation, TableId, Transaction};
use niwaki_types::{ColumnMask, Datum, KeyOrder, TypeOid};

use support::World;

/// The expression `v % modulus`, on the table's second column; NULL stays NULL.
#[derive(Debug)]
struct Remainder {
    modulus: i32,
    columns: ColumnMask,
}

impl KeyExpression for Remainder {
    fn columns(&self) -> &ColumnMask {
        &self.columns
    }

    fn evaluate(&self, row: &[Datum]) -> Result<Datum, ExpressionError> {
        Ok(match &row[1] {
            Datum::Int4(v) => Datum::Int4(v % self.modulus),
            _ => Datum::Null,
        })
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn remainder(modulus: i32) -> Vec<KeyColumn> {
    let columns = [1].into_iter().collect();
    let source = KeySource::Expression(Arc::new(Remainder { modulus, columns }));
    vec![KeyColumn { source, order: KeyOrder::ascending(TypeOid::INT4) }]
}

/// Returns the world's table with one more index, in the last place, with a new file.
fn with_index(
    world: &World,
    tx: &Transaction,
    key: Vec<KeyColumn>,
    change: impl FnOnce(&mut IndexDefinition),
) -> (Arc<Table>, usize) {
    let mut definition = world.table.definition().clone();
    let file = world.engine.create_file(tx, true).unwrap();
    let mut index = IndexDefinition::new(TableId(90), "built", file, key);
    change(&mut index);
    definition.indexes.push(index);
    let place = definition.indexes.len() - 1;
    (Table::open(&world.engine, definition), place)
}

fn files(world: &World) -> &dyn Vfs {
    &*world.engine.storage().env().vfs
}

fn text_key() -> Vec<KeyColumn> {
    vec![KeyColumn::column(2, KeyOrder::ascending(TypeOid::TEXT))]
}

/// Makes a table with more blocks than one worker reads alone.
fn large() -> World {
    let world = World::new(1, false, true);
    let tx = world.begin(0, Isolation::ReadCommitted);
    for id in 0..9_000_i32 {
        // Long rows with short keys in front, so that keys compare at once.
        let text = format!("{:05}{}", (i64::from(id) * 7919) % 9_000, "x".repeat(1000));
        world.insert(&tx, id, id % 100, &text).unwrap();
    }
    tx.commit(Durability::Flush).unwrap();
    assert!(world.table.blocks().unwrap() > 1024, "{}", world.table.blocks().unwrap());
    world
}

#[test]
fn a_build_keeps_within_its_memory_and_gives_the_same_index() {
    const MEMORY: usize = 1 << 20;
    let world = large();
    let mut sizes = Vec::new();
    for (memory_bytes, workers) in [(1 << 30, 1), (MEMORY, 1), (MEMORY, 2)] {
        let tx = world.begin(0, Isolation::ReadCommitted);
        let (table, index) = with_index(&world, &tx, text_key(), |_| {});
        let before = world.engine.temporary_bytes();
        let progress = Arc::new(BuildProgress::default());
        let options = BuildOptions {
            memory_bytes,
            workers,
            progress: Arc::clone(&progress),
            ..BuildOptions::default()
        };
        table.build_index(&tx, index, &options).unwrap();
        let state = progress.state();
        assert_eq!(state.phase, Phase::Loading);
        assert_eq!((state.tuples_done, state.tuples_total), (9_000, 9_000));
        assert_eq!((state.blocks_done, state.blocks_total), {
            let blocks = u64::from(table.blocks().unwrap());
            (blocks, blocks)
        });
        let spilled = world.engine.temporary_bytes() - before;
        if memory_bytes == MEMORY {
            // Keys of nine megabytes in one: every byte was written at least once.
            assert!(spilled >= 9_000_000, "{spilled}");
            let limit = (MEMORY / workers) as u64;
            assert!(state.memory_bytes <= limit, "{} of {limit}", state.memory_bytes);
        } else {
            assert_eq!(spilled, 0);
        }
        let report = table.check().unwrap();
        assert!(report.corruptions.is_empty(), "{:#?}", report.corruptions);
        sizes.push(table.index(index).blocks().unwrap());
        assert!(files(&world).list("tmp").unwrap_or_default().is_empty());
        tx.abort();
    }
    assert_eq!(sizes[0], sizes[1]);
    assert_eq!(sizes[0], sizes[2]);
}

#[test]
fn a_build_that_fails_or_is_cancelled_leaves_no_file() {
    let world = large();
    for workers in [1, 2] {
        let options = BuildOptions { memory_bytes: 1 << 20, workers, ..BuildOptions::default() };
        let tx = world.begin(0, Isolation::ReadCommitted);
        let key = vec![KeyColumn::column(1, KeyOrder::ascending(TypeOid::INT4))];
        let (table, index) = with_index(&world, &tx, key, |index| index.unique = true);
        let failed = table.build_index(&tx, index, &options);
        assert!(matches!(failed, Err(Error::UniqueViolation(_))), "{failed:?}");
        let (table, index) = with_index(&world, &tx, text_key(), |index| index.id = TableId(91));
        world.sessions[0].cancel();
        let cancelled = table.build_index(&tx, index, &options);
        assert!(
            matches!(cancelled, Err(Error::Transaction(niwaki_txn::Error::Cancelled))),
            "{cancelled:?}"
        );
        assert!(files(&world).list("tmp").unwrap_or_default().is_empty());
        tx.abort();
    }
}

#[test]
fn a_unique_check_learns_keys_that_only_an_expression_tells() {
    let world = World::new(2, true, true);
    let tx = world.begin(0, Isolation::ReadCommitted);
    world.insert(&tx, 1, 13, "").unwrap();
    world.insert(&tx, 2, 25, "").unwrap();
    tx.commit(Durability::Flush).unwrap();
    // An old snapshot keeps the versions with 3 and 5 when the chains go on to 4 and 6.
    let old = world.begin(1, Isolation::RepeatableRead);
    let kept = old.snapshot().unwrap();
    let unindexed = {
        let mut definition = world.table.definition().clone();
        definition.indexes.truncate(1);
        Table::open(&world.engine, definition)
    };
    let tx = world.begin(0, Isolation::ReadCommitted);
    for (id, from, to) in [(1, 13, 14), (2, 25, 26)] {
        let snapshot = tx.snapshot_for_write().unwrap();
        let (target, _) = world.find(&tx, &snapshot, id).unwrap();
        let (old, new) = (world.row(id, from, ""), world.row(id, to, ""));
        let mut work = niwaki_table::Workspace::new();
        unindexed.update(&tx, &snapshot, target, &old, &new, &mut work).unwrap();
        tx.next_command().unwrap();
    }
    let mut definition = unindexed.definition().clone();
    let file = world.engine.create_file(&tx, true).unwrap();
    let index = IndexDefinition {
        unique: true,
        ..IndexDefinition::new(TableId(90), "u", file, remainder(10))
    };
    definition.indexes.push(index);
    let table = Table::open(&world.engine, definition);
    table.build_index(&tx, 1, &BuildOptions::default()).unwrap();
    tx.commit(Durability::Flush).unwrap();
    let report = table.check().unwrap();
    assert!(report.corruptions.is_empty(), "{:#?}", report.corruptions);
    // Each chain has entries with two keys now: the old one does not conflict, the new one does.
    let mut work = niwaki_table::Workspace::new();
    for (id, v, fits) in [(10, 33, true), (11, 44, false), (12, 55, true), (13, 56, false)] {
        let tx = world.begin(0, Isolation::ReadCommitted);
        let done = table.insert(&tx, &world.row(id, v, ""), &mut work);
        assert_eq!(done.is_ok(), fits, "{v}: {done:?}");
        if fits {
            tx.commit(Durability::Flush).unwrap();
        } else {
            assert!(matches!(done, Err(Error::UniqueViolation(_))), "{done:?}");
            tx.abort();
        }
    }
    // Readers of either snapshot find the rows they see by the index, and no others.
    let now = world.begin(0, Isolation::ReadCommitted);
    let snapshot = now.snapshot().unwrap();
    for (tx, snapshot, key, id) in [
        (&old, &kept, 3, Some(1)),
        (&old, &kept, 4, None),
        (&old, &kept, 5, Some(2)),
        (&now, &snapshot, 3, Some(10)),
        (&now, &snapshot, 4, Some(1)),
        (&now, &snapshot, 5, Some(12)),
        (&now, &snapshot, 6, Some(2)),
    ] {
        let mut encoded = Vec::new();
        let order = KeyOrder::ascending(TypeOid::INT4);
        niwaki_types::encode_key(&Datum::Int4(key), order, &mut encoded);
        let mut out = vec![Datum::Null; 4];
        let all = ColumnMask::all(4);
        let mut lookup = niwaki_table::Lookup::default();
        let found =
            table.fetch_unique(tx, snapshot, 1, &encoded, &all, &mut out, &mut lookup).unwrap();
        let found = found.map(|_| match out[0] {
            Datum::Int4(id) => id,
            _ => -1,
        });
        assert_eq!(found, id, "key {key}");
    }
}
