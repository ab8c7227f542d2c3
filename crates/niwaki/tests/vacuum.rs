//! VACUUM: effects of its options, its progress and final reports, and its effects on a session.

mod common;
#[path = "../../niwaki-vacuum/tests/hooked_clock/mod.rs"]
mod hooked_clock;

use std::sync::Arc;

use common::run;
use hooked_clock::HookedClock;
use niwaki::{ColumnInfo, Database, Datum, Options, ResultSink, RowSink, Session, SqlError};
use niwaki_env::Env;
use niwaki_env::sync::{Mutex, thread};

/// Opens a database whose clock can be hooked. Returns the clock too.
fn open() -> (Database, Arc<HookedClock>) {
    let clock = Arc::new(HookedClock::default());
    let env = Env { clock: clock.clone(), ..Env::memory() };
    (Database::open_with(env, Options::new()).unwrap(), clock)
}

fn each(session: &mut Session, statements: &[&str]) {
    for sql in statements {
        assert_eq!(run(session, sql), "", "{sql}");
    }
}

/// Creates 6,000 rows on more than a hundred pages, with two indexes and all pages all-visible.
fn filled(session: &mut Session) {
    each(
        session,
        &[
            "create table t (id int primary key, k int, note text)",
            "create index t_k on t (k)",
            "insert into t select g, g % 1000, repeat('n', 110) from generate_series(1, 6000) g",
            "vacuum t",
        ],
    );
}

/// Sets the vacuum delay so that each page visit sleeps.
fn resting(session: &mut Session) {
    each(session, &["set vacuum_cost_delay = '1ms'", "set vacuum_cost_limit = 1"]);
}

/// Collects notices only.
#[derive(Default)]
struct Notices(Vec<SqlError>);

impl RowSink for Notices {
    fn row(&mut self, _: &[Datum]) -> niwaki::Result<()> {
        Ok(())
    }
}

impl ResultSink for Notices {
    fn columns(&mut self, _: &[ColumnInfo]) -> niwaki::Result<()> {
        Ok(())
    }
    fn complete(&mut self, _: &str) {}
    fn empty_query(&mut self) {}
    fn notice(&mut self, notice: &SqlError) {
        self.0.push(notice.clone());
    }
    fn parameter_status(&mut self, _: &str, _: &str) {}
    fn copy_in(&mut self, _: usize) -> niwaki::Result<()> {
        Ok(())
    }
    fn copy_in_data(&mut self, _: &mut Vec<u8>) -> niwaki::Result<bool> {
        Ok(false)
    }
    fn copy_out_begin(&mut self, _: usize) -> niwaki::Result<()> {
        Ok(())
    }
    fn copy_out(&mut self, _: &[u8]) -> niwaki::Result<()> {
        Ok(())
    }
    fn copy_out_end(&mut self) {}
}

fn notices(session: &mut Session, sql: &str) -> Vec<SqlError> {
    let mut notices = Notices::default();
    session.simple_query(sql, &mut notices).unwrap_or_else(|e| panic!("{sql}: {e}"));
    notices.0
}

/// Returns SQLSTATE and text of the one notice of a statement.
fn warned(session: &mut Session, sql: &str) -> String {
    let found = notices(session, sql);
    assert_eq!(found.len(), 1, "{sql}: {found:?}");
    format!("{} {}", found[0].sqlstate, found[0].message)
}

/// Returns the final VERBOSE report on `topic`.
fn said(session: &mut Session, options: &str, topic: &str) -> String {
    let found = notices(session, &format!("vacuum (verbose, {options}) t"));
    let messages: Vec<&str> = found.iter().map(|notice| &*notice.message).collect();
    assert_eq!(messages, ["vacuuming \"public.t\"", "finished vacuuming \"public.t\""]);
    let detail = found[1].detail.as_deref().expect("what was done");
    let line = detail.lines().find_map(|line| line.strip_prefix(topic));
    line.unwrap_or_else(|| panic!("{topic} in {detail}")).trim_start_matches(": ").to_owned()
}

/// Query for the counter of dead versions.
const DEAD: &str = "select n_dead_tup from pg_stat_user_tables where relname = 't'";

/// Query for DEAD line pointers and chains with several keys.
const LEFT: &str = "select dead_line_pointers, mixed_chains from niwaki_chain_stats('t')";

fn sound(session: &mut Session) {
    let checked = run(session, "select niwaki_check('t')");
    assert!(checked.parse::<u32>().is_ok(), "{checked}");
}

