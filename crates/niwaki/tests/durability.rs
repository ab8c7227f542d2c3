//! Definitions and rows after a crash, and after a clean end.

mod killed;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use niwaki::{Database, Datum, Options};
use niwaki_env::Env;
use niwaki_env::vfs::{CrashOptions, Fault, FaultKind, FaultyVfs, Operation, Vfs};

fn one(db: &Database, sql: &str) -> String {
    let mut s = db.session();
    let rows = s.query(sql, ()).unwrap();
    let row = rows.into_iter().next().expect("a row");
    match &row[0] {
        Datum::Int8(v) => v.to_string(),
        Datum::Int4(v) => v.to_string(),
        Datum::Text(t) => t.to_string(),
        other => format!("{other:?}"),
    }
}

/// Drops the handle without closing it. The next opening finds the files that a killed process
/// leaves.
fn reopen(db: Database, env: &Env) -> Database {
    drop(db);
    Database::open_with(env.clone(), Options::new()).unwrap()
}

/// After a crash a sequence once gave numbers again. The numbers logged ahead were counted by the
/// increment before ALTER SEQUENCE.
#[test]
fn a_sequence_that_was_altered_gives_no_number_twice() {
    let env = Env::memory();
    let db = Database::open_with(env.clone(), Options::new()).unwrap();
    let mut s = db.session();
    for sql in [
        "create sequence s",
        "create table n (v int8)",
        "insert into n values (nextval('s'))",
        "alter sequence s increment 31",
        "insert into n select nextval('s') from generate_series(1, 3)",
    ] {
        s.execute(sql, ()).unwrap();
    }
    std::mem::forget(s);
    let (db, _env) = reopen_forgotten(db, &env);
    assert_eq!(one(&db, "select max(v) from n"), "94");
    let next: i64 = one(&db, "select nextval('s')").parse().unwrap();
    assert!(next > 94, "a sequence gave {next} after 94");
}

#[test]
fn committed_work_survives_and_other_work_does_not() {
    let env = Env::memory();
    let db = Database::open_with(env.clone(), Options::new()).unwrap();
    let mut s = db.session();
    s.execute("create table t (id bigserial primary key, b text unique)", ()).unwrap();
    s.execute("create unlogged table u (a int primary key)", ()).unwrap();
    for i in 0..300 {
        s.execute("insert into t (b) values ($1)", (format!("row {i}"),)).unwrap();
    }
    s.execute("insert into u select generate_series(1, 100)", ()).unwrap();
    s.execute("update t set b = 'changed' where id = 7", ()).unwrap();
    s.execute("delete from t where id = 8", ()).unwrap();
    // This transaction is open at the moment of the crash.
    s.execute("begin", ()).unwrap();
    s.execute("create table gone (a int)", ()).unwrap();
    s.execute("insert into t (b) values ('gone')", ()).unwrap();
    s.execute("truncate u", ()).unwrap();
    std::mem::forget(s);
    let (db, env) = reopen_forgotten(db, &env);
    assert_eq!(one(&db, "select count(*) from t"), "299");
    assert_eq!(one(&db, "select b from t where id = 7"), "changed");
    assert_eq!(one(&db, "select count(*) from u"), "0");
    let mut s = db.session();
    assert_eq!(s.execute("select * from gone", ()).unwrap_err().sqlstate, "42P01");
    s.execute("insert into u values (1)", ()).unwrap();
    let id = s.query_one("insert into t (b) values ('new') returning id", ()).unwrap();
    let id: i64 = id.get(0).unwrap();
    assert!(id > 300, "a sequence gave {id} again");
    assert_eq!(
        s.execute("insert into t (b) values ('changed')", ()).unwrap_err().sqlstate,
        "23505"
    );
    drop(s);
    let report = db.check().unwrap();
    assert_eq!(report.violations, []);
    assert_eq!((report.tables, report.indexes), (3, 5));

    // A clean end, and one more opening.
    db.close().unwrap();
    let db = Database::open_with(env.clone(), Options::new()).unwrap();
    assert_eq!(one(&db, "select count(*) from t"), "300");
    assert_eq!(one(&db, "select count(*) from u"), "1");
    let db = reopen(db, &env);
    assert_eq!(one(&db, "select count(*) from t"), "300");
    assert_eq!(db.check().unwrap().violations, []);
}

