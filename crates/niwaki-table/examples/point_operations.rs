//! Costs of a point read, an update and a commit below SQL, in nanoseconds; one session, in memory.
//!
//!     cargo run --release -p niwaki-table --example point_operations

use std::sync::Arc;
use std::time::Instant;

use niwaki_env::Env;
use niwaki_storage::{Storage, StorageOptions};
use niwaki_table::{
    Engine, HeapOnlyUpdates, IndexDefinition, InsertOptions, KeyColumn, Lookup, RowTarget, Table,
    TableDefinition, Workspace,
};
use niwaki_txn::{
    BeginOptions, Durability, TableId, TableLockMode, TransactionManager, TxnOptions, WaitPolicy,
};
use niwaki_types::{ColumnMask, ColumnType, Datum, KeyOrder, TypeOid};

const ROWS: i32 = 100_000;

#[expect(clippy::too_many_lines, reason = "one measurement after another")]
fn main() {
    let env = Env::memory();
    let manager = TransactionManager::new(env.clone(), TxnOptions::default());
    let mut managers = Engine::resource_managers();
    managers.push(Arc::clone(&manager) as _);
    let options = StorageOptions { shared_buffers: 16_384, ..StorageOptions::default() };
    let (storage, _) = Storage::open(env, options, managers).expect("storage");
    manager.attach(&storage).expect("attached");
    let engine = Engine::new(Arc::clone(&storage), Arc::clone(&manager));
    let session = manager.register_session().expect("a session");
    let begin = || manager.begin(&session, BeginOptions::default()).expect("a transaction");

    let tx = begin();
    let column = ColumnType::with_typmod;
    let int = column(TypeOid::INT4, -1);
    let definition = TableDefinition {
        id: TableId(1),
        name: "accounts".to_owned(),
        file: engine.create_file(&tx, true).expect("a file"),
        values: None,
        fillfactor: 100,
        heap_only_updates: HeapOnlyUpdates::SameKeys,
        columns: vec![int, int, int, column(TypeOid::BPCHAR, 88)],
        missing: Vec::new(),
        indexes: vec![IndexDefinition {
            unique: true,
            primary: true,
            ..IndexDefinition::new(
                TableId(2),
                "accounts_pkey",
                engine.create_file(&tx, true).expect("a file"),
                vec![KeyColumn::column(0, KeyOrder::ascending(TypeOid::INT4))],
            )
        }],
    };
    let table = Table::open(&engine, definition);
    let mut work = Workspace::new();
    let filler = Datum::text(&" ".repeat(84));
    let rows: Vec<Vec<Datum>> = (0..ROWS)
        .map(|id| vec![Datum::Int4(id), Datum::Int4(1), Datum::Int4(0), filler.clone()])
        .collect();
    let start = Instant::now();
    for batch in rows.chunks(1000) {
        table.insert_many(&tx, batch, InsertOptions::default(), &mut work).expect("inserted");
    }
    tx.commit(Durability::Flush).expect("committed");
    println!(
        "insert_many + pk     {:8.0} ns/row",
        start.elapsed().as_nanos() as f64 / f64::from(ROWS)
    );

    let mut state = 1u64;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((state >> 33) % u64::from(ROWS as u32)) as i32
    };
    let mut needed = ColumnMask::default();
    needed.insert(2);
    let mut lookup = Lookup::default();
    let mut key = Vec::new();
    let mut out = vec![Datum::Null; 4];
    let measure = |name: &str, count: u32, body: &mut dyn FnMut()| {
        let start = Instant::now();
        for _ in 0..count {
            body();
        }
        println!("{name:<20} {:8.0} ns", start.elapsed().as_nanos() as f64 / f64::from(count));
    };
    measure("begin+snapshot+end", 1_000_000, &mut || {
        let tx = begin();
        tx.snapshot().expect("a snapshot");
        tx.commit(Durability::Flush).expect("committed");
    });
    measure("+ table lock", 1_000_000, &mut || {
        let tx = begin();
        tx.snapshot().expect("a snapshot");
        manager
            .locks()
            .acquire_table(&tx, TableId(1), TableLockMode::AccessShare, WaitPolicy::Block)
            .expect("a lock");
        tx.commit(Durability::Flush).expect("committed");
    });
    let tx = begin();
    let snapshot = tx.snapshot().expect("a snapshot");
    measure("fetch_unique", 1_000_000, &mut || {
        key.clear();
        out[0] = Datum::Int4(next());
        table.encode_index_key(0, &out, &mut key).expect("a key");
        let found = table
            .fetch_unique(&tx, &snapshot, 0, &key, &needed, &mut out, &mut lookup)
            .expect("a read");
        assert!(found.is_some());
    });
    let root = niwaki_storage::Tid::new(5, 5);
    measure("fetch by address", 1_000_000, &mut || {
        assert!(table.fetch(&tx, &snapshot, root, &needed, &mut out).expect("a read"));
    });
    drop(snapshot);
    tx.commit(Durability::Flush).expect("committed");
    let all = ColumnMask::all(4);
    let before = storage.wal().statistics();
    measure("update transaction", 200_000, &mut || {
        let tx = begin();
        let snapshot = tx.snapshot_for_write().expect("a snapshot");
        key.clear();
        out[0] = Datum::Int4(next());
        table.encode_index_key(0, &out, &mut key).expect("a key");
        let root = table
            .fetch_unique(&tx, &snapshot, 0, &key, &all, &mut out, &mut lookup)
            .expect("a read")
            .expect("a row");
        let mut new = out.clone();
        new[2] = Datum::Int4(next());
        table
            .update(&tx, &snapshot, RowTarget::visible(root), &out, &new, &mut work)
            .expect("updated");
        tx.commit(Durability::Async).expect("committed");
    });
    let after = storage.wal().statistics();
    println!("wal per update       {:?} -> {:?}, table {:?}", before, after, table.stats());
}
