//! SQL functions across statements: plans that call a replaced or dropped function, other sessions,
//! recursion, cancellation, memory, visibility of changes, and refused statements.

mod common;
#[path = "common/waiting.rs"]
mod waiting;

use common::run;
use niwaki::{Database, Session};
use waiting::blocked_until;

fn session(statements: &[&str]) -> (Database, Session) {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = database.session();
    for statement in statements {
        assert_eq!(run(&mut session, statement), "", "{statement}");
    }
    (database, session)
}

const PLUS: &str = "create function plus(a int) returns int language sql as 'select a + 1'";

/// Returns the error of a statement, without its hints.
fn failure(session: &mut Session, statement: &str) -> String {
    let found = run(session, statement);
    assert!(found.starts_with("error"), "{statement}: {found}");
    found.lines().next().unwrap_or_default().to_owned()
}

/// A function that is not inlined.
const OF_TABLE: &str =
    "create function of_table(k int) returns int language sql as 'select v from t where id = k'";

const TABLE: &str = "create table t (id int primary key, v int)";

#[test]
fn prepared_statements_follow_their_functions() {
    let (database, mut a) =
        session(&[TABLE, "insert into t values (1, 10), (2, 20)", PLUS, OF_TABLE]);
    let mut b = database.session();
    assert_eq!(run(&mut b, "prepare p (int) as select plus(of_table($1)), plus($1)"), "");
    assert_eq!(run(&mut b, "execute p (1)"), "11|2");
    let replaced =
        "create or replace function plus(a int) returns int language sql as 'select a + 100'";
    assert_eq!(run(&mut a, replaced), "");
    assert_eq!(run(&mut b, "execute p (1)"), "110|101");
    let replaced = "create or replace function of_table(k int) returns int language sql as 'select -v from t where id = k'";
    assert_eq!(run(&mut a, replaced), "");
    assert_eq!(run(&mut b, "execute p (2)"), "80|102");
    // A replacement that is rolled back was never there.
    assert_eq!(run(&mut a, &format!("begin; {replaced}; rollback")), "");
    assert_eq!(run(&mut b, "execute p (2)"), "80|102");
    assert_eq!(run(&mut a, "drop function plus(int)"), "");
    assert_eq!(
        failure(&mut b, "execute p (2)"),
        "error 42883: function plus(integer) does not exist"
    );
    assert_eq!(run(&mut a, PLUS), "");
    assert_eq!(run(&mut b, "execute p (2)"), "-19|3");
    // Another table takes the place of one that a body reads.
    assert_eq!(run(&mut a, "begin; drop table t; create table t (id int, v int); commit"), "");
    assert_eq!(run(&mut b, "execute p (2)"), "NULL|3");
    assert_eq!(run(&mut a, "drop table t"), "");
    assert_eq!(failure(&mut b, "execute p (2)"), "error 42P01: relation \"t\" does not exist");
}

#[test]
fn bodies_get_their_meaning_where_they_are_called() {
    let (_database, mut session) = session(&[
        TABLE,
        "insert into t values (1, 10)",
        OF_TABLE,
        "create schema s",
        "create table s.t (id int, v int)",
        "insert into s.t values (1, 77)",
    ]);
    assert_eq!(run(&mut session, "prepare p as select of_table(1)"), "");
    assert_eq!(run(&mut session, "execute p"), "10");
    assert_eq!(run(&mut session, "set search_path = s, public"), "");
    assert_eq!(run(&mut session, "execute p; select of_table(1)"), "77\n77");
    assert_eq!(run(&mut session, "set search_path = public"), "");
    assert_eq!(run(&mut session, "create temp table t (id int, v int)"), "");
    assert_eq!(run(&mut session, "insert into t values (1, 5)"), "");
    assert_eq!(run(&mut session, "execute p"), "5");
    assert_eq!(run(&mut session, "drop table t"), "");
    assert_eq!(run(&mut session, "execute p"), "10");
}

