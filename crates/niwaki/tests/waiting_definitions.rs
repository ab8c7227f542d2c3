//! Defining statements that wait: what they do when the name means something else afterwards, and
//! in which order they lock.

mod common;
#[path = "common/waiting.rs"]
mod waiting;

use common::run;
use niwaki::{Database, Session};
use niwaki_env::sync::thread;
use waiting::blocked_until;

/// Two sessions of a database that has been set up.
fn sessions(setup: &str) -> (Database, Session, Session) {
    let database = Database::in_memory_without_threads().unwrap();
    let (mut first, second) = (database.session(), database.session());
    assert_eq!(run(&mut first, setup), "");
    (database, first, second)
}

/// Waits until a session waits for another one.
fn until_blocked(database: &Database, waiting: i32) {
    let mut watcher = database.session();
    let question = format!("select cardinality(pg_blocking_pids({waiting})) > 0");
    // Ends: the session waits soon, or the test's own time limit strikes.
    while run(&mut watcher, &question) != "t" {
        thread::yield_now();
    }
}

const INDEX: &str = "create table t1 (a int); create table t2 (a int); create index i on t1 (a)";
const REPLACE_INDEX: &str = "begin; drop index i; create index i on t2 (a)";

/// It rebuilt the index that had the name by then, with the other one's table locked.
#[test]
fn reindex_locks_the_table_of_the_index_that_it_rebuilds() {
    let (database, mut a, b) = sessions(INDEX);
    assert_eq!(run(&mut a, REPLACE_INDEX), "");
    let reindex = "begin; reindex index i; select mode from pg_locks \
                   where relation = 't2'::regclass and mode <> 'AccessShareLock' order by mode";
    let (found, mut b) = blocked_until(&database, &mut a, "commit", b, reindex);
    assert_eq!(found, "AccessExclusiveLock\nShareRowExclusiveLock");
    assert_eq!(run(&mut b, "commit"), "");
    let report = database.check().unwrap();
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
}

/// It said that all was well, and had rebuilt nothing.
#[test]
fn reindex_concurrently_rebuilds_the_index_that_has_the_name() {
    let (database, mut a, b) = sessions(INDEX);
    assert_eq!(run(&mut a, REPLACE_INDEX), "");
    let file = "select relfilenode from pg_class where relname = 'i'";
    let before = run(&mut a, file);
    let reindex = "reindex index concurrently i";
    let (found, _) = blocked_until(&database, &mut a, "commit", b, reindex);
    assert_eq!(found, "");
    assert_ne!(run(&mut a, file), before);
}

/// RENAME locked the index before its table.
#[test]
fn an_index_is_renamed_under_the_lock_of_its_table() {
    let (database, mut a, b) = sessions("create table t (a int); create index i on t (a)");
    assert_eq!(run(&mut a, "begin; lock table t"), "");
    let rename = "alter index i rename to j";
    let (found, _) = blocked_until(&database, &mut a, "drop index i; commit", b, rename);
    assert_eq!(found, "error 42P01: relation \"i\" does not exist");
}

/// DROP TABLE locked a partition before the table above it.
#[test]
fn a_partition_is_dropped_under_the_lock_of_the_table_above() {
    let (database, mut a, b) = sessions(
        "create table t (a int) partition by list (a); \
         create table p partition of t for values in (1)",
    );
    assert_eq!(run(&mut a, "begin; lock table only t"), "");
    let end = "lock table p; commit";
    let (found, mut b) = blocked_until(&database, &mut a, end, b, "drop table p");
    assert_eq!(found, "");
    assert!(run(&mut b, "select * from p").starts_with("error 42P01"));
}

/// It failed with XX000, or replaced the view under the name that it had by then.
#[test]
fn the_view_that_has_the_name_after_the_wait_is_replaced() {
    for change in ["begin; drop view v", "begin; alter view v rename to other"] {
        let (database, mut a, b) = sessions("create view v as select 1 as a");
        assert_eq!(run(&mut a, change), "");
        let replace = "create or replace view v as select 2 as a";
        let (found, mut b) = blocked_until(&database, &mut a, "commit", b, replace);
        assert_eq!(found, "", "{change}");
        assert_eq!(run(&mut b, "select a from v"), "2", "{change}");
    }
}

/// LOCK TABLE locked what the view had read before.
#[test]
fn what_a_view_reads_is_locked_as_it_is_after_the_wait() {
    let (database, mut a, b) = sessions(
        "create table t1 (a int); create table t2 (a int); \
         create view inner_view as select a from t1; \
         create view outer_view as select a from inner_view",
    );
    let replace = "begin; create or replace view inner_view as select a from t2";
    assert_eq!(run(&mut a, replace), "");
    let lock = "begin; lock table outer_view in share mode; \
                select relname from pg_locks join pg_class c on c.oid = relation \
                where mode = 'ShareLock' order by 1";
    let (found, _) = blocked_until(&database, &mut a, "commit", b, lock);
    assert_eq!(found, "inner_view\nouter_view\nt2");
}

