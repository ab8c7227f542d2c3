//! Tests of the pool alone: eviction, failures, versions, several threads.

use std::sync::Arc;

use niwaki_env::Env;
use niwaki_env::sync::atomic::{AtomicU64, Ordering};
use niwaki_env::sync::thread;
use niwaki_env::vfs::{Fault, FaultKind, FaultyVfs, MemoryVfs, OpenMode, Operation, Vfs};

use crate::directory::storage::{Storage, StorageOptions};
use crate::error::Error;
use crate::ids::{BlockNumber, Fork, PageId, RelFile, Xid};
use crate::page::PageKind;

fn open(vfs: Arc<dyn Vfs>, frames: usize) -> (Arc<Storage>, RelFile) {
    let env = Env { vfs, ..Env::memory() };
    let options = StorageOptions { shared_buffers: frames, ..StorageOptions::tiny() };
    let (storage, _) = Storage::open(env, options, Vec::new()).unwrap();
    // Not logged, so that the pool is tested alone.
    let file = RelFile { id: storage.allocate_file(), logged: false };
    storage.create_file(file, Xid(3)).unwrap();
    (storage, file)
}

fn page(file: RelFile, block: u32) -> PageId {
    PageId { file: file.id, fork: Fork::Main, block: BlockNumber(block) }
}

/// Adds one to the number on a page.
fn count_up(storage: &Storage, id: PageId) {
    let pin = storage.pool().pin(id).unwrap();
    let mut guard = pin.write();
    if guard.is_new() {
        guard.init(PageKind::Sequence, 0);
    }
    let now = u64::from_le_bytes(guard.raw()[..8].try_into().unwrap()) + 1;
    guard.raw_mut()[..8].copy_from_slice(&now.to_le_bytes());
    guard.raw_mut()[4000..4008].copy_from_slice(&now.to_le_bytes());
    guard.mark_dirty();
}

fn count_of(storage: &Storage, id: PageId) -> u64 {
    let pin = storage.pool().pin(id).unwrap();
    let guard = pin.read();
    assert_eq!(guard.raw()[..8], guard.raw()[4000..4008], "{id} is torn in memory");
    u64::from_le_bytes(guard.raw()[..8].try_into().unwrap())
}

#[test]
fn a_tiny_pool_holds_a_large_file() {
    let (storage, file) = open(Arc::new(MemoryVfs::new()), 3);
    storage.pool().extend(file, Fork::Main, 50).unwrap();
    for round in 1..=4 {
        for block in 0..50 {
            count_up(&storage, page(file, block));
            assert_eq!(count_of(&storage, page(file, block)), round);
        }
    }
    assert!(storage.pool().is_idle());
    assert!(storage.pool().used_frames() <= 3);
    let statistics = storage.pool().statistics_of(file.id, Fork::Main);
    // The first round reads nothing: the pages were never written.
    assert_eq!(statistics.reads, 150, "{statistics:?}");
    assert_eq!(statistics.dirtied, 200);
    assert!(statistics.written >= 197 && statistics.hits >= 200, "{statistics:?}");
}

#[test]
fn a_pass_over_a_large_file_leaves_what_is_used_often() {
    const HOT: u32 = 20;
    let (storage, file) = open(Arc::new(MemoryVfs::new()), 40);
    storage.pool().extend(file, Fork::Main, 600).unwrap();
    let pin = |block| drop(storage.pool().pin(page(file, block)).unwrap());
    let mut cold = HOT..600;
    for _ in 0..10 {
        (0..HOT).for_each(pin);
        cold.by_ref().take(30).for_each(pin);
    }
    cold.for_each(pin);
    let left =
        (0..HOT).filter(|block| storage.pool().pin_if_resident(page(file, *block)).is_some());
    assert_eq!(left.count() as u32, HOT);
}

#[test]
fn a_pool_full_of_pins_says_so() {
    let (storage, file) = open(Arc::new(MemoryVfs::new()), 2);
    storage.pool().extend(file, Fork::Main, 3).unwrap();
    let one = storage.pool().pin(page(file, 0)).unwrap();
    let other = storage.pool().pin(page(file, 1)).unwrap();
    assert!(matches!(storage.pool().pin(page(file, 2)), Err(Error::NoBuffers)));
    drop(one.clone());
    assert!(matches!(storage.pool().pin(page(file, 2)), Err(Error::NoBuffers)));
    drop(other);
    drop(storage.pool().pin(page(file, 2)).unwrap());
    drop(one);
    assert!(storage.pool().is_idle());
}

