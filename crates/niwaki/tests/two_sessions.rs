//! Two sessions at once: visibility of changes, and lock waits.

use std::sync::mpsc;
use std::time::Duration;

use niwaki::{Database, Session};
use niwaki_env::sync::thread;

fn int(s: &mut Session, sql: &str) -> i64 {
    s.query_one(sql, ()).unwrap().get(0).unwrap()
}

fn database() -> (Database, Session, Session) {
    let db = Database::in_memory_without_threads().unwrap();
    let mut a = db.session();
    let b = db.session();
    a.execute("create table t (id int primary key, v int)", ()).unwrap();
    a.execute("insert into t values (1, 10), (2, 20)", ()).unwrap();
    (db, a, b)
}

/// Runs `work` in a thread. Returns when its session waits for a lock.
fn start_waiting<T: Send + 'static>(
    db: &Database,
    mut session: Session,
    work: impl FnOnce(&mut Session) -> T + Send + 'static,
) -> (mpsc::Receiver<T>, thread::JoinHandle<Session>) {
    let (send, receive) = mpsc::channel();
    let id = session.id();
    let handle = thread::spawn(move || {
        send.send(work(&mut session)).unwrap();
        session
    });
    let mut watcher = db.session();
    // Ends: the other session either waits or the test hangs, which the test runner reports.
    while int(
        &mut watcher,
        &format!("select count(*) from pg_locks where pid = {id} and not granted"),
    ) == 0
    {
        thread::yield_now();
    }
    (receive, handle)
}

#[test]
fn activity_shows_what_another_session_does() {
    let (db, mut a, mut b) = database();
    a.execute("set application_name = 'the other'", ()).unwrap();
    let id = a.id();
    let mut shown = |of: &str| -> String {
        let sql = format!("select {of} from pg_stat_activity where pid = {id}");
        b.query_one(&sql, ()).unwrap().get(0).unwrap()
    };
    assert_eq!(shown("application_name"), "the other");
    assert_eq!(shown("state"), "idle");
    a.execute("begin", ()).unwrap();
    a.execute("update t set v = 11 where id = 1", ()).unwrap();
    assert_eq!(shown("state"), "idle in transaction");
    assert_eq!(shown("query"), "update t set v = 11 where id = 1");
    a.execute("select 1 / 0", ()).unwrap_err();
    assert_eq!(shown("state"), "idle in transaction (aborted)");
    a.execute("rollback", ()).unwrap();
    assert_eq!(shown("state"), "idle");
    drop(a);
    let gone = format!("select count(*) from pg_stat_activity where pid = {id}");
    assert_eq!(int(&mut b, &gone), 0);

    // A session that waits for a lock counts as active.
    b.execute("begin", ()).unwrap();
    b.execute("update t set v = 12 where id = 1", ()).unwrap();
    let waiting = "update t set v = v + 1 where id = 1";
    let session = db.session();
    let id = session.id();
    let (done, handle) = start_waiting(&db, session, move |s| s.execute(waiting, ()).unwrap());
    let sql = format!("select query || ': ' || state from pg_stat_activity where pid = {id}");
    let found: String = db.session().query_one(&sql, ()).unwrap().get(0).unwrap();
    assert_eq!(found, format!("{waiting}: active"));
    b.execute("commit", ()).unwrap();
    assert_eq!(done.recv().unwrap(), 1);
    drop(handle.join().unwrap());
}

