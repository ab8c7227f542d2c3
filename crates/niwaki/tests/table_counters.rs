//! Counters of `niwaki_stat_tables`: each moves when it should, and by how much it should.

mod common;

use common::run;
use niwaki::{Database, Session};

fn database(setup: &str) -> (Database, Session) {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = database.session();
    assert_eq!(run(&mut session, setup), "");
    (database, session)
}

/// Runs statements that return nothing, each in a transaction of its own.
fn each(session: &mut Session, statements: &[&str]) {
    for sql in statements {
        assert_eq!(run(session, sql), "", "{sql}");
    }
}

/// Returns the counters of table `t` that are not zero, as `name value`.
fn counters(session: &mut Session) -> Vec<String> {
    counters_of(session, "t")
}

fn counters_of(session: &mut Session, table: &str) -> Vec<String> {
    let names = "select attname from pg_attribute \
                 where attrelid = 'niwaki_stat_tables'::regclass and attnum > 3 order by attnum";
    let names = run(session, names);
    let values =
        run(session, &format!("select * from niwaki_stat_tables where relname = '{table}'"));
    let values = values.split('|').skip(3);
    let all = names.lines().zip(values).filter(|(_, value)| *value != "0");
    all.map(|(name, value)| format!("{name} {value}")).collect()
}

#[test]
fn the_view_has_its_columns_and_a_row_for_each_table() {
    let (_database, mut session) =
        database("create table t (id int primary key); create schema s; create table s.other ()");
    let columns = "select attname from pg_attribute \
                   where attrelid = 'niwaki_stat_tables'::regclass order by attnum";
    let expected = "relid schemaname relname updates heap_only heap_only_0_indexes \
        heap_only_1_index heap_only_2_indexes heap_only_3_indexes heap_only_more_indexes \
        new_root_no_room new_root_same_keys new_root_off left_page update_delays pruned_by_horizon \
        pruned_by_interval pruned_aborted chains_mixed chains_settled chains_cleaned \
        line_pointers_freed gardener_deleted gardener_told gardener_forgotten gardener_heap_pages \
        rounds round_pages round_passes gardener_waiting";
    let expected: Vec<&str> = expected.split_whitespace().collect();
    assert_eq!(run(&mut session, columns).lines().collect::<Vec<_>>(), expected);
    let names = "select schemaname, s.relname, relid = c.oid from niwaki_stat_tables s \
                 join pg_class c on c.oid = relid order by s.relname";
    assert_eq!(run(&mut session, names), "s|other|t\npublic|t|t");
    assert_eq!(counters(&mut session), [""; 0]);
}

#[test]
fn heap_only_updates_are_counted_by_the_indexes_that_they_touch() {
    let (_database, mut session) = database(
        "create table t (id int primary key, a int, b int, c int, note text) \
         with (heap_only_updates = any_key); \
         create index on t (a); create index on t (b); create index on t (c) where c > 0; \
         insert into t select g, g, g, g, '' from generate_series(1, 3) g",
    );
    each(
        &mut session,
        &[
            "update t set note = 'n' where id = 1",
            "update t set a = a where id = 1",
            "update t set a = 10 where id = 1",
            "update t set a = 11, b = 11 where id = 1",
            "update t set a = 12, b = 12, c = 12 where id = 1",
            "update t set id = 7, a = 13, b = 13, c = 13 where id = 1",
            // The row leaves the partial index, which gets no entry, and enters it again.
            "update t set c = 0 where id = 2",
            "update t set c = 1 where id = 2",
        ],
    );
    let expected = [
        "updates 8",
        "heap_only 8",
        "heap_only_0_indexes 3",
        "heap_only_1_index 2",
        "heap_only_2_indexes 1",
        "heap_only_3_indexes 1",
        "heap_only_more_indexes 1",
        "chains_mixed 2",
    ];
    assert_eq!(counters(&mut session), expected);
    // Rolled-back work counts too.
    each(&mut session, &["begin; update t set a = 99 where id = 3; rollback"]);
    assert_eq!(counters(&mut session)[..2], ["updates 9", "heap_only 9"]);
    assert!(counters(&mut session).contains(&"chains_mixed 3".to_owned()));
    // The numbers belong to the table, not to its files.
    each(&mut session, &["truncate t"]);
    assert!(counters(&mut session).contains(&"chains_mixed 3".to_owned()));
    let same = "select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables";
    assert_eq!(run(&mut session, same), "9|9");
}

