//! Features of PostgreSQL that Niwaki lacks are refused as unsupported. Features of neither are
//! unknown.

mod common;

use common::run;
use niwaki::Database;

#[test]
fn what_postgresql_has_is_not_supported_yet() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = database.session();
    let refused = [
        ("select numrange(1, 2)", "function numrange"),
        ("select pg_catalog.to_tsvector('a')", "function pg_catalog.to_tsvector"),
        ("select float4send(1::float4)", "function float4send"),
        ("select xpath('/a', null)", "function xpath"),
        ("select null::nummultirange", "type nummultirange"),
        ("select null::pg_catalog.txid_snapshot", "type txid_snapshot"),
        ("create table t (x macaddr8)", "type macaddr8"),
        ("update pg_class set relname = 'x'", "changing the system catalog (\"pg_class\")"),
        (
            "merge into t using t s on true when not matched by source then delete",
            "WHEN NOT MATCHED BY SOURCE",
        ),
        ("set role pg_monitor", "SET ROLE \"pg_monitor\""),
        ("set session authorization pg_monitor", "SET SESSION AUTHORIZATION \"pg_monitor\""),
        ("set standard_conforming_strings = off", "standard_conforming_strings \"off\""),
    ];
    for (sql, what) in refused {
        let answer = run(&mut session, sql);
        assert_eq!(answer, format!("error 0A000: {what} is not supported yet"), "{sql}");
    }
}

#[test]
fn what_nobody_has_is_unknown() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = database.session();
    let unknown = [
        ("select no_such_function(1)", "error 42883"),
        ("select other.numrange(1, 2)", "error 3F000"),
        ("select sum('a'::text)", "error 42883"),
        ("select row_number(1) over ()", "error 42883"),
        ("select lower(1, 2, 3)", "error 42883"),
        ("select int4('a', 'b')", "error 42883"),
        ("select null::no_such_type", "error 42704"),
        ("create table t (x no_such_type)", "error 42704"),
    ];
    for (sql, code) in unknown {
        let answer = run(&mut session, sql);
        assert!(answer.starts_with(code), "{sql}: {answer}");
    }
}

#[test]
fn what_a_user_makes_of_such_a_name_is_found() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = database.session();
    let mut run = |sql: &str| run(&mut session, sql);
    assert_eq!(
        run("create function numrange(int) returns int language sql as 'select $1 + 1'"),
        ""
    );
    assert_eq!(run("select numrange(1)"), "2");
    assert_eq!(run("create table polygon (center int)"), "");
    assert_eq!(run("insert into polygon values (7)"), "");
    assert_eq!(run("select center(polygon), polygon from polygon"), "7|(7)");
}
