//! Row locks beside what their holders do next: a second change in the same transaction, savepoints, rows that move.

mod common;
#[path = "common/waiting.rs"]
mod waiting;

use common::run;
use niwaki::{Database, Session};
use waiting::blocked_until;

fn sessions() -> (Database, Session, Session) {
    let database = Database::in_memory().unwrap();
    let mut first = database.session();
    let second = database.session();
    let setup = "create table parent (id int primary key, n int, s text); \
                 insert into parent select i, 0, 'x' from generate_series(1, 3) i; \
                 create table child (id int primary key, parent int references parent)";
    assert_eq!(run(&mut first, setup), "");
    (database, first, second)
}

/// A user saw a child whose parent was gone. The parent's transaction had changed another column first, which lets a
/// reference be checked beside it, and had deleted the row then: the check looked at its first change alone.
#[test]
fn a_reference_waits_for_a_row_that_was_changed_and_then_deleted() {
    for then in ["delete from parent where id = 1", "update parent set id = 9 where id = 1"] {
        let (database, mut a, b) = sessions();
        run(&mut a, &format!("begin; update parent set n = 1 where id = 1; {then}"));
        let insert = "insert into child values (1, 1)";
        let (found, mut b) = blocked_until(&database, &mut a, "commit", b, insert);
        assert!(found.starts_with("error 23503"), "{then}: {found}");
        assert_eq!(run(&mut b, "select * from child"), "", "{then}");
    }
    // What a rollback to a savepoint took back is in nobody's way.
    let (_database, mut a, mut b) = sessions();
    run(&mut a, "begin; update parent set n = 1 where id = 1; savepoint s");
    run(&mut a, "delete from parent where id = 1; rollback to s");
    assert_eq!(run(&mut b, "set lock_timeout = '10s'; insert into child values (1, 1)"), "");
    assert_eq!(run(&mut a, "commit; select id, n from parent where id = 1"), "1|1");
}

/// `pg_blocking_pids` found nobody for a row that was changed below a savepoint.
#[test]
fn who_holds_a_row_below_a_savepoint_is_named() {
    let (database, mut a, b) = sessions();
    run(&mut a, "begin; savepoint s; update parent set n = 1 where id = 1");
    // Asks `pg_blocking_pids` until it names one.
    let update = "update parent set n = n + 1 where id = 1 returning n";
    assert_eq!(blocked_until(&database, &mut a, "commit", b, update).0, "2");
}

/// FOR KEY SHARE at REPEATABLE READ was 40001 for a row when another column had changed.
#[test]
fn a_key_share_lock_goes_along_with_changes_of_other_columns() {
    let (_database, mut a, mut b) = sessions();
    run(&mut b, "begin isolation level repeatable read; select count(*) from parent");
    run(&mut a, "update parent set n = 1 where id = 1; update parent set n = 2 where id = 1");
    assert_eq!(run(&mut b, "select id, n from parent where id = 1 for key share"), "1|0");
    // It is a lock of the row as it is now.
    let delete = "set lock_timeout = '50ms'; delete from parent where id = 1";
    assert!(run(&mut a, delete).starts_with("error 55P03"));
    assert_eq!(run(&mut a, "update parent set n = 3 where id = 1 returning n"), "3");
    run(&mut b, "commit");
    run(&mut b, "begin isolation level repeatable read; select count(*) from parent");
    run(&mut a, "update parent set n = 4 where id = 1; update parent set id = 9 where id = 1");
    let found = run(&mut b, "select id, n from parent where id = 1 for key share");
    assert!(found.starts_with("error 40001"), "{found}");
}

