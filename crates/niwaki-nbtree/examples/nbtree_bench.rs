//! Measures the index alone: lookups, insertions, log bytes and pages. Files are in memory, with
//! one thread.
//!
//! `cargo run --release -p niwaki-nbtree --example nbtree_bench [entries]`

use std::sync::Arc;
use std::time::Duration;

use niwaki_env::Env;
use niwaki_env::rng::{Rng, SeededRng};
use niwaki_nbtree::{
    Direction, EntryOutcome, Index, IndexOptions, KeyRange, NbtreeManager, NewEntry, Scan,
};
use niwaki_storage::{RelFile, Storage, StorageOptions, Tid, Xid};

/// Returns an int4 key as the types layer encodes it: a byte that means "not null", then the number
/// with its sign bit inverted.
fn key(number: u32) -> [u8; 5] {
    let b = (number ^ 0x8000_0000).to_be_bytes();
    [1, b[0], b[1], b[2], b[3]]
}

fn open(storage: &Arc<Storage>) -> Index {
    let file = RelFile { id: storage.allocate_file(), logged: true };
    storage.create_file(file, Xid::FIRST_NORMAL).expect("a file in memory");
    Index::new(Arc::clone(storage), file, "bench", IndexOptions::default())
}

fn per_second(count: u32, time: Duration) -> String {
    let nanoseconds = time.as_nanos() as f64 / f64::from(count);
    format!("{:>10.0}/s  {nanoseconds:>7.0} ns each", 1e9 / nanoseconds)
}

/// Inserts `keys` and prints rate, log bytes per entry and size.
fn insert_all(name: &str, storage: &Arc<Storage>, keys: &[u32]) -> Index {
    let index = open(storage);
    let clock = &storage.env().clock;
    let (begin, log) = (clock.monotonic(), storage.wal().insert_lsn().0);
    for (row, &number) in keys.iter().enumerate() {
        let tid = Tid::new(row as u32 / 226, 1 + row as u16 % 226);
        let entry = NewEntry {
            key: &key(number),
            payload: b"",
            tid,
            xid: Xid::FIRST_NORMAL,
            logically_unchanged: false,
        };
        let outcome = index.insert(&entry, None, None).expect("insertion");
        assert_eq!(outcome, EntryOutcome::Inserted);
    }
    let time = clock.monotonic().checked_sub(begin).unwrap();
    let bytes = (storage.wal().insert_lsn().0 - log) as f64 / keys.len() as f64;
    println!(
        "insert {name:<10} {}  {bytes:.1} log bytes each  {} pages",
        per_second(keys.len() as u32, time),
        index.blocks().expect("the file's length"),
    );
    index
}

/// Looks every key up, five times, and prints the best round: other work on the machine only ever
/// makes a round slower.
fn lookups(name: &str, index: &Index, clock: &dyn niwaki_env::clock::Clock, keys: &[u32]) {
    let mut scan = Scan::default();
    let mut best = Duration::MAX;
    for _ in 0..5 {
        let begin = clock.monotonic();
        for &number in keys {
            let key = key(number);
            scan.start(index, &KeyRange::equal(&key), Direction::Forward);
            assert!(scan.next(index).expect("a scan") && scan.batch().len() == 1);
        }
        best = best.min(clock.monotonic().checked_sub(begin).unwrap());
    }
    println!("lookup {name:<10} {}", per_second(keys.len() as u32, best));
}

fn main() {
    let entries: u32 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    let options = StorageOptions { shared_buffers: 40_000, ..StorageOptions::default() };
    let (storage, _) = Storage::open(Env::memory(), options, vec![Arc::new(NbtreeManager)])
        .expect("a database in memory");
    let clock = Arc::clone(&storage.env().clock);
    let ascending: Vec<u32> = (0..entries).collect();
    let mut shuffled = ascending.clone();
    let rng = SeededRng::new(1);
    for at in (1..shuffled.len()).rev() {
        shuffled.swap(at, rng.below(at as u64 + 1) as usize);
    }

    let index = open(&storage);
    let begin = clock.monotonic();
    let mut builder = index.builder(Xid::FIRST_NORMAL).expect("a new index");
    for &number in &ascending {
        builder.add(&key(number), b"", Tid::new(number / 226, 1)).expect("entries in order");
    }
    builder.finish().expect("the build");
    println!(
        "build             {}  {} pages",
        per_second(entries, clock.monotonic().checked_sub(begin).unwrap()),
        index.blocks().expect("the file's length"),
    );
    println!("levels {}", index.check(&mut |_| {}).expect("a check").levels);
    let few: Vec<u32> = (0..entries).map(|_| (rng.next_u64() % 500) as u32).collect();
    lookups("few keys", &index, &*clock, &few);
    lookups("random", &index, &*clock, &shuffled);
    lookups("ascending", &index, &*clock, &ascending);

    let begin = clock.monotonic();
    let mut scan = Scan::default();
    scan.start(&index, &KeyRange::ALL, Direction::Forward);
    let mut found = 0;
    while scan.next(&index).expect("a scan") {
        found += scan.batch().len() as u32;
    }
    println!(
        "scan              {}",
        per_second(found, clock.monotonic().checked_sub(begin).unwrap())
    );
    drop(index);

    insert_all("ascending", &storage, &ascending);
    insert_all("random", &storage, &shuffled);
}
