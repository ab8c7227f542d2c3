//! Point lookups without SQL and without the heap, beside a random pointer chase over a buffer of the index's
//! size: what the memory allows. Files are in memory, the pool holds everything.
//!
//! `cargo run --release -p niwaki-nbtree --example point_lookup [entries] [lookups]`

use std::sync::Arc;

use niwaki_env::clock::Clock;
use niwaki_env::rng::SeededRng;
use niwaki_env::sync::thread;
use niwaki_env::{Env, rng::Rng};
use niwaki_nbtree::{Direction, Index, IndexOptions, KeyRange, NbtreeManager, Scan};
use niwaki_storage::{RelFile, Storage, StorageOptions, Tid, Xid};

const LINE_BYTES: usize = 64;
const ROUNDS: u32 = 5;

/// An int8 key as the types layer encodes it: "not null", then the number, its sign bit turned round.
fn key(number: u64) -> [u8; 9] {
    let mut key = [1; 9];
    key[1..].copy_from_slice(&(number ^ (1 << 63)).to_be_bytes());
    key
}

fn build(entries: u64) -> (Arc<Storage>, Index) {
    let frames = entries as usize / 200 + 1000;
    let options = StorageOptions { shared_buffers: frames, ..StorageOptions::default() };
    let (storage, _) = Storage::open(Env::memory(), options, vec![Arc::new(NbtreeManager)])
        .expect("a database in memory");
    let file = RelFile { id: storage.allocate_file(), logged: false };
    storage.create_file(file, Xid::FIRST_NORMAL).expect("a file in memory");
    let index = Index::new(Arc::clone(&storage), file, "bench", IndexOptions::default());
    let mut builder = index.builder(Xid::FIRST_NORMAL).expect("a new index");
    for number in 0..entries {
        let tid = Tid::new((number / 200) as u32, 1 + (number % 200) as u16);
        builder.add(&key(number), b"", tid).expect("entries in order");
    }
    builder.finish().expect("the build");
    (storage, index)
}

/// Looks up random keys that are there.
fn look_up(index: &Index, entries: u64, lookups: u64, seed: u64) {
    let rng = SeededRng::new(seed);
    let mut scan = Scan::default();
    for _ in 0..lookups {
        let key = key(rng.next_u64() % entries);
        scan.start(index, &KeyRange::equal(&key), Direction::Forward);
        assert!(scan.next(index).expect("a scan") && scan.batch().len() == 1);
    }
}

/// A cycle through all cache lines of a buffer, in random order (Sattolo).
fn cycle(bytes: usize) -> Vec<[u32; LINE_BYTES / 4]> {
    let lines = (bytes / LINE_BYTES).max(2);
    let mut order: Vec<u32> = (0..lines as u32).collect();
    let rng = SeededRng::new(7);
    for at in (1..lines).rev() {
        order.swap(at, rng.below(at as u64) as usize);
    }
    order.into_iter().map(|next| [next; LINE_BYTES / 4]).collect()
}

fn chase(lines: &[[u32; LINE_BYTES / 4]], hops: u64, seed: u64) {
    let mut at = (seed as usize * 977) % lines.len();
    for _ in 0..hops {
        at = lines[at][0] as usize;
    }
    assert!(at < lines.len());
}

/// Nanoseconds per step in the best of some rounds, `threads` doing `steps` each at the same time.
fn best(clock: &dyn Clock, threads: u64, steps: u64, work: &(dyn Fn(u64) + Sync)) -> f64 {
    let round = || {
        let begin = clock.monotonic();
        thread::scope(|scope| {
            for number in 1..threads {
                scope.spawn(move || work(number));
            }
            work(0);
        });
        (clock.monotonic() - begin).as_nanos() as f64 / steps as f64
    };
    (0..ROUNDS).map(|_| round()).fold(f64::INFINITY, f64::min)
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|n| n.parse().expect("a number"));
    let entries: u64 = arguments.next().unwrap_or(1_000_000);
    let lookups: u64 = arguments.next().unwrap_or(1_000_000);
    let (storage, index) = build(entries);
    let bytes = index.blocks().expect("the file's length") as usize * 8192;
    let lines = cycle(bytes);
    println!("{entries} entries, {} MiB", bytes >> 20);
    let clock = Arc::clone(&storage.env().clock);
    let mut single = (0.0, 0.0);
    for threads in [1, 2] {
        let lookup =
            best(&*clock, threads, lookups, &|seed| look_up(&index, entries, lookups, seed));
        let hop = best(&*clock, threads, lookups, &|seed| chase(&lines, lookups, seed));
        print!("{threads} threads: lookup {lookup:.0} ns, pointer chase {hop:.0} ns");
        if threads == 1 {
            single = (lookup, hop);
            println!(", ratio {:.2}", lookup / hop);
        } else {
            let gains = (2.0 * single.0 / lookup, 2.0 * single.1 / hop);
            println!(
                ", together {:.2} and {:.2} times one thread: {:.2}",
                gains.0,
                gains.1,
                gains.0 / gains.1
            );
        }
    }
}
