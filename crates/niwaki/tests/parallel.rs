//! Aggregates and hash tables of several threads give the same as one thread. The test takes random
//! queries over tables that all threads read. Some have so little memory that threads end early.
//! Other tests let a thread fail or be interrupted.

mod common;

use common::run;
use niwaki::{Database, Options, Session};
use niwaki_env::Env;
use niwaki_env::rng::SeededRng;

const QUERIES: u64 = 120;

/// Creates a database with background threads, `t` of 30,000 rows and `u` of 300.
fn database() -> Database {
    let database = Database::open_with(Env::memory(), Options::new().background(true)).unwrap();
    let mut session = database.session();
    for statement in [
        "create table t (id int, k int, g int, n numeric, f float8, s text, b bool, d date)",
        "insert into t select i, i % 350, nullif(i % 7, 3), nullif(i % 1000, 5) / 8.0, (i % 64) / 4.0, 'word ' || i % 90, \
         nullif(i % 3, 1) = 0, date '2024-01-01' + i % 400 from generate_series(1, 30000) i",
        "create table u (k int primary key, name text, v int8)",
        "insert into u select i, 'name ' || i % 11, i * 10000000000 from generate_series(0, 299) i",
        "create table p (id int, k int, g int, n numeric, f float8, s text, b bool, d date) partition by range (id)",
        "create table p1 partition of p for values from (minvalue) to (10000)",
        "create table p2 partition of p for values from (10000) to (12000)",
        "create table p3 partition of p for values from (12000) to (maxvalue)",
        "insert into p select * from t",
        "create index u_v on u (v)",
        "create index t_k on t (k)",
        "analyze",
    ] {
        run(&mut session, statement);
    }
    database
}

/// Makes a session's statements read with parallel workers, whatever the size of the tables.
fn together(session: &mut Session) {
    run(session, "set min_parallel_table_scan_size = 0");
    run(session, "set max_parallel_workers_per_gather = 3");
}

fn alone(session: &mut Session) {
    run(session, "set max_parallel_workers_per_gather = 0");
}

/// Decides whether there are processors for other threads.
fn has_processors() -> bool {
    std::thread::available_parallelism().is_ok_and(|count| count.get() > 1)
}

fn lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

fn pick<'x>(rng: &SeededRng, from: &[&'x str]) -> &'x str {
    from[rng.below(from.len() as u64) as usize]
}

fn random_query(rng: &SeededRng) -> String {
    let joined = rng.below(2) == 0;
    let mut groups = Vec::new();
    for _ in 0..rng.below(3) {
        let own = [
            "g",
            "s",
            "b",
            "t.k % 5",
            "id % 2000",
            "d",
            "n",
            "coalesce(g, -1)",
            "date_part('month', d)",
        ];
        let of_both = ["name", "v", "g", "length(s)", "u.k is null"];
        groups.push(pick(rng, if joined { &of_both } else { &own }));
    }
    let mut calls = Vec::new();
    for _ in 0..=rng.below(4) {
        let own = [
            "count(*)",
            "count(g)",
            "sum(id)",
            "sum(t.k::int8)",
            "sum(n)",
            "avg(n)",
            "avg(id)",
            "sum(f)",
            "avg(f)",
            "min(s)",
            "max(s)",
            "min(n)",
            "max(d)",
            "bool_and(b)",
            "bool_or(b)",
            "bit_and(id)",
            "bit_or(t.k)",
            "bit_xor(id)",
            "sum(case when g = 2 then n else 0 end)",
            "count(*) filter (where b)",
            "sum(n) filter (where id % 3 = 0)",
            "max(n * 2 + id)",
            "min(f)",
        ];
        let of_both = ["count(v)", "sum(v)", "max(name)", "min(name || s)", "avg(v)"];
        calls.push(pick(rng, if joined && rng.below(2) == 0 { &of_both } else { &own }));
    }
    let filters = [
        "",
        " where id > 500",
        " where s like '%7' or g is null",
        " where b",
        " where d between date '2024-03-01' and date '2024-09-01'",
        " where n > 100.5 and f < 12",
        " where id < 0",
        " where t.k % 2 = 0",
        " where exists (select from u x where x.k = t.k and x.v > 1000000000000)",
        " where not exists (select from u x where x.k = t.k and x.name like '%3') and id % 2 = 1",
    ];
    let from = match (joined, rng.below(6)) {
        (false, 0) => "p as t",
        (false, _) => "t",
        (true, 4) => "p as t join u on t.k = u.k",
        // This may use an index where the settings allow only that.
        (true, 5) => "t join u on t.k = u.k and u.v < 500000000000",
        (true, 0) => "t left join u on t.k = u.k",
        (true, 1) => "t left join u on t.k = u.k and u.v > 1000000000000",
        (true, 2) => {
            "t join (select k, min(name) as name, max(v) as v from u group by k) u on t.k = u.k"
        }
        (true, _) => "t join u on t.k = u.k",
    };
    let grouping = match groups.as_slice() {
        [] => String::new(),
        [first, second] if rng.below(3) == 0 => format!(" group by rollup ({first}, {second})"),
        groups => format!(" group by {}", groups.join(", ")),
    };
    let targets: Vec<&str> = groups.iter().chain(&calls).copied().collect();
    format!("select {} from {from}{}{grouping}", targets.join(", "), pick(rng, &filters))
}

