//! Tests of file system errors: each gives an error to one session, or ends the process (the table
//! in the crate's README). Either way nothing acknowledged is lost.

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use niwaki_env::vfs::{CrashOptions, Fault, FaultKind, FaultyVfs, Operation};
use niwaki_env::{Crashed, Env};
use niwaki_storage::*;
use support::*;

const PAGES: u32 = 12;
/// All faults that make a write fail.
const WRITE_FAULTS: [FaultKind; 3] =
    [FaultKind::InputOutputError, FaultKind::StorageFull, FaultKind::ShortWrite];

struct World {
    vfs: FaultyVfs,
    storage: Arc<Storage>,
    items: Items,
}

fn options() -> StorageOptions {
    StorageOptions { shared_buffers: 4, ..StorageOptions::tiny() }
}

/// Makes more pages than frames, with one item on each, all durable in the log.
fn world() -> World {
    let vfs = FaultyVfs::new();
    let env = Env::simulated(Arc::new(vfs.clone()), 7);
    let (storage, _) = open_with(&env, options()).unwrap();
    let items = Items::create(&storage);
    items.extend(PAGES).unwrap();
    for block in 0..PAGES {
        items.add(block, &item(block.into())).unwrap().unwrap();
    }
    storage.wal().flush(storage.wal().insert_lsn()).unwrap();
    World { vfs, storage, items }
}

impl World {
    fn inject(&self, kind: FaultKind, operation: Operation, path: &str, sticky: bool) {
        self.vfs.inject(Fault { kind, operation, path_contains: path.into(), after: 0, sticky });
    }

    fn read(&self, block: u32) -> Result<()> {
        let pin = self.storage.pool().pin(self.items.page_id(block))?;
        assert_eq!(pin.read().item(OffsetNumber(1)), Some(&item(block.into())[..]));
        Ok(())
    }

    /// Checks that changes, flushes and checkpoints give errors, and nothing reaches the disk.
    fn writes_nothing(&self, items: &Items) {
        let before = self.vfs.changes();
        assert!(is_io(&items.add(0, &item(1000)).unwrap_err()));
        assert!(is_io(&self.storage.checkpoint(CheckpointKind::Requested, &[]).unwrap_err()));
        assert!(is_io(&self.storage.shutdown(&[]).unwrap_err()));
        assert_eq!(self.vfs.changes(), before);
    }

    /// Opens the storage as the next process on the machine, while there is no room for any
    /// relation.
    fn recovered_on_a_full_disk(&self) -> Arc<Storage> {
        let left = self.vfs.restarted();
        for operation in [Operation::Create, Operation::Allocate] {
            left.inject(Fault {
                kind: FaultKind::StorageFull,
                operation,
                path_contains: "base/".into(),
                after: 0,
                sticky: true,
            });
        }
        let (storage, summary) = open_with(&Env::simulated(Arc::new(left), 11), options()).unwrap();
        assert!(summary.recovered);
        storage
    }

    /// Checks that nothing is pinned or poisoned, and that all items are there.
    fn sound(&self) {
        assert!(self.storage.pool().is_idle());
        let numbers = self.items.numbers().unwrap();
        assert!((0..u64::from(PAGES)).all(|number| numbers.contains(&number)), "{numbers:?}");
    }

    /// Checks that the promises hold, whatever the disk holds after the end of this process. One
    /// power loss happens at once, another after a restart on the same machine.
    fn recovers(&self, promised: &[u64]) {
        let restarted = self.vfs.restarted();
        let env = Env::simulated(Arc::new(restarted.clone()), 11);
        drop(open_with(&env, options()).unwrap());
        for world in [&self.vfs, &restarted] {
            self.survives_power_loss(world, promised);
        }
    }

