//! Crash images at every change of the file system, with unsynced writes kept, lost and torn.
//! Recovery finds a prefix of the work that holds everything acknowledged.

mod support;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use niwaki_env::Env;
use niwaki_env::vfs::{CrashOptions, Fault, FaultKind, FaultyVfs, MemoryVfs, Operation};
use niwaki_storage::*;
use support::*;

/// A promise of a run: after change number `at`, items below `acknowledged` are durable.
struct Promise {
    at: u64,
    acknowledged: u64,
}

struct Run {
    vfs: FaultyVfs,
    file: RelFile,
    promises: Vec<Promise>,
    /// Change number at which the file's creation was durable.
    created_at: u64,
}

/// Adds items 0, 1, 2, … and flushes now and then. There are checkpoints, evictions, new segments
/// of files and log, and a file that is created and dropped.
///
/// With few descriptors, files are also closed, and synced for that, during the work.
fn run(count: u64, seed: u64, open_files_max: usize) -> Run {
    let vfs = FaultyVfs::new();
    vfs.record();
    let env = Env::simulated(Arc::new(vfs.clone()), seed);
    let options = StorageOptions { shared_buffers: 8, open_files_max, ..StorageOptions::tiny() };
    let (storage, _) = open_with(&env, options).unwrap();
    let items = Items::create(&storage);
    storage.wal().flush(storage.wal().insert_lsn()).unwrap();
    let created_at = vfs.changes();
    let mut promises = Vec::new();
    items.extend(6).unwrap();
    for number in 0..count {
        let start = (number * 5) as u32 % items.blocks();
        let blocks = items.blocks();
        let placed = (0..blocks)
            .any(|step| items.add((start + step) % blocks, &item(number)).unwrap().is_some());
        if !placed {
            let grown = items.extend(3).unwrap();
            items.add(grown.first.0, &item(number)).unwrap().unwrap();
        }
        if number % 4 == 3 {
            storage.wal().flush(storage.wal().insert_lsn()).unwrap();
            promises.push(Promise { at: vfs.changes(), acknowledged: number + 1 });
        }
        if number % 40 == 17 {
            let other = Items::create(&storage);
            other.extend(2).unwrap();
            other.add(0, &item(1)).unwrap();
            storage.truncate_fork(other.file, Fork::Main, 1).unwrap();
            storage.drop_file(other.file).unwrap();
        }
        if number % 60 == 41 {
            storage.checkpoint(CheckpointKind::Requested, &[]).unwrap();
        }
    }
    Run { vfs, file: items.file, promises, created_at }
}

/// Recovers an image and checks the promises made by change `at`.
fn check(files: MemoryVfs, run: &Run, at: u64, what: &str) {
    let env = env_on(Arc::new(files));
    let options = StorageOptions { shared_buffers: 8, ..StorageOptions::tiny() };
    let (storage, _) = match open_with(&env, options) {
        Ok(opened) => opened,
        Err(error) => panic!("{what}: {error}"),
    };
    let promised = run.promises.iter().rev().find(|p| p.at <= at).map_or(0, |p| p.acknowledged);
    if !storage.file_exists(run.file.id).unwrap() {
        assert!(at < run.created_at, "{what}: the file is gone");
        return;
    }
    let numbers =
        Items::on(&storage, run.file).numbers().unwrap_or_else(|error| panic!("{what}: {error}"));
    let prefix: BTreeSet<u64> = (0..numbers.len() as u64).collect();
    assert_eq!(numbers, prefix, "{what}: not a prefix of the work");
    assert!(numbers.len() as u64 >= promised, "{what}: {} < {promised}", numbers.len());
}

#[test]
fn every_moment_recovers() {
    [2, 100].into_iter().for_each(every_moment_recovers_with);
}

fn every_moment_recovers_with(open_files_max: usize) {
    let run = run(250, 1, open_files_max);
    let history = run.vfs.history().unwrap();
    let mut replay = history.replay();
    let mut images = 0;
    while let Some(operation) = replay.step() {
        let at = replay.done() as u64;
        let options = CrashOptions { images_max: 8, seed: at, ..CrashOptions::default() };
        for image in replay.images(&options) {
            images += 1;
            let what = format!("after change {at} ({operation:?}), kept {}", image.survivors);
            check(image.vfs, &run, at, &what);
        }
    }
    assert!(images > 1000, "only {images} images");
}

