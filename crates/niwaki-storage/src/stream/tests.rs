//! Tests of streams alone: the blocks they give, the pages they read, and failures.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use niwaki_env::Env;
use niwaki_env::clock::{Clock, ManualClock};
use niwaki_env::vfs::{Fault, FaultKind, FaultyVfs, MemoryVfs, Operation, OsVfs, SlowVfs, Vfs};

mod broken_ring;

use super::distance::Distance;
use super::method::IoMethod;
use super::read_stream::{ReadAhead, ReadStream};
use crate::buffer::read_queue::ReadStatistics;
use crate::directory::storage::{Storage, StorageOptions};
use crate::ids::{BlockNumber, Fork, PageId, RelFile, Xid};
use crate::page::PageKind;

const BLOCKS: u32 = 100;

const METHODS: [IoMethod; 3] = [IoMethod::Sync, IoMethod::Worker, IoMethod::IoUring];

fn options(frames: usize) -> StorageOptions {
    StorageOptions { shared_buffers: frames, io_workers: 2, ..StorageOptions::tiny() }
}

/// Files that are not in the system's memory at all.
fn files() -> Arc<dyn Vfs> {
    Arc::new(FaultyVfs::new())
}

fn page(file: RelFile, block: u32) -> PageId {
    PageId { file: file.id, fork: Fork::Main, block: BlockNumber(block) }
}

/// Makes a file whose pages carry their numbers, none of them in the pool.
fn filled(vfs: Arc<dyn Vfs>, frames: usize) -> (Arc<Storage>, RelFile) {
    filled_for(vfs, frames, IoMethod::Worker)
}

fn filled_for(vfs: Arc<dyn Vfs>, frames: usize, io_method: IoMethod) -> (Arc<Storage>, RelFile) {
    filled_in(Env { vfs, ..Env::memory() }, frames, io_method)
}

fn filled_in(env: Env, frames: usize, io_method: IoMethod) -> (Arc<Storage>, RelFile) {
    let options = |frames| StorageOptions { io_method, ..options(frames) };
    let (storage, _) = Storage::open(env.clone(), options(frames), Vec::new()).unwrap();
    let file = RelFile { id: storage.allocate_file(), logged: false };
    storage.create_file(file, Xid(3)).unwrap();
    storage.pool().extend(file, Fork::Main, BLOCKS).unwrap();
    for block in 0..BLOCKS {
        let pin = storage.pool().pin(page(file, block)).unwrap();
        let mut guard = pin.write();
        guard.init(PageKind::Sequence, 0);
        guard.raw_mut()[..4].copy_from_slice(&block.to_le_bytes());
        guard.mark_dirty();
    }
    storage.shutdown(&[]).unwrap();
    drop(storage);
    let (storage, _) = Storage::open(env, options(frames), Vec::new()).unwrap();
    (storage, file)
}

fn stream(storage: &Storage, file: RelFile, options: ReadAhead) -> ReadStream {
    ReadStream::new(storage.pool(), file.id, Fork::Main, options)
}

/// Reads these blocks and compares them; returns how many pages were read from disk.
fn read(storage: &Storage, file: RelFile, options: ReadAhead, blocks: &[u32]) -> u64 {
    let before = storage.pool().statistics_of(file.id, Fork::Main).reads;
    let mut named = blocks.iter().copied();
    let mut stream = stream(storage, file, options);
    let mut got = Vec::new();
    let name = &mut || Ok::<_, Infallible>(named.next());
    while let Ok(Some(block)) = stream.next(storage.pool(), name) {
        let pin = storage.pool().pin(page(file, block)).unwrap();
        assert_eq!(pin.read().raw()[..4], block.to_le_bytes());
        got.push(block);
    }
    assert_eq!(got, blocks);
    storage.pool().statistics_of(file.id, Fork::Main).reads - before
}

