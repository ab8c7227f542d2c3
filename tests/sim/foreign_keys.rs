//! Referencing and referenced rows changed by several sessions at once, in schedules that a seed
//! determines.
//!
//! No row is ever left without the row that it refers to. Another test takes away the row lock that
//! ensures this, and must find such a row.

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

/// Number of referenced rows, which come and go.
const KEYS: u64 = 3;

/// Returns the statement of a session's transaction. It inserts a referencing row, or changes
/// referenced rows, itself or by a function.
fn statement(rng: &SeededRng, session: u64, turn: u64) -> String {
    let key = rng.next_u64() % KEYS;
    let id = 100 * (session + 1) + turn;
    match rng.next_u64() % 10 {
        0..3 => format!("insert into c values ({id}, {key}, null, null)"),
        3 => format!("insert into c values ({id}, null, {key}, null)"),
        4 => format!("insert into c values ({id}, null, null, {key})"),
        5 => format!("update p set id = id + {KEYS} where id = {key}"),
        6 => format!("update c set k = {key} where k is not null"),
        7 => format!("select add({id}, {key})"),
        8 => format!("select remove({key})"),
        _ => format!("delete from p where id = {key}"),
    }
}

fn work(session: &mut Session, rng: &SeededRng, number: u64) {
    for turn in 0..3 {
        let level = match rng.next_u64() % 3 {
            0 => "repeatable read",
            _ => "read committed",
        };
        query(session, &format!("begin isolation level {level}")).expect("begin always works");
        let mut alive = true;
        for part in 0..1 + rng.next_u64() % 2 {
            let sql = statement(rng, number, 10 * turn + part);
            if let Err(error) = query(session, &sql) {
                let state = error.sqlstate;
                assert!(matches!(state, "23503" | "23505" | "40001" | "40P01"), "{sql}: {error}");
                alive = false;
                break;
            }
        }
        let end = if alive && !rng.next_u64().is_multiple_of(5) { "commit" } else { "rollback" };
        if let Err(error) = query(session, end) {
            // A deferred constraint is checked, and refused, at the commit.
            assert!(matches!(error.sqlstate, "23503" | "40001" | "40P01"), "{end}: {error}");
        }
    }
}

fn count(session: &mut Session, sql: &str) -> i64 {
    let found = query(session, sql).expect("a count");
    integer(&found.rows[0][0]).expect("a number")
}

/// Runs three sessions; afterwards no row refers to a missing row.
fn refer_and_remove() {
    let seed = seed();
    let env = Env::simulated(Arc::new(MemoryVfs::new()), seed);
    let options = Options::new().small_files(true).set("shared_buffers", "256kB");
    let database = Database::open_with(env, options).expect("the database opens");
    let mut session = database.session();
    let sql = format!(
        "create table p (id int primary key, v int); \
         create table c (id int primary key, k int references p, \
             q int references p on delete cascade on update cascade, \
             r int references p deferrable initially deferred); \
         insert into p select i, i from generate_series(0, {KEYS} - 1) i; \
         create function add(id int, key int) returns bigint language sql as \
             'insert into c values (id, key, key, null); select count(*) from p where p.id = key'; \
         create function remove(key int) returns bigint language sql as \
             'delete from p where id = key; select count(*) from c where q = key'"
    );
    query(&mut session, &sql).expect("the tables are made");
    let threads: Vec<_> = (0..3)
        .map(|number| {
            let mut session = database.session();
            let rng = SeededRng::new(seed ^ (number + 1));
            thread::spawn(move || work(&mut session, &rng, number))
        })
        .collect();
    for thread in threads {
        thread.join().expect("a session ends");
    }
    for column in ["k", "q", "r"] {
        let orphans = format!(
            "select count(*) from c left join p on p.id = c.{column} \
             where c.{column} is not null and p.id is null"
        );
        assert_eq!(count(&mut session, &orphans), 0, "rows refer by {column} to nothing");
    }
    assert_eq!(database.check_foreign_keys().expect("the check runs"), Vec::new());
    let report = database.check().expect("the check runs");
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
}

#[test]
fn no_row_refers_to_nothing_and_the_row_lock_is_needed() {
    simulate(schedules(300), refer_and_remove);
    // Planting is for the whole process, so it comes last, in this one test.
    plant(Some("reference_without_lock"));
    let found = catch_unwind(AssertUnwindSafe(|| simulate(400, refer_and_remove)));
    plant(None);
    assert!(found.is_err(), "a referenced row that is not locked was not found");
}
