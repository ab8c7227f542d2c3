//! Databases that come and go while sessions connect to them and work.
//!
//! Meanwhile the database's own maintenance goes over all of them. Run inside a schedule
//! (`schedules`).

use std::sync::Arc;

use niwaki::{Database, Options, Session, SqlError};
use niwaki_env::Env;
use niwaki_env::rng::SeededRng;
use niwaki_env::sync::thread;
use niwaki_env::vfs::MemoryVfs;

use crate::schedules::seed;
use crate::sql::{integer, query};

const NAMES: [&str; 2] = ["north", "south"];
const ROUNDS: usize = 5;
const THREADS: u64 = 3;

fn any_name(rng: &SeededRng) -> &'static str {
    NAMES[rng.below(NAMES.len() as u64) as usize]
}

fn number(session: &mut Session, sql: &str) -> Result<i64, SqlError> {
    Ok(integer(&query(session, sql)?.rows[0][0]).expect("a number"))
}

/// Requires success or an allowed error: another session was first, the database has gone, it is in
/// use, or the session was told to end.
fn expect(result: Result<(), SqlError>, allowed: &[&str]) {
    if let Err(error) = result {
        assert!(allowed.contains(&error.sqlstate), "{}: {error}", error.sqlstate);
    }
}

/// Works in a database: its rows are there as long as the session is.
fn work(database: &Database, name: &str) -> Result<(), SqlError> {
    let mut session = database.session_as("postgres", name, &[])?;
    let id = session.id();
    query(&mut session, "create table if not exists t (id int, n int)")?;
    query(&mut session, "create index if not exists t_n on t (n)")?;
    query(&mut session, "begin")?;
    for n in 0..3 {
        query(&mut session, &format!("insert into t values ({id}, {n})"))?;
    }
    let own = format!("select count(*) from t where id = {id} and n >= 0");
    assert_eq!(number(&mut session, &own)?, 3);
    query(&mut session, "commit")?;
    assert_eq!(number(&mut session, &own)?, 3, "in {name}, after the commit");
    query(&mut session, &format!("delete from t where id = {id}"))?;
    assert_eq!(number(&mut session, &own)?, 0);
    Ok(())
}

fn one(database: &Database, session: &mut Session, rng: &SeededRng) {
    let name = any_name(rng);
    let mut run = |sql: String| query(session, &sql).map(drop);
    match rng.below(6) {
        0 => expect(run(format!("create database {name}")), &["42P04"]),
        1 => {
            let template = any_name(rng);
            let result = run(format!("create database {name} template {template}"));
            expect(result, &["42P04", "3D000", "55006"]);
        }
        2 => {
            let how = if rng.chance(1, 2) { " with (force)" } else { "" };
            expect(run(format!("drop database {name}{how}")), &["3D000", "55006"]);
        }
        3 => {
            let to = any_name(rng);
            let result = run(format!("alter database {name} rename to {to}"));
            expect(result, &["3D000", "42P04", "55006"]);
        }
        // Two sessions may be the first to make the table.
        4 => expect(work(database, name), &["3D000", "57P01", "42P07"]),
        _ => {
            database.clean_up().expect("a round");
            for report in database.maintain().expect("a round") {
                // Maintenance gives way to a session that wants to drop the database.
                expect(report.error.map_or(Ok(()), Err), &["57014"]);
            }
        }
    }
}

fn small(seed: u64) -> (Env, Options) {
    // Gives the maintenance of tables something to do in each.
    let options = Options::new()
        .small_files(true)
        .set("shared_buffers", "256kB")
        .set("autovacuum_vacuum_threshold", "0")
        .set("autovacuum_analyze_threshold", "0");
    (Env::simulated(Arc::new(MemoryVfs::new()), seed), options)
}

/// Runs a session that copies a database, one that drops it, and one that works in it.
///
/// # Panics
/// When a session meets an unexpected error.
pub fn copied_and_dropped() {
    let (env, options) = small(seed());
    let database = Database::open_with(env, options).expect("the database opens");
    query(&mut database.session(), "create database north").expect("it is made");
    work(&database, "north").expect("it is there");
    let statements = ["create database south template north", "drop database north"];
    let mut threads: Vec<_> = statements
        .into_iter()
        .map(|sql| {
            let mut session = database.session();
            thread::spawn(move || expect(query(&mut session, sql).map(drop), &["3D000", "55006"]))
        })
        .collect();
    let own = database.clone();
    threads.push(thread::spawn(move || {
        for _ in 0..3 {
            expect(work(&own, "north"), &["3D000"]);
        }
    }));
    for thread in threads {
        thread.join().expect("a session ends");
    }
    let report = database.check().expect("the check runs");
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
}

/// Runs sessions that create, drop and rename databases, work in them, and do the database's own
/// work.
///
/// # Panics
/// When a session meets an unexpected error, or the databases that are left are not whole.
pub fn come_and_go() {
    let seed = seed();
    let (env, options) = small(seed);
    let database = Database::open_with(env.clone(), options.clone()).expect("the database opens");
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let (database, rng) = (database.clone(), SeededRng::new(seed ^ (thread + 1)));
            thread::spawn(move || {
                let mut session = database.session();
                for _ in 0..ROUNDS {
                    one(&database, &mut session, &rng);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("a session ends");
    }
    let report = database.check().expect("the check runs");
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
    let left = list(&database);
    for name in left.split(' ').filter(|name| *name != "postgres") {
        expect(work(&database, name), &[]);
    }
    database.close().expect("it closes");
    let database = Database::open_with(env, options).expect("the database opens again");
    assert_eq!(list(&database), left);
    let report = database.check().expect("the check runs");
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
}

fn list(database: &Database) -> String {
    let sql = "select string_agg(datname, ' ' order by datname) from pg_database";
    let rows = query(&mut database.session(), sql).expect("a list").rows;
    match &rows[0][0] {
        niwaki::Datum::Text(text) => text.to_string(),
        other => panic!("{other:?}"),
    }
}