#[test]
fn blocks_come_in_their_order_and_each_is_read_once() {
    let all: Vec<u32> = (0..BLOCKS).collect();
    let odd: Vec<u32> = (0..BLOCKS).filter(|b| b % 7 < 5 && b % 2 == 1).collect();
    let back: Vec<u32> = (0..BLOCKS).rev().collect();
    let twice: Vec<u32> = (0..50).flat_map(|b| [b, b]).collect();
    for blocks in [all, odd, back, twice] {
        let mut distinct = blocks.clone();
        distinct.sort_unstable();
        distinct.dedup();
        for (combine, concurrency) in [(1, 0), (1, 4), (4, 0), (16, 16), (32, 1000)] {
            for method in METHODS {
                for files in [Arc::new(MemoryVfs::new()), files()] {
                    let (storage, file) = filled_for(files, 512, method);
                    let background = storage.start_background(Vec::new()).unwrap();
                    let options = ReadAhead { concurrency, combine, ring: 0 };
                    let reads = read(&storage, file, options, &blocks);
                    assert_eq!(reads, distinct.len() as u64, "{options:?}");
                    let again = read(&storage, file, options, &blocks);
                    assert_eq!(again, 0, "all of it is in the pool");
                    drop(background);
                    assert!(storage.pool().is_idle(), "a read left its pin behind");
                }
            }
        }
    }
}

#[test]
fn neighbours_are_one_read() {
    let (storage, file) = filled(Arc::new(MemoryVfs::new()), 512);
    let all: Vec<u32> = (0..BLOCKS).collect();
    read(&storage, file, ReadAhead { concurrency: 0, combine: 16, ring: 0 }, &all);
    let runs = storage.pool().read_statistics().runs;
    // 1, 2, 4 and 8 pages, then 16, cut where a file ends: after 16 pages here.
    assert!((8..=16).contains(&runs), "{runs} reads");
    let (storage, file) = filled(Arc::new(MemoryVfs::new()), 512);
    read(&storage, file, ReadAhead::NONE, &all);
    assert_eq!(storage.pool().read_statistics().runs, u64::from(BLOCKS));
}

#[test]
fn a_stream_takes_little_of_a_small_pool() {
    for frames in [1, 3, 16, 40] {
        for method in METHODS {
            let (storage, file) = filled_for(files(), frames, method);
            let background = storage.start_background(Vec::new()).unwrap();
            let all: Vec<u32> = (0..BLOCKS).collect();
            read(&storage, file, ReadAhead::default(), &all);
            drop(background);
            assert!(storage.pool().is_idle(), "a read left its pin behind");
        }
    }
}

#[test]
fn pages_beyond_the_end_and_never_written_are_left_to_who_pins_them() {
    let (storage, file) = filled(Arc::new(MemoryVfs::new()), 512);
    storage.pool().extend(file, Fork::Main, 10).unwrap();
    let mut named = (BLOCKS - 3..BLOCKS + 20).map(Some);
    let mut stream = stream(&storage, file, ReadAhead::default());
    let name = &mut || Ok::<_, Infallible>(named.next().flatten());
    let mut blocks = 0;
    while let Ok(Some(block)) = stream.next(storage.pool(), name) {
        let pinned = storage.pool().pin(page(file, block));
        assert_eq!(pinned.is_ok(), block < BLOCKS + 10, "{block}");
        blocks += 1;
    }
    assert_eq!(blocks, 23);
    assert!(storage.pool().is_idle());
}

#[test]
fn a_failed_read_is_met_by_who_pins_the_page() {
    for method in METHODS {
        let vfs = Arc::new(FaultyVfs::new());
        let (storage, file) = filled_for(Arc::clone(&vfs) as Arc<dyn Vfs>, 512, method);
        let background = storage.start_background(Vec::new()).unwrap();
        for after in [20, 21, 60] {
            vfs.inject(Fault {
                kind: FaultKind::InputOutputError,
                operation: Operation::Read,
                path_contains: String::from("base/"),
                after,
                sticky: false,
            });
        }
        let mut named = 0..BLOCKS;
        let mut stream = stream(&storage, file, ReadAhead::default());
        let name = &mut || Ok::<_, Infallible>(named.next());
        let mut blocks = 0;
        while let Ok(Some(block)) = stream.next(storage.pool(), name) {
            // Reads that failed ahead are read again.
            if storage.pool().pin(page(file, block)).is_ok() {
                blocks += 1;
            }
        }
        assert!((BLOCKS - 3..=BLOCKS).contains(&blocks), "{blocks}");
        drop(background);
        assert!(storage.pool().is_idle());
    }
}

