//! Tables and indexes keep their size under failing or rolled-back insertions, even when no scan
//! passes over the remains.

mod common;

use common::run;
use niwaki::{Database, Options, Session};
use niwaki_env::Env;

const SIZES: &str =
    "select pg_relation_size('t'), pg_relation_size('t_pkey'), pg_relation_size('t_v')";

fn open(env: &Env) -> Database {
    Database::open_with(env.clone(), Options::new().background(false)).unwrap()
}

/// Returns the sizes in blocks after `turns` turns, and after three times as many.
fn sizes(
    session: &mut Session,
    turns: u32,
    mut turn: impl FnMut(&mut Session, u32),
) -> [Vec<u32>; 2] {
    let mut blocks = |from: u32, to: u32| {
        (from..to).for_each(|number| turn(session, number));
        let sizes = run(session, SIZES);
        sizes.split('|').map(|bytes| bytes.parse::<u32>().unwrap() / 8192).collect()
    };
    [blocks(0, turns), blocks(turns, 3 * turns)]
}

fn filled(database: &Database) -> Session {
    let mut session = database.session();
    for sql in [
        "create table t (id int primary key, v text); create index t_v on t (v)",
        "insert into t select g, repeat('v', 100) || g from generate_series(1, 100) g",
    ] {
        assert_eq!(run(&mut session, sql), "");
    }
    session
}

#[test]
fn insertions_of_keys_that_are_there_take_no_room() {
    let env = Env::memory();
    let database = open(&env);
    let mut session = filled(&database);
    let [early, late] = sizes(&mut session, 1000, |session, number| {
        let sql =
            format!("insert into t values ({}, repeat('w', 100) || {number})", number % 100 + 1);
        assert!(run(session, &sql).contains("23505"));
    });
    assert!(late.iter().zip(&early).all(|(late, early)| *late <= early + 1), "{early:?} {late:?}");
    assert_eq!(run(&mut session, "select count(*), sum(id) from t"), "100|5050");
    assert_eq!(database.check().unwrap().violations, []);
}

#[test]
fn insertions_that_are_rolled_back_take_no_room() {
    let env = Env::memory();
    let database = open(&env);
    let mut session = filled(&database);
    let [early, late] = sizes(&mut session, 1000, |session, number| {
        let sql = format!(
            "begin; insert into t values ({}, repeat('w', 100) || {number}); rollback",
            number + 101
        );
        assert_eq!(run(session, &sql), "");
    });
    assert!(late.iter().zip(&early).all(|(late, early)| *late <= early + 1), "{early:?} {late:?}");
    assert_eq!(run(&mut session, "select count(*), sum(id) from t"), "100|5050");
    assert_eq!(database.check().unwrap().violations, []);
}

/// Changes of more than a page of 200 rows are rolled back, or fail, again and again. Every fourth
/// time another transaction commits before. A table of 64 kB once grew to megabytes, because the
/// full pages that such a change left behind were not reported. Now they are noted with their
/// transaction (`uncommitted_pages.rs`).
fn under_failing(change: &str, error: &str) {
    let env = Env::memory();
    let database = open(&env);
    let mut session = database.session();
    for sql in [
        "create table t (id int primary key, u int, v text); create index t_v on t (u)",
        "insert into t select g, g, repeat('v', 100) from generate_series(1, 200) g",
    ] {
        assert_eq!(run(&mut session, sql), "");
    }
    let began = run(&mut session, SIZES);
    let began: Vec<u32> =
        began.split('|').map(|bytes| bytes.parse::<u32>().unwrap() / 8192).collect();
    let [early, late] = sizes(&mut session, 60, |session, number| {
        if number % 4 == 3 {
            assert_eq!(run(session, "update t set u = -u where id > 190"), "");
        }
        let answer = match error {
            "" => run(session, &format!("begin; {change}; rollback")),
            _ => run(session, change),
        };
        assert!(answer.contains(error) && answer.is_empty() == error.is_empty(), "{answer}");
    });
    for (late, (early, began)) in late.iter().zip(early.iter().zip(&began)) {
        assert!(*late <= early + 1 && *late <= 2 * began + 6, "{began} {early:?} {late:?}");
    }
    assert_eq!(
        run(&mut session, "select count(*), sum(id), sum(abs(u))  from t"),
        "200|20100|20100"
    );
    assert_eq!(database.check().unwrap().violations, []);
}

#[test]
fn updates_of_many_rows_that_are_rolled_back_take_no_room() {
    under_failing("update t set u = -u where id <= 100", "");
}

#[test]
fn updates_of_many_rows_that_fail_take_no_room() {
    under_failing("update t set u = 1 / (id - 100) where id <= 100", "22012");
}

