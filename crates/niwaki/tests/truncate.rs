//! TRUNCATE of tables whose rows had several keys. Remembered facts of the old rows must not be
//! applied to the new ones.

mod common;
mod killed;

use common::run;
use niwaki::{Database, Options, Session};
use niwaki_env::Env;

const CHAINS: &str = "select mixed_chains, dead_line_pointers from niwaki_chain_stats('t')";
/// Queries by each index, and by none.
const ROWS: [&str; 3] = [
    "set enable_seqscan = off; set enable_bitmapscan = off; \
     select sum(id), count(*) from t where id >= 0",
    "select sum(v), count(*) from t where v >= 0",
    "set enable_seqscan = on; set enable_indexscan = off; set enable_indexonlyscan = off; \
     select sum(v), count(*) from t; reset all",
];

fn each(session: &mut Session, statements: &[&str]) {
    for sql in statements {
        assert_eq!(run(session, sql), "", "{sql}");
    }
}

fn open(env: &Env) -> Database {
    Database::open_with(env.clone(), Options::new().background(false)).unwrap()
}

/// Creates ten rows whose first versions had other keys and are removed. The gardener does not know
/// of these versions yet: their ledger records wait, as do the records of two deleted rows.
fn fill(session: &mut Session) {
    each(
        session,
        &[
            "create table t (id int primary key, v int); create index t_v on t (v)",
            "insert into t select g, g from generate_series(1, 12) g",
            "update t set v = v + 100",
            "delete from t where id > 10",
            // A pass over the page, and none over the indexes.
            "vacuum (index_cleanup off) t",
        ],
    );
    assert_eq!(run(session, CHAINS), "10|2");
    assert_eq!(contents(session), OLD);
}

/// Sum and number of ids, and twice of v.
const OLD: [&str; 3] = ["55|10", "1055|10", "1055|10"];

fn contents(session: &mut Session) -> [String; 3] {
    ROWS.map(|sql| run(session, sql))
}

fn check(database: &Database) {
    assert_eq!(database.check().unwrap().violations, []);
}

/// Inserts new rows on the old line pointers, with keys of the old rows. Then makes enough changes
/// for the gardener to run, whichever records it finds waiting.
fn use_anew(session: &mut Session) {
    each(session, &["insert into t select g, g + 100 from generate_series(1, 12) g"]);
    for _ in 0..3 {
        each(session, &["update t set v = v + 1", "vacuum (index_cleanup off) t"]);
    }
    each(session, &["update t set v = v - 103", "delete from t where id = 12"]);
    assert_eq!(contents(session), ["66|11", "66|11", "66|11"]);
    each(session, &["vacuum (index_cleanup off) t", "update t set v = v", "vacuum t"]);
    assert_eq!(contents(session), ["66|11", "66|11", "66|11"]);
    assert_eq!(run(session, CHAINS), "0|0");
}

#[test]
fn what_waits_of_old_rows_is_not_taken_for_new_ones() {
    let database = open(&Env::memory());
    let mut session = database.session();
    fill(&mut session);
    each(&mut session, &["truncate t"]);
    assert_eq!(run(&mut session, CHAINS), "0|0");
    assert_eq!(contents(&mut session), ["NULL|0"; 3]);
    use_anew(&mut session);
    check(&database);
}

/// Does the same within one transaction, in which the old rows may come back.
#[test]
fn a_rollback_brings_back_rows_and_what_waits_of_them() {
    let database = open(&Env::memory());
    let mut session = database.session();
    for undo in ["rollback", "rollback to before; commit"] {
        fill(&mut session);
        let mut old = database.session();
        // This snapshot is older than all that follows, and has no lock on the table.
        assert_eq!(run(&mut old, "begin isolation level repeatable read; select 1"), "1");
        each(&mut session, &["begin; savepoint before; truncate t"]);
        each(
            &mut session,
            &[
                "insert into t select g, g + 100 from generate_series(1, 20) g",
                "update t set v = v + 1",
                "update t set v = v + 1",
                "delete from t where id > 4",
            ],
        );
        assert_eq!(contents(&mut session), ["10|4", "418|4", "418|4"]);
        each(&mut session, &[undo]);
        assert_eq!(run(&mut session, CHAINS), "10|2");
        assert_eq!(contents(&mut session), OLD);
        assert_eq!(contents(&mut old), OLD);
        check(&database);
        // Changes beside the old snapshot, which must see its own rows.
        for _ in 0..3 {
            each(&mut session, &["update t set v = v + 1000", "vacuum (index_cleanup off) t"]);
        }
        assert_eq!(contents(&mut old), OLD);
        assert_eq!(contents(&mut session), ["55|10", "31055|10", "31055|10"]);
        each(&mut old, &["commit"]);
        each(&mut session, &["delete from t", "vacuum t"]);
        assert_eq!(run(&mut session, CHAINS), "0|0");
        check(&database);
        each(&mut session, &["drop table t"]);
    }
}

/// As in PostgreSQL, a transaction that has read the table keeps its rows. One that has not finds
/// it empty.
#[test]
fn who_has_not_read_the_table_yet_finds_it_empty() {
    let database = open(&Env::memory());
    let mut session = database.session();
    fill(&mut session);
    let mut old = database.session();
    assert_eq!(run(&mut old, "begin isolation level repeatable read; select 1"), "1");
    each(&mut session, &["truncate t"]);
    assert_eq!(contents(&mut old), ["NULL|0"; 3]);
    each(&mut session, &["insert into t values (1, 101)"]);
    assert_eq!(contents(&mut old), ["NULL|0"; 3]);
    each(&mut old, &["commit"]);
    check(&database);
}

#[test]
fn a_crash_leaves_old_rows_or_new_ones() {
    let env = Env::memory();
    let database = open(&env);
    let mut session = database.session();
    fill(&mut session);
    each(&mut session, &["begin; truncate t; insert into t values (1, 101); update t set v = 7"]);
    let copy = killed::copied(&env);
    each(&mut session, &["commit"]);
    let later = killed::copied(&env);
    {
        let database = open(&copy);
        check(&database);
        let mut session = database.session();
        assert_eq!(contents(&mut session), OLD);
        each(&mut session, &["truncate t"]);
        use_anew(&mut session);
        check(&database);
    }
    let database = open(&later);
    check(&database);
    let mut session = database.session();
    assert_eq!(contents(&mut session), ["1|1", "7|1", "7|1"]);
    each(&mut session, &["delete from t", "vacuum t"]);
    use_anew(&mut session);
    check(&database);
}

/// A temporary table keeps its files, which are emptied at each commit.
#[test]
fn rows_that_go_at_commit_leave_nothing_behind_either() {
    let database = open(&Env::memory());
    let mut session = database.session();
    each(
        &mut session,
        &["create temp table t (id int primary key, v int) on commit delete rows; \
           create index t_v on t (v)"],
    );
    for round in 0..4 {
        each(&mut session, &["begin; insert into t select g, g from generate_series(1, 20) g"]);
        for _ in 0..=round {
            each(&mut session, &["update t set v = v + 20"]);
        }
        each(&mut session, &["delete from t where id > 10"]);
        let sum = 55 + 200 * (round + 1);
        let v = format!("{sum}|10");
        assert_eq!(contents(&mut session), ["55|10".to_owned(), v.clone(), v]);
        each(&mut session, &["commit"]);
        assert_eq!(contents(&mut session), ["NULL|0"; 3]);
    }
    check(&database);
}
