//! The whole engine under the deterministic scheduler.
//!
//! Concurrent sessions transfer, count and read, in schedules that a seed determines, with crashes
//! in the middle.
//!
//! `NIWAKI_SIM_SCHEDULES` sets the number of schedules that each test tries.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use niwaki::{Database, Options, Session};
use niwaki_env::Env;
use niwaki_env::rng::{Rng, SeededRng};
use niwaki_env::sync::thread;
use niwaki_env::vfs::{CrashOptions, FaultyVfs, MemoryVfs};
use niwaki_testkit::schedules::{schedules, seed, simulate};
use niwaki_testkit::sql::{integer, query};

const ACCOUNTS: i64 = 4;
const EACH: i64 = 100;

fn open(env: Env) -> Database {
    let options = Options::new().small_files(true).set("shared_buffers", "256kB");
    Database::open_with(env, options).expect("the database opens")
}

fn prepare(database: &Database) {
    let mut session = database.session();
    let sql = format!(
        "create table account (k int8 primary key, v int8 not null, n int8 not null); \
         create index account_n on account (n); \
         insert into account select i, {EACH}, 0 from generate_series(1, {ACCOUNTS}) i"
    );
    query(&mut session, &sql).expect("the tables are made");
}

/// Outcome of a transaction.
enum Outcome {
    Committed,
    /// Rolled back, by the session itself or to break a deadlock or a conflict.
    Undone,
}

fn run_all(session: &mut Session, statements: &[String]) -> Outcome {
    for statement in statements {
        if let Err(error) = query(session, statement) {
            let expected = matches!(error.sqlstate, "40P01" | "40001");
            assert!(expected, "{statement}: {} {error}", error.sqlstate);
            query(session, "rollback").expect("rollback always works");
            return Outcome::Undone;
        }
    }
    if statements.last().is_some_and(|last| last == "commit") {
        Outcome::Committed
    } else {
        Outcome::Undone
    }
}

/// Moves `amount` between two accounts, and counts the transfer at each of them.
fn transfer(rng: &SeededRng, level: &str) -> Vec<String> {
    let account = || 1 + i64::try_from(rng.below(ACCOUNTS.unsigned_abs())).unwrap();
    let (from, mut to) = (account(), account());
    if from == to {
        to = to % ACCOUNTS + 1;
    }
    let amount = 1 + rng.below(9);
    let update = |sign: char, account: i64| {
        format!("update account set v = v {sign} {amount}, n = n + 1 where k = {account}")
    };
    let mut statements = vec![format!("begin isolation level {level}"), update('-', from)];
    if rng.chance(1, 4) {
        statements.push("savepoint s".to_owned());
        statements.push(update('+', from));
        statements.push("rollback to savepoint s".to_owned());
    }
    statements.push(update('+', to));
    statements.push(if rng.chance(1, 6) { "rollback" } else { "commit" }.to_owned());
    statements
}

fn one_number(session: &mut Session, sql: &str) -> i64 {
    let answer = query(session, sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    match &answer.rows[0][0] {
        niwaki::Datum::Numeric(number) => number.to_string().parse().expect("an integer"),
        other => integer(other).expect("an integer"),
    }
}

fn check(database: &Database) {
    let report = database.check().expect("the check runs");
    assert!(report.violations.is_empty(), "{:?}", report.violations);
}

fn sums(database: &Database) -> (i64, i64) {
    let mut session = database.session();
    let total = one_number(&mut session, "select sum(v) from account");
    (total, one_number(&mut session, "select sum(n) from account"))
}

#[test]
fn transfers_neither_make_nor_lose_money() {
    simulate(schedules(60), || {
        let seed = seed();
        let env = Env::simulated(Arc::new(MemoryVfs::new()), seed);
        let database = open(env);
        prepare(&database);
        let updates = Arc::new(AtomicI64::new(0));
        let writers: Vec<_> = (0..3)
            .map(|number| {
                let (database, updates) = (database.clone(), Arc::clone(&updates));
                thread::spawn(move || {
                    let rng = SeededRng::new(seed ^ number);
                    let mut session = database.session();
                    let level = if number == 0 { "repeatable read" } else { "read committed" };
                    for _ in 0..3 {
                        let statements = transfer(&rng, level);
                        if matches!(run_all(&mut session, &statements), Outcome::Committed) {
                            updates.fetch_add(2, Ordering::SeqCst);
                        }
                    }
                })
            })
            .collect();
        let reader = {
            let database = database.clone();
            thread::spawn(move || {
                let mut session = database.session();
                query(&mut session, "begin isolation level repeatable read").unwrap();
                let first = one_number(&mut session, "select sum(n) from account");
                for _ in 0..2 {
                    let total = one_number(&mut session, "select sum(v) from account");
                    assert_eq!(total, ACCOUNTS * EACH, "money appeared or vanished");
                    let again = one_number(&mut session, "select sum(n) from account");
                    assert_eq!(again, first, "one snapshot gave two answers");
                }
                query(&mut session, "commit").unwrap();
            })
        };
        for thread in writers.into_iter().chain([reader]) {
            thread.join().expect("the session's thread");
        }
        assert_eq!(sums(&database), (ACCOUNTS * EACH, updates.load(Ordering::SeqCst)));
        check(&database);
    });
}

#[test]
fn acknowledged_transfers_survive_a_crash_in_the_middle() {
    simulate(schedules(20), || {
        let seed = seed();
        let rng = SeededRng::new(seed);
        let disk = FaultyVfs::new();
        let database = open(Env::simulated(Arc::new(disk.clone()), seed));
        prepare(&database);
        disk.record();
        let base = disk.changes();
        // For each transaction: the number of disk changes when it began, and when it was
        // acknowledged.
        let log = Arc::new(std::sync::Mutex::new(Vec::new()));
        let writers: Vec<_> = (0..3)
            .map(|number| {
                let (database, disk, log) = (database.clone(), disk.clone(), Arc::clone(&log));
                thread::spawn(move || {
                    let rng = SeededRng::new(seed ^ number);
                    let mut session = database.session();
                    for _ in 0..2 {
                        let statements = transfer(&rng, "read committed");
                        let began = disk.changes();
                        if matches!(run_all(&mut session, &statements), Outcome::Committed) {
                            log.lock().unwrap().push((began, disk.changes()));
                        }
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|thread| thread.join().expect("the session's thread"));
        drop(database);
        let log = log.lock().unwrap().clone();
        let history = disk.history().expect("recording was on");
        let mut replay = history.replay();
        let moment = rng.below(history.len() as u64 + 1);
        while (replay.done() as u64) < moment && replay.step().is_some() {}
        let options =
            CrashOptions { images_max: 3, seed: rng.next_u64(), ..CrashOptions::default() };
        for image in replay.images(&options) {
            let verified = catch_unwind(AssertUnwindSafe(|| {
                let database = open(Env::simulated(Arc::new(image.vfs.fork()), seed));
                let (total, updates) = sums(&database);
                assert_eq!(total, ACCOUNTS * EACH, "money appeared or vanished");
                let least = 2 * log.iter().filter(|(_, end)| *end - base <= moment).count() as i64;
                let most = 2 * log.iter().filter(|(from, _)| *from - base <= moment).count() as i64;
                assert!((least..=most).contains(&updates), "{updates} not in {least}..={most}");
                check(&database);
            }));
            if let Err(payload) = verified {
                eprintln!("seed {seed}, moment {moment}, survivors: {}", image.survivors);
                std::panic::resume_unwind(payload);
            }
        }
    });
}