/// Sessions once had no times, so the idle time of a transaction was invisible.
#[test]
fn activity_shows_since_when() {
    let (_db, mut a, mut b) = database();
    let new = a.id();
    let mut is_so = |of: i32, what: &str| -> bool {
        let sql = format!("select ({what}) is true from pg_stat_activity where pid = {of}");
        b.query_one(&sql, ()).unwrap().get(0).unwrap()
    };
    let waits = "wait_event_type = 'Client' and wait_event = 'ClientRead'";
    a.execute("begin", ()).unwrap();
    a.execute("select 1", ()).unwrap();
    assert!(is_so(new, "backend_start <= xact_start and xact_start <= query_start"));
    assert!(is_so(new, "query_start <= state_change and state_change <= clock_timestamp()"));
    assert!(is_so(new, waits));
    // As in PostgreSQL, a failed block has no transaction any more, unless it failed below a
    // savepoint.
    a.execute("savepoint s", ()).unwrap();
    a.execute("select 1 / 0", ()).unwrap_err();
    assert!(is_so(new, "backend_start <= xact_start and xact_start <= state_change"));
    a.execute("rollback to s; release s", ()).unwrap();
    a.execute("select 1 / 0", ()).unwrap_err();
    assert!(is_so(new, "xact_start is null and query_start <= state_change"));
    a.execute("rollback", ()).unwrap();
    assert!(is_so(new, "xact_start is null and query_start <= state_change"));
    // A tool that ends long-idle sessions asks this.
    assert!(is_so(new, "state = 'idle' and state_change <= clock_timestamp()"));
    assert!(is_so(new, waits));
    let own = "xact_start = now() and query_start = statement_timestamp() \
               and state_change = query_start and wait_event is null";
    let sql = format!("select {own} from pg_stat_activity where pid = pg_backend_pid()");
    assert!(a.query_one(&sql, ()).unwrap().get::<bool>(0).unwrap());
    // The session has no socket.
    assert!(is_so(new, "client_port is null and client_addr is null"));
}

/// `backend_xmin` was once NULL, so the session that kept old versions was not visible.
#[test]
fn activity_shows_from_which_transaction_on_a_snapshot_holds_back() {
    let (db, mut a, mut b) = database();
    let mut looks = db.session();
    let mut shown = |of: i32, what: &str| -> Option<String> {
        let sql = format!("select {what}::text from pg_stat_activity where pid = {of}");
        looks.query_one(&sql, ()).unwrap().get(0).unwrap()
    };
    b.execute("begin", ()).unwrap();
    assert_eq!(int(&mut b, "select count(*) from t"), 2);
    assert_eq!(shown(b.id(), "backend_xmin"), None, "read committed keeps none");
    b.execute("rollback", ()).unwrap();
    a.execute("begin", ()).unwrap();
    a.execute("update t set v = 11 where id = 1", ()).unwrap();
    let xid = shown(a.id(), "backend_xid");
    assert!(xid.is_some());
    b.execute("begin isolation level repeatable read", ()).unwrap();
    assert_eq!(int(&mut b, "select v from t where id = 1"), 10);
    assert_eq!(shown(b.id(), "backend_xmin"), xid);
    a.execute("commit", ()).unwrap();
    a.execute("update t set v = 12 where id = 1", ()).unwrap();
    assert_eq!(shown(b.id(), "backend_xmin"), xid);
    assert_eq!(shown(a.id(), "backend_xmin"), None);
    b.execute("commit", ()).unwrap();
    assert_eq!(shown(b.id(), "backend_xmin"), None);
}

#[test]
fn activity_shows_who_sleeps() {
    let (db, mut a, _b) = database();
    let (id, control) = (a.id(), std::sync::Arc::clone(a.control()));
    let sleeper = thread::spawn(move || {
        a.execute("select pg_sleep(1000)", ()).unwrap_err();
        a
    });
    let mut looks = db.session();
    let sleeps = format!(
        "select count(*) from pg_stat_activity where pid = {id} and state = 'active' \
         and wait_event_type = 'Timeout' and wait_event = 'PgSleep'"
    );
    // Ends: the other session sleeps until it is told to stop.
    while int(&mut looks, &sleeps) == 0 {
        thread::yield_now();
    }
    control.cancel();
    let a = sleeper.join().unwrap();
    assert_eq!(int(&mut looks, &sleeps), 0);
    drop(a);
}

#[test]
fn a_session_that_has_run_nothing_is_idle_since_it_is_there() {
    let (db, mut a, _b) = database();
    let fresh = db.session();
    let sql = format!(
        "select state = 'idle' and state_change = backend_start and query_start is null \
         from pg_stat_activity where pid = {}",
        fresh.id()
    );
    assert!(a.query_one(&sql, ()).unwrap().get::<bool>(0).unwrap());
}

