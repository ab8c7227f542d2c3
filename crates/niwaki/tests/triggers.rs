//! Row triggers across statements: contexts of errors, COPY, waits for rows, prepared statements,
//! an indexed column that a trigger sets, and refused statements.

mod common;
#[path = "common/waiting.rs"]
mod waiting;

use common::{Lines, run};
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

/// Replaces the function `f`.
fn body(session: &mut Session, body: &str) {
    let sql = format!(
        "create or replace function f() returns trigger language plpgsql as $x$\nbegin\n{body}\nend\n$x$"
    );
    assert_eq!(run(session, &sql), "", "{body}");
}

const FUNCTION: &str =
    "create function f() returns trigger language plpgsql as 'begin return new; end'";

#[test]
fn errors_say_where_they_happened() {
    let (_database, mut session) =
        session(&["create table t (id int primary key, a int)", FUNCTION]);
    let trigger = "create trigger r before insert on t for each row execute function f()";
    assert_eq!(run(&mut session, trigger), "");
    let insert = "insert into t values (1, 2)";
    // These are PostgreSQL 15's contexts.
    for (text, context) in [
        (
            "  new.a := 1/0 ;\n  return new;",
            "PL/pgSQL assignment \"new.a := 1/0\"\nPL/pgSQL function f() line 3 at assignment",
        ),
        (
            "\n  NEW.nosuch = 1;",
            "PL/pgSQL assignment \"NEW.nosuch = 1\"\nPL/pgSQL function f() line 4 at assignment",
        ),
        ("new.a := 'abc';", "PL/pgSQL function f() line 3 at assignment"),
        ("new.a := b;", "PL/pgSQL function f() line 3 at assignment"),
        ("new.a := 5;", "PL/pgSQL function f()"),
    ] {
        body(&mut session, text);
        let error = session.execute(insert, ()).unwrap_err();
        assert_eq!(error.context.as_deref(), Some(context), "{text}");
        assert_eq!(error.position, None, "{text}");
    }
    // A faulty statement is reported only when it is reached.
    body(&mut session, "return null; new.nosuch := 1;");
    assert_eq!(session.execute(insert, ()).unwrap(), 0);
}

#[test]
fn copy_fires_triggers_for_each_line() {
    let (_database, mut session) = session(&[
        "create table t (id int primary key, a int, twice int generated always as (a * 2) stored)",
        FUNCTION,
        "create trigger r before insert on t for each row when (new.id <> 3) execute function f()",
    ]);
    body(&mut session, "new.a := 10 / new.a; return new;");
    let mut copy = |input: &str| {
        let mut lines = Lines::default();
        lines.copy = input.as_bytes().to_vec();
        let result = session.simple_query("copy t from stdin", &mut lines);
        if result.is_err() {
            session.error();
        }
        (result, run(&mut session, "select * from t order by id"))
    };
    let (result, found) = copy("1\t5\n2\t0\n");
    let error = result.unwrap_err();
    assert_eq!(error.sqlstate, "22012");
    assert_eq!(
        error.context.as_deref(),
        Some(
            "PL/pgSQL assignment \"new.a := 10 / new.a\"\n\
             PL/pgSQL function f() line 3 at assignment\n\
             COPY t, line 2: \"2\t0\""
        )
    );
    assert_eq!(found, "");
    let (result, found) = copy("1\t5\n3\t0\n4\t2\n");
    result.unwrap();
    assert_eq!(found, "1|2|4\n3|0|0\n4|5|10");
}

/// Creates a table with one row, whose trigger has this condition.
fn one_row(condition: &str) -> (Database, Session, Session) {
    let trigger = format!(
        "create trigger r before update or delete on t for each row {condition} execute function f()"
    );
    let (database, session) = session(&[
        "create table t (id int primary key, v int, w int)",
        "insert into t values (1, 10, 0)",
        FUNCTION,
        &trigger,
    ]);
    let other = database.session();
    (database, session, other)
}

