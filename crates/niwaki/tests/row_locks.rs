//! Row locks and later acts of their holders: a second change in the same transaction, savepoints,
//! rows that move.

mod common;
#[path = "common/waiting.rs"]
mod waiting;

use common::run;
use niwaki::{Database, Options, Session};
use niwaki_env::Env;
use waiting::blocked_until;

fn sessions() -> (Database, Session, Session) {
    sessions_on("")
}

/// Creates a table in which each change gives the row another chain root, often on another page.
fn sessions_where_rows_move() -> (Database, Session, Session) {
    sessions_on("with (heap_only_updates = off)")
}

fn sessions_on(options: &str) -> (Database, Session, Session) {
    let database = Database::in_memory_without_threads().unwrap();
    let mut first = database.session();
    let second = database.session();
    let setup = format!(
        "create table parent (id int primary key, n int, s text) {options}; \
         insert into parent select i, 0, repeat('x', 1500) from generate_series(1, 3) i; \
         create table child (id int primary key, parent int references parent)"
    );
    assert_eq!(run(&mut first, &setup), "");
    (database, first, second)
}

/// A user once saw a child row without a parent. The parent's transaction had first changed another
/// column, which is compatible with a reference check. Then it had deleted the row. The check
/// looked only at the first change.
#[test]
fn a_reference_waits_for_a_row_that_was_changed_and_then_deleted() {
    let thens = ["delete from parent where id = 1", "update parent set id = 9 where id = 1"];
    for (then, new) in thens
        .into_iter()
        .flat_map(|then| [sessions as fn() -> _, sessions_where_rows_move].map(|new| (then, new)))
    {
        let (database, mut a, b) = new();
        run(&mut a, &format!("begin; update parent set n = 1 where id = 1; {then}"));
        let insert = "insert into child values (1, 1)";
        let (found, mut b) = blocked_until(&database, &mut a, "commit", b, insert);
        assert!(found.starts_with("error 23503"), "{then}: {found}");
        assert_eq!(run(&mut b, "select * from child"), "", "{then}");
    }
    // A change that a rollback to a savepoint undid blocks no other transaction.
    let (_database, mut a, mut b) = sessions();
    run(&mut a, "begin; update parent set n = 1 where id = 1; savepoint s");
    run(&mut a, "delete from parent where id = 1; rollback to s");
    assert_eq!(run(&mut b, "set lock_timeout = '10s'; insert into child values (1, 1)"), "");
    assert_eq!(run(&mut a, "commit; select id, n from parent where id = 1"), "1|1");
}

/// `pg_blocking_pids` once found no blocker for a row that was changed below a savepoint.
#[test]
fn who_holds_a_row_below_a_savepoint_is_named() {
    let (database, mut a, b) = sessions();
    run(&mut a, "begin; savepoint s; update parent set n = 1 where id = 1");
    // This asks `pg_blocking_pids` until it names a session.
    let update = "update parent set n = n + 1 where id = 1 returning n";
    assert_eq!(blocked_until(&database, &mut a, "commit", b, update).0, "2");
}

/// FOR KEY SHARE at REPEATABLE READ once failed with 40001 when another column of the row had
/// changed.
#[test]
fn a_key_share_lock_goes_along_with_changes_of_other_columns() {
    let (_database, mut a, mut b) = sessions();
    run(&mut b, "begin isolation level repeatable read; select count(*) from parent");
    run(&mut a, "update parent set n = 1 where id = 1; update parent set n = 2 where id = 1");
    assert_eq!(run(&mut b, "select id, n from parent where id = 1 for key share"), "1|0");
    // The lock is on the row's newest version.
    let delete = "set lock_timeout = '50ms'; delete from parent where id = 1";
    assert!(run(&mut a, delete).starts_with("error 55P03"));
    assert_eq!(run(&mut a, "update parent set n = 3 where id = 1 returning n"), "3");
    run(&mut b, "commit");
    run(&mut b, "begin isolation level repeatable read; select count(*) from parent");
    run(&mut a, "update parent set n = 4 where id = 1; update parent set id = 9 where id = 1");
    let found = run(&mut b, "select id, n from parent where id = 1 for key share");
    assert!(found.starts_with("error 40001"), "{found}");
}

/// ROLLBACK TO once left a lock with the strength of the undone part.
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

/// A lock that is compatible with the row's holders is granted at once, even behind a waiter for
/// them.
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

/// After a FOR UPDATE lock, a change of another column by the same transaction once let FOR KEY
/// SHARE pass.
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

/// A transaction that shared a row once queued behind a waiter for that row: a deadlock.
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

