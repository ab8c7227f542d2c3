//! Tests of the pool and the log under a deterministic scheduler: every interleaving must keep the
//! properties of the single-threaded tests.

mod support;

use std::sync::Arc;

use niwaki_env::clock::ManualClock;
use niwaki_env::sync::atomic::{AtomicU64, Ordering};
use niwaki_env::sync::thread;
use niwaki_env::vfs::{Fault, FaultKind, FaultyVfs, MemoryVfs, Operation};
use niwaki_env::{Env, bugs};
use niwaki_storage::*;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner};
use support::*;

/// Seed of all schedules, so that each run is the same; `SHUTTLE_RANDOM_SEED` replaces it.
const SEED: u64 = 1;

fn explore(iterations: usize, test: fn()) {
    let mut config = Config::new();
    // Pages are copied on the stack.
    config.stack_size = 1 << 20;
    Runner::new(RandomScheduler::new_from_seed(SEED, iterations), config.clone()).run(test);
    Runner::new(PctScheduler::new_from_seed(SEED, 3, iterations), config).run(test);
}

fn tiny(frames: usize) -> StorageOptions {
    StorageOptions { shared_buffers: frames, ..StorageOptions::tiny() }
}

/// Three writers on pages of a pool that cannot hold them, with a checkpoint in between. The
/// changes that each flushed are there after a crash at the end, and redo makes the same pages.
fn writers_and_a_checkpoint() {
    let vfs = Arc::new(MemoryVfs::new());
    let env = Env::simulated(vfs.clone(), 1);
    let (storage, _) = open_with(&env, tiny(4)).unwrap();
    let items = Arc::new(Items::create(&storage));
    items.extend(6).unwrap();
    let threads: Vec<_> = (0..3u64)
        .map(|who| {
            let items = Arc::clone(&items);
            thread::spawn(move || {
                for round in 0..3 {
                    let block = ((who * 2 + round * 3) % 6) as u32;
                    let lsn = items.add(block, &item(who * 100 + round)).unwrap().unwrap();
                    items.storage.wal().flush(lsn).unwrap();
                    assert!(items.storage.wal().flushed() >= lsn);
                }
            })
        })
        .collect();
    storage.checkpoint(CheckpointKind::Requested, &[]).unwrap();
    for thread in threads {
        thread.join().unwrap();
    }
    let expected = items.numbers().unwrap();
    assert_eq!(expected.len(), 9);
    assert!(storage.pool().is_idle());
    let after = Env::simulated(Arc::new(vfs.fork()), 2);
    let (redone, _) = open_with(&after, tiny(8)).unwrap();
    assert_eq!(Items::on(&redone, items.file).numbers().unwrap(), expected);
    assert_eq!(compare::redo_equals_do(&storage, &redone, &|_| ()).unwrap(), []);
}

#[test]
fn writers_and_a_checkpoint_agree() {
    explore(1500, writers_and_a_checkpoint);
}

/// Two sessions flush their changes, and all writing ends in between. A session whose record is
/// durable anyway gets no error.
fn flushes_and_the_end_of_all_writing() {
    let vfs = Arc::new(FaultyVfs::new());
    let env = Env::simulated(Arc::clone(&vfs) as _, 1);
    let (storage, _) = open_with(&env, tiny(8)).unwrap();
    let cut = RelFile { id: RelFileId(40), logged: false };
    storage.create_file(cut, Xid(3)).unwrap();
    storage.pool().extend(cut, Fork::Main, 2).unwrap();
    let items = Arc::new(Items::create(&storage));
    items.extend(2).unwrap();
    let (kind, operation) = (FaultKind::InputOutputError, Operation::SetLen);
    vfs.inject(Fault { kind, operation, path_contains: "base/".into(), after: 0, sticky: false });
    let threads: Vec<_> = (0..2u32)
        .map(|who| {
            let items = Arc::clone(&items);
            thread::spawn(move || {
                // Either changes are refused by now, or there is room.
                let lsn = items.add(who, &item(who.into())).ok()?.expect("room on the page");
                Some((lsn, items.storage.wal().flush(lsn).is_ok()))
            })
        })
        .collect();
    assert!(storage.truncate_fork(cut, Fork::Main, 1).is_err());
    let told: Vec<_> = threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect();
    for (lsn, durable) in told {
        assert_eq!(durable, storage.wal().flushed() >= lsn, "{lsn}");
    }
}