    fn survives_power_loss(&self, world: &FaultyVfs, promised: &[u64]) {
        world.crash();
        for image in world.crash_images(&CrashOptions::default()) {
            let (storage, _) = open(&env_on(Arc::new(image.vfs)));
            let numbers = Items::on(&storage, self.items.file).numbers().unwrap();
            let all = (0..u64::from(PAGES)).chain(promised.iter().copied());
            for number in all {
                assert!(numbers.contains(&number), "{number} is lost: {}", image.survivors);
            }
        }
    }
}

/// Returns the reason why the process "ended"; panics when it did not.
fn reason_of_end(work: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(work)).expect_err("the process goes on");
    payload.downcast::<Crashed>().expect("an abort, not another panic").reason
}

fn is_io(error: &Error) -> bool {
    matches!(error, Error::Io { .. } | Error::DiskFull { .. })
}

#[test]
fn a_read_that_fails_once_costs_one_session_one_statement() {
    let world = world();
    world.inject(FaultKind::InputOutputError, Operation::Read, "base/", false);
    let failed = (0..PAGES).filter(|&block| world.read(block).is_err()).count();
    assert_eq!(failed, 1);
    world.sound();
}

#[test]
fn a_read_that_always_fails_is_an_error_each_time_and_nothing_else() {
    let world = world();
    world.inject(FaultKind::InputOutputError, Operation::Read, "base/", true);
    // Newest first, because each failed read takes a frame from another page.
    let resident: Vec<u32> = (0..PAGES).rev().filter(|&block| world.read(block).is_ok()).collect();
    assert!(!resident.is_empty() && resident.len() <= 4, "{resident:?}");
    for block in (0..PAGES).filter(|block| !resident.contains(block)) {
        for _ in 0..3 {
            let error = world.read(block).unwrap_err();
            assert!(matches!(error, Error::Io { .. }), "{error}");
        }
    }
    // Each of those reads claimed a frame, and gave it back.
    assert!(world.storage.pool().is_idle());
    world.vfs.heal();
    world.sound();
}

/// A read error during recovery gives nothing up: opening fails, and succeeds when the disk answers
/// again.
#[test]
fn recovery_over_a_failing_disk_refuses_and_can_be_repeated() {
    for path in ["wal/", "base/", "control"] {
        let before = world();
        before.storage.checkpoint(CheckpointKind::Requested, &[]).unwrap();
        before.items.add(3, &item(100)).unwrap().unwrap();
        before.storage.wal().flush(before.storage.wal().insert_lsn()).unwrap();
        let vfs = FaultyVfs::from_memory(&before.vfs.current());
        let world = World { vfs: vfs.clone(), ..before };
        // Redo reads a page: without images it needs the old contents of a changed page.
        let options = StorageOptions { full_page_writes: false, ..options() };
        world.inject(FaultKind::InputOutputError, Operation::Read, path, true);
        let opened = open_with(&Env::simulated(Arc::new(vfs.clone()), 8), options.clone());
        if path == "base/" {
            // Redo has an image of the page and need not read it; a reader must.
            if let Ok((storage, _)) = opened {
                let items = Items::on(&storage, world.items.file);
                assert!(is_io(&items.numbers().unwrap_err()));
            }
        } else {
            assert!(is_io(&opened.unwrap_err()), "{path}");
        }
        vfs.heal();
        let (storage, summary) =
            open_with(&Env::simulated(Arc::new(vfs.clone()), 9), options).unwrap();
        assert!(summary.recovered || path == "base/");
        let numbers = Items::on(&storage, world.items.file).numbers().unwrap();
        assert!((0..u64::from(PAGES)).chain([100]).all(|number| numbers.contains(&number)));
    }
}

