//! LISTEN and NOTIFY between sessions: messages, their times and their order. Also advisory locks
//! beside other locks.

mod common;

use std::time::Duration;

use common::run;
use niwaki::{Database, Notification, Session};
use niwaki_env::sync::thread;

fn sent(sender: &Session, channel: &str, payload: &str) -> Notification {
    Notification { sender: sender.id(), channel: channel.to_owned(), payload: payload.to_owned() }
}

fn received(session: &mut Session) -> Vec<Notification> {
    std::iter::from_fn(|| session.take_notification()).collect()
}

#[test]
fn messages_arrive_with_their_commit_and_once() {
    let database = Database::in_memory_without_threads().unwrap();
    let (mut a, mut b, mut c) = (database.session(), database.session(), database.session());
    assert_eq!(run(&mut a, "listen x; listen \"Y y\""), "");
    assert_eq!(run(&mut b, "notify x, 'before'"), "");
    assert_eq!(received(&mut a), [sent(&b, "x", "before")]);
    assert_eq!(run(&mut b, "begin; notify x, '1'; notify x, '1'; notify x; notify z, 'other'"), "");
    assert_eq!(run(&mut c, "notify \"Y y\", '2'"), "");
    assert_eq!(received(&mut a), [sent(&c, "Y y", "2")]);
    assert_eq!(run(&mut b, "savepoint s; notify x, '3'; rollback to s; notify x, '4'; commit"), "");
    let expected = [sent(&b, "x", "1"), sent(&b, "x", ""), sent(&b, "x", "4")];
    assert_eq!(received(&mut a), expected);
    assert_eq!(run(&mut b, "begin; notify x, '5'; rollback"), "");
    assert_eq!(received(&mut a), []);
    // A session receives its own messages, but none inside a transaction.
    assert_eq!(run(&mut a, "begin; select pg_notify('x', 'own')"), "");
    assert_eq!(received(&mut a), []);
    assert_eq!(run(&mut a, "commit"), "");
    assert_eq!(received(&mut a), [sent(&a, "x", "own")]);
    assert_eq!(run(&mut a, "unlisten x"), "");
    assert_eq!(run(&mut b, "notify x"), "");
    assert_eq!(received(&mut a), []);
    assert_eq!(run(&mut a, "begin; listen q; rollback"), "");
    assert_eq!(run(&mut b, "notify q"), "");
    assert_eq!(received(&mut a), []);
}

#[test]
fn a_waiting_session_is_woken() {
    let database = Database::in_memory_without_threads().unwrap();
    let (mut a, mut b) = (database.session(), database.session());
    assert_eq!(run(&mut a, "listen x"), "");
    assert_eq!(a.wait_for_notification(Duration::ZERO).unwrap(), None);
    let waiter = thread::spawn(move || a.wait_for_notification(Duration::from_mins(1)).unwrap());
    assert_eq!(run(&mut b, "notify x, 'now'"), "");
    assert_eq!(waiter.join().unwrap(), Some(sent(&b, "x", "now")));
}

#[test]
fn the_queue_is_bounded() {
    let database = Database::in_memory_without_threads().unwrap();
    let (mut a, mut b) = (database.session(), database.session());
    assert_eq!(run(&mut a, "listen x"), "");
    let many = "select count(*) from (select pg_notify('x', i || repeat('x', 7900)) from \
                generate_series(1, 1500) as g(i)) as s(n) where n is not null";
    let mut refused = String::new();
    for _ in 0..8 {
        refused = run(&mut b, many);
        if refused != "1500" {
            break;
        }
    }
    let error = "error 54000: too many notifications in the NOTIFY queue";
    assert_eq!(refused.lines().last(), Some(error));
    assert_eq!(run(&mut b, "select pg_notification_queue_usage() > 0.8"), "t");
    drop(a);
    assert_eq!(run(&mut b, "select pg_notification_queue_usage()"), "0");
    assert_eq!(run(&mut b, many), "1500");
}

