//! Reading ahead from a session's view: the same answers under every setting, and one read per
//! page.

mod common;

use std::sync::{Arc, Mutex};

use common::run;
use niwaki::{Database, Options, Session};
use niwaki_env::Env;
use niwaki_env::vfs::{Fault, FaultKind, FaultyVfs, MemoryVfs, Operation};

const ROWS: u32 = 20_000;

/// Creates a closed database with a table of some 350 pages and an index.
fn stored() -> Arc<MemoryVfs> {
    let vfs = Arc::new(MemoryVfs::new());
    let env = Env { vfs: vfs.clone(), ..Env::memory() };
    let database = Database::open_with(env, Options::new()).unwrap();
    let mut session = database.session();
    let create = "create table t (id int primary key, k int, note text)";
    let fill = format!(
        "insert into t select g, g * 7919 % 10007, repeat('x', 100) from generate_series(1, {ROWS}) g"
    );
    for sql in [create, &*fill, "create index t_k on t (k)", "vacuum analyze t"] {
        assert_eq!(run(&mut session, sql), "", "{sql}");
    }
    drop(session);
    database.close().unwrap();
    vfs
}

/// Opens a copy of the database, whose files the system has not cached.
fn open(vfs: &Arc<MemoryVfs>, options: Options) -> Database {
    open_on(&Arc::new(FaultyVfs::from_memory(&vfs.fork())), options)
}

fn open_on(vfs: &Arc<FaultyVfs>, options: Options) -> Database {
    let env = Env { vfs: Arc::clone(vfs) as _, ..Env::memory() };
    Database::open_with(env, options).unwrap()
}

const METHODS: [&str; 3] = ["worker", "io_uring", "sync"];

/// Returns the number of the table's pages that were read from its file.
fn reads(session: &mut Session) -> u64 {
    let sql = "select heap_blks_read from pg_statio_user_tables where relname = 't'";
    run(session, sql).parse().unwrap()
}

fn pages(session: &mut Session) -> u64 {
    run(session, "select pg_relation_size('t') / 8192").parse().unwrap()
}

#[test]
fn scans_read_each_page_once_whatever_the_settings() {
    let vfs = stored();
    let sum = format!("{ROWS}|{}", u64::from(ROWS) * u64::from(ROWS + 1) / 2);
    for method in METHODS {
        for (combine, concurrency) in [(1, 0), (1, 100), (16, 0), (16, 16), (32, 1000)] {
            let options = Options::new().background(true).set("io_method", method);
            let database = open(&vfs, options);
            let mut session = database.session();
            run(&mut session, &format!("set io_combine_limit = '{}kB'", combine * 8));
            run(&mut session, &format!("set effective_io_concurrency = {concurrency}"));
            let before = reads(&mut session);
            assert_eq!(
                run(&mut session, "select count(*), sum(id + length(note) - 100) from t"),
                sum
            );
            let used = reads(&mut session) - before;
            // Pages that the table grew by and has not used yet were never written.
            let pages = pages(&mut session);
            assert!(used <= pages && used + 64 >= pages, "{used} of {pages} pages read");
            assert_eq!(
                run(&mut session, "select count(*), sum(id + length(note) - 100) from t"),
                sum
            );
            assert_eq!(reads(&mut session) - before, used, "they are in the pool");
        }
    }
}

#[test]
fn bitmap_scans_and_maintenance_read_ahead() {
    let database = open(&stored(), Options::new().background(true));
    let mut session = database.session();
    run(&mut session, "set enable_seqscan = off; set enable_indexscan = off");
    let count = "select count(*) from t where k < 2000";
    let expected = (1..=u64::from(ROWS)).filter(|g| g * 7919 % 10_007 < 2000).count();
    assert_eq!(run(&mut session, count), expected.to_string());
    for sql in [
        "create index t_note on t (note, id)",
        "create index concurrently t_later on t (id, k)",
        "delete from t where id % 3 = 0",
        "vacuum analyze t",
    ] {
        assert_eq!(run(&mut session, sql), "", "{sql}");
    }
    assert_ne!(run(&mut session, "select niwaki_check('t')"), "");
    let left = (1..=u64::from(ROWS)).filter(|g| g % 3 != 0 && g * 7919 % 10_007 < 2000).count();
    assert_eq!(run(&mut session, count), left.to_string());
}