/// Creates a trigger that skips the change from 10 to 11.
fn session_pair() -> (Database, Session, Session) {
    let (database, mut a, b) = one_row("");
    let trigger = "create or replace trigger r before update on t for each row \
        when (old.v = 10 and new.v = 11) execute function f()";
    assert_eq!(run(&mut a, trigger), "");
    body(&mut a, "return null;");
    (database, a, b)
}

const PLUS_ONE: &str = "update t set v = v + 1 where id = 1 returning *";

#[test]
fn triggers_see_the_newest_version_of_a_row_that_was_waited_for() {
    let (database, mut a, b) = one_row("");
    body(&mut a, "new.w := old.v + new.v; return new;");
    assert_eq!(run(&mut a, "begin; update t set v = 100 returning w"), "110");
    let (found, b) = blocked_until(&database, &mut a, "commit", b, PLUS_ONE);
    assert_eq!(found, "1|101|201");
    // The same, but not by the row's key.
    assert_eq!(run(&mut a, "begin; update t set v = 200 returning w"), "301");
    let (found, _) =
        blocked_until(&database, &mut a, "commit", b, "update t set v = v + 1 returning *");
    assert_eq!(found, "1|201|401");
}

#[test]
fn a_trigger_that_fails_for_a_version_that_is_no_more_is_fired_again() {
    let (database, mut a, mut b) = one_row("");
    body(&mut a, "new.w := 1 / (new.v - 11); return new;");
    assert_eq!(run(&mut b, PLUS_ONE), "error 22012: division by zero");
    assert_eq!(run(&mut a, "begin; update t set v = 13"), "");
    let (found, b) = blocked_until(&database, &mut a, "commit", b, PLUS_ONE);
    assert_eq!(found, "1|14|0");
    // The trigger fails for the newest version.
    assert_eq!(run(&mut a, "begin; update t set v = 10"), "");
    let (found, _) = blocked_until(&database, &mut a, "commit", b, PLUS_ONE);
    assert_eq!(found, "error 22012: division by zero");
}

#[test]
fn a_row_that_would_be_left_out_is_judged_again() {
    let (database, mut a, mut b) = session_pair();
    assert_eq!(run(&mut b, PLUS_ONE), "");
    assert_eq!(run(&mut a, "begin; update t set v = 20"), "");
    let (found, mut b) = blocked_until(&database, &mut a, "commit", b, PLUS_ONE);
    assert_eq!(found, "1|21|0");
    // The trigger skips the newest version.
    assert_eq!(run(&mut a, "begin; update t set v = 10"), "");
    let (found, waited) = blocked_until(&database, &mut a, "commit", b, PLUS_ONE);
    assert_eq!(found, "");
    b = waited;
    assert_eq!(run(&mut b, "select v from t"), "10");
    // REPEATABLE READ does not see that version.
    run(&mut b, "begin isolation level repeatable read; select v from t");
    assert_eq!(run(&mut a, "update t set v = 20"), "");
    assert_eq!(
        run(&mut b, PLUS_ONE),
        "error 40001: could not serialize access due to concurrent update"
    );
    run(&mut b, "rollback");
}

#[test]
fn prepared_statements_follow_their_triggers() {
    let (database, mut a) = session(&["create table t (id int primary key, v int)", FUNCTION]);
    let mut b = database.session();
    assert_eq!(run(&mut b, "prepare i (int) as insert into t values ($1, 0) returning v"), "");
    assert_eq!(run(&mut b, "execute i (1)"), "0");
    body(&mut a, "new.v := 5; return new;");
    let trigger = "create trigger r before insert on t for each row execute function f()";
    assert_eq!(run(&mut a, trigger), "");
    assert_eq!(run(&mut b, "execute i (2)"), "5");
    body(&mut a, "new.v := 6; return new;");
    assert_eq!(run(&mut b, "execute i (3)"), "6");
    assert_eq!(run(&mut a, "drop function f() cascade"), "");
    assert_eq!(run(&mut b, "execute i (4)"), "0");
    // The statement waits for the uncommitted definition of another transaction.
    let function = "create function f() returns trigger language plpgsql as 'begin new.v := 9; return new; end'";
    assert_eq!(run(&mut a, function), "");
    assert_eq!(run(&mut a, &format!("begin; {trigger}")), "");
    let (found, _) = blocked_until(&database, &mut a, "commit", b, "execute i (5)");
    assert_eq!(found, "9");
}

