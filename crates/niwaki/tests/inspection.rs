//! Results of `niwaki_chain_stats`, `niwaki_stale_entries` and `niwaki_heap_page` for small tables.

mod common;

use common::run;
use niwaki::{Database, Session};

fn database(setup: &str) -> (Database, Session) {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = database.session();
    assert_eq!(run(&mut session, setup), "");
    (database, session)
}

fn each(session: &mut Session, statements: &[&str]) {
    for sql in statements {
        assert_eq!(run(session, sql), "", "{sql}");
    }
}

const CHAINS: &str = "select chains, mixed_chains, versions_p50, versions_p99, versions_max, stubs, \
     dead_line_pointers from niwaki_chain_stats('t')";
const STALE: &str = "select indexrelname, entries, dead_entries, stale_entries, mixed_chains, \
     stale_p50, stale_p99, stale_max from niwaki_stale_entries('t')";

/// Creates four rows: one with four versions, one with three of different keys, one deleted, one
/// unchanged.
fn churned(mode: &str) -> (Database, Session) {
    let (database, mut session) = database(&format!(
        "create table t (id int primary key, k int, note text) with (heap_only_updates = {mode}); \
         create index t_k on t (k); create index t_e on t ((k % 10)); \
         insert into t select g, g, '' from generate_series(1, 4) g"
    ));
    each(&mut session, &["update t set note = note || 'x' where id = 1"; 3]);
    each(&mut session, &["update t set k = 20 where id = 2", "update t set k = 21 where id = 2"]);
    each(&mut session, &["delete from t where id = 3"]);
    (database, session)
}

#[test]
fn chains_of_several_keys() {
    let (_database, mut session) = churned("any_key");
    assert_eq!(run(&mut session, CHAINS), "4|1|1|4|4|0|0");
    let nothing_stale = "t_pkey|4|0|0|1|0|0|0\nt_k|6|0|0|1|0|0|0\nt_e|6|0|0|1|0|0|0\n\
                         NULL|16|0|0|1|0|0|0";
    assert_eq!(run(&mut session, STALE), nothing_stale, "every key is some version's");
    // VACUUM prunes without visiting the indexes: 2 and 20 are no longer keys of row 2, nor are
    // they modulo 10.
    each(&mut session, &["vacuum (index_cleanup off) t"]);
    assert_eq!(run(&mut session, CHAINS), "3|1|1|1|1|0|1");
    let stale = "t_pkey|4|1|0|1|0|0|0\nt_k|6|1|2|1|2|2|2\nt_e|6|1|2|1|2|2|2\n\
                 NULL|16|3|4|1|4|4|4";
    assert_eq!(run(&mut session, STALE), stale);
    each(&mut session, &["vacuum t"]);
    assert_eq!(run(&mut session, CHAINS), "3|0|1|1|1|0|0");
    let clean = "t_pkey|3|0|0|0|NULL|NULL|NULL\nt_k|3|0|0|0|NULL|NULL|NULL\n\
                 t_e|3|0|0|0|NULL|NULL|NULL\nNULL|9|0|0|0|NULL|NULL|NULL";
    assert_eq!(run(&mut session, STALE), clean);
}

#[test]
fn chains_of_one_key_and_of_one_version() {
    let (_database, mut session) = churned("same_keys");
    // Row 2 has three chain roots, each with an entry in each index.
    assert_eq!(run(&mut session, CHAINS), "6|0|1|4|4|0|0");
    // One entry of the primary key is marked LP_DEAD, because the second update met it.
    let all = "t_pkey|5|0|0|0|NULL|NULL|NULL\nt_k|6|0|0|0|NULL|NULL|NULL\n\
               t_e|6|0|0|0|NULL|NULL|NULL\nNULL|17|0|0|0|NULL|NULL|NULL";
    assert_eq!(run(&mut session, STALE), all);
    each(&mut session, &["vacuum (index_cleanup off) t"]);
    assert_eq!(run(&mut session, CHAINS), "3|0|1|1|1|0|3");
    let (_database, mut session) = churned("off");
    assert_eq!(run(&mut session, CHAINS), "9|0|1|1|1|0|0");
    each(&mut session, &["vacuum (index_cleanup off) t"]);
    assert_eq!(run(&mut session, CHAINS), "3|0|1|1|1|0|6");
}

