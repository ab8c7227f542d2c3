//! Threads that panic while they have sessions, transactions or cursors.

use std::panic::resume_unwind;

use niwaki::{ColumnInfo, Database, Datum, ResultSink, RowSink, Session, SqlError};
use niwaki_env::Env;
use niwaki_env::rng::SeededRng;
use niwaki_env::sync::thread;

use crate::common::Lines;
use crate::world::{World, statement};
use crate::{Folder, all, ok, options, quiet};

const WORD: &str = "the thread dies";

/// Panics without printing.
fn dies() -> ! {
    resume_unwind(Box::new(WORD))
}

/// Takes one row, and ends the thread at the second row, or when COPY data is wanted.
#[derive(Default)]
struct Dies {
    rows: u32,
}

impl RowSink for Dies {
    fn row(&mut self, _: &[Datum]) -> niwaki::Result<()> {
        self.rows += 1;
        if self.rows > 1 {
            dies();
        }
        Ok(())
    }
}

impl ResultSink for Dies {
    fn columns(&mut self, _: &[ColumnInfo]) -> niwaki::Result<()> {
        Ok(())
    }
    fn complete(&mut self, _: &str) {}
    fn empty_query(&mut self) {}
    fn notice(&mut self, _: &SqlError) {}
    fn parameter_status(&mut self, _: &str, _: &str) {}
    fn copy_in(&mut self, _: usize) -> niwaki::Result<()> {
        Ok(())
    }
    fn copy_in_data(&mut self, _: &mut Vec<u8>) -> niwaki::Result<bool> {
        dies()
    }
    fn copy_out_begin(&mut self, _: usize) -> niwaki::Result<()> {
        Ok(())
    }
    fn copy_out(&mut self, _: &[u8]) -> niwaki::Result<()> {
        self.row(&[])
    }
    fn copy_out_end(&mut self) {}
}

/// Statements in whose middle the thread panics.
const MIDDLES: [&str; 7] = [
    "select id, note from kept order by note",
    "select id from kept where key >= 0",
    "update kept set note = 'never' returning id",
    "delete from kept returning id",
    "copy kept (id, key, note) from stdin",
    "copy kept to stdout",
    // This statement uses temporary files.
    "select g, md5(g::text) from generate_series(1, 20000) g order by 2",
];

/// Last action of a thread.
#[derive(Clone, Copy)]
enum Last {
    /// The thread has a session with session state.
    Idle,
    /// The thread has a transaction handle.
    Transaction,
    /// The thread has objects and locks that statements opened.
    Open,
    /// The thread has a portal that gave a part of its rows.
    Portal,
    /// The thread is in the middle of this statement, inside a block or not.
    Middle(&'static str, bool),
}

impl Last {
    fn draw(rng: &SeededRng) -> Self {
        match rng.below(8) {
            0 => Self::Idle,
            1 => Self::Transaction,
            2 => Self::Open,
            3 => Self::Portal,
            _ => {
                let sql = MIDDLES[rng.below(MIDDLES.len() as u64) as usize];
                Self::Middle(sql, rng.chance(1, 2))
            }
        }
    }

    /// Performs the action. `change` is a statement that changes rows.
    fn work(self, session: &mut Session, change: &str) {
        match self {
            Self::Idle => all(
                session,
                &[
                    "create temp table own (a serial)",
                    "listen churn",
                    "prepare p as select * from kept",
                    "declare c cursor with hold for select * from kept",
                    "select pg_advisory_lock(2)",
                ],
            ),
            Self::Transaction => {
                let mut open = session.transaction().unwrap();
                open.execute(change, ()).unwrap();
                dies();
            }
            Self::Open => all(
                session,
                &[
                    "begin",
                    change,
                    "savepoint s",
                    "create table made (a serial)",
                    "select id from kept for update",
                    "declare c cursor for select id from kept order by note",
                    "fetch 2 from c",
                    "notify churn, 'never'",
                ],
            ),
            Self::Portal => {
                session.parse("", "select id from kept order by note", &[]).unwrap();
                session.bind("", "", &mut |_, _| Ok(Datum::Null), 0).unwrap();
                session.execute_portal("", 2, &mut Lines::default()).unwrap();
            }
            Self::Middle(sql, in_block) => {
                // The statement has a parallel worker.
                all(session, &["set work_mem = '64kB'", "set min_parallel_table_scan_size = 0"]);
                if in_block {
                    all(session, &["begin", change]);
                }
                let ended = session.simple_query(sql, &mut Dies::default());
                panic!("{sql} went on: {ended:?}");
            }
        }
    }
}

/// Starts a thread, and waits until it has died of the expected panic.
fn buried(library: bool, body: impl FnOnce() + Send + 'static) {
    // The thread is started as a program would, or as the library does.
    let thread =
        if library { thread::spawn_named("churn", body).unwrap() } else { thread::spawn(body) };
    let panic = thread.join().expect_err("the thread dies");
    let word = panic.downcast_ref::<&str>().copied();
    assert_eq!(word, Some(WORD), "{:?}", panic.downcast_ref::<String>());
}

/// Lets a thread die. Nothing remains of its uncommitted changes, its locks or its other resources.
pub(crate) fn die(world: &World, rng: &SeededRng) {
    let (database, last) = (world.database.clone(), Last::draw(rng));
    let change = statement(&mut world.rows.clone(), rng);
    buried(rng.chance(1, 2), move || {
        let mut session = database.session();
        last.work(&mut session, &change);
        dies();
    });
    let mut session = world.database.session();
    ok(&mut session, "select id from kept for update nowait");
    assert_eq!(ok(&mut session, "select pg_try_advisory_lock(2)"), "t");
}

/// Lets a thread die with the only handle of a directory. The next opening finds the committed
/// rows.
pub(crate) fn die_with_the_last_handle() {
    let folder = Folder::new("last");
    let env = Env::os(&folder.0);
    let theirs = env.clone();
    buried(false, move || {
        let database = Database::open_with(theirs, options()).unwrap();
        let mut session = database.session();
        drop(database);
        all(
            &mut session,
            &[
                "create table t (a int)",
                "insert into t values (1)",
                "create temp table own (a int)",
                "begin",
                "insert into t values (2)",
            ],
        );
        dies();
    });
    let database = quiet(&env);
    assert_eq!(ok(&mut database.session(), "select a from t"), "1");
    assert_eq!(database.check().unwrap().violations, []);
}