/// Recovery writes again everything it relies on. A failure of these writes does not end the
/// process either.
#[test]
fn recovery_that_cannot_write_again_refuses_and_can_be_repeated() {
    for path in ["wal/", "control"] {
        let world = world();
        world.items.add(3, &item(100)).unwrap().unwrap();
        world.storage.wal().flush(world.storage.wal().insert_lsn()).unwrap();
        let vfs = FaultyVfs::from_memory(&world.vfs.current());
        let (kind, operation) = (FaultKind::InputOutputError, Operation::Write);
        let path_contains = path.into();
        vfs.inject(Fault { kind, operation, path_contains, after: 0, sticky: false });
        let open = || open_with(&Env::simulated(Arc::new(vfs.clone()), 8), options());
        assert!(is_io(&open().unwrap_err()), "{path}");
        let (storage, _) = open().unwrap();
        let numbers = Items::on(&storage, world.items.file).numbers().unwrap();
        assert!((0..u64::from(PAGES)).chain([100]).all(|number| numbers.contains(&number)));
    }
}

/// A statement that needs a frame gets the error of writing the page in it; the page stays dirty.
#[test]
fn an_eviction_that_cannot_write_fails_the_statement_that_needed_the_frame() {
    for kind in WRITE_FAULTS {
        let world = world();
        world.inject(kind, Operation::Write, "base/", true);
        // The frames hold dirty pages, and each would have to be written.
        let errors: Vec<Error> = (0..PAGES).filter_map(|block| world.read(block).err()).collect();
        assert!(errors.len() >= (PAGES - 4) as usize, "{kind:?}: {}", errors.len());
        assert!(errors.iter().all(is_io));
        assert!(is_io(&world.storage.checkpoint(CheckpointKind::Requested, &[]).unwrap_err()));
        world.vfs.heal();
        world.sound();
        world.storage.checkpoint(CheckpointKind::Requested, &[]).unwrap();
        world.recovers(&[]);
    }
}

#[test]
fn the_background_writer_survives_a_disk_that_refuses() {
    for kind in WRITE_FAULTS {
        let world = world();
        world.inject(kind, Operation::Write, "base/", true);
        let mut writer = BackgroundWriter::default();
        let failures =
            (0..5).filter(|_| world.storage.background_write(&mut writer).is_err()).count();
        assert!(failures <= 5);
        world.vfs.heal();
        world.sound();
    }
}

/// The log's bytes must reach the disk, or the process ends: it is unknown which bytes a failed
/// write left there.
#[test]
fn a_failed_write_of_the_log_ends_the_process() {
    for kind in WRITE_FAULTS {
        let world = world();
        let kept = world.items.add(0, &item(100)).unwrap().unwrap();
        world.storage.wal().flush(kept).unwrap();
        let lost = world.items.add(0, &item(101)).unwrap().unwrap();
        world.inject(kind, Operation::Write, "wal/", false);
        let reason = reason_of_end(|| world.storage.wal().flush(lost).unwrap());
        assert!(reason.contains("could not write the log"), "{kind:?}: {reason}");
        assert!(world.storage.wal().flushed() < lost, "{kind:?}: reported durable");
        let error = world.storage.wal().flush(lost).unwrap_err().to_string();
        assert!(error.contains("nothing is written any more"), "{kind:?}: {error}");
        world.recovers(&[100]);
    }
}

/// A statement that panics is rolled back while the panic unwinds, and may flush for that. The log
/// is as good as before, and the process goes on.
#[test]
fn a_flush_while_a_panic_unwinds_leaves_the_log_alive() {
    struct Flushes<'w>(&'w World);
    impl Drop for Flushes<'_> {
        fn drop(&mut self) {
            let wal = self.0.storage.wal();
            wal.flush(wal.insert_lsn()).unwrap();
        }
    }
    let world = world();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _flushes = Flushes(&world);
        world.items.add(0, &item(100)).unwrap().unwrap();
        panic!("on purpose");
    }));
    assert!(panicked.is_err());
    world.items.add(1, &item(101)).unwrap().unwrap();
    let wal = world.storage.wal();
    wal.flush(wal.insert_lsn()).unwrap();
    world.recovers(&[100, 101]);
}

