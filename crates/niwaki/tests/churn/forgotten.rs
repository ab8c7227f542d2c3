//! Handles that nobody drops, or that are dropped in the middle of something.

use niwaki::{Datum, Session};
use niwaki_env::rng::SeededRng;

use crate::common::Lines;
use crate::world::{World, statement};
use crate::{all, fails, ok};

/// Sessions that nobody uses any more, each with something that it holds. To the database they are
/// forgotten; the test has them, to close it in the end.
pub(crate) fn sessions(world: &mut World) -> Vec<Session> {
    world.waits_end = false;
    let create = ["create table own (a int)", "insert into own select generate_series(1, 9)"];
    all(&mut world.database.session(), &create);
    let held: [&[&str]; 4] = [
        // Nothing but what is its own.
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
        // A snapshot, in the middle of reading.
        &[
            "begin isolation level repeatable read",
            "declare c cursor for select * from own",
            "fetch 1 from c",
        ],
        // Locks of rows.
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

/// A session begins something and does not end it.
pub(crate) fn leave(world: &mut World, rng: &SeededRng) {
    let mut session = world.database.session();
    let mut rows = world.rows.clone();
    let sql = statement(&mut rows, rng);
    match rng.below(6) {
        // In a transaction, with all that belongs to one.
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
        // While rows are read: by a portal, by cursors, one after its transaction.
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
        // A transaction whose handle is forgotten: the session goes on with it, or takes it along.
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
        // In a block that failed behind a savepoint.
        _ => {
            all(&mut session, &["begin", &sql, "savepoint s"]);
            fails(&mut session, "select 1 / 0", "22012");
        }
    }
    // Rows of a query outlive its session.
    if rng.chance(1, 4) {
        let mut other = world.database.session();
        let mut read = other.query("select note from kept order by id", ()).unwrap().into_iter();
        drop(other);
        assert!(read.next().is_some_and(|row| row.get::<String>(0).is_ok()));
    }
    drop(session);
    assert_eq!(ok(&mut world.database.session(), "select pg_try_advisory_lock(2)"), "t");
}