#[test]
fn an_indexed_column_that_a_trigger_sets_is_found_by_its_index() {
    let (database, mut session) = session(&[
        "create table t (id int primary key, v int, mtime int, pad text) with (fillfactor = 70)",
        "create index t_mtime on t (mtime)",
        "create index t_part on t (v) where mtime > 1000",
        "create sequence s",
        "insert into t select i, i, 0, repeat('x', 50) from generate_series(1, 200) i",
        FUNCTION,
        "create trigger r before update on t for each row execute function f()",
    ]);
    body(&mut session, "new.mtime := nextval('s'); return new;");
    for round in 0..20 {
        for id in 1..=200 {
            let sql = "update t set v = v + 1 where id = $1";
            assert_eq!(session.execute(sql, (id,)).unwrap(), 1);
        }
        assert_eq!(run(&mut session, "set enable_seqscan = off; set enable_bitmapscan = off"), "");
        let newest = (round + 1) * 200;
        let found = run(&mut session, &format!("select id from t where mtime = {newest}"));
        assert_eq!(found, "200", "round {round}");
        let oldest = format!("select count(*) from t where mtime <= {}", round * 200);
        assert_eq!(run(&mut session, &oldest), "0", "round {round}");
    }
    assert_eq!(run(&mut session, "select count(*) from t where mtime > 1000 and v > 0"), "200");
    assert_eq!(database.check().unwrap().violations, []);
}

#[test]
fn rows_that_wait_for_their_triggers_are_counted() {
    let (_database, mut session) = session(&[
        "create table t (a int, b text)",
        "create function f() returns trigger language plpgsql as 'begin return new; end'",
        "create trigger later after insert on t for each row execute function f()",
    ]);
    let insert = |rows: u32| {
        format!("insert into t select g, repeat('x', 2000) from generate_series(1, {rows}) g")
    };
    assert_eq!(run(&mut session, &insert(1_000)), "");
    let refused = run(&mut session, &insert(40_000));
    assert!(refused.starts_with("error 53200"), "{refused}");
    assert_eq!(run(&mut session, "set work_mem = '128MB'"), "");
    assert_eq!(run(&mut session, &insert(40_000)), "");
    assert_eq!(run(&mut session, "select count(*) from t"), "41000");
}

#[test]
fn definitions_are_of_their_transaction() {
    let (_database, mut session) =
        session(&["create table t (id int primary key, v int)", FUNCTION]);
    body(&mut session, "new.v := 5; return new;");
    let trigger = "create trigger r before insert on t for each row execute function f()";
    let statements = format!(
        "begin; savepoint s; {trigger}; insert into t values (1, 1) returning v; rollback to s; \
         insert into t values (1, 1) returning v; commit"
    );
    assert_eq!(run(&mut session, &statements), "5\n1");
    let statements = format!("begin; {trigger}; drop function f() cascade; rollback");
    assert_eq!(run(&mut session, &statements), "");
    assert_eq!(
        run(&mut session, &format!("{trigger}; insert into t values (2, 1) returning v")),
        "5"
    );
    assert_eq!(
        run(&mut session, "begin read only; drop trigger r on t"),
        "error 25006: cannot execute DROP TRIGGER in a read-only transaction"
    );
    run(&mut session, "rollback");
    // Temporary tables have triggers, too.
    assert_eq!(run(&mut session, "create temp table u (v int)"), "");
    let trigger = "create trigger r before insert on u for each row execute function f()";
    assert_eq!(run(&mut session, &format!("{trigger}; insert into u values (1) returning v")), "5");
    assert_eq!(run(&mut session, "discard temp; drop function f() cascade"), "");
    assert_eq!(run(&mut session, "insert into t values (3, 1) returning v"), "1");
}