/// A segment that cannot be made fails the change that needs it, before anything is changed. A
/// whole segment of room is left for changes that must end.
#[test]
fn a_segment_of_the_log_that_cannot_be_made_fails_one_change() {
    for (kind, operation) in [
        (FaultKind::InputOutputError, Operation::Create),
        (FaultKind::InputOutputError, Operation::Write),
        (FaultKind::StorageFull, Operation::Write),
        (FaultKind::ShortWrite, Operation::Write),
        (FaultKind::InputOutputError, Operation::Rename),
    ] {
        let world = world();
        world.inject(kind, operation, "wal/new", true);
        let mut number = 100;
        let error = loop {
            let block = (number % u64::from(PAGES)) as u32;
            let change = world.items.add(block, &item(number)).and_then(|added| {
                added.map_or(Ok(Lsn(0)), |_| world.items.remove(block, &item(number)))
            });
            match change {
                Ok(_) => number += 1,
                Err(error) => break error,
            }
            assert!(number < 10_000, "{kind:?} {operation:?}: never noticed");
        };
        assert!(is_io(&error), "{kind:?} {operation:?}: {error}");
        world.storage.wal().flush(world.storage.wal().insert_lsn()).unwrap();
        world.vfs.heal();
        world.items.add(1, &item(5000)).unwrap().unwrap();
        world.storage.wal().flush(world.storage.wal().insert_lsn()).unwrap();
        world.sound();
        world.recovers(&[5000]);
    }
}

#[test]
fn a_file_that_cannot_grow_keeps_its_length() {
    for kind in [FaultKind::InputOutputError, FaultKind::StorageFull] {
        let world = world();
        world.inject(kind, Operation::Allocate, "base/", true);
        assert!(is_io(&world.items.extend(1).unwrap_err()), "{kind:?}");
        assert_eq!(world.items.blocks(), PAGES);
        world.vfs.heal();
        world.items.extend(1).unwrap();
        world.items.add(PAGES, &item(100)).unwrap().unwrap();
        world.storage.wal().flush(world.storage.wal().insert_lsn()).unwrap();
        world.sound();
        world.recovers(&[100]);
    }
}

#[test]
fn a_file_that_cannot_be_made_is_an_error_of_its_statement() {
    for kind in [FaultKind::InputOutputError, FaultKind::StorageFull] {
        let world = world();
        world.inject(kind, Operation::Create, "base/", true);
        let file = RelFile { id: world.storage.allocate_file(), logged: true };
        assert!(is_io(&world.storage.create_file(file, Xid(3)).unwrap_err()), "{kind:?}");
        world.vfs.heal();
        world.sound();
        world.storage.wal().flush(world.storage.wal().insert_lsn()).unwrap();
        world.recovers(&[]);
    }
}

/// The drop is logged before the file is removed, so recovery removes a file that an error left.
#[test]
fn a_file_that_cannot_be_removed_is_an_orphan() {
    let world = world();
    let other = Items::create(&world.storage);
    other.extend(2).unwrap();
    other.add(0, &item(1)).unwrap().unwrap();
    world.inject(FaultKind::InputOutputError, Operation::Remove, "base/", true);
    assert!(is_io(&world.storage.drop_file(other.file).unwrap_err()));
    world.vfs.heal();
    world.sound();
    assert!(world.storage.list_files().unwrap().contains(&other.file.id));
    let (redone, _) = open(&env_on(Arc::new(world.vfs.current())));
    assert!(!redone.list_files().unwrap().contains(&other.file.id));
}

/// The pages are discarded and the cut is in the log. A file that keeps its old length would show
/// pages that are gone.
#[test]
fn behind_a_cut_that_fails_nothing_is_written() {
    let world = world();
    world.inject(FaultKind::InputOutputError, Operation::SetLen, "base/", false);
    let error = world.storage.truncate_fork(world.items.file, Fork::Main, 6).unwrap_err();
    assert!(is_io(&error), "{error}");
    world.writes_nothing(&world.items);
    world.vfs.crash();
    for image in world.vfs.crash_images(&CrashOptions::default()) {
        let (storage, _) = open(&env_on(Arc::new(image.vfs)));
        let items = Items::on(&storage, world.items.file);
        assert_eq!(items.blocks(), 6, "{}", image.survivors);
        assert!(items.numbers().unwrap().into_iter().eq(0..6));
    }
}