#[test]
fn prewarm_brings_a_relation_into_the_pool() {
    let database = open(&stored(), Options::new());
    let mut session = database.session();
    let pages = pages(&mut session);
    let prewarm = |session: &mut Session, arguments: &str| {
        run(session, &format!("select pg_prewarm({arguments})"))
    };
    assert_eq!(prewarm(&mut session, "'t', 'buffer', 'main', 10, 19"), "10");
    let before = reads(&mut session);
    assert_eq!(prewarm(&mut session, "'t', 'buffer', 'main', 10, 19"), "10");
    assert_eq!(reads(&mut session), before);
    assert_eq!(prewarm(&mut session, "'t'"), pages.to_string());
    let before = reads(&mut session);
    assert_eq!(run(&mut session, "select count(*) from t"), ROWS.to_string());
    assert_eq!(reads(&mut session), before);
    assert_ne!(prewarm(&mut session, "'t_k'"), "0");
    assert_ne!(prewarm(&mut session, "'t', 'buffer', 'vm'"), "0");
    assert_eq!(prewarm(&mut session, "'t', 'buffer', 'init'"), "0");
    for (arguments, code) in [
        ("'t', 'quickly'", "22023"),
        ("'t', null", "22004"),
        ("'t', 'buffer', 'side'", "22023"),
        ("'t', 'buffer', 'main', -1, 5", "22023"),
        ("'t', 'buffer', 'main', 0, 1000000", "22023"),
        ("null", "22004"),
        ("999999::oid::regclass", "42P01"),
        ("'nothing'", "42P01"),
        ("'t', 'read'", "0A000"),
    ] {
        let answer = prewarm(&mut session, arguments);
        assert!(answer.contains(code), "{arguments}: {answer}");
    }
}

/// Statements that read a table or an index from end to end, each with that relation.
const READERS: [(&str, &str); 9] = [
    ("select count(note) from t", "t"),
    ("select count(note) from t where k < 4000", "t"),
    ("create index t_note on t (note, id)", "t"),
    ("create index concurrently t_later on t (id, k)", "t"),
    ("analyze t", "t"),
    ("vacuum (disable_page_skipping) t", "t"),
    ("select niwaki_check('t')", "t"),
    ("select pg_prewarm('t')", "t"),
    ("select pg_prewarm('t_k')", "t_k"),
];

/// Settings under which the second of the readers is a bitmap scan.
const BITMAP: &str = "set enable_seqscan = off; set enable_indexscan = off";

#[test]
fn who_reads_much_reads_neighbours_at_once() {
    let vfs = stored();
    for method in METHODS {
        for (sql, relation) in READERS {
            let database = open(&vfs, Options::new().background(true).set("io_method", method));
            let mut session = database.session();
            assert_eq!(database.io_method(), method);
            if sql.contains("where") {
                run(&mut session, BITMAP);
            }
            let size = format!("select pg_relation_size('{relation}') / 8192");
            let pages: u64 = run(&mut session, &size).parse().unwrap();
            let before = database.read_statistics();
            let answer = run(&mut session, sql);
            assert!(!answer.contains("ERROR"), "{sql}: {answer}");
            let reads = database.read_statistics().runs - before.runs;
            assert!(reads > 0 && reads < pages / 2, "{sql}: {reads} reads of {pages} pages");
        }
    }
}

/// The second pass over the heap and the pass over an index announce their pages too, so that
/// VACUUM reads all pages ahead.
#[test]
fn all_passes_of_vacuum_read_ahead() {
    let vfs = stored();
    let database = open(&vfs, Options::new().background(true));
    let mut session = database.session();
    run(&mut session, "delete from t where id % 3 = 0");
    database.close().unwrap();
    let database = open(&vfs, Options::new().background(true));
    let mut session = database.session();
    run(&mut session, "set gardener = off; delete from t where id % 5 = 0");
    // The pool keeps nothing, so each pass reads its pages again.
    let all = "select sum(heap_blks_read + idx_blks_read)::int8 from pg_statio_user_tables where relname = 't'";
    let read = |session: &mut Session| run(session, all).parse::<u64>().unwrap();
    let (before, runs) = (read(&mut session), database.read_statistics());
    assert_eq!(run(&mut session, "vacuum (index_cleanup on) t"), "");
    let (pages, after) = (read(&mut session) - before, database.read_statistics());
    assert!(
        (after.runs - runs.runs) * 4 < pages + 40,
        "{} runs for {pages}",
        after.runs - runs.runs
    );
}