/// LISTEN and NOTIFY in one transaction exceeded the bound of the queue: room was reserved only for
/// the sessions that listened before.
#[test]
fn the_queue_is_bounded_for_listen_in_the_same_transaction() {
    let database = Database::in_memory_without_threads().unwrap();
    let (mut a, mut b, mut c) = (database.session(), database.session(), database.session());
    let many = |channel: &str| {
        format!(
            "select count(*) from (select pg_notify('{channel}', i || repeat('x', 7900)) from \
             generate_series(1, 1500) as g(i)) as s(n) where n is not null"
        )
    };
    assert_eq!(run(&mut a, "listen x"), "");
    assert_eq!(run(&mut c, "listen y"), "");
    for _ in 0..5 {
        assert_eq!(run(&mut b, &many("x")), "1500");
    }
    let refused = run(&mut b, &format!("begin; listen z; {}; commit", many("z")));
    let error = "error 54000: too many notifications in the NOTIFY queue";
    assert_eq!(refused.lines().last(), Some(error));
    assert_eq!(run(&mut b, "select count(*) from pg_listening_channels()"), "0");
    assert_eq!(run(&mut b, "select pg_notification_queue_usage() < 1"), "t");
    // A session that stops listening needs no room.
    assert_eq!(run(&mut c, &format!("begin; unlisten y; {}; commit", many("y"))), "1500");
}

/// Waits until a session waits for another one.
fn until_blocked(database: &Database, waiting: i32) {
    let mut watcher = database.session();
    let question = format!("select cardinality(pg_blocking_pids({waiting})) > 0");
    while run(&mut watcher, &question) != "t" {
        thread::yield_now();
    }
}

#[test]
fn advisory_locks_are_waited_for() {
    let database = Database::in_memory_without_threads().unwrap();
    let (mut a, mut b, mut c) = (database.session(), database.session(), database.session());
    assert_eq!(run(&mut a, "select pg_advisory_lock(1)"), "");
    assert_eq!(run(&mut c, "select pg_try_advisory_lock(1), pg_try_advisory_lock(0, 1)"), "f|t");
    let id = b.id();
    let waiter = thread::spawn(move || (run(&mut b, "select pg_advisory_lock_shared(1)"), b));
    until_blocked(&database, id);
    // A rollback keeps the lock that belongs to the session.
    assert_eq!(run(&mut a, "begin; select pg_advisory_xact_lock(1); rollback"), "");
    assert_eq!(run(&mut c, "select pg_try_advisory_lock_shared(1)"), "f");
    assert_eq!(run(&mut a, "select pg_advisory_unlock(1)"), "t");
    let (found, b) = waiter.join().unwrap();
    assert_eq!(found, "");
    assert_eq!(
        run(&mut c, "select pg_try_advisory_lock_shared(1), pg_try_advisory_lock(1)"),
        "t|f"
    );
    // The end of a session releases its locks.
    drop(b);
    assert_eq!(run(&mut c, "select pg_try_advisory_lock(1)"), "t");
}

#[test]
fn advisory_locks_are_part_of_deadlocks() {
    let database = Database::in_memory_without_threads().unwrap();
    let (mut a, mut b) = (database.session(), database.session());
    assert_eq!(run(&mut a, "create table t (a int)"), "");
    assert_eq!(run(&mut a, "select pg_advisory_lock(1)"), "");
    assert_eq!(run(&mut b, "begin; lock table t; set local deadlock_timeout = '1h'"), "");
    let id = b.id();
    let waiter = thread::spawn(move || run(&mut b, "select pg_advisory_lock(1)"));
    until_blocked(&database, id);
    let found = run(&mut a, "insert into t values (1)");
    let other = if found.is_empty() {
        // The waiting session that ran the deadlock check is the victim.
        waiter.join().unwrap()
    } else {
        drop(a);
        assert_eq!(waiter.join().unwrap(), "");
        found
    };
    assert!(other.starts_with("error 40P01"), "{other}");
}