/// The pages from `from` on can never be read.
#[test]
fn what_cannot_be_read_is_told_once_by_who_pins_it() {
    for method in METHODS {
        let vfs = Arc::new(FaultyVfs::new());
        let (storage, file) = filled_for(Arc::clone(&vfs) as Arc<dyn Vfs>, 512, method);
        let background = storage.start_background(Vec::new()).unwrap();
        let options = ReadAhead { concurrency: 4, combine: 8, ring: 0 };
        // Blocks 48 to 63 are a file of their own.
        vfs.inject(Fault {
            kind: FaultKind::InputOutputError,
            operation: Operation::Read,
            path_contains: format!("base/{}.main.3", file.id),
            after: 0,
            sticky: true,
        });
        let mut named = 0..BLOCKS;
        let mut stream = stream(&storage, file, options);
        let name = &mut || Ok::<_, Infallible>(named.next());
        let mut failed = Vec::new();
        while let Ok(Some(block)) = stream.next(storage.pool(), name) {
            if let Err(error) = storage.pool().pin(page(file, block)) {
                assert!(error.to_string().contains(&format!("block {block}")), "{error}");
                failed.push(block);
            }
        }
        assert_eq!(failed, (48..64).collect::<Vec<u32>>(), "{method}");
        drop(background);
        assert!(storage.pool().is_idle());
        assert_eq!(storage.pool().reads_pin(), 0, "{method}");
    }
}

/// Makes a storage where the system reads pages ahead for a stream that was begun and then left.
fn left_alone() -> (Arc<Storage>, RelFile) {
    let (storage, file) = filled_for(files(), 512, IoMethod::IoUring);
    let mut named = 0..BLOCKS;
    let mut stream = stream(&storage, file, ReadAhead::default());
    while storage.pool().reads_pin() == 0 {
        let block = stream.next(storage.pool(), &mut || Ok::<_, Infallible>(named.next()));
        drop(storage.pool().pin(page(file, block.unwrap().unwrap())).unwrap());
    }
    (storage, file)
}

#[test]
fn a_stream_that_is_left_leaves_nothing_stuck() {
    // A thread that passes by ends the reads under way.
    let (storage, _) = left_alone();
    storage.pool().reap_completed();
    assert_eq!(storage.pool().reads_pin(), 0);
    // A thread that needs such a page gets it.
    let (storage, file) = left_alone();
    let loading =
        |storage: &Storage| (0..BLOCKS).find(|&block| storage.pool().is_loading(page(file, block)));
    while let Some(block) = loading(&storage) {
        assert_eq!(
            storage.pool().pin(page(file, block)).unwrap().read().raw()[..4],
            block.to_le_bytes()
        );
    }
    assert_eq!(storage.pool().reads_pin(), 0);
    // Dropping the file, or the pool, ends the reads too.
    let (storage, file) = left_alone();
    storage.drop_file(file).unwrap();
    assert_eq!(storage.pool().reads_pin(), 0);
    drop(left_alone());
}

/// The kernel's own ring, on files of the machine.
#[test]
#[cfg(all(target_os = "linux", not(miri), not(feature = "shuttle")))]
fn the_system_reads_files_of_the_machine() {
    let folder = std::env::temp_dir().join(format!("niwaki-streams-{}", std::process::id()));
    let vfs = Arc::new(OsVfs::new(&folder));
    vfs.create_dir("").unwrap();
    let (storage, file) = filled_for(vfs, 512, IoMethod::IoUring);
    let in_use = storage.io_method();
    if in_use.method == IoMethod::IoUring {
        let pool = storage.pool();
        // The system's memory is not asked first: as after a start of the machine.
        let runs: Vec<_> = (0..BLOCKS)
            .step_by(8)
            .map(|at| pool.begin_run(page(file, at), 8, &mut || None))
            .collect();
        let count = runs.iter().filter(|(_, run)| run.is_some()).count() as u64;
        for (_, run) in runs {
            assert!(pool.leave_run(run.unwrap()).is_none());
        }
        pool.submit_waiting();
        let all: Vec<u32> = (0..BLOCKS).collect();
        assert_eq!(read(&storage, file, ReadAhead::default(), &all), u64::from(BLOCKS));
        let statistics = pool.read_statistics();
        assert_eq!((statistics.begun, statistics.submitted), (count, 1));
        // Some reads end by themselves; the rest has ended because its pages were pinned.
        assert_eq!(pool.reads_pin(), 0);
    } else {
        assert!(in_use.refused.is_some());
    }
    drop(storage);
    std::fs::remove_dir_all(folder).unwrap();
}