#[test]
fn uncommitted_work_is_invisible() {
    let (_db, mut a, mut b) = database();
    a.execute("begin", ()).unwrap();
    a.execute("update t set v = 11 where id = 1", ()).unwrap();
    a.execute("insert into t values (3, 30)", ()).unwrap();
    assert_eq!(int(&mut b, "select v from t where id = 1"), 10);
    assert_eq!(int(&mut b, "select count(*) from t"), 2);
    a.execute("commit", ()).unwrap();
    assert_eq!(int(&mut b, "select v from t where id = 1"), 11);
    assert_eq!(int(&mut b, "select count(*) from t"), 3);
}

#[test]
fn repeatable_read_keeps_its_snapshot_and_refuses_lost_updates() {
    let (_db, mut a, mut b) = database();
    b.execute("begin isolation level repeatable read", ()).unwrap();
    assert_eq!(int(&mut b, "select v from t where id = 1"), 10);
    a.execute("update t set v = v + 1 where id = 1", ()).unwrap();
    assert_eq!(int(&mut b, "select v from t where id = 1"), 10);
    let error = b.execute("update t set v = v + 1 where id = 1", ()).unwrap_err();
    assert_eq!(error.sqlstate, "40001");
    b.execute("rollback", ()).unwrap();
    assert_eq!(int(&mut b, "select v from t where id = 1"), 11);
}

#[test]
fn read_committed_updates_wait_and_see_the_newest_version() {
    let (db, mut a, b) = database();
    a.execute("begin", ()).unwrap();
    a.execute("update t set v = v + 1 where id = 1", ()).unwrap();
    let (done, handle) =
        start_waiting(&db, b, |b| b.execute("update t set v = v + 1 where id = 1", ()));
    a.execute("commit", ()).unwrap();
    assert_eq!(done.recv().unwrap().unwrap(), 1);
    handle.join().unwrap();
    assert_eq!(int(&mut a, "select v from t where id = 1"), 12);
}

#[test]
fn deadlocks_are_broken() {
    let (db, mut a, mut b) = database();
    a.execute("set deadlock_timeout = '20ms'", ()).unwrap();
    a.execute("begin", ()).unwrap();
    b.execute("begin", ()).unwrap();
    a.execute("update t set v = 0 where id = 1", ()).unwrap();
    b.execute("update t set v = 0 where id = 2", ()).unwrap();
    let (done, handle) = start_waiting(&db, b, |b| {
        let result = b.execute("update t set v = 0 where id = 1", ());
        let _ = b.execute("rollback", ());
        result
    });
    let mine = a.execute("update t set v = 0 where id = 2", ());
    let _ = a.execute("rollback", ());
    let theirs = done.recv_timeout(Duration::from_secs(30)).unwrap();
    handle.join().unwrap();
    let failed: Vec<_> = [mine, theirs].into_iter().filter_map(Result::err).collect();
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert_eq!(failed[0].sqlstate, "40P01");
}

/// A session's `deadlock_timeout` once had no effect: the first session to wait was the victim.
#[test]
fn the_session_whose_deadlock_timeout_is_over_is_the_victim() {
    let (db, mut a, mut b) = database();
    a.execute("set deadlock_timeout = '1ms'", ()).unwrap();
    b.execute("set deadlock_timeout = '1h'", ()).unwrap();
    for (session, id) in [(&mut a, 1), (&mut b, 2)] {
        session.execute("begin", ()).unwrap();
        session.execute(&format!("update t set v = 0 where id = {id}"), ()).unwrap();
    }
    let update = "update t set v = 0 where id = 1";
    let (done, handle) = start_waiting(&db, b, move |b| b.execute(update, ()));
    let died = a.execute("update t set v = 0 where id = 2", ()).unwrap_err();
    assert_eq!(died.sqlstate, "40P01");
    a.execute("rollback", ()).unwrap();
    assert_eq!(done.recv().unwrap().unwrap(), 1);
    handle.join().unwrap();
}