#[test]
fn behind_a_control_file_that_cannot_be_written_nothing_is() {
    for kind in WRITE_FAULTS {
        let world = world();
        world.inject(kind, Operation::Write, "control", false);
        let error = world.storage.checkpoint(CheckpointKind::Requested, &[]).unwrap_err();
        assert!(is_io(&error), "{error}");
        world.writes_nothing(&world.items);
        world.sound();
        world.recovers(&[]);
    }
}

/// Regression test: a shutdown failed because other records were logged meanwhile, but had marked
/// the directory as cleanly shut down. Unlogged data was taken for complete after the next crash.
#[test]
fn a_directory_is_marked_clean_only_where_its_log_ends() {
    let world = world();
    world.vfs.record();
    let late = Items::on(&world.storage, world.items.file);
    world.vfs.observe_writes(Box::new(move |path, _, _| {
        // The checkpoint's record is durable, and the control file is written next.
        if path.starts_with("files.") {
            let lsn = late.add(0, &item(100)).unwrap().unwrap();
            late.storage.wal().flush(lsn).unwrap();
        }
    }));
    let error = world.storage.shutdown(&[]).unwrap_err();
    assert!(error.to_string().contains("the next start recovers"), "{error}");
    assert!(!world.storage.control().clean);
    // The directory is still open, and can be shut down once no thread works on it.
    world.vfs.observe_writes(Box::new(|_, _, _| {}));
    world.storage.shutdown(&[]).unwrap();
    assert!(world.storage.control().clean);
    let history = world.vfs.history().unwrap();
    let mut replay = history.replay();
    while replay.step().is_some() {
        for image in replay.images(&CrashOptions { images_max: 4, ..CrashOptions::default() }) {
            let (storage, summary) = open(&env_on(Arc::new(image.vfs)));
            assert_eq!(storage.was_killed(), summary.recovered, "{}", image.survivors);
        }
    }
}

/// The log is already sealed: the next start is correct with either mark.
#[test]
fn a_shutdown_whose_mark_cannot_be_written_has_ended_all_writing() {
    for kind in WRITE_FAULTS {
        let world = world();
        world.inject(kind, Operation::Write, "control", false);
        let error = world.storage.shutdown(&[]).unwrap_err();
        assert!(is_io(&error), "{error}");
        let before = world.vfs.changes();
        assert!(matches!(world.items.add(0, &item(1000)), Err(Error::Refused(_))));
        assert!(matches!(world.storage.shutdown(&[]), Err(Error::Refused(_))));
        assert_eq!(world.vfs.changes(), before);
        world.recovers(&[]);
    }
}

#[test]
fn a_failed_sync_of_the_control_file_ends_the_process() {
    let world = world();
    world.inject(FaultKind::SyncLosesBytes, Operation::SyncData, "control", false);
    let reason = reason_of_end(|| {
        let _ = world.storage.checkpoint(CheckpointKind::Requested, &[]);
    });
    assert!(reason.contains("could not sync the control file"), "{reason}");
    world.recovers(&[]);
}

/// A flush that panics does not end the process of an embedding program. Other threads get an
/// error, since writing has ended. Regression test: they waited for ever for locks of the panicking
/// thread.
#[test]
fn behind_a_flush_that_panics_nothing_is_written() {
    let world = world();
    let last = world.items.add(0, &item(100)).unwrap().unwrap();
    world.inject(FaultKind::Panic, Operation::Write, "wal/", false);
    let flush = || world.storage.wal().flush(last);
    assert!(catch_unwind(AssertUnwindSafe(flush)).is_err());
    assert!(is_io(&flush().unwrap_err()));
    assert!(world.storage.wal().flushed() < last);
    world.writes_nothing(&world.items);
    world.recovers(&[]);
}

