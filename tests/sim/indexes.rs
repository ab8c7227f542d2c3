//! Special indexes beside writers, in schedules that a seed determines, with crashes.
//!
//! The indexes have computed keys, some rows only, or large values, and some come and go. Users saw
//! before:
//!
//! - an index on an expression gave a row twice, or one that did not match, after plain updates of
//!   several sessions (`unknown-seen`);
//! - beside DROP INDEX CONCURRENTLY and REINDEX CONCURRENTLY the log got changes of dropped files.
//!   After a kill the directory did not open any more (W4; `tended-while-dropped` is planted in a
//!   story, which meets it more often);
//! - CREATE UNIQUE INDEX CONCURRENTLY and REINDEX CONCURRENTLY found duplicates where a row had
//!   moved, or had been deleted and inserted again (`live-page-by-page`, `conflict-with-itself`).
//!   Real ones are refused still (`validation-unchecked`);
//! - an index of values out of line kept entries until VACUUM: while one session read the keys of
//!   removed versions, others gave up the values (`key-pieces-go`).
//!
//! `NIWAKI_SIM_SCHEDULES` sets how many schedules are tried.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use niwaki::{Database, Options, Session};
use niwaki_env::Env;
use niwaki_env::bugs::plant;
use niwaki_env::rare;
use niwaki_env::rng::{Rng, SeededRng};
use niwaki_env::sync::atomic::{AtomicBool, Ordering};
use niwaki_env::sync::thread;
use niwaki_env::vfs::{CrashOptions, FaultyVfs, MemoryVfs};
use niwaki_testkit::schedules::{schedules, seed, simulate};
use niwaki_testkit::sql::{integer, query};

/// Number of rows, which fill some pages.
const ROWS: u64 = 8;
/// Least number of transactions of each writer.
const TURNS: u64 = 5;

fn open(env: Env) -> Database {
    let options = Options::new().small_files(true).set("shared_buffers", "512kB");
    Database::open_with(env, options).expect("the database opens")
}

/// Makes a large value: keys of it are read from copies.
fn large(rng: &SeededRng) -> String {
    let letter = char::from(b'a' + u8::try_from(rng.below(3)).expect("small"));
    format!("repeat('{letter}', {})", [5, 2200, 2300][rng.below(3) as usize])
}

fn row(rng: &SeededRng, id: u64) -> String {
    format!("({id}, {}, {}, {})", rng.below(4), rng.below(4), large(rng))
}

fn prepare(database: &Database, rng: &SeededRng) {
    let mut session = database.session();
    let rows: Vec<String> = (0..ROWS).map(|id| row(rng, id)).collect();
    let sql = format!(
        "create table t (id int primary key, a int, b int, filler text, \
         pad text default repeat('p', 300)) with (fillfactor = 20); \
         create index t_sum on t ((a + b)); \
         create index t_even on t (b) where a % 2 = 0; \
         create index t_filler on t (filler); \
         insert into t (id, a, b, filler) values {}",
        rows.join(", ")
    );
    query(&mut session, &sql).expect("the table is made");
}

/// Returns the statements of a transaction. Each may wait, and none fails. Ids stay the same, and
/// unique.
fn transaction(rng: &SeededRng) -> Vec<String> {
    let id = rng.below(ROWS);
    let keys = format!("update t set a = {}, b = {} where id = {id}", rng.below(4), rng.below(4));
    let filler = format!("update t set filler = {} where id = {id}", large(rng));
    let statements = match rng.below(8) {
        0..=3 => return vec![keys],
        4 => return vec![filler],
        // The rows move.
        5 => vec![
            format!("update t set pad = repeat('q', {}) where id = {id}", 300 + 700 * rng.below(3)),
            keys,
        ],
        _ => {
            let insert = format!("insert into t (id, a, b, filler) values {}", row(rng, id));
            vec![format!("delete from t where id = {id}"), insert]
        }
    };
    let end = if rng.chance(1, 4) { "rollback" } else { "commit" };
    let statements = statements.into_iter().chain([end.to_owned()]);
    ["begin".to_owned()].into_iter().chain(statements).collect()
}

/// Writes until the other sessions have finished their definitions of indexes; `others` says that
/// they have not.
fn write(mut session: Session, rng: &SeededRng, others: &AtomicBool) {
    // Ends with the definitions, or before.
    for turn in 0..20 * TURNS {
        if turn >= TURNS && !others.load(Ordering::SeqCst) {
            return;
        }
        for statement in transaction(rng) {
            match query(&mut session, &statement) {
                Ok(_) => {}
                // A session that waited for the row finds it gone, and another row with its id.
                Err(error) if matches!(error.sqlstate, "40P01" | "23505") => {
                    let deadlock = error.sqlstate == "40P01";
                    assert!(deadlock || !statement.starts_with("update"), "{statement}: {error}");
                    query(&mut session, "rollback").expect("rollback always works");
                    break;
                }
                Err(error) => panic!("{statement}: {} {error}", error.sqlstate),
            }
        }
    }
}