#[test]
fn what_is_no_table_is_skipped_with_a_warning() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut s = database.session();
    filled(&mut s);
    each(&mut s, &["create sequence q"]);
    for (sql, expected) in [
        ("vacuum q", "01000 skipping \"q\" --- cannot vacuum non-tables or special system tables"),
        (
            "vacuum t_k",
            "01000 skipping \"t_k\" --- cannot vacuum non-tables or special system tables",
        ),
        (
            "analyze q",
            "01000 skipping \"q\" --- cannot analyze non-tables or special system tables",
        ),
        (
            "vacuum (analyze) q, t",
            "01000 skipping \"q\" --- cannot vacuum non-tables or special system tables",
        ),
    ] {
        assert_eq!(warned(&mut s, sql), expected, "{sql}");
    }
}

#[test]
fn a_locked_table_is_skipped_or_waited_for() {
    let database = Database::in_memory_without_threads().unwrap();
    let (mut s, mut definer) = (database.session(), database.session());
    filled(&mut s);
    each(&mut s, &["delete from t where id % 10 = 0"]);
    each(&mut definer, &["begin", "lock table t in share mode"]);
    assert_eq!(
        warned(&mut s, "vacuum (skip_locked) t"),
        "55P03 skipping vacuum of \"t\" --- lock not available"
    );
    assert_eq!(
        warned(&mut s, "analyze (skip_locked) t"),
        "55P03 skipping analyze of \"t\" --- lock not available"
    );
    each(&mut s, &["set lock_timeout = '1ms'"]);
    let refused = run(&mut s, "vacuum t");
    assert_eq!(refused, "error 55P03: canceling statement due to lock timeout");
    assert_eq!(run(&mut s, DEAD), "600");
    each(&mut definer, &["commit"]);
    assert_eq!(notices(&mut s, "vacuum (skip_locked) t"), []);
    assert_eq!(run(&mut s, DEAD), "0");
}

/// Work on a table that was dropped meanwhile was once left out without a warning.
#[test]
fn a_named_table_that_is_dropped_meanwhile_is_skipped_with_a_warning() {
    let gone = |word| format!("42P01 skipping {word} of \"b\" --- relation no longer exists");
    for (sql, expected) in [
        ("vacuum a, b", vec![gone("vacuum")]),
        ("vacuum (analyze) a, b", vec![gone("vacuum")]),
        ("analyze a, b", vec![gone("analyze")]),
        // The statement did not name the dropped table.
        ("vacuum p", vec![]),
        ("vacuum (analyze) p", vec![]),
        ("analyze p", vec![]),
    ] {
        let database = Database::in_memory_without_threads().unwrap();
        let (mut s, mut definer) = (database.session(), database.session());
        each(
            &mut definer,
            &[
                "create table p (k int) partition by list (k)",
                "create table a partition of p for values in (1)",
                "create table b partition of p for values in (2)",
                "begin",
                "lock a in share mode",
            ],
        );
        let pid = s.id();
        let waiter = thread::spawn(move || notices(&mut s, sql));
        let waits = format!("select count(*) from pg_locks where pid = {pid} and not granted");
        let mut watcher = database.session();
        // Ends: the other session waits for the first table.
        while run(&mut watcher, &waits) == "0" {
            thread::yield_now();
        }
        each(&mut definer, &["drop table b", "commit"]);
        let told = waiter.join().unwrap().into_iter();
        let told: Vec<String> =
            told.map(|notice| format!("{} {}", notice.sqlstate, notice.message)).collect();
        assert_eq!(told, expected, "{sql}");
    }
}

/// PostgreSQL warns of tables that the statement names, and of no others.
#[test]
fn a_locked_partition_that_nobody_names_is_skipped_without_a_word() {
    let database = Database::in_memory_without_threads().unwrap();
    let (mut s, mut definer) = (database.session(), database.session());
    each(
        &mut definer,
        &[
            "create table p (k int) partition by list (k)",
            "create table a partition of p for values in (1)",
            "begin",
            "lock a in share mode",
        ],
    );
    assert_eq!(notices(&mut s, "vacuum (skip_locked) p"), []);
    assert_eq!(notices(&mut s, "vacuum (skip_locked)"), []);
    assert_eq!(
        warned(&mut s, "vacuum (skip_locked) a"),
        "55P03 skipping vacuum of \"a\" --- lock not available"
    );
}