/// Two sessions that held a table lock and wanted a stronger one once waited for
/// `deadlock_timeout`, and the first one was the victim.
#[test]
fn the_second_of_two_upgrades_is_refused_at_once() {
    let (db, mut a, mut b) = database();
    for session in [&mut a, &mut b] {
        session.execute("set deadlock_timeout = '1h'", ()).unwrap();
        session.execute("begin", ()).unwrap();
        session.execute("lock table t in access share mode", ()).unwrap();
    }
    let upgrade = "lock table t in access exclusive mode";
    let (done, handle) = start_waiting(&db, a, move |a| a.execute(upgrade, ()));
    assert_eq!(b.execute(upgrade, ()).unwrap_err().sqlstate, "40P01");
    b.execute("rollback", ()).unwrap();
    done.recv().unwrap().unwrap();
    handle.join().unwrap();
}

/// `pg_blocking_pids` once named no session when a session waited for another's savepoint. It
/// compared lock keys, and a savepoint has a transaction id of its own. It also named waiters with
/// weaker claims.
#[test]
fn a_savepoint_blocks_by_its_session() {
    let (db, mut a, b) = database();
    for sql in ["begin", "savepoint s", "delete from t where id = 1"] {
        a.execute(sql, ()).unwrap();
    }
    let waiting = b.id();
    let sql = "select v from t where id = 1 for update";
    let (answer, handle) = start_waiting(&db, b, move |b| b.query(sql, ()).unwrap().len());
    let blocking = format!("select (pg_blocking_pids({waiting}))[1]");
    assert_eq!(int(&mut db.session(), &blocking), i64::from(a.id()));
    a.execute("rollback to s", ()).unwrap();
    assert_eq!(answer.recv().unwrap(), 1);
    a.execute("commit", ()).unwrap();
    handle.join().unwrap();
}

#[test]
fn definitions_wait_for_readers_and_names_are_looked_up_again() {
    let (db, mut a, b) = database();
    a.execute("begin", ()).unwrap();
    a.execute(
        "alter table t rename to old; create table t (id int, v int); insert into t values (7, 70)",
        (),
    )
    .unwrap();
    let (done, handle) =
        start_waiting(&db, b, |b| b.query("select v from t", ()).map(|rows| rows.len()));
    a.execute("commit", ()).unwrap();
    // The statement waited for the table that had the name before. Then it reads the table that has
    // the name now.
    assert_eq!(done.recv().unwrap().unwrap(), 1);
    handle.join().unwrap();
}

#[test]
fn two_creators_of_one_name() {
    let (db, mut a, b) = database();
    a.execute("begin", ()).unwrap();
    a.execute("create table same (a int)", ()).unwrap();
    let (done, handle) = start_waiting(&db, b, |b| b.execute("create table same (b int)", ()));
    a.execute("commit", ()).unwrap();
    assert_eq!(done.recv().unwrap().unwrap_err().sqlstate, "42P07");
    handle.join().unwrap();
}

#[test]
fn lock_timeout_cancel_and_terminate_end_a_wait() {
    let (db, mut a, mut b) = database();
    a.execute("begin", ()).unwrap();
    a.execute("update t set v = 0 where id = 1", ()).unwrap();
    b.execute("set lock_timeout = '10ms'", ()).unwrap();
    let error = b.execute("update t set v = 1 where id = 1", ()).unwrap_err();
    assert_eq!(error.sqlstate, "55P03");
    b.execute("set lock_timeout = 0; set statement_timeout = '10ms'", ()).unwrap();
    let error = b.execute("update t set v = 1 where id = 1", ()).unwrap_err();
    assert_eq!(error.sqlstate, "57014");
    b.execute("set statement_timeout = 0", ()).unwrap();
    let (id, secret) = (b.id(), b.secret());
    let (done, handle) =
        start_waiting(&db, b, |b| b.execute("update t set v = 1 where id = 1", ()));
    db.cancel(id, secret.wrapping_add(1));
    db.cancel(id, secret);
    assert_eq!(done.recv().unwrap().unwrap_err().sqlstate, "57014");
    let b = handle.join().unwrap();
    let (done, handle) =
        start_waiting(&db, b, |b| b.execute("update t set v = 1 where id = 1", ()));
    a.execute(&format!("select pg_terminate_backend({id})"), ()).unwrap();
    assert_eq!(done.recv().unwrap().unwrap_err().sqlstate, "57P01");
    assert!(handle.join().unwrap().is_terminated());
}