#[test]
fn an_old_snapshot_keeps_versions_and_their_entries() {
    let (database, mut session) = database(
        "create table t (id int primary key, k int) with (heap_only_updates = any_key); \
         create index t_k on t (k); insert into t select g, g from generate_series(1, 10) g",
    );
    let mut report = database.session();
    let begin = "begin isolation level repeatable read; select count(*) from t";
    assert_eq!(run(&mut report, begin), "10");
    each(&mut session, &["update t set k = k + 100 where id <= 6"; 3]);
    assert_eq!(run(&mut session, CHAINS), "10|6|4|4|4|0|0");
    each(&mut session, &["vacuum (index_cleanup off) t"]);
    assert_eq!(run(&mut session, CHAINS), "10|6|2|2|2|0|0", "what it sees, and the newest");
    let stale = "t_pkey|10|0|0|6|0|0|0\nt_k|28|0|12|6|2|2|2\nNULL|38|0|12|6|2|2|2";
    assert_eq!(run(&mut session, STALE), stale, "the two keys in between");
    each(&mut report, &["commit"]);
    each(&mut session, &["vacuum (index_cleanup off) t"]);
    assert_eq!(run(&mut session, CHAINS), "10|6|1|1|1|0|0");
    assert_eq!(run(&mut session, STALE).lines().nth(1), Some("t_k|28|0|18|6|3|3|3"));
}

#[test]
fn free_bytes_are_what_lies_between_line_pointers_and_tuples() {
    let (_database, mut session) = churned("any_key");
    // 24 bytes of page header, and 4 bytes for each line pointer.
    let expected = "select min(lp_off) - 24 - 4 * count(*) from niwaki_heap_page('t', 0)";
    let expected = run(&mut session, expected);
    let free = "select pages, free_bytes from niwaki_chain_stats('t')";
    assert_eq!(run(&mut session, free), format!("1|{expected}"));
    each(&mut session, &["create table none ()"]);
    let empty = "select * from niwaki_chain_stats('none')";
    assert_eq!(run(&mut session, empty), "0|0|0|NULL|NULL|NULL|0|0|0");
}

#[test]
fn a_page_shows_its_line_pointers() {
    let (_database, mut session) = churned("any_key");
    let page = "select lp, lp_state, lp_target, mixed, moved_in, t_ctid, t_root, t_flags, \
                heap_only, stub, t_natts from niwaki_heap_page('t', 0)";
    let expected = "1|normal|NULL|no|f|(0,5)|1|heap_updated|f|f|3\n\
        2|normal|NULL|yes|f|(0,8)|2|heap_updated|f|f|3\n\
        3|normal|NULL|no|f|NULL|3|keys_updated|f|f|3\n\
        4|normal|NULL|no|f|NULL|4||f|f|3\n\
        5|normal|NULL|no|f|(0,6)|1|updated heap_only heap_updated|t|f|3\n\
        6|normal|NULL|no|f|(0,7)|1|updated heap_only heap_updated|t|f|3\n\
        7|normal|NULL|no|f|NULL|1|updated heap_only|t|f|3\n\
        8|normal|NULL|no|f|(0,9)|2|updated heap_only heap_updated|t|f|3\n\
        9|normal|NULL|no|f|NULL|2|updated heap_only|t|f|3";
    assert_eq!(run(&mut session, page), expected);
    // The transaction that replaced a version inserted the next one. A header has 24 bytes.
    let links = "select count(*) from niwaki_heap_page('t', 0) a \
                 join niwaki_heap_page('t', 0) b on b.t_xmin = a.t_xmax \
                 where a.t_ctid = ('(0,' || b.lp || ')')::tid \
                 and a.lp_len = 24 + octet_length(a.t_data)";
    assert_eq!(run(&mut session, links), "5");
    let alive = "select lp from niwaki_heap_page('t', 0) where t_xmax is null";
    assert_eq!(run(&mut session, alive), "4\n7\n9");
    let key = "select encode(t_data, 'hex') like '%15000000%' from niwaki_heap_page('t', 0) \
               where lp = 9";
    assert_eq!(run(&mut session, key), "t");

    each(&mut session, &["vacuum (index_cleanup off) t"]);
    let expected = "1|redirect|7|no|f|NULL|NULL|NULL|NULL|NULL|NULL\n\
        2|redirect|9|yes|f|NULL|NULL|NULL|NULL|NULL|NULL\n\
        3|dead|NULL|no|f|NULL|NULL|NULL|NULL|NULL|NULL\n\
        4|normal|NULL|no|f|NULL|4|xmin_all_visible|f|f|3\n\
        5|unused|NULL|no|f|NULL|NULL|NULL|NULL|NULL|NULL\n\
        6|unused|NULL|no|f|NULL|NULL|NULL|NULL|NULL|NULL\n\
        7|normal|NULL|no|f|NULL|1|updated heap_only xmin_all_visible|t|f|3\n\
        8|unused|NULL|no|f|NULL|NULL|NULL|NULL|NULL|NULL\n\
        9|normal|NULL|no|f|NULL|2|updated heap_only xmin_all_visible|t|f|3";
    assert_eq!(run(&mut session, page), expected);
}