#[test]
fn full_is_refused_by_name_and_changes_nothing() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut s = database.session();
    filled(&mut s);
    each(&mut s, &["delete from t where id % 10 = 0"]);
    assert_eq!(run(&mut s, DEAD), "600");
    for sql in ["vacuum full t", "vacuum (full, verbose) t", "vacuum full"] {
        assert!(run(&mut s, sql).starts_with("error 0A000: VACUUM FULL"), "{sql}");
    }
    assert_eq!(
        run(&mut s, "begin; vacuum (full off) t").lines().last(),
        Some("error 25001: VACUUM cannot run inside a transaction block")
    );
    each(&mut s, &["rollback"]);
    assert_eq!(run(&mut s, DEAD), "600");
    each(&mut s, &["vacuum (full off) t"]);
    assert_eq!(run(&mut s, DEAD), "0");
}

#[test]
fn few_roots_are_left_to_another_vacuum_and_many_are_not() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut s = database.session();
    // Stale entries of deleted rows would be removed without VACUUM otherwise, and reported to the
    // heap.
    filled(&mut s);
    each(&mut s, &["delete from t where id = 77"]);
    let bypassed = "bypassed, 1 roots wait for another vacuum";
    for options in ["analyze off", "index_cleanup auto", "freeze"] {
        assert_eq!(said(&mut s, options, "index scans"), bypassed, "{options}");
        assert_eq!(run(&mut s, LEFT), "1|0");
    }
    assert_eq!(said(&mut s, "index_cleanup off", "index scans"), "not needed");
    assert_eq!(run(&mut s, LEFT), "1|0");
    assert_eq!(said(&mut s, "index_cleanup", "index scans"), "1, 2 entries removed");
    assert_eq!(run(&mut s, LEFT), "0|0");
    // Delete a tenth of the rows, on all pages.
    each(&mut s, &["delete from t where id % 10 = 0"]);
    assert_eq!(said(&mut s, "index_cleanup off", "tuples").split(',').next(), Some("600 removed"));
    assert_eq!(run(&mut s, LEFT), "600|0");
    assert_eq!(said(&mut s, "index_cleanup auto", "index scans"), "1, 1200 entries removed");
    assert_eq!(run(&mut s, LEFT), "0|0");
    sound(&mut s);
}

#[test]
fn the_statement_comes_before_the_table_and_that_before_the_rule() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut s = database.session();
    filled(&mut s);
    let mut id = 0;
    let mut after = |s: &mut Session, option: &str, statement: &str| {
        id += 1;
        let set = match option {
            "" => "alter table t reset (vacuum_index_cleanup)".to_owned(),
            value => format!("alter table t set (vacuum_index_cleanup = {value})"),
        };
        each(s, &[&set, &format!("delete from t where id = {id}"), statement]);
        let left = run(s, LEFT);
        each(s, &["vacuum (index_cleanup on) t"]);
        assert_eq!(run(s, LEFT), "0|0", "{option}, {statement}");
        left
    };
    for option in ["on", "true", "yes", "1"] {
        assert_eq!(after(&mut s, option, "vacuum t"), "0|0", "{option}");
        assert_eq!(after(&mut s, option, "vacuum (index_cleanup auto) t"), "1|0", "{option}");
        assert_eq!(after(&mut s, option, "vacuum (index_cleanup off) t"), "1|0", "{option}");
    }
    for option in ["off", "false", "no", "0"] {
        assert_eq!(after(&mut s, option, "vacuum t"), "1|0", "{option}");
        assert_eq!(after(&mut s, option, "vacuum (index_cleanup on) t"), "0|0", "{option}");
    }
    for option in ["", "auto"] {
        assert_eq!(after(&mut s, option, "vacuum t"), "1|0", "{option}");
        assert_eq!(after(&mut s, option, "vacuum (index_cleanup) t"), "0|0", "{option}");
    }
    // `index_cleanup off` skips the indexes, however many line pointers wait.
    each(
        &mut s,
        &[
            "alter table t set (vacuum_index_cleanup = off)",
            "delete from t where id % 3 = 0",
            "vacuum t",
        ],
    );
    assert_ne!(run(&mut s, LEFT), "0|0");
    each(&mut s, &["vacuum (index_cleanup auto) t"]);
    assert_eq!(run(&mut s, LEFT), "0|0");
}