#[test]
fn a_record_that_is_durable_is_never_told_to_be_lost() {
    explore(2000, flushes_and_the_end_of_all_writing);
}

/// Readers of more pages than there are frames, beside a writer of the same pages.
fn readers_and_evictions() {
    let env = Env::simulated(Arc::new(MemoryVfs::new()), 1);
    let (storage, _) = open_with(&env, tiny(4)).unwrap();
    let items = Arc::new(Items::create(&storage));
    items.extend(4).unwrap();
    for block in 0..4 {
        items.add(block, &item(u64::from(block))).unwrap();
    }
    let threads: Vec<_> = (0..2u32)
        .map(|who| {
            let items = Arc::clone(&items);
            thread::spawn(move || {
                for step in 0..4 {
                    let block = (who + step) % 4;
                    let pin = items.storage.pool().pin(items.page_id(block)).unwrap();
                    let page = pin.read();
                    assert_eq!(page.item(OffsetNumber(1)), Some(&item(u64::from(block))[..]));
                }
            })
        })
        .collect();
    for block in 0..4 {
        items.add(block, &item(100 + u64::from(block))).unwrap();
    }
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(items.numbers().unwrap().len(), 8);
    assert!(storage.pool().is_idle());
}

#[test]
fn readers_see_whole_pages_while_frames_change_hands() {
    explore(2000, readers_and_evictions);
}

/// A table is dropped and another cut while a checkpoint writes pages.
fn drop_and_checkpoint() {
    let vfs = Arc::new(MemoryVfs::new());
    let env = Env::simulated(vfs.clone(), 1);
    let (storage, _) = open_with(&env, tiny(8)).unwrap();
    let (gone, cut) = (Items::create(&storage), Items::create(&storage));
    for items in [&gone, &cut] {
        items.extend(3).unwrap();
        for block in 0..3 {
            items.add(block, &item(u64::from(block))).unwrap();
        }
    }
    let (gone_file, cut_file) = (gone.file, cut.file);
    let worker = {
        let storage = Arc::clone(&storage);
        thread::spawn(move || {
            storage.drop_file(gone_file).unwrap();
            storage.truncate_fork(cut_file, Fork::Main, 1).unwrap();
        })
    };
    storage.checkpoint(CheckpointKind::Requested, &[]).unwrap();
    // The process may end right here.
    let half = Env::simulated(Arc::new(vfs.fork()), 2);
    let (middle, _) = open_with(&half, tiny(8)).unwrap();
    if middle.file_exists(cut_file.id).unwrap() {
        let numbers = Items::on(&middle, cut_file).numbers().unwrap();
        assert!(numbers.len() == 3 || numbers.len() == 1, "{numbers:?}");
    }
    worker.join().unwrap();
    let after = Env::simulated(Arc::new(vfs.fork()), 3);
    let (redone, _) = open_with(&after, tiny(8)).unwrap();
    assert_eq!(redone.list_files().unwrap(), [cut_file.id]);
    assert_eq!(Items::on(&redone, cut_file).numbers().unwrap().len(), 1);
}

#[test]
fn files_change_beside_a_checkpoint() {
    explore(1500, drop_and_checkpoint);
}

/// Optimistic reads, or latches with a published copy, beside a writer and evictions. A
/// read that holds saw one state of the page, not older than changes that were complete before.
fn optimistic_reads_beside_changes() {
    const BLOCKS: u32 = 5;
    const ADDED: u64 = 2;
    let env = Env::simulated(Arc::new(MemoryVfs::new()), 1);
    let (storage, _) = open_with(&env, tiny(4)).unwrap();
    let items = Arc::new(Items::create(&storage));
    items.extend(BLOCKS).unwrap();
    for block in 0..BLOCKS {
        items.add(block, &item(0)).unwrap();
    }
    let done = Arc::new(AtomicU64::new(0));
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let (items, done) = (Arc::clone(&items), Arc::clone(&done));
            thread::spawn(move || {
                for _ in 0..3 {
                    let before = done.load(Ordering::Acquire);
                    for block in 0..BLOCKS {
                        let pool = items.storage.pool();
                        let Some(read) = pool.read_optimistically(items.page_id(block)) else {
                            pool.pin(items.page_id(block)).unwrap().read().publish();
                            continue;
                        };
                        let count = read.item_count();
                        let id = read.item_id(count);
                        let mut last = vec![0; usize::from(id.len())];
                        read.copy(usize::from(id.offset()), &mut last);
                        if read.holds() {
                            assert!(u64::from(count) > before, "{count} items after {before}");
                            assert_eq!(last, item(u64::from(count) - 1), "not one state");
                        }
                    }
                }
            })
        })
        .collect();
    for number in 1..=ADDED {
        for block in 0..BLOCKS {
            items.add(block, &item(number)).unwrap();
        }
        done.store(number, Ordering::Release);
    }
    for reader in readers {
        reader.join().unwrap();
    }
}

