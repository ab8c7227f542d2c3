//! Two sessions on the same rows. READ COMMITTED re-evaluates conditions on the newest version, and
//! REPEATABLE READ refuses. Statements wait for locks, skip locked rows or refuse.

mod common;
#[path = "common/waiting.rs"]
mod waiting;

use common::run;
use niwaki::{Database, Session};
use waiting::blocked_until;

/// Creates a table of three rows, and two sessions.
fn sessions() -> (Database, Session, Session) {
    let database = Database::in_memory_without_threads().unwrap();
    let mut first = database.session();
    let second = database.session();
    let setup = "create table t (id int primary key, v int); \
                 insert into t values (1, 10), (2, 20), (3, 30)";
    assert_eq!(run(&mut first, setup), "");
    (database, first, second)
}

/// Runs `statement` in `waiter` while `holder` has an open transaction that the statement must wait
/// for. Then `holder` commits. Returns the result of the statement, and the session.
fn blocked_by(
    database: &Database,
    holder: &mut Session,
    waiter: Session,
    statement: &'static str,
) -> (String, Session) {
    blocked_until(database, holder, "commit", waiter, statement)
}

#[test]
fn an_update_is_not_lost() {
    let (database, mut a, b) = sessions();
    run(&mut a, "begin; update t set v = v + 1 where id = 1");
    let (found, mut b) =
        blocked_by(&database, &mut a, b, "update t set v = v + 100 where id = 1 returning v");
    assert_eq!(found, "111");
    assert_eq!(run(&mut b, "select v from t where id = 1"), "111");
}

#[test]
fn conditions_are_judged_on_the_newest_version() {
    let (database, mut a, b) = sessions();
    run(&mut a, "begin; update t set v = 500 where id = 2");
    let (found, mut b) =
        blocked_by(&database, &mut a, b, "update t set v = v + 1 where v < 100 returning id");
    assert_eq!(found, "1\n3");
    assert_eq!(run(&mut b, "select id, v from t order by id"), "1|11\n2|500\n3|31");
}

#[test]
fn a_deleted_row_is_left_alone() {
    let (database, mut a, b) = sessions();
    run(&mut a, "begin; delete from t where id = 3");
    let (found, mut b) =
        blocked_by(&database, &mut a, b, "update t set v = 0 where id = 3 returning id");
    assert_eq!(found, "");
    assert_eq!(run(&mut b, "select count(*) from t"), "2");
}

#[test]
fn for_update_returns_the_newest_version() {
    let (database, mut a, b) = sessions();
    run(&mut a, "begin; update t set v = v * 2 where id = 1");
    let (found, _) = blocked_by(&database, &mut a, b, "select v from t where id = 1 for update");
    assert_eq!(found, "20");
}

#[test]
fn repeatable_read_refuses_a_second_update() {
    let (database, mut a, mut b) = sessions();
    assert_eq!(
        run(&mut b, "begin isolation level repeatable read; select v from t where id = 1"),
        "10"
    );
    run(&mut a, "begin; update t set v = 11 where id = 1");
    let (found, mut b) = blocked_by(&database, &mut a, b, "update t set v = 12 where id = 1");
    assert_eq!(found, "error 40001: could not serialize access due to concurrent update");
    run(&mut b, "rollback");
    assert_eq!(run(&mut b, "select v from t where id = 1"), "11");
}

#[test]
fn locked_rows_are_skipped_or_refused() {
    let (_database, mut a, mut b) = sessions();
    run(&mut a, "begin; select * from t where id = 2 for update");
    assert_eq!(run(&mut b, "select id from t order by id for update skip locked"), "1\n3");
    assert_eq!(
        run(&mut b, "select id from t where id = 2 for update nowait"),
        "error 55P03: could not obtain lock on row in relation \"t\""
    );
    // A key share lock is compatible with an update of other columns, but not with FOR UPDATE.
    run(&mut a, "commit; begin; update t set v = 1 where id = 2");
    assert_eq!(run(&mut b, "select id from t where id = 2 for key share nowait"), "2");
    run(&mut a, "commit");
}

#[test]
fn a_statement_does_not_meet_its_own_changes() {
    let (_database, mut a, _b) = sessions();
    run(&mut a, "create index t_v on t (v)");
    // The update scans the index on the column that it changes, forward: each row must be met once.
    run(&mut a, "set enable_seqscan = off");
    assert_eq!(run(&mut a, "update t set v = v + 15 where v > 0 returning id"), "1\n2\n3");
    assert_eq!(run(&mut a, "insert into t select id + 100, v from t; select count(*) from t"), "6");
}

const COUNT: &str = "insert into t values (7, 1) on conflict (id) do update set v = t.v + 1 \
                     returning v";

#[test]
fn an_upsert_waits_for_who_inserted_the_key() {
    let (database, mut a, b) = sessions();
    run(&mut a, "begin; insert into t values (7, 70)");
    let (found, b) = blocked_by(&database, &mut a, b, COUNT);
    // The row is younger than the statement's snapshot.
    assert_eq!(found, "71");
    run(&mut a, "begin; update t set v = 700 where id = 7");
    let (found, b) = blocked_by(&database, &mut a, b, COUNT);
    assert_eq!(found, "701");
    run(&mut a, "begin; delete from t where id = 7");
    let (found, b) = blocked_by(&database, &mut a, b, COUNT);
    assert_eq!(found, "1");
    run(&mut a, "begin; delete from t where id = 7");
    let (found, b) = blocked_until(&database, &mut a, "rollback", b, COUNT);
    assert_eq!(found, "2");
    run(&mut a, "begin; update t set id = 8 where id = 7");
    let (found, mut b) = blocked_by(&database, &mut a, b, COUNT);
    assert_eq!(found, "1");
    assert_eq!(run(&mut b, "select id, v from t where id > 3 order by id"), "7|1\n8|2");
}

