//! Sorts, hash tables and tuplestores (kept rows) that do not fit in `work_mem`. They give the same
//! answers as in memory, stay within `temp_file_limit`, and leave no file however a statement ends.

mod common;

use std::sync::Arc;

use common::run;
use niwaki::{Database, Options, Session};
use niwaki_env::Env;
use niwaki_env::sync::plain_atomic::{AtomicUsize, Ordering};
use niwaki_env::vfs::{CrashOptions, Fault, FaultKind, FaultyVfs, Operation, Vfs};

/// Queries with rows in a known order on tables `t` and `u`, each with the step that spills.
const QUERIES: &[(&str, &str)] = &[
    ("select * from t order by s, id", "external merge"),
    ("select * from t order by f desc nulls last, n, id", "external merge"),
    ("select id, n from t order by n desc, s, id offset 1990", "external merge"),
    ("select id from t order by d, b nulls first, id limit 1500", "external merge"),
    ("select id, count(*), sum(n), min(s), max(f) from t group by id order by id", "Disk Usage"),
    ("select s, avg(n), sum(f) from t group by s order by s", "Disk Usage"),
    (
        "select s, n, id % 700, count(*), sum(f), count(distinct d), grouping(s, n) from t group by cube (s, n, id % 700) order by 7, 1, 2, 3",
        "Disk Usage",
    ),
    (
        "select id % 1500, n, count(*) filter (where id > 50), array_agg(n order by s desc, id) from t group by 1, 2 order by 1, 2",
        "Disk Usage",
    ),
    (
        "select s || n, count(distinct f), string_agg(distinct s, ',') from t group by 1 order by 1",
        "Disk Usage",
    ),
    (
        "select id, sum(n) over (partition by n), rank() over (order by f, id), count(*) over () from t order by id",
        "WindowAgg",
    ),
    (
        "select id, lead(s, 1900) over w, min(s) over (w rows between 3 preceding and 1500 following) from (select * from t where id <= 1000) t window w as (order by id) order by id",
        "WindowAgg",
    ),
    ("select count(distinct id), count(distinct s), count(distinct n) from t", ""),
    ("select string_agg(left(s, 3), '' order by n desc, id) from t", ""),
    ("select distinct s, n from t order by 1, 2", "Disk Usage"),
    ("select distinct id, f, d from t order by 1", "Disk Usage"),
    ("select n, s from t union select v, w from u order by 1, 2", "Disk Usage"),
    ("select id from t intersect select k from u order by 1", ""),
    ("select id % 900 from t intersect all select k % 700 from u order by 1", ""),
    ("select id, s from t except select k, w from u order by 1", ""),
    ("select id % 1200 from t except all select k + 300 from u order by 1", ""),
    ("select t.id, t.s, u.w from t join u on t.id = u.k order by 2, 1, 3", "Batches"),
    ("select t.id, t.s, u.w from t join u on t.id = u.k order by 1, 3", "Incremental Sort"),
    (
        "select t.id, t.s, u.w from t left join u on t.id = u.k and u.v > 3 order by 2, 1, 3",
        "Batches",
    ),
    ("select u.k, u.w, t.s from t right join u on t.id = u.k + 1000 order by 1, 2, 3", "Batches"),
    (
        "select count(*), sum(t.id), sum(u.k), max(t.s), max(u.w) from t join u on t.n = u.v",
        "Batches",
    ),
    (
        "select count(*), sum(a.id), min(b.s) from t a left join t b on a.s = b.s and a.n < b.n",
        "Batches",
    ),
    (
        "select count(*), sum(id) from t where n < 2 or s in (select w || s from u, t where t.id = k)",
        "hashed SubPlan",
    ),
    (
        "select id, id in (select k from u), s || id in (select s || (case id when 77 then null else id end) from t) from t order by id",
        "SubPlan 2",
    ),
    (
        "select count(*), sum(id) from t where n < 30 or s || f not in (select s || (f + id) from t where f is not null and id < 1900)",
        "hashed SubPlan",
    ),
    (
        "with w as materialized (select id, s from t) select count(*), min(a.s), max(b.id) from w a join w b on a.id = b.id + 1",
        "",
    ),
    (
        "select count(*), sum(a.n) from (select * from t where id % 50 = 0) a, t b where a.id < b.id",
        "",
    ),
    (
        "select count(*), min(e.n), max(e.n), max(e.value::text) from json_each((select json_object_agg(id, s) from t)) with ordinality e(key, value, n)",
        "",
    ),
];

