//! Features of PostgreSQL that Niwaki lacks are refused as unsupported. Features of neither are
//! unknown.

mod common;

use common::run;
use niwaki::{Database, TextSettings, TypeOid};
use niwaki_types::{ColumnType, InputContext};

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

/// A user saw `statement DEFINE is not supported yet`: the parser's word for the statement.
#[test]
#[expect(clippy::too_many_lines, reason = "one table of statements")]
fn refused_statements_have_the_names_that_users_write() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = database.session();
    assert_eq!(run(&mut session, "create table t (a int primary key)"), "");
    assert_eq!(run(&mut session, "create materialized view m as select 1 as a"), "");
    let refused = [
        ("create aggregate a (int) (sfunc = int4pl, stype = int)", "CREATE AGGREGATE"),
        ("create operator === (function = int4eq, leftarg = int)", "CREATE OPERATOR"),
        ("create type t (input = a, output = b)", "CREATE TYPE of a base type"),
        ("create type t as range (subtype = int)", "CREATE TYPE AS RANGE"),
        ("create collation c (locale = 'C')", "CREATE COLLATION"),
        ("create text search parser p (start = a)", "CREATE TEXT SEARCH PARSER"),
        ("create text search dictionary d (template = t)", "CREATE TEXT SEARCH DICTIONARY"),
        ("create text search template t (lexize = a)", "CREATE TEXT SEARCH TEMPLATE"),
        ("create text search configuration c (parser = p)", "CREATE TEXT SEARCH CONFIGURATION"),
        ("create access method a type table handler h", "CREATE ACCESS METHOD"),
        (
            "create operator class c for type int using btree as operator 1 <",
            "CREATE OPERATOR CLASS",
        ),
        ("create operator family f using btree", "CREATE OPERATOR FAMILY"),
        ("create cast (int as text) without function", "CREATE CAST"),
        ("create conversion c for 'UTF8' to 'LATIN1' from f", "CREATE CONVERSION"),
        ("create event trigger e on sql_drop execute function f()", "CREATE EVENT TRIGGER"),
        ("create foreign data wrapper w", "CREATE FOREIGN DATA WRAPPER"),
        ("create server s foreign data wrapper w", "CREATE SERVER"),
        ("create foreign table f (a int) server s", "CREATE FOREIGN TABLE"),
        ("create user mapping for postgres server s", "CREATE USER MAPPING"),
        ("create language l handler h", "CREATE LANGUAGE"),
        ("create policy p on t", "CREATE POLICY"),
        ("create publication p", "CREATE PUBLICATION"),
        ("create subscription s connection '' publication p", "CREATE SUBSCRIPTION"),
        ("create role r", "CREATE ROLE"),
        ("create user r", "CREATE USER"),
        ("create group r", "CREATE GROUP"),
        ("create rule r as on insert to t do nothing", "CREATE RULE"),
        ("create statistics s on a, a from t", "CREATE STATISTICS"),
        ("create tablespace s location '/x'", "CREATE TABLESPACE"),
        ("create transform for int language sql (from sql with function f())", "CREATE TRANSFORM"),
        ("alter collation c refresh version", "ALTER COLLATION"),
        ("alter default privileges grant select on tables to postgres", "ALTER DEFAULT PRIVILEGES"),
        ("alter event trigger e disable", "ALTER EVENT TRIGGER"),
        ("alter extension plpgsql update", "ALTER EXTENSION UPDATE"),
        ("alter extension plpgsql add table t", "ALTER EXTENSION ADD"),
        ("alter extension plpgsql drop table t", "ALTER EXTENSION DROP"),
        ("alter foreign data wrapper w options (a 'b')", "ALTER FOREIGN DATA WRAPPER"),
        ("alter server s version 'a'", "ALTER SERVER"),
        ("alter foreign table f add column b int", "ALTER FOREIGN TABLE"),
        ("alter function f() depends on extension e", "ALTER FUNCTION DEPENDS ON EXTENSION"),
        ("alter operator family f using btree drop operator 1 (int, int)", "ALTER OPERATOR FAMILY"),
        ("alter operator = (int, int) set (restrict = none)", "ALTER OPERATOR"),
        ("alter policy p on t to public", "ALTER POLICY"),
        ("alter publication p add table t", "ALTER PUBLICATION"),
        ("alter role postgres set work_mem = 1", "ALTER ROLE SET"),
        ("alter role postgres superuser", "ALTER ROLE"),
        ("alter role r rename to s", "ALTER ROLE RENAME"),
        ("alter statistics s set statistics 5", "ALTER STATISTICS"),
        ("alter subscription s disable", "ALTER SUBSCRIPTION"),
        ("alter system set work_mem = 1", "ALTER SYSTEM"),
        ("alter tablespace pg_default set (seq_page_cost = 1)", "ALTER TABLESPACE"),
        ("alter tablespace pg_default rename to s", "ALTER TABLESPACE RENAME"),
        ("alter tablespace pg_default owner to postgres", "ALTER TABLESPACE OWNER TO"),
        ("alter text search dictionary d (a = b)", "ALTER TEXT SEARCH DICTIONARY"),
        ("alter text search configuration c drop mapping for a", "ALTER TEXT SEARCH CONFIGURATION"),
        ("alter text search parser p set schema public", "ALTER TEXT SEARCH PARSER SET SCHEMA"),
        ("alter type int set (storage = plain)", "ALTER TYPE SET"),
        ("alter user mapping for postgres server s options (a 'b')", "ALTER USER MAPPING"),
        ("alter procedure p() reset all", "ALTER PROCEDURE"),
        ("alter aggregate a (int) rename to b", "ALTER AGGREGATE RENAME"),
        ("alter table t of u", "ALTER TABLE OF"),
        ("alter table t not of", "ALTER TABLE NOT OF"),
        ("alter table t inherit u", "ALTER TABLE INHERIT"),
        ("alter table t no inherit u", "ALTER TABLE NO INHERIT"),
        ("alter table t cluster on t_pkey", "ALTER TABLE CLUSTER ON"),
        ("alter table t set logged", "ALTER TABLE SET LOGGED"),
        ("alter table t set unlogged", "ALTER TABLE SET UNLOGGED"),
        ("alter table t set access method heap", "ALTER TABLE SET ACCESS METHOD"),
        ("alter table t replica identity full", "ALTER TABLE REPLICA IDENTITY"),
        ("alter table t enable row level security", "ALTER TABLE ENABLE ROW LEVEL SECURITY"),
        ("alter table t disable row level security", "ALTER TABLE DISABLE ROW LEVEL SECURITY"),
        ("alter table t force row level security", "ALTER TABLE FORCE ROW LEVEL SECURITY"),
        ("alter table t no force row level security", "ALTER TABLE NO FORCE ROW LEVEL SECURITY"),
        ("alter table t enable rule r", "ALTER TABLE ENABLE RULE"),
        ("alter table t enable always rule r", "ALTER TABLE ENABLE ALWAYS RULE"),
        ("alter table t enable replica rule r", "ALTER TABLE ENABLE REPLICA RULE"),
        ("alter table t disable rule r", "ALTER TABLE DISABLE RULE"),
        ("drop access method a", "DROP ACCESS METHOD"),
        ("drop aggregate a (int)", "DROP AGGREGATE"),
        ("drop operator = (int, int)", "DROP OPERATOR"),
        ("drop operator class c using btree", "DROP OPERATOR CLASS"),
        ("drop text search parser p", "DROP TEXT SEARCH PARSER"),
        ("drop foreign data wrapper w", "DROP FOREIGN DATA WRAPPER"),
        ("drop server s", "DROP SERVER"),
        ("drop procedure p()", "DROP PROCEDURE"),
        ("drop statistics s", "DROP STATISTICS"),
        ("drop owned by postgres", "DROP OWNED"),
        ("drop role r", "DROP ROLE"),
        ("drop tablespace s", "DROP TABLESPACE"),
        ("drop user mapping for postgres server s", "DROP USER MAPPING"),
        ("comment on operator class c using btree is 'x'", "COMMENT ON OPERATOR CLASS"),
        ("comment on procedure p() is 'x'", "COMMENT ON PROCEDURE"),
        ("security label on table t is 'x'", "SECURITY LABEL"),
        ("grant select on t to postgres", "GRANT"),
        ("revoke select on t from postgres", "REVOKE"),
        ("grant a to b", "GRANT"),
        ("revoke a from b", "REVOKE"),
        ("reassign owned by postgres to postgres", "REASSIGN OWNED"),
        ("import foreign schema a from server s into public", "IMPORT FOREIGN SCHEMA"),
        ("load 'x'", "LOAD"),
        ("call p()", "CALL"),
        ("do 'begin end'", "DO"),
        ("cluster t", "CLUSTER"),
        ("commit prepared 'x'", "COMMIT PREPARED"),
        ("rollback prepared 'x'", "ROLLBACK PREPARED"),
        ("explain declare c cursor for select 1", "EXPLAIN of DECLARE CURSOR"),
        ("explain refresh materialized view m", "EXPLAIN of REFRESH MATERIALIZED VIEW"),
        (
            "explain analyze create materialized view n as select 1",
            "EXPLAIN ANALYZE of CREATE MATERIALIZED VIEW",
        ),
    ];
    let mut wrong = Vec::new();
    for (sql, what) in refused {
        let answer = run(&mut session, sql);
        if answer != format!("error 0A000: {what} is not supported yet") {
            wrong.push(format!("{sql}: {answer}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A user saw `reading a value of type oid 869`.
#[test]
fn parameters_of_absent_types_are_refused_by_the_type() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = database.session();
    let text = TextSettings::default();
    let given = InputContext { settings: &text, now: 0 };
    let types = [(869, "inet"), (651, "cidr[]"), (790, "money"), (3904, "int4range")];
    for (number, name) in types {
        session.parse("", "select $1", &[number]).unwrap();
        let mut value =
            |_, kind: TypeOid| Ok(niwaki_types::input(ColumnType::new(kind), "1", &given)?);
        let refused = session.bind("", "", &mut value, 1).unwrap_err();
        assert_eq!(refused.sqlstate, "0A000");
        assert_eq!(refused.message, format!("type {name} is not supported yet"));
        session.error();
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