/// A failed sync of a folder loses the names of new files.
#[test]
fn a_failed_sync_of_a_folder_ends_the_process() {
    let world = world();
    // After the checkpoint, redo creates no earlier file again.
    world.storage.checkpoint(CheckpointKind::Requested, &[]).unwrap();
    world.inject(FaultKind::InputOutputError, Operation::SyncDir, "base", false);
    let _new = Items::create(&world.storage);
    // A further segment of a file, and a map.
    world.items.extend(PAGES).unwrap();
    for block in PAGES..2 * PAGES {
        world.items.add(block, &item(block.into())).unwrap().unwrap();
    }
    let map = PageId { fork: Fork::Visibility, ..world.items.page_id(0) };
    world.storage.pool().extend(world.items.file, map.fork, 1).unwrap();
    world.items.add_to(map, &item(0)).unwrap().unwrap();
    world.storage.wal().flush(world.storage.wal().insert_lsn()).unwrap();
    let ended =
        catch_unwind(AssertUnwindSafe(|| world.storage.checkpoint(CheckpointKind::Requested, &[])));
    assert!(ended.is_err(), "the failure was passed over: {ended:?}");
    let further: Vec<_> = (PAGES..2 * PAGES).map(u64::from).collect();
    world.recovers(&further);
}

/// Adds items, from number `first` on, until the log reaches into its segment `segment`. Returns
/// the next item's number.
fn fill_log(items: &Items, first: u64, segment: u64) -> u64 {
    let payload = items.storage.options().wal_segment_bytes - wal::SEGMENT_HEADER_SIZE;
    let mut number = first;
    // Ends: each item adds to the log.
    while items.storage.wal().insert_lsn().0 <= segment * payload {
        items.add(number as u32 % PAGES, &item(number)).unwrap().unwrap();
        number += 1;
    }
    number
}

/// Regression test: a start ended because the name of a new log segment could not be made durable.
/// The next start found the name and wrote commits into the segment. The disk was full by then, so
/// no other segment was made, the folder was not synced, and a power loss took the name.
#[test]
fn a_segment_of_the_log_that_is_found_has_a_durable_name() {
    let full = Fault {
        kind: FaultKind::StorageFull,
        operation: Operation::Create,
        path_contains: "wal/new".into(),
        after: 0,
        sticky: true,
    };
    let vfs = FaultyVfs::new();
    let (storage, _) = open(&Env::simulated(Arc::new(vfs.clone()), 7));
    let items = Items::create(&storage);
    items.extend(PAGES).unwrap();
    let first = fill_log(&items, 0, 1);
    // The process stops without a segment ahead.
    vfs.inject(full.clone());
    storage.shutdown(&[]).unwrap();
    vfs.heal();
    for after in 0..3 {
        let world = vfs.restarted();
        world.inject(Fault {
            kind: FaultKind::SyncLosesBytes,
            operation: Operation::SyncDir,
            path_contains: "wal".into(),
            after,
            sticky: false,
        });
        let env = Env::simulated(Arc::new(world.clone()), 8);
        let _ended = catch_unwind(AssertUnwindSafe(|| open_with(&env, StorageOptions::tiny())));
        let world = world.restarted();
        let (storage, _) = open(&Env::simulated(Arc::new(world.clone()), 9));
        world.inject(full.clone());
        let items = Items::on(&storage, items.file);
        let end = fill_log(&items, first, 2);
        storage.wal().flush(storage.wal().insert_lsn()).unwrap();
        world.crash();
        for image in world.crash_images(&CrashOptions::default()) {
            let (storage, _) = open(&env_on(Arc::new(image.vfs)));
            let numbers = Items::on(&storage, items.file).numbers().unwrap();
            assert!(numbers.into_iter().eq(0..end), "sync {after}, kept {}", image.survivors);
        }
    }
}