/// Returns when the session waits for exactly these sessions.
fn until_blocked_by(watcher: &mut Session, waiting: i32, blockers: &[i32]) {
    let blockers: Vec<String> = blockers.iter().map(i32::to_string).collect();
    let question = format!("select pg_blocking_pids({waiting})::text");
    let mut found = String::new();
    for _ in 0..100_000 {
        found = run(watcher, &question);
        if found == format!("{{{}}}", blockers.join(",")) {
            return;
        }
        niwaki_env::sync::thread::yield_now();
    }
    panic!("waits for {found}, not for {blockers:?}");
}

/// A transaction had changed a row, or locked it FOR NO KEY UPDATE. When it deleted the row, it
/// once queued behind the row's waiters: a needless deadlock.
#[test]
fn who_changed_or_locked_a_row_does_not_queue_behind_those_who_wait_for_it() {
    for takes in [
        "select 1 from parent where id = 1 for no key update",
        "update parent set n = 1 where id = 1",
        "savepoint s; update parent set n = 1 where id = 1; release s",
    ] {
        let (database, mut a, mut b) = sessions();
        let (mut c, mut watcher) = (database.session(), database.session());
        run(&mut b, "begin; select 1 from parent where id = 1 for key share");
        let (a_id, b_id, c_id) = (a.id(), b.id(), c.id());
        let locking = niwaki_env::sync::thread::spawn(move || {
            run(&mut c, "select n from parent where id = 1 for update")
        });
        until_blocked_by(&mut watcher, c_id, &[b_id]);
        // The statement is compatible with the key share lock.
        run(&mut a, &format!("begin; {takes}"));
        let deleting = niwaki_env::sync::thread::spawn(move || {
            let deleted = run(&mut a, "delete from parent where id = 1 returning id");
            (deleted, run(&mut a, "commit"))
        });
        // Both wait for the row in memory, one behind the other.
        until_blocked_by(&mut watcher, a_id, &[b_id, c_id]);
        assert_eq!(run(&mut b, "commit"), "", "{takes}");
        assert_eq!(deleting.join().unwrap(), ("1".to_owned(), String::new()), "{takes}");
        assert_eq!(locking.join().unwrap(), "", "{takes}");
    }
}

/// Does the same beside a real deadlock. Its victim was once an unrelated waiter for the row, and
/// then another transaction as well.
#[test]
fn a_deadlock_over_a_row_is_between_those_who_have_it() {
    let (database, mut a, mut b) = sessions();
    let (mut c, mut watcher) = (database.session(), database.session());
    for session in [&mut a, &mut b, &mut c] {
        run(session, "set deadlock_timeout = '1h'; begin");
    }
    let (a_id, b_id, c_id) = (a.id(), b.id(), c.id());
    run(&mut a, "select 1 from parent where id = 1 for no key update");
    run(&mut b, "select 1 from parent where id = 1 for key share");
    let does = |mut session: Session, statement: &'static str| {
        niwaki_env::sync::thread::spawn(move || {
            let found = run(&mut session, statement);
            (found, run(&mut session, "commit"))
        })
    };
    let sharing = does(c, "select n from parent where id = 1 for share");
    until_blocked_by(&mut watcher, c_id, &[a_id]);
    let locking = does(b, "select n from parent where id = 1 for no key update");
    until_blocked_by(&mut watcher, b_id, &[a_id]);
    let deleting = does(a, "delete from parent where id = 1");
    until_blocked_by(&mut watcher, a_id, &[b_id]);
    // When either of the two is cancelled, the others go on.
    run(&mut watcher, &format!("select pg_cancel_backend({a_id})"));
    assert!(deleting.join().unwrap().0.starts_with("error 57014"));
    let zero = ("0".to_owned(), String::new());
    assert_eq!((sharing.join().unwrap(), locking.join().unwrap()), (zero.clone(), zero));
}

/// Behind an old snapshot the version between two changes is removed. The older version once took
/// over only the end of the newer change. A changed key then seemed the same, and FOR KEY SHARE
/// passed.
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

/// FOR KEY SHARE once waited for every change that gives the row another chain root, even if the
/// key stayed. Two transactions that each changed a row, and then referred to the other's, were in
/// a deadlock.
#[test]
fn a_reference_does_not_wait_for_a_row_that_moves() {
    let (_database, mut a, mut b) = sessions_where_rows_move();
    run(&mut a, "set lock_timeout = '10s'; begin; update parent set n = 1 where id = 1");
    run(&mut b, "set lock_timeout = '10s'; begin; update parent set n = 1 where id = 2");
    assert_eq!(run(&mut a, "insert into child values (1, 2)"), "");
    assert_eq!(run(&mut b, "insert into child values (2, 1)"), "");
    assert_eq!(run(&mut b, "select id, n from parent where id = 1 for key share"), "1|0");
    assert_eq!(run(&mut a, "commit"), "");
    assert_eq!(run(&mut b, "commit; select count(*) from child"), "2");
}