#[test]
fn threads_compute_what_one_does() {
    let database = database();
    let mut session = database.session();
    let rng = SeededRng::new(20);
    for _ in 0..QUERIES {
        let query = random_query(&rng);
        let by_index = rng.below(3) == 0;
        alone(&mut session);
        let expected = lines(&run(&mut session, &query));
        together(&mut session);
        run(&mut session, &format!("set enable_hashjoin = {}", !by_index));
        // With little memory, threads end early and the session's thread goes on alone.
        let memory = pick(&rng, &["64kB", "4MB"]);
        run(&mut session, &format!("set work_mem = '{memory}'"));
        let found = lines(&run(&mut session, &query));
        assert!(!found.iter().any(|line| line.starts_with("error")), "{query}: {found:?}");
        assert_eq!(found, expected, "{query} with {memory}");
        run(&mut session, "reset work_mem");
        run(&mut session, "reset enable_hashjoin");
    }
}

#[test]
fn plans_show_the_threads() {
    let database = database();
    let mut session = database.session();
    together(&mut session);
    let query = "select g, count(*) from t join u on t.k = u.k where id > 5 group by g";
    assert_eq!(
        run(&mut session, &format!("explain (costs off) {query}")),
        "Finalize HashAggregate
  Group Key: t.g
  ->  Gather
        Workers Planned: 3
        ->  Partial HashAggregate
              Group Key: t.g
              ->  Hash Join
                    Hash Cond: (t.k = u.k)
                    ->  Parallel Seq Scan on t
                          Filter: (id > 5)
                    ->  Hash
                          ->  Gather
                                Workers Planned: 1
                                ->  Parallel Seq Scan on u"
    );
    let json = run(&mut session, &format!("explain (costs off, format json) {query}"));
    let shown = |line: &&str| {
        let labels = ["\"Node Type\"", "\"Strategy\"", "\"Partial Mode\"", "\"Parallel Aware\""];
        labels.iter().any(|label| line.starts_with(label))
    };
    let steps: String = json.lines().map(str::trim).filter(shown).collect();
    assert_eq!(
        steps.replace('"', ""),
        "Node Type: Aggregate,Strategy: Hashed,Partial Mode: Finalize,Parallel Aware: false,\
         Node Type: Gather,Parallel Aware: false,\
         Node Type: Aggregate,Strategy: Hashed,Partial Mode: Partial,Parallel Aware: false,\
         Node Type: Hash Join,Parallel Aware: false,\
         Node Type: Seq Scan,Parallel Aware: true,\
         Node Type: Hash,Parallel Aware: false,\
         Node Type: Gather,Parallel Aware: false,\
         Node Type: Seq Scan,Parallel Aware: true,"
    );
    let analyzed = run(
        &mut session,
        &format!("explain (analyze, costs off, timing off, summary off) {query}"),
    );
    assert!(analyzed.contains("Workers Launched: "), "{analyzed}");
    if has_processors() {
        assert!(!analyzed.contains("Workers Launched: 0"), "{analyzed}");
    }
    run(&mut session, "set max_parallel_workers = 0");
    let analyzed = run(
        &mut session,
        &format!("explain (analyze, costs off, timing off, summary off) {query}"),
    );
    assert!(analyzed.contains("Workers Launched: 0"), "{analyzed}");
    assert!(analyzed.contains("Parallel Seq Scan on t (actual rows=29995 loops=1)"), "{analyzed}");
}

