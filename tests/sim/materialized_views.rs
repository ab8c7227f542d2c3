//! Materialized views that several sessions refresh while others read and write, in schedules that
//! a seed determines.
//!
//! A reader always sees the rows of one moment, by the heap and by an index.

use std::sync::Arc;

use niwaki::{Database, Options, Session};
use niwaki_env::Env;
use niwaki_env::rng::SeededRng;
use niwaki_env::sync::thread;
use niwaki_env::vfs::MemoryVfs;
use niwaki_testkit::schedules::{schedules, seed, simulate};
use niwaki_testkit::sql::{integer, query};

const ACCOUNTS: u64 = 4;
const TOTAL: i64 = 100 * ACCOUNTS as i64;

fn number(session: &mut Session, sql: &str) -> Result<i64, niwaki::SqlError> {
    Ok(integer(&query(session, sql)?.rows[0][0]).expect("a number"))
}

/// Moves an amount from one account to another. Accounts may come and go.
fn transfer(session: &mut Session, rng: &SeededRng) -> Result<(), niwaki::SqlError> {
    let (from, to) = (rng.below(ACCOUNTS), rng.below(ACCOUNTS));
    let amount = 1 + rng.below(9);
    query(session, &format!("update account set v = v - {amount} where k = {from}"))?;
    query(session, &format!("update account set v = v + {amount} where k = {to}"))?;
    Ok(())
}

fn refresh(session: &mut Session, rng: &SeededRng) -> Result<(), niwaki::SqlError> {
    let how = if rng.chance(2, 3) { "concurrently " } else { "" };
    query(session, &format!("refresh materialized view {how}m"))?;
    assert_eq!(number(session, "select sum(v)::int8 from m")?, TOTAL, "after a refresh");
    Ok(())
}

/// Reads twice; at REPEATABLE READ both answers are the same.
fn read(session: &mut Session, rng: &SeededRng, repeatable: bool) -> Result<(), niwaki::SqlError> {
    let digest = "select sum(v)::int8 * 10000 + sum(k * v)::int8 from m";
    let first = number(session, digest)?;
    if rng.chance(1, 2) {
        query(session, "set local enable_seqscan = off")?;
    }
    assert_eq!(number(session, "select sum(v)::int8 from m where k >= 0")?, TOTAL, "of one moment");
    let second = number(session, digest)?;
    assert!(!repeatable || first == second, "{first} and then {second}");
    Ok(())
}

fn work(session: &mut Session, rng: &SeededRng) {
    for _ in 0..4 {
        let repeatable = rng.chance(1, 2);
        let level = if repeatable { "repeatable read" } else { "read committed" };
        query(session, &format!("begin isolation level {level}")).expect("begin always works");
        let done = match rng.below(3) {
            0 => transfer(session, rng),
            1 => refresh(session, rng),
            _ => read(session, rng, repeatable),
        };
        if let Err(error) = &done {
            assert!(matches!(error.sqlstate, "40001" | "40P01"), "{error}");
        }
        let end = if done.is_ok() && !rng.chance(1, 5) { "commit" } else { "rollback" };
        query(session, end).expect("a transaction ends");
    }
}

fn refresh_and_read() {
    let seed = seed();
    let env = Env::simulated(Arc::new(MemoryVfs::new()), seed);
    let options = Options::new().small_files(true).set("shared_buffers", "256kB");
    let database = Database::open_with(env, options).expect("the database opens");
    let mut session = database.session();
    let sql = format!(
        "create table account (k int primary key, v int); \
         insert into account select i, 100 from generate_series(0, {ACCOUNTS} - 1) i; \
         create materialized view m as select k, v from account; \
         create unique index on m (k); create index on m (v)"
    );
    query(&mut session, &sql).expect("the view is made");
    let threads: Vec<_> = (0..3)
        .map(|number| {
            let mut session = database.session();
            let rng = SeededRng::new(seed ^ (number + 1));
            thread::spawn(move || work(&mut session, &rng))
        })
        .collect();
    for thread in threads {
        thread.join().expect("a session ends");
    }
    query(&mut session, "refresh materialized view concurrently m").expect("a refresh");
    let differ = "select count(*) from (select * from m full join account a using (k) where m.v is distinct from a.v) d";
    assert_eq!(number(&mut session, differ).expect("a count"), 0);
    let report = database.check().expect("the check runs");
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
}

#[test]
fn readers_see_the_rows_of_one_moment() {
    simulate(schedules(200), refresh_and_read);
}
