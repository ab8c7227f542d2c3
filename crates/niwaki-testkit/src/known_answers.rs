//! Short scripts whose answers are known: definitions, savepoints, COPY, cancel requests and
//! sequences.
//!
//! Most scripts have nothing that happens at the same time. Run inside a schedule (`schedules`).

use std::sync::Arc;

use niwaki::{Database, Datum, Options, Session};
use niwaki_env::Env;
use niwaki_env::sync::thread;
use niwaki_env::vfs::MemoryVfs;

use crate::schedules::seed;
use crate::sql::{Collected, copy_in, integer, query};

type Result<T> = std::result::Result<T, String>;

/// Statements of two sessions, one after the other: the session, the text, and the answer, as rows
/// or an SQLSTATE.
type Script = [(usize, &'static str, &'static str)];

/// Counts the columns of a table, as every session sees them without a lock.
const COLUMNS: &str = "select count(*) from pg_attribute a join pg_class c on c.oid = a.attrelid \
     where c.relname = 't' and a.attnum > 0 and not a.attisdropped";

/// Session 0 defines.
const DEFINITIONS: &Script = &[
    (0, "create table t (a int, b int default 1); insert into t (a) values (1), (2)", ""),
    // No other session sees a definition before its commit, and no session after its rollback.
    (0, "begin; alter table t add column c int", ""),
    (1, COLUMNS, "2"),
    (0, "rollback", ""),
    (1, COLUMNS, "2"),
    (0, "select c from t", "42703"),
    (0, "begin; create table n (i int)", ""),
    (0, "rollback", ""),
    (0, "select * from n", "42P01"),
    // A definition after ROLLBACK TO takes the place of the one that was undone.
    (
        0,
        "begin; savepoint s; alter table t add column c int; select count(c) from t; \
         rollback to s; alter table t add column d int; select count(d) from t; rollback",
        "0 0",
    ),
    // Existing rows have the default of the time when the column was added.
    (0, "alter table t add column c int default 5", ""),
    (0, "alter table t alter column c set default 6", ""),
    (0, "insert into t (a) values (3); select c from t order by a", "5 5 6"),
    // A prepared statement takes a changed default.
    (1, "prepare p as insert into t (a) values (9)", ""),
    (1, "execute p", ""),
    (0, "alter table t alter column c set default 7", ""),
    (1, "execute p; select c from t where a = 9 order by c", "6 7"),
    // A view keeps the table that it needs.
    (0, "create view v as select a from t", ""),
    (0, "drop table t", "2BP01"),
    (0, "select count(*) from v", "5"),
    (0, "drop view v; drop table t", ""),
];

const ROWS: &str = "select id from t order by id";
const LOCK: &str = "select id from t where id = 1 for update nowait";

/// Session 0 has savepoints.
const SAVEPOINTS: &Script = &[
    (0, "create table t (id int primary key, n int); insert into t values (1, 0), (2, 0)", ""),
    (
        0,
        "begin; savepoint s; insert into t values (3, 0); rollback to s; \
         insert into t values (4, 0); commit",
        "",
    ),
    (0, ROWS, "1 2 4"),
    // The work of a released savepoint goes with the savepoint around it.
    (
        0,
        "begin; savepoint a; savepoint b; insert into t values (5, 0); release b; rollback to a; \
         commit",
        "",
    ),
    (0, ROWS, "1 2 4"),
    // Locks go with the work that is undone.
    (0, "begin; savepoint s; select id from t where id = 1 for share; rollback to s", "1"),
    (1, LOCK, "1"),
    (0, "rollback", ""),
    // Locks of a released savepoint belong to the transaction.
    (
        0,
        "begin; savepoint a; select id from t where id = 1 for share; release a; savepoint b; \
         rollback to b",
        "1",
    ),
    (1, LOCK, "55P03"),
    (0, "rollback", ""),
    (1, LOCK, "1"),
];

fn say(error: impl ToString) -> String {
    error.to_string()
}

fn value(datum: &Datum) -> String {
    match datum {
        Datum::Null => "null".to_owned(),
        Datum::Text(text) => text.to_string(),
        other => integer(other).map_or_else(|_| format!("{other:?}"), |number| number.to_string()),
    }
}

/// Returns all values, or the SQLSTATE of an error.
fn shown(answer: niwaki::Result<Collected>) -> String {
    match answer {
        Ok(collected) => {
            let values: Vec<String> = collected.rows.iter().flatten().map(value).collect();
            values.join(" ")
        }
        Err(error) => error.sqlstate.to_owned(),
    }
}

fn run(session: &mut Session, sql: &str) -> String {
    shown(query(session, sql))
}

fn expect(what: &str, found: &str, expected: &str) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(format!("{what}: {found:?} instead of {expected:?}"))
}

fn open(env: Env) -> Result<Database> {
    Database::open_with(env, Options::new().small_files(true)).map_err(say)
}