#[test]
fn optimistic_reads_see_one_state_and_no_old_one() {
    explore(1000, optimistic_reads_beside_changes);
}

/// Checks that the planted bug is found.
fn finds(bug: &'static str, test: fn()) {
    bugs::plant(Some(bug));
    let found = std::panic::catch_unwind(|| explore(3000, test)).is_err();
    bugs::plant(None);
    assert!(found, "nothing noticed {bug}");
}

#[test]
#[ignore = "plants bugs for the whole process: run alone"]
fn broken_optimistic_reads_are_found() {
    finds("glance_unchecked", optimistic_reads_beside_changes);
    finds("copy_outlives_change", optimistic_reads_beside_changes);
}

/// A spread checkpoint, the background writer and sessions that evict, on two files with one
/// descriptor. No page is written before its log, no change is lost, and no thread waits for ever.
fn everybody_writes() {
    let vfs = FaultyVfs::new();
    let clock = Arc::new(ManualClock::new());
    let env = Env { clock: clock.clone(), ..Env::simulated(Arc::new(vfs.clone()), 1) };
    let options = StorageOptions { open_files_max: 1, ..tiny(8) };
    let (storage, _) = open_with(&env, options).unwrap();
    let files: Vec<_> = (0..2).map(|_| Arc::new(Items::create(&storage))).collect();
    for items in &files {
        items.extend(5).unwrap();
    }
    {
        let storage = Arc::downgrade(&storage);
        vfs.observe_writes(Box::new(move |path, _, bytes| {
            let Some(storage) = storage.upgrade() else { return };
            if path.starts_with("base/") {
                for page in bytes.chunks_exact(page::PAGE_SIZE) {
                    let lsn = Lsn(u64::from_le_bytes(page[..8].try_into().unwrap()));
                    assert!(lsn <= storage.wal().flushed(), "W1");
                }
            }
        }));
    }
    let mut threads = Vec::new();
    for who in 0..2u64 {
        let files = files.clone();
        threads.push(thread::spawn(move || {
            for round in 0..3u64 {
                let items = &files[((who + round) % 2) as usize];
                items.add((who * 2 + round) as u32, &item(who * 100 + round)).unwrap().unwrap();
            }
        }));
    }
    let (writer, ticking) = (Arc::clone(&storage), clock.clone());
    threads.push(thread::spawn(move || {
        let mut state = BackgroundWriter::default();
        for _ in 0..3 {
            ticking.advance(writer.options().bgwriter_delay);
            writer.background_write(&mut state).unwrap();
        }
    }));
    let (asker, read) = (Arc::clone(&storage), files.clone());
    threads.push(thread::spawn(move || {
        // More pages than there are frames.
        for block in 0..5 {
            for items in &read {
                asker.pool().pin(items.page_id(block)).unwrap();
            }
        }
        asker.checkpoint(CheckpointKind::Requested, &[]).unwrap();
    }));
    let mut pause = |time| {
        clock.advance(time * 100);
        thread::yield_now();
    };
    storage.spread_checkpoint(CheckpointKind::Timed, &[], &mut pause).unwrap();
    for thread in threads {
        thread.join().unwrap();
    }
    assert!(storage.pool().is_idle());
    let expected: Vec<_> = files.iter().map(|items| items.numbers().unwrap()).collect();
    assert_eq!(expected.iter().map(|numbers| numbers.len()).sum::<usize>(), 6);
    storage.wal().flush(storage.wal().insert_lsn()).unwrap();
    let after = Env::simulated(Arc::new(vfs.current()), 2);
    let (redone, _) = open_with(&after, tiny(8)).unwrap();
    for (items, expected) in files.iter().zip(expected) {
        assert_eq!(Items::on(&redone, items.file).numbers().unwrap(), expected);
    }
}

#[test]
fn checkpoint_background_writer_and_sessions_agree() {
    explore(800, everybody_writes);
}

/// Two streams over one file in a pool that cannot hold it. Beside them are a writer, and a thread
/// that reads ahead and ends at some moment. Each page has the right contents, and no pin is left.
fn streams_and_a_reader() {
    streams_and(IoMethod::Worker, None);
}

