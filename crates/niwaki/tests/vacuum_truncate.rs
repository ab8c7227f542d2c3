//! The empty tail of a table returns to the file system, unless a transaction needs it or blocks
//! the lock.

mod common;
mod killed;

use std::sync::Arc;
use std::time::Duration;

use common::run;
use niwaki::{Database, Options, Session};
use niwaki_env::Env;
use niwaki_env::clock::ManualClock;
use niwaki_env::sync::thread;

fn each(session: &mut Session, statements: &[&str]) {
    for sql in statements {
        assert_eq!(run(session, sql), "", "{sql}");
    }
}

fn open(env: &Env) -> Database {
    Database::open_with(env.clone(), Options::new().background(false)).unwrap()
}

/// Inserts 3,000 rows, and keeps the first tenth: some 50 pages, and some 5 with rows.
const FILL: &str = "insert into t select g, g % 10, repeat('n', 90) from generate_series(1, 3000) g; \
                    delete from t where id > 300";

fn filled(database: &Database) -> Session {
    let mut session = database.session();
    let table = "create table t (id int primary key, k int, note text); create index on t (k)";
    each(&mut session, &[table, FILL]);
    assert!(pages(&mut session) > 40);
    session
}

fn pages(session: &mut Session) -> u32 {
    run(session, "select pg_relation_size('t') / 8192").parse().unwrap()
}

const ROWS: &str = "select count(*), sum(id) from t";

fn sound(database: &Database) {
    assert_eq!(database.check().unwrap().violations, []);
}

#[test]
fn a_table_gets_shorter_and_grows_again() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = filled(&database);
    let full = pages(&mut session);
    for _ in 0..3 {
        each(&mut session, &["vacuum t"]);
        assert!(pages(&mut session) < full / 8);
        assert_eq!(run(&mut session, ROWS), "300|45150");
        assert_eq!(run(&mut session, "select count(*) from t where k = 3"), "30");
        sound(&database);
        // The stored size of the table shrinks too.
        let known =
            "select relpages = pg_relation_size('t') / 8192 from pg_class where relname = 't'";
        assert_eq!(run(&mut session, known), "t");
        each(&mut session, &["delete from t", "vacuum t", FILL]);
        assert_eq!(pages(&mut session), full);
        sound(&database);
    }
    each(&mut session, &["delete from t", "vacuum t"]);
    assert_eq!(pages(&mut session), 0);
    sound(&database);
}

#[test]
fn the_statement_the_table_and_the_settings_say_whether() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = filled(&database);
    let full = pages(&mut session);
    let mut stays = |said: &[&str], vacuum: &str| {
        each(&mut session, said);
        each(&mut session, &[vacuum]);
        assert_eq!(pages(&mut session), full, "{said:?} {vacuum}");
    };
    stays(&[], "vacuum (truncate off) t");
    // DEAD line pointers keep their pages.
    stays(&["truncate t", FILL], "vacuum (index_cleanup off) t");
    stays(&["set vacuum_truncate = off"], "vacuum t");
    stays(&["reset vacuum_truncate", "alter table t set (vacuum_truncate = off)"], "vacuum t");
    stays(&["set vacuum_truncate = on"], "vacuum t");
    // A table's option overrides the settings, and the statement's option overrides the table's.
    each(&mut session, &["vacuum (truncate) t"]);
    assert!(pages(&mut session) < full / 8);
    each(&mut session, &["truncate t", FILL, "set vacuum_truncate = off"]);
    each(&mut session, &["alter table t set (vacuum_truncate)", "vacuum t"]);
    assert!(pages(&mut session) < full / 8);
    sound(&database);
}

#[test]
fn who_uses_the_table_keeps_its_length() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = filled(&database);
    let full = pages(&mut session);
    let mut other = database.session();
    for statement in [
        "select count(*) from t",
        "insert into t values (0, 0, 'new')",
        "declare c cursor for select * from t",
        "lock table t in access share mode",
    ] {
        let rows = run(&mut session, ROWS);
        each(&mut other, &["begin"]);
        run(&mut other, statement);
        each(&mut session, &["vacuum t"]);
        assert_eq!(pages(&mut session), full, "{statement}");
        each(&mut other, &["rollback"]);
        assert_eq!(run(&mut session, ROWS), rows);
    }
    // The rows of an old snapshot stay, although that transaction has not locked the table.
    each(&mut session, &["truncate t", FILL, "create table u ()", "vacuum t"]);
    let short = pages(&mut session);
    assert!(short < full / 8);
    each(
        &mut session,
        &["insert into t select g, 0, repeat('n', 90) from generate_series(1000, 3000) g"],
    );
    let full = pages(&mut session);
    each(&mut other, &["begin isolation level repeatable read"]);
    assert_eq!(run(&mut other, "select count(*) from u"), "0");
    each(&mut session, &["delete from t where id > 300", "vacuum t"]);
    assert_eq!(pages(&mut session), full);
    assert_eq!(run(&mut other, "select count(*) from t"), "2301");
    each(&mut other, &["commit"]);
    each(&mut session, &["vacuum t"]);
    assert_eq!(pages(&mut session), short);
    // A snapshot that sees no row in the tail finds the table shorter.
    each(&mut session, &["truncate t", FILL]);
    each(&mut other, &["begin isolation level repeatable read"]);
    assert_eq!(run(&mut other, "select count(*) from u"), "0");
    each(&mut session, &["vacuum t"]);
    assert_eq!(run(&mut other, ROWS), "300|45150");
    assert_eq!(run(&mut other, "select count(*) from t where k = 3"), "30");
    each(&mut other, &["commit"]);
    sound(&database);
}