/// Returns the milliseconds of a stream over all pages, and the most pins. The device takes 10 ms
/// for a read, the reader 1 ms for a page.
fn time_on_a_device(method: IoMethod, options: ReadAhead, width: usize) -> (u64, u32) {
    let clock = Arc::new(ManualClock::new());
    let vfs = SlowVfs::new(files(), Arc::clone(&clock), Duration::from_millis(10), width);
    let (storage, file) = filled_for(Arc::new(vfs), 4096, method);
    let begun = clock.monotonic();
    let mut named = 0..BLOCKS;
    let mut stream = stream(&storage, file, options);
    let name = &mut || Ok::<_, Infallible>(named.next());
    let mut farthest = 0;
    while let Ok(Some(block)) = stream.next(storage.pool(), name) {
        assert_eq!(
            storage.pool().pin(page(file, block)).unwrap().read().raw()[..4],
            block.to_le_bytes()
        );
        clock.advance(Duration::from_millis(1));
        farthest = farthest.max(storage.pool().reads_pin());
    }
    assert!(storage.pool().is_idle());
    (clock.monotonic().checked_sub(begun).unwrap().as_millis() as u64, farthest)
}

#[test]
fn reads_on_a_slow_device_are_waited_for_once() {
    let plain = u64::from(BLOCKS) * 11;
    let settings = |concurrency, combine| ReadAhead { concurrency, combine, ring: 0 };
    for method in [IoMethod::Sync, IoMethod::IoUring] {
        assert_eq!(time_on_a_device(method, ReadAhead::NONE, 16), (plain, 0), "{method}");
    }
    // Without read-ahead there is no overlap, but neighbours are one read.
    let (sync, _) = time_on_a_device(IoMethod::Sync, settings(16, 8), 16);
    assert!(sync < plain / 3, "{sync}");
    // One page per read: ten at a time keep up with a reader that takes a millisecond for each.
    let (single, pins) = time_on_a_device(IoMethod::IoUring, settings(16, 1), 32);
    assert!(single < u64::from(BLOCKS) + 80, "{single} ms");
    assert!((8..=17).contains(&pins), "{pins} pages under way");
    let (combined, _) = time_on_a_device(IoMethod::IoUring, settings(16, 8), 32);
    assert!(combined < u64::from(BLOCKS) + 60, "{combined} ms");
    // A device that does one read at a time takes as long as all reads together.
    let (narrow, _) = time_on_a_device(IoMethod::IoUring, settings(16, 1), 1);
    assert!((u64::from(BLOCKS) * 10..u64::from(BLOCKS) * 10 + 30).contains(&narrow), "{narrow} ms");
}

/// One reader on a device that takes 10 ms for a read: each number follows from the rules of
/// `distance.rs`.
#[test]
fn what_streams_do_is_counted() {
    let counted = |method, options| {
        let clock = Arc::new(ManualClock::new());
        let vfs = SlowVfs::new(files(), Arc::clone(&clock), Duration::from_millis(10), 16);
        let (storage, file) = filled_for(Arc::new(vfs), 4096, method);
        let before = storage.pool().read_statistics();
        assert_eq!(before, ReadStatistics::default());
        let mut named = 0..BLOCKS;
        let mut stream = stream(&storage, file, options);
        let name = &mut || Ok::<_, Infallible>(named.next());
        while let Ok(Some(block)) = stream.next(storage.pool(), name) {
            drop(storage.pool().pin(page(file, block)).unwrap());
            clock.advance(Duration::from_millis(1));
        }
        storage.pool().read_statistics()
    };
    let blocks = u64::from(BLOCKS);
    let settings = ReadAhead { concurrency: 16, combine: 4, ring: 0 };
    let one_by_one = ReadStatistics {
        runs: blocks,
        blocks,
        distances: blocks,
        distance_max: 1,
        waits: blocks,
        ..ReadStatistics::default()
    };
    assert_eq!(counted(IoMethod::Sync, ReadAhead::NONE), one_by_one);
    assert_eq!(counted(IoMethod::IoUring, ReadAhead::NONE), one_by_one);
    // No other thread reads: a read is begun when it is needed, or when it has its full length.
    let sync = ReadStatistics {
        runs: 33,
        blocks,
        distances: 127,
        distance_max: 4,
        waits: 26,
        ..ReadStatistics::default()
    };
    assert_eq!(counted(IoMethod::Sync, settings), sync);
    // The stream waits as often as the distance doubles, up to 32 pages: a read takes as long as
    // ten pages. The stream's own reads are of one, two and four pages, before others are ahead.
    let ring = ReadStatistics {
        runs: 33,
        blocks,
        distances: 776,
        distance_max: 32,
        queued: 30,
        queued_blocks: blocks - 7,
        waits: 5,
        begun: 30,
        submitted: 20,
        ..ReadStatistics::default()
    };
    assert_eq!(counted(IoMethod::IoUring, settings), ring);
}