#[test]
fn a_row_that_moved_leaves_a_stub_for_who_may_follow() {
    let (database, mut session) = database(
        "create table t (id int primary key, note text) with (fillfactor = 100); \
         insert into t select g, repeat('x', 1500) from generate_series(1, 5) g",
    );
    // A statement that may change rows follows moved rows. The stub stays until its snapshot ends.
    let mut cursor = database.session();
    each(&mut cursor, &["begin", "declare c cursor for select id from t for update"]);
    each(
        &mut session,
        &[
            "update t set note = repeat('y', 1500) where id = 1",
            "update t set note = 'short' where id = 1",
            "vacuum t",
        ],
    );
    let page = "select lp, moved_in, stub, heap_only, t_ctid, t_natts, length(t_data) > 0 \
                from niwaki_heap_page('t', 1)";
    assert_eq!(run(&mut session, page), "1|t|t|f|(1,2)|0|f\n2|f|f|t|NULL|2|t");
    let stubs = "select stubs, chains from niwaki_chain_stats('t')";
    assert_eq!(run(&mut session, stubs), "1|6", "what the cursor sees is on the first page still");
    each(&mut cursor, &["commit"]);
    each(&mut session, &["vacuum t"]);
    assert_eq!(run(&mut session, stubs), "0|5");
}

#[test]
fn what_is_asked_for_must_be_there() {
    let (_database, mut session) = churned("any_key");
    each(&mut session, &["create sequence s"]);
    for (sql, expected) in [
        (
            "select * from niwaki_heap_page('t', 1)",
            "error 22023: block number 1 is out of range for relation \"t\"",
        ),
        ("select * from niwaki_heap_page('t', -1)", "error 22023: invalid block number"),
        ("select * from niwaki_heap_page('t', 4294967296)", "error 22023: invalid block number"),
        ("select * from niwaki_chain_stats('t_k')", "error 42809: \"t_k\" is not a table"),
        ("select * from niwaki_stale_entries('s')", "error 42809: \"s\" is not a table"),
        (
            "select * from niwaki_chain_stats('pg_class')",
            "error 42809: \"pg_class\" is not a table",
        ),
        (
            "select * from niwaki_chain_stats('nosuch')",
            "error 42P01: relation \"nosuch\" does not exist",
        ),
        (
            "select niwaki_chain_stats('t')",
            "error 0A000: niwaki_chain_stats has several columns, and is allowed in FROM only",
        ),
        (
            "select * from t where id = niwaki_chain_stats('t')",
            "error 0A000: set-returning functions are not allowed in WHERE",
        ),
        ("select * from niwaki_chain_stats(null)", ""),
        ("select * from niwaki_chain_stats(4000000000)", ""),
    ] {
        assert_eq!(run(&mut session, sql).lines().next().unwrap_or_default(), expected, "{sql}");
    }
}

#[test]
fn functions_of_several_columns_are_tables() {
    let (_database, mut session) = churned("any_key");
    let named = "select p.number, word, ordinality from niwaki_heap_page('t', 0) \
                 with ordinality p (number, word) where number in (3, 9) order by 1 desc";
    assert_eq!(run(&mut session, named), "9|normal|9\n3|normal|3");
    let lateral = "select c.relname, s.chains from pg_class c, \
                   lateral niwaki_chain_stats(c.oid::regclass) s where c.relname = 't'";
    assert_eq!(run(&mut session, lateral), "t|4");
    let explained = run(
        &mut session,
        "explain select lp from niwaki_heap_page('t', 0) p where p.heap_only and lp > 2",
    );
    assert!(explained.contains("Function Scan on niwaki_heap_page p"), "{explained}");
    assert!(explained.contains("Filter: (heap_only AND (lp > 2))"), "{explained}");
    let prepared = "prepare page as select count(*) from niwaki_heap_page($1, $2); \
                    execute page ('t', 0)";
    assert_eq!(run(&mut session, prepared), "9");
}

/// A function of one column was refused in a select list, as if it had several.
#[test]
fn a_function_of_one_column_is_a_value() {
    let (_database, mut session) = churned("any_key");
    for (sql, expected) in [
        ("select niwaki_visibility_map_memory('t')", "0"),
        ("select bytes from niwaki_visibility_map_memory('t')", "0"),
        ("select m.bytes + 1 from niwaki_visibility_map_memory('t') m", "1"),
        ("select sum(niwaki_visibility_map_memory(oid)) from pg_class where relname = 't'", "0"),
        ("select niwaki_visibility_map_memory(null) is null", "t"),
        ("select niwaki_visibility_map_memory(4000000000) is null", "t"),
        ("select niwaki_visibility_map_memory('t_k')", "error 42809: \"t_k\" is not a table"),
    ] {
        assert_eq!(run(&mut session, sql), expected, "{sql}");
    }
}
