//! Automatic VACUUM and ANALYZE of the tables that need them.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Lines, run};
use niwaki::{AutovacuumReport, Database, Options, Session};
use niwaki_env::Env;
use niwaki_env::clock::{Clock, ManualClock};
use niwaki_env::rng::{Rng, SeededRng};
use niwaki_env::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use niwaki_env::sync::{Condvar, Mutex, thread};
use niwaki_env::vfs::OpenMode;

fn each(session: &mut Session, statements: &[&str]) {
    for sql in statements {
        assert_eq!(run(session, sql), "", "{sql}");
    }
}

/// Runs one round of autovacuum. Returns its work as lines.
fn maintain(database: &Database) -> String {
    let shown = |report: &AutovacuumReport| {
        let words = [(report.vacuumed, "VACUUM "), (report.analyzed, "ANALYZE ")];
        let done: String = words.iter().filter(|(done, _)| *done).map(|(_, word)| *word).collect();
        let error = report.error.as_ref().map_or(String::new(), |e| format!(": {}", e.message));
        format!("{done}{}.{}{error}", report.schema, report.table)
    };
    let lines: Vec<String> = database.maintain().unwrap().iter().map(shown).collect();
    lines.join("\n")
}

/// Creates 5,000 rows on some 80 pages, with statistics.
fn filled(database: &Database, table: &str) -> Session {
    let mut session = database.session();
    each(
        &mut session,
        &[
            &format!("create table {table} (id int primary key, k int, note text)"),
            &format!(
                "insert into {table} select g, g % 100, repeat('n', 90) from generate_series(1, 5000) g"
            ),
            &format!("vacuum analyze {table}"),
        ],
    );
    assert_eq!(maintain(database), "", "nothing is left to do");
    session
}

/// Inserts 6,000 rows on more pages than ANALYZE reads, so that ANALYZE takes a random sample.
fn large(session: &mut Session, table: &str) {
    let fill =
        format!("insert into {table} select g, repeat('n', 900) from generate_series(1, 6000) g");
    each(session, &[&format!("create table {table} (id int, note text)"), &fill]);
}

/// Returns live rows, dead rows, rows inserted since the last VACUUM and rows changed since the
/// last ANALYZE, from `pg_stat_user_tables`.
fn numbers(session: &mut Session) -> String {
    run(
        session,
        "select n_live_tup, n_dead_tup, n_ins_since_vacuum, n_mod_since_analyze \
         from pg_stat_user_tables where relname = 't'",
    )
}

#[test]
fn many_deleted_rows_are_vacuumed() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = filled(&database, "t");
    assert_eq!(numbers(&mut session), "5000|0|0|0");
    each(&mut session, &["delete from t where id <= 1000"]);
    assert_eq!(numbers(&mut session), "4000|1000|0|1000");
    each(&mut session, &["delete from t where id <= 1050"]);
    assert_eq!(maintain(&database), "ANALYZE public.t", "50 and a tenth, but not a fifth");
    assert_eq!(numbers(&mut session), "3950|0|0|0", "who read the pages has pruned them");
    each(&mut session, &["delete from t where id > 4000"]);
    assert_eq!(maintain(&database), "VACUUM ANALYZE public.t");
    assert_eq!(numbers(&mut session), "2950|0|0|0");
    let left = "select dead_line_pointers, mixed_chains from niwaki_chain_stats('t')";
    assert_eq!(run(&mut session, left), "0|0");
    assert_eq!(maintain(&database), "");
}

#[test]
fn what_copy_loads_is_analyzed_and_shown_to_all() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = database.session();
    each(&mut session, &["create table t (id int, k int, note text)"]);
    assert_eq!(maintain(&database), "", "empty");
    let mut lines = Lines::default();
    let row = |id: u32| format!("{id}\t{}\t{}\n", id % 7, "n".repeat(90));
    lines.copy = (1..=5000).map(row).collect::<String>().into_bytes();
    session.simple_query("copy t from stdin", &mut lines).unwrap();
    assert_eq!(numbers(&mut session), "5000|0|5000|5000");
    assert_eq!(maintain(&database), "VACUUM ANALYZE public.t");
    assert_eq!(numbers(&mut session), "5000|0|0|0");
    // The heap grows by several pages at a time. The pages behind the last row are empty.
    let hidden = "select count(*) from pg_visibility_map('t') where not all_visible";
    let hidden: u32 = run(&mut session, hidden).parse().unwrap();
    assert!(hidden <= 8, "{hidden}");
    let plan = run(&mut session, "explain select * from t where k = 3");
    assert!(plan.contains("rows=714 "), "a seventh: {plan}");
    assert_eq!(maintain(&database), "");
}