#[test]
fn tables_of_bodies_are_locked_like_those_of_the_statement() {
    let (database, mut a) = session(&[TABLE, "insert into t values (1, 10)", OF_TABLE]);
    let b = database.session();
    assert_eq!(run(&mut a, "begin; alter table t add column w int; update t set v = 11"), "");
    let (found, b) = blocked_until(&database, &mut a, "commit", b, "select of_table(1)");
    assert_eq!(found, "11");
    // Callers neither see an uncommitted definition of another transaction, nor wait for it.
    let replaced =
        "begin; create or replace function of_table(k int) returns int language sql as 'select 0'";
    assert_eq!(run(&mut a, replaced), "");
    let mut b = b;
    assert_eq!(run(&mut b, "select of_table(1)"), "11");
    assert_eq!(run(&mut a, "commit"), "");
    assert_eq!(run(&mut b, "select of_table(1)"), "0");
    // Two sessions that replace one function run one after the other.
    assert_eq!(run(&mut a, replaced), "");
    let statement =
        "create or replace function of_table(k int) returns int language sql as 'select 2'";
    let (found, mut b) = blocked_until(&database, &mut a, "commit", b, statement);
    assert_eq!(found, "");
    assert_eq!(run(&mut b, "select of_table(1)"), "2");
}

#[test]
fn recursion_ends() {
    let (database, mut session) = session(&[
        "set check_function_bodies = off",
        "create function down(n int) returns int language sql as 'select case when n <= 0 then 0 else 1 + down(n - 1) end'",
        "create function even(n int) returns bool language sql as 'select case when n = 0 then true else odd(n - 1) end'",
        "create function odd(n int) returns bool language sql as 'select case when n = 0 then false else even(n - 1) end'",
        "create function endless(n int) returns int language sql as 'select endless(n + 1)'",
        "create function endless_rows() returns setof int language sql as 'select * from endless_rows()'",
    ]);
    assert_eq!(run(&mut session, "select down(10)"), "10");
    assert_eq!(run(&mut session, "select even(7), odd(7), even(6)"), "f|t|t");
    for endless in ["select endless(1)", "select * from endless_rows()", "select down(1000000)"] {
        assert_eq!(failure(&mut session, endless), "error 54001: stack depth limit exceeded");
    }
    assert_eq!(run(&mut session, "select down(3)"), "3");
    assert_eq!(database.check().unwrap().violations, []);
}

#[test]
fn calls_are_cancelled() {
    let (_database, mut session) = session(&[
        "create function busy(n int) returns bigint language sql as \
         'select count(*) from generate_series(1, 1000000000) g where g <> n'",
        "create function idle(n int) returns int language sql as 'select n from (select pg_sleep(0)) s'",
        "set statement_timeout = 200",
    ]);
    let cancelled = "error 57014: canceling statement due to statement timeout";
    assert_eq!(run(&mut session, "select busy(1)"), cancelled);
    let calls = "select sum(idle(g)) from generate_series(1, 1000000000) g";
    assert_eq!(run(&mut session, calls), cancelled);
    assert_eq!(run(&mut session, "select 1"), "1");
}

#[test]
fn rows_are_bounded() {
    let (_database, mut session) = session(&[
        "set work_mem = 64",
        "create function many(n int) returns setof text language sql as \
         'select repeat(''x'', 1000) from generate_series(1, n)'",
    ]);
    // In FROM the rows go to a temporary file.
    assert_eq!(
        run(&mut session, "select count(*), sum(length(many)) from many(20000)"),
        "20000|20000000"
    );
    assert_eq!(
        failure(&mut session, "select count(*) from (select many(200000)) s"),
        "error 53200: out of memory"
    );
    assert_eq!(run(&mut session, "select count(*) from (select many(10)) s"), "10");
}