/// Regression test: a disk was full, and the process was killed. Recovery wanted another segment
/// although the last one had room, and the directory did not open. A checkpoint also did not free
/// the segments before it.
#[test]
fn on_a_full_disk_the_last_segment_is_enough_for_recovery() {
    let full = Fault {
        kind: FaultKind::StorageFull,
        operation: Operation::Create,
        path_contains: "wal/new".into(),
        after: 0,
        sticky: true,
    };
    let vfs = FaultyVfs::new();
    let (storage, _) = open(&Env::simulated(Arc::new(vfs.clone()), 7));
    let items = Items::create(&storage);
    items.extend(PAGES).unwrap();
    storage.checkpoint(CheckpointKind::Requested, &[]).unwrap();
    vfs.inject(full.clone());
    let mut end = 0;
    // Ends: the log grows, and gets no segment.
    while let Ok(added) = items.add(end as u32 % PAGES, &item(end)) {
        added.unwrap();
        end += 1;
    }
    storage.wal().flush(storage.wal().insert_lsn()).unwrap();
    let world = vfs.restarted();
    world.inject(full);
    let (opened, summary) = open(&Env::simulated(Arc::new(world), 8));
    assert!(summary.recovered);
    let items = Items::on(&opened, items.file);
    assert!(items.numbers().unwrap().into_iter().eq(0..end));
    // Earlier segments are used again.
    items.add(0, &item(end)).unwrap().unwrap();

    // A running engine makes that checkpoint by itself.
    let mut last_checkpoint = Duration::ZERO;
    storage.background_step(&mut last_checkpoint, &[], &mut |_| {}).unwrap();
    Items::on(&storage, items.file).add(0, &item(end)).unwrap().unwrap();
}

/// Regression test: the disk became full during a spread checkpoint. The checkpoint kept its slow
/// pace, and changes were refused for minutes, although its end freed segments.
#[test]
fn a_checkpoint_hurries_when_the_disk_is_full() {
    let vfs = FaultyVfs::new();
    let env = Env::simulated(Arc::new(vfs.clone()), 7);
    let patient = StorageOptions { max_wal_bytes: 64 << 20, ..StorageOptions::tiny() };
    let (storage, _) = open_with(&env, patient).unwrap();
    let items = Items::create(&storage);
    items.extend(PAGES).unwrap();
    let mut number = fill_log(&items, 0, 1);
    let mut is_full = false;
    let mut fill = |_: Duration| {
        assert!(!is_full, "it waits for the clock");
        is_full = true;
        vfs.inject(Fault {
            kind: FaultKind::StorageFull,
            operation: Operation::Create,
            path_contains: "wal/new".into(),
            after: 0,
            sticky: true,
        });
        // Ends: the log grows, and gets no segment.
        while let Ok(added) = items.add(number as u32 % PAGES, &item(number)) {
            added.unwrap();
            number += 1;
        }
    };
    storage.spread_checkpoint(CheckpointKind::Timed, &[], &mut fill).unwrap();
    assert!(is_full);
    items.add(0, &item(number)).unwrap().unwrap();
}

