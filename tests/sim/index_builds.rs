//! Concurrent index builds beside writers, in schedules that a seed determines.
//!
//! The schedules must find the absence of the wait between two steps of a build.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use niwaki::{Database, Options, Session};
use niwaki_env::Env;
use niwaki_env::bugs::plant;
use niwaki_env::rng::{Rng, SeededRng};
use niwaki_env::sync::thread;
use niwaki_env::vfs::MemoryVfs;
use niwaki_testkit::schedules::{schedules, seed, simulate};
use niwaki_testkit::sql::{integer, query};

/// Rows before the build.
const ROWS: u64 = 5;

fn write(session: &mut Session, rng: &SeededRng, writer: u64) {
    for turn in 0..3 {
        let id = rng.next_u64() % ROWS;
        let new = 100 * (writer + 1) + 10 * turn;
        let statements = [
            format!("insert into t select i, i % 3 from generate_series({new}, {new} + 2) i"),
            format!("update t set v = v + 1 where id = {id}"),
            format!("delete from t where id = {new}"),
        ];
        let commits = !rng.next_u64().is_multiple_of(4);
        query(session, "begin").expect("begin always works");
        for statement in statements {
            if let Err(error) = query(session, &statement) {
                assert_eq!(error.sqlstate, "40P01", "{statement}: {error}");
                break;
            }
        }
        query(session, if commits { "commit" } else { "rollback" }).expect("an end always works");
    }
}

fn counted(session: &mut Session, sql: &str) -> i64 {
    let found = query(session, sql).expect("a count");
    integer(&found.rows[0][0]).expect("a number")
}

/// Runs two writers and one build; afterwards every index agrees with its table, and is used.
fn build_beside_writers() {
    let seed = seed();
    let env = Env::simulated(Arc::new(MemoryVfs::new()), seed);
    let options = Options::new().small_files(true).set("shared_buffers", "256kB");
    let database = Database::open_with(env, options).expect("the database opens");
    let mut session = database.session();
    let sql = format!(
        "create table t (id int primary key, v int); \
         insert into t select i, i % 3 from generate_series(0, {ROWS} - 1) i"
    );
    query(&mut session, &sql).expect("the table is made");
    let writers: Vec<_> = (0..2)
        .map(|writer| {
            let mut session = database.session();
            let rng = SeededRng::new(seed ^ (writer + 1));
            thread::spawn(move || write(&mut session, &rng, writer))
        })
        .collect();
    let sql = if seed.is_multiple_of(2) {
        "create index concurrently t_v on t (v)"
    } else {
        "create index concurrently t_v on t ((v % 3)) where v >= 0"
    };
    query(&mut session, sql).expect("the index is built");
    for writer in writers {
        writer.join().expect("a writer ends");
    }
    let report = database.check().expect("the check runs");
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
    for v in 0..3 {
        let count = format!("select count(*) from t where v % 3 = {v} and v >= 0");
        query(&mut session, "set enable_seqscan = on; set enable_indexscan = off").expect("set");
        let expected = counted(&mut session, &count);
        query(&mut session, "set enable_seqscan = off; set enable_indexscan = on").expect("set");
        assert_eq!(counted(&mut session, &count), expected);
    }
}

#[test]
fn a_concurrent_build_misses_nothing_and_its_wait_is_needed() {
    simulate(schedules(60), build_beside_writers);
    // Planting is for the whole process, so it comes last, in this one test.
    plant(Some("index_validated_without_waiting"));
    let found = catch_unwind(AssertUnwindSafe(|| simulate(400, build_beside_writers)));
    plant(None);
    assert!(found.is_err(), "validation without the wait before it was not found");
}
