//! Costs of the hot paths: pin and latch of a resident page, a log record of 100 bytes, durable
//! commits per second. Run with `cargo bench -p niwaki-storage`; the directory for the files is
//! `NIWAKI_BENCH_DIR`, `/tmp` otherwise.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use niwaki_env::Env;
use niwaki_env::sync::thread;
use niwaki_storage::{
    BlockNumber, Fork, LoggedPage, Manager, PageId, PageKind, Record, RelFile, Storage,
    StorageOptions, Xid,
};

fn time(env: &Env, work: impl FnOnce()) -> Duration {
    let start = env.clock.monotonic();
    work();
    env.clock.monotonic().checked_sub(start).unwrap()
}

fn report(name: &str, elapsed: Duration, count: u64) {
    let each = elapsed.as_nanos() as f64 / count as f64;
    println!("{name:<44} {each:>10.1} ns   {:>12.0} /s", 1e9 / each);
}

fn main() {
    let root = std::env::var("NIWAKI_BENCH_DIR").unwrap_or_else(|_| "/tmp".into());
    let root = format!("{root}/niwaki-storage-bench-{}", std::process::id());
    let env = Env::os(&root);
    let (storage, _) =
        Storage::open(env.clone(), StorageOptions::default(), Vec::new()).expect("opens");
    let file = RelFile { id: storage.allocate_file(), logged: true };
    storage.create_file(file, Xid(3)).expect("creates");
    let blocks = 4096u32;
    storage.pool().extend(file, Fork::Main, blocks).expect("grows");
    pins(&env, &storage, file, blocks);
    inserts(&env, &storage, file);
    commits(&env, &storage);
    drop(storage);
    if let Err(error) = std::process::Command::new("rm").args(["-rf", &root]).status() {
        println!("{root} stays: {error}");
    }
}

fn page(file: RelFile, block: u32) -> PageId {
    PageId { file: file.id, fork: Fork::Main, block: BlockNumber(block) }
}

fn pins(env: &Env, storage: &Arc<Storage>, file: RelFile, blocks: u32) {
    let pool = storage.pool();
    for block in 0..blocks {
        drop(pool.pin(page(file, block)).expect("pins"));
    }
    let count = 5_000_000;
    let elapsed = time(env, || {
        for _ in 0..count {
            black_box(pool.pin(page(file, 7)).expect("pins"));
        }
    });
    report("pin and unpin, one page", elapsed, count);
    let walk = |seed: u32| {
        let mut block = seed;
        for _ in 0..count {
            block = block.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let pin = pool.pin(page(file, (block >> 8) % blocks)).expect("pins");
            black_box(pin.read().lsn());
        }
    };
    let elapsed = time(env, || walk(1));
    report("pin, read, unpin, 4096 pages at random", elapsed, count);
    let elapsed = time(env, || {
        thread::scope(|scope| {
            scope.spawn(|| walk(1));
            scope.spawn(|| walk(99));
        });
    });
    report("the same from two threads, per operation", elapsed, 2 * count);
    let elapsed = time(env, || {
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..count {
                        black_box(pool.pin(page(file, 7)).expect("pins").read().lsn());
                    }
                });
            }
        });
    });
    report("one page from two threads, per operation", elapsed, 2 * count);
}

fn insert(storage: &Storage, file: RelFile, block: u32, count: u64) {
    let pin = storage.pool().pin(page(file, block)).expect("pins");
    let data = [7u8; 100];
    for _ in 0..count {
        let mut guard = pin.write();
        let _section = storage.begin_change().expect("room");
        if guard.is_new() {
            guard.init(PageKind::Heap, 16);
        }
        guard.special_mut()[0] = guard.special()[0].wrapping_add(1);
        let pieces = [&data[..]];
        let record = Record {
            manager: Manager::Heap,
            kind: 1,
            version: 1,
            xid: Xid(9),
            body: &[b"12345678"],
            pages: &mut [LoggedPage::delta(&mut guard, &pieces)],
            removes: None,
        };
        black_box(storage.log(record).expect("logs"));
    }
}

fn inserts(env: &Env, storage: &Arc<Storage>, file: RelFile) {
    insert(storage, file, 1, 10);
    insert(storage, file, 2, 10);
    // The records fit the buffer, so that the benchmark measures the insertion.
    let count = 15_000;
    let mut best = Duration::MAX;
    for _ in 0..10 {
        storage.wal().flush(storage.wal().insert_lsn()).unwrap();
        best = best.min(time(env, || insert(storage, file, 1, count)));
    }
    report("latch, change, log 100 bytes", best, count);
    let mut best = Duration::MAX;
    for _ in 0..10 {
        storage.wal().flush(storage.wal().insert_lsn()).unwrap();
        best = best.min(time(env, || {
            thread::scope(|scope| {
                scope.spawn(|| insert(storage, file, 1, count / 2));
                scope.spawn(|| insert(storage, file, 2, count / 2));
            });
        }));
    }
    report("the same from two threads, per record", best, count);
}

fn commits(env: &Env, storage: &Arc<Storage>) {
    for threads in [1u64, 2, 8] {
        let each = 2000 / threads;
        let before = storage.wal().statistics().syncs;
        let elapsed = time(env, || {
            thread::scope(|scope| {
                for _ in 0..threads {
                    scope.spawn(|| {
                        for _ in 0..each {
                            let record = Record {
                                manager: Manager::Transaction,
                                kind: 1,
                                version: 1,
                                xid: Xid(9),
                                body: &[&[0; 400]],
                                pages: &mut [],
                                removes: None,
                            };
                            let lsn = storage.log(record).expect("logs");
                            storage.wal().flush(lsn).unwrap();
                        }
                    });
                }
            });
        });
        let syncs = storage.wal().statistics().syncs - before;
        report(
            &format!("durable commit, {threads} threads, {syncs} syncs"),
            elapsed,
            threads * each,
        );
    }
}