#[test]
fn what_name_says_wrong_is_told() {
    let (storage, file) = filled(Arc::new(MemoryVfs::new()), 512);
    let mut stream = stream(&storage, file, ReadAhead::default());
    let mut named = 0;
    let mut name = || {
        named += 1;
        if named > 30 { Err("interrupted") } else { Ok(Some(named)) }
    };
    let mut given = 0;
    let error = loop {
        match stream.next(storage.pool(), &mut name) {
            Ok(Some(_)) => given += 1,
            Ok(None) => panic!("it ended"),
            Err(error) => break error,
        }
    };
    assert_eq!(error, "interrupted");
    assert!(given <= 30);
}

/// Simulates a device that takes `latency` steps for a read, with any number of reads at once; one
/// page is consumed per step. Returns the steps that a stream of `pages` pages takes, and the
/// look-ahead distance at most and at the end.
fn simulate(pages: u32, latency: u32, distance: &mut Distance) -> (u32, u32, u32) {
    let mut now = 0;
    let mut farthest = 1;
    let (mut named, mut ready): (u32, Vec<u32>) = (0, Vec::new());
    for page in 0..pages {
        while named < pages && named < page + distance.pages() {
            // A whole read, or the page needed now.
            let count = distance.combine().min(page + distance.pages() - named).min(pages - named);
            if count < distance.combine() && named > page {
                break;
            }
            ready.extend((0..count).map(|_| now + latency));
            (0..count).for_each(|_| distance.name());
            named += count;
        }
        match ready[page as usize].checked_sub(now) {
            Some(wait) if wait > 0 => {
                now += wait;
                distance.was_late();
            }
            _ => distance.was_in_time(),
        }
        distance.give();
        now += 1;
        farthest = farthest.max(distance.pages());
    }
    (now, farthest, distance.pages())
}

#[test]
fn the_distance_grows_until_nobody_waits_and_not_beyond() {
    let pages = 20_000;
    for latency in [1, 30, 100, 400] {
        let mut distance = Distance::new(16, 1000, 100_000);
        let (steps, farthest, _) = simulate(pages, latency, &mut distance);
        // Hardly slower than a device without latency, and about as far ahead as that takes: the
        // pages consumed meanwhile.
        assert!(steps < pages + pages / 10 + 20 * latency, "latency {latency}: {steps} steps");
        assert!(farthest <= 4 * (latency + 16), "latency {latency}: {farthest} pages ahead");
    }
    // The settings and the pool bound the distance.
    let (_, farthest, _) = simulate(pages, 400, &mut Distance::new(16, 3, 100_000));
    assert_eq!(farthest, 64);
    let (_, farthest, _) = simulate(pages, 400, &mut Distance::new(16, 1000, 100));
    assert_eq!(farthest, 100);
    // A faster device needs a shorter distance.
    let mut distance = Distance::new(16, 1000, 100_000);
    let (_, _, far) = simulate(pages, 400, &mut distance);
    let (_, _, near) = simulate(20 * pages, 10, &mut distance);
    assert!(near < far / 2, "{far} pages, then {near}");
}