/// ROLLBACK TO left a lock as strong as the undone part had made it.
#[test]
fn a_rollback_to_a_savepoint_takes_the_strength_back() {
    let (_database, mut a, mut b) = sessions();
    run(&mut a, "begin; select 1 from parent where id = 1 for no key update; savepoint s");
    run(&mut a, "select 1 from parent where id = 1 for update");
    let key_share = "select id from parent where id = 1 for key share skip locked";
    assert_eq!(run(&mut b, key_share), "");
    run(&mut a, "rollback to s");
    assert_eq!(run(&mut b, key_share), "1");
    let share = "select id from parent where id = 1 for share skip locked";
    assert_eq!(run(&mut b, share), "", "the lock of the outer level is there still");
    run(&mut a, "commit");
    assert_eq!(run(&mut b, share), "1");
}

/// Who goes along with those who hold a row has it at once, also behind one who waits for them.
#[test]
fn a_shared_lock_is_taken_beside_one_who_waits() {
    let (database, mut a, b) = sessions();
    run(&mut a, "begin; select 1 from parent where id = 1 for key share");
    let mut c = database.session();
    let waiting = b.id();
    let deleting = niwaki_env::sync::thread::spawn(move || {
        let mut b = b;
        run(&mut b, "delete from parent where id = 1 returning id")
    });
    let question = format!("select cardinality(pg_blocking_pids({waiting}))");
    while run(&mut c, &question) != "1" {
        niwaki_env::sync::thread::yield_now();
    }
    assert_eq!(run(&mut c, "select id from parent where id = 1 for share nowait"), "1");
    assert_eq!(run(&mut c, "update parent set n = n + 1 where id = 1 returning n"), "1");
    assert_eq!(run(&mut a, "commit"), "");
    assert_eq!(deleting.join().unwrap(), "1");
}

/// A change of another column made a FOR UPDATE lock of the same transaction let FOR KEY SHARE pass.
#[test]
fn a_change_keeps_the_strength_of_the_lock_before_it() {
    let (_database, mut a, mut b) = sessions();
    run(&mut a, "begin; select 1 from parent where id = 1 for update");
    run(&mut a, "update parent set n = 1 where id = 1");
    let key_share = "select id from parent where id = 1 for key share skip locked";
    assert_eq!(run(&mut b, key_share), "");
    run(&mut a, "commit");
    assert_eq!(run(&mut b, key_share), "1");
}

/// One who shared a row waited behind one who waited for it: a deadlock.
#[test]
fn who_holds_a_row_does_not_queue_behind_those_who_wait_for_it() {
    let (database, mut a, mut b) = sessions();
    let mut c = database.session();
    run(&mut b, "begin; select 1 from parent where id = 1 for key share");
    run(&mut a, "begin; select 1 from parent where id = 1 for no key update");
    let waiting = c.id();
    let changing = niwaki_env::sync::thread::spawn(move || {
        run(&mut c, "select n from parent where id = 1 for update")
    });
    let mut watcher = database.session();
    let question = format!("select cardinality(pg_blocking_pids({waiting})) > 0");
    while run(&mut watcher, &question) != "t" {
        niwaki_env::sync::thread::yield_now();
    }
    let update = "update parent set n = n + 1 where id = 1 returning n";
    let (found, mut b) = blocked_until(&database, &mut a, "commit", b, update);
    assert_eq!(found, "1");
    run(&mut b, "commit");
    assert_eq!(changing.join().unwrap(), "1");
}

/// Behind an old snapshot the version between two changes goes. The older one took over the end of the
/// newer change alone, so a key that had changed seemed the same, and FOR KEY SHARE went along with it.
#[test]
fn a_key_that_changed_has_changed_when_the_version_between_is_gone() {
    let (_database, mut a, mut b) = sessions();
    let key = "alter table parent add column k int unique; update parent set k = id";
    assert_eq!(run(&mut a, key), "");
    run(&mut b, "begin isolation level repeatable read; select n from parent where id = 1");
    run(&mut a, "update parent set k = 9 where id = 1");
    run(&mut a, "update parent set n = 1 where id = 1");
    run(&mut a, "vacuum parent");
    let found = run(&mut b, "select n from parent where id = 1 for key share");
    assert!(found.starts_with("error 40001"), "{found}");
}
