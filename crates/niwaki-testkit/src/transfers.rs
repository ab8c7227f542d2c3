//! Concurrent transfers between a few rows.
//!
//! Sums and counts say whether any transfer was lost, doubled or seen half. Run inside a schedule
//! (`schedules`).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use niwaki_env::Env;
use niwaki_env::rng::{Rng, SeededRng};
use niwaki_env::sync::thread;
use niwaki_env::vfs::{CrashOptions, FaultyVfs, MemoryVfs};
use niwaki_table::HeapOnlyUpdates;

use crate::model::{Isolation, Reply, Rows, Step};
use crate::schedules::seed;
use crate::tables::{TableDatabase, TableSession};

const ACCOUNTS: i64 = 4;
const EACH: i64 = 100;
const TOTAL: i64 = ACCOUNTS * EACH;

fn open(env: Env) -> TableDatabase {
    TableDatabase::open(env, true, HeapOnlyUpdates::SameKeys).expect("the database opens")
}

fn execute(session: &mut TableSession, step: &Step) -> Reply {
    session.step(step).unwrap_or_else(|error| panic!("{step:?}: {error}"))
}

/// Fills the table: rows 0..ACCOUNTS hold money; row 1000 + writer counts that writer's transfers.
fn prepare(database: &TableDatabase, writers: i64) {
    let mut session = database.session().expect("a session");
    for account in 0..ACCOUNTS {
        execute(&mut session, &Step::Insert(account, EACH));
    }
    for writer in 0..writers {
        execute(&mut session, &Step::Insert(1000 + writer, 0));
    }
}

/// Runs one transfer; true when it was committed, false when a deadlock or conflict undid it.
fn transfer(session: &mut TableSession, rng: &SeededRng, writer: i64) -> bool {
    let account = || i64::try_from(rng.below(ACCOUNTS.unsigned_abs())).unwrap();
    let (from, mut to) = (account(), account());
    if from == to {
        to = (to + 1) % ACCOUNTS;
    }
    let amount = 1 + i64::try_from(rng.below(9)).unwrap();
    let repeatable = rng.chance(1, 3);
    let level = if repeatable { Isolation::RepeatableRead } else { Isolation::ReadCommitted };
    execute(session, &Step::Begin(level));
    let mut changes = vec![(from, -amount), (1000 + writer, 1), (to, amount)];
    if rng.chance(1, 2) {
        changes.reverse();
    }
    for (number, (key, amount)) in changes.into_iter().enumerate() {
        if number == 1 && rng.chance(1, 3) {
            execute(session, &Step::Savepoint(1));
            let undone = session.add(account(), 1000);
            if undone.is_ok() {
                execute(session, &Step::RollbackTo(1));
            }
        }
        match session.add(key, amount) {
            Ok(count) => assert_eq!(count, 1, "row {key}"),
            Err(state) => {
                assert!(matches!(&*state, "40P01" | "40001" | "25P02"), "{state}");
                execute(session, &Step::Rollback);
                return false;
            }
        }
    }
    if rng.chance(1, 6) {
        execute(session, &Step::Rollback);
        return false;
    }
    execute(session, &Step::Commit);
    true
}

fn read(session: &mut TableSession) -> (i64, Vec<i64>) {
    let Reply::Rows(rows) = execute(session, &Step::Scan) else { panic!("a scan gives rows") };
    let total = rows.range(..ACCOUNTS).map(|(_, value)| value).sum();
    (total, rows.range(1000..).map(|(_, value)| *value).collect())
}

fn read_steadily(mut session: TableSession) {
    execute(&mut session, &Step::Begin(Isolation::RepeatableRead));
    let first = read(&mut session);
    assert_eq!(first.0, TOTAL, "money appeared or vanished");
    for _ in 0..2 {
        assert_eq!(read(&mut session), first, "one snapshot gave two answers");
        for key in 0..ACCOUNTS {
            assert!(
                matches!(execute(&mut session, &Step::Read(key)), Reply::Row(Some(_))),
                "{key}"
            );
        }
    }
    execute(&mut session, &Step::Commit);
}