/// Creates indexes and drops them.
fn define(session: &mut Session, rng: &SeededRng) {
    for turn in 0..2 {
        let statements = match rng.below(4) {
            0 | 1 => vec![
                format!("create unique index concurrently t_id_{turn} on t (id)"),
                format!("drop index concurrently t_id_{turn}"),
            ],
            2 => vec!["reindex index concurrently t_pkey".to_owned()],
            _ => vec!["reindex index concurrently t_sum".to_owned()],
        };
        for statement in statements {
            if let Err(error) = query(session, &statement) {
                assert_eq!(error.sqlstate, "40P01", "{statement}: {error}");
                // Later statements leave out an index that is left behind.
                break;
            }
        }
    }
}

/// Runs all sessions at the same time.
fn work(database: &Database, seed: u64, defines: bool) {
    let rng = |number: u64| SeededRng::new(seed ^ number << 32);
    let others = Arc::new(AtomicBool::new(defines));
    let mut threads = Vec::new();
    for number in 1..4 {
        let (session, rng, others) = (database.session(), rng(number), Arc::clone(&others));
        threads.push(thread::spawn(move || write(session, &rng, &others)));
    }
    let gardened = database.clone();
    threads.push(thread::spawn(move || {
        (0..3).for_each(|_| gardened.clean_up().expect("a round of the gardener"));
    }));
    if defines {
        define(&mut database.session(), &rng(9));
        others.store(false, Ordering::SeqCst);
    }
    threads.into_iter().for_each(|thread| thread.join().expect("a thread ends"));
}

