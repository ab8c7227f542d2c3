//! Tests of a ring that fails: each thread gets its pages, no pin is left, and the failure is
//! reported once.

use std::panic::{AssertUnwindSafe, catch_unwind};

use niwaki_env::sync::Mutex;
use niwaki_env::{AbortHook, Crashed};

use super::*;

struct World {
    vfs: Arc<FaultyVfs>,
    storage: Arc<Storage>,
    file: RelFile,
    /// Reported failures of the ring.
    said: Arc<Mutex<Vec<String>>>,
}

impl World {
    fn new() -> Self {
        let vfs = Arc::new(FaultyVfs::new());
        let on_abort = AbortHook::panicking();
        let env = Env { vfs: Arc::clone(&vfs) as Arc<dyn Vfs>, on_abort, ..Env::memory() };
        let (storage, file) = filled_in(env, 512, IoMethod::IoUring);
        let said = Arc::<Mutex<Vec<String>>>::default();
        let told = Arc::clone(&said);
        storage.when_ring_fails(move |why| told.lock().push(why.to_owned()));
        Self { vfs, storage, file, said }
    }

    fn inject(&self, operation: Operation, after: u64, sticky: bool) {
        let kind = FaultKind::InputOutputError;
        self.vfs.inject(Fault { kind, operation, path_contains: String::new(), after, sticky });
    }

    fn read(&self, blocks: std::ops::Range<u32>) {
        let options = ReadAhead { concurrency: 16, combine: 4, ring: 0 };
        let count = u64::from(blocks.end - blocks.start);
        let blocks: Vec<u32> = blocks.collect();
        assert_eq!(read(&self.storage, self.file, options, &blocks), count, "each page once");
    }

    /// Begins reads that no thread waits for, and returns their blocks.
    fn begin_some(&self) -> Vec<u32> {
        let mut named = 0..BLOCKS;
        let mut stream = stream(&self.storage, self.file, ReadAhead::default());
        let pool = self.storage.pool();
        while pool.reads_pin() == 0 {
            let block = stream.next(pool, &mut || Ok::<_, Infallible>(named.next()));
            drop(pool.pin(page(self.file, block.unwrap().unwrap())).unwrap());
        }
        let loading = |&block: &u32| pool.is_loading(page(self.file, block));
        (0..BLOCKS).filter(loading).collect()
    }

    fn is_right(&self, block: u32) {
        let pin = self.storage.pool().pin(page(self.file, block)).unwrap();
        assert_eq!(pin.read().raw()[..4], block.to_le_bytes());
    }

    /// Returns whether the ring was given up, and checks that no pin is left.
    fn is_broken(&self) -> bool {
        let pool = self.storage.pool();
        pool.reap_completed();
        assert!(pool.is_idle(), "a read left its pin behind");
        assert_eq!(pool.reads_pin(), 0);
        let (said, in_use) = (self.said.lock().clone(), self.storage.io_method());
        assert_eq!(in_use.refused, said.first().cloned());
        match &said[..] {
            [] => assert_eq!(in_use.method, IoMethod::IoUring),
            [why] => {
                assert_eq!(in_use.method, IoMethod::Sync);
                assert!(why.contains("injected"), "{why}");
            }
            more => panic!("said again: {more:?}"),
        }
        !said.is_empty()
    }
}

#[test]
fn a_ring_that_begins_nothing_is_given_up() {
    let mut broken = 0;
    for after in 0..6 {
        let world = World::new();
        world.inject(Operation::RingSubmit, after, false);
        world.read(0..BLOCKS / 2);
        broken += u64::from(world.is_broken());
        let begun = world.storage.pool().read_statistics().begun;
        world.read(BLOCKS / 2..BLOCKS);
        if world.is_broken() {
            let after = world.storage.pool().read_statistics();
            assert_eq!(after.begun, begun, "it is not asked again");
        }
    }
    assert!(broken > 1, "the fault was met {broken} times");
}

/// A thread that waits for a page under way meets the failure, and gets its page.
#[test]
fn a_ring_that_cannot_be_waited_for_is_given_up() {
    let world = World::new();
    let loading = world.begin_some();
    assert!(!loading.is_empty());
    world.inject(Operation::RingWait, 0, false);
    loading.iter().rev().for_each(|&block| world.is_right(block));
    assert!(world.is_broken());
    (0..BLOCKS).for_each(|block| world.is_right(block));
    // A listener that registers later hears of the failure too.
    let heard = Arc::new(Mutex::new(0));
    let hears = Arc::clone(&heard);
    world.storage.when_ring_fails(move |_| *hears.lock() += 1);
    assert_eq!(*heard.lock(), 1);
}

/// A read that ends with an error, no matter which bytes it has written by then, is read again, and
/// the ring goes on.
#[test]
fn a_ring_whose_reads_fail_goes_on() {
    let mut repeated = 0;
    for after in 0..6 {
        let world = World::new();
        world.inject(Operation::RingEnd, after, false);
        world.read(0..BLOCKS);
        assert!(!world.is_broken());
        repeated += world.storage.pool().read_statistics().repeated;
    }
    assert!(repeated > 1, "{repeated}");
}

/// Frames of such reads can neither be used again nor waited for.
#[test]
fn reads_that_never_end_end_the_process() {
    let world = World::new();
    let loading = world.begin_some();
    world.inject(Operation::RingWait, 0, true);
    let id = page(world.file, loading[0]);
    let waits = || drop(world.storage.pool().pin(id).unwrap());
    let payload = catch_unwind(AssertUnwindSafe(waits)).expect_err("the process goes on");
    let reason = payload.downcast::<Crashed>().expect("an abort, not another panic").reason;
    assert!(reason.contains("may still change pages in memory"), "{reason}");
    assert!(world.storage.pool().reads_pin() > 0, "nothing was let go");
    // In this test the process goes on, and so does the pool, once the reads end.
    world.vfs.heal();
    loading.iter().for_each(|&block| world.is_right(block));
    assert!(world.is_broken());
}