/// A table below the least size is read by one thread, as are expressions that workers cannot
/// evaluate.
#[test]
fn some_queries_are_not_for_threads() {
    let database = database();
    let mut session = database.session();
    let is_parallel = |session: &mut Session, query: &str| {
        run(session, &format!("explain {query}")).contains("Gather")
    };
    assert!(!is_parallel(&mut session, "select count(*) from t"), "the table is small");
    together(&mut session);
    for query in ["select count(*) from t", "select sum(id) from t where d > '2024-02-01'"] {
        assert!(is_parallel(&mut session, query), "{query}");
    }
    for query in [
        "select count(distinct g) from t",
        "select string_agg(s, ',') from t",
        "select array_agg(id) from t",
        "select stddev(f) from t",
        "select count(*) from t where random() < 2",
        "select count(*) from t where d < now()",
        "select count(*) from t where k = (select max(k) from u)",
        "select (select count(*) from t where t.k = u.k) from u",
        "select sum(id) from t for update",
    ] {
        assert!(!is_parallel(&mut session, query), "{query}");
    }
}

/// A transaction that has written reads alone, because other threads do not see its changes.
#[test]
fn own_changes_are_seen() {
    let database = database();
    let mut session = database.session();
    together(&mut session);
    let query = "select count(*), sum(k) from t";
    let before = run(&mut session, query);
    run(&mut session, "begin");
    run(&mut session, "insert into t (k) select 1 from generate_series(1, 10)");
    run(&mut session, "delete from t where id between 1 and 20");
    let inside = run(&mut session, query);
    run(&mut session, "rollback");
    assert_eq!(run(&mut session, query), before);
    let (count, sum) = before.split_once('|').unwrap();
    let (count, sum): (i64, i64) = (count.parse().unwrap(), sum.parse().unwrap());
    assert_eq!(inside, format!("{}|{}", count - 10, sum + 10 - (1..=20).sum::<i64>()));
}

/// Literals such as `now` mean the same in every thread.
#[test]
fn times_are_those_of_the_session() {
    let database = database();
    let mut session = database.session();
    run(
        &mut session,
        "create table texts as select i, 'now'::text t from generate_series(1, 30000) i",
    );
    together(&mut session);
    let query = "select count(*), count(*) filter (where t::timestamptz >= '2001-01-01'), count(distinct x) from \
                 (select t, max(t::timestamptz) x from texts where t::timestamptz > '2001-01-01' group by t) y";
    assert_eq!(run(&mut session, query), "1|1|1");
    let query = "select count(*), min(t::timestamptz) = max(t::timestamptz) from texts where t::date > '2001-01-01'";
    assert!(run(&mut session, &format!("explain {query}")).contains("Gather"));
    assert_eq!(run(&mut session, query), "30000|t");
}

/// The threads see the rows of the session's snapshot.
#[test]
fn an_old_snapshot_is_read() {
    let database = database();
    let (mut reader, mut writer) = (database.session(), database.session());
    together(&mut reader);
    let query = "select count(*), sum(k), max(id) from t";
    run(&mut reader, "begin isolation level repeatable read");
    let before = run(&mut reader, query);
    run(&mut writer, "update t set k = k + 1 where id % 3 = 0");
    run(&mut writer, "delete from t where id % 5 = 0");
    run(&mut writer, "insert into t (id, k) values (99999, 1)");
    assert_eq!(run(&mut reader, query), before);
    run(&mut reader, "commit");
    let after = run(&mut reader, query);
    assert_ne!(after, before);
    alone(&mut reader);
    assert_eq!(run(&mut reader, query), after);
}

#[test]
fn errors_of_threads_end_the_statement() {
    let database = database();
    let mut session = database.session();
    together(&mut session);
    for id in [1, 15_000, 29_990] {
        let failing = format!("select sum(1 / (id - {id})) from t");
        assert_eq!(run(&mut session, &failing), "error 22012: division by zero");
    }
    assert_eq!(run(&mut session, "select count(*) from t"), "30000");
}

#[test]
fn threads_are_interrupted() {
    let database = database();
    let mut session = database.session();
    together(&mut session);
    run(&mut session, "set enable_mergejoin = off");
    // This joins all rows with equal keys, and would take hours.
    let long = "select count(*) from t join t b on t.id / 30000 = b.id / 30000 join t c on t.id / 30000 = c.id / 30000";
    assert!(run(&mut session, &format!("explain {long}")).contains("Gather"));
    run(&mut session, "set statement_timeout = 100");
    let cancelled = "error 57014: canceling statement due to statement timeout";
    assert_eq!(run(&mut session, long), cancelled);
    run(&mut session, "reset statement_timeout");
    assert_eq!(run(&mut session, "select count(*) from t"), "30000");
}
