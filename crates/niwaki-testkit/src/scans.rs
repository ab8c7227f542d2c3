//! Readers on every access path beside writers and vacuum.
//!
//! Under one snapshot all paths give the same rows, whatever was marked, split or removed
//! meanwhile. Run inside a schedule (`schedules`).

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use niwaki_env::Env;
use niwaki_env::rng::SeededRng;
use niwaki_env::sync::thread;
use niwaki_env::vfs::MemoryVfs;
use niwaki_table::{
    BitmapSource, ColumnKeys, Direction, HeapOnlyUpdates, IndexScan, PageRows, ScanKeys,
};
use niwaki_txn::{Snapshot, Transaction};
use niwaki_types::{ColumnMask, Datum, KeyOrder, TypeOid, encode_key};

use crate::model::{Reply, Rows, Step, Value};
use crate::schedules::seed;
use crate::tables::{COLUMNS, GROUPS, TableDatabase, TableSession};

const KEYS: i64 = 10;
const WRITES: usize = 8;
const ROUNDS: usize = 3;

fn write(session: &mut TableSession, rng: &SeededRng) {
    let key = i64::try_from(rng.below(KEYS.unsigned_abs())).expect("few keys");
    let value = i64::try_from(rng.below(40)).expect("few values");
    let step = match rng.below(5) {
        0 | 1 => Step::Delete(key),
        2 => Step::Update(key, value),
        _ => Step::Insert(key, value),
    };
    match session.step(&step) {
        Ok(Reply::Done(_)) => {}
        Ok(Reply::Error(state)) if matches!(&*state, "23505" | "40P01") => {}
        other => panic!("{step:?}: {other:?}"),
    }
    // A statement that failed leaves its transaction open.
    let _ = session.step(&Step::Rollback);
}

fn encoded(value: &Datum, oid: TypeOid) -> Vec<u8> {
    let mut key = Vec::new();
    encode_key(value, KeyOrder::ascending(oid), &mut key);
    key
}

fn groups(wanted: &BTreeSet<i64>) -> ScanKeys {
    let value = |group: &i64| Datum::Int4(i32::try_from(*group).expect("few groups"));
    let values = wanted.iter().map(|group| encoded(&value(group), TypeOid::INT4)).collect();
    ScanKeys { columns: vec![ColumnKeys::values(values)], bounding: 1 }
}

fn keys(wanted: &BTreeSet<i64>) -> ScanKeys {
    let values = wanted.iter().map(|key| encoded(&Datum::Int8(*key), TypeOid::INT8)).collect();
    ScanKeys { columns: vec![ColumnKeys::values(values)], bounding: 1 }
}

fn from_key(key: i64) -> ScanKeys {
    let lower = Bound::Included(encoded(&Datum::Int8(key), TypeOid::INT8));
    let range = ColumnKeys::Range { lower, upper: Bound::Unbounded };
    ScanKeys { columns: vec![range], bounding: 1 }
}

/// A reader of one snapshot by all paths.
struct Reader<'d> {
    database: &'d TableDatabase,
    tx: &'d Transaction,
    snapshot: Snapshot,
}

fn integer(value: &Datum) -> i64 {
    match value {
        Datum::Int8(value) => *value,
        other => panic!("{other:?} is no int8"),
    }
}