#[test]
fn pages_that_all_see_are_read_if_asked_and_frozen_ones_are_not_frozen_again() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut s = database.session();
    filled(&mut s);
    let blocks: u32 = run(&mut s, "select pg_relation_size('t') / 8192").parse().unwrap();
    let scanned = |s: &mut Session, options: &str| -> u32 {
        let line = said(s, options, "pages");
        line.split(' ').next().unwrap().parse().unwrap()
    };
    // The heap grows by several pages at a time. The pages behind the last row are empty.
    let unused = scanned(&mut s, "analyze off");
    assert!(unused <= 8, "{unused}");
    assert_eq!(scanned(&mut s, "disable_page_skipping"), blocks);
    assert_eq!(said(&mut s, "freeze", "frozen"), "6000 tuples");
    assert_eq!(said(&mut s, "freeze", "frozen"), "0 tuples");
    assert_eq!(scanned(&mut s, "freeze"), unused);
    assert_eq!(scanned(&mut s, "freeze, disable_page_skipping"), blocks);
    let frozen =
        "select all_visible = all_frozen, all_frozen > 100 from pg_visibility_map_summary('t')";
    assert_eq!(run(&mut s, frozen), "t|t");
    each(&mut s, &["update t set note = 'm' where id = 3000"]);
    assert_eq!(scanned(&mut s, "analyze off"), unused + 1);
    sound(&mut s);
}

#[test]
fn the_heap_of_large_values_and_the_table_are_vacuumed_apart() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut s = database.session();
    let large = "(select string_agg(md5((g * 1000 + i)::text), '') from generate_series(1, 300) i)";
    each(
        &mut s,
        &[
            "create table t (id int primary key, note text)",
            &format!("insert into t select g, {large} from generate_series(1, 40) g"),
            "vacuum t",
            "delete from t where id % 2 = 0",
        ],
    );
    let pieces = |s: &mut Session, options: &str| -> (u32, u32) {
        let line = said(s, options, "large values");
        let mut numbers = line.split(' ').filter_map(|word| word.parse().ok());
        (numbers.next().unwrap(), numbers.next().unwrap())
    };
    assert_eq!(pieces(&mut s, "process_toast off"), (0, 0));
    let (pages, removed) = pieces(&mut s, "process_toast");
    assert!(pages > 0, "{pages} pages, {removed} pieces");
    each(&mut s, &["delete from t where id = 1"]);
    // The table itself is left alone. ANALYZE still computes its statistics.
    each(&mut s, &["vacuum (process_main off, analyze) t"]);
    assert_eq!(run(&mut s, "select reltuples from pg_class where relname = 't'"), "19");
    assert_eq!(run(&mut s, "select count(*), min(length(note)) from t"), "19|9600");
    sound(&mut s);
}

#[test]
fn indexes_are_visited_at_the_same_time_or_one_by_one() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut s = database.session();
    filled(&mut s);
    for column in ["(note)", "(k, id)", "((k + id))", "(id) where k > 500"] {
        each(&mut s, &[&format!("create index on t {column}")]);
    }
    for (number, options) in
        ["parallel 0", "parallel 1", "parallel 1024", "analyze off"].iter().enumerate()
    {
        each(&mut s, &[&format!("delete from t where id % 10 = {number}")]);
        // 600 rows in six indexes. The last index has half of the rows.
        let said = said(&mut s, options, "index scans");
        let entries: u32 = said.split([' ', ',']).nth(2).unwrap().parse().unwrap();
        assert!((3200..=3400).contains(&entries), "{options}: {said}");
        assert_eq!(run(&mut s, LEFT), "0|0");
        sound(&mut s);
    }
}

/// Returns the rows that another session sees in the view at each vacuum delay, without
/// repetitions.
fn watched(database: &Database, clock: &HookedClock, s: &mut Session, sql: &str) -> Vec<String> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (mut watcher, lines) = (database.session(), Arc::clone(&seen));
    let view = "select pid, datname, relid::regclass, phase, heap_blks_total, heap_blks_scanned, heap_blks_vacuumed, \
                index_vacuum_count, num_dead_tuples, num_dead_tuples <= max_dead_tuples, indexes_total, indexes_processed \
                from pg_stat_progress_vacuum";
    clock.at_each_reading(move || {
        let line = run(&mut watcher, view);
        let mut lines = lines.lock();
        if lines.last() != Some(&line) {
            lines.push(line);
        }
    });
    each(s, &[sql]);
    clock.quiet();
    let seen = seen.lock().clone();
    seen.into_iter().filter(|line| !line.is_empty()).collect()
}