/// It failed with XX000, as the table was not there any more.
#[test]
fn truncate_cascade_waits_for_a_table_that_goes() {
    let (database, mut a, b) =
        sessions("create table t (a int primary key); create table refers (a int references t)");
    assert_eq!(run(&mut a, "begin; drop table refers"), "");
    let (found, _) = blocked_until(&database, &mut a, "commit", b, "truncate t cascade");
    assert_eq!(found, "");
}

/// Its rows stayed, and referred to rows that were not there any more.
#[test]
fn truncate_cascade_empties_the_partitions_of_a_table_that_refers() {
    let (_database, mut a, _) = sessions(
        "create table t (a int primary key); insert into t values (1), (2); \
         create table refers (a int references t) partition by list (a); \
         create table refers1 partition of refers for values in (1); \
         create table refers2 partition of refers for values in (2); \
         insert into refers values (1), (2)",
    );
    assert_eq!(run(&mut a, "truncate t cascade; select count(*) from refers"), "0");
}

/// It failed with XX000, as the view was not there any more.
#[test]
fn a_dependent_that_goes_meanwhile_is_not_missed() {
    let (database, mut a, b) = sessions("create table t (a int); create view v as select a from t");
    assert_eq!(run(&mut a, "begin; drop view v"), "");
    let (found, _) = blocked_until(&database, &mut a, "commit", b, "drop table t cascade");
    assert_eq!(found, "");
}

/// The column was looked for by its old name, and stayed without its type.
#[test]
fn a_column_goes_with_its_type_whatever_its_name_is_by_then() {
    let (database, mut a, b) =
        sessions("create domain positive as int; create table t (a int, b positive)");
    assert_eq!(run(&mut a, "begin; alter table t rename column b to c"), "");
    let drop = "drop domain positive cascade";
    let (found, mut b) = blocked_until(&database, &mut a, "commit", b, drop);
    assert_eq!(found, "");
    let left = "select attname from pg_attribute \
                where attrelid = 't'::regclass and attnum > 0 and not attisdropped";
    assert_eq!(run(&mut b, left), "a");
}

/// It failed with XX000, as the table was not there any more.
#[test]
fn a_domain_is_not_proved_on_a_table_that_has_gone() {
    let (database, mut a, b) = sessions(
        "create domain positive as int; create table t (a positive); insert into t values (-1)",
    );
    assert_eq!(run(&mut a, "begin; drop table t"), "");
    let add = "alter domain positive add check (value > 0)";
    let (found, _) = blocked_until(&database, &mut a, "commit", b, add);
    assert_eq!(found, "");
}

/// It failed with XX000, as the table was not there any more.
#[test]
fn a_schema_goes_without_what_was_dropped_meanwhile() {
    let (database, mut a, b) = sessions(
        "create schema s; create table s.t (a serial); create table s.u (a int); \
         create function s.f() returns int language sql as 'select 1'",
    );
    assert_eq!(run(&mut a, "begin; drop table s.t; drop function s.f()"), "");
    let drop = "drop schema s cascade";
    let (found, mut b) = blocked_until(&database, &mut a, "commit", b, drop);
    assert_eq!(found, "");
    assert_eq!(run(&mut b, "select nspname from pg_namespace where nspname = 's'"), "");
}

/// They failed, as another transaction had changed what the catalog says of the index.
#[test]
fn who_changes_a_table_waits_for_who_changes_an_index_of_it() {
    for statement in [
        "truncate t",
        "reindex table t",
        "alter table t alter column a type bigint",
        "alter table t rename constraint t_pkey to other",
        "alter table t set schema s",
        "drop table t",
    ] {
        let (database, mut a, b) = sessions("create schema s; create table t (a int primary key)");
        assert_eq!(run(&mut a, "begin; alter index t_pkey set (fillfactor = 50)"), "");
        let (found, _) = blocked_until(&database, &mut a, "commit", b, statement);
        assert_eq!(found, "", "{statement}");
        let report = database.check().unwrap();
        assert!(report.violations.is_empty(), "{statement}: {:#?}", report.violations);
        let kept = "select reloptions is distinct from '{fillfactor=50}' from pg_class \
                    where relkind = 'i' and relname in ('t_pkey', 'other')";
        assert_ne!(run(&mut a, kept), "t", "{statement}");
    }
}

