//! Crash images of index builds, at every change of the file system, with unsynced writes kept,
//! lost and torn. The database must open, heap and indexes must agree, and queries must give the
//! same with and without indexes.

mod common;
#[path = "common/crashes.rs"]
mod crashes;

use std::sync::Arc;

use common::run;
use crashes::each_image;
use niwaki::{Database, Options};
use niwaki_env::Env;
use niwaki_env::vfs::{Fault, FaultKind, FaultyVfs, Operation, Vfs};

fn open(vfs: Arc<dyn Vfs>) -> niwaki::Result<Database> {
    let options = Options::new()
        .small_files(true)
        .set("shared_buffers", "256kB")
        .set("maintenance_work_mem", "1MB");
    Database::open_with(Env { vfs, ..Env::memory() }, options)
}

#[test]
fn every_moment_of_an_index_build_recovers() {
    let vfs = FaultyVfs::new();
    vfs.record();
    let database = open(Arc::new(vfs.clone())).unwrap();
    let mut session = database.session();
    let setup = "create table t (id int primary key, v int, s text); \
                 insert into t select i, i % 5, 'S' || i % 7 from generate_series(1, 60) i; \
                 update t set v = v + 1 where id % 4 = 0";
    assert_eq!(run(&mut session, setup), "");
    let begin = vfs.changes();
    for statement in [
        "create index t_s on t (lower(s)) where v > 1",
        "begin; insert into t values (100, 3, 'S1'); create index t_v on t (v desc); rollback",
        "create index concurrently t_v on t (v desc) include (s)",
        "update t set v = 2, s = 's3' where id = 5",
        "reindex table t",
        "delete from t where id = 7",
        "reindex index concurrently t_s",
        "drop index concurrently t_v",
        "alter table t add constraint t_u unique (id, v) deferrable initially deferred",
    ] {
        assert_eq!(run(&mut session, statement), "", "{statement}");
    }
    drop(session);
    drop(database);
    // Every third moment suffices: all moments take seconds, and the seeds of the suites cover
    // them.
    let images = each_image(
        &vfs,
        |at| at >= begin && at.is_multiple_of(3),
        |_, what, vfs| {
            let database = open(Arc::clone(&vfs)).unwrap_or_else(|e| panic!("{what}: {e}"));
            let report = database.check().unwrap();
            assert!(report.violations.is_empty(), "{what}: {:#?}", report.violations);
            assert!(vfs.list("tmp").unwrap_or_default().is_empty(), "{what}");
            let mut session = database.session();
            for query in [
                "select id from t where lower(s) = 's3' and v > 1 order by id",
                "select id from t where v = 2 order by id",
            ] {
                run(&mut session, "set enable_seqscan = on; set enable_indexscan = off");
                let expected = run(&mut session, query);
                run(&mut session, "set enable_seqscan = off; set enable_indexscan = on");
                assert_eq!(run(&mut session, query), expected, "{what}: {query}");
                assert!(!expected.is_empty(), "{what}: {query}");
            }
            // The remains of a build after a crash can be removed or rebuilt.
            let left = "select relname from pg_class c join pg_index i on c.oid = i.indexrelid \
                    where not indisvalid order by 1";
            for name in run(&mut session, left).lines() {
                assert_eq!(run(&mut session, &format!("drop index {name}")), "", "{what}");
            }
        },
    );
    assert!(images > 40, "only {images} images");
}

/// A server that was killed while an index build filled the disk once could not start again.
/// Recovery created the file again, only to remove it.
#[test]
fn a_killed_build_needs_no_room_at_the_next_start() {
    let vfs = FaultyVfs::new();
    let database = open(Arc::new(vfs.clone())).unwrap();
    let mut session = database.session();
    for statement in [
        "create table t (id int primary key, s text)",
        "insert into t select i, repeat('x', 100) || i from generate_series(1, 2000) i",
        "checkpoint",
        "begin",
        "create index t_s on t (s)",
    ] {
        assert_eq!(run(&mut session, statement), "", "{statement}");
    }
    let number = run(&mut session, "select relfilenode from pg_class where relname = 't_s'");
    // Its commit makes the log durable.
    run(&mut database.session(), "create table other (i int)");
    let left = vfs.restarted();
    left.inject(Fault {
        kind: FaultKind::StorageFull,
        operation: Operation::Allocate,
        path_contains: format!("base/{number}."),
        after: 0,
        sticky: true,
    });
    let again = open(Arc::new(left.clone())).unwrap();
    assert!(!left.exists(&format!("base/{number}.main")).unwrap());
    let mut session = again.session();
    assert_eq!(run(&mut session, "create index t_s on t (s)"), "");
    assert_eq!(run(&mut session, "select count(*) from t"), "2000");
    assert_eq!(again.check().unwrap().violations, []);
}
