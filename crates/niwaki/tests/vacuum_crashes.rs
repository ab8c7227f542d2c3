//! Maintenance on a failing disk. One test fills the disk at various moments. The other takes crash
//! images of every change that vacuums, the gardener and autovacuum make. No row is lost, none
//! comes back, and another VACUUM finishes.

mod common;
#[path = "common/crashes.rs"]
mod crashes;

use std::sync::Arc;

use common::run;
use crashes::each_image;
use niwaki::{Database, Options, Session};
use niwaki_env::Env;
use niwaki_env::vfs::{Fault, FaultKind, FaultyVfs, Operation, Vfs};

/// Opens the database with a pool that is smaller than the table.
fn open(vfs: Arc<dyn Vfs>) -> niwaki::Result<Database> {
    let options = Options::new()
        .small_files(true)
        .set("shared_buffers", "256kB")
        .set("maintenance_work_mem", "1MB");
    Database::open_with(Env::simulated(vfs, 1), options)
}

fn each(session: &mut Session, statements: &[&str]) {
    for sql in statements {
        assert_eq!(run(session, sql), "", "{sql}");
    }
}

/// Creates rows on more than forty pages, some with an out-of-line value. Some rows are deleted,
/// some get other keys, and some changes are rolled back.
fn soil(session: &mut Session) {
    each(
        session,
        &[
            "delete from t where id % 5 = 0",
            "update t set k = k + 1000 where id % 7 = 0",
            "update t set note = repeat('m', 150) where id % 11 = 0",
            "update t set large = large || 'y' where id % 100 = 1",
            "begin; update t set k = -k; rollback",
        ],
    );
}

fn filled(session: &mut Session) {
    let large = "case when id % 100 = 1 then (select string_agg(md5((id * 1000 + i)::text), '') from generate_series(1, 200) i) end";
    each(
        session,
        &[
            "create table t (id int primary key, k int, note text, large text) with (autovacuum_vacuum_threshold = 0)",
            "create index t_k on t (k)",
            "create index t_n on t (note, k)",
            "insert into t (id, k, note) select g, g % 90, repeat('n', 260) from generate_series(1, 1200) g",
            &format!("update t set large = {large} where id % 100 = 1"),
        ],
    );
}

const ROWS: &str = "select count(*), sum(id), sum(k), sum(length(note)), sum(length(large)) from t";
const LEFT: &str = "select dead_line_pointers, mixed_chains from niwaki_chain_stats('t')";

/// Checks that every invariant holds, all scans give the same, and a VACUUM leaves nothing behind.
fn sound(database: &Database, what: &str) -> String {
    let report = database.check().unwrap();
    assert!(report.violations.is_empty(), "{what}: {:#?}", report.violations);
    let mut s = database.session();
    let rows = run(&mut s, ROWS);
    let by_index = "select count(*), sum(id), sum(k) from t where k > -100000";
    run(&mut s, "set enable_seqscan = off; set enable_bitmapscan = off");
    assert!(rows.starts_with(&run(&mut s, by_index)), "{what}");
    assert_eq!(run(&mut s, "vacuum (index_cleanup on) t"), "", "{what}");
    assert_eq!(run(&mut s, LEFT), "0|0", "{what}");
    assert_eq!(run(&mut s, ROWS), rows, "{what}");
    let report = database.check().unwrap();
    assert!(report.violations.is_empty(), "{what}: {:#?}", report.violations);
    rows
}

/// Returns a database that needs VACUUM, its disk, and its rows.
fn dirty() -> (Database, FaultyVfs, String) {
    let vfs = FaultyVfs::new();
    let database = open(Arc::new(vfs.clone())).unwrap();
    let mut s = database.session();
    filled(&mut s);
    soil(&mut s);
    let rows = run(&mut s, ROWS);
    drop(s);
    (database, vfs, rows)
}

const VACUUM: &str = "vacuum (freeze, index_cleanup on, parallel 0) t";

