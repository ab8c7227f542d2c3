//! Tests of page writes: checkpoints spread their work, the background writer relieves sessions,
//! neighbours are written together, and no page is written before its log.

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use niwaki_env::Env;
use niwaki_env::clock::{Clock, ManualClock};
use niwaki_env::vfs::{Fault, FaultKind, FaultyVfs, Operation};
use niwaki_storage::*;
use support::*;

struct World {
    vfs: FaultyVfs,
    clock: Arc<ManualClock>,
    storage: Arc<Storage>,
    items: Items,
}

/// Makes a file of `blocks` pages, all of them on disk.
fn world(options: StorageOptions, blocks: u32) -> World {
    let (vfs, clock) = (FaultyVfs::new(), Arc::new(ManualClock::new()));
    let env = Env { clock: clock.clone(), ..Env::simulated(Arc::new(vfs.clone()), 1) };
    let (storage, _) = open_with(&env, options).unwrap();
    let items = Items::create(&storage);
    items.extend(blocks).unwrap();
    let world = World { vfs, clock, storage, items };
    world.dirty(blocks, 0);
    world.storage.checkpoint(CheckpointKind::Requested, &[]).unwrap();
    world
}

impl World {
    /// Changes each of the first `blocks` pages.
    fn dirty(&self, blocks: u32, round: u64) {
        for block in 0..blocks {
            let number = round * 1000 + u64::from(block);
            self.items.add(block, &item(number)).unwrap().unwrap();
        }
    }

    /// Collects every later write of a page: offset and length. Panics when a page is written
    /// before its log (W1).
    fn watch(&self) -> Arc<Mutex<Vec<(u64, usize)>>> {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (storage, log) = (Arc::downgrade(&self.storage), Arc::clone(&seen));
        self.vfs.observe_writes(Box::new(move |path, offset, bytes| {
            let Some(storage) = storage.upgrade() else { return };
            if path.starts_with("base/") {
                for page in bytes.chunks_exact(page::PAGE_SIZE) {
                    let lsn = Lsn(u64::from_le_bytes(page[..8].try_into().unwrap()));
                    assert!(lsn <= storage.wal().flushed(), "W1: page with LSN {lsn} too early");
                }
                log.lock().unwrap().push((offset, bytes.len()));
            }
        }));
        seen
    }
}

fn options(frames: usize) -> StorageOptions {
    StorageOptions { shared_buffers: frames, segment_blocks: 1024, ..StorageOptions::tiny() }
}

#[test]
fn a_checkpoint_by_time_takes_its_part_of_the_time() {
    let world = world(options(128), 100);
    // Every second page, so that no two pages share a write.
    for block in (0..100).step_by(2) {
        world.items.add(block, &item(5000 + u64::from(block))).unwrap().unwrap();
    }
    let began = world.clock.monotonic();
    let mut pauses = Vec::new();
    let summary = world
        .storage
        .spread_checkpoint(CheckpointKind::Timed, &[], &mut |time| {
            assert!(world.storage.pool().is_idle(), "nothing is pinned in a pause");
            world.clock.advance(time);
            pauses.push(world.storage.write_statistics().by_checkpoints);
        })
        .unwrap();
    assert_eq!(summary.pages, 50);
    let took = world.clock.monotonic().checked_sub(began).unwrap().as_secs_f64();
    let budget = world.storage.options().checkpoint_timeout.as_secs_f64() * 0.9;
    assert!(took < budget && took > budget * 0.95, "{took} of {budget} s");
    // Half-way through the time half of the pages are written.
    let half = pauses[pauses.len() / 2] - pauses[0];
    assert!((23..=26).contains(&half), "{half}");
    let statistics = world.storage.write_statistics();
    assert_eq!((statistics.checkpoints_timed, statistics.checkpoints_requested), (1, 1));
    assert!(statistics.checkpoint_write_us as f64 >= took * 1e6 * 0.99);
}

