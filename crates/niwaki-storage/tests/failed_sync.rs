//! Test of a failed sync: the process ends, and the next one starts on the same machine.
//!
//! The next process finds every write in the system's memory, where lost ones count as clean.
//! Recovery once took them for durable, synced them "successfully" and moved the redo position on.
//! A power loss then took acknowledged commits.
//!
//! The test has a binary of its own, because a planted bug (feature `sim`) is planted for the whole
//! process.

mod support;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use niwaki_env::Env;
use niwaki_env::vfs::{CrashOptions, Fault, FaultKind, FaultyVfs, Operation};
use niwaki_storage::*;
use support::*;

/// More pages than one segment of a file has, so that the lengths of two files matter.
const PAGES: u32 = 20;

/// Returns the disk of a process, and the file of items 0 to 79, all of them acknowledged. The
/// process ended, or shut down, when sync number `after` of its last part failed.
fn ended(after: u64) -> (FaultyVfs, RelFile) {
    let vfs = FaultyVfs::new();
    let (storage, _) = open(&Env::simulated(Arc::new(vfs.clone()), 5));
    let items = Items::create(&storage);
    items.extend(PAGES).unwrap();
    let add = |number: u64, first: u32| {
        items.add(number as u32 % PAGES + first, &item(number)).unwrap().unwrap();
    };
    (0..40).for_each(|number| add(number, 0));
    storage.checkpoint(CheckpointKind::Requested, &[]).unwrap();
    (40..60).for_each(|number| add(number, 0));
    items.extend(PAGES).unwrap();
    (60..80).for_each(|number| add(number, PAGES));
    storage.truncate_fork(Items::create(&storage).file, Fork::Main, 0).unwrap();
    storage.wal().flush(storage.wal().insert_lsn()).unwrap();
    vfs.inject(Fault {
        kind: FaultKind::SyncLosesBytes,
        operation: Operation::SyncData,
        path_contains: String::new(),
        after,
        sticky: false,
    });
    // Late faults meet no sync.
    let _ended = catch_unwind(AssertUnwindSafe(|| {
        storage.checkpoint(CheckpointKind::Requested, &[])?;
        (80..100).for_each(|number| add(number, 0));
        storage.wal().flush(storage.wal().insert_lsn()).unwrap();
        storage.shutdown(&[])
    }));
    (vfs, items.file)
}

fn numbers(storage: &Arc<Storage>, file: RelFile) -> Result<BTreeSet<u64>> {
    Items::on(storage, file).numbers()
}

/// Restarts on the same machine, and loses unsynced data at every moment of the recovery and after
/// it. Returns how often acknowledged items, or items that the restarted process showed, are gone
/// then, or the directory does not open.
fn losses() -> usize {
    let mut losses = 0;
    for after in 0..10 {
        let (vfs, file) = ended(after);
        let world = vfs.restarted();
        world.record();
        // Few frames, so that redo writes pages before it ends.
        let options = StorageOptions { shared_buffers: 4, ..StorageOptions::tiny() };
        let (storage, _) = open_with(&Env::simulated(Arc::new(world.clone()), 6), options).unwrap();
        let seen = numbers(&storage, file).unwrap();
        assert!((0..80).all(|number| seen.contains(&number)), "sync {after}: {seen:?}");
        drop(storage);
        let history = world.history().unwrap();
        let mut replay = history.replay();
        while replay.step().is_some() {
            let all = replay.done() == history.len();
            let images_max = if all { 16 } else { 2 };
            let options = CrashOptions { images_max, ..CrashOptions::default() };
            for image in replay.images(&options) {
                let found = open_with(&env_on(Arc::new(image.vfs)), StorageOptions::tiny())
                    .and_then(|(storage, _)| numbers(&storage, file));
                let kept = |found: &BTreeSet<u64>| {
                    if all { *found == seen } else { (0..80).all(|number| found.contains(&number)) }
                };
                losses += usize::from(!found.is_ok_and(|found| kept(&found)));
            }
        }
    }
    losses
}

#[test]
fn a_restart_on_the_same_machine_writes_again_what_a_failed_sync_lost() {
    assert_eq!(losses(), 0);
    #[cfg(feature = "sim")]
    for bug in ["redo_trusts_cache", "log_trusts_cache"] {
        niwaki_env::bugs::plant(Some(bug));
        let losses = losses();
        niwaki_env::bugs::plant(None);
        assert!(losses > 0, "{bug} is planted and not found");
    }
}
