//! Measures the size of grown indexes against freshly built ones. Files are in memory, with one
//! thread, so that the figures are the same on every machine.
//!
//! `cargo run -p niwaki-nbtree --example nbtree_sizes [rows]` (default 290,000). With 2,900,000
//! rows it gives the figures for issue 02: order lines as TPC-C's new-order makes them.

use std::sync::Arc;

use niwaki_env::Env;
use niwaki_env::rng::SeededRng;
use niwaki_nbtree::{
    Index, IndexOptions, IndexStats, NbtreeManager, NewEntry, SplitStrategy, UniqueCheck,
    UniqueVerdict,
};
use niwaki_storage::{RelFile, Storage, StorageOptions, Tid, Xid};

/// Heap rows of a page: order lines are short.
const ROWS_PER_PAGE: u32 = 157;

/// Encodes int4 columns as the types layer does: a byte that means "not null", then the number with
/// its sign bit inverted.
fn key(columns: &[u32]) -> Vec<u8> {
    let encode = |&number: &u32| {
        let b = (number ^ 0x8000_0000).to_be_bytes();
        [0x20, b[0], b[1], b[2], b[3]]
    };
    columns.iter().flat_map(encode).collect()
}

fn open(storage: &Arc<Storage>, options: IndexOptions) -> Index {
    let file = RelFile { id: storage.allocate_file(), logged: true };
    storage.create_file(file, Xid::FIRST_NORMAL).expect("a file in memory");
    Index::new(Arc::clone(storage), file, "sizes", options)
}

/// A unique check that finds no conflict.
struct NoConflict;

impl UniqueCheck for NoConflict {
    fn check(&self, _: &[u8], _: Tid) -> niwaki_storage::Result<UniqueVerdict> {
        Ok(UniqueVerdict::NotConflicting)
    }
}

/// Returns the number of pages that are in the tree, metapage included.
fn pages(index: &Index) -> u32 {
    let report = index.check(&mut |_| {}).expect("a check");
    assert!(report.corruptions.is_empty(), "{:?}", report.corruptions);
    1 + report.leaf_pages + report.inner_pages
}

fn tid(row: usize) -> Tid {
    Tid::new(row as u32 / ROWS_PER_PAGE, 1 + (row as u32 % ROWS_PER_PAGE) as u16)
}

/// Returns an index into which one key per row was inserted.
fn grown(storage: &Arc<Storage>, keys: &[Vec<u8>], unique: bool, options: IndexOptions) -> Index {
    let index = open(storage, options);
    for (row, key) in keys.iter().enumerate() {
        let entry = NewEntry {
            key,
            payload: b"",
            tid: tid(row),
            xid: Xid::FIRST_NORMAL,
            logically_unchanged: false,
        };
        let check: Option<&dyn UniqueCheck> = if unique { Some(&NoConflict) } else { None };
        index.insert(&entry, check, None).expect("insertion");
    }
    index
}

fn built(storage: &Arc<Storage>, keys: &[Vec<u8>], options: IndexOptions) -> Index {
    let index = open(storage, options);
    let mut entries: Vec<(&[u8], Tid)> =
        keys.iter().enumerate().map(|(row, key)| (&key[..], tid(row))).collect();
    entries.sort_unstable();
    let mut builder = index.builder(Xid::FIRST_NORMAL).expect("a new index");
    for (key, tid) in entries {
        builder.add(key, b"", tid).expect("entries in order");
    }
    builder.finish().expect("the build");
    index
}

/// Returns the key (warehouse, district, order, line) and the item of each row. Orders have 5 to 15
/// lines. Each is in a random district, and numbered within it.
fn order_lines(rows: u32) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let rng = SeededRng::new(1);
    let groups = (rows / 9_667).max(1);
    let items = (rows / 29).max(1);
    let mut next_order = vec![0u32; groups as usize];
    let (mut lines, mut item_keys) = (Vec::new(), Vec::new());
    while lines.len() < rows as usize {
        let group = rng.below(u64::from(groups)) as u32;
        next_order[group as usize] += 1;
        let order = next_order[group as usize];
        for line in 1..=5 + rng.below(11) as u32 {
            lines.push(key(&[1 + group / 10, 1 + group % 10, order, line]));
            item_keys.push(key(&[1 + rng.below(u64::from(items)) as u32]));
        }
    }
    (lines, item_keys)
}

fn show(name: &str, grown: u32, fresh: u32, log_bytes: u64, stats: &IndexStats) {
    let ratio = f64::from(grown) / f64::from(fresh);
    let log_bytes = log_bytes as f64 / stats.inserts.max(1) as f64;
    println!(
        "{name:<12} {grown:>7} grown {fresh:>7} built  {ratio:.3}  {log_bytes:.1} bytes of log an entry"
    );
    println!("             {stats:?}");
}

/// Grows an index and builds one of the same entries. Returns the pages of both.
fn compare(
    storage: &Arc<Storage>,
    name: &str,
    keys: &[Vec<u8>],
    unique: bool,
    options: IndexOptions,
) -> (u32, u32) {
    let begin = storage.wal().insert_lsn().0;
    let index = grown(storage, keys, unique, options);
    let log_bytes = storage.wal().insert_lsn().0 - begin;
    let sizes = (pages(&index), pages(&built(storage, keys, options)));
    show(name, sizes.0, sizes.1, log_bytes, &index.stats());
    sizes
}

fn main() {
    let rows: u32 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(290_000);
    let storage_options = StorageOptions { shared_buffers: 80_000, ..StorageOptions::default() };
    let (storage, _) = Storage::open(Env::memory(), storage_options, vec![Arc::new(NbtreeManager)])
        .expect("a database in memory");
    let plain = IndexOptions {
        split_strategy: SplitStrategy::Half,
        suffix_truncation: false,
        deduplicate_items: false,
        ..IndexOptions::default()
    };
    let (lines, items) = order_lines(rows);
    let mut sums = [0, 0];
    for (sum, options) in sums.iter_mut().zip([IndexOptions::default(), plain]) {
        println!("{options:?}");
        for (name, keys, unique) in [("order line", &lines, true), ("item", &items, false)] {
            *sum += compare(&storage, name, keys, unique, options).0;
        }
    }
    println!("both indexes, of plain halves: {:.3}", f64::from(sums[0]) / f64::from(sums[1]));

    let options = IndexOptions::default();
    /// The number of a row's key, from the row's number and a random one.
    type Number = fn(u32, u32) -> u32;
    let cases: [(&str, Number); 5] = [
        ("sequential", |row, _| row),
        ("random", |_, random| random),
        ("ten values", |_, random| random % 10),
        ("one value", |_, _| 7),
        ("80 %", |_, random| if random % 5 > 0 { 7 } else { random % 1000 }),
    ];
    for (name, number) in cases {
        let rng = SeededRng::new(2);
        let keys: Vec<Vec<u8>> =
            (0..rows).map(|row| key(&[number(row, rng.below(1 << 31) as u32)])).collect();
        compare(&storage, name, &keys, false, options);
    }
}