#[test]
fn many_scans_find_a_frame_in_a_small_pool() {
    let vfs = stored();
    for (buffers, method) in
        [("128kB", "worker"), ("128kB", "io_uring"), ("512kB", "io_uring"), ("1MB", "worker")]
    {
        let options =
            Options::new().background(true).set("autovacuum", "off").set("gardener", "off");
        let database = open(&vfs, options.set("io_method", method).set("shared_buffers", buffers));
        let scans: Vec<_> = (0..50)
            .map(|_| {
                let database = database.clone();
                std::thread::spawn(move || {
                    run(&mut database.session(), "select count(note), sum(id) from t")
                })
            })
            .collect();
        let sum = u64::from(ROWS) * u64::from(ROWS + 1) / 2;
        for scan in scans {
            assert_eq!(scan.join().unwrap(), format!("{ROWS}|{sum}"), "{buffers}, {method}");
        }
    }
}

/// A block that cannot be read is reported, with its position, by the statement that needs it. A
/// retry reads it.
#[test]
fn what_cannot_be_read_is_told_by_who_needs_it() {
    let vfs = stored();
    for method in METHODS {
        for (sql, relation) in READERS {
            let faulty = Arc::new(FaultyVfs::from_memory(&vfs.fork()));
            // No other thread may read the table before the fault is injected.
            let options = Options::new().background(true).set("autovacuum", "off");
            let database = open_on(&faulty, options.set("io_method", method));
            let mut session = database.session();
            if sql.contains("where") {
                run(&mut session, BITMAP);
            }
            let file = format!("select relfilenode from pg_class where relname = '{relation}'");
            let file = run(&mut session, &file);
            // A failed read-ahead is repeated by the statement that needs the page, so the fault
            // must last.
            faulty.inject(Fault {
                kind: FaultKind::InputOutputError,
                operation: Operation::Read,
                path_contains: format!("base/{file}.main"),
                after: 20,
                sticky: true,
            });
            let answer = run(&mut session, sql);
            assert!(answer.contains("58030") && answer.contains("block"), "{sql}: {answer}");
            faulty.heal();
            let again = run(&mut session, sql);
            assert!(!again.contains("58030"), "{sql}: {again}");
            drop(session);
            database.close().unwrap();
        }
    }
}

#[test]
fn vacuum_keeps_to_its_part_of_the_pool() {
    let database = open(&stored(), Options::new().set("shared_buffers", "2MB"));
    let mut session = database.session();
    assert_eq!(run(&mut session, "show vacuum_buffer_usage_limit"), "2MB");
    for (sql, code) in [
        ("set vacuum_buffer_usage_limit = 64", "22023"),
        ("set vacuum_buffer_usage_limit = '17GB'", "22023"),
        ("vacuum (buffer_usage_limit 64) t", "22023"),
        ("vacuum (buffer_usage_limit) t", "42601"),
        ("analyze (buffer_usage_limit '17GB') t", "22023"),
    ] {
        let answer = run(&mut session, sql);
        assert!(answer.contains(code), "{sql}: {answer}");
    }
    // Pages that were used once, and nearly fill the pool.
    run(&mut session, "create table small (a int, b text)");
    run(
        &mut session,
        "insert into small select g, repeat('x', 1000) from generate_series(1, 700) g",
    );
    let reads = |session: &mut Session| {
        let sql = "select heap_blks_read from pg_statio_user_tables where relname = 'small'";
        run(session, sql).parse::<u64>().unwrap()
    };
    let mut read_again = |sql: &str| {
        assert_eq!(run(&mut session, "checkpoint"), "");
        run(&mut session, "select count(b) from small");
        assert_eq!(run(&mut session, sql), "", "{sql}");
        let before = reads(&mut session);
        run(&mut session, "select count(b) from small");
        reads(&mut session) - before
    };
    for sql in [
        "vacuum (disable_page_skipping, buffer_usage_limit '128kB') t",
        "analyze (buffer_usage_limit 128) t",
    ] {
        read_again(sql);
        let again = read_again(sql);
        assert!(again <= 4, "{sql} pushed {again} pages out");
    }
    for sql in [
        "vacuum (disable_page_skipping, buffer_usage_limit 0) t",
        "vacuum (disable_page_skipping) t",
    ] {
        read_again(sql);
    }
}