#[test]
fn insertions_of_many_rows_that_are_rolled_back_take_no_room() {
    under_failing(
        "insert into t select g + 1000, g, repeat('v', 100) from generate_series(1, 100) g",
        "",
    );
}

#[test]
fn insertions_of_many_rows_that_fail_take_no_room() {
    under_failing(
        "insert into t select g, g, repeat('v', 100) from generate_series(1200, 1100, -1) g
         union all select 1, 1, ''",
        "23505",
    );
}

/// COPY inserts many rows at once, and once asked the gardener only once for all of them. The
/// gardener fell behind, and did nothing when an index refused a row.
#[test]
fn copies_that_fail_take_no_room() {
    let rows: Vec<String> =
        (1000..1100).map(|id| format!("{id}\t{id}\t{}", "v".repeat(100))).collect();
    under_failing(&format!("copy t from stdin\n{}\n1\t1\tv", rows.join("\n")), "23505");
}

#[test]
fn conflicting_insertions_that_are_rolled_back_take_no_room() {
    under_failing(
        "insert into t select g, g, 'z' from generate_series(100, 250) g
         on conflict (id) do update set u = excluded.u + 1",
        "",
    );
}

#[test]
fn what_savepoints_roll_back_takes_no_room() {
    under_failing(
        "savepoint a; update t set u = u + 1000 where id > 100; rollback to a;
         insert into t select g + 1000, g, repeat('v', 100) from generate_series(1, 100) g",
        "",
    );
}

/// Line pointers of removed rows wait until all their index entries are gone. They were once
/// forgotten when indexes changed: a table of 4 pages had 122 after 1,200 such transactions. Now a
/// rolled-back change keeps that knowledge, so that the gardener's rounds free the line pointers
/// without VACUUM.
fn beside_a_change_of_indexes(before: &str, change: &str) {
    let env = Env::memory();
    let database = open(&env);
    let mut session = database.session();
    for sql in [
        "create table t (id int primary key, n int, v int)",
        "insert into t select g, g, g from generate_series(1, 200) g",
        before,
        "vacuum analyze t",
    ] {
        assert_eq!(run(&mut session, sql), "");
    }
    let turn = format!("begin; {change}; update t set v = v + 1 where id < 50; rollback");
    for number in 1..=200 {
        assert_eq!(run(&mut session, &turn), "");
        if number % 20 == 0 {
            assert_eq!(run(&mut session, "select count(*), sum(v) from t"), "200|20100");
            (0..6).for_each(|_| database.clean_up().unwrap());
        }
    }
    let blocks = run(&mut session, "select pg_relation_size('t') / 8192").parse::<u32>().unwrap();
    assert!(blocks <= 10, "{blocks}");
    let left = "select dead_line_pointers, mixed_chains from niwaki_chain_stats('t')";
    assert_eq!(run(&mut session, left), "0|0");
    assert_eq!(database.check().unwrap().violations, []);
}

#[test]
fn updates_beside_an_index_that_is_rolled_back_take_no_room_for_long() {
    beside_a_change_of_indexes("comment on table t is 't'", "create index i2 on t (n)");
    // Keys of the removed index give chain roots several keys.
    beside_a_change_of_indexes("comment on table t is 't'", "create index i2 on t (v)");
}

#[test]
fn updates_beside_a_drop_that_is_rolled_back_take_no_room_for_long() {
    beside_a_change_of_indexes("create index i2 on t (n)", "drop index i2");
    beside_a_change_of_indexes("create index i2 on t (v)", "drop index i2");
}

/// As soon as the savepoint is rolled back, the earlier indexes are valid, and other sessions write
/// to the table. Their stale entries were once not removed until the transaction ended.
#[test]
fn a_savepoint_that_took_an_index_back_keeps_nothing_waiting() {
    for change in ["create index t_i on t (k, id)", "drop index t_k"] {
        let database = open(&Env::memory());
        let (mut session, mut definer) = (database.session(), database.session());
        for sql in [
            "create table t (id int primary key, k int) with (fillfactor = 50)",
            "create index t_k on t (k)",
            "insert into t select g, g from generate_series(1, 200) g",
        ] {
            assert_eq!(run(&mut session, sql), "");
        }
        let sql = format!("begin; savepoint a; {change}; rollback to a");
        assert_eq!(run(&mut definer, &sql), "");
        for _ in 0..10 {
            assert_eq!(run(&mut session, "update t set k = k + 1000"), "");
        }
        let deleted = "select gardener_deleted > 0 from niwaki_stat_tables where relname = 't'";
        assert_eq!(run(&mut session, deleted), "t", "{change}");
        assert_eq!(run(&mut definer, "commit"), "");
        assert_eq!(run(&mut session, "select count(*), min(k) from t"), "200|10001");
        assert_eq!(database.check().unwrap().violations, []);
    }
}