/// A row whose key is locked stays, whatever becomes of the change that moves it.
#[test]
fn the_key_of_a_row_that_moves_is_locked_wherever_the_row_may_be() {
    let ends = [
        "commit",
        "rollback",
        "rollback to s; commit",
        "rollback to s; update parent set n = 9 where id = 1; commit",
    ];
    for (moves, end) in [0, 1, 5].into_iter().flat_map(|moves| ends.map(|end| (moves, end))) {
        let (database, mut a, mut b) = sessions_where_rows_move();
        let mut c = database.session();
        let change = "update parent set n = n + 1 where id = 1";
        run(&mut a, &format!("begin; {change}; savepoint s; {change}; {change}"));
        run(&mut b, "set lock_timeout = '10s'; begin");
        assert_eq!(run(&mut b, "insert into child values (1, 1)"), "");
        // The moves go on from the place where the row was found.
        (0..moves).for_each(|_| assert_eq!(run(&mut a, change), ""));
        assert_eq!(run(&mut a, end), "");
        let delete = "delete from parent where id = 1 returning id";
        assert!(run(&mut c, &format!("set lock_timeout = '50ms'; {delete}")).contains("55P03"));
        run(&mut c, "set lock_timeout = '10s'");
        let (found, _) = blocked_until(&database, &mut b, "rollback", c, delete);
        assert_eq!(found, "1", "{moves} {end}");
    }
}

/// FOR KEY SHARE at REPEATABLE READ once failed with 40001 for a row to which another change had
/// given another chain root.
#[test]
fn a_key_share_lock_goes_along_with_rows_that_have_moved() {
    let (_database, mut a, mut b) = sessions_where_rows_move();
    run(&mut b, "begin isolation level repeatable read; select count(*) from parent");
    run(&mut a, "update parent set n = 1 where id = 1");
    assert_eq!(run(&mut b, "select id, n from parent where id = 1 for key share"), "1|0");
    // The lock is on the row's newest version.
    let delete = "set lock_timeout = '50ms'; delete from parent where id = 1";
    assert!(run(&mut a, delete).starts_with("error 55P03"));
    assert_eq!(run(&mut a, "update parent set n = 10 where id = 1 returning n"), "10");
    run(&mut b, "commit");
    run(&mut b, "begin isolation level repeatable read; select count(*) from parent");
    run(&mut a, "update parent set n = 4 where id = 1; update parent set id = 9 where id = 1");
    let found = run(&mut b, "select id, n from parent where id = 1 for key share");
    assert!(found.starts_with("error 40001"), "{found}");
}

/// One session that shared a million rows once had all row locks of the server, and inserts with a
/// reference failed. Locks of rows of one page count once, so each row has a page of its own here.
#[test]
fn who_shares_the_rows_of_a_table_leaves_locks_to_others() {
    let options = Options::new().set("max_row_locks", "2000");
    let database = Database::open_with(Env::memory(), options).unwrap();
    let (mut a, mut b) = (database.session(), database.session());
    let setup = "create table parent (id int primary key, s text) with (fillfactor = 20); \
                 insert into parent select g, repeat('x', 1500) from generate_series(1, 2000) g; \
                 create table child (id int primary key, parent int references parent)";
    assert_eq!(run(&mut a, setup), "");
    let share = |upto: u32| {
        format!("select count(*) from (select from parent where id <= {upto} for share) s")
    };
    assert_eq!(run(&mut a, &format!("begin; {}", share(1700))), "1700");
    let error = run(&mut a, &share(2000));
    assert!(error.starts_with("error 53200"), "{error}");
    assert_eq!(run(&mut a, "rollback"), "");
    assert_eq!(run(&mut a, &format!("begin; {}", share(1750))), "1750");
    let references = "insert into child select g, g from generate_series(1, 200) g";
    assert_eq!(run(&mut b, references), "");
    assert_eq!(run(&mut a, "commit"), "");
    assert_eq!(run(&mut b, &share(1700)), "1700");
}

/// A million shared row locks were once the bound of the whole server, and `select … for share` of
/// a large table failed (53200).
#[test]
fn all_rows_of_a_table_are_shared_within_few_locks() {
    let options = Options::new().set("max_row_locks", "1000");
    let database = Database::open_with(Env::memory(), options).unwrap();
    let (mut a, mut b) = (database.session(), database.session());
    let setup = "create table t (id int primary key); \
                 insert into t select generate_series(1, 50000)";
    assert_eq!(run(&mut a, setup), "");
    let share = "begin; select count(*) from (select from t for share) s";
    assert_eq!(run(&mut a, share), "50000");
    assert_eq!(run(&mut b, share), "50000");
    assert_eq!(run(&mut b, "rollback"), "");
    let others = "select count(*) from (select from t for update skip locked) s";
    assert_eq!(run(&mut b, others), "0");
    assert_eq!(run(&mut a, "commit"), "");
    assert_eq!(run(&mut b, others), "50000");
}