#[test]
fn a_full_disk_fails_a_vacuum_that_can_be_repeated() {
    let (database, vfs, _) = dirty();
    let before = vfs.counts();
    assert_eq!(run(&mut database.session(), VACUUM), "");
    let after = vfs.counts();
    let many =
        |operation| after.get(&operation).unwrap_or(&0) - before.get(&operation).unwrap_or(&0);
    assert!(many(Operation::Write) > 100, "{before:?} {after:?}");
    let mut failed = 0;
    for (operation, path, kind) in [
        (Operation::Write, "base/", FaultKind::StorageFull),
        (Operation::Write, "base/", FaultKind::ShortWrite),
        (Operation::Allocate, "base/", FaultKind::StorageFull),
        (Operation::Create, "base/", FaultKind::StorageFull),
        (Operation::Create, "wal/", FaultKind::StorageFull),
        (Operation::Allocate, "wal/", FaultKind::StorageFull),
    ] {
        // About thirty moments of each operation. From each one the fault occurs once, or for ever.
        for after in (0..many(operation)).step_by(1 + many(operation) as usize / 30) {
            for sticky in [false, true] {
                let (database, vfs, rows) = dirty();
                let path_contains = path.to_owned();
                vfs.inject(Fault { kind, operation, path_contains, after, sticky });
                let what = format!("{kind:?} at {operation:?} {after} in {path}, sticky {sticky}");
                let answer = run(&mut database.session(), VACUUM);
                vfs.heal();
                if !answer.is_empty() {
                    failed += 1;
                    let told = answer.starts_with("error 53100: could not ")
                        && answer.ends_with(": no space left on device");
                    assert!(told && answer.matches("could not").count() == 1, "{what}: {answer}");
                }
                // Read-ahead and background writes may be deferred, so not every fault hits the
                // VACUUM.
                assert_eq!(sound(&database, &what), rows, "{what}");
            }
        }
    }
    eprintln!("{failed} failed");
    assert!(failed > 60, "{failed}");
}

/// Changes of the disk, and the rows, before or after a statement.
struct Step {
    changes: u64,
    rows: String,
}

#[test]
fn every_moment_of_maintenance_recovers() {
    let vfs = FaultyVfs::new();
    vfs.record();
    let database = open(Arc::new(vfs.clone())).unwrap();
    let mut s = database.session();
    filled(&mut s);
    let mut steps = Vec::new();
    let mut note = |s: &mut Session| {
        steps.push(Step { changes: vfs.changes(), rows: run(s, ROWS) });
    };
    for statement in [
        "vacuum t",
        "vacuum (freeze, disable_page_skipping) t",
        "vacuum (index_cleanup off, process_toast off) t",
        "vacuum (index_cleanup on, parallel 0) t",
        "tend",
        "maintain",
        "checkpoint",
        "vacuum (process_main off) t",
    ] {
        soil(&mut s);
        note(&mut s);
        match statement {
            "tend" => (0..4).for_each(|_| database.clean_up().unwrap()),
            "maintain" => assert!(database.maintain().unwrap().iter().all(|r| r.error.is_none())),
            sql => assert_eq!(run(&mut s, sql), "", "{sql}"),
        }
        note(&mut s);
        each(
            &mut s,
            &[
                "insert into t (id, k, note) select g, g % 90, repeat('n', 260) from generate_series(1, 1200) g on conflict do nothing",
            ],
        );
    }
    drop(s);
    drop(database);
    // Only moments during maintenance, which leaves the rows unchanged, and only every seventh. All
    // moments take minutes, and the seeds of `tests/crash` cover them.
    let during = |at| steps.chunks(2).find(|two| (two[0].changes..two[1].changes).contains(&at));
    let wanted = |at: u64| at.is_multiple_of(7) && matches!(during(at), Some([_, _]));
    let images = each_image(&vfs, wanted, |at, what, vfs| {
        let Some([before, after]) = during(at) else { unreachable!("it is wanted") };
        assert_eq!(before.rows, after.rows);
        let database = open(vfs).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(sound(&database, what), before.rows, "{what}");
    });
    eprintln!("{images} images");
    assert!(images > 100, "only {images} images");
}