/// DROP SCHEMA left behind the objects of transactions that were open.
#[test]
fn a_schema_is_dropped_with_all_that_is_in_it() {
    for made in [
        "create table s.t (a int)",
        "create view s.v as select 1",
        "create sequence s.q",
        "create type s.e as enum ('a')",
        "create domain s.d as int",
        "create function s.f() returns int language sql as 'select 1'",
        "alter table moved set schema s",
    ] {
        let setup = "create schema s; create table moved (a int)";
        let (database, mut a, b) = sessions(setup);
        assert_eq!(run(&mut a, &format!("begin; {made}")), "");
        let (found, mut b) = blocked_until(&database, &mut a, "commit", b, "drop schema s");
        assert!(found.starts_with("error 2BP01: cannot drop schema s because"), "{made}: {found}");
        let dropped = run(&mut b, "begin; drop schema s cascade");
        assert!(!dropped.starts_with("error"), "{made}: {dropped}");
        assert_eq!(run(&mut b, "commit"), "");
        // In the other order the schema is gone.
        let (database, mut a, b) = sessions(setup);
        assert_eq!(run(&mut a, "begin; drop schema s"), "");
        let (found, _) = blocked_until(&database, &mut a, "commit", b, made);
        assert_eq!(found, "error 3F000: schema \"s\" does not exist", "{made}");
    }
}

/// A query locked the partitions before their table, and DROP of a partition the table first.
#[test]
fn a_partition_is_dropped_beside_a_query_of_its_table() {
    let (database, mut a, mut b) = sessions(
        "create table t (a int) partition by list (a); \
         create table p1 partition of t for values in (1); \
         create table p2 partition of t for values in (2)",
    );
    let mut c = database.session();
    assert_eq!(run(&mut a, "begin; lock table p2"), "");
    let (reader, dropper) = (b.id(), c.id());
    let reads = thread::spawn(move || run(&mut b, "select * from t"));
    until_blocked(&database, reader);
    let drops = thread::spawn(move || run(&mut c, "drop table p1"));
    until_blocked(&database, dropper);
    assert_eq!(run(&mut a, "commit"), "");
    assert_eq!((reads.join().unwrap(), drops.join().unwrap()), (String::new(), String::new()));
}

/// DROP SCHEMA CASCADE dropped a type, and all columns of it, that had left the schema.
#[test]
fn what_leaves_a_schema_is_not_dropped_with_it() {
    let (database, mut a, b) = sessions(
        "create schema s; create type s.e as enum ('a'); create table t (x s.e); \
         create function s.f() returns int language sql as 'select 1'",
    );
    let leave = "begin; alter type s.e set schema public; alter function s.f() set schema public";
    assert_eq!(run(&mut a, leave), "");
    let (found, mut b) = blocked_until(&database, &mut a, "commit", b, "drop schema s cascade");
    assert_eq!(found, "");
    assert_eq!(run(&mut b, "insert into t values ('a'); select x, f() from t"), "a|1");
}

/// DROP SCHEMA CASCADE locked a partition and not the table above it.
#[test]
fn the_table_above_a_partition_is_locked_with_the_schema_of_the_partition() {
    let (database, mut a, b) = sessions(
        "create schema s; create table t (a int) partition by list (a); \
         create table s.p partition of t for values in (1)",
    );
    assert_eq!(run(&mut a, "begin; drop schema s cascade"), "");
    let (found, _) = blocked_until(&database, &mut a, "commit", b, "truncate t");
    assert_eq!(found, "");
}

/// RENAME of a column waited for indexes that it does not change.
#[test]
fn a_column_is_renamed_beside_a_comment_on_its_index() {
    let (_database, mut a, mut b) = sessions("create table t (a int); create index i on t (a)");
    assert_eq!(run(&mut a, "begin; comment on index i is 'x'"), "");
    let rename = "set lock_timeout = '1ms'; alter table t rename a to b";
    assert_eq!(run(&mut b, rename), "");
}

/// DROP of a relation of another kind locked the table that the relation belongs to.
#[test]
fn a_relation_of_another_kind_is_refused_at_once() {
    let (_database, mut a, mut b) = sessions(
        "create table t (a int); create index i on t (a); \
         create table q (a int) partition by list (a); \
         create table p partition of q for values in (1); create index j on q (a)",
    );
    assert_eq!(run(&mut a, "begin; select from t; select from q"), "");
    assert_eq!(run(&mut b, "set lock_timeout = '1ms'"), "");
    for statement in ["drop view i", "drop index p", "alter view i rename to k"] {
        let refused = run(&mut b, statement);
        assert!(refused.starts_with("error 42809"), "{statement}: {refused}");
    }
    let refused = run(&mut b, "reindex index concurrently j");
    assert!(!refused.contains("55P03"), "{refused}");
}