fn new(seed: u64) -> Result<Database> {
    open(Env::simulated(Arc::new(MemoryVfs::new()), seed))
}

fn plays(script: &Script) -> Result<()> {
    let database = new(1)?;
    let mut sessions = [database.session(), database.session()];
    for session in &mut sessions {
        // A session that waits longer does so for a lock that should not be there.
        expect("a setting", &run(session, "set lock_timeout = '1s'"), "")?;
    }
    for (who, sql, expected) in script {
        expect(sql, &run(&mut sessions[*who], sql), expected)?;
    }
    drop(sessions);
    let report = database.check().map_err(say)?;
    match report.violations.first() {
        None => Ok(()),
        Some(first) => Err(format!("{first:?}")),
    }
}

/// Requires that every session sees definitions from their commit on, and none without a commit.
///
/// # Errors
/// An answer that is wrong.
pub fn definitions() -> Result<()> {
    plays(DEFINITIONS)
}

/// Requires that ROLLBACK TO undoes rows and locks, and that RELEASE keeps both for the level
/// around it.
///
/// # Errors
/// An answer that is wrong.
pub fn savepoints() -> Result<()> {
    plays(SAVEPOINTS)
}

/// Requires that COPY takes all lines or none, the last one without its newline too.
///
/// # Errors
/// An answer that is wrong.
pub fn copies() -> Result<()> {
    const COPY: &str = "copy t from stdin";
    const COUNT: &str = "select count(*), min(a), max(a) from t";
    let database = new(1)?;
    let mut session = database.session();
    expect("a table", &run(&mut session, "create table t (a int)"), "")?;
    // More than are inserted at once.
    let mut lines: String = (1..=1500).map(|number| format!("{number}\n")).collect();
    lines.push_str("none\n");
    let copied = copy_in(&mut session, COPY, &[&lines]);
    expect("a line without a number", &shown(copied), "22P02")?;
    expect(COUNT, &run(&mut session, COUNT), "0 null null")?;
    let copied = copy_in(&mut session, COPY, &["7\n", "8"]);
    expect("a line without an end", &shown(copied), "")?;
    expect(COUNT, &run(&mut session, COUNT), "2 7 8")
}

/// Requires that a cancel request is for the statement that runs, and for no other.
///
/// # Errors
/// An answer that is wrong.
pub fn late_cancel() -> Result<()> {
    let database = new(1)?;
    let mut session = database.session();
    expect("a table", &run(&mut session, "create table t (a int)"), "")?;
    session.control().cancel();
    expect("behind a cancel", &run(&mut session, "select count(*) from t"), "0")
}

/// Cancels a session that waits for a row.
///
/// # Panics
/// When the session goes on waiting.
pub fn cancelled_wait() {
    let database = new(seed()).expect("the database opens");
    let mut holder = database.session();
    let make = "create table t (id int primary key, n int); insert into t values (1, 0)";
    assert_eq!(run(&mut holder, make), "");
    assert_eq!(run(&mut holder, "begin; update t set n = 1"), "");
    let mut waiter = database.session();
    let control = Arc::clone(waiter.control());
    // This limit ends the test, if nothing else ends the wait.
    assert_eq!(run(&mut waiter, "set lock_timeout = '1h'"), "");
    let waits = thread::spawn(move || run(&mut waiter, "update t set n = 2"));
    while control.info().waiting_for.is_none() {
        thread::yield_now();
    }
    control.cancel();
    assert_eq!(waits.join().expect("it ends"), "57014", "a wait that was cancelled");
    assert_eq!(run(&mut holder, "commit; select n from t"), "1");
}

/// Requires that no number comes twice, and that setval holds, whatever happens to the process.
///
/// # Errors
/// An answer that is wrong.
pub fn numbers_after_a_kill() -> Result<()> {
    let vfs = Arc::new(MemoryVfs::new());
    let database = open(Env { vfs: Arc::clone(&vfs) as _, ..Env::memory() })?;
    let mut session = database.session();
    for sql in [
        "create sequence drawn; create sequence moved; create table n (v int8)",
        "insert into n select nextval('drawn') from generate_series(1, 5)",
    ] {
        expect(sql, &run(&mut session, sql), "")?;
    }
    // No rollback undoes setval.
    expect("setval", &run(&mut session, "begin; select setval('moved', 1000); rollback"), "1000")?;
    expect("a commit", &run(&mut session, "insert into n values (0)"), "")?;
    let killed = open(Env { vfs: Arc::new(vfs.fork()), ..Env::memory() })?;
    let mut session = killed.session();
    expect("the numbers", &run(&mut session, "select max(v) from n"), "5")?;
    let sql = "select nextval('drawn') > 5";
    expect(sql, &run(&mut session, sql), &value(&Datum::Bool(true)))?;
    let sql = "select nextval('moved')";
    expect(sql, &run(&mut session, sql), "1001")
}