/// A system may refuse `io_uring`. The database still works, and reports the refusal once.
#[test]
fn threads_read_where_io_uring_is_refused() {
    let faulty = Arc::new(FaultyVfs::from_memory(&stored().fork()));
    faulty.inject(Fault {
        kind: FaultKind::InputOutputError,
        operation: Operation::Ring,
        path_contains: String::new(),
        after: 0,
        sticky: true,
    });
    let lines = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&lines);
    let options = Options::new().background(true).set("io_method", "io_uring");
    let options = options.log(move |line| log.lock().unwrap().push(line.to_owned()));
    let database = open_on(&faulty, options);
    assert_eq!(database.io_method(), "worker");
    let lines = lines.lock().unwrap().clone();
    assert!(lines.len() == 1 && lines[0].starts_with("io_uring cannot be used: "), "{lines:?}");
    let mut session = database.session();
    assert_eq!(run(&mut session, "select count(note) from t"), ROWS.to_string());
    assert!(database.read_statistics().queued > 0, "threads read ahead");
}

/// The view has the counters and means of them. niwaki-storage's tests check the numbers.
#[test]
fn a_view_shows_what_was_read_ahead() {
    let vfs = stored();
    for method in METHODS {
        let options = Options::new().background(true).set("io_method", method);
        let options = options.set("autovacuum", "off").set("gardener", "off");
        let database = open(&vfs, options);
        let mut session = database.session();
        run(&mut session, "set io_combine_limit = '64kB'");
        assert_eq!(run(&mut session, "select count(note) from t"), ROWS.to_string());
        let row = run(&mut session, "select * from niwaki_stat_read_ahead");
        let counted = database.read_statistics();
        let mean = |sum: u64| sum as f64 / counted.runs as f64;
        let numbers = [counted.cached, counted.queued, counted.queued_blocks, counted.helped];
        let ring = [counted.distance_max, counted.begun, counted.submitted, counted.repeated];
        let text = |numbers: [u64; 4]| numbers.map(|number| number.to_string()).join("|");
        let expected = format!(
            "{method}|{}|{}|{}|{}|{}|{}|{}",
            counted.runs,
            counted.blocks,
            mean(counted.blocks),
            text(numbers),
            counted.waits,
            mean(counted.distances),
            text(ring)
        );
        assert_eq!(row, expected);
        assert!(counted.blocks >= pages(&mut session) - 64, "{row}");
        assert!(counted.blocks > 4 * counted.runs, "{row}");
        assert!(counted.waits > 0 && counted.waits <= counted.blocks, "{row}");
        assert_eq!(counted.queued_blocks > 0, method != "sync", "{row}");
        let types = "select pg_typeof(io_method), pg_typeof(reads), pg_typeof(blocks_per_read) \
                     from niwaki_stat_read_ahead";
        assert_eq!(run(&mut session, types), "text|bigint|double precision");
    }
}

/// A ring may fail at any time. Every answer stays right, and the log reports the failure once.
#[test]
fn a_ring_that_fails_is_given_up() {
    let vfs = stored();
    for after in [0, 2] {
        let faulty = Arc::new(FaultyVfs::from_memory(&vfs.fork()));
        let lines = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&lines);
        let options = Options::new().background(true).set("autovacuum", "off");
        let options = options.set("gardener", "off").set("io_method", "io_uring");
        let options = options.log(move |line| log.lock().unwrap().push(line.to_owned()));
        let database = open_on(&faulty, options);
        let mut session = database.session();
        assert_eq!(database.io_method(), "io_uring");
        faulty.inject(Fault {
            kind: FaultKind::InputOutputError,
            operation: Operation::RingSubmit,
            path_contains: String::new(),
            after,
            sticky: true,
        });
        let sum = u64::from(ROWS) * u64::from(ROWS + 1) / 2;
        let all = "select count(note), sum(id) from t";
        assert_eq!(run(&mut session, all), format!("{ROWS}|{sum}"));
        assert_eq!(database.io_method(), "sync");
        let begun = database.read_statistics().begun;
        for (sql, _) in READERS {
            let answer = run(&mut session, sql);
            assert!(!answer.starts_with("error"), "{sql}: {answer}");
        }
        assert_eq!(run(&mut session, all), format!("{ROWS}|{sum}"));
        assert_eq!(database.read_statistics().begun, begun, "nothing is asked of it again");
        let lines = lines.lock().unwrap().clone();
        let says = "io_uring does not work any more: ";
        assert!(lines.len() == 1 && lines[0].starts_with(says), "{lines:?}");
        assert_eq!(database.check().unwrap().violations, []);
    }
}