#[test]
fn progress_is_seen_in_each_phase() {
    let (database, clock) = open();
    let mut s = database.session();
    filled(&mut s);
    each(&mut s, &["create index t_n on t (note)", "delete from t where id % 5 = 0"]);
    resting(&mut s);
    let lines = watched(&database, &clock, &mut s, "vacuum (parallel 0) t");
    let pid = run(&mut s, "select pg_backend_pid()");
    let blocks = run(&mut s, "select pg_relation_size('t') / 8192");
    let fields: Vec<Vec<&str>> = lines.iter().map(|line| line.split('|').collect()).collect();
    let number = |line: &[&str], place: usize| -> u64 { line[place].parse().unwrap() };
    let mut phases: Vec<&str> = fields.iter().map(|line| line[3]).collect();
    phases.dedup();
    assert_eq!(
        phases,
        ["initializing", "scanning heap", "vacuuming indexes", "vacuuming heap"],
        "the last phase of this table has no rest"
    );
    for line in &fields {
        assert_eq!(line[..3], [&*pid, "postgres", "t"], "{line:?}");
        assert_eq!(line[9], "t", "{line:?}");
        if line[3] != "initializing" {
            assert_eq!((line[4], line[10]), (&*blocks, "3"), "{line:?}");
        }
    }
    for two in fields.windows(2) {
        for place in [5, 6, 7] {
            assert!(number(&two[0], place) <= number(&two[1], place), "{two:?}");
        }
    }
    let of = |phase| fields.iter().filter(move |line| line[3] == phase);
    // There are as many lines as pages, because VACUUM sleeps after each page.
    assert!(of("scanning heap").count() > 100);
    assert_eq!(number(of("scanning heap").next_back().unwrap(), 8), 1200);
    let processed: Vec<&str> = of("vacuuming indexes").map(|line| line[11]).collect();
    assert_eq!(processed.first(), Some(&"0"));
    assert!(processed.is_sorted() && processed.contains(&"2"), "{processed:?}");
    assert!(
        of("vacuuming indexes").all(|line| line[5] == blocks && line[6] == "0" && line[7] == "0")
    );
    let freeing: Vec<_> = of("vacuuming heap").collect();
    assert!(freeing.iter().all(|line| line[7] == "1" && line[5] == blocks), "{freeing:?}");
    assert!(number(freeing[freeing.len() - 1], 6) > 100);
    assert_eq!(run(&mut s, "select count(*) from pg_stat_progress_vacuum"), "0");
}

#[test]
fn the_last_phase_is_seen_where_there_are_large_values() {
    let (database, clock) = open();
    let mut s = database.session();
    each(
        &mut s,
        &[
            "create table t (id int primary key, note text)",
            "insert into t select g, (select string_agg(md5((g * 1000 + i)::text), '') from generate_series(1, 300) i) \
             from generate_series(1, 40) g",
        ],
    );
    resting(&mut s);
    let lines = watched(&database, &clock, &mut s, "vacuum (disable_page_skipping) t");
    assert!(lines.iter().any(|line| line.contains("|performing final cleanup|")), "{lines:?}");
}

/// Returns the number of vacuum delays. It is half of the additional clock readings, compared with
/// a VACUUM without delays.
fn rests(database: &Database, clock: &HookedClock, settings: &[&str]) -> u64 {
    let mut s = database.session();
    let mut readings = |delay: &str| {
        each(&mut s, settings);
        each(&mut s, &[delay]);
        let before = clock.readings();
        each(&mut s, &["vacuum (disable_page_skipping, index_cleanup on, truncate off) t"]);
        clock.readings() - before
    };
    let none = readings("set vacuum_cost_delay = 0");
    (readings("set vacuum_cost_delay = '1ms'") - none) / 2
}

#[test]
fn it_rests_by_what_pages_cost() {
    let (database, clock) = open();
    let mut s = database.session();
    filled(&mut s);
    let blocks: u64 = run(&mut s, "select pg_relation_size('t') / 8192").parse().unwrap();
    let hits = ["set vacuum_cost_limit = 1", "set vacuum_cost_page_hit = 1"];
    assert_eq!(rests(&database, &clock, &hits), blocks, "nothing to do in indexes");
    assert_eq!(rests(&database, &clock, &["set vacuum_cost_limit = 10"]), blocks / 10);
    let dear = ["set vacuum_cost_limit = 10", "set vacuum_cost_page_hit = 5"];
    assert_eq!(rests(&database, &clock, &dear), blocks / 2);
    let free = ["set vacuum_cost_limit = 1", "set vacuum_cost_page_hit = 0"];
    assert_eq!(rests(&database, &clock, &free), 0, "nothing was read or changed");
}

