//! Every access path gives the same rows. The test takes random predicates over random tables with
//! random indexes. It answers each by a sequential scan, index scans, index-only scans and bitmaps.

mod common;

use std::collections::BTreeMap;

use common::run;
use niwaki::{Database, Session};
use niwaki_env::rng::SeededRng;

/// Number of tables to try.
const TABLES: u64 = 16;
/// Number of predicates for each table.
const PREDICATES: u64 = 30;

/// Access paths to leave open: the settings that are on, and the steps that some plan must then
/// have.
const WAYS: [(&str, &[&str], &[&str]); 5] = [
    (
        "index scans",
        &["enable_indexscan", "enable_skipscan"],
        &["Index Scan", "Index Scan Backward"],
    ),
    ("index scans that do not skip", &["enable_indexscan"], &[]),
    (
        "index-only scans",
        &["enable_indexscan", "enable_indexonlyscan", "enable_skipscan"],
        &["Index Only Scan", "Index Only Scan Backward"],
    ),
    ("bitmaps", &["enable_bitmapscan"], &["Bitmap Heap Scan", "BitmapAnd", "BitmapOr"]),
    (
        "everything",
        &["enable_seqscan", "enable_indexscan", "enable_indexonlyscan", "enable_bitmapscan"],
        &[],
    ),
];

const SWITCHES: [&str; 5] = [
    "enable_seqscan",
    "enable_indexscan",
    "enable_indexonlyscan",
    "enable_bitmapscan",
    "enable_skipscan",
];

struct Case {
    rng: SeededRng,
}

impl Case {
    fn below(&self, bound: u64) -> u64 {
        self.rng.below(bound)
    }

    fn pick<'t>(&self, from: &[&'t str]) -> &'t str {
        from[self.below(from.len() as u64) as usize]
    }

    fn column(&self) -> &'static str {
        self.pick(&["a", "b", "c", "d", "n", "f", "ch"])
    }

    fn value(&self, column: &str) -> String {
        if self.rng.chance(1, 30) {
            return "null".to_owned();
        }
        let number = self.below(14) as i64 - 2;
        match column {
            "b" => format!("'b{}'", number % 6),
            "ch" => format!("'c{}{}'", number % 4, self.pick(&["", " "])),
            "d" => format!("{}", number * 40),
            "n" => format!("{number}.{}", self.pick(&["0", "50", "5"])),
            "f" => format!("{}", number as f64 / 2.0),
            _ => number.to_string(),
        }
    }

    fn row(&self, id: u64) -> String {
        let values: Vec<String> = ["a", "b", "c", "d", "n", "f", "ch"]
            .into_iter()
            .map(|column| match column {
                _ if self.rng.chance(1, 12) => "null".to_owned(),
                "d" => format!("{}", self.below(500)),
                _ => self.value(column),
            })
            .collect();
        format!("({id}, {}, repeat('f', {}))", values.join(", "), 20 + self.below(120))
    }

    fn index(&self, number: u64) -> String {
        let mut columns: Vec<String> = Vec::new();
        for _ in 0..=self.below(3) {
            let column = match self.below(8) {
                0 => "(a + c)".to_owned(),
                1 => "id".to_owned(),
                _ => self.column().to_owned(),
            };
            let order = self.pick(&["", "", " desc", " nulls first", " desc nulls last"]);
            columns.push(column + order);
        }
        let include = if self.rng.chance(1, 3) { " include (id, b, n)" } else { "" };
        let predicate = if self.rng.chance(1, 6) { " where c > 3" } else { "" };
        format!("create index i{number} on t ({}){include}{predicate}", columns.join(", "))
    }

    fn condition(&self, depth: u64) -> String {
        let column = self.column();
        match self.below(if depth < 2 { 12 } else { 9 }) {
            0 | 1 => format!("{column} = {}", self.value(column)),
            2 => format!("{column} {} {}", self.pick(&["<", "<=", ">", ">="]), self.value(column)),
            3 => format!("{column} between {} and {}", self.value(column), self.value(column)),
            4 | 5 => {
                let values: Vec<String> = (0..=self.below(5)).map(|_| self.value(column)).collect();
                format!("{column} in ({})", values.join(", "))
            }
            6 => format!("{column} is {}null", self.pick(&["", "not "])),
            7 => format!("a + c = {}", self.value("a")),
            8 => format!("c > {}", 3 + self.below(3)),
            9 => format!("({} or {})", self.condition(depth + 1), self.condition(depth + 1)),
            10 => format!("({} and {})", self.condition(depth + 1), self.condition(depth + 1)),
            _ => format!("not ({})", self.condition(depth + 1)),
        }
    }

    fn query(&self) -> String {
        let conditions: Vec<String> = (0..=self.below(3)).map(|_| self.condition(0)).collect();
        let columns =
            self.pick(&["*", "id", "a, b, id", "c, id", "a, id", "d, n, id", "count(*), sum(id)"]);
        let query = format!("select {columns} from t where {}", conditions.join(" and "));
        if columns.starts_with("count") {
            return query;
        }
        let order: Vec<String> = if self.rng.chance(1, 3) {
            // An order that an index gives, forward or backward.
            vec![self.pick(&["a, id", "a desc, id desc", "c, id", "c desc, id desc"]).to_owned()]
        } else {
            (0..self.below(3))
                .map(|_| format!("{}{}", self.column(), self.pick(&["", " desc", " nulls first"])))
                .chain(["id".to_owned()])
                .collect()
        };
        let limit = match self.below(3) {
            0 => format!(" limit {}", 1 + self.below(6)),
            _ => String::new(),
        };
        format!("{query} order by {}{limit}", order.join(", "))
    }
}

