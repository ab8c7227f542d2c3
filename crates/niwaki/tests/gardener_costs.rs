//! What the gardener costs, and what maintenance by itself leaves of a table from which much was deleted.

mod common;

use common::run;
use niwaki::{Database, Session};

/// Runs a statement that answers nothing.
fn exec(session: &mut Session, sql: &str) {
    assert_eq!(run(session, sql), "", "{sql}");
}

/// A table with an index on its key in order and three on keys in random order.
fn fill(session: &mut Session, rows: u32) {
    exec(session, "create table t (id int primary key, a int, b int, c text, note text)");
    exec(
        session,
        &format!(
            "insert into t select g, g::bigint * 7919 % {rows}, g::bigint * 104729 % 1000003, \
             md5(g::text), repeat('n', 40) from generate_series(1, {rows}) g"
        ),
    );
    for column in ["a", "b", "c"] {
        exec(session, &format!("create index t_{column} on t ({column})"));
    }
}

fn show(session: &mut Session) {
    println!(
        "{}",
        run(
            session,
            "select updates, gardener_told, gardener_forgotten, gardener_waiting, gardener_deleted, gardener_heap_pages, line_pointers_freed, rounds, round_pages, round_passes from niwaki_stat_tables where relname = 't'"
        )
    );
    println!(
        "{}",
        run(
            session,
            "select indexrelname, gardener_deleted, gardener_leaf_pages, gardener_inner_pages, pages, free_pages, pages_merged, leaf_shifts, pages_packed, pages_deleted from niwaki_stat_indexes where relname = 't'"
        )
    );
}

#[test]
fn measure_thread() {
    let database = Database::in_memory().unwrap();
    let mut session = database.session();
    fill(&mut session, 200_000);
    exec(&mut session, "vacuum t");
    show(&mut session);
    exec(&mut session, "delete from t where id::bigint * 48271 % 200003 < 1000");
    for _ in 0..8 {
        database.tend().unwrap();
        show(&mut session);
    }
}

#[test]
fn measure_80() {
    let database = Database::in_memory().unwrap();
    let mut session = database.session();
    fill(&mut session, 100_000);
    exec(&mut session, "vacuum t");
    show(&mut session);
    exec(&mut session, "delete from t where id::bigint * 48271 % 200003 < 160000");
    for _ in 0..60 {
        database.tend().unwrap();
    }
    show(&mut session);
    for done in database.maintain().unwrap() {
        println!("{done:?}");
    }
    show(&mut session);
    for _ in 0..60 {
        database.tend().unwrap();
    }
    show(&mut session);
    exec(&mut session, "reindex table t");
    show(&mut session);
}

#[test]
fn measure_80_vacuum() {
    let database = Database::in_memory().unwrap();
    let mut session = database.session();
    fill(&mut session, 100_000);
    exec(&mut session, "vacuum t");
    exec(&mut session, "delete from t where id::bigint * 48271 % 200003 < 160000");
    for done in database.maintain().unwrap() {
        println!("{done:?}");
    }
    show(&mut session);
    for _ in 0..60 {
        database.tend().unwrap();
    }
    show(&mut session);
    exec(&mut session, "reindex table t");
    show(&mut session);
}

#[test]
fn measure_80_range() {
    let database = Database::in_memory().unwrap();
    let mut session = database.session();
    fill(&mut session, 100_000);
    exec(&mut session, "vacuum t");
    exec(&mut session, "delete from t where id < 80000");
    for done in database.maintain().unwrap() {
        println!("{done:?}");
    }
    show(&mut session);
    for _ in 0..60 {
        database.tend().unwrap();
    }
    show(&mut session);
    exec(&mut session, "reindex table t");
    show(&mut session);
}
