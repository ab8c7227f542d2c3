//! Domains across statements: COPY, parameters, other sessions, and refused statements.

mod common;

use common::{Lines, run};
use niwaki::{Database, Session};

fn session(statements: &[&str]) -> (Database, Session) {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = database.session();
    for statement in statements {
        assert_eq!(run(&mut session, statement), "", "{statement}");
    }
    (database, session)
}

const POSITIVE: &str = "create domain positive as int default 7 check (value > 0)";

#[test]
fn copy_judges_values_and_fills_defaults() {
    let (_database, mut session) = session(&[POSITIVE, "create table t (id int, n positive)"]);
    let mut copy = |sql: &str, input: &str| {
        let mut lines = Lines::default();
        lines.copy = input.as_bytes().to_vec();
        let result = session.simple_query(sql, &mut lines);
        if result.is_err() {
            session.error();
        }
        let found = run(&mut session, "select id, n from t order by id");
        (result, found)
    };
    let (result, found) = copy("copy t from stdin", "1\t5\n2\t0\n");
    let error = result.unwrap_err();
    assert_eq!(error.sqlstate, "23514");
    assert_eq!(
        error.message,
        "value for domain positive violates check constraint \"positive_check\""
    );
    assert_eq!(error.data_type.as_deref(), Some("positive"));
    assert_eq!(error.schema.as_deref(), Some("public"));
    assert!(
        error.context.as_deref().is_some_and(|text| text.contains("COPY t, line 2")),
        "{error:?}"
    );
    assert_eq!(found, "");
    let (result, found) = copy("copy t from stdin", "1\t5\n2\t\\N\n");
    result.unwrap();
    assert_eq!(found, "1|5\n2|NULL");
    let (result, found) = copy("copy t (id) from stdin", "3\n");
    result.unwrap();
    assert_eq!(found, "1|5\n2|NULL\n3|7");
}

#[test]
fn parameters_are_of_the_domain_and_results_of_its_base_type() {
    let (_database, mut session) = session(&[POSITIVE, "create table t (n positive)"]);
    session.parse("insert", "insert into t values ($1) returning n", &[]).unwrap();
    let described = session.statement("insert").unwrap();
    let domain = described.parameters[0];
    assert!(domain.is_domain(), "{domain:?}");
    let columns = described.columns.clone().unwrap();
    assert_eq!(columns[0].oid(), niwaki::TypeOid::INT4);
    let insert = "insert into t values ($1)";
    session.execute(insert, (5,)).unwrap();
    let error = session.execute(insert, (-5,)).unwrap_err();
    assert_eq!((error.sqlstate, error.constraint.as_deref()), ("23514", Some("positive_check")));
    // A client may give the domain's number for a parameter whose use needs another type.
    session.parse("plus", "select $1 + 1", &[domain.0]).unwrap();
    assert_eq!(session.statement("plus").unwrap().parameters[0], domain);
    assert_eq!(run(&mut session, "execute plus (1)"), "2");
    assert!(run(&mut session, "execute plus (-1)").starts_with("error 23514"));
}

#[test]
fn a_new_constraint_waits_for_writers_and_reaches_prepared_statements() {
    let (database, mut first) = session(&[POSITIVE, "create table t (n positive)"]);
    let mut second = database.session();
    assert_eq!(run(&mut first, "prepare i (int) as insert into t values ($1)"), "");
    assert_eq!(run(&mut first, "execute i (500)"), "");
    assert_eq!(run(&mut first, "delete from t"), "");
    assert_eq!(run(&mut first, "begin; insert into t values (1)"), "");
    let alter = "alter domain positive add constraint small check (value < 100)";
    // The writer may have a value that no other session sees.
    assert_eq!(run(&mut second, "set lock_timeout = '20ms'"), "");
    assert!(run(&mut second, alter).starts_with("error 55P03"));
    assert_eq!(run(&mut first, "insert into t values (500); commit"), "");
    assert!(run(&mut second, alter).starts_with("error 23514: column \"n\" of table \"t\""));
    assert_eq!(run(&mut first, "delete from t"), "");
    assert_eq!(run(&mut second, alter), "");
    let refused = run(&mut first, "execute i (500)");
    assert!(refused.starts_with("error 23514: value for domain positive"), "{refused}");
    assert_eq!(run(&mut first, "execute i (50)"), "");
    assert_eq!(run(&mut first, "select n from t"), "50");
}