/// The same with reads by the system: the streams take turns at asking for completions.
fn streams_and_the_system() {
    streams_and(IoMethod::IoUring, None);
}

/// The same; at some moment the ring begins no more reads.
fn streams_and_a_ring_that_begins_nothing() {
    streams_and(IoMethod::IoUring, Some(Operation::RingSubmit));
}

/// The same; at some moment a wait on the ring fails.
fn streams_and_a_ring_that_cannot_wait() {
    streams_and(IoMethod::IoUring, Some(Operation::RingWait));
}

fn streams_and(io_method: IoMethod, fails: Option<Operation>) {
    const BLOCKS: u32 = 10;
    let vfs = Arc::new(FaultyVfs::new());
    let env = Env::simulated(Arc::clone(&vfs) as _, 1);
    let env = Env { clock: Arc::new(ManualClock::new()), ..env };
    let file = RelFile { id: RelFileId(40), logged: false };
    {
        let (storage, _) = open_with(&env, tiny(64)).unwrap();
        storage.create_file(file, Xid(3)).unwrap();
        storage.pool().extend(file, Fork::Main, BLOCKS).unwrap();
        (0..BLOCKS).for_each(|block| set_number(&storage, file, block, block));
        storage.shutdown(&[]).unwrap();
    }
    // Streams look ahead by four pages.
    let (storage, _) = open_with(&env, StorageOptions { io_method, ..tiny(64) }).unwrap();
    if let Some(operation) = fails {
        let after = shuttle::rand::RngCore::next_u64(&mut shuttle::rand::thread_rng()) % 4;
        let (kind, path_contains) = (FaultKind::InputOutputError, String::new());
        vfs.inject(Fault { kind, operation, path_contains, after, sticky: false });
    }
    let workers = usize::from(io_method == IoMethod::Worker);
    let readers = storage.start_io_workers(workers).unwrap();
    let scans: Vec<_> = [BLOCKS, 5]
        .into_iter()
        .map(|wanted| {
            let storage = Arc::clone(&storage);
            thread::spawn(move || {
                let options = ReadAhead { concurrency: 2, combine: 2, ring: 0 };
                let ahead =
                    BlocksAhead::new(storage.pool(), file.id, Fork::Main, options, 0..BLOCKS);
                let mut next = 0;
                // One stream stops early, with reads ahead that it does not use.
                for block in ahead.take(wanted as usize) {
                    assert_eq!(block, next);
                    let found = number(&storage, file, block);
                    assert!(found == block || found == block + 100, "page {block} has {found}");
                    next += 1;
                }
                assert_eq!(next, wanted);
            })
        })
        .collect();
    set_number(&storage, file, 7, 107);
    drop(readers);
    for scan in scans {
        scan.join().unwrap();
    }
    // Reads that are no longer needed may be under way.
    drop(storage.pool().pin(PageId { file: file.id, fork: Fork::Main, block: BlockNumber(0) }));
    storage.truncate_fork(file, Fork::Main, 0).unwrap();
    assert!(storage.pool().is_idle());
}

/// A stream that the system reads ahead for, in a pool smaller than the file, beside a writer and a
/// checkpoint that writes its pages. The stream finds the written contents, and no page is written
/// while it is read ([`FaultyVfs`] checks that).
fn a_ring_beside_writes() {
    const BLOCKS: u32 = 40;
    let vfs = Arc::new(FaultyVfs::new());
    let env = Env::simulated(Arc::clone(&vfs) as _, 1);
    let env = Env { clock: Arc::new(ManualClock::new()), ..env };
    let file = RelFile { id: RelFileId(40), logged: false };
    {
        let (storage, _) = open_with(&env, tiny(64)).unwrap();
        storage.create_file(file, Xid(3)).unwrap();
        storage.pool().extend(file, Fork::Main, BLOCKS).unwrap();
        (0..BLOCKS).for_each(|block| set_number(&storage, file, block, block));
        storage.shutdown(&[]).unwrap();
    }
    let options = StorageOptions { io_method: IoMethod::IoUring, ..tiny(32) };
    let (storage, _) = open_with(&env, options).unwrap();
    let (reads, changes) = (Arc::clone(&storage), Arc::clone(&storage));
    let reader = thread::spawn(move || {
        let options = ReadAhead { concurrency: 4, combine: 2, ring: 0 };
        let pool = reads.pool();
        for block in BlocksAhead::new(pool, file.id, Fork::Main, options, 0..BLOCKS) {
            let found = number(&reads, file, block);
            assert!(found == block || found == block + 100, "page {block} has {found}");
        }
    });
    let writer = thread::spawn(move || {
        for block in (0..BLOCKS).step_by(3) {
            set_number(&changes, file, block, block + 100);
        }
    });
    storage.checkpoint(CheckpointKind::Requested, &[]).unwrap();
    reader.join().unwrap();
    writer.join().unwrap();
    for block in 0..BLOCKS {
        let changed = if block % 3 == 0 { 100 } else { 0 };
        assert_eq!(number(&storage, file, block), block + changed, "page {block}");
    }
    storage.truncate_fork(file, Fork::Main, 0).unwrap();
    assert!(storage.pool().is_idle());
}

