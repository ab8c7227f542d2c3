//! Handles that are leaked, or dropped in the middle of work.

use niwaki::{Datum, Session};
use niwaki_env::rng::SeededRng;

use crate::common::Lines;
use crate::world::{World, statement};
use crate::{all, fails, ok};

/// Creates sessions that are never used again, each with resources. For the database they are
/// forgotten. The test keeps them, so that it can close the database in the end.
pub(crate) fn sessions(world: &mut World) -> Vec<Session> {
    world.waits_end = false;
    let create = ["create table own (a int)", "insert into own select generate_series(1, 9)"];
    all(&mut world.database.session(), &create);
    let held: [&[&str]; 4] = [
        // Only the session's own objects.
        &[
            "create temp table mine (a int primary key)",
            "insert into mine select generate_series(1, 100)",
            "listen nobody",
            "prepare p as select * from kept",
            "select pg_advisory_lock(1)",
        ],
        // A transaction that has written.
        &[
            "begin",
            "insert into own values (10)",
            "savepoint s",
            "update own set a = 11 where a = 1",
        ],
        // A snapshot, in the middle of a read.
        &[
            "begin isolation level repeatable read",
            "declare c cursor for select * from own",
            "fetch 1 from c",
        ],
        // Row locks.
        &["begin", "select * from own where a > 1 for share"],
    ];
    let mut sessions: Vec<Session> = Vec::new();
    for statements in held {
        let mut session = world.database.session();
        all(&mut session, statements);
        sessions.push(session);
    }
    sessions
}

/// Lets a session begin work and not end it.
pub(crate) fn leave(world: &mut World, rng: &SeededRng) {
    let mut session = world.database.session();
    let mut rows = world.rows.clone();
    let sql = statement(&mut rows, rng);
    match rng.below(6) {
        // Leaves a transaction with all that belongs to one.
        0 => all(
            &mut session,
            &[
                "create temp table before (a int)",
                "begin",
                &sql,
                "savepoint s",
                "create temp table inside (a int)",
                "create table made (a serial)",
                "listen churn",
                "notify churn, 'never'",
                "select pg_advisory_lock(2)",
            ],
        ),
        // Leaves half-read rows: in a portal, and in cursors. One cursor outlives its transaction.
        1 => {
            let sink = &mut Lines::default();
            session.parse("", "select id, note from kept order by note", &[]).unwrap();
            session.bind("", "", &mut |_, _| Ok(Datum::Null), 0).unwrap();
            session.execute_portal("", 2, sink).unwrap();
        }
        2 => all(
            &mut session,
            &[
                "begin",
                "declare c cursor for select id from kept order by note",
                "fetch 2 from c",
                "select id from kept where id < 9 for update",
            ],
        ),
        3 => all(
            &mut session,
            &["declare c cursor with hold for select * from kept", "fetch 2 from c"],
        ),
        // Leaks the handle of a transaction: the session goes on with the transaction, or ends it
        // when dropped.
        4 => {
            let mut open = session.transaction().unwrap();
            open.execute(&sql, ()).unwrap();
            std::mem::forget(open);
            assert_eq!(session.transaction_status(), b'T');
            if rng.chance(1, 2) {
                session.execute("commit", ()).unwrap();
                world.rows = rows;
            }
        }
        // Leaves a block that failed behind a savepoint.
        _ => {
            all(&mut session, &["begin", &sql, "savepoint s"]);
            fails(&mut session, "select 1 / 0", "22012");
        }
    }
    // The rows of a query outlive its session.
    if rng.chance(1, 4) {
        let mut other = world.database.session();
        let mut read = other.query("select note from kept order by id", ()).unwrap().into_iter();
        drop(other);
        assert!(read.next().is_some_and(|row| row.get::<String>(0).is_ok()));
    }
    drop(session);
    assert_eq!(ok(&mut world.database.session(), "select pg_try_advisory_lock(2)"), "t");
}