/// Constants are computed before rows are read, and errors in them are left to the rows. An
/// interrupt during that computation was once lost, and the statement ran on without limit.
#[test]
fn a_timeout_while_constants_are_computed_is_not_lost() {
    let (_db, mut a, _b) = database();
    a.execute("set statement_timeout = 1", ()).unwrap();
    let sql = "select length(repeat('x', 2000000)) from generate_series(1, 1000)";
    assert_eq!(a.query(sql, ()).unwrap_err().sqlstate, "57014");
}

#[test]
fn row_locks() {
    let (_db, mut a, mut b) = database();
    a.execute("begin", ()).unwrap();
    a.query("select * from t where id = 1 for update", ()).unwrap();
    let error = b.query("select * from t where id = 1 for update nowait", ()).unwrap_err();
    assert_eq!(error.sqlstate, "55P03");
    let free = b.query("select id from t order by id for update skip locked", ()).unwrap();
    assert_eq!(free.len(), 1);
    a.execute("commit", ()).unwrap();
}

/// A session's prepared plan never runs on files that another session's TRUNCATE replaced.
#[test]
fn truncate_and_drop_under_prepared_plans() {
    let (_db, mut a, mut b) = database();
    let read = b.prepare("select v from t where id = $1").unwrap();
    for round in 0..20 {
        assert_eq!(b.query(&read, (1,)).unwrap().len(), 1, "round {round}");
        a.execute("begin; truncate t; insert into t values (1, 5)", ()).unwrap();
        a.execute(if round % 2 == 0 { "commit" } else { "rollback" }, ()).unwrap();
    }
    a.execute("drop table t", ()).unwrap();
    assert_eq!(b.query(&read, (1,)).unwrap_err().sqlstate, "42P01");
}

/// A sequence could once be dropped, get another file or other options under transactions that had
/// drawn from it.
#[test]
fn who_changes_a_sequence_waits_for_those_who_have_drawn_from_it() {
    for change in [
        "drop sequence u_id_seq cascade",
        "drop table u",
        "alter table u drop column id",
        "truncate u restart identity",
        "alter sequence u_id_seq restart 100",
        "alter sequence u_id_seq increment 10",
    ] {
        let (db, mut a, mut b) = database();
        b.execute("create table u (id serial)", ()).unwrap();
        let draw = "select nextval('u_id_seq')";
        a.execute("begin", ()).unwrap();
        assert_eq!(int(&mut a, draw), 1);
        let (done, worker) = start_waiting(&db, b, move |b| b.execute(change, ()).map(drop));
        assert_eq!(int(&mut a, draw), 2, "{change}");
        a.execute("commit", ()).unwrap();
        done.recv().unwrap().unwrap();
        worker.join().unwrap();
    }
}

/// `nextval` once did not wait for ALTER SEQUENCE, and drew from a sequence that was being dropped.
#[test]
fn who_draws_from_a_sequence_waits_for_those_who_change_it() {
    let (db, mut a, mut b) = database();
    a.execute("create sequence s", ()).unwrap();
    let draw = "select nextval('s')";
    assert_eq!(int(&mut b, draw), 1);
    for (change, next) in [
        ("alter sequence s increment 10", Some(11)),
        ("alter sequence s restart 100", Some(100)),
        ("drop sequence s", None),
    ] {
        a.execute("begin", ()).unwrap();
        a.execute(change, ()).unwrap();
        if next == Some(11) {
            assert_eq!(int(&mut b, "select last_value from s"), 1, "it is read beside the change");
        }
        let (drawn, worker) = start_waiting(&db, b, move |b| {
            b.query_one(draw, ()).map(|row| row.get::<i64>(0).unwrap())
        });
        a.execute("commit", ()).unwrap();
        let drawn = drawn.recv().unwrap();
        if let Some(next) = next {
            assert_eq!(drawn.unwrap(), next, "{change}");
        } else {
            let error = drawn.unwrap_err();
            assert!(error.message.starts_with("could not open relation with OID"), "{error}");
        }
        b = worker.join().unwrap();
    }
}
