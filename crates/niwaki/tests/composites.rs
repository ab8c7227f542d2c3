//! Composite types across statements: COPY, parameters, other sessions, reopened data directories,
//! and refused statements.

mod common;

use std::sync::Arc;

use common::{Lines, run};
use niwaki::{Database, Options, Session};
use niwaki_env::Env;
use niwaki_env::vfs::{MemoryVfs, Vfs};

const PAIR: &str = "create type pair as (a int, b text)";

fn session(statements: &[&str]) -> (Database, Session) {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = database.session();
    for statement in statements {
        assert_eq!(run(&mut session, statement), "", "{statement}");
    }
    (database, session)
}

#[test]
fn copy_reads_values() {
    let (_database, mut session) = session(&[PAIR, "create table t (id int, p pair)"]);
    let mut lines = Lines::default();
    lines.copy = b"1\t(1,\"a b\")\n2\t\\N\n3\t(,\"x\\\\\\\\y\")\n".to_vec();
    session.simple_query("copy t from stdin", &mut lines).unwrap();
    let found = run(&mut session, "select id, p, (p).b from t order by id");
    assert_eq!(found, "1|(1,\"a b\")|a b\n2|NULL|NULL\n3|(,\"x\\\\y\")|x\\y");
    lines.copy = b"4\t(1)\n".to_vec();
    let error = session.simple_query("copy t from stdin", &mut lines).unwrap_err();
    session.error();
    assert_eq!(error.sqlstate, "22P02");
    assert_eq!(error.detail.as_deref(), Some("Too few columns."));
}

#[test]
fn parameters_and_results_are_of_the_type() {
    let (_database, mut session) = session(&[PAIR, "create table t (id int, p pair)"]);
    session.parse("insert", "insert into t values ($1, $2) returning p, (p).a", &[]).unwrap();
    let described = session.statement("insert").unwrap();
    let pair = described.parameters[1];
    assert!(pair.is_composite(), "{pair:?}");
    let columns = described.columns.clone().unwrap();
    assert_eq!((columns[0].oid(), columns[1].oid()), (pair, niwaki::TypeOid::INT4));
    session.parse("row", "select t, row(1, 2) from t", &[]).unwrap();
    let columns = session.statement("row").unwrap().columns.clone().unwrap();
    assert!(columns[0].oid().is_composite() && columns[0].oid() != pair);
    assert_eq!(columns[1].oid(), niwaki::TypeOid::RECORD);
}

#[test]
fn values_are_there_after_a_restart() {
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    let open = || {
        let env = Env { vfs: Arc::clone(&vfs), ..Env::memory() };
        Database::open_with(env, Options::new().small_files(true)).unwrap()
    };
    let database = open();
    let mut session = database.session();
    for statement in [
        PAIR,
        "create type outer_pair as (p pair, ps pair[])",
        "create table t (id int primary key, p pair, o outer_pair, long pair, unique (p))",
        "insert into t values (1, '(1,x)', row(row(2, 'y'), '{}'), null), (2, null, null, null)",
        "alter table t add column more pair default '(7,seven)'",
        "insert into t select n, row(n, 'n')::pair, null, row(n, repeat('long ', 5000))::pair from generate_series(3, 40) n",
        "update t set p.b = 'changed' where id = 4",
        "analyze t",
    ] {
        assert_eq!(run(&mut session, statement), "", "{statement}");
    }
    let shown =
        "select id, (p).a, (p).b, o, (o).p.b, more, length((long).b), (long).a from t order by id";
    let before = run(&mut session, shown);
    assert!(before.starts_with("1|1|x|(\"(2,y)\",{})|y|(7,seven)|NULL|NULL\n2|NULL|"), "{before}");
    drop(session);
    drop(database);
    let database = open();
    let mut session = database.session();
    assert_eq!(run(&mut session, shown), before);
    assert_eq!(run(&mut session, "select id from t where p = '(1,x)'::pair"), "1");
    let again = run(&mut session, "insert into t values (50, '(1,x)')");
    assert!(again.starts_with("error 23505"), "{again}");
    let report = database.check().unwrap();
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
}

#[test]
fn a_type_is_not_dropped_under_a_table_that_is_being_made() {
    let (database, mut first) = session(&[PAIR]);
    let mut second = database.session();
    assert_eq!(run(&mut first, "begin; create table t (p pair)"), "");
    assert_eq!(run(&mut second, "set lock_timeout = '20ms'"), "");
    assert!(run(&mut second, "drop type pair").starts_with("error 55P03"));
    assert_eq!(run(&mut first, "commit"), "");
    assert!(run(&mut second, "drop type pair").starts_with("error 2BP01"));
}

#[test]
fn what_is_not_there_is_refused_by_name() {
    let (_database, mut session) = session(&[
        PAIR,
        "create type holds as (p pair)",
        "create domain positive as int check (value > 0)",
        "create table t (id int, p pair)",
        "create view v as select id from t",
    ]);
    let refused = [
        ("create type a as (x positive)", "an attribute of a domain"),
        ("create domain a as pair", "a domain over a composite type"),
        ("create domain a as pair[]", "a domain over a composite type"),
        ("create table a (x t)", "a column of the type of a relation's rows"),
        ("create type a as (x t)", "a column of the type of a relation's rows"),
        ("alter type pair add attribute c int", "ALTER TYPE with ADD, DROP or ALTER ATTRIBUTE"),
        ("alter type pair drop attribute b", "ALTER TYPE with ADD, DROP or ALTER ATTRIBUTE"),
        ("alter type pair rename attribute a to c", "ALTER TYPE RENAME ATTRIBUTE"),
        ("drop type pair cascade", "CASCADE that takes an attribute from a composite type"),
        (
            "create index on t (((p).a))",
            "fields of a composite value in an index or a generated column",
        ),
        (
            "create table g (p pair, a int generated always as ((p).a) stored)",
            "fields of a composite value in an index or a generated column",
        ),
        ("alter table t add check (t is not null)", "a whole row in a stored expression"),
        (
            "create view w as select row_to_json(t) from t",
            "a whole row of a table or view in a view",
        ),
        ("create view w as select t from t", "a view's column of the type of a relation's rows"),
        (
            "create view w as select null::t::text",
            "the type of a relation's rows in what is stored",
        ),
        (
            "select x from t left join (select 1 as id) x using (id)",
            "the row of a query, view or function that an outer join may make up",
        ),
        (
            "select v from t left join v using (id)",
            "the row of a query, view or function that an outer join may make up",
        ),
        ("update t set p.a[1] = 2", "assignment to a part of a field of a column"),
        ("select row('t'::regclass)", "a field of type regclass in a row"),
        (
            "select '(1,x)'::t",
            "reading a composite value where the attributes of its type are not known",
        ),
    ];
    for (statement, what) in refused {
        let expected = format!("error 0A000: {what} is not supported yet");
        let found = run(&mut session, statement);
        let first = found.lines().next().unwrap_or_default();
        assert!(
            first == expected || first == format!("error 0A000: {what}"),
            "{statement}: {found}"
        );
    }
    assert_eq!(
        run(&mut session, "select row(1, '(2,x)')::t, (row(1, '(2,x)')::t).p.b"),
        "(1,\"(2,x)\")|x"
    );
}