fn fill(session: &mut Session) {
    let setup = "create table t (id int, n int, s text, f float8, d date, b bytea, j jsonb); \
        create table u (k int, v int, w text); \
        insert into t select i, (i * 7919) % 37, repeat(chr(97 + i % 26), i % 40) || (i * 7919) % 1009, \
            case when i % 11 = 0 then null else ((i * 104729) % 5003) / 8.0 end, date '2000-01-01' + (i * 31) % 700, \
            case when i % 5 = 0 then null else decode(md5(i::text), 'hex') end, jsonb_build_object('i', i % 100) \
            from generate_series(1, 2000) i; \
        insert into u select i * 3 % 2500, i % 10, 'w' || i % 300 from generate_series(1, 2500) i";
    assert_eq!(run(session, setup), "");
}

const LITTLE: &str = "set work_mem = '64kB'; set hash_mem_multiplier = 1";
const MUCH: &str = "set work_mem = '256MB'; set hash_mem_multiplier = 2";

/// Opens a database whose files can be counted, and can fail.
fn opened() -> (FaultyVfs, Database) {
    let vfs = FaultyVfs::new();
    let env = Env { vfs: Arc::new(vfs.clone()), ..Env::memory() };
    let database = Database::open_with(env, Options::new()).unwrap();
    (vfs, database)
}

fn files(vfs: &dyn Vfs) -> Vec<String> {
    let names = vfs.list("tmp").unwrap_or_default();
    names.into_iter().filter(|name| name.starts_with("query.")).collect()
}

#[test]
fn answers_are_those_of_plenty_of_memory() {
    let (vfs, database) = opened();
    let mut s = database.session();
    fill(&mut s);
    let created = || vfs.counts().get(&Operation::Create).copied().unwrap_or_default();
    for (query, word) in QUERIES {
        run(&mut s, MUCH);
        let before = created();
        let expected = run(&mut s, query);
        assert!(!expected.starts_with("error") && !expected.is_empty(), "{query}: {expected}");
        assert_eq!(created(), before, "{query} in memory");
        run(&mut s, LITTLE);
        assert_eq!(run(&mut s, query), expected, "{query}");
        assert!(created() > before, "{query} wrote nothing");
        let shown = run(&mut s, &format!("explain (analyze, timing off) {query}"));
        assert!(shown.contains(word), "{query}: {shown}");
        assert!(!shown.contains("Batches: 1 ") || !word.contains("Batches"), "{query}: {shown}");
        assert_eq!(files(&vfs), [""; 0], "{query}");
    }
}

/// A window keeps only the columns that are read, however many the tables have.
#[test]
fn windows_keep_what_is_read() {
    let (vfs, database) = opened();
    let mut s = database.session();
    let columns: Vec<String> = (0..60).map(|number| format!("c{number} int")).collect();
    run(&mut s, &format!("create table wide (id int, {})", columns.join(", ")));
    run(&mut s, "insert into wide select generate_series(1, 3000)");
    let created = || vfs.counts().get(&Operation::Create).copied().unwrap_or_default();
    run(&mut s, "set work_mem = '1MB'");
    let before = created();
    let kept = "select count(*), sum(m) from (select max(id) over (order by c7) as m from wide) x";
    assert_eq!(run(&mut s, kept), "3000|9000000");
    assert_eq!(created(), before, "three values of each row have room");
    let whole =
        "select count(x), sum(m) from (select x, max(id) over (order by c7) as m from wide x) x";
    assert_eq!(run(&mut s, whole), "3000|9000000");
    assert!(created() > before, "all values of each row have none");
}