#[test]
fn the_log_drives_a_checkpoint_when_it_is_faster_than_the_clock() {
    let world = world(options(128), 100);
    world.dirty(64, 1);
    let log_at = |world: &World| world.storage.wal().insert_lsn().0;
    let began = log_at(&world);
    let distance = world.storage.options().max_wal_bytes * 10 / 19;
    // The clock stands still; another session fills the log in the pauses.
    let mut number = 100_000;
    world
        .storage
        .spread_checkpoint(CheckpointKind::LogVolume, &[], &mut |_| {
            for _ in 0..4 {
                number += 1;
                world.items.add(99, &item(number)).unwrap();
                world.items.remove(99, &item(number)).unwrap();
            }
        })
        .unwrap();
    let used = (log_at(&world) - began) as f64 / distance as f64;
    assert!((0.5..0.95).contains(&used), "ended after {used} of the way to the next one");
}

#[test]
fn who_asks_for_a_checkpoint_does_not_wait_for_the_clock() {
    let world = world(options(128), 100);
    world.dirty(100, 1);
    let mut pauses = 0;
    std::thread::scope(|scope| {
        let mut asked = None;
        world
            .storage
            .spread_checkpoint(CheckpointKind::Timed, &[], &mut |_| {
                // The clock does not move: without the request the checkpoint would never end.
                pauses += 1;
                asked.get_or_insert_with(|| {
                    let storage = Arc::clone(&world.storage);
                    scope.spawn(move || storage.checkpoint(CheckpointKind::Requested, &[]).unwrap())
                });
                std::thread::yield_now();
            })
            .unwrap();
        let requested = asked.take().unwrap().join().unwrap();
        assert_eq!(world.storage.control().redo, requested.redo);
    });
    assert!(pauses > 0);
    assert_eq!(world.storage.write_statistics().checkpoints_requested, 2);
}

#[test]
fn neighbours_are_written_together_in_the_order_of_the_file() {
    let world = world(StorageOptions { segment_blocks: 40, ..options(128) }, 100);
    for block in (0..100).rev() {
        if block % 25 != 7 {
            world.items.add(block, &item(1000 + u64::from(block))).unwrap().unwrap();
        }
    }
    let seen = world.watch();
    world.storage.checkpoint(CheckpointKind::Requested, &[]).unwrap();
    let page = page::PAGE_SIZE as u64;
    let runs: Vec<(u64, usize)> = seen
        .lock()
        .unwrap()
        .iter()
        .map(|(offset, bytes)| (offset / page, bytes / page::PAGE_SIZE))
        .collect();
    // Clean pages 7, 32, 57, 82, at most 16 at once, and no write across the end of a segment file
    // of 40 pages.
    let expected = [
        (0, 7),
        (8, 16),
        (24, 8),
        (33, 7),
        (0, 16),
        (16, 1),
        (18, 16),
        (34, 6),
        (0, 2),
        (3, 16),
        (19, 1),
    ];
    assert_eq!(runs, expected);
}

#[test]
fn the_background_writer_spares_sessions_their_writes() {
    let run = |pages_max: usize| {
        let world = world(StorageOptions { bgwriter_lru_maxpages: pages_max, ..options(32) }, 200);
        let seen = world.watch();
        let before = world.storage.write_statistics();
        let mut writer = BackgroundWriter::default();
        for step in 0..2000u64 {
            let block = (step * 7 % 200) as u32;
            let number = 10_000 + step;
            world.items.add(block, &item(number)).unwrap().unwrap();
            world.items.remove(block, &item(number)).unwrap();
            if step % 4 == 0 {
                world.clock.advance(world.storage.options().bgwriter_delay);
                world.storage.background_write(&mut writer).unwrap();
            }
        }
        assert!(world.storage.pool().is_idle());
        assert_eq!(world.items.numbers().unwrap().len(), 200);
        let after = world.storage.write_statistics();
        let counted =
            after.by_background + after.by_sessions - before.by_background - before.by_sessions;
        let written: usize =
            seen.lock().unwrap().iter().map(|(_, bytes)| bytes / page::PAGE_SIZE).sum();
        assert_eq!(counted, written as u64, "every written page is counted once");
        (after.by_background, after.by_sessions - before.by_sessions, after.background_stopped)
    };
    let (background, sessions, stopped) = run(100);
    assert!(background > 1500 && sessions < background / 20, "{background} {sessions}");
    assert_eq!(stopped, 0);
    let (background, sessions, _) = run(0);
    assert!(background == 0 && sessions > 1500, "{background} {sessions}");
    // One page per round is not enough.
    let (background, sessions, stopped) = run(1);
    assert!(
        background > 300 && sessions > 1000 && stopped > 300,
        "{background} {sessions} {stopped}"
    );
}