fn must(session: &mut Session, sql: &str) -> String {
    let found = run(session, sql);
    assert!(!found.starts_with("error"), "{sql}: {found}");
    found
}

/// Inserts and changes rows: chains with several versions, dead rows, holes.
fn fill(case: &Case, session: &mut Session) {
    must(
        session,
        "create table t (id int primary key, a int, b text, c int, d int8, n numeric, \
         f float8, ch char(4), filler text)",
    );
    let early = case.below(4);
    (0..early).for_each(|number| drop(must(session, &case.index(number))));
    let rows: Vec<String> = (0..150 + case.below(250)).map(|id| case.row(id)).collect();
    must(session, &format!("insert into t values {}", rows.join(", ")));
    for _ in 0..10 {
        let change = match case.below(4) {
            0 => format!("delete from t where {}", case.condition(0)),
            1 => format!("update t set filler = 'short' where {}", case.condition(0)),
            _ => {
                let column = case.column();
                let value = case.value(column);
                format!("update t set {column} = {value} where {}", case.condition(0))
            }
        };
        let limited = format!("{change} and id % 5 = {}", case.below(5));
        if case.rng.chance(1, 4) {
            must(session, &format!("begin; {limited}; rollback"));
        } else {
            must(session, &limited);
        }
    }
    // These indexes are built over chains of several versions.
    must(session, "create index in_order on t (a, id) include (b)");
    must(session, "create index in_reverse on t (c desc, id desc)");
    (early..early + 4).for_each(|number| drop(must(session, &case.index(number))));
    must(session, &format!("update t set c = c + 1 where id % 7 = {}", case.below(7)));
    if case.rng.chance(2, 3) {
        must(session, "analyze t");
    }
    if case.rng.chance(1, 3) {
        must(session, "vacuum t");
    }
}

/// Leaves only these access paths open.
fn open(session: &mut Session, on: &[&str]) {
    for switch in SWITCHES {
        let value = if on.contains(&switch) { "on" } else { "off" };
        must(session, &format!("set {switch} = {value}"));
    }
}

/// Decides whether a plan has a step of this name.
fn has_step(plan: &str, name: &str) -> bool {
    plan.lines().any(|line| {
        let step = line.trim_start().trim_start_matches("->  ");
        step.strip_prefix(name).is_some_and(|rest| {
            rest.is_empty() || rest.starts_with(" on ") || rest.starts_with(" using ")
        })
    })
}

#[test]
fn every_path_gives_the_same_rows() {
    let mut met: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 0..TABLES {
        let case = Case { rng: SeededRng::new(seed) };
        let database = Database::in_memory_without_threads().unwrap();
        let mut session = database.session();
        fill(&case, &mut session);
        if case.rng.chance(1, 3) {
            // Rows are expensive, so that bitmaps of several conditions pay.
            must(&mut session, "set cpu_tuple_cost = 5; set random_page_cost = 1");
        }
        for _ in 0..PREDICATES {
            let query = case.query();
            open(&mut session, &["enable_seqscan"]);
            let expected = must(&mut session, &query);
            let memory = if case.rng.chance(1, 4) { "64kB" } else { "4MB" };
            must(&mut session, &format!("set work_mem = '{memory}'"));
            for (way, on, names) in WAYS {
                open(&mut session, on);
                let plan = must(&mut session, &format!("explain (costs off) {query}"));
                let found = must(&mut session, &query);
                assert_eq!(found, expected, "seed {seed}, {way}: {query}\n{plan}");
                for name in names {
                    *met.entry(name).or_default() += u64::from(has_step(&plan, name));
                }
            }
        }
        let report = database.check().unwrap();
        assert!(report.violations.is_empty(), "seed {seed}: {:?}", report.violations);
    }
    eprintln!("plans with each step: {met:?}");
    for name in WAYS.iter().flat_map(|(_, _, names)| *names) {
        assert!(met.get(name).copied().unwrap_or(0) > 0, "no plan with {name}: {met:?}");
    }
}