#[test]
fn what_is_not_there_is_refused_by_name() {
    let (_database, mut session) = session(&[
        POSITIVE,
        "create table t (id int, n positive)",
        "create domain other as int check (value::positive < 5)",
    ]);
    let refused = [
        ("create table a (n positive[])", "an array of a domain"),
        ("create domain a as positive[]", "an array of a domain"),
        ("select '{1}'::positive[]", "an array of a domain"),
        ("create index on t ((id::positive))", "a cast to a domain in index expression"),
        (
            "create table g (a int, b int generated always as (a::positive + 1) stored)",
            "a cast to a domain in a column generation expression",
        ),
        (
            "alter domain positive add check (value::positive > 0)",
            "a domain whose constraints use the domain itself",
        ),
        (
            "alter domain positive add check (value::other > 0)",
            "a domain whose constraints use the domain itself",
        ),
    ];
    for (statement, what) in refused {
        let expected = format!("error 0A000: {what} is not supported yet");
        assert_eq!(run(&mut session, statement), expected, "{statement}");
    }
}

#[test]
fn spilled_and_batched_values_are_judged_as_others() {
    let (_database, mut session) = session(&[
        POSITIVE,
        "create domain small as bigint check (value < 2500)",
        "create table t (id int, n positive)",
        "insert into t select g, g from generate_series(1, 3000) g",
        "set work_mem = '64kB'",
    ]);
    let sum = "select count(*), sum(id::positive), count(distinct n), max(n::int - 1) from t";
    assert_eq!(run(&mut session, sum), "3000|4501500|3000|2999");
    let error = run(&mut session, "select sum(n::small) from t");
    assert!(error.starts_with("error 23514: value for domain small"), "{error}");
    let guarded = "select sum(n::small) from t where n < 10";
    assert_eq!(run(&mut session, guarded), "45");
    let cased = "select sum(case when n < 10 then n::small end) from t";
    assert_eq!(run(&mut session, cased), "45");
    let sorted = "select n from t order by n desc limit 1";
    assert_eq!(run(&mut session, sorted), "3000");
}

/// A dump had the text of an earlier check for a table's check 1,601, as both had one
/// `pg_constraint.oid`. No table or domain gets more than 1,600 checks now.
#[test]
fn each_check_has_a_number_of_its_own() {
    const MOST: usize = 1600;
    let (_database, mut session) = session(&[]);
    let checks = |of: &str, count: usize, between: &str| {
        let checks = (1..=count).map(|n| format!("constraint c{n} check ({of} > -{n})"));
        checks.collect::<Vec<_>>().join(between)
    };
    let table = format!("create table t (a int, {})", checks("a", MOST, ", "));
    assert_eq!(run(&mut session, &table), "");
    let numbers = "select count(*), count(distinct oid) from pg_constraint where contype = 'c'";
    assert_eq!(run(&mut session, numbers), "1600|1600");
    let more = "alter table t add constraint more check (a > 0)";
    let error = "error 54000: table \"t\" cannot have more than 1600 check constraints";
    assert_eq!(run(&mut session, more), error);
    assert_eq!(run(&mut session, "alter table t drop constraint c1"), "");
    assert_eq!(run(&mut session, more), "");
    let domain = format!("create domain d as int {}", checks("value", MOST + 1, " "));
    let error = "error 54000: domain \"d\" cannot have more than 1600 check constraints";
    assert_eq!(run(&mut session, &domain), error);
}
