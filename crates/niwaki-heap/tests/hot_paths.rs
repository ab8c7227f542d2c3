//! Prints the costs of the hot paths:
//! `cargo test --release -p niwaki-heap --test hot_paths -- --ignored --nocapture`.

use std::sync::Arc;

use niwaki_env::Env;
use niwaki_heap::*;
use niwaki_storage::{RelFile, ResourceManager, Storage, StorageOptions, Tid, Xid};
use niwaki_txn::{BeginOptions, Durability, TransactionManager, TxnOptions};

#[test]
#[ignore = "measures, and asserts nothing"]
fn hot_paths() {
    let env = Env::memory();
    let clock = Arc::clone(&env.clock);
    let txns = TransactionManager::new(env.clone(), TxnOptions::default());
    let managers = vec![HeapRedo::new(), Arc::clone(&txns) as Arc<dyn ResourceManager>];
    let (storage, _) = Storage::open(env, StorageOptions::default(), managers).unwrap();
    txns.attach(&storage).unwrap();
    let session = txns.register_session().unwrap();
    let file = RelFile { id: storage.allocate_file(), logged: true };
    storage.create_file(file, Xid::INVALID).unwrap();
    let relation = HeapRegistry::default().open(file, 100);
    let heap = Heap::new(&storage, &txns, &relation);
    let mut bytes = vec![1; 100];
    let row = NewRow { natts: 4, has_nulls: false, has_external: false, bytes: &bytes };
    let begin = || txns.begin(&session, BeginOptions::default()).unwrap();
    let report = |what: &str, started: std::time::Duration, count: u32| {
        let each = clock.monotonic().checked_sub(started).unwrap() / count;
        eprintln!("{what}: {each:?}");
    };
    let count = 20_000;
    let tx = begin();
    let started = clock.monotonic();
    let tids: Vec<Tid> =
        (0..count).map(|_| heap.insert(&tx, row, InsertOptions::default()).unwrap()).collect();
    report("insert", started, count);
    tx.commit(Durability::Flush).unwrap();

    let tx = begin();
    let snapshot = tx.snapshot().unwrap();
    let view = tx.view(&snapshot);
    let mut sum = 0usize;
    let mut at = 0usize;
    let started = clock.monotonic();
    for _ in 0..1_000_000 {
        at = (at + 7919) % tids.len();
        sum += heap.fetch(&view, tids[at], |row| row.bytes.len()).unwrap().unwrap();
    }
    report("fetch", started, 1_000_000);
    let mut rows = PageRows::new();
    let horizon = txns.horizon();
    let started = clock.monotonic();
    for _ in 0..10 {
        for block in 0..heap.blocks().unwrap() {
            heap.scan_page(&view, block, Some(&horizon), &mut rows).unwrap();
            sum += rows.len();
        }
    }
    report("scan, per row", started, 10 * count);
    assert_eq!(sum, 1_000_000 * 100 + 10 * count as usize);
    drop(snapshot);
    drop(tx);

    let kind = UpdateKind { heap_only: true, mixed: false, key_changed: false };
    let before = storage.wal().insert_lsn();
    let started = clock.monotonic();
    for round in 0..count {
        at = (at + 7919) % tids.len();
        bytes[50] = round as u8;
        let row = NewRow { natts: 4, has_nulls: false, has_external: false, bytes: &bytes };
        let tx = begin();
        let snapshot = tx.snapshot_for_write().unwrap();
        let target = RowTarget::visible(tids[at]);
        let done = heap.update(&tx.view(&snapshot), target, row, kind).unwrap();
        assert!(matches!(done, HeapOutcome::Done { .. }));
        drop(snapshot);
        tx.commit(Durability::Async).unwrap();
    }
    report("update in a transaction of its own, not flushed", started, count);
    eprintln!("log bytes each: {}", (storage.wal().insert_lsn().0 - before.0) / u64::from(count));
    let tx = begin();
    let hot = heap
        .insert(
            &tx,
            NewRow { natts: 4, has_nulls: false, has_external: false, bytes: &bytes },
            InsertOptions::default(),
        )
        .unwrap();
    tx.commit(Durability::Flush).unwrap();
    let started = clock.monotonic();
    for round in 0..count {
        bytes[50] = round as u8;
        let row = NewRow { natts: 4, has_nulls: false, has_external: false, bytes: &bytes };
        let tx = begin();
        let snapshot = tx.snapshot_for_write().unwrap();
        let target = RowTarget::visible(hot);
        heap.update(&tx.view(&snapshot), target, row, kind).unwrap();
        drop(snapshot);
        tx.commit(Durability::Async).unwrap();
    }
    report("update of one hot row, likewise", started, count);
}
