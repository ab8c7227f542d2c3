//! Materialized views beside other sessions: waits for locks, and the rows that readers see
//! meanwhile.

mod common;
#[path = "common/waiting.rs"]
mod waiting;

use common::run;
use niwaki::{Database, Session};
use waiting::blocked_until;

/// Creates a table, a materialized view of it that is out of date by one row, and two sessions.
fn sessions() -> (Database, Session, Session) {
    let database = Database::in_memory_without_threads().unwrap();
    let mut first = database.session();
    let second = database.session();
    let setup = "create table t (id int primary key, v int); insert into t values (1, 10), (2, 20); \
                 create materialized view m as select id, v from t; create unique index on m (id); \
                 insert into t values (3, 30)";
    assert_eq!(run(&mut first, setup), "");
    (database, first, second)
}

const ROWS: &str = "select count(*) from m";

#[test]
fn a_refresh_waits_for_readers() {
    let (database, mut reader, refresher) = sessions();
    assert_eq!(run(&mut reader, "begin; select count(*) from m"), "2");
    let refresh = "refresh materialized view m";
    let (found, _) = blocked_until(&database, &mut reader, "commit", refresher, refresh);
    assert_eq!(found, "");
    assert_eq!(run(&mut reader, ROWS), "3");
}

#[test]
fn readers_wait_for_a_refresh() {
    let (database, mut refresher, reader) = sessions();
    assert_eq!(run(&mut refresher, "begin; refresh materialized view m"), "");
    let (found, reader) = blocked_until(&database, &mut refresher, "commit", reader, ROWS);
    assert_eq!(found, "3");
    // A rollback brings the old rows back, and the waiting readers find them.
    assert_eq!(run(&mut refresher, "begin; delete from t; refresh materialized view m"), "");
    assert_eq!(run(&mut refresher, ROWS), "0");
    let (found, reader) = blocked_until(&database, &mut refresher, "rollback", reader, ROWS);
    assert_eq!(found, "3");
    assert_eq!(run(&mut refresher, "begin; refresh materialized view m with no data"), "");
    let (found, mut reader) = blocked_until(&database, &mut refresher, "commit", reader, ROWS);
    assert_eq!(
        found,
        "error 55000: materialized view \"m\" has not been populated\n\
         hint: Use the REFRESH MATERIALIZED VIEW command."
    );
    assert_eq!(run(&mut reader, "refresh materialized view m; select count(*) from m"), "3");
}

#[test]
fn nobody_waits_for_a_concurrent_refresh() {
    let (database, mut reader, mut refresher) = sessions();
    let begin = "begin isolation level repeatable read; select sum(v) from m";
    assert_eq!(run(&mut reader, begin), "30");
    let refresh = "begin; update t set v = 11 where id = 1; delete from t where id = 2; \
                   refresh materialized view concurrently m; select * from m order by id";
    assert_eq!(run(&mut refresher, refresh), "1|11\n3|30");
    let mut other = database.session();
    assert_eq!(run(&mut other, "select * from m order by id"), "1|10\n2|20");
    assert_eq!(run(&mut refresher, "commit"), "");
    assert_eq!(run(&mut other, "select * from m order by id"), "1|11\n3|30");
    // A snapshot's answer does not change.
    assert_eq!(run(&mut reader, "select * from m order by id; commit"), "1|10\n2|20");
    assert_eq!(run(&mut reader, "select * from m order by id"), "1|11\n3|30");
    assert!(database.check().unwrap().violations.is_empty());
}

#[test]
fn refreshes_come_one_after_the_other() {
    let (database, mut first, second) = sessions();
    let refresh = "refresh materialized view concurrently m";
    assert_eq!(run(&mut first, "begin; refresh materialized view concurrently m"), "");
    let (found, second) = blocked_until(&database, &mut first, "commit", second, refresh);
    assert_eq!(found, "");
    // The view's source table cannot be altered meanwhile.
    assert_eq!(run(&mut first, "begin; alter table t add column w int"), "");
    let (found, mut second) = blocked_until(&database, &mut first, "commit", second, refresh);
    assert_eq!(found, "");
    assert_eq!(run(&mut second, ROWS), "3");
}