#[test]
fn new_roots_are_counted_by_their_reason() {
    let (_database, mut session) = database(
        "create table t (id int primary key, a int, note text) \
         with (heap_only_updates = same_keys, fillfactor = 100); create index on t (a); \
         insert into t select g, g, '' from generate_series(1, 3) g",
    );
    each(
        &mut session,
        &["update t set note = 'n' where id = 1", "update t set a = 10 where id = 1"],
    );
    let expected = ["updates 2", "heap_only 1", "heap_only_0_indexes 1", "new_root_same_keys 1"];
    assert_eq!(counters(&mut session), expected);

    each(
        &mut session,
        &["alter table t set (heap_only_updates = off)", "update t set note = 'm' where id = 2"],
    );
    assert!(counters(&mut session).contains(&"new_root_off 1".to_owned()));

    // Five of these rows fill a page, and no further version fits there. Each goes to the next
    // page, until that is full.
    each(
        &mut session,
        &[
            "create table wide (id int primary key, note text) \
             with (heap_only_updates = any_key, fillfactor = 100)",
            "insert into wide select g, repeat('x', 1500) from generate_series(1, 5) g",
            "update wide set note = repeat('y', 1500) where id < 3",
        ],
    );
    let expected = ["updates 2", "new_root_no_room 2", "left_page 2"];
    assert_eq!(counters_of(&mut session, "wide"), expected);
}

#[test]
fn removed_versions_are_counted_by_why_they_could_go() {
    let (database, mut session) = database(
        "create table t (id int primary key, v int) with (heap_only_updates = any_key); \
         insert into t values (1, 0)",
    );
    let mut report = database.session();
    let begin = "begin isolation level repeatable read; select v from t";
    assert_eq!(run(&mut report, begin), "0");
    each(&mut session, &["update t set v = v + 1"; 5]);
    each(&mut session, &["vacuum t"]);
    let expected = ["updates 5", "heap_only 5", "heap_only_0_indexes 5", "pruned_by_interval 4"];
    assert_eq!(counters(&mut session), expected, "the report needs one, nobody the four since");
    assert_eq!(run(&mut report, "select v from t"), "0");
    each(&mut report, &["commit"]);
    each(&mut session, &["begin; update t set v = 99; rollback", "vacuum t"]);
    let expected = ["pruned_by_horizon 1", "pruned_by_interval 4", "pruned_aborted 1"];
    assert_eq!(counters(&mut session)[3..], expected);
}

/// Creates twenty rows with two versions each, which differ in the key and fill most of a page.
/// Each statement is a transaction: one that also created an index could not rely on the earlier
/// chains.
fn filled_by_updates() -> (Database, Session) {
    let (database, mut session) = database(
        "create table t (id int primary key, k int, note text) \
         with (heap_only_updates = any_key, fillfactor = 100); create index t_k on t (k)",
    );
    each(
        &mut session,
        &[
            "insert into t select g, g, repeat('x', 150) from generate_series(1, 20) g",
            "update t set k = k + 100",
            "set enable_indexscan = off; set enable_bitmapscan = off",
        ],
    );
    (database, session)
}

#[test]
fn chains_that_become_mixed_and_settle_are_counted() {
    let (_database, mut session) = filled_by_updates();
    let mixed = ["updates 20", "heap_only 20", "heap_only_1_index 20", "chains_mixed 20"];
    assert_eq!(counters(&mut session), mixed);
    // A reader removes the old versions, the next writer their entries.
    assert_eq!(run(&mut session, "select count(*) from t"), "20");
    let expected =
        ["pruned_by_horizon 20", "chains_mixed 20", "gardener_told 20", "gardener_waiting 20"];
    assert_eq!(counters(&mut session)[3..], expected);
    let fill = "insert into t select g, g, repeat('x', 150) from generate_series(21, 60) g";
    each(&mut session, &[fill]);
    // No scan visits the rows again: none of them has got another version.
    let expected =
        ["pruned_by_horizon 20", "chains_mixed 20", "gardener_deleted 20", "gardener_told 20"];
    assert_eq!(counters(&mut session)[3..], expected);
    let of_index = "select gardener_deleted from niwaki_stat_indexes where indexrelname = 't_k'";
    assert_eq!(run(&mut session, of_index), "20");
    // A writer that finds no room on the page checks there for roots with settled entries.
    each(&mut session, &["update t set note = repeat('y', 160) where id = 1"]);
    let expected = [
        "updates 21",
        "heap_only 20",
        "heap_only_1_index 20",
        "new_root_no_room 1",
        "left_page 1",
        "pruned_by_horizon 20",
        "chains_mixed 20",
        "chains_settled 20",
        "gardener_deleted 20",
        "gardener_told 20",
    ];
    assert_eq!(counters(&mut session), expected);
}

