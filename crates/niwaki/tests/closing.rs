//! Closing a database while sessions work.
//!
//! A host program closed its database while its threads worked. After the next start it found rows
//! whose transactions had never committed. A transaction had got its number after the last
//! checkpoint recorded the numbers. The next start gave that number to another transaction, which
//! committed (W2, S1). Now closing waits for every transaction or refuses. After it no transaction
//! begins, and nothing is written.

mod killed;

use std::sync::mpsc;
use std::time::Duration;

use niwaki::{Database, Options};
use niwaki_env::Env;
use niwaki_env::sync::thread;

fn open(env: &Env) -> Database {
    let options = Options::new().close_patience(Duration::ZERO);
    Database::open_with(env.clone(), options).expect("it opens")
}

fn count(db: &Database, sql: &str) -> i64 {
    db.session().query_one(sql, ()).expect("a row").get(0).expect("a number")
}

/// Checks for rows of uncommitted transactions. Unrelated commits take the next numbers, so a row
/// of a number that was given twice becomes visible.
fn assert_no_ghosts(env: &Env) {
    let db = open(env);
    for round in 0..2 {
        assert_eq!(count(&db, "select count(*) from t where note = 'uncommitted'"), 0, "{round}");
        let mut session = db.session();
        for number in 0..100 {
            session.execute("insert into other values ($1)", (number,)).expect("it is inserted");
        }
    }
    assert_eq!(db.check().expect("it can be read").violations, []);
}

fn with_tables(env: &Env) -> Database {
    let db = open(env);
    let mut session = db.session();
    session.execute("create table t (worker int, note text)", ()).expect("it is new");
    session.execute("create table other (a int)", ()).expect("it is new");
    drop(session);
    db
}

#[test]
fn an_open_transaction_is_waited_for_and_then_refused() {
    let env = Env::memory();
    let db = with_tables(&env);
    let (mut idle, mut held) = (db.session(), db.session());
    let mut open = held.transaction().expect("it begins");
    open.execute("insert into t values (1, 'uncommitted')", ()).expect("it is inserted");
    let refused = db.clone().close().expect_err("a transaction is open");
    assert_eq!(refused.sqlstate, "55006");
    assert_eq!(
        refused.message,
        "cannot close the database: 1 of its sessions have an open transaction"
    );
    // Meanwhile no session begins a transaction, and the open transaction fails.
    assert_eq!(db.session_as("postgres", "postgres", &[]).expect_err("closing").sqlstate, "57P03");
    let begun = idle.execute("insert into t values (2, 'uncommitted')", ());
    assert_eq!(begun.expect_err("closing").sqlstate, "57P01");
    let went_on = open.execute("insert into t values (3, 'uncommitted')", ());
    assert_eq!(went_on.expect_err("closing").sqlstate, "57P01");
    drop(open);
    // A session without a transaction does not delay the close.
    db.clone().close().expect("no transaction is open");
    db.clone().close().expect("it is closed already");
    let late = idle.execute("insert into t values (4, 'uncommitted')", ());
    assert_eq!(late.expect_err("closed").sqlstate, "57P01");
    assert!(db.checkpoint().is_err(), "nothing is written behind the last checkpoint");
    drop((idle, held, db));
    assert_no_ghosts(&env);
}

/// Handles that outlived the close once kept the directory locked. The next start of a server
/// failed while the thread of its last connection was still ending. Later calls through such
/// handles must not reach the files.
#[test]
fn a_closed_directory_opens_beside_its_old_handles() {
    let env = Env::memory();
    let db = with_tables(&env);
    let mut idle = db.session();
    idle.execute("create temp table own (a int)", ()).expect("it is new");
    idle.execute("insert into own values (1)", ()).expect("it is inserted");
    db.clone().close().expect("no transaction is open");
    let next = open(&env);
    next.session().execute("insert into other values (-1)", ()).expect("it is inserted");
    assert_eq!(idle.query("select * from other", ()).expect_err("closed").sqlstate, "57P01");
    drop((idle, db));
    assert_eq!(count(&next, "select count(*) from other"), 1);
    next.close().expect("no transaction is open");
    assert_no_ghosts(&env);
    assert_eq!(count(&open(&env), "select count(*) from other where a = -1"), 1);
}

