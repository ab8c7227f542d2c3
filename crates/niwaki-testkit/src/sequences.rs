//! Sessions that draw numbers from a column's sequence while another session drops, restarts or
//! alters it.
//!
//! A transaction that has drawn keeps the sequence as it is until the transaction ends. Run inside
//! a schedule (`schedules`).

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use niwaki::{Database, Options, Session, SqlError};
use niwaki_env::Env;
use niwaki_env::rng::SeededRng;
use niwaki_env::sync::thread;
use niwaki_env::vfs::MemoryVfs;

use crate::schedules::seed;
use crate::sql::{integer, query};

const DRAWERS: u64 = 2;
const ROUNDS: usize = 3;
/// Distance that a restart goes ahead: a run draws fewer numbers.
const AHEAD: i64 = 1_000;

const MAKE: &str = "create table t (id serial primary key, n int)";

/// Definitions that remove the sequence or give it another file, each with the SQL that restores
/// it.
const DEFINITIONS: [(&str, &str); 7] = [
    ("drop table t", MAKE),
    ("drop sequence t_id_seq cascade", "drop table t; create table t (id serial primary key)"),
    ("alter table t drop column id", "drop table t; create table t (id serial primary key)"),
    ("truncate t restart identity", ""),
    ("alter sequence t_id_seq restart 1000", ""),
    ("alter sequence t_id_seq restart 2000", ""),
    ("alter sequence t_id_seq maxvalue 10000", ""),
];

/// Decides whether an error says that the sequence is gone, which a statement may find while
/// planned or while waiting for it.
fn is_gone(error: &SqlError) -> bool {
    error.sqlstate == "42P01"
        || (error.sqlstate == "XX000" && error.message.starts_with("could not open relation"))
}

/// Draws twice in a transaction. The sequence stays the same meanwhile.
fn draw(session: &mut Session, drawn: &AtomicI64, rng: &SeededRng) {
    query(session, "begin").expect("a transaction");
    let number = |session: &mut Session| {
        let rows = query(session, "select nextval('t_id_seq')")?.rows;
        Ok(integer(&rows[0][0]).expect("a number"))
    };
    let first: Result<i64, SqlError> = number(session);
    match &first {
        Ok(first) => {
            drawn.fetch_add(1, Ordering::SeqCst);
            let second = number(session).expect("the sequence stays");
            let ahead = second - first;
            assert!((1..AHEAD / 2).contains(&ahead), "{second} was drawn after {first}");
            drawn.fetch_sub(1, Ordering::SeqCst);
        }
        Err(error) => assert!(is_gone(error), "{}: {error}", error.sqlstate),
    }
    let end = if first.is_ok() && rng.chance(2, 3) { "commit" } else { "rollback" };
    query(session, end).expect("the end");
}

fn define(session: &mut Session, drawn: &AtomicI64, rng: &SeededRng) {
    let (sql, again) = DEFINITIONS[rng.below(DEFINITIONS.len() as u64) as usize];
    query(session, "begin").expect("a transaction");
    query(session, sql).expect("nobody holds the table");
    let open = drawn.load(Ordering::SeqCst);
    assert_eq!(open, 0, "{sql}, beside transactions that have drawn");
    query(session, "commit").expect("a commit");
    query(session, again).expect("what went is back");
}

/// Runs sessions that draw and one that defines.
///
/// # Panics
/// When a sequence changes under a transaction that has drawn from it, or the database is not
/// whole.
pub fn run() {
    let seed = seed();
    let env = Env::simulated(Arc::new(MemoryVfs::new()), seed);
    let database = Database::open_with(env.clone(), Options::new()).expect("the database opens");
    let mut definer = database.session();
    query(&mut definer, MAKE).expect("the table is made");
    let drawn = Arc::new(AtomicI64::new(0));
    let drawers: Vec<_> = (0..DRAWERS)
        .map(|number| {
            let (mut session, drawn) = (database.session(), Arc::clone(&drawn));
            let rng = SeededRng::new(seed ^ (number + 1));
            thread::spawn(move || (0..ROUNDS).for_each(|_| draw(&mut session, &drawn, &rng)))
        })
        .collect();
    let rng = SeededRng::new(seed);
    for _ in 0..ROUNDS {
        define(&mut definer, &drawn, &rng);
    }
    drawers.into_iter().for_each(|drawer| drawer.join().expect("a session ends"));
    drop(definer);
    database.close().expect("it closes");
    let database = Database::open_with(env, Options::new()).expect("the database opens again");
    let report = database.check().expect("the check runs");
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
}