#[test]
fn a_crash_in_the_middle_of_recovery_recovers() {
    let run = run(100, 2, 100);
    let total = run.vfs.changes();
    let image = {
        let history = run.vfs.history().unwrap();
        let mut replay = history.replay();
        while (replay.done() as u64) < total - 5 {
            replay.step();
        }
        let options = CrashOptions { images_max: 3, seed: 5, ..CrashOptions::default() };
        replay.images(&options).last().unwrap().vfs
    };
    // Counts the changes that an undisturbed recovery makes.
    let calm = FaultyVfs::from_memory(&image);
    calm.record();
    open(&Env::simulated(Arc::new(calm.clone()), 1));
    let history = calm.history().unwrap();
    assert!(history.len() > 5);
    let mut replay = history.replay();
    while let Some(operation) = replay.step() {
        let at = replay.done() as u64;
        let options = CrashOptions { images_max: 6, seed: at, ..CrashOptions::default() };
        for image in replay.images(&options) {
            let what = format!("recovery change {at} ({operation:?}), kept {}", image.survivors);
            check(image.vfs, &run, total - 5, &what);
        }
    }
}

/// W1, seen from the disk: when a page is written, the log that describes it is durable.
#[test]
fn no_page_is_written_before_its_log() {
    let vfs = FaultyVfs::new();
    let env = Env::simulated(Arc::new(vfs.clone()), 3);
    let options = StorageOptions { shared_buffers: 4, ..StorageOptions::tiny() };
    let (storage, _) = open_with(&env, options).unwrap();
    let items = Items::create(&storage);
    items.extend(12).unwrap();
    let seen = Arc::new(niwaki_env::sync::atomic::AtomicU64::new(0));
    {
        let (storage, seen) = (Arc::downgrade(&storage), Arc::clone(&seen));
        vfs.observe_writes(Box::new(move |path, _, bytes| {
            let Some(storage) = storage.upgrade() else { return };
            if path.starts_with("base/") {
                let lsn = Lsn(u64::from_le_bytes(bytes[..8].try_into().unwrap()));
                assert!(lsn <= storage.wal().flushed(), "page with LSN {lsn} written too early");
                seen.fetch_add(1, niwaki_env::sync::atomic::Ordering::Relaxed);
            }
        }));
    }
    for number in 0..100 {
        items.add((number * 5 % 12) as u32, &item(number)).unwrap();
    }
    assert!(seen.load(niwaki_env::sync::atomic::Ordering::Relaxed) > 50);
}

/// Runs `work` in a world where aborts are panics. Returns true when the process "ended".
fn ends(work: impl FnOnce()) -> bool {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(()) => false,
        Err(payload) => {
            assert!(payload.is::<niwaki_env::Crashed>(), "another panic than an abort");
            true
        }
    }
}

fn fault(kind: FaultKind, operation: Operation, path: &str, sticky: bool) -> Fault {
    Fault { kind, operation, path_contains: path.into(), after: 0, sticky }
}

#[test]
fn a_failed_sync_of_the_log_ends_the_process() {
    for kind in [FaultKind::SyncLosesBytes, FaultKind::SyncFailsAfterWriting] {
        let vfs = FaultyVfs::new();
        let env = Env::simulated(Arc::new(vfs.clone()), 4);
        let (storage, _) = open(&env);
        let items = Items::create(&storage);
        items.extend(1).unwrap();
        let kept = items.add(0, &item(0)).unwrap().unwrap();
        storage.wal().flush(kept).unwrap();
        let lost = items.add(0, &item(1)).unwrap().unwrap();
        vfs.inject(fault(kind, Operation::SyncData, "wal/", false));
        assert!(
            ends(|| storage.wal().flush(lost).unwrap()),
            "{kind:?}: the failure was passed over"
        );
        // No other caller gets an answer either, though the next sync would "succeed".
        assert!(storage.wal().flush(lost).is_err(), "{kind:?}: retried");
        assert!(storage.wal().flushed() < lost);
        let seen = seen_by_the_next_process(&vfs, items.file);
        assert!(seen.1.contains(&0) && seen.1.contains(&1), "{kind:?}: memory has both");
        for (world, promised) in [(vfs, BTreeSet::from([0])), seen] {
            survives_power_loss(&world, items.file, &promised);
        }
    }
}