/// Runs three writers, a reader with one snapshot, vacuum and a checkpoint.
///
/// # Panics
/// When money appeared or vanished, a transfer was lost or doubled, or an invariant does not hold.
pub fn run() {
    const WRITERS: i64 = 3;
    let seed = seed();
    let database = open(Env::simulated(Arc::new(MemoryVfs::new()), seed));
    prepare(&database, WRITERS);
    let mut threads = Vec::new();
    for writer in 0..WRITERS {
        let mut session = database.session().expect("a session");
        threads.push(thread::spawn(move || {
            let rng = SeededRng::new(seed ^ writer.unsigned_abs() << 32);
            (0..4).filter(|_| transfer(&mut session, &rng, writer)).count() as i64
        }));
    }
    let session = database.session().expect("a session");
    let reader = thread::spawn(move || read_steadily(session));
    let mut session = database.session().expect("a session");
    let cleaner = thread::spawn(move || {
        execute(&mut session, &Step::Vacuum);
        execute(&mut session, &Step::Checkpoint);
        execute(&mut session, &Step::Vacuum);
    });
    let done: Vec<i64> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    reader.join().expect("the reader");
    cleaner.join().expect("the cleaner");
    let rows = database.rows().expect("the rows");
    let total: i64 = rows.range(..ACCOUNTS).map(|(_, value)| value).sum();
    let counts: Vec<i64> = rows.range(1000..).map(|(_, value)| *value).collect();
    assert_eq!((total, counts), (TOTAL, done));
    database.check().expect("the check");
}

/// Runs two writers beside a checkpoint and vacuum; then opens the states that a crash at some
/// moment leaves.
///
/// # Panics
/// As [`run`], in any of those states too.
pub fn run_and_crash() {
    const WRITERS: i64 = 2;
    let seed = seed();
    let disk = FaultyVfs::new();
    let database = open(Env::simulated(Arc::new(disk.clone()), seed));
    prepare(&database, WRITERS);
    disk.record();
    let base = disk.changes();
    // Writer, and the numbers of disk changes when a transfer began and when it was acknowledged.
    let log = Arc::new(Mutex::new(Vec::new()));
    let mut threads = Vec::new();
    for writer in 0..WRITERS {
        let mut session = database.session().expect("a session");
        let (disk, log) = (disk.clone(), Arc::clone(&log));
        threads.push(thread::spawn(move || {
            let rng = SeededRng::new(seed ^ writer.unsigned_abs() << 32);
            for _ in 0..4 {
                let began = disk.changes() - base;
                if transfer(&mut session, &rng, writer) {
                    log.lock().unwrap().push((writer, began, disk.changes() - base));
                }
            }
        }));
    }
    let mut session = database.session().expect("a session");
    threads.push(thread::spawn(move || {
        execute(&mut session, &Step::Checkpoint);
        execute(&mut session, &Step::Vacuum);
    }));
    threads.into_iter().for_each(|thread| thread.join().expect("a thread"));
    drop(database);
    let log = log.lock().unwrap().clone();
    let history = disk.history().expect("recording was on");
    let rng = SeededRng::new(seed);
    let moment = rng.below(history.len() as u64 + 1);
    let mut replay = history.replay();
    while (replay.done() as u64) < moment && replay.step().is_some() {}
    let options = CrashOptions { images_max: 3, seed: rng.next_u64(), ..CrashOptions::default() };
    for image in replay.images(&options) {
        let verified = catch_unwind(AssertUnwindSafe(|| verify(&image.vfs, &log, moment)));
        if let Err(payload) = verified {
            eprintln!("seed {seed}, moment {moment}, survivors: {}", image.survivors);
            eprintln!("{}", replay.recent(40).join("\n"));
            std::panic::resume_unwind(payload);
        }
    }
}