#[test]
fn new_rows_are_there_for_snapshots_of_before() {
    let (_database, mut reader, mut refresher) = sessions();
    assert_eq!(
        run(&mut reader, "begin isolation level repeatable read; select count(*) from t"),
        "3"
    );
    assert_eq!(
        run(&mut refresher, "insert into t values (4, 40); refresh materialized view m"),
        ""
    );
    // As in PostgreSQL, whose REFRESH writes rows that count as committed before all snapshots.
    assert_eq!(run(&mut reader, "select count(*) from t"), "3");
    assert_eq!(run(&mut reader, ROWS), "4");
    run(&mut reader, "commit");
}

#[test]
fn a_function_of_the_query_reads_the_rows_of_before() {
    let (_database, mut session, _) = sessions();
    // The view's query reads the view itself through a function.
    let setup = "create function own() returns bigint language sql as 'select 0::bigint'; \
                 create materialized view self as select own() as n; create unique index on self (n); \
                 create or replace function own() returns bigint language sql as 'select n + 1 from self'";
    assert_eq!(run(&mut session, setup), "");
    assert_eq!(
        run(&mut session, "refresh materialized view concurrently self; select n from self"),
        "1"
    );
    assert_eq!(run(&mut session, "refresh materialized view self; select n from self"), "2");
}

#[test]
fn rows_are_there_after_a_restart() {
    use std::sync::Arc;

    use niwaki::Options;
    use niwaki_env::Env;
    use niwaki_env::vfs::{MemoryVfs, Vfs};
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    let open = || {
        let env = Env { vfs: Arc::clone(&vfs), ..Env::memory() };
        Database::open_with(env, Options::new()).unwrap()
    };
    let database = open();
    let mut session = database.session();
    let setup = "create table t (id int primary key, v text); \
                 insert into t select g, repeat(md5(g::text), 300) from generate_series(1, 50) g; \
                 create materialized view m as select id, v, 't'::regclass as r from t where id <= 40; \
                 create unique index m_id on m (id); create materialized view empty as select * from m with no data; \
                 update t set v = 'short' where id = 7; refresh materialized view concurrently m; \
                 update t set v = 'shorter' where id = 8; refresh materialized view m";
    assert_eq!(run(&mut session, setup), "");
    let shown = "select count(*), sum(length(v)), min(v), max(r::text) from m; select v from m where id = 8; \
                 select relname, relispopulated from pg_class where relkind = 'm' order by 1";
    let before = run(&mut session, shown);
    assert!(before.ends_with("shorter\nempty|f\nm|t"), "{before}");
    drop(session);
    database.close().unwrap();
    let database = open();
    let mut session = database.session();
    assert_eq!(run(&mut session, shown), before);
    assert_eq!(
        run(&mut session, "refresh materialized view empty; select count(*) from empty"),
        "40"
    );
    assert!(database.check().unwrap().violations.is_empty());
}

#[test]
fn a_refresh_with_an_old_snapshot_does_not_mix_two_moments() {
    let (_database, mut old, mut new) = sessions();
    let refresh = "refresh materialized view concurrently m";
    assert_eq!(run(&mut new, &format!("update t set v = 11 where id = 1; {refresh}")), "");
    assert_eq!(run(&mut new, "update t set v = 21 where id = 2"), "");
    assert_eq!(run(&mut old, "begin isolation level repeatable read; select sum(v) from t"), "62");
    let changes = "update t set v = 20 where id = 2; update t set v = 12 where id = 1";
    assert_eq!(
        run(&mut new, &format!("{changes}; {refresh}; select * from m order by id")),
        "1|12\n2|20\n3|30"
    );
    assert_eq!(run(&mut old, &format!("{refresh}; commit")), "");
    assert_eq!(run(&mut new, "select * from m order by id"), "1|11\n2|21\n3|30");
}