#[test]
fn a_page_that_does_not_exist_is_an_error() {
    let (storage, file) = open(Arc::new(MemoryVfs::new()), 4);
    storage.pool().extend(file, Fork::Main, 1).unwrap();
    assert!(matches!(storage.pool().pin(page(file, 1)), Err(Error::Corruption(_))));
    assert_eq!(storage.pool().used_frames(), 0);
}

/// A page that was changed on disk, or moved to another place, is detected and never served.
#[test]
fn damage_on_disk_is_found() {
    let vfs = Arc::new(MemoryVfs::new());
    let (storage, file) = open(vfs.clone(), 2);
    storage.pool().extend(file, Fork::Main, 8).unwrap();
    for block in 0..8 {
        count_up(&storage, page(file, block));
    }
    storage.pool().write_dirty(&mut |_, _| ()).unwrap();
    // Two other pages push everything else out.
    for block in [6, 7, 6, 7, 6, 7] {
        count_of(&storage, page(file, block));
    }
    let disk = vfs.open(&format!("base/{}.main", file.id), OpenMode::Existing).unwrap();
    let mut byte = [0];
    disk.read_at(&mut byte, 8192 + 5000).unwrap();
    disk.write_at(&[byte[0] ^ 1], 8192 + 5000).unwrap();
    let mut moved = vec![0; 8192];
    disk.read_at(&mut moved, 3 * 8192).unwrap();
    disk.write_at(&moved, 2 * 8192).unwrap();
    for damaged in [1, 2] {
        for _ in 0..2 {
            let error = storage.pool().pin(page(file, damaged)).unwrap_err();
            let Error::Corruption(damage) = error else { panic!("{error}") };
            assert_eq!((damage.invariant, damage.block), ("checksum", Some(damaged)));
        }
    }
    for sound in [0, 3, 4, 5] {
        assert_eq!(count_of(&storage, page(file, sound)), 1);
    }
    disk.write_at(&[byte[0]], 8192 + 5000).unwrap();
    assert_eq!(count_of(&storage, page(file, 1)), 1, "a failed read left something behind");
}

#[test]
fn a_failed_read_leaves_no_poisoned_frame() {
    let vfs = FaultyVfs::new();
    let (storage, file) = open(Arc::new(vfs.clone()), 2);
    storage.pool().extend(file, Fork::Main, 4).unwrap();
    for block in 0..4 {
        count_up(&storage, page(file, block));
    }
    for _ in 0..5 {
        vfs.inject(Fault {
            kind: FaultKind::InputOutputError,
            operation: Operation::Read,
            path_contains: "base/".into(),
            after: 0,
            sticky: false,
        });
        // The page may still be dirty in the pool; one of the four is not.
        let failed = (0..4).filter(|&b| storage.pool().pin(page(file, b)).is_err()).count();
        assert_eq!(failed, 1);
    }
    for block in 0..4 {
        assert_eq!(count_of(&storage, page(file, block)), 1);
    }
    assert!(storage.pool().is_idle());
}

#[test]
fn a_failed_write_keeps_the_page() {
    let vfs = FaultyVfs::new();
    let (storage, file) = open(Arc::new(vfs.clone()), 2);
    storage.pool().extend(file, Fork::Main, 4).unwrap();
    count_up(&storage, page(file, 0));
    count_up(&storage, page(file, 1));
    vfs.inject(Fault {
        kind: FaultKind::StorageFull,
        operation: Operation::Write,
        path_contains: "base/".into(),
        after: 0,
        sticky: true,
    });
    assert!(storage.pool().pin(page(file, 2)).is_err());
    assert!(storage.pool().write_dirty(&mut |_, _| ()).is_err());
    assert_eq!(count_of(&storage, page(file, 0)), 1);
    assert_eq!(count_of(&storage, page(file, 1)), 1);
    vfs.heal();
    for block in 0..4 {
        count_up(&storage, page(file, block));
    }
    assert_eq!(count_of(&storage, page(file, 0)), 2);
    assert!(storage.pool().is_idle());
}

#[test]
fn versions_never_return() {
    let (storage, file) = open(Arc::new(MemoryVfs::new()), 2);
    storage.pool().extend(file, Fork::Main, 6).unwrap();
    let mut seen = Vec::new();
    for _ in 0..4 {
        for block in 0..6 {
            count_up(&storage, page(file, block));
        }
        let pin = storage.pool().pin(page(file, 0)).unwrap();
        seen.push(pin.read().version());
        assert_eq!(pin.read().version(), seen[seen.len() - 1], "reading moves nothing");
        pin.write().bump_version();
        seen.push(pin.read().version());
    }
    let mut distinct = seen.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), seen.len());
}