#[test]
fn what_an_old_snapshot_keeps_is_not_vacuumed_again_and_again() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = filled(&database, "t");
    let mut report = database.session();
    run(&mut report, "begin isolation level repeatable read");
    assert_eq!(run(&mut report, "select count(*) from t"), "5000");
    each(&mut session, &["delete from t where id % 10 < 3"]);
    assert_eq!(maintain(&database), "VACUUM ANALYZE public.t");
    assert_eq!(numbers(&mut session), "3500|1500|0|0", "they are still there");
    for _ in 0..5 {
        assert_eq!(maintain(&database), "", "nothing would go");
    }
    each(&mut session, &["delete from t where id % 50 = 3"]);
    assert_eq!(maintain(&database), "", "not many more");
    each(&mut session, &["delete from t where id % 10 in (3, 4)"]);
    assert_eq!(maintain(&database), "VACUUM ANALYZE public.t", "as many as would be reason enough");
    assert_eq!(maintain(&database), "");
    assert_eq!(run(&mut report, "select count(*) from t"), "5000");
    each(&mut report, &["commit"]);
    assert_eq!(maintain(&database), "VACUUM public.t", "now they go");
    assert_eq!(numbers(&mut session), "2500|0|0|0");
    assert_eq!(maintain(&database), "");
}

#[test]
fn a_table_that_is_to_be_left_alone_is() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = filled(&database, "t");
    each(
        &mut session,
        &["alter table t set (autovacuum_enabled = off)", "delete from t where id <= 4000"],
    );
    assert_eq!(maintain(&database), "");
    each(&mut session, &["alter table t set (autovacuum_enabled = on)"]);
    assert_eq!(maintain(&database), "VACUUM ANALYZE public.t");
    let own = "alter table t set (autovacuum_vacuum_threshold = 0, \
               autovacuum_vacuum_scale_factor = 0, autovacuum_analyze_threshold = 1000)";
    each(&mut session, &[own, "delete from t where id = 4001"]);
    assert_eq!(maintain(&database), "VACUUM public.t");
    let error = run(&mut session, "alter table t set (autovacuum_vacuum_scale_factor = 101)");
    assert_eq!(
        error,
        "error 22023: value 101 out of bounds for option \"autovacuum_vacuum_scale_factor\"\n\
         detail: Valid values are between \"0.000000\" and \"100.000000\"."
    );
    let error = run(&mut session, "alter table t set (autovacuum_vacuum_threshold = -1)");
    assert!(error.contains("Valid values are between \"0\" and \"2147483647\"."), "{error}");
    let error = run(&mut session, "alter table t set (autovacuum_vacuum = 1)");
    assert_eq!(error, "error 22023: unrecognized parameter \"autovacuum_vacuum\"");
}

#[test]
fn a_locked_table_keeps_no_other_waiting() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = filled(&database, "t");
    filled(&database, "u");
    each(&mut session, &["delete from t where id <= 4000", "delete from u where id <= 2000"]);
    let mut definer = database.session();
    each(&mut definer, &["begin", "lock table t in share mode"]);
    assert_eq!(maintain(&database), "VACUUM ANALYZE public.u");
    assert_eq!(maintain(&database), "");
    each(&mut definer, &["commit"]);
    assert_eq!(maintain(&database), "VACUUM ANALYZE public.t");
    each(&mut session, &["delete from t", "drop table t"]);
    assert_eq!(maintain(&database), "");
}

#[test]
fn a_broken_table_keeps_no_other_waiting() {
    let env = Env::memory();
    let logged = Arc::new(Mutex::new(Vec::new()));
    let open = || {
        let logged = Arc::clone(&logged);
        let log = move |line: &str| logged.lock().push(line.to_owned());
        Database::open_with(env.clone(), Options::new().log(log)).unwrap()
    };
    let database = open();
    let mut session = database.session();
    for name in ["broken", "whole"] {
        large(&mut session, name);
    }
    let file = run(&mut session, "select relfilenode from pg_class where relname = 'broken'");
    drop(session);
    database.close().unwrap();
    let file = env.vfs.open(&format!("base/{file}.main"), OpenMode::Existing).unwrap();
    file.write_at(&[0xaa; 512], 3 * 8192 + 4000).unwrap();
    let database = open();
    for _ in 0..2 {
        let done = maintain(&database);
        let (whole, broken) = match done.split_once('\n') {
            Some((first, second)) if first.contains("broken") => (second, first),
            Some(both) => both,
            None => ("", &*done),
        };
        assert!(broken.starts_with("public.broken: "), "{done}");
        assert!(whole.is_empty() || whole == "VACUUM ANALYZE public.whole", "{done}");
    }
    let statistics = "select autoanalyze_count from pg_stat_user_tables order by relname";
    assert_eq!(run(&mut database.session(), statistics), "0\n1");
    let logged = logged.lock();
    assert!(logged.len() == 2 && logged[0].contains("\"postgres.public.broken\""), "{logged:?}");
}