/// Leaks the crashed handle's memory, as a killed process does not return it either. Only its lock
/// on the directory goes.
fn reopen_forgotten(db: Database, env: &Env) -> (Database, Env) {
    std::mem::forget(db);
    crash_copy(env)
}

fn crash_copy(env: &Env) -> (Database, Env) {
    let other = killed::copied(env);
    (Database::open_with(other.clone(), Options::new()).unwrap(), other)
}

/// A killed process loses its knowledge of the free space of pages. That knowledge must come back
/// before the file grows. Without vacuum, dead line pointers take some space.
#[test]
fn a_table_with_as_many_rows_as_ever_keeps_its_size_however_often_it_is_killed() {
    let rows = |from| {
        format!(
            "insert into q select i, repeat('x', 200) from generate_series({from}, 400, {from}) i"
        )
    };
    let size = |db: &Database| one(db, "select pg_relation_size('q')").parse::<u32>().unwrap();
    let run = |db: &Database, sql: &str| assert!(db.session().execute(sql, ()).is_ok(), "{sql}");
    for (vacuum, clean) in [(false, false), (true, false), (true, true)] {
        let env = Env::memory();
        let mut db = Database::open_with(env.clone(), Options::new()).unwrap();
        run(&db, "create table q (id int primary key, t text)");
        run(&db, &rows(1));
        let first = size(&db);
        for round in 0..6 {
            // Delete all rows, or every second one.
            let step = 1 + round % 2;
            run(&db, &format!("delete from q where id % {step} = 0"));
            if vacuum {
                run(&db, "vacuum q");
            }
            if clean {
                db.close().unwrap();
                db = Database::open_with(env.clone(), Options::new()).unwrap();
            } else {
                db = reopen(db, &env);
            }
            run(&db, &rows(step));
            assert_eq!(one(&db, "select count(*) from q"), "400");
            let most = if vacuum { first } else { first + first / 4 };
            assert!(size(&db) <= most, "round {round}: {} after {first}, clean {clean}", size(&db));
        }
        assert_eq!(db.check().unwrap().violations, []);
    }
}

/// The sync of a table's file fails, which ends the process. The next process starts on the same
/// machine, whose page cache calls the lost writes clean, and makes a checkpoint. Then the power
/// fails.
#[test]
fn changes_outlive_a_failed_sync_and_a_restart_on_the_same_machine() {
    let open = |vfs: Arc<dyn Vfs>| {
        Database::open_with(Env::simulated(vfs, 1), Options::new()).expect("it opens")
    };
    let changed = |db: &Database| one(db, "select count(*) from t where b = 'new'");
    let vfs = FaultyVfs::new();
    let db = open(Arc::new(vfs.clone()));
    let mut s = db.session();
    s.execute("create table t (id int primary key, b text)", ()).unwrap();
    s.execute("insert into t select g, 'old' from generate_series(1, 50) g", ()).unwrap();
    db.checkpoint().unwrap();
    s.execute("update t set b = 'new'", ()).unwrap();
    vfs.inject(Fault {
        kind: FaultKind::SyncLosesBytes,
        operation: Operation::SyncData,
        path_contains: "base/".to_owned(),
        after: 0,
        sticky: false,
    });
    let ended = catch_unwind(AssertUnwindSafe(|| db.checkpoint()));
    assert!(ended.is_err(), "the process goes on after a failed sync");
    std::mem::forget((s, db));
    let world = vfs.restarted();
    let db = open(Arc::new(world.clone()));
    assert_eq!(changed(&db), "50");
    db.checkpoint().unwrap();
    std::mem::forget(db);
    world.crash();
    let images = world.crash_images(&CrashOptions { images_max: 3, ..CrashOptions::default() });
    assert!(!images.is_empty());
    for image in images {
        let db = open(Arc::new(image.vfs));
        assert_eq!(changed(&db), "50", "{}", image.survivors);
        assert_eq!(db.check().unwrap().violations, []);
    }
}
