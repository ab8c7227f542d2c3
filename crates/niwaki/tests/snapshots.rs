//! Versions that snapshots keep: `niwaki_snapshots` and `niwaki_snapshot_holds`.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::run;
use niwaki::{Database, Options, Session};
use niwaki_env::Env;
use niwaki_env::clock::ManualClock;

fn each(session: &mut Session, statements: &[&str]) {
    for sql in statements {
        assert_eq!(run(session, sql), "", "{sql}");
    }
}

/// Begins a snapshot without any lock on a table.
const BEGIN: &str = "begin isolation level repeatable read; select 4";

/// Query for the versions that each snapshot keeps, by the name of its session. The asking session
/// is left out.
const HOLDS: &str = "select coalesce(application_name, 'nobody'), versions, bytes, shared_versions, \
     shared_bytes from niwaki_snapshot_holds('t') h left join pg_stat_activity a on a.pid = h.pid \
     where h.pid is distinct from pg_backend_pid() order by csn nulls last";
const VIEW: &str = "select application_name, versions_held, bytes_held from niwaki_snapshots \
     where pid <> pg_backend_pid() order by csn";

/// Creates four rows of two integers: 32 bytes each, header included.
fn database(interval_gc: &str) -> (Database, Session) {
    let options = Options::new().set("interval_gc", interval_gc);
    let database = Database::open_with(Env::memory(), options).unwrap();
    let mut session = database.session();
    let setup = "create table t (id int primary key, v int) with (heap_only_updates = any_key); \
                 insert into t select g, 0 from generate_series(1, 4) g";
    assert_eq!(run(&mut session, setup), "");
    let sizes = "select distinct lp_len from niwaki_heap_page('t', 0)";
    assert_eq!(run(&mut session, sizes), "32");
    (database, session)
}

/// Opens a session with this name and a snapshot.
fn report(database: &Database, name: &str) -> Session {
    let mut session = database.session();
    assert_eq!(run(&mut session, &format!("set application_name = '{name}'")), "");
    assert_eq!(run(&mut session, BEGIN), "4");
    session
}

/// Creates two snapshots, and versions that the older, the younger, both or none of them needs.
fn two_reports(interval_gc: &str) -> (Database, Session, Session, Session) {
    let (database, mut session) = database(interval_gc);
    let old = report(&database, "old");
    each(
        &mut session,
        &[
            // Row 1, first version: only the older snapshot needs it.
            "update t set v = 1 where id = 1",
            // Row 3, first version: only the older snapshot needs it. The second version ends after
            // the younger snapshot, and only that needs it.
            "update t set v = 1 where id = 3",
            // Row 4, first version: only the older snapshot needs it. The second version ends at
            // once: none needs it.
            "update t set v = 1 where id = 4",
            "update t set v = 2 where id = 4",
        ],
    );
    let young = report(&database, "young");
    // Row 2, first version: both snapshots need it.
    each(&mut session, &["update t set v = 1 where id = 2", "update t set v = 2 where id = 3"]);
    (database, session, old, young)
}

#[test]
fn a_table_says_what_each_snapshot_keeps() {
    let (database, mut session, mut old, mut young) = two_reports("on");
    let expected = "old|3|96|1|32\nyoung|1|32|1|32\nnobody|1|32|NULL|NULL";
    assert_eq!(run(&mut session, HOLDS), expected);
    each(&mut session, &["vacuum t"]);
    let expected = "old|3|96|1|32\nyoung|1|32|1|32\nnobody|0|0|NULL|NULL";
    assert_eq!(run(&mut session, HOLDS), expected);
    // No snapshot keeps a change in progress yet. A change that was rolled back is waste.
    let mut other = database.session();
    each(&mut other, &["begin; update t set v = 9 where id = 1"]);
    assert_eq!(run(&mut session, HOLDS), expected);
    each(&mut other, &["rollback"]);
    assert_eq!(run(&mut session, HOLDS), expected.replace("nobody|0|0", "nobody|1|32"));
    // Versions that both snapshots needed are now kept by the other one alone.
    each(&mut young, &["commit"]);
    let expected = "old|4|128|0|0\nnobody|2|64|NULL|NULL";
    assert_eq!(run(&mut session, HOLDS), expected);
    each(&mut old, &["commit"]);
    assert_eq!(run(&mut session, HOLDS), "nobody|6|192|NULL|NULL");
}