/// Counters begin at zero after a start. The visibility map and the sizes do not.
#[test]
fn after_a_start_what_is_durable_tells() {
    let env = Env::memory();
    let open = || Database::open_with(env.clone(), Options::new()).unwrap();
    let database = open();
    let mut session = filled(&database, "t");
    filled(&database, "rest");
    each(&mut session, &["delete from t where id % 4 = 0"]);
    each(
        &mut session,
        &["insert into t select g, 1, repeat('n', 90) from generate_series(6000, 9000) g"],
    );
    drop(session);
    database.close().unwrap();
    let database = open();
    let mut session = database.session();
    assert_eq!(maintain(&database), "", "nobody has used it");
    assert_eq!(run(&mut session, "select count(*) from t"), "6751");
    assert_eq!(maintain(&database), "VACUUM ANALYZE public.t");
    assert_eq!(maintain(&database), "");
    assert_eq!(run(&mut session, "select count(*) from rest"), "5000");
    assert_eq!(maintain(&database), "", "all see all of it, and it has its size");
}

#[test]
fn what_was_truncated_is_not_dead() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = filled(&database, "t");
    each(&mut session, &["delete from t where id <= 500", "begin", "truncate t", "rollback"]);
    assert_eq!(numbers(&mut session), "4500|500|0|500");
    each(&mut session, &["truncate t"]);
    assert_eq!(numbers(&mut session), "0|0|0|500");
    each(&mut session, &["insert into t select g, 1, 'n' from generate_series(1, 10) g"]);
    each(&mut session, &["update t set k = 2 where id <= 3"]);
    assert_eq!(numbers(&mut session), "10|3|10|513");
}

#[test]
fn the_view_has_the_columns_of_postgresql() {
    let clock = Arc::new(ManualClock::new());
    let mut env = Env::memory();
    env.clock = Arc::clone(&clock) as Arc<_>;
    let database = Database::open_with(env, Options::new()).unwrap();
    let mut session = database.session();
    each(&mut session, &["set timezone = 'UTC'", "create table t (id int)"]);
    let times = "select last_vacuum, last_autovacuum, last_analyze, last_autoanalyze, vacuum_count, \
                 autovacuum_count, analyze_count, autoanalyze_count from pg_stat_all_tables";
    assert_eq!(run(&mut session, times), "NULL|NULL|NULL|NULL|0|0|0|0");
    clock.advance(Duration::from_mins(1));
    each(&mut session, &["vacuum t", "vacuum t", "analyze t"]);
    let manual = "2026-01-01 00:01:00+00|NULL|2026-01-01 00:01:00+00|NULL|2|0|1|0";
    assert_eq!(run(&mut session, times), manual);
    clock.advance(Duration::from_hours(1));
    each(&mut session, &["insert into t select generate_series(1, 100)", "delete from t"]);
    assert_eq!(maintain(&database), "VACUUM ANALYZE public.t");
    let automatic = "2026-01-01 00:01:00+00|2026-01-01 01:01:00+00|2026-01-01 00:01:00+00|\
                     2026-01-01 01:01:00+00|2|1|1|1";
    assert_eq!(run(&mut session, times), automatic);
    // The columns of PostgreSQL 15, in its order.
    let columns = "select string_agg(attname, ' ' order by attnum) from pg_attribute \
                   where attrelid = 'pg_stat_user_tables'::regclass and attnum > 0";
    let expected = "relid schemaname relname seq_scan seq_tup_read idx_scan idx_tup_fetch n_tup_ins n_tup_upd n_tup_del n_tup_hot_upd n_live_tup n_dead_tup n_mod_since_analyze n_ins_since_vacuum last_vacuum last_autovacuum last_analyze last_autoanalyze vacuum_count autovacuum_count analyze_count autoanalyze_count";
    assert_eq!(run(&mut session, columns), expected);
}