#[test]
fn do_nothing_waits_for_who_inserted_the_key() {
    const INSERT: &str = "insert into t values (7, 1) on conflict do nothing returning v";
    let (database, mut a, b) = sessions();
    run(&mut a, "begin; insert into t values (7, 70)");
    let (found, b) = blocked_until(&database, &mut a, "rollback", b, INSERT);
    assert_eq!(found, "1");
    run(&mut a, "begin; delete from t where id = 7; insert into t values (7, 77)");
    let (found, mut b) = blocked_by(&database, &mut a, b, INSERT);
    assert_eq!(found, "");
    assert_eq!(run(&mut b, "select v from t where id = 7"), "77");
}

#[test]
fn at_repeatable_read_a_row_that_is_not_seen_is_in_the_way() {
    const REFUSED: &str = "error 40001: could not serialize access due to concurrent update";
    let (database, mut a, mut b) = sessions();
    for action in ["nothing", "update set v = 0"] {
        run(&mut b, "begin isolation level repeatable read; select 1 from t");
        run(&mut a, "insert into t values (7, 70)");
        let insert = format!("insert into t values (7, 1) on conflict (id) do {action}");
        assert_eq!(run(&mut b, &insert), REFUSED);
        run(&mut b, "rollback");
        run(&mut a, "delete from t where id = 7");
    }
    run(&mut b, "begin isolation level repeatable read; select 1 from t");
    run(&mut a, "begin; update t set v = v + 1 where id = 1");
    let statement = "insert into t values (1, 1) on conflict (id) do update set v = 0";
    let (found, mut b) = blocked_by(&database, &mut a, b, statement);
    assert_eq!(found, REFUSED);
    run(&mut b, "rollback");
    assert_eq!(run(&mut b, "select v from t where id = 1"), "11");
}

/// Does the same with a table `u` that `t.v` is joined with.
fn joined_sessions() -> (Database, Session, Session) {
    let (database, mut first, second) = sessions();
    let setup = "create table u (k int primary key, w text); \
                 insert into u values (10, 'ten'), (20, 'twenty'), (11, 'eleven')";
    assert_eq!(run(&mut first, setup), "");
    (database, first, second)
}

/// Methods of joining, which must not change the result.
const METHODS: [&str; 3] = [
    "set enable_hashjoin = off; set enable_mergejoin = off",
    "set enable_nestloop = off; set enable_mergejoin = off",
    "set enable_nestloop = off; set enable_hashjoin = off",
];

#[test]
fn joins_are_judged_on_the_newest_version() {
    for method in METHODS {
        let (database, mut a, mut b) = joined_sessions();
        run(&mut b, method);
        // The joined row of `u` stays the one that was found: the new value does not match it.
        run(&mut a, "begin; update t set v = 20 where id = 1");
        let (found, b) = blocked_by(
            &database,
            &mut a,
            b,
            "select t.id, w from t join u on u.k = t.v order by t.id for update of t",
        );
        assert_eq!(found, "2|twenty", "{method}");
        // Another column changed: the row still matches.
        run(&mut a, "begin; update t set id = 4 where id = 2");
        let (found, b) = blocked_by(
            &database,
            &mut a,
            b,
            "select t.id, w from t, u where u.k = t.v and w = 'twenty' and t.id >= 2 for update of t",
        );
        assert_eq!(found, "4|twenty", "{method}");
        run(&mut a, "begin; update t set v = 11 where id = 4");
        let (found, mut b) = blocked_by(
            &database,
            &mut a,
            b,
            "update t set v = t.v + 100 from u where u.k = t.v returning t.id, t.v, w",
        );
        assert_eq!(found, "1|120|twenty", "{method}");
        assert_eq!(run(&mut b, "select id, v from t order by id"), "1|120\n3|30\n4|11", "{method}");
    }
}

#[test]
fn a_left_join_loses_its_match_on_the_newest_version() {
    for method in METHODS {
        let (database, mut a, mut b) = joined_sessions();
        run(&mut b, method);
        run(&mut a, "begin; update t set v = 30 where id = 1");
        let (found, _) = blocked_by(
            &database,
            &mut a,
            b,
            "select t.id, v, w from t left join u on u.k = t.v order by t.id for update of t",
        );
        assert_eq!(found, "1|30|NULL\n2|20|twenty\n3|30|NULL", "{method}");
    }
}

#[test]
fn semi_and_anti_joins_are_judged_on_the_newest_version() {
    for method in METHODS {
        let (database, mut a, mut b) = joined_sessions();
        run(&mut b, method);
        run(&mut a, "begin; update t set v = 30 where id = 1");
        let statement = "update t set v = v + 1 where exists (select from u where u.k = t.v) \
                         returning id, v";
        let (found, b) = blocked_by(&database, &mut a, b, statement);
        assert_eq!(found, "2|21", "{method}");
        run(&mut a, "begin; update t set v = 11 where id = 3");
        let (found, mut b) = blocked_by(
            &database,
            &mut a,
            b,
            "delete from t where not exists (select from u where u.k = t.v) returning id",
        );
        // The order depends on the method.
        assert!(matches!(found.as_str(), "1\n2" | "2\n1"), "{method}: {found}");
        assert_eq!(run(&mut b, "select id, v from t"), "3|11", "{method}");
    }
}

#[test]
fn queries_in_from_are_locked_too() {
    let (database, mut a, b) = joined_sessions();
    run(&mut a, "begin; update t set v = 40 where id = 1");
    let (found, _) = blocked_by(
        &database,
        &mut a,
        b,
        "select * from (select id, v from t where v <= 30 or v = 40) s order by id for update",
    );
    assert_eq!(found, "1|40\n2|20\n3|30");
}