#[test]
fn a_guard_can_outlive_its_scope() {
    let (storage, file) = open(Arc::new(MemoryVfs::new()), 2);
    storage.pool().extend(file, Fork::Main, 2).unwrap();
    let pool = storage.pool();
    let write = || pool.pin(page(file, 0)).map(super::Pin::into_write);
    let mut guard = write().unwrap();
    guard.init(PageKind::Sequence, 0);
    guard.mark_dirty();
    let pin = guard.unlatch();
    assert!(pin.try_write().is_some());
    let reading = pin.clone().into_read();
    assert!(pin.try_write().is_none() && pin.try_read().is_some());
    drop(reading.unlatch());
    assert!(!pool.is_idle());
    drop(pin);
    assert!(pool.is_idle());
}

#[test]
#[cfg(debug_assertions)]
fn a_change_that_nobody_wrote_down_is_noticed() {
    let (storage, file) = open(Arc::new(MemoryVfs::new()), 2);
    storage.pool().extend(file, Fork::Main, 1).unwrap();
    let pin = storage.pool().pin(page(file, 0)).unwrap();
    let forget = || pin.write().init(PageKind::Heap, 0);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(forget)).is_err());
    let mut guard = pin.write();
    guard.init(PageKind::Heap, 0);
    guard.mark_hint();
}

#[test]
fn a_dropped_file_leaves_nothing_in_the_pool() {
    let (storage, file) = open(Arc::new(MemoryVfs::new()), 16);
    storage.pool().extend(file, Fork::Main, 8).unwrap();
    for block in 0..8 {
        count_up(&storage, page(file, block));
    }
    storage.truncate_fork(file, Fork::Main, 3).unwrap();
    assert_eq!(storage.pool().used_frames(), 3);
    assert_eq!(storage.pool().blocks(file.id, Fork::Main).unwrap(), 3);
    assert!(storage.pool().pin(page(file, 3)).is_err());
    storage.pool().extend(file, Fork::Main, 1).unwrap();
    assert!(storage.pool().pin(page(file, 3)).unwrap().read().is_new(), "an old page came back");
    assert_eq!(count_of(&storage, page(file, 2)), 1);
    storage.drop_file(file).unwrap();
    assert_eq!(storage.pool().used_frames(), 0);
    assert!(!storage.file_exists(file.id).unwrap());
}

/// Many threads on few frames: no update is lost, no page is torn, and no pin or latch is left.
#[test]
fn threads_share_a_tiny_pool() {
    const THREADS: u64 = 4;
    const ROUNDS: u64 = 1500;
    let (storage, file) = open(Arc::new(MemoryVfs::new()), 8);
    storage.pool().extend(file, Fork::Main, 24).unwrap();
    let busy = AtomicU64::new(0);
    thread::scope(|scope| {
        for seed in 0..THREADS {
            let (storage, busy) = (&storage, &busy);
            scope.spawn(move || {
                let mut state = seed * 2 + 1;
                for round in 0..ROUNDS {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
                    let id = page(file, ((state >> 33) % 24) as u32);
                    count_up(storage, id);
                    busy.fetch_add(1, Ordering::Relaxed);
                    if round % 3 == 0 {
                        assert!(count_of(storage, id) >= 1);
                    }
                    if round % 400 == 7 {
                        storage.pool().write_dirty(&mut |_, _| ()).unwrap();
                    }
                }
            });
        }
    });
    let sum: u64 = (0..24).map(|block| count_of(&storage, page(file, block))).sum();
    assert_eq!(sum, busy.load(Ordering::Relaxed));
    assert_eq!(sum, THREADS * ROUNDS);
    assert!(storage.pool().is_idle());
}

#[test]
fn threads_grow_a_file_without_overlap() {
    let (storage, file) = open(Arc::new(MemoryVfs::new()), 16);
    let mut all: Vec<(u32, u32)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    (0..50)
                        .map(|_| storage.pool().extend(file, Fork::Main, 1).unwrap())
                        .map(|grown| (grown.first.0, grown.count))
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|t| t.join().unwrap()).collect()
    });
    all.sort_unstable();
    let mut end = 0;
    for (first, count) in all {
        assert_eq!(first, end);
        assert!((1..=64).contains(&count));
        end = first + count;
    }
    assert_eq!(storage.pool().blocks(file.id, Fork::Main).unwrap(), end);
}