#[test]
fn without_intervals_the_oldest_snapshot_keeps_everything_since() {
    let (_database, mut session, _old, mut young) = two_reports("off");
    // By the horizon, a version stays for every snapshot older than the version's end.
    let expected = "old|4|128|2|64\nyoung|0|0|2|64\nnobody|0|0|NULL|NULL";
    assert_eq!(run(&mut session, HOLDS), expected);
    each(&mut young, &["commit"]);
    assert_eq!(run(&mut session, HOLDS), "old|6|192|0|0\nnobody|0|0|NULL|NULL");
    each(&mut session, &["vacuum t"]);
    assert_eq!(run(&mut session, VIEW), "old|6|192");
}

#[test]
fn two_snapshots_of_one_moment_hold_nothing_alone() {
    let (database, mut session) = database("on");
    let first = report(&database, "one");
    let second = report(&database, "one");
    each(&mut session, &["update t set v = 1"]);
    let expected = "one|0|0|4|128\none|0|0|4|128\nnobody|0|0|NULL|NULL";
    assert_eq!(run(&mut session, HOLDS), expected);
    drop(second);
    assert_eq!(run(&mut session, HOLDS), "one|4|128|0|0\nnobody|0|0|NULL|NULL");
    drop(first);
}

#[test]
fn the_view_sums_what_passes_left() {
    let (_database, mut session, mut old, mut young) = two_reports("on");
    assert_eq!(run(&mut session, VIEW), "old|0|0\nyoung|0|0", "no pass has met anything yet");
    each(&mut session, &["vacuum t"]);
    assert_eq!(run(&mut session, VIEW), "old|3|96\nyoung|1|32");
    // The versions of another table are added.
    each(
        &mut session,
        &["create table other (a int)", "insert into other values (1)", "vacuum other"],
    );
    assert_eq!(run(&mut session, VIEW), "old|3|96\nyoung|1|32");
    // The keepers of a version are determined anew: no pass is needed for that.
    each(&mut young, &["commit"]);
    assert_eq!(run(&mut session, VIEW), "old|4|128");
    each(&mut session, &["truncate t"]);
    assert_eq!(run(&mut session, VIEW), "old|0|0", "its files are gone, whatever it thinks of it");
    each(&mut old, &["commit"]);
    assert_eq!(run(&mut session, VIEW), "");
}

#[test]
fn the_view_tells_whose_a_snapshot_is_and_how_old() {
    let clock = Arc::new(ManualClock::new());
    let mut env = Env::memory();
    env.clock = Arc::clone(&clock) as Arc<_>;
    let database = Database::open_with(env, Options::new()).unwrap();
    let mut session = database.session();
    each(&mut session, &["create table t (id int primary key)", "insert into t values (1)"]);
    let mut old = database.session();
    assert_eq!(run(&mut old, "set application_name = 'report'"), "");
    assert_eq!(run(&mut old, BEGIN), "4");
    clock.advance(Duration::from_secs(90));
    // A cursor keeps the snapshot of its statement. If it locks rows, the snapshot may follow moved
    // rows.
    each(&mut session, &["begin", "declare c cursor for select id from t for update"]);
    clock.advance(Duration::from_hours(24));
    let columns = "select age, may_follow, application_name, state, query, usename, \
                   pid = pg_backend_pid(), csn <= pg_current_wal_lsn() from niwaki_snapshots \
                   order by age desc";
    let expected = format!(
        "1 day 00:01:30|f|report|idle in transaction|{BEGIN}|postgres|f|t\n\
         1 day|t||active|{columns}|postgres|t|t\n\
         00:00:00|f||active|{columns}|postgres|t|t"
    );
    assert_eq!(run(&mut session, columns), expected);
    each(&mut session, &["commit"]);
    each(&mut old, &["commit"]);
    assert_eq!(run(&mut session, "select age from niwaki_snapshots"), "00:00:00", "its own");
}