#[test]
fn large_values_of_the_end_go_too() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = database.session();
    let size = |session: &mut Session| {
        run(session, "select pg_table_size('t') / 8192").parse::<u32>().unwrap()
    };
    each(
        &mut session,
        &[
            "create table t (id int primary key, v text)",
            "insert into t select g, (select string_agg(md5((g * 1000 + n)::text), '') \
             from generate_series(1, 300) n) from generate_series(1, 100) g",
        ],
    );
    let full = size(&mut session);
    assert!(full > 100, "{full}");
    each(&mut session, &["delete from t where id > 5", "vacuum t"]);
    assert!(size(&mut session) < full / 5, "{} of {full}", size(&mut session));
    assert_eq!(run(&mut session, "select count(*), sum(length(v)) from t"), "5|48000");
    sound(&database);
    each(&mut session, &["insert into t select id + 10, v || id from t"]);
    assert_eq!(run(&mut session, "select count(*), sum(length(v)) from t"), "10|96005");
    sound(&database);
}

#[test]
fn tables_without_a_log_are_cut_too() {
    for kind in ["unlogged", "temporary"] {
        let database = Database::in_memory_without_threads().unwrap();
        let mut session = database.session();
        each(
            &mut session,
            &[&format!("create {kind} table t (id int primary key, k int, note text)")],
        );
        each(&mut session, &[FILL]);
        let full = pages(&mut session);
        each(&mut session, &["vacuum t"]);
        assert!(pages(&mut session) < full / 8, "{kind}");
        assert_eq!(run(&mut session, ROWS), "300|45150");
        each(&mut session, &["delete from t", FILL]);
        assert_eq!(run(&mut session, ROWS), "300|45150");
        sound(&database);
    }
}

#[test]
fn a_killed_process_leaves_it_short() {
    let env = Env::memory();
    let database = open(&env);
    let mut session = filled(&database);
    each(&mut session, &["vacuum t"]);
    let short = pages(&mut session);
    let cut = killed::copied(&env);
    // The table grew again, over the places of the old tail.
    each(
        &mut session,
        &["insert into t select g, 7, repeat('o', 90) from generate_series(301, 2000) g"],
    );
    let grown = killed::copied(&env);
    for (env, rows) in [(cut, "300|45150"), (grown, "2000|2001000")] {
        let again = open(&env);
        let mut session = again.session();
        assert_eq!(run(&mut session, ROWS), rows);
        sound(&again);
        each(&mut session, &["delete from t where id > 300", "vacuum t"]);
        assert_eq!(pages(&mut session), short);
        each(&mut session, &["delete from t", FILL]);
        sound(&again);
    }
}

/// While another session blocks it, VACUUM reports that, can be cancelled, and goes on when the
/// table is free.
#[test]
fn it_waits_a_little_and_can_be_cancelled() {
    let clock = Arc::new(ManualClock::new());
    let mut env = Env::memory();
    env.clock = Arc::clone(&clock) as Arc<_>;
    let database = open(&env);
    let mut session = filled(&database);
    let full = pages(&mut session);
    let mut reader = database.session();
    let phase = "select phase from pg_stat_progress_vacuum";
    for cancelled in [true, false] {
        each(&mut reader, &["begin"]);
        assert_eq!(run(&mut reader, ROWS), "300|45150");
        let mut vacuuming = database.session();
        let backend = vacuuming.id();
        // VACUUM sleeps after each page, and between its attempts, until the clock moves.
        each(&mut vacuuming, &["set vacuum_cost_delay = 1; set vacuum_cost_limit = 1"]);
        let vacuum = thread::spawn(move || run(&mut vacuuming, "vacuum t"));
        while run(&mut session, phase) != "truncating heap" {
            clock.advance(Duration::from_millis(1));
            thread::yield_now();
        }
        assert_eq!(pages(&mut session), full);
        let cancel = format!("select pg_cancel_backend({backend})");
        if cancelled {
            assert_eq!(run(&mut session, &cancel), "t");
            let why = "error 57014: canceling statement due to user request";
            assert_eq!(vacuum.join().unwrap(), why);
            each(&mut reader, &["rollback"]);
            assert_eq!(pages(&mut session), full);
        } else {
            each(&mut reader, &["rollback"]);
            while !vacuum.is_finished() {
                clock.advance(Duration::from_millis(1));
                thread::yield_now();
            }
            assert_eq!(vacuum.join().unwrap(), "");
        }
        sound(&database);
    }
    assert!(pages(&mut session) < full / 8, "its next try found nobody");
}