/// Ten hours of updates, inserts and deletes, with a round each minute.
#[test]
fn hours_of_work_keep_statistics_fresh_and_vacuums_few() {
    // The clock also moves at each reading, because VACUUM sleeps (`autovacuum_vacuum_cost_delay`).
    let clock = Arc::new(ManualClock::ticking(Duration::from_millis(1)));
    let mut env = Env::memory();
    env.clock = Arc::clone(&clock) as Arc<_>;
    let database = Database::open_with(env, Options::new()).unwrap();
    let mut session = filled(&database, "t");
    filled(&database, "idle");
    let counts = "select autovacuum_count, autoanalyze_count, vacuum_count + analyze_count \
                  from pg_stat_user_tables order by relname desc";
    for minute in 0..600_i64 {
        let first = 5001 + 20 * minute;
        each(
            &mut session,
            &[
                &format!("update t set k = k + 1 where id % 97 = {}", minute % 97),
                &format!(
                    "insert into t select g, 1, 'new' from generate_series({first}, {}) g",
                    first + 19
                ),
                &format!("delete from t where id between {} and {}", first - 5000, first - 4981),
            ],
        );
        clock.advance(Duration::from_mins(1));
        database.maintain().unwrap().iter().for_each(|report| assert!(report.error.is_none()));
        let modified = numbers(&mut session);
        let fields: Vec<u64> = modified.split('|').map(|field| field.parse().unwrap()).collect();
        let [live, dead, _, modified] = fields[..] else { panic!("{fields:?}") };
        assert!(live.abs_diff(5000) <= 60, "{fields:?}");
        assert!(dead <= 1050 + 120 && modified <= 550 + 120, "{fields:?}");
    }
    // There are 55,000 changes and at most 43,000 dead versions. Each VACUUM removes at least 1,000
    // versions, and each ANALYZE follows at least 500 changes.
    let counted = run(&mut session, counts);
    let (t, idle) = counted.split_once('\n').unwrap();
    assert_eq!(idle, "0|0|2");
    let fields: Vec<u64> = t.split('|').map(|field| field.parse().unwrap()).collect();
    assert!(fields[0] <= 45 && (80..=115).contains(&fields[1]) && fields[2] == 2, "{t}");
    let pages = run(&mut session, "select pg_relation_size('t') / 8192");
    assert!(pages.parse::<u32>().unwrap() <= 150, "{pages}");
    assert_eq!(run(&mut session, "select count(*) from t"), "5000");
}

/// A database with background threads and a log.
#[test]
fn a_database_with_threads_does_it_by_itself() {
    let (told, hears) = std::sync::mpsc::channel();
    let told = Mutex::new(told);
    let options = Options::new()
        .background(true)
        .set("autovacuum_naptime", "1s")
        .set("log_autovacuum_min_duration", "0")
        .log(move |line| drop(told.lock().send(line.to_owned())));
    let database = Database::open_with(Env::memory(), options).unwrap();
    let mut session = database.session();
    let launcher = "select datname, usename, state, state_change, query from pg_stat_activity \
                    where backend_type = 'autovacuum launcher'";
    // The launcher's thread may not have started yet.
    while run(&mut session, launcher) != "NULL|NULL|NULL|NULL|" {
        thread::yield_now();
    }
    each(
        &mut session,
        &[
            "create table t (id int primary key)",
            "insert into t select generate_series(1, 50000)",
            "delete from t where id % 2 = 0",
        ],
    );
    // The worker may have analyzed the table before.
    while !hears
        .recv_timeout(Duration::from_mins(2))
        .unwrap()
        .starts_with("automatic vacuum of table \"postgres.public.t\": ")
    {}
    // Ends: ANALYZE follows in this round or the next.
    let analyzed = "select autoanalyze_count > 0 from pg_stat_user_tables";
    while run(&mut session, analyzed) != "t" {
        thread::yield_now();
    }
    drop(session);
    database.close().unwrap();
    let options = Options::new().background(true).set("autovacuum", "off");
    let database = Database::open_with(Env::memory(), options).unwrap();
    assert_eq!(run(&mut database.session(), launcher), "");
}

/// Random number generator that stops its next caller, once armed, until the gate is opened.
#[derive(Debug)]
struct Gate {
    rng: SeededRng,
    armed: AtomicBool,
    /// First flag: a caller has come. Second flag: the gate is open.
    state: Mutex<(bool, bool)>,
    changed: Condvar,
}

impl Gate {
    fn new() -> Arc<Self> {
        let (state, changed) = (Mutex::default(), Condvar::new());
        Arc::new(Self { rng: SeededRng::new(7), armed: AtomicBool::new(false), state, changed })
    }

    /// Waits until a caller has come to the gate.
    fn until_reached(&self) {
        let mut state = self.state.lock();
        while !state.0 {
            self.changed.wait(&mut state);
        }
    }

    fn open(&self) {
        self.state.lock().1 = true;
        self.changed.notify_all();
    }
}