/// Even without sequential scans, statements that change or lock rows meet each row once.
#[test]
fn changes_through_every_path_meet_each_row_once() {
    let count =
        |wanted: &dyn Fn(i64, i64) -> bool| (1..=300).filter(|x| wanted(x % 10 + 1, x % 7)).count();
    for way in ["enable_indexscan", "enable_bitmapscan"] {
        let database = Database::in_memory_without_threads().unwrap();
        let mut session = database.session();
        must(
            &mut session,
            "create table t (id int primary key, a int, b int); \
             insert into t select x, x % 10, x % 7 from generate_series(1, 300) as g(x); \
             create index t_a on t (a); create index t_b on t (b)",
        );
        open(&mut session, &[way]);
        let mut rows = |sql: &str| must(&mut session, sql).lines().count();
        assert_eq!(rows("update t set a = a + 1 where a >= 0 returning id"), 300);
        assert_eq!(
            rows("select id from t where a = 3 or b = 2 for update"),
            count(&|a, b| a == 3 || b == 2)
        );
        let gone = count(&|a, b| a < 3 && b < 3);
        assert_eq!(rows("delete from t where a in (1, 2) and b in (0, 1, 2) returning id"), gone);
        assert_eq!(rows("select id from t where a in (2, 1)"), count(&|a, _| a < 3) - gone);
        assert_eq!(rows("select id from t where a >= 0 or b >= 0"), 300 - gone);
    }
}

#[test]
fn explain_analyze_tells_what_the_heap_was_asked() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = database.session();
    must(
        &mut session,
        "create table t (a int, b int, filler text); create index t_a on t (a); \
         create index t_b on t (b) include (a); \
         insert into t select x % 50, x, repeat('f', 200) from generate_series(1, 2000) as g(x); \
         analyze t; set enable_seqscan = off",
    );
    let explain = |session: &mut Session, query: &str| {
        must(session, &format!("explain (analyze, costs off, timing off) {query}"))
    };
    let plan = explain(&mut session, "select a, b from t where b between 10 and 19");
    assert!(
        plan.contains("Index Only Scan using t_b") && plan.contains("Heap Fetches: 10"),
        "{plan}"
    );
    must(&mut session, "set enable_indexscan = off");
    let plan = explain(&mut session, "select * from t where a = 7");
    assert!(
        plan.contains("Recheck Cond: (a = 7)") && plan.contains("Heap Blocks: exact=40"),
        "{plan}"
    );
    must(&mut session, "set work_mem = '64kB'");
    let plan = explain(&mut session, "select count(*) from t where a >= 0 and filler = 'x'");
    assert!(plan.contains("Heap Blocks: exact="), "{plan}");
}

/// Counts were texts in JSON, and so were lists of keys: programs that add or walk them failed.
#[test]
fn explain_in_json_has_numbers_and_lists() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = database.session();
    must(
        &mut session,
        "create table t (a int primary key, b int, filler text); create index t_b on t (b); \
         insert into t select x, x % 50, repeat('f', 200) from generate_series(1, 2000) as g(x); \
         analyze t; set enable_seqscan = off",
    );
    let has = |session: &mut Session, query: &str, properties: &[&str]| {
        let plan = must(session, &format!("explain (analyze, format json) {query}"));
        for property in properties {
            assert!(plan.contains(property), "{property} is not in {plan}");
        }
    };
    has(
        &mut session,
        "select a from t where a between 10 and 19 order by a + 0, a desc",
        &[
            "\"Heap Fetches\": 10",
            "\"Sort Key\": [\"((a + 0))\", \"a DESC\"]",
            "\"Startup Cost\": 0.00",
            "\"Plan Width\": 0",
        ],
    );
    has(
        &mut session,
        "select b, count(*) from t group by b",
        &[
            "\"Node Type\": \"Aggregate\"",
            "\"Strategy\": \"Hashed\"",
            "\"Partial Mode\": \"Simple\"",
            "\"Group Key\": [\"b\"]",
        ],
    );
    must(&mut session, "set enable_indexscan = off");
    has(
        &mut session,
        "select * from t where b = 7",
        &["\"Exact Heap Blocks\": 40", "\"Lossy Heap Blocks\": 0"],
    );
    has(
        &mut session,
        "insert into t values (1), (2), (0) on conflict (a) do update set b = 1 where t.b = 1",
        &[
            "\"Conflict Arbiter Indexes\": [\"t_pkey\"]",
            "\"Rows Removed by Conflict Filter\": 1",
            "\"Tuples Inserted\": 1",
            "\"Conflicting Tuples\": 2",
        ],
    );
}