/// Rows that joins keep, in plans that need special settings.
#[test]
fn joins_keep_rows_in_files_too() {
    let (vfs, database) = opened();
    let mut s = database.session();
    fill(&mut s);
    run(
        &mut s,
        "create table w (k int primary key, x text); insert into w select i, i % 77 from generate_series(1, 30000) i; analyze",
    );
    let created = || vfs.counts().get(&Operation::Create).copied().unwrap_or_default();
    let merged = "set enable_hashjoin = off; set enable_nestloop = off";
    let looped = "set enable_hashjoin = off; set enable_mergejoin = off; set enable_nestloop = on";
    let queries = [
        // Groups have a thousand rows.
        (
            merged,
            "select a.id, count(*), sum(b.id), min(b.s) from (select * from t where id % 100 = 3) a join t b on a.n % 2 = b.n % 2 group by a.id order by 1",
            "Merge Join",
        ),
        (
            merged,
            "select a.id, b.id from (select * from t where id % 100 < 2) a left join t b on a.n % 2 = b.n % 2 and a.id = b.id + 1 order by 1, 2",
            "Merge Left Join",
        ),
        (
            merged,
            "select count(*), sum(a.id) from t a where exists (select from t b where a.n % 3 = b.n % 3 + 1 and b.id > 1990)",
            "Merge Semi Join",
        ),
        (
            looped,
            "select count(*), sum(k), min(x) from w where k in (select id from t)",
            "HashAggregate",
        ),
        (
            looped,
            "select count(*), sum(k), min(x) from w where k in (select id % 1900 from t)",
            "HashAggregate",
        ),
    ];
    for (settings, query, word) in queries {
        run(&mut s, settings);
        run(&mut s, MUCH);
        let expected = run(&mut s, query);
        assert!(!expected.starts_with("error") && !expected.is_empty(), "{query}: {expected}");
        let before = created();
        run(&mut s, LITTLE);
        assert_eq!(run(&mut s, query), expected, "{query}");
        let shown = run(&mut s, &format!("explain (analyze, timing off) {query}"));
        assert!(created() > before, "{query} wrote nothing: {shown}");
        assert!(shown.contains(word), "{query}: {shown}");
        assert_eq!(files(&vfs), [""; 0], "{query}");
    }
}

/// The greatest arrays of a thousand groups counted as nothing, and stayed in memory, whatever
/// `work_mem` is.
#[test]
fn values_of_aggregates_count() {
    let (vfs, database) = opened();
    let mut s = database.session();
    let query = "select count(*), sum(length(m[1])) from (\
                 select max(array[repeat('x', 20000) || g]) as m \
                 from generate_series(1001, 3000) g group by g % 1000) d";
    run(&mut s, "set work_mem = '4MB'");
    assert_eq!(run(&mut s, query), "1000|20004000");
    let shown = run(&mut s, &format!("explain (analyze, timing off) {query}"));
    assert!(shown.contains("Disk Usage"), "{shown}");
    assert_eq!(files(&vfs), [""; 0]);
}

/// A list of values that once had to stay in memory, and failed with 53200 beyond 64 MiB.
#[test]
fn values_that_are_looked_up_go_to_a_file() {
    let (vfs, database) = opened();
    let mut s = database.session();
    let query = "select x, x in (select 7 * g from generate_series(1, 1500000) g) from (values (-1), (0), (7), (8), (700), (5250007), (10499993), (10500000), (10500007), (null)) v(x)";
    let expected =
        "-1|f\n0|f\n7|t\n8|f\n700|t\n5250007|t\n10499993|t\n10500000|t\n10500007|f\nNULL|NULL";
    for settings in [LITTLE, "set work_mem = '4MB'", MUCH] {
        run(&mut s, settings);
        assert_eq!(run(&mut s, query), expected, "{settings}");
        assert_eq!(files(&vfs), [""; 0], "{settings}");
    }
    run(&mut s, LITTLE);
    run(&mut s, "set temp_file_limit = '1MB'");
    assert!(run(&mut s, query).starts_with("error 53400"));
    assert_eq!(files(&vfs), [""; 0]);
}

#[test]
fn the_first_rows_need_no_file() {
    let env = Env::memory();
    let database = Database::open_with(env.clone(), Options::new()).unwrap();
    let mut s = database.session();
    fill(&mut s);
    let query = "select id, s from t order by s desc, id limit 20 offset 7";
    let all = run(&mut s, "select id, s from t order by s desc, id");
    let expected: Vec<&str> = all.lines().skip(7).take(20).collect();
    run(&mut s, LITTLE);
    run(&mut s, "set temp_file_limit = 0");
    assert_eq!(run(&mut s, query), expected.join("\n"));
    let shown = run(&mut s, &format!("explain (analyze, timing off) {query}"));
    assert!(shown.contains("Sort Method: top-N heapsort  Memory: "), "{shown}");
}