#[test]
fn an_idle_database_is_left_alone() {
    let world = world(options(128), 100);
    world.dirty(100, 1);
    let mut writer = BackgroundWriter::default();
    let mut rounds = || {
        world.clock.advance(world.storage.options().bgwriter_delay);
        world.storage.background_write(&mut writer).unwrap()
    };
    // The demand of loading the pages is remembered for a while only.
    (0..200).for_each(|_| assert!(rounds() <= 100));
    assert_eq!((0..50).map(|_| rounds()).sum::<u64>(), 0);
}

/// A page that could not be written stays dirty, with all its neighbours in the same write.
#[test]
fn a_failed_write_leaves_its_pages_dirty() {
    let world = world(options(128), 40);
    world.dirty(40, 1);
    let before = world.storage.control();
    for kind in [FaultKind::InputOutputError, FaultKind::StorageFull, FaultKind::ShortWrite] {
        let fault = Fault {
            kind,
            operation: Operation::Write,
            path_contains: "base/".into(),
            after: 1,
            sticky: false,
        };
        world.vfs.inject(fault);
        let error = world.storage.checkpoint(CheckpointKind::Requested, &[]).unwrap_err();
        assert!(matches!(error, Error::Io { .. } | Error::DiskFull { .. }), "{error}");
        assert_eq!(world.storage.control(), before, "the old checkpoint is valid");
        assert!(world.storage.pool().is_idle());
        world.dirty(40, 2 + kind as u64);
    }
    let seen = world.watch();
    world.storage.checkpoint(CheckpointKind::Requested, &[]).unwrap();
    let pages: usize = seen.lock().unwrap().iter().map(|(_, bytes)| bytes / page::PAGE_SIZE).sum();
    assert_eq!(pages, 40);
    let expected = world.items.numbers().unwrap();
    let (redone, _) = open(&env_on(Arc::new(world.vfs.current())));
    assert_eq!(Items::on(&redone, world.items.file).numbers().unwrap(), expected);
}

/// A spread checkpoint may end long after its beginning: changes in between are in the log behind
/// its redo position.
#[test]
fn a_crash_at_any_moment_of_a_spread_checkpoint_recovers() {
    let world = world(options(64), 40);
    world.vfs.record();
    for block in (0..40).step_by(2) {
        world.items.add(block, &item(1000 + u64::from(block))).unwrap().unwrap();
    }
    let expected = world.items.numbers().unwrap();
    world.storage.wal().flush(world.storage.wal().insert_lsn()).unwrap();
    let flushed_at = world.vfs.history().unwrap().len();
    let mut number = 50_000;
    world
        .storage
        .spread_checkpoint(CheckpointKind::Timed, &[], &mut |_| {
            world.clock.advance(Duration::from_secs(20));
            number += 1;
            world.items.add((number % 40) as u32, &item(number)).unwrap().unwrap();
        })
        .unwrap();
    assert!(number > 50_001);
    let history = world.vfs.history().unwrap();
    let mut replay = history.replay();
    let mut images = 0;
    while replay.step().is_some() {
        if replay.done() < flushed_at {
            continue;
        }
        let options = niwaki_env::vfs::CrashOptions {
            images_max: 6,
            seed: replay.done() as u64,
            ..Default::default()
        };
        for image in replay.images(&options) {
            let (storage, _) = open(&env_on(Arc::new(image.vfs)));
            let found = Items::on(&storage, world.items.file).numbers().unwrap();
            assert!(found.is_superset(&expected), "{}", image.survivors);
            images += 1;
        }
    }
    assert!(images > 50, "{images}");
}
