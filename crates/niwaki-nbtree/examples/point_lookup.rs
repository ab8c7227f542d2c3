//! Measures point lookups without SQL and without the heap. A random pointer chase over a buffer of
//! the index's size shows the limit of the memory. Files are in memory, and the
//! pool holds everything.
//!
//! `cargo run --release -p niwaki-nbtree --example point_lookup [entries] [lookups]`. With `--json
//! [lookups]` it prints the figures for `bench/accept 02`, of indexes of a million and of ten
//! million entries.

use std::sync::Arc;

use niwaki_env::clock::Clock;
use niwaki_env::rng::SeededRng;
use niwaki_env::sync::thread;
use niwaki_env::{Env, rng::Rng};
use niwaki_nbtree::{Direction, Index, IndexOptions, NbtreeManager, Scan};
use niwaki_storage::{RelFile, Storage, StorageOptions, Tid, Xid};

const LINE_BYTES: usize = 64;
const ROUNDS: u32 = 5;

/// Returns an int8 key as the types layer encodes it: "not null", then the number with its sign bit
/// inverted.
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

/// Looks up random keys that exist.
fn look_up(index: &Index, entries: u64, lookups: u64, seed: u64) {
    let rng = SeededRng::new(seed);
    let mut scan = Scan::default();
    for _ in 0..lookups {
        let key = key(rng.next_u64() % entries);
        scan.look_up(index, &key, Direction::Forward);
        assert!(scan.next(index).expect("a scan") && scan.batch().len() == 1);
    }
}

/// Returns a cycle through all cache lines of a buffer, in random order (Sattolo).
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

/// Returns the nanoseconds per step when `threads` threads do `steps` steps each at the same time.
fn time(clock: &dyn Clock, threads: u64, steps: u64, work: &(dyn Fn(u64) + Sync)) -> f64 {
    let begin = clock.monotonic();
    thread::scope(|scope| {
        for number in 1..threads {
            scope.spawn(move || work(number));
        }
        work(0);
    });
    clock.monotonic().checked_sub(begin).unwrap().as_nanos() as f64 / steps as f64
}

/// Nanoseconds per step in the best of some rounds.
struct Times {
    lookup: f64,
    hop: f64,
}

/// The figures of one index size.
struct Figures {
    bytes: usize,
    single: Times,
    /// The times of each of two threads.
    double: Times,
}

impl Figures {
    /// Returns the throughput of two threads as a multiple of the throughput of one.
    fn scaling(&self) -> (f64, f64) {
        (2.0 * self.single.lookup / self.double.lookup, 2.0 * self.single.hop / self.double.hop)
    }
}

fn measure(entries: u64, lookups: u64) -> Figures {
    let (storage, index) = build(entries);
    let bytes = index.blocks().expect("the file's length") as usize * 8192;
    let lines = cycle(bytes);
    let clock = Arc::clone(&storage.env().clock);
    let look = |seed| look_up(&index, entries, lookups, seed);
    let hop = |seed| chase(&lines, lookups, seed);
    let [mut single, mut double] =
        [(); 2].map(|()| Times { lookup: f64::INFINITY, hop: f64::INFINITY });
    // Both run one after the other in each round, so that a disturbance of the machine affects
    // both.
    for _ in 0..ROUNDS {
        for (threads, best) in [(1, &mut single), (2, &mut double)] {
            best.lookup = best.lookup.min(time(&*clock, threads, lookups, &look));
            best.hop = best.hop.min(time(&*clock, threads, lookups, &hop));
        }
    }
    Figures { bytes, single, double }
}

fn print(entries: u64, lookups: u64) {
    let figures = measure(entries, lookups);
    println!("{entries} entries, {} MiB", figures.bytes >> 20);
    for (threads, times) in [(1, &figures.single), (2, &figures.double)] {
        let (lookup, hop) = (times.lookup, times.hop);
        println!(
            "{threads} threads: lookup {lookup:.0} ns, pointer chase {hop:.0} ns, ratio {:.2}",
            lookup / hop
        );
    }
    let (lookup, hop) = figures.scaling();
    println!("two threads: {lookup:.2} and {hop:.2} times one: {:.2}", lookup / hop);
}

fn print_json(lookups: u64) {
    let small = measure(1_000_000, lookups);
    let large = measure(10_000_000, lookups);
    let (scaling_lookup, scaling_chase) = large.scaling();
    println!(
        "{{\"lookup_1m_ns\": {:.1}, \"lookup_10m_ns\": {:.1}, \"chase_10m_ns\": {:.1}, \
         \"scaling_lookup\": {scaling_lookup:.3}, \"scaling_chase\": {scaling_chase:.3}}}",
        small.single.lookup, large.single.lookup, large.single.hop
    );
}

fn main() {
    let (options, numbers): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|argument| argument.starts_with("--"));
    let number = |at: usize| numbers.get(at).map(|n| n.parse().expect("a number"));
    match options.as_slice() {
        [] => print(number(0).unwrap_or(1_000_000), number(1).unwrap_or(1_000_000)),
        [option] if option == "--json" => print_json(number(0).unwrap_or(1_000_000)),
        _ => panic!("unknown options: {options:?}"),
    }
}