#[test]
fn a_limit_on_temporary_files_is_kept() {
    let env = Env::memory();
    let database = Database::open_with(env.clone(), Options::new()).unwrap();
    let mut s = database.session();
    fill(&mut s);
    run(&mut s, LITTLE);
    run(&mut s, "set temp_file_limit = '70kB'");
    let refused = "error 53400: temporary file size exceeds temp_file_limit (70kB)";
    for (query, _) in QUERIES {
        let found = run(&mut s, query);
        assert!(found == refused || !found.starts_with("error"), "{query}: {found}");
        assert_eq!(files(&*env.vfs), [""; 0], "{query}");
    }
    let large = "select * from t order by s, id";
    assert_eq!(run(&mut s, large), refused);
    // Freed space may be used again. The limit is one of the session, not of a statement.
    let cursor = "begin; declare c cursor for select id from t order by s, id; fetch 1 from c";
    run(&mut s, "set temp_file_limit = '300kB'");
    for _ in 0..5 {
        assert!(!run(&mut s, large).starts_with("error"));
    }
    assert!(!run(&mut s, cursor).starts_with("error"));
    assert!(!files(&*env.vfs).is_empty());
    let found = run(&mut s, large);
    assert_eq!(found, "error 53400: temporary file size exceeds temp_file_limit (300kB)");
    run(&mut s, "rollback");
    assert_eq!(files(&*env.vfs), [""; 0]);
    run(&mut s, "set temp_file_limit = -1");
    assert!(!run(&mut s, large).starts_with("error"));
}

#[test]
fn a_disk_that_fails_or_is_full_fails_the_statement_only() {
    let (vfs, database) = opened();
    let mut s = database.session();
    fill(&mut s);
    run(&mut s, LITTLE);
    let faults = [
        (
            FaultKind::StorageFull,
            Operation::Write,
            "error 53100: could not write to temporary file tmp/query.",
        ),
        (
            FaultKind::InputOutputError,
            Operation::Write,
            "error 58030: could not write to temporary file tmp/query.",
        ),
        (
            FaultKind::InputOutputError,
            Operation::Read,
            "error 58030: could not read temporary file tmp/query.",
        ),
        (
            FaultKind::StorageFull,
            Operation::Create,
            "error 53100: could not create temporary file tmp/query.",
        ),
    ];
    for (query, _) in QUERIES {
        let expected = run(&mut s, query);
        for (kind, operation, message) in faults {
            let mut met = 0;
            for after in [0, 1, 3, 20] {
                let path_contains = "tmp/query".to_owned();
                vfs.inject(Fault { kind, operation, path_contains, after, sticky: true });
                let found = run(&mut s, query);
                vfs.heal();
                if found != expected {
                    // Rows may have been given before the error.
                    let last = found.lines().last().unwrap_or_default();
                    assert!(last.starts_with(message), "{query}: {last}");
                    met += 1;
                }
                assert_eq!(files(&vfs), [""; 0], "{query}");
            }
            assert!(met > 0, "{query} never met {message}");
        }
        assert_eq!(run(&mut s, query), expected, "{query}");
    }
}

#[test]
fn what_a_crash_leaves_goes_at_the_next_start() {
    let vfs = FaultyVfs::new();
    vfs.record();
    let open = |vfs: Arc<dyn Vfs>| {
        Database::open_with(Env { vfs, ..Env::memory() }, Options::new().small_files(true))
    };
    let database = open(Arc::new(vfs.clone())).unwrap();
    let mut s = database.session();
    fill(&mut s);
    run(&mut s, LITTLE);
    let begin = vfs.changes();
    let query = "select t.id, count(*) from t join u on t.id = u.k group by t.id order by t.id";
    let expected = run(&mut s, query);
    let end = vfs.changes();
    drop(s);
    drop(database);
    let history = vfs.history().unwrap();
    let mut replay = history.replay();
    let (mut images, mut with_files) = (0, 0);
    while replay.step().is_some() {
        let at = replay.done() as u64;
        if at < begin || at > end || !at.is_multiple_of((end - begin) / 12) {
            continue;
        }
        let options = CrashOptions { images_max: 2, seed: at, ..CrashOptions::default() };
        for image in replay.images(&options) {
            images += 1;
            let vfs: Arc<dyn Vfs> = Arc::new(image.vfs);
            with_files += usize::from(!files(&*vfs).is_empty());
            let database = open(Arc::clone(&vfs)).unwrap();
            assert_eq!(vfs.list("tmp").unwrap_or_default(), [""; 0]);
            let mut s = database.session();
            run(&mut s, LITTLE);
            assert_eq!(run(&mut s, query), expected);
            assert_eq!(files(&*vfs), [""; 0]);
        }
    }
    assert!(images > 10 && with_files > 3, "{images} images, {with_files} with files");
}

