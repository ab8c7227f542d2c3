//! An old snapshot keeps the versions that it sees, and no later ones. `interval_gc = off` keeps
//! all, for measurements.

use niwaki::{Database, Options, Session};
use niwaki_env::Env;

fn int(session: &mut Session, sql: &str) -> i64 {
    session.query_one(sql, ()).unwrap().get(0).unwrap()
}

/// Returns the blocks of a table with one row of 500 bytes after many updates beside an old
/// snapshot.
fn blocks_beside_a_report(interval_gc: &str) -> i64 {
    let options = Options::new().set("interval_gc", interval_gc);
    let database = Database::open_with(Env::memory(), options).unwrap();
    let (mut report, mut writer) = (database.session(), database.session());
    writer.execute("create table t (id int primary key, v int, filler text)", ()).unwrap();
    writer.execute("insert into t values (1, 0, repeat('x', 500))", ()).unwrap();
    report.execute("begin isolation level repeatable read", ()).unwrap();
    assert_eq!(int(&mut report, "select v from t"), 0);
    for _ in 0..200 {
        writer.execute("update t set v = v + 1 where id = 1", ()).unwrap();
    }
    assert_eq!(int(&mut report, "select v from t where id = 1"), 0);
    assert_eq!(int(&mut writer, "select v from t where id = 1"), 200);
    int(&mut writer, "select pg_relation_size('t') / 8192")
}

#[test]
fn a_report_keeps_one_version_of_a_row() {
    let (kept, all) = (blocks_beside_a_report("on"), blocks_beside_a_report("off"));
    assert!(kept <= 2 && all >= 12, "{kept} and {all} blocks");
    let database = Database::in_memory_without_threads().unwrap();
    let shown: String =
        database.session().query_one("show interval_gc", ()).unwrap().get(0).unwrap();
    assert_eq!(shown, "on");
}