#[test]
fn what_is_not_there_is_refused_by_name() {
    let (_database, mut session) = session(&[
        "create table t (id int primary key, v int)",
        "create table c (t int references t)",
        "create view w as select * from t",
        FUNCTION,
    ]);
    for (statement, what) in [
        (
            "create function g() returns int language plpgsql as 'begin return 1; end'",
            "a PL/pgSQL function that is none of triggers",
        ),
        ("create function g() returns int return 1", "a function's body as RETURN or BEGIN ATOMIC"),
        ("create function g() returns trigger language c as 'x', 'y'", "language c of a function"),
        ("create procedure g() language sql as 'select 1'", "CREATE PROCEDURE"),
        (
            "create function g() returns trigger language plpgsql security definer as 'begin return new; end'",
            "SECURITY DEFINER",
        ),
        (
            "create function g() returns trigger language plpgsql set search_path = x as 'begin return new; end'",
            "SET of a function",
        ),
        (
            "create function g() returns trigger language plpgsql as 'begin if new.v > 1 then return new; end if; end'",
            "statement IF in PL/pgSQL",
        ),
        (
            "create trigger r before insert on t execute function f()",
            "a trigger FOR EACH STATEMENT",
        ),
        (
            "create trigger r instead of insert on w for each row execute function f()",
            "an INSTEAD OF trigger",
        ),
        (
            "create constraint trigger r after insert on t for each row execute function f()",
            "CREATE CONSTRAINT TRIGGER",
        ),
        (
            "create trigger r after update on t referencing old table as o for each statement execute function f()",
            "REFERENCING of a trigger",
        ),
        (
            "create trigger r before insert on t for each row execute function tsvector_update_trigger()",
            "function tsvector_update_trigger of a trigger",
        ),
        (
            "alter table t disable trigger all",
            "ENABLE or DISABLE TRIGGER ALL of a table with foreign keys",
        ),
        ("alter function now() rename to g", "changing the built-in function now()"),
    ] {
        let found = run(&mut session, statement);
        let wanted = format!("error 0A000: {what} is not supported yet");
        assert_eq!(found.lines().next(), Some(wanted.as_str()), "{statement}");
    }
    let called = run(&mut session, "select f()");
    assert!(called.starts_with("error 0A000: "), "{called}");
}

/// An action of a foreign key counts as one trigger; its own consequences are no deeper.
#[test]
fn depth_of_triggers() {
    let (_database, mut session) = session(&[
        "create table parent (id int primary key)",
        "create table child (id int primary key, p int unique references parent on update cascade, \
         log text)",
        "create table grandchild (id int primary key, p int references child (p) on update cascade, \
         log text)",
        "create table audit (n int generated always as identity, what text)",
        "create function seen() returns trigger language plpgsql as $$ begin \
         new.log := concat(new.log, ' ', tg_name, pg_trigger_depth()); return new; end $$",
        "create trigger top before update on child for each row when (pg_trigger_depth() = 0) \
         execute function seen()",
        "create trigger below before update on child for each row when (pg_trigger_depth() = 1) \
         execute function seen()",
        "create trigger below before update on grandchild for each row \
         when (pg_trigger_depth() = 1) execute function seen()",
        "create function note(told text) returns int language sql as \
         $$ insert into audit (what) values (told || pg_trigger_depth()) returning n $$",
        "create function noted() returns trigger language plpgsql as \
         $$ begin new.id := note('after '); return new; end $$",
        "create trigger noted after update on child for each row when (pg_trigger_depth() = 1) \
         execute function noted()",
        "insert into parent values (1)",
        "insert into child values (1, 1)",
        "insert into grandchild values (1, 1)",
        "update child set id = 1",
        "update parent set id = 2",
    ]);
    assert_eq!(run(&mut session, "select log from child"), " top1 below2");
    assert_eq!(run(&mut session, "select log from grandchild"), " below2");
    assert_eq!(run(&mut session, "select what from audit"), "after 1");
    assert_eq!(run(&mut session, "select pg_trigger_depth()"), "0");
    for statement in [
        "create table narrow (p int references parent on update cascade, \
         check (pg_trigger_depth() = 0 or p is null))",
        "insert into narrow values (2)",
    ] {
        assert_eq!(run(&mut session, statement), "", "{statement}");
    }
    let refused = run(&mut session, "update parent set id = 3");
    assert!(refused.starts_with("error 23514"), "{refused}");
}