impl Rng for Gate {
    fn next_u64(&self) -> u64 {
        if self.armed.swap(false, Ordering::AcqRel) {
            let mut state = self.state.lock();
            *state = (true, false);
            self.changed.notify_all();
            while !state.1 {
                self.changed.wait(&mut state);
            }
            *state = (false, false);
        }
        self.rng.next_u64()
    }
}

/// Clock that moves by a second at each reading, and counts the readings of the named thread.
#[derive(Debug)]
struct CountingClock {
    clock: ManualClock,
    looks: AtomicU64,
}

const DEFINER: &str = "definer";

impl Clock for CountingClock {
    fn now_unix_us(&self) -> i64 {
        self.clock.now_unix_us()
    }

    fn monotonic(&self) -> Duration {
        if std::thread::current().name() == Some(DEFINER) {
            self.looks.fetch_add(1, Ordering::AcqRel);
        }
        self.clock.monotonic()
    }
}

/// A definition of a table that autovacuum works on waits for `deadlock_timeout` and no longer.
#[test]
fn a_definition_does_not_wait_for_it() {
    let gate = Gate::new();
    let clock = ManualClock::ticking(Duration::from_secs(1));
    let clock = Arc::new(CountingClock { clock, looks: AtomicU64::new(0) });
    let mut env = Env::memory();
    env.rng = Arc::clone(&gate) as Arc<_>;
    env.clock = Arc::clone(&clock) as Arc<_>;
    let database = Database::open_with(env, Options::new()).unwrap();
    let mut session = database.session();
    large(&mut session, "t");
    let mut definer = database.session();
    let held = "select count(*) from pg_locks where mode = 'ShareUpdateExclusiveLock'";
    let worker = {
        let (database, gate) = (database.clone(), Arc::clone(&gate));
        gate.armed.store(true, Ordering::Release);
        thread::spawn(move || maintain(&database))
    };
    // The first callers are sessions that get a secret.
    loop {
        gate.until_reached();
        if run(&mut session, held) == "1" {
            break;
        }
        gate.armed.store(true, Ordering::Release);
        gate.open();
        while gate.state.lock().1 {
            thread::yield_now();
        }
    }
    let shown = "select state, query, usename, datname from pg_stat_activity \
                 where backend_type = 'autovacuum worker'";
    let activity = run(&mut session, shown);
    assert_eq!(activity, "active|autovacuum: VACUUM ANALYZE public.t|NULL|postgres");
    let definition = thread::spawn_named(DEFINER, move || {
        run(&mut definer, "alter table t add column more int");
        run(&mut definer, "select count(more), count(*) from t")
    });
    let waits = "select count(*) from pg_locks where mode = 'AccessExclusiveLock' and not granted";
    while run(&mut session, waits) == "0" {
        thread::yield_now();
    }
    // Each reading moves the clock past deadlock_timeout. By the next reading, the waiting thread
    // has asked the worker to give way.
    let before = clock.looks.load(Ordering::Acquire);
    while clock.looks.load(Ordering::Acquire) < before + 2 {
        thread::yield_now();
    }
    gate.open();
    assert_eq!(definition.unwrap().join().unwrap(), "0|6000");
    assert_eq!(worker.join().unwrap(), "VACUUM public.t: canceling autovacuum task");
    assert_eq!(maintain(&database), "ANALYZE public.t", "later");
    assert_eq!(run(&mut session, shown), "");
}

/// Running autovacuum does not prevent a close of the database.
#[test]
fn a_close_ends_what_runs() {
    let gate = Gate::new();
    let mut env = Env::memory();
    env.rng = Arc::clone(&gate) as Arc<_>;
    let options = Options::new().background(true).set("autovacuum_naptime", "1s");
    let database = Database::open_with(env, options).unwrap();
    let mut session = database.session();
    large(&mut session, "t");
    drop(session);
    gate.armed.store(true, Ordering::Release);
    gate.until_reached();
    // A worker runs, perhaps not on the table yet.
    let closer = thread::spawn(move || database.close());
    gate.open();
    closer.join().unwrap().unwrap();
}

/// A program that worked in memory for hours once ran out of memory: its log had no checkpoint, and
/// its tables no vacuum.
#[test]
fn a_database_in_memory_sees_to_itself() {
    let own = "select count(*) from pg_stat_activity where backend_type <> 'client backend'";
    let database = Database::in_memory().unwrap();
    // The gardener and the launcher of autovacuum. The threads that write checkpoints come with
    // them.
    assert_eq!(run(&mut database.session(), own), "2");
    assert_eq!(run(&mut database.session(), "show max_wal_size"), "64MB");
    let database = Database::in_memory_without_threads().unwrap();
    assert_eq!(run(&mut database.session(), own), "0");
}