#[test]
fn a_statement_that_spills_can_be_cancelled() {
    let (vfs, database) = opened();
    let mut s = database.session();
    fill(&mut s);
    run(&mut s, LITTLE);
    for (query, _) in QUERIES {
        let expected = run(&mut s, query);
        let control = Arc::clone(s.control());
        // After the cancel, at the first write, only few more bytes are written.
        let written = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&written);
        vfs.observe_writes(Box::new(move |path, _, bytes| {
            if path.starts_with("tmp/query") {
                control.cancel();
                counted.fetch_add(bytes.len(), Ordering::Relaxed);
            }
        }));
        let found = run(&mut s, query);
        vfs.observe_writes(Box::new(|_, _, _| {}));
        let last = found.lines().last().unwrap_or_default();
        assert_eq!(last, "error 57014: canceling statement due to user request", "{query}");
        let written = written.load(Ordering::Relaxed);
        assert!(written <= 256 << 10, "{query}: {written} bytes");
        assert_eq!(files(&vfs), [""; 0], "{query}");
        assert_eq!(run(&mut s, query), expected, "{query}");
    }
}

#[test]
fn cursors_and_errors_leave_no_file() {
    let env = Env::memory();
    let database = Database::open_with(env.clone(), Options::new()).unwrap();
    let mut s = database.session();
    fill(&mut s);
    run(&mut s, LITTLE);
    let begin = "begin; declare c cursor for select distinct id, s from t order by s, id; \
                 fetch 3 from c";
    for end in ["commit", "rollback", "close c", "select 1 / 0"] {
        let first = run(&mut s, begin);
        assert_eq!(first.lines().count(), 3, "{first}");
        assert!(!files(&*env.vfs).is_empty(), "{end}");
        run(&mut s, end);
        assert_eq!(files(&*env.vfs), [""; 0], "{end}");
        run(&mut s, "rollback");
    }
    let failing = "select distinct s, id, 1 / (id - 1999) from t order by s, id";
    assert_eq!(run(&mut s, failing), "error 22012: division by zero");
    assert_eq!(files(&*env.vfs), [""; 0]);
}

/// A cursor that goes back keeps its rows from the first time it does. A cursor WITH HOLD keeps
/// them from the end of its transaction. The rows are in files, within the limit, until it is
/// closed.
#[test]
fn cursors_keep_their_rows_in_files() {
    let (vfs, database) = opened();
    let mut s = database.session();
    run(&mut s, LITTLE);
    let declare = "declare c scroll cursor with hold for \
        select i, repeat('x', 200) from generate_series(1, 2000) i";
    run(&mut s, &format!("begin; {declare}"));
    run(&mut s, "move 1500 c");
    assert_eq!(files(&vfs), [""; 0], "forward alone");
    assert_eq!(run(&mut s, "move backward 1 c; fetch 0 c").get(..5), Some("1499|"));
    assert_eq!(files(&vfs).len(), 1);
    let backward = run(&mut s, "move all c; fetch backward all c");
    let numbers: Vec<&str> = backward.lines().filter_map(|row| row.split('|').next()).collect();
    let expected: Vec<String> = (1..=2000).rev().map(|number: i32| number.to_string()).collect();
    assert_eq!(numbers, expected);
    assert_eq!(run(&mut s, "commit"), "");
    assert_eq!(files(&vfs).len(), 1, "held");
    assert_eq!(run(&mut s, "move absolute 777 c; fetch relative -76 c").get(..4), Some("701|"));
    assert_eq!(run(&mut s, "close c"), "");
    assert_eq!(files(&vfs), [""; 0]);
    // Rows that cannot be stored cannot be held, so the commit fails.
    run(&mut s, "set temp_file_limit = '100kB'");
    run(&mut s, "begin; create table made (a int)");
    run(&mut s, declare);
    let refused = run(&mut s, "commit");
    assert!(refused.starts_with("error 53400: temporary file size exceeds"), "{refused}");
    assert!(run(&mut s, "fetch c").starts_with("error 34000"));
    assert!(run(&mut s, "select * from made").starts_with("error 42P01"));
    assert_eq!(files(&vfs), [""; 0]);
    run(&mut s, "begin");
    run(&mut s, declare);
    assert!(run(&mut s, "fetch last c").starts_with("error 53400"));
    run(&mut s, "rollback");
    // The end of a session frees its held rows.
    run(&mut s, "reset temp_file_limit");
    assert_eq!(run(&mut s, declare), "");
    assert_eq!(files(&vfs).len(), 1);
    drop(s);
    assert_eq!(files(&vfs), [""; 0]);
}
