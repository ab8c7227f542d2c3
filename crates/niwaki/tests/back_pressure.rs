//! Updates that split index pages only because an old snapshot keeps versions. They are counted,
//! and slowed down if the setting says so.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::run;
use niwaki::{Database, Options, Session};
use niwaki_env::Env;
use niwaki_env::clock::ManualClock;
use niwaki_env::sync::thread;

/// Creates a table with nearly full index pages. Each update creates a new chain root, and every
/// index gets an entry for it.
fn filled(env: Env, delay: &str) -> Database {
    let options = Options::new().set("version_split_delay", delay);
    let database = Database::open_with(env, options).unwrap();
    let mut session = database.session();
    for sql in [
        "create table t (id int primary key, k int, note text) with (heap_only_updates = off)",
        "insert into t select g, g * 7919 % 10007, repeat('n', 200) from generate_series(1, 3000) g",
        "create index t_k on t (k)",
    ] {
        assert_eq!(run(&mut session, sql), "");
    }
    database
}

/// Updates each row in a statement of its own.
fn update_all(session: &mut Session) {
    for id in 1..=3000 {
        let sql = format!("update t set note = repeat('m', 200) where id = {id}");
        assert_eq!(run(session, &sql), "");
    }
}

const COUNTED: &str = "select sum(leaf_splits_held), sum(leaf_splits_hinted), \
                       (select update_delays from niwaki_stat_tables where relname = 't') \
                       from niwaki_stat_indexes where relname = 't'";

fn counted(session: &mut Session) -> (i64, i64, i64) {
    let line = run(session, COUNTED);
    let numbers: Vec<i64> = line.split('|').map(|number| number.parse().unwrap()).collect();
    (numbers[0], numbers[1], numbers[2])
}

/// Returns an environment whose clock moves a second at each reading, so that no wait takes time.
fn ticking() -> Env {
    Env { clock: Arc::new(ManualClock::ticking(Duration::from_secs(1))), ..Env::memory() }
}

#[test]
fn splits_for_versions_that_a_report_keeps_are_counted() {
    for delay in ["0", "20ms"] {
        let database = filled(ticking(), delay);
        let (mut session, mut report) = (database.session(), database.session());
        update_all(&mut session);
        assert_eq!(counted(&mut session).0, 0, "nobody keeps anything");
        let sum = "select count(*), sum(k) from t";
        run(&mut report, "begin isolation level repeatable read");
        let before = run(&mut report, sum);
        // The first updates meet a snapshot that is not old yet.
        update_all(&mut session);
        update_all(&mut session);
        let (held, hinted, delays) = counted(&mut session);
        assert!(held > 0 && held <= hinted, "{held} of {hinted}");
        // One update may split a page of each index, and sleeps once.
        match delay {
            "0" => assert_eq!(delays, 0),
            _ => assert!(((held + 1) / 2..=held).contains(&delays), "{delays} for {held}"),
        }
        assert_eq!(run(&mut report, sum), before);
        run(&mut report, "commit");
        update_all(&mut session);
        assert_eq!(counted(&mut session).0, held, "nobody keeps anything any more");
        let setting = run(&mut session, "show version_split_delay");
        assert_eq!(setting, if delay == "0" { "0" } else { "20ms" });
    }
}

/// The delay is a wait like any other: a cancel ends it, and the statement with it.
#[test]
fn a_rest_can_be_cancelled() {
    // Long enough to be noticed if the cancel did not end it.
    let database = filled(Env::memory(), "10s");
    let (mut session, mut watcher) = (database.session(), database.session());
    let mut report = database.session();
    run(&mut report, "begin isolation level repeatable read; select count(*) from t");
    let pid = run(&mut session, "select pg_backend_pid()");
    let updates = thread::spawn(move || {
        // Two rounds, because the snapshot must be an old one.
        for id in (1..=3000).cycle().take(9000) {
            let answer =
                run(&mut session, &format!("update t set note = repeat('m', 200) where id = {id}"));
            if !answer.is_empty() {
                return (id, answer);
            }
        }
        panic!("no update rested");
    });
    while counted(&mut watcher).2 == 0 {
        assert!(!updates.is_finished(), "no update rested");
        thread::yield_now();
    }
    assert_eq!(run(&mut watcher, &format!("select pg_cancel_backend({pid})")), "t");
    let (id, answer) = updates.join().unwrap();
    assert!(answer.contains("57014"), "{id}: {answer}");
    assert_eq!(counted(&mut watcher).2, 1);
    // The waiting session held no latch: others can use the same pages.
    let mut other = database.session();
    assert_eq!(run(&mut other, &format!("select count(*) from t where id = {id}")), "1");
    let blocks = run(&mut other, "select niwaki_check('t')");
    assert!(blocks.parse::<u32>().is_ok(), "{blocks}");
}
