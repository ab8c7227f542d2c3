//! Statements that wait for another session.

use niwaki::{Database, Session};
use niwaki_env::sync::thread;

use crate::common::run;

/// Runs `statement` in `waiter` while `holder` has an open transaction that the statement must wait
/// for. Then `holder` ends with `end`. Returns the result of the statement, and the session.
pub(crate) fn blocked_until(
    database: &Database,
    holder: &mut Session,
    end: &str,
    mut waiter: Session,
    statement: &'static str,
) -> (String, Session) {
    let waiting = waiter.id();
    let worker = thread::spawn(move || (run(&mut waiter, statement), waiter));
    let mut watcher = database.session();
    let question = format!("select cardinality(pg_blocking_pids({waiting}))");
    // Ends: the other session waits soon, or the test's own time limit strikes.
    while run(&mut watcher, &question) != "1" {
        assert!(!worker.is_finished(), "{statement} did not wait: {:?}", worker.join());
        thread::yield_now();
    }
    assert_eq!(run(holder, end), "");
    worker.join().unwrap()
}