fn number(session: &mut Session, sql: &str) -> i64 {
    let found = query(session, sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    integer(&found.rows[0][0]).expect("a number")
}

/// Requires that each index gives the rows of the heap, and that every invariant holds.
fn verify(database: &Database) {
    let mut session = database.session();
    let conditions = [
        "a + b = 1",
        "a + b >= 0",
        "a % 2 = 0 and b = 1",
        "a % 2 = 0 and b >= 0",
        "filler >= 'b'",
        "id >= 0",
    ];
    for condition in conditions {
        let sql = format!("select count(*) from t where {condition}");
        let mut by = |setting: &str| {
            query(&mut session, setting).expect("set");
            number(&mut session, &sql)
        };
        let expected = by("set enable_seqscan = on; set enable_indexscan = off; \
             set enable_indexonlyscan = off; set enable_bitmapscan = off");
        let found = by("set enable_seqscan = off; set enable_indexscan = on; \
             set enable_indexonlyscan = on");
        assert_eq!(found, expected, "{condition}");
    }
    let report = database.check().expect("the check runs");
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
}

fn changed() {
    let seed = seed();
    let database = open(Env::simulated(Arc::new(MemoryVfs::new()), seed));
    prepare(&database, &SeededRng::new(seed));
    work(&database, seed, false);
    (0..3).for_each(|_| database.clean_up().expect("a round of the gardener"));
    verify(&database);
}

fn come_and_go() {
    let seed = seed();
    let database = open(Env::simulated(Arc::new(MemoryVfs::new()), seed));
    prepare(&database, &SeededRng::new(seed));
    work(&database, seed, true);
    verify(&database);
}

fn come_and_go_and_crash() {
    let seed = seed();
    let rng = SeededRng::new(seed);
    let disk = FaultyVfs::new();
    let database = open(Env::simulated(Arc::new(disk.clone()), seed));
    prepare(&database, &rng);
    disk.record();
    work(&database, seed, true);
    drop(database);
    let history = disk.history().expect("recording was on");
    let mut replay = history.replay();
    let moment = rng.below(history.len() as u64 + 1);
    while (replay.done() as u64) < moment && replay.step().is_some() {}
    let options = CrashOptions { images_max: 2, seed: rng.next_u64(), ..CrashOptions::default() };
    for image in replay.images(&options) {
        let verified = catch_unwind(AssertUnwindSafe(|| {
            verify(&open(Env::simulated(Arc::new(image.vfs.fork()), seed)));
        }));
        if let Err(payload) = verified {
            eprintln!("seed {seed}, moment {moment}, survivors: {}", image.survivors);
            std::panic::resume_unwind(payload);
        }
    }
}

/// Builds a unique index while rows with few different keys come and go. The build is done, and
/// then no two rows have one key, or it is refused.
fn duplicates() {
    let seed = seed();
    let database = open(Env::simulated(Arc::new(MemoryVfs::new()), seed));
    let mut session = database.session();
    let sql = "create table d (id int primary key, v int, pad text default repeat('p', 300)) \
               with (fillfactor = 20); insert into d select i, i from generate_series(0, 5) i";
    query(&mut session, sql).expect("the table is made");
    let writers = (1..4u64).map(|writer| {
        let (mut session, rng) = (database.session(), SeededRng::new(seed ^ writer << 32));
        thread::spawn(move || {
            for turn in 0..2 * TURNS {
                let (id, v) = (100 * writer + turn, rng.below(12));
                let statement = match rng.below(3) {
                    0 => format!("delete from d where v = {v}"),
                    1 => format!("update d set v = {v} where id = {}", rng.below(6)),
                    _ => format!("insert into d (id, v) values ({id}, {v})"),
                };
                if let Err(error) = query(&mut session, &statement) {
                    let expected = matches!(error.sqlstate, "23505" | "40P01");
                    assert!(expected, "{statement}: {error}");
                }
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    let built = query(&mut session, "create unique index concurrently d_v on d (v)");
    writers.into_iter().for_each(|writer| writer.join().expect("a writer ends"));
    query(&mut session, "set enable_indexscan = off; set enable_bitmapscan = off").expect("set");
    let twice = "select count(*) from (select v from d group by v having count(*) > 1) s";
    let twice = number(&mut session, twice);
    match built {
        Ok(_) => assert_eq!(twice, 0, "two rows with one key in a unique index"),
        Err(error) => assert!(matches!(error.sqlstate, "23505" | "40P01"), "{error}"),
    }
    let report = database.check().expect("the check runs");
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
}

/// Makes a key that is too long for a row where limits are small, and does not compress.
fn key_out_of_line(rng: &SeededRng) -> String {
    (0..200).map(|_| char::from(b'a' + rng.below(26) as u8)).collect()
}

/// Changes out-of-line keys, with rollbacks, in several sessions. Each session cleans up removed
/// versions and reads their keys. Meanwhile other sessions free such values. Every stale entry is
/// removed.
fn keys_out_of_line() {
    const ROWS: u64 = 4;
    let seed = seed();
    let database = open(Env::simulated(Arc::new(MemoryVfs::new()), seed));
    let mut session = database.session();
    let sql = "create table k (id int primary key, k text) with (fillfactor = 20); \
               create index k_k on k (k)";
    query(&mut session, sql).expect("the table is made");
    let rng = SeededRng::new(seed);
    for id in 0..ROWS {
        let sql = format!("insert into k values ({id}, '{}')", key_out_of_line(&rng));
        query(&mut session, &sql).expect("a row");
    }
    let writers = (1..4u64).map(|writer| {
        let (mut session, rng) = (database.session(), SeededRng::new(seed ^ writer << 32));
        thread::spawn(move || {
            for _ in 0..2 * TURNS {
                let end = if rng.chance(1, 4) { "rollback" } else { "commit" };
                let (key, id) = (key_out_of_line(&rng), rng.below(ROWS));
                let update = format!("update k set k = '{key}' where id = {id}");
                for sql in ["begin", &update, end] {
                    query(&mut session, sql).expect("one row each");
                }
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    (0..3).for_each(|_| database.clean_up().expect("a round of the gardener"));
    writers.into_iter().for_each(|writer| writer.join().expect("a writer ends"));
    (0..8).for_each(|_| database.clean_up().expect("a round of the gardener"));
    // Rare paths lose some of the entries to clean up.
    if rare::is_started() {
        query(&mut session, "vacuum (index_cleanup on) k").expect("a vacuum");
    }
    let entries = "select entries::int8 from niwaki_stale_entries('k') where indexrelname = 'k_k'";
    assert_eq!(number(&mut session, entries), ROWS as i64, "entries that nobody needs");
    let left = "select (dead_line_pointers + mixed_chains)::int8 from niwaki_chain_stats('k')";
    assert_eq!(number(&mut session, left), 0, "roots that wait for vacuum");
    let report = database.check().expect("the check runs");
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
}

fn is_found(bug: &'static str, body: fn()) {
    plant(Some(bug));
    let found = catch_unwind(AssertUnwindSafe(|| simulate(1_500, body)));
    plant(None);
    assert!(found.is_err(), "{bug} was not found");
}

/// Planting is for the whole process, so it comes last, in one test.
#[test]
fn indexes_give_what_the_heap_has_whoever_writes() {
    simulate(schedules(60), changed);
    simulate(schedules(60), come_and_go);
    simulate(schedules(20), come_and_go_and_crash);
    simulate(schedules(60), duplicates);
    simulate(schedules(60), keys_out_of_line);
    is_found("key-pieces-go", keys_out_of_line);
    is_found("unknown-seen", changed);
    is_found("validation-unchecked", duplicates);
    is_found("live-page-by-page", come_and_go);
    is_found("conflict-with-itself", come_and_go);
}