/// A waiting definition gets the table when the VACUUM has ended. The VACUUM ends with the part of
/// the tail that it has just cut.
#[test]
fn a_definition_that_waits_goes_first() {
    const KEPT: &str = "select count(*), sum(id), min(length(note)) from t";
    let clock = Arc::new(ManualClock::new());
    let mut env = Env::memory();
    env.clock = Arc::clone(&clock) as Arc<_>;
    let database = open(&env);
    let mut session = database.session();
    let table = "create table t (id int primary key, note text) with (fillfactor = 10)";
    each(&mut session, &[table]);
    for definition in
        ["alter table t add column k int", "create index on t (note)", "truncate t", "drop table t"]
    {
        // One row per page, and two parts of pages without rows.
        let fill = "insert into t select g, repeat('n', 600) from generate_series(1, 2000) g";
        let phase = "select phase from pg_stat_progress_vacuum";
        // While the clock stands still, VACUUM cuts one part, and then sleeps before it checks for
        // the next one. On a busy machine the clock may have moved once too often, and no session
        // waits. Then try again.
        let mut tries = 0;
        loop {
            each(&mut session, &["truncate t", fill, "delete from t where id > 100"]);
            let full = pages(&mut session);
            assert!(full >= 2000, "{full}");
            let mut vacuuming = database.session();
            each(&mut vacuuming, &["set vacuum_cost_delay = 1; set vacuum_cost_limit = 100"]);
            each(&mut vacuuming, &["set vacuum_cost_page_dirty = 0"]);
            let vacuum = thread::spawn(move || run(&mut vacuuming, "vacuum t"));
            while !vacuum.is_finished() && run(&mut session, phase) != "truncating heap" {
                clock.advance(Duration::from_millis(1));
                thread::yield_now();
            }
            while !vacuum.is_finished() && pages(&mut session) == full {
                thread::yield_now();
            }
            let left = pages(&mut session);
            let mut defining = database.session();
            let waits = format!(
                "select count(*) from pg_locks where pid = {} and not granted",
                defining.id()
            );
            let defined =
                thread::spawn(move || each(&mut defining, &["begin", definition, "rollback"]));
            let mut waited = false;
            while !waited && !defined.is_finished() {
                waited = run(&mut session, &waits) != "0";
                thread::yield_now();
            }
            // Move the clock until VACUUM has ended, because it may begin its sleep only now.
            while !vacuum.is_finished() {
                clock.advance(Duration::from_millis(1));
                thread::yield_now();
            }
            assert_eq!(vacuum.join().unwrap(), "");
            defined.join().unwrap();
            if waited && left > 300 && pages(&mut session) == left {
                break;
            }
            tries += 1;
            // The schedules of `tail-unyielding` check that VACUUM does not try again either.
            assert!(tries < 10, "{definition}: the rest of the tail is left");
        }
        assert_eq!(run(&mut session, KEPT), "100|5050|600");
        sound(&database);
    }
    each(&mut session, &["vacuum t"]);
    assert!(pages(&mut session) < 150, "nobody waits");
    assert_eq!(run(&mut session, KEPT), "100|5050|600");
    sound(&database);
}

#[test]
fn autovacuum_gives_the_end_back_too() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = filled(&database);
    let full = pages(&mut session);
    let mut reader = database.session();
    each(&mut reader, &["begin"]);
    assert_eq!(run(&mut reader, ROWS), "300|45150");
    let reports = database.maintain().unwrap();
    assert!(reports.iter().all(|report| report.vacuumed && report.error.is_none()), "{reports:?}");
    assert_eq!((reports.len(), pages(&mut session)), (1, full), "somebody reads");
    each(&mut reader, &["commit"]);
    each(&mut session, &["truncate t", FILL]);
    assert_eq!(database.maintain().unwrap().len(), 1);
    assert!(pages(&mut session) < full / 8);
    each(&mut session, &["truncate t", FILL, "alter table t set (vacuum_truncate = off)"]);
    assert_eq!(database.maintain().unwrap().len(), 1);
    assert!(pages(&mut session) >= full);
    sound(&database);
}
