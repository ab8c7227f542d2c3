//! A queue behind an old snapshot. Only that snapshot still sees taken jobs, and the next taker
//! does not scan their entries again (the expired prefix). A key that returns is still found.

mod common;

use common::run;
use niwaki::{Database, Session};

const BY_INDEX: &str = "set enable_seqscan = off; set enable_bitmapscan = off";

fn connect(database: &Database) -> Session {
    let mut session = database.session();
    assert_eq!(run(&mut session, BY_INDEX), "");
    session
}

/// Creates a queue of 3,000 jobs.
fn queue(database: &Database) -> Session {
    let mut session = connect(database);
    let sql = "create table queue (id int primary key, payload text); \
               insert into queue select g, 'job' from generate_series(1, 3000) g";
    assert_eq!(run(&mut session, sql), "");
    session
}

/// Opens a snapshot, which sees the present rows while it is open. Returns its answer to `sql` too.
fn old_snapshot(database: &Database, sql: &str) -> (Session, String) {
    let mut old = connect(database);
    assert_eq!(run(&mut old, "begin isolation level repeatable read"), "");
    let seen = run(&mut old, sql);
    (old, seen)
}

/// Returns the number of heap page visits so far.
fn visits(session: &mut Session) -> u64 {
    let sql =
        "select heap_blks_read + heap_blks_hit from pg_statio_user_tables where relname = 'queue'";
    run(session, sql).parse().unwrap()
}

const TAKE: &str = "delete from queue where id = (select id from queue order by id limit 1 for update skip locked) returning id";

#[test]
fn a_queue_does_not_go_over_what_was_taken() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = queue(&database);
    let all = "select count(*), sum(id) from queue where id > 0";
    let (mut old, seen) = old_snapshot(&database, all);
    let mut take = |ids: std::ops::RangeInclusive<u64>| {
        let before = visits(&mut session);
        let count = ids.clone().count() as u64;
        for id in ids {
            assert_eq!(run(&mut session, TAKE), id.to_string());
        }
        (visits(&mut session) - before) / count
    };
    let first = take(1..=100);
    take(101..=2000);
    let last = take(2001..=2100);
    // Without the expired prefix, this is twice the number of taken jobs.
    assert!(last <= first + 2, "first {first} heap pages for each, then {last}");
    assert_eq!(run(&mut old, all), seen, "the old snapshot sees all");
    assert_eq!(run(&mut session, all), "900|2295450");
    assert_eq!(run(&mut old, "commit"), "");
    assert_eq!(run(&mut old, all), "900|2295450");
    let report = database.check().unwrap();
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
}

/// A query for the first row does not read more rows.
#[test]
fn a_limit_is_told_to_the_scan() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = queue(&database);
    let mut visited = |sql: &str| {
        let before = visits(&mut session);
        run(&mut session, sql);
        visits(&mut session) - before
    };
    assert_eq!(visited("select * from queue order by id limit 1"), 1);
    assert_eq!(visited("select payload || id from queue order by id limit 2 offset 3"), 5);
    // One visit to read the row, and one to lock it.
    assert_eq!(visited("select * from queue order by id limit 1 for update"), 2);
}

#[test]
fn what_comes_back_is_found() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = connect(&database);
    let sql = "create table t (id int primary key, k int, note text); \
               insert into t select g, g, 'n' from generate_series(1, 300) g; create index t_k on t (k)";
    assert_eq!(run(&mut session, sql), "");
    let low = "select count(*), sum(id) from t where k between 1 and 200";
    let first = "select k from t order by k limit 1";
    let (mut old, seen) = old_snapshot(&database, low);
    // Removed keys leave entries of rows that live on.
    assert_eq!(run(&mut session, "update t set k = k + 1000 where k <= 100"), "");
    let (mut middle, seen_between) = old_snapshot(&database, low);
    for _ in 0..3 {
        assert_eq!(run(&mut session, first), "101");
        assert_eq!(run(&mut session, low), "100|15050");
    }
    // A key returns to an entry that still exists, once below and once above the other. One of the
    // two changes is rolled back.
    assert_eq!(run(&mut session, "begin; update t set k = id where id = 7; rollback"), "");
    assert_eq!(run(&mut session, first), "101");
    assert_eq!(run(&mut session, "begin; update t set k = id where id = 50"), "");
    assert_eq!(run(&mut session, first), "50", "one's own");
    assert_eq!(run(&mut connect(&database), first), "101", "not committed");
    assert_eq!(run(&mut session, "commit"), "");
    assert_eq!(run(&mut connect(&database), first), "50");
    assert_eq!(run(&mut session, "update t set k = id where id = 3"), "");
    assert_eq!(run(&mut session, first), "3");
    assert_eq!(run(&mut session, low), "102|15103");
    // A new row with a key that had gone.
    assert_eq!(run(&mut session, "insert into t values (1001, 1)"), "");
    assert_eq!(run(&mut session, first), "1");
    assert_eq!(run(&mut session, "delete from t where id = 1001"), "");
    assert_eq!(run(&mut session, first), "3");
    assert_eq!(run(&mut session, first), "3");
    assert_eq!(run(&mut old, low), seen);
    assert_eq!(run(&mut old, first), "1");
    assert_eq!(run(&mut middle, low), seen_between);
    assert_eq!(run(&mut middle, first), "101");
    let backward =
        "select string_agg(k::text, ' ') from (select k from t where k < 103 order by k desc) s";
    assert_eq!(run(&mut session, backward), "102 101 50 3");
    let report = database.check().unwrap();
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
}