#[test]
fn the_distance_follows_what_the_pages_are() {
    let mut distance = Distance::new(16, 16, 1000);
    let late = |distance: &mut Distance| {
        distance.name();
        distance.was_late();
        distance.give();
    };
    (0..10).for_each(|_| distance.was_cached());
    assert_eq!(distance.pages(), 16, "a read is as much as the system's memory takes");
    late(&mut distance);
    assert_eq!(distance.pages(), 32);
    (0..100).for_each(|_| distance.was_resident());
    assert_eq!(distance.pages(), 1);
    (0..5).for_each(|_| late(&mut distance));
    assert_eq!(distance.pages(), 32);
    distance.was_lost();
    assert_eq!(distance.pages(), 16);
    // Pages that were named before the doubling do not double the distance again.
    (0..50).for_each(|_| distance.name());
    late(&mut distance);
    (0..40).for_each(|_| {
        distance.was_late();
        distance.give();
    });
    assert_eq!(distance.pages(), 32);
    let mut none = Distance::new(1, 0, 1000);
    (0..5).for_each(|_| late(&mut none));
    assert_eq!(none.pages(), 1);
}

/// Returns how many pages of a working set stay in a pool of 256 frames. The working set, used
/// `uses` times, is followed by a pass over a second file of twice the pool's size.
fn left_of_a_working_set(uses: u32, ring: u32, dirty: bool) -> u32 {
    const WORKING_SET: u32 = 60;
    let (storage, file) = filled(Arc::new(MemoryVfs::new()), 256);
    let large = RelFile { id: storage.allocate_file(), logged: false };
    storage.create_file(large, Xid(3)).unwrap();
    storage.pool().extend(large, Fork::Main, 512).unwrap();
    for block in 0..512 {
        let pin = storage.pool().pin(page(large, block)).unwrap();
        let mut guard = pin.write();
        guard.init(PageKind::Sequence, 0);
        guard.mark_dirty();
    }
    storage.checkpoint(crate::CheckpointKind::Requested, &[]).unwrap();
    for _ in 0..uses {
        (0..WORKING_SET).for_each(|at| drop(storage.pool().pin(page(file, at)).unwrap()));
    }
    let options = ReadAhead { ring, ..ReadAhead::default() };
    for block in
        super::read_stream::BlocksAhead::new(storage.pool(), large.id, Fork::Main, options, 0..512)
    {
        let pin = storage.pool().pin(page(large, block)).unwrap();
        let mut guard = pin.write();
        if dirty {
            guard.mark_dirty();
        }
    }
    let here = |&block: &u32| storage.pool().is_resident(page(file, block));
    (0..WORKING_SET).filter(here).count() as u32
}

#[test]
fn a_pass_with_a_ring_leaves_the_pool_to_others() {
    for dirty in [false, true] {
        // Used once, like the pass's own pages: without a ring they are evicted for it.
        assert!(left_of_a_working_set(1, 0, dirty) < 60);
        assert_eq!(left_of_a_working_set(1, 16, dirty), 60, "{dirty}");
        assert_eq!(left_of_a_working_set(1, 1_000_000, dirty), 60, "an eighth of the pool at most");
    }
}

#[test]
fn a_ring_of_any_size_reads_each_page_once() {
    let all: Vec<u32> = (0..BLOCKS).collect();
    for ring in [1, 2, 3, 16, 50, 1000] {
        for method in METHODS {
            let (storage, file) = filled_for(files(), 128, method);
            let background = storage.start_background(Vec::new()).unwrap();
            let options = ReadAhead { ring, ..ReadAhead::default() };
            assert_eq!(read(&storage, file, options, &all), u64::from(BLOCKS), "{ring}, {method}");
            drop(background);
            assert!(storage.pool().is_idle(), "a read left its pin behind");
        }
    }
}

/// A ring does not make a pass slower than single-page reads: the pass looks ahead by half of the
/// ring.
#[test]
fn a_small_ring_reads_ahead_too() {
    let plain = u64::from(BLOCKS) * 11;
    for ring in [2, 16, 256] {
        let (time, _) = time_on_a_device(
            IoMethod::IoUring,
            ReadAhead { concurrency: 16, combine: 4, ring },
            16,
        );
        assert!(time <= plain, "{ring}: {time} ms");
        assert!(ring < 16 || time < plain / 4, "{ring}: {time} ms");
    }
}