#[test]
fn each_statement_sees_what_its_volatility_allows() {
    let (_database, mut session) = session(&[
        TABLE,
        "insert into t select g, 0 from generate_series(1, 3) g",
        "create function now_there() returns bigint volatile language sql as 'select count(*) from t'",
        "create function there_before() returns bigint stable language sql as 'select count(*) from t'",
        "create function bump(k int) returns int language sql as \
         'update t set v = v + 1 where id = k returning v'",
    ]);
    let insert = "insert into t select g, now_there() * 100 + there_before() from generate_series(11, 13) g returning v";
    assert_eq!(run(&mut session, insert), "303\n403\n503");
    // Each call is a statement of its own, and sees the changes of the calls before it.
    assert_eq!(run(&mut session, "select bump(1), bump(1), bump(1)"), "1|2|3");
    // The calling statement keeps its own snapshot.
    assert_eq!(
        run(&mut session, "select id, v, bump(id) from t where id < 4 order by id"),
        "1|3|4\n2|0|1\n3|0|1"
    );
    // A FROM item is evaluated once.
    let once = "select g, b from generate_series(1, 2) g, bump(2) b order by g";
    assert_eq!(run(&mut session, once), "1|2\n2|2");
    let twice = "error 27000: tuple to be updated was already modified by an operation triggered by the current command";
    assert_eq!(failure(&mut session, "update t set v = bump(id) where id = 1"), twice);
    assert_eq!(run(&mut session, "select v from t where id = 1"), "4");
    // The same at REPEATABLE READ.
    let repeatable =
        "begin isolation level repeatable read; select bump(1), bump(1), now_there(); commit";
    assert_eq!(run(&mut session, repeatable), "5|6|6");
    // A failed statement is undone, the changes of its function included.
    let failed = "insert into t select 20, bump(1) / 0";
    assert_eq!(run(&mut session, failed), "error 22012: division by zero");
    assert_eq!(run(&mut session, "select v from t where id = 1"), "6");
}

#[test]
fn what_is_not_there_is_refused_by_name() {
    let (_database, mut session) = session(&[
        TABLE,
        "create table r (t int references t)",
        "create function i(a int) returns int immutable language sql as 'select a'",
    ]);
    for (statement, refused) in [
        ("create function f() returns int return 1", "a function's body as RETURN or BEGIN ATOMIC"),
        (
            "create function f() returns int begin atomic select 1; end",
            "a function's body as RETURN or BEGIN ATOMIC",
        ),
        (
            "create function f() returns void language sql as 'create table x ()'",
            "a statement other than a query in a function's body",
        ),
        (
            "create function f() returns record language sql as 'select 1, 2'",
            "a function that returns record",
        ),
        (
            "create function f() returns int language sql security definer as 'select 1'",
            "SECURITY DEFINER",
        ),
        ("create procedure f() language sql as 'select 1'", "CREATE PROCEDURE"),
        ("create index on t (i(v))", "a function of a user in index expression"),
        (
            "create table g (a int, b int generated always as (i(a)) stored)",
            "a function of a user in a column generation expression",
        ),
    ] {
        let found = run(&mut session, statement);
        assert!(found.starts_with("error 0A000"), "{statement}: {found}");
        assert!(found.contains(refused), "{statement}: {found}");
    }
}

/// A foreign key's action may fire a trigger that calls a function that does the same again.
#[test]
fn changes_without_end_are_stopped() {
    let (_database, mut session) = session(&[
        "create table a (id int primary key)",
        "create table b (id int references a on delete set null, x int)",
        "create sequence s",
        "insert into a values (0)",
        "insert into b values (0, 0)",
        "create function f() returns int language sql as 'insert into a select nextval(''s''); \
         insert into b (id) values (currval(''s'')); delete from a where id = currval(''s''); select 1'",
        "create function t() returns trigger language plpgsql as 'begin new.x := f(); return new; end'",
        "create trigger t before update on b for each row execute function t()",
    ]);
    let found = run(&mut session, "delete from a where id = 0");
    assert!(found.starts_with("error 54001: stack depth limit exceeded"), "{found}");
    assert_eq!(run(&mut session, "select count(*) from a, b"), "1");
}