#[test]
fn autovacuum_rests_as_its_settings_and_the_table_say() {
    let (database, clock) = open();
    let mut s = database.session();
    filled(&mut s);
    each(&mut s, &["analyze t"]);
    assert!(database.maintain().unwrap().is_empty());
    let mut readings = |options: &str, digit: u32| {
        if !options.is_empty() {
            each(&mut s, &[&format!("alter table t set ({options})")]);
        }
        each(
            &mut s,
            &[
                &format!("delete from t where id % 8 = {digit}"),
                &format!("delete from t where id % 8 = {}", digit + 1),
            ],
        );
        let before = clock.readings();
        let done = database.maintain().unwrap();
        assert!(done.len() == 1 && done[0].vacuumed && done[0].error.is_none(), "{done:?}");
        clock.readings() - before
    };
    let usual = readings("autovacuum_vacuum_scale_factor = 0.1", 0);
    let often = readings("autovacuum_vacuum_cost_limit = 1", 2);
    let never = readings("autovacuum_vacuum_cost_delay = 0", 4);
    assert!(often > 100 + usual && never < usual, "{often}, {usual}, {never}");
}

/// `niwaki-vacuum/tests/passes.rs` does this at each reading of the clock.
#[test]
fn a_cancelled_vacuum_says_so_and_another_finishes() {
    let (database, clock) = open();
    let mut s = database.session();
    filled(&mut s);
    resting(&mut s);
    let control = Arc::clone(s.control());
    // The moments are far enough apart to hit each phase, and few enough for a short test.
    for moment in [1, 3, 60, 150, 260, 300, 330, 390, 350] {
        each(&mut s, &["delete from t where id % 7 = 0"]);
        let rows = run(&mut s, "select count(*), sum(k) from t");
        let (mut readings, cancelled) = (0, Arc::clone(&control));
        clock.at_each_reading(move || {
            readings += 1;
            if readings == moment {
                cancelled.cancel();
            }
        });
        let answer = run(&mut s, "vacuum (index_cleanup on) t");
        clock.quiet();
        assert_eq!(answer, "error 57014: canceling statement due to user request", "{moment}");
        assert_eq!(run(&mut s, "select count(*) from pg_stat_progress_vacuum"), "0");
        sound(&mut s);
        assert_eq!(run(&mut s, "select count(*), sum(k) from t"), rows);
        each(&mut s, &["vacuum (index_cleanup on) t"]);
        assert_eq!(run(&mut s, LEFT), "0|0", "{moment}");
        each(
            &mut s,
            &[
                "insert into t select g, g % 1000, repeat('n', 110) from generate_series(7, 6000, 7) g",
            ],
        );
    }
    // The clock moves by a second at each reading.
    each(&mut s, &["delete from t where id % 7 = 0", "set statement_timeout = '5s'"]);
    let answer = run(&mut s, "vacuum t");
    assert_eq!(answer, "error 57014: canceling statement due to statement timeout");
    each(&mut s, &["set statement_timeout = 0", "vacuum (index_cleanup on) t"]);
    assert_eq!(run(&mut s, LEFT), "0|0");
    assert_eq!(database.check().unwrap().violations, []);
}

#[test]
fn a_vacuum_that_is_refused_changes_nothing() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut s = database.session();
    filled(&mut s);
    each(&mut s, &["delete from t where id % 10 = 0"]);
    let state = |s: &mut Session| {
        run(
            s,
            "select c.reltuples, c.relpages, u.vacuum_count, u.analyze_count, d.dead_line_pointers, d.versions_max \
                from pg_class c, pg_stat_user_tables u, niwaki_chain_stats('t') d where c.relname = 't' and u.relname = 't'",
        )
    };
    let before = state(&mut s);
    for sql in [
        "vacuum t, missing",
        "vacuum (analyze) t (id, nonsense)",
        "vacuum (parallel 2000) t",
        "vacuum (index_cleanup sometimes) t",
        "vacuum (analyze, nonsense) t",
        "select 1; vacuum t",
        "vacuum t; select 1",
        "begin; vacuum t; commit",
    ] {
        assert!(run(&mut s, sql).contains("error "), "{sql}");
        run(&mut s, "rollback");
        assert_eq!(state(&mut s), before, "{sql}");
    }
}