impl Reader<'_> {
    fn through(&self, mut scan: IndexScan, needed: &ColumnMask) -> Vec<(i64, Option<Value>)> {
        let mut out = vec![Datum::Null; COLUMNS];
        let mut rows = Vec::new();
        let table = self.database.table();
        while scan.next(table, self.tx, &self.snapshot, needed, &mut out).expect("a row").is_some()
        {
            let value = needed.contains(1).then(|| integer(&out[1]));
            rows.push((integer(&out[0]), value));
        }
        rows
    }

    /// Reads the rows of a bitmap, rechecked by `wanted`.
    fn by_bitmap(
        &self,
        source: BitmapSource,
        memory: usize,
        wanted: impl Fn(i64, Value) -> bool,
    ) -> Rows {
        let table = self.database.table();
        let mut scan = table.bitmap_scan(source, memory);
        let mut page = PageRows::new();
        let mut out = vec![Datum::Null; COLUMNS];
        let mut rows = Rows::new();
        while scan.next_page(table, self.tx, &self.snapshot, &mut page).expect("a page") {
            for row in page.iter() {
                table.deform(row, &ColumnMask::all(COLUMNS), &mut out).expect("a row");
                let (key, value) = (integer(&out[0]), integer(&out[1]));
                if wanted(key, value) {
                    assert!(rows.insert(key, value).is_none(), "row {key} came twice");
                }
            }
        }
        rows
    }

    fn check(&self, rng: &SeededRng) {
        let all = self.database.sequential(self.tx).expect("the rows");
        let table = self.database.table();
        let few = |bound: i64| -> BTreeSet<i64> {
            (0..4).map(|_| rng.below(bound.unsigned_abs()) as i64).collect()
        };
        let (some_groups, some_keys) = (few(GROUPS), few(KEYS));
        let in_groups = |value: &Value| some_groups.contains(&value.rem_euclid(GROUPS));
        let every = ColumnMask::all(COLUMNS);
        for direction in [Direction::Forward, Direction::Backward] {
            let mut found =
                self.through(table.index_scan_keys(1, groups(&some_groups), direction), &every);
            let order: Vec<i64> =
                found.iter().map(|(_, value)| value.unwrap().rem_euclid(GROUPS)).collect();
            let sorted = order.is_sorted_by(|a, b| match direction {
                Direction::Forward => a <= b,
                Direction::Backward => a >= b,
            });
            assert!(sorted, "{direction:?}: {order:?}");
            found.sort_unstable();
            let expected: Vec<_> = all
                .iter()
                .filter(|(_, value)| in_groups(value))
                .map(|(key, value)| (*key, Some(*value)))
                .collect();
            assert_eq!(found, expected, "groups {some_groups:?} {direction:?}");

            let needed = ColumnMask::from_iter([0]);
            let scan = table.index_only_scan(0, keys(&some_keys), direction);
            let mut found: Vec<i64> =
                self.through(scan, &needed).into_iter().map(|(key, _)| key).collect();
            if direction == Direction::Backward {
                found.reverse();
            }
            let expected: Vec<i64> =
                all.keys().copied().filter(|key| some_keys.contains(key)).collect();
            assert_eq!(found, expected, "index-only {some_keys:?} {direction:?}");
        }
        let from = rng.below(KEYS.unsigned_abs()) as i64;
        let memory = if rng.chance(1, 2) { 0 } else { 1 << 20 };
        let sources = || {
            vec![
                BitmapSource::Index { index: 1, keys: groups(&some_groups) },
                BitmapSource::Index { index: 0, keys: from_key(from) },
            ]
        };
        let both = |key: i64, value: Value| in_groups(&value) && key >= from;
        let either = |key: i64, value: Value| in_groups(&value) || key >= from;
        let expected = |wanted: &dyn Fn(i64, Value) -> bool| -> Rows {
            all.iter().filter(|(k, v)| wanted(**k, **v)).map(|(k, v)| (*k, *v)).collect()
        };
        let found = self.by_bitmap(BitmapSource::And(sources()), memory, both);
        assert_eq!(found, expected(&both), "and");
        let found = self.by_bitmap(BitmapSource::Or(sources()), memory, either);
        assert_eq!(found, expected(&either), "or");
        assert_eq!(self.database.sequential(self.tx).expect("the rows"), all, "one snapshot");
    }
}

/// Runs two writers, two readers by every path, and vacuum.
///
/// # Panics
/// When two paths differ, or an invariant does not hold.
pub fn run() {
    play(HeapOnlyUpdates::SameKeys);
}

/// Does the same with chains of any keys.
///
/// # Panics
/// As [`run`].
pub fn run_any_key() {
    play(HeapOnlyUpdates::AnyKey);
}

fn play(heap_only: HeapOnlyUpdates) {
    let seed = seed();
    let env = Env::simulated(Arc::new(MemoryVfs::new()), seed);
    let database = TableDatabase::open(env, true, heap_only).expect("the database opens");
    let mut session = database.session().expect("a session");
    for key in 0..KEYS {
        session.step(&Step::Insert(key, key)).expect("a row");
    }
    let mut threads = Vec::new();
    for writer in 0..2u64 {
        let mut session = database.session().expect("a session");
        threads.push(thread::spawn(move || {
            let rng = SeededRng::new(seed ^ (writer + 1) << 32);
            (0..WRITES).for_each(|_| write(&mut session, &rng));
        }));
    }
    for reader in 0..2u64 {
        let database = database.clone();
        threads.push(thread::spawn(move || {
            let rng = SeededRng::new(seed ^ (reader + 1) << 48);
            for _ in 0..ROUNDS {
                database.with_snapshot(|tx, snapshot| {
                    Reader { database: &database, tx, snapshot }.check(&rng);
                });
            }
        }));
    }
    session.step(&Step::Vacuum).expect("vacuum");
    threads.into_iter().for_each(|thread| thread.join().expect("a thread"));
    database.with_snapshot(|tx, snapshot| {
        Reader { database: &database, tx, snapshot }.check(&SeededRng::new(seed));
    });
    database.rows().expect("the rows");
    database.check().expect("the check");
}