/// Runs a writer, vacuum and a reader on one row. Each snapshot of the reader must give one answer.
/// The run is short, so that a few well placed switches reach every corner of taking and publishing
/// snapshots.
///
/// # Panics
/// When a snapshot gives two answers, or none.
pub fn contend() {
    const ROUNDS: i64 = 3;
    let seed = seed();
    let database = open(Env::simulated(Arc::new(MemoryVfs::new()), seed));
    let mut session = database.session().expect("a session");
    execute(&mut session, &Step::Insert(0, 0));
    let mut writing = database.session().expect("a session");
    let writer = thread::spawn(move || {
        for value in 1..=ROUNDS {
            assert_eq!(execute(&mut writing, &Step::Update(0, value)), Reply::Done(1));
        }
    });
    let mut reading = database.session().expect("a session");
    let reader = thread::spawn(move || {
        let mut last = Some(0);
        for _ in 0..ROUNDS {
            execute(&mut reading, &Step::Begin(Isolation::RepeatableRead));
            let Reply::Row(first) = execute(&mut reading, &Step::Read(0)) else { unreachable!() };
            let Reply::Row(second) = execute(&mut reading, &Step::Read(0)) else { unreachable!() };
            assert!(first.is_some() && first == second, "one snapshot: {first:?}, {second:?}");
            assert!(first >= last, "{first:?} after {last:?}");
            last = first;
            execute(&mut reading, &Step::Commit);
        }
    });
    for _ in 0..ROUNDS {
        execute(&mut session, &Step::Vacuum);
    }
    writer.join().expect("the writer");
    reader.join().expect("the reader");
    assert_eq!(database.rows().expect("the rows"), Rows::from([(0, ROUNDS)]));
    database.check().expect("the check");
}

/// Writes one row until its chain is long, beside readers that shorten the chain while others walk
/// it. The readers come by address, by the indexes and by scanning. No vacuum runs.
///
/// # Panics
/// When a snapshot gives two answers or none, or the readers left the pruning to others.
pub fn prune_by_reading() {
    const WRITES: i64 = 40;
    let seed = seed();
    let database = open(Env::simulated(Arc::new(MemoryVfs::new()), seed));
    let mut session = database.session().expect("a session");
    execute(&mut session, &Step::Insert(0, 0));
    let mut threads = Vec::new();
    for number in 0..3u64 {
        let mut session = database.session().expect("a session");
        threads.push(thread::spawn(move || {
            let rng = SeededRng::new(seed ^ number << 32);
            if number == 0 {
                for write in 1..=WRITES {
                    // The indexed group stays, so that the versions make one chain.
                    let value = write * 35;
                    assert_eq!(execute(&mut session, &Step::Update(0, value)), Reply::Done(1));
                }
                return;
            }
            let mut last = 0;
            for _ in 0..6 {
                execute(&mut session, &Step::Begin(Isolation::RepeatableRead));
                let mut value = || {
                    if rng.chance(1, 2) {
                        let Reply::Rows(rows) = execute(&mut session, &Step::Scan) else {
                            unreachable!()
                        };
                        assert_eq!(rows.len(), 1);
                        return rows[&0];
                    }
                    match execute(&mut session, &Step::Read(0)) {
                        Reply::Row(Some(value)) => value,
                        other => panic!("a snapshot sees no version: {other:?}"),
                    }
                };
                let (first, second, third) = (value(), value(), value());
                assert!(first == second && second == third, "{first}, {second}, {third}");
                assert!(first >= last, "{first} after {last}");
                last = first;
                execute(&mut session, &Step::Commit);
            }
        }));
    }
    threads.into_iter().for_each(|thread| thread.join().expect("a thread"));
    // In every schedule, this read removes the versions that are left over.
    assert_eq!(execute(&mut session, &Step::Read(0)), Reply::Row(Some(WRITES * 35)));
    assert_eq!(database.rows().expect("the rows"), Rows::from([(0, WRITES * 35)]));
    assert!(database.reader_passes() > 0, "no reader pruned");
    database.check().expect("the check");
}

fn verify(files: &MemoryVfs, log: &[(i64, u64, u64)], moment: u64) {
    let database = open(Env::simulated(Arc::new(files.fork()), 1));
    let rows = database.rows().expect("the rows");
    let total: i64 = rows.range(..ACCOUNTS).map(|(_, value)| value).sum();
    assert_eq!(total, TOTAL, "money appeared or vanished");
    for (key, count) in rows.range(1000..) {
        let mine = || log.iter().filter(|(writer, ..)| writer + 1000 == *key);
        let least = mine().filter(|(_, _, end)| *end <= moment).count() as i64;
        let most = mine().filter(|(_, from, _)| *from <= moment).count() as i64;
        assert!((least..=most).contains(count), "{key}: {count} not in {least}..={most}");
    }
    database.check().expect("the check");
}