#[test]
fn line_pointers_that_come_back_without_vacuum_are_counted() {
    let (database, mut session) = filled_by_updates();
    // The deleter's pass removes the old versions, and its batch their entries. The reader's pass
    // removes the deleted rows, and finds that the remaining root has settled.
    each(&mut session, &["delete from t where id <= 19"]);
    assert_eq!(run(&mut session, "select count(*) from t"), "1");
    let expected = [
        "pruned_by_horizon 39",
        "chains_mixed 20",
        "chains_settled 1",
        "gardener_deleted 20",
        "gardener_told 39",
        "gardener_waiting 38",
    ];
    assert_eq!(counters(&mut session)[3..], expected);
    // Each deleted row has an entry in both indexes. They are too few for a visit by writers, but
    // not for the later rounds.
    each(&mut session, &["insert into t values (50, 50, '')"]);
    assert_eq!(counters(&mut session)[3..], expected);
    (0..4).for_each(|_| database.clean_up().unwrap());
    let freed = counters(&mut session);
    for number in ["gardener_deleted 58", "line_pointers_freed 19"] {
        assert!(freed.contains(&number.to_owned()), "{freed:?}");
    }
    each(&mut session, &["vacuum t"]);
    let freed = counters(&mut session);
    assert!(freed.contains(&"line_pointers_freed 19".to_owned()), "vacuum's are not: {freed:?}");
}

#[test]
fn chains_that_vacuum_cleans_are_counted() {
    let (_database, mut session) = database(
        "create table t (id int primary key, k int) with (heap_only_updates = any_key); \
         create index t_k on t (k); insert into t select g, g from generate_series(1, 9) g",
    );
    each(&mut session, &["update t set k = k + 100 where id <= 3", "vacuum t"]);
    let expected = [
        "updates 3",
        "heap_only 3",
        "heap_only_1_index 3",
        "pruned_by_horizon 3",
        "chains_mixed 3",
        "chains_cleaned 3",
    ];
    assert_eq!(counters(&mut session), expected);
}

/// `pg_stat_database` once lost the counts of dropped tables and of rebuilt indexes.
#[test]
fn a_database_keeps_what_its_tables_counted() {
    let (_database, mut session) = database(
        "create table t (id int primary key, a int); create index t_a on t (a); \
         insert into t select g, g from generate_series(1, 10) g",
    );
    each(&mut session, &["update t set a = 0 where id = 1", "delete from t where id = 2"]);
    let reads = "set enable_seqscan = off; select a from t where a > 3; \
                 set enable_seqscan = on; select * from t";
    run(&mut session, reads);
    let counted = |session: &mut Session| -> Vec<u64> {
        let sql = "select tup_returned, tup_fetched, tup_inserted, tup_updated, tup_deleted \
                   from pg_stat_database where datname = current_database()";
        run(session, sql).split('|').map(|number| number.parse().unwrap()).collect()
    };
    let mut before = counted(&mut session);
    assert_eq!(before[2..], [10, 1, 1]);
    for (sql, inserted) in [
        ("begin; drop table t; rollback", 10),
        ("create table u (a int primary key); insert into u values (1); drop table u", 11),
        ("begin; create table u (a int); insert into u values (1), (2); rollback", 13),
        ("create temp table u (a int); insert into u values (1)", 14),
        ("drop table u", 14),
        ("reindex table t", 14),
        ("drop index t_a", 14),
        ("truncate t", 14),
        ("drop table t", 14),
    ] {
        assert_eq!(run(&mut session, sql), "", "{sql}");
        let after = counted(&mut session);
        assert!(before.iter().zip(&after).all(|(b, a)| b <= a), "{sql}: {before:?} {after:?}");
        assert_eq!(after[2..], [inserted, 1, 1], "{sql}");
        before = after;
    }
}