#[test]
fn what_is_read_ahead_is_not_written_meanwhile() {
    explore(300, a_ring_beside_writes);
}

/// One thread counts on the pages of a file, more than the pool has frames. Beside it, checkpoints
/// write them, and a reader reads other pages. Each page comes back as it was.
fn a_counter_beside_checkpoints() {
    const BLOCKS: u32 = 12;
    const TURNS: u32 = 3;
    let vfs = FaultyVfs::new();
    let env = Env::simulated(Arc::new(vfs.clone()), 1);
    let (storage, _) = open_with(&env, tiny(8)).unwrap();
    let file = RelFile { id: RelFileId(40), logged: false };
    storage.create_file(file, Xid(3)).unwrap();
    storage.pool().extend(file, Fork::Main, 2 * BLOCKS).unwrap();
    // The disk is slow for checkpoints, so that the counter comes round meanwhile.
    let checkpoints = shuttle::thread::current().id();
    vfs.observe_writes(Box::new(move |_, _, _| {
        if shuttle::thread::current().id() == checkpoints {
            (0..600).for_each(|_| thread::yield_now());
        }
    }));
    (0..2 * BLOCKS).for_each(|block| set_number(&storage, file, block, 0));
    let (counts, reads) = (Arc::clone(&storage), Arc::clone(&storage));
    let counter = thread::spawn(move || {
        for turn in 0..TURNS {
            for block in 0..BLOCKS {
                assert_eq!(number(&counts, file, block), turn, "page {block}");
                set_number(&counts, file, block, turn + 1);
            }
        }
    });
    let reader = thread::spawn(move || {
        (BLOCKS..2 * BLOCKS).for_each(|block| assert_eq!(number(&reads, file, block), 0));
    });
    for _ in 0..TURNS {
        storage.checkpoint(CheckpointKind::Requested, &[]).unwrap();
    }
    counter.join().unwrap();
    reader.join().unwrap();
    (0..BLOCKS).for_each(|block| assert_eq!(number(&storage, file, block), TURNS, "page {block}"));
}

#[test]
fn pages_come_back_as_they_were_written() {
    explore(300, a_counter_beside_checkpoints);
}

fn set_number(storage: &Storage, file: RelFile, block: u32, number: u32) {
    let id = PageId { file: file.id, fork: Fork::Main, block: BlockNumber(block) };
    let pin = storage.pool().pin(id).unwrap();
    let mut page = pin.write();
    if page.is_new() {
        page.init(PageKind::Sequence, 0);
    }
    page.raw_mut()[..4].copy_from_slice(&number.to_le_bytes());
    page.mark_dirty();
}

fn number(storage: &Storage, file: RelFile, block: u32) -> u32 {
    let id = PageId { file: file.id, fork: Fork::Main, block: BlockNumber(block) };
    let pin = storage.pool().pin(id).unwrap();
    let page = pin.read();
    u32::from_le_bytes(page.raw()[..4].try_into().unwrap())
}

#[test]
fn streams_and_who_reads_for_them_agree() {
    explore(2000, streams_and_a_reader);
    explore(2000, streams_and_the_system);
    explore(1000, streams_and_a_ring_that_begins_nothing);
    explore(1000, streams_and_a_ring_that_cannot_wait);
}

#[test]
#[ignore = "plants bugs for the whole process: run alone"]
fn broken_reads_ahead_are_found() {
    finds("run_valid_before_read", streams_and_a_reader);
    finds("everybody_reaps", streams_and_the_system);
    finds("left_in_silence", streams_and_the_system);
    finds("run_between_lists", streams_and_the_system);
    finds("written_unpinned", a_counter_beside_checkpoints);
}