/// A grown file may show its own old bytes where a write was lost: redo writes over them before
/// they are read.
#[test]
fn old_bytes_in_a_grown_file_are_never_served() {
    let world = world();
    world.storage.checkpoint(CheckpointKind::Requested, &[]).unwrap();
    world.vfs.record();
    // Cut and grown again: a careless file system would show the old bytes behind the cut.
    world.storage.truncate_fork(world.items.file, Fork::Main, 4).unwrap();
    world.items.extend(8).unwrap();
    for block in 4..PAGES {
        world.items.add(block, &item(1000 + u64::from(block))).unwrap().unwrap();
    }
    world.storage.wal().flush(world.storage.wal().insert_lsn()).unwrap();
    let promised_at = world.vfs.history().unwrap().len();
    world.storage.checkpoint(CheckpointKind::Requested, &[]).unwrap();
    let history = world.vfs.history().unwrap();
    let mut replay = history.replay();
    let mut images = 0;
    while replay.step().is_some() {
        let done = replay.done();
        let options = CrashOptions {
            images_max: 12,
            stale_bytes: true,
            seed: done as u64,
            ..CrashOptions::default()
        };
        for image in replay.images(&options) {
            images += 1;
            let (storage, _) = open(&env_on(Arc::new(image.vfs)));
            let numbers = Items::on(&storage, world.items.file).numbers().unwrap();
            assert!((0..4).all(|number| numbers.contains(&number)), "{}", image.survivors);
            if done >= promised_at {
                let expected = (0..4).chain(1004..1000 + u64::from(PAGES));
                assert!(numbers.into_iter().eq(expected), "{}", image.survivors);
            }
        }
    }
    assert!(images > 100, "{images}");
}

/// Regression test: an index build filled the disk and was rolled back, and the process was killed.
/// Recovery created the file again only to remove it, found no room, and the directory did not
/// open.
#[test]
fn recovery_needs_no_room_for_a_file_that_the_log_drops() {
    let world = world();
    world.storage.checkpoint(CheckpointKind::Requested, &[]).unwrap();
    let filler = Items::create(&world.storage);
    filler.extend(PAGES).unwrap();
    for block in 0..PAGES {
        filler.add(block, &item(block.into())).unwrap().unwrap();
    }
    world.storage.drop_file(filler.file).unwrap();
    let storage = world.recovered_on_a_full_disk();
    assert!(!storage.file_exists(filler.file.id).unwrap());
    assert!(storage.allocate_file() > filler.file.id, "numbers are not given twice");
    let numbers = Items::on(&storage, world.items.file).numbers().unwrap();
    assert!(numbers.into_iter().eq(0..u64::from(PAGES)));
}

/// The same for a table that grew and was cut by VACUUM.
#[test]
fn recovery_needs_no_room_for_pages_that_the_log_cuts_off() {
    let world = world();
    world.storage.checkpoint(CheckpointKind::Requested, &[]).unwrap();
    world.items.extend(PAGES).unwrap();
    for block in PAGES..2 * PAGES {
        world.items.add(block, &item(block.into())).unwrap().unwrap();
    }
    world.storage.truncate_fork(world.items.file, Fork::Main, PAGES).unwrap();
    world.items.add(0, &item(100)).unwrap().unwrap();
    world.storage.wal().flush(world.storage.wal().insert_lsn()).unwrap();
    let storage = world.recovered_on_a_full_disk();
    let items = Items::on(&storage, world.items.file);
    assert_eq!(items.blocks(), PAGES);
    assert!(items.numbers().unwrap().into_iter().eq((0..u64::from(PAGES)).chain([100])));
}

#[test]
fn a_full_disk_in_recovery_is_an_error_and_the_next_start_works() {
    let world = world();
    let left = world.vfs.restarted();
    left.inject(Fault {
        kind: FaultKind::StorageFull,
        operation: Operation::Allocate,
        path_contains: "base/".into(),
        after: 1,
        sticky: true,
    });
    let env = Env::simulated(Arc::new(left.clone()), 11);
    let error = open_with(&env, options()).unwrap_err();
    assert!(matches!(error, Error::DiskFull { .. }), "{error}");
    let name = format!("could not extend base/{}.main by 1 blocks", world.items.file.id);
    let text = error.to_string();
    assert!(text.contains(&name) && text.contains("when there is room on disk again"), "{text}");
    left.heal();
    let (storage, _) = open_with(&env, options()).unwrap();
    let numbers = Items::on(&storage, world.items.file).numbers().unwrap();
    assert!(numbers.into_iter().eq(0..u64::from(PAGES)));
}