/// A handle that is leaked with its transaction prevents a clean shutdown. The next start then
/// recovers, as after a crash.
#[test]
fn a_forgotten_transaction_leaves_a_directory_that_recovers() {
    let env = Env::memory();
    let db = with_tables(&env);
    let mut forgotten = db.session();
    forgotten.execute("begin", ()).expect("it begins");
    forgotten.execute("insert into t values (1, 'uncommitted')", ()).expect("it is inserted");
    forgotten.execute("create table in_vain (a int)", ()).expect("it is new");
    db.session().execute("insert into other values (-1)", ()).expect("it is inserted");
    assert_eq!(db.clone().close().expect_err("it is open").sqlstate, "55006");
    std::mem::forget((forgotten, db));
    // The files that a process leaves when it is killed now.
    let after = killed::copied(&env);
    assert_no_ghosts(&after);
    let db = open(&after);
    assert_eq!(count(&db, "select count(*) from other where a = -1"), 1);
    assert_eq!(count(&db, "select count(*) from pg_class where relname = 'in_vain'"), 0);
}

/// A program that kept a session of each closed database once ran out of descriptors.
#[test]
#[cfg(target_os = "linux")]
fn a_closed_database_has_no_file_open() {
    let above = std::env::temp_dir().canonicalize().unwrap();
    let folder = above.join(format!("niwaki-closing-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let open_files = || {
        let all = std::fs::read_dir("/proc/self/fd").unwrap();
        let named = all.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
        // Descriptors held in reserve are open on a file of the system.
        named.filter(|path| path.starts_with(&folder) || path.ends_with("null")).count()
    };
    let before = open_files();
    let db = Database::open_with(Env::os(&folder), Options::new().background(true)).unwrap();
    let mut kept = db.session();
    kept.execute("create table t (a int primary key)", ()).unwrap();
    kept.execute("set work_mem = '64kB'", ()).unwrap();
    let cursor =
        "declare c cursor with hold for select repeat('x', i) from generate_series(1, 999) i";
    kept.execute(cursor, ()).unwrap();
    let temporary = std::fs::read_dir(folder.join("tmp")).unwrap();
    assert_eq!(temporary.count(), 1, "the rows of the cursor");
    assert!(open_files() > before + 4, "the lock, the log, relations, and that");
    db.close().unwrap();
    assert_eq!(open_files(), before);
    assert_eq!(kept.query("select * from t", ()).unwrap_err().sqlstate, "57P01");
    assert_eq!(open_files(), before);
    drop(kept);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn threads_that_work_until_they_are_refused_leave_nothing_uncommitted() {
    let env = Env::memory();
    let db = with_tables(&env);
    let (tell, told) = mpsc::channel();
    let workers: Vec<_> = (0..4)
        .map(|worker: i32| {
            let (db, tell) = (db.clone(), tell.clone());
            thread::spawn(move || {
                let mut session = db.session();
                let mut rounds = 0;
                // Ends: the database is closed.
                while let Ok(mut open) = session.transaction() {
                    let row = (worker, "uncommitted");
                    if open.execute("insert into t values ($1, $2)", row).is_err() {
                        break;
                    }
                    drop(open);
                    rounds += 1;
                    if rounds == 20 {
                        tell.send(()).expect("somebody listens");
                    }
                }
            })
        })
        .collect();
    (0..4).for_each(|_| told.recv().expect("all of them work"));
    // Ends: a worker that is told to end rolls back, and begins nothing more.
    while let Err(refused) = db.clone().close() {
        assert_eq!(refused.sqlstate, "55006");
        thread::yield_now();
    }
    workers.into_iter().for_each(|worker| worker.join().expect("it ends"));
    drop(db);
    assert_no_ghosts(&env);
}