#[test]
fn a_failed_sync_of_a_relation_ends_the_process() {
    let vfs = FaultyVfs::new();
    let env = Env::simulated(Arc::new(vfs.clone()), 5);
    let (storage, _) = open(&env);
    let items = Items::create(&storage);
    items.extend(1).unwrap();
    items.add(0, &item(0)).unwrap().unwrap();
    let before = storage.control();
    vfs.inject(fault(FaultKind::SyncLosesBytes, Operation::SyncData, "base/", false));
    assert!(ends(|| {
        let _ = storage.checkpoint(CheckpointKind::Requested, &[]);
    }));
    assert_eq!(storage.control(), before);
    let seen = seen_by_the_next_process(&vfs, items.file);
    for (world, promised) in [(vfs, BTreeSet::from([0])), seen] {
        survives_power_loss(&world, items.file, &promised);
    }
}

/// Returns the items that the next process on the same machine finds. A client may have seen them,
/// so they must last.
fn seen_by_the_next_process(vfs: &FaultyVfs, file: RelFile) -> (FaultyVfs, BTreeSet<u64>) {
    let world = vfs.restarted();
    let (storage, _) = open(&Env::simulated(Arc::new(world.clone()), 6));
    let numbers = Items::on(&storage, file).numbers().unwrap();
    (world, numbers)
}

fn survives_power_loss(world: &FaultyVfs, file: RelFile, promised: &BTreeSet<u64>) {
    world.crash();
    for image in world.crash_images(&CrashOptions::default()) {
        let (storage, _) = open(&env_on(Arc::new(image.vfs)));
        let numbers = Items::on(&storage, file).numbers().unwrap();
        let lost: Vec<_> = promised.difference(&numbers).collect();
        assert!(lost.is_empty(), "{lost:?} are lost: {}", image.survivors);
    }
}

#[test]
fn a_full_disk_fails_the_statement_and_nothing_is_lost() {
    let vfs = FaultyVfs::new();
    let env = Env::simulated(Arc::new(vfs.clone()), 6);
    let (storage, _) = open(&env);
    let items = Items::create(&storage);
    items.extend(8).unwrap();
    vfs.inject(fault(FaultKind::StorageFull, Operation::Create, "wal/new", true));
    vfs.inject(fault(FaultKind::StorageFull, Operation::Allocate, "base/", true));
    let error = items.extend(1).unwrap_err();
    assert!(matches!(error, Error::DiskFull { .. }), "{error}");
    assert_eq!(items.blocks(), 8);
    // Work goes on until the log's next segment is needed.
    let mut number = 0;
    let error = loop {
        let block = (number % 8) as u32;
        match items.add(block, &item(number)) {
            Ok(Some(_)) => {}
            Ok(None) => {
                // The page is full: make room, which also fills the log.
                let page = storage.pool().pin(items.page_id(block)).unwrap();
                let first = page.read().item(OffsetNumber(1)).unwrap().to_vec();
                match items.remove(block, &first) {
                    Ok(_) => {}
                    Err(error) => break error,
                }
            }
            Err(error) => break error,
        }
        number += 1;
        assert!(number < 100_000, "the disk never got full");
    };
    assert!(matches!(error, Error::DiskFull { .. }), "{error}");
    let expected = items.numbers().unwrap();
    // Running commits and aborts still find room.
    let lsn = storage
        .log(Record {
            manager: Manager::Heap,
            kind: 9,
            version: 1,
            xid: Xid(3),
            body: &[b"commit"],
            pages: &mut [],
            removes: None,
        })
        .unwrap();
    storage.wal().flush(lsn).unwrap();
    let (redone, _) = open(&env_on(Arc::new(vfs.current())));
    assert_eq!(Items::on(&redone, items.file).numbers().unwrap(), expected);
    // Once there is room again, work goes on.
    vfs.heal();
    items.extend(1).unwrap();
    let grown = items.blocks() - 1;
    items.add(grown, &item(1_000_000)).unwrap().unwrap();
    assert!(items.numbers().unwrap().contains(&1_000_000));
}
