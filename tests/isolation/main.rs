//! Two and three sessions against the prohibitions of each isolation level, and deadlocks.

mod hermitage;

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use postgres::Client;
use support::{Server, TempDir};

fn server(name: &str) -> (TempDir, Server) {
    let dir = TempDir::new(name);
    let server = Server::start(&dir.path().join("data"), &[]);
    server
        .client()
        .batch_execute(
            "create table t (id int primary key, v int); insert into t values (1, 10), (2, 20)",
        )
        .expect("the table");
    (dir, server)
}

fn values(client: &mut Client, sql: &str) -> Vec<i32> {
    let rows = client.query(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    rows.iter().map(|row| row.get(0)).collect()
}

fn sqlstate(error: &postgres::Error) -> String {
    error.code().map_or_else(|| format!("{error:?}"), |code| code.code().to_owned())
}

/// Runs `sql` in the background and waits until the server says that it waits for a lock.
fn blocked(
    mut client: Client,
    server: &Server,
    sql: &str,
) -> thread::JoinHandle<(Client, Result<(), String>)> {
    let pid: i32 = client.query_one("select pg_backend_pid()", &[]).unwrap().get(0);
    let text = sql.to_owned();
    let handle = thread::spawn(move || {
        let outcome = client.batch_execute(&text).map_err(|error| sqlstate(&error));
        (client, outcome)
    });
    let mut watcher = server.client();
    let start = Instant::now();
    loop {
        let waits = watcher.query_one("select pg_blocking_pids($1)::text", &[&pid]).unwrap();
        if waits.get::<_, String>(0) != "{}" {
            return handle;
        }
        assert!(!handle.is_finished(), "{sql} did not wait");
        assert!(start.elapsed() < Duration::from_secs(20), "{sql} never waits for a lock");
        thread::yield_now();
    }
}

#[test]
fn no_dirty_read_and_no_lost_update_at_read_committed() {
    let (_dir, server) = server("rc");
    let (mut a, b, mut c) = (server.client(), server.client(), server.client());
    a.batch_execute("begin; update t set v = v + 1 where id = 1").unwrap();
    assert_eq!(values(&mut c, "select v from t where id = 1"), [10], "uncommitted data was read");
    let waiting = blocked(b, &server, "update t set v = v + 100 where id = 1");
    a.batch_execute("commit").unwrap();
    let (_, outcome) = waiting.join().unwrap();
    assert_eq!(outcome, Ok(()));
    assert_eq!(values(&mut c, "select v from t where id = 1"), [111], "an update was lost");
}

/// The condition is evaluated again on the version that the wait ended with.
#[test]
fn a_waiting_update_judges_its_condition_again() {
    let (_dir, server) = server("epq");
    let (mut a, b, mut c) = (server.client(), server.client(), server.client());
    a.batch_execute("begin; update t set v = 99 where id = 1").unwrap();
    let waiting = blocked(b, &server, "update t set v = v + 1 where v = 10");
    a.batch_execute("commit").unwrap();
    assert_eq!(waiting.join().unwrap().1, Ok(()));
    assert_eq!(values(&mut c, "select v from t order by id"), [99, 20]);

    a.batch_execute("begin; delete from t where id = 2").unwrap();
    let waiting = blocked(server.client(), &server, "update t set v = 0 where id = 2");
    a.batch_execute("commit").unwrap();
    assert_eq!(waiting.join().unwrap().1, Ok(()));
    assert_eq!(values(&mut c, "select v from t order by id"), [99]);
}

#[test]
fn repeatable_read_keeps_its_snapshot_and_refuses_to_overwrite() {
    let (_dir, server) = server("rr");
    let (mut a, mut b) = (server.client(), server.client());
    a.batch_execute("begin isolation level repeatable read").unwrap();
    assert_eq!(values(&mut a, "select v from t where id = 1"), [10]);
    b.batch_execute("update t set v = 11 where id = 1; insert into t values (3, 30)").unwrap();
    assert_eq!(values(&mut a, "select v from t order by id"), [10, 20], "not the same snapshot");
    let error = a.batch_execute("update t set v = 12 where id = 1").unwrap_err();
    assert_eq!(sqlstate(&error), "40001");
    let error = a.batch_execute("select 1").unwrap_err();
    assert_eq!(sqlstate(&error), "25P02");
    a.batch_execute("rollback").unwrap();
    assert_eq!(values(&mut a, "select v from t order by id"), [11, 20, 30]);
}

#[test]
fn a_deadlock_ends_with_one_victim_in_time() {
    let (_dir, server) = server("deadlock");
    let (mut a, mut b) = (server.client(), server.client());
    a.batch_execute("set deadlock_timeout = '200ms'; begin; update t set v = 1 where id = 1")
        .unwrap();
    b.batch_execute("set deadlock_timeout = '200ms'; begin; update t set v = 1 where id = 2")
        .unwrap();
    let waiting = blocked(a, &server, "update t set v = 2 where id = 2");
    let start = Instant::now();
    let second =
        b.batch_execute("update t set v = 2 where id = 1").map_err(|error| sqlstate(&error));
    if second.is_err() {
        b.batch_execute("rollback").unwrap();
    } else {
        b.batch_execute("commit").unwrap();
    }
    let (_, first) = waiting.join().unwrap();
    let mut outcomes = [first, second];
    outcomes.sort();
    assert_eq!(outcomes, [Ok(()), Err("40P01".to_owned())]);
    assert!(start.elapsed() < Duration::from_millis(1200), "{:?}", start.elapsed());
}

#[test]
fn row_locks_wait_skip_or_fail_as_asked() {
    let (_dir, server) = server("rowlocks");
    let (mut a, mut b) = (server.client(), server.client());
    // Strength of the lock held against the lock asked for: does it conflict?
    let modes = ["key share", "share", "no key update", "update"];
    let conflicts = [
        [false, false, false, true],
        [false, false, true, true],
        [false, true, true, true],
        [true; 4],
    ];
    for (held, row) in modes.iter().zip(conflicts) {
        for (asked, conflict) in modes.iter().zip(row) {
            a.batch_execute(&format!("begin; select * from t where id = 1 for {held}")).unwrap();
            let found =
                values(&mut b, &format!("select id from t order by id for {asked} skip locked"));
            let expected: &[i32] = if conflict { &[2] } else { &[1, 2] };
            assert_eq!(found, expected, "held {held}, asked {asked} skip locked");
            let nowait =
                b.batch_execute(&format!("select id from t where id = 1 for {asked} nowait"));
            match nowait {
                Ok(()) => assert!(!conflict, "held {held}, asked {asked} nowait"),
                Err(error) => {
                    assert!(conflict, "held {held}, asked {asked} nowait: {error:?}");
                    assert_eq!(sqlstate(&error), "55P03");
                }
            }
            a.batch_execute("rollback").unwrap();
        }
    }
}

/// FOR KEY SHARE is compatible with an update that leaves the key alone. The lock stays with the
/// row when the update takes the row to another page. The same holds when the row only gets another
/// chain root because an indexed column changed.
#[test]
fn a_row_that_moves_takes_its_shared_locks_along() {
    let (_dir, server) = server("keyshare");
    let (mut a, mut b) = (server.client(), server.client());
    b.batch_execute(
        "alter table t add column f text; alter table t set (heap_only_updates = same_keys);
         create index on t (v); set lock_timeout = '20s';
         insert into t select i, i, repeat('x', 700) from generate_series(3, 12) i",
    )
    .unwrap();
    for update in ["f = repeat('y', 1900)", "v = v + 1", "f = repeat('z', 1950), v = v + 1"] {
        a.batch_execute("begin; select * from t where id = 1 for key share").unwrap();
        let place = "select ctid::text from t where id = 1";
        let place = |b: &mut Client| b.query_one(place, &[]).unwrap().get::<_, String>(0);
        let before = place(&mut b);
        b.batch_execute(&format!("update t set {update} where id = 1"))
            .unwrap_or_else(|error| panic!("{update} waited: {error:?}"));
        assert_ne!(place(&mut b), before, "{update} left the row where it was");
        for (lock, free) in [("no key update", true), ("update", false)] {
            let found =
                values(&mut b, &format!("select id from t where id = 1 for {lock} skip locked"));
            assert_eq!(found.len() == 1, free, "for {lock} after {update}");
        }
        let waiting = blocked(server.client(), &server, "delete from t where id = 1");
        a.batch_execute("commit").unwrap();
        assert_eq!(waiting.join().unwrap().1, Ok(()));
        assert_eq!(values(&mut b, "select id from t where id = 1"), []);
        b.batch_execute("insert into t values (1, 10)").unwrap();
    }
}

#[test]
fn a_unique_check_waits_for_the_other_transaction() {
    let (_dir, server) = server("unique");
    let (mut a, b) = (server.client(), server.client());
    a.batch_execute("begin; insert into t values (7, 0)").unwrap();
    let waiting = blocked(b, &server, "insert into t values (7, 1)");
    a.batch_execute("rollback").unwrap();
    let (b, outcome) = waiting.join().unwrap();
    assert_eq!(outcome, Ok(()));
    a.batch_execute("begin; insert into t values (8, 0)").unwrap();
    let waiting = blocked(b, &server, "insert into t values (8, 1)");
    a.batch_execute("commit").unwrap();
    assert_eq!(waiting.join().unwrap().1, Err("23505".to_owned()));
}

#[test]
fn timeouts_and_cancel_end_a_wait_and_the_session_goes_on() {
    let (_dir, server) = server("timeouts");
    let (mut a, mut b) = (server.client(), server.client());
    a.batch_execute("begin; update t set v = 0 where id = 1").unwrap();
    for (setting, state) in [("lock_timeout", "55P03"), ("statement_timeout", "57014")] {
        let sql = format!("set {setting} = '100ms'; update t set v = 1 where id = 1");
        assert_eq!(sqlstate(&b.batch_execute(&sql).unwrap_err()), state, "{setting}");
        b.batch_execute(&format!("set {setting} = 0")).unwrap();
    }
    let token = b.cancel_token();
    let waiting = blocked(b, &server, "update t set v = 1 where id = 1");
    token.cancel_query(postgres::NoTls).unwrap();
    let (mut b, outcome) = waiting.join().unwrap();
    assert_eq!(outcome, Err("57014".to_owned()));
    assert_eq!(values(&mut b, "select 1"), [1]);

    let token = b.cancel_token();
    let (send, receive) = mpsc::channel();
    let sleeping = thread::spawn(move || {
        send.send(()).unwrap();
        b.batch_execute("select pg_sleep(60)").map_err(|error| sqlstate(&error))
    });
    receive.recv().unwrap();
    while !sleeping.is_finished() {
        // A cancel request before the statement does nothing, as in PostgreSQL.
        token.cancel_query(postgres::NoTls).unwrap();
        thread::yield_now();
    }
    assert_eq!(sleeping.join().unwrap(), Err("57014".to_owned()));
}

#[test]
fn savepoints_undo_their_part_only() {
    let (_dir, server) = server("savepoints");
    let mut a = server.client();
    a.batch_execute(
        "begin; update t set v = 1 where id = 1; savepoint s; update t set v = 2 where id = 1;
         insert into t values (5, 5); rollback to s; insert into t values (6, 6); release s; commit",
    )
    .unwrap();
    assert_eq!(values(&mut a, "select id * 100 + v from t order by id"), [101, 220, 606]);
    let error = a.batch_execute("rollback to s").unwrap_err();
    assert_eq!(sqlstate(&error), "25P01");
}

#[test]
fn ddl_is_transactional_and_noticed_by_prepared_plans() {
    let (_dir, server) = server("ddl");
    let (mut a, mut b) = (server.client(), server.client());
    let prepared = b.prepare("select v from t where id = $1").unwrap();
    assert_eq!(b.query_one(&prepared, &[&1]).unwrap().get::<_, i32>(0), 10);
    a.batch_execute(
        "begin; create table u (a int); insert into u values (1); drop table t; rollback",
    )
    .unwrap();
    assert_eq!(sqlstate(&a.batch_execute("select * from u").unwrap_err()), "42P01");
    assert_eq!(b.query_one(&prepared, &[&1]).unwrap().get::<_, i32>(0), 10);
    a.batch_execute("alter table t add column w int default 3; create index on t (v); truncate t")
        .unwrap();
    assert!(b.query(&prepared, &[&1]).unwrap().is_empty());
    a.batch_execute("insert into t values (1, 77)").unwrap();
    assert_eq!(b.query_one(&prepared, &[&1]).unwrap().get::<_, i32>(0), 77);
    assert_eq!(values(&mut a, "select w from t"), [3]);
}
