//! GROUPING SETS, ROLLUP and CUBE give the same as a naive evaluation. The test takes random rows
//! with NULLs, random clauses, and conditions on groups and above them. Some runs have so little
//! memory that groups go to files.
//!
//! The naive evaluation builds all sets of the clause and groups the rows anew for each.

mod common;

use std::collections::BTreeMap;

use common::run;
use niwaki::{Database, Session};
use niwaki_env::rng::SeededRng;

const TABLES: u64 = 16;
const QUERIES: u64 = 40;

/// Columns to group by.
const COLUMNS: [&str; 4] = ["a", "b", "c", "d"];

type Value = Option<i64>;

#[derive(Clone, Copy)]
struct Row {
    id: i64,
    columns: [Value; 4],
    value: Value,
}

/// A part of GROUP BY, with columns by number.
enum Item {
    List(Vec<usize>),
    Rollup(Vec<Vec<usize>>),
    Cube(Vec<Vec<usize>>),
    Sets(Vec<Item>),
}

fn columns(rng: &SeededRng, least: u64) -> Vec<usize> {
    let count = least + rng.below(3 - least);
    (0..count).map(|_| rng.below(4) as usize).collect()
}

fn list(columns: &[usize]) -> String {
    let names: Vec<&str> = columns.iter().map(|column| COLUMNS[*column]).collect();
    format!("({})", names.join(", "))
}

fn lists(parts: &[Vec<usize>]) -> String {
    parts.iter().map(|part| list(part)).collect::<Vec<_>>().join(", ")
}

impl Item {
    fn random(rng: &SeededRng, inside: bool, depth: u64) -> Self {
        let parts = || (0..=rng.below(3)).map(|_| columns(rng, 1)).collect();
        match rng.below(if depth > 1 { 3 } else { 5 }) {
            0 => Self::List(columns(rng, u64::from(!inside))),
            1 => Self::Rollup(parts()),
            2 => Self::Cube(parts()),
            _ => {
                let count = 1 + rng.below(3);
                Self::Sets((0..count).map(|_| Self::random(rng, true, depth + 1)).collect())
            }
        }
    }

    fn sql(&self) -> String {
        match self {
            Self::List(columns) => list(columns),
            Self::Rollup(parts) => format!("rollup ({})", lists(parts)),
            Self::Cube(parts) => format!("cube ({})", lists(parts)),
            Self::Sets(items) => {
                let items: Vec<String> = items.iter().map(Self::sql).collect();
                format!("grouping sets ({})", items.join(", "))
            }
        }
    }

    /// Returns the sets that the item stands for, as bits.
    fn sets(&self) -> Vec<u8> {
        let bits = |columns: &[usize]| columns.iter().fold(0, |bits, column| bits | (1 << column));
        match self {
            Self::List(columns) => vec![bits(columns)],
            Self::Rollup(parts) => (0..=parts.len()).map(|n| bits(&parts[..n].concat())).collect(),
            Self::Cube(parts) => (0..1usize << parts.len())
                .map(|chosen| {
                    let part = |n: usize| if (chosen >> n) & 1 == 1 { bits(&parts[n]) } else { 0 };
                    (0..parts.len()).fold(0, |all, n| all | part(n))
                })
                .collect(),
            Self::Sets(items) => items.iter().flat_map(Self::sets).collect(),
        }
    }
}

/// Condition on the rows of a grouping, in HAVING or above.
enum Condition {
    None,
    Grouping(i64),
    Count(i64),
    IsNull(usize),
    Is(usize, i64),
}

impl Condition {
    fn random(rng: &SeededRng, end: u64) -> Self {
        let column = rng.below(4) as usize;
        match rng.below(6) {
            0 => Self::Grouping(rng.below(16) as i64),
            1 => Self::Count(rng.below(4) as i64),
            2 => Self::IsNull(column),
            3 => Self::Is(column, rng.below(end) as i64),
            _ => Self::None,
        }
    }

    fn sql(&self, grouping: &str, count: &str) -> String {
        match self {
            Self::None => "true".to_owned(),
            Self::Grouping(bits) => format!("{grouping} = {bits}"),
            Self::Count(n) => format!("{count} > {n}"),
            Self::IsNull(column) => format!("{} is null", COLUMNS[*column]),
            Self::Is(column, value) => format!("{} = {value}", COLUMNS[*column]),
        }
    }

    fn holds(&self, columns: &[Value], grouping: i64, count: i64) -> bool {
        match self {
            Self::None => true,
            Self::Grouping(bits) => grouping == *bits,
            Self::Count(n) => count > *n,
            Self::IsNull(column) => columns[*column].is_none(),
            Self::Is(column, value) => columns[*column] == Some(*value),
        }
    }
}

struct Clause {
    items: Vec<Item>,
    distinct: bool,
    having: Condition,
    above: Condition,
}

impl Clause {
    /// Builds a random query. Values of columns are below `end`.
    fn random(rng: &SeededRng, end: u64) -> Self {
        loop {
            // Every column can be named in HAVING and above.
            let mut items =
                vec![Item::Sets(vec![Item::List(vec![0, 1, 2, 3]), Item::List(vec![])])];
            if rng.chance(1, 2) {
                items = vec![Item::Cube(vec![vec![0], vec![1], vec![2], vec![3]])];
            }
            let more = (0..rng.below(3)).map(|_| Item::random(rng, false, 0));
            items.extend(more);
            let (having, above) = (Condition::random(rng, end), Condition::random(rng, end));
            let clause = Self { items, distinct: rng.chance(1, 3), having, above };
            if clause.sets().len() <= 64 {
                return clause;
            }
        }
    }

    fn sql(&self) -> String {
        let items: Vec<String> = self.items.iter().map(Item::sql).collect();
        let distinct = if self.distinct { "distinct " } else { "" };
        let having = self.having.sql("grouping(a, b, c, d)", "count(*)");
        let above = self.above.sql("g", "n");
        format!(
            "select * from (select a, b, c, d, grouping(a, b, c, d) as g, count(*) as n, count(v), sum(v), min(v), max(v), \
             count(distinct v), count(*) filter (where v > 2), array_agg(v order by id) from t \
             group by {distinct}{} having {having}) s where {above}",
            items.join(", ")
        )
    }

    fn sets(&self) -> Vec<u8> {
        let mut sets = vec![0];
        for item in &self.items {
            let own = item.sets();
            sets = sets.iter().flat_map(|set| own.iter().map(move |other| set | other)).collect();
        }
        if self.distinct {
            sets.sort_unstable();
            sets.dedup();
        }
        sets
    }

    /// Returns the lines of the answer, sorted.
    fn naive(&self, rows: &[Row]) -> Vec<String> {
        let mut lines = Vec::new();
        for set in self.sets() {
            let has = |column: usize| (set >> column) & 1 == 1;
            let mut groups: BTreeMap<Vec<Value>, Vec<Row>> = BTreeMap::new();
            if set == 0 {
                groups.insert(vec![None; 4], Vec::new());
            }
            for row in rows {
                let key = (0..4).map(|n| if has(n) { row.columns[n] } else { None }).collect();
                groups.entry(key).or_default().push(*row);
            }
            let grouping = (0..4).fold(0, |bits, column| (bits << 1) | i64::from(!has(column)));
            for (key, rows) in groups {
                let count = rows.len() as i64;
                let fits = |condition: &Condition| condition.holds(&key, grouping, count);
                if fits(&self.having) && fits(&self.above) {
                    lines.push(line(&key, grouping, &rows));
                }
            }
        }
        lines.sort();
        lines
    }
}

fn shown(value: Value) -> String {
    value.map_or_else(|| "NULL".to_owned(), |value| value.to_string())
}

fn line(key: &[Value], grouping: i64, rows: &[Row]) -> String {
    let known: Vec<i64> = rows.iter().filter_map(|row| row.value).collect();
    let sum = (!known.is_empty()).then(|| known.iter().sum());
    let mut different = known.clone();
    different.sort_unstable();
    different.dedup();
    let list: Vec<String> = rows.iter().map(|row| shown(row.value)).collect();
    let list = if list.is_empty() { "NULL".to_owned() } else { format!("{{{}}}", list.join(",")) };
    let mut values: Vec<String> = key.iter().map(|value| shown(*value)).collect();
    values.extend([
        grouping.to_string(),
        rows.len().to_string(),
        known.len().to_string(),
        shown(sum),
        shown(known.iter().min().copied()),
        shown(known.iter().max().copied()),
        different.len().to_string(),
        known.iter().filter(|value| **value > 2).count().to_string(),
        list,
    ]);
    values.join("|")
}

/// Returns random rows whose values are below `end`.
fn random_rows(rng: &SeededRng, count: u64, end: u64) -> Vec<Row> {
    let value = |end: u64| -> Value { (!rng.chance(1, 6)).then(|| rng.below(end) as i64) };
    let row = |id| Row { id, columns: [(); 4].map(|()| value(end)), value: value(7) };
    (0..count as i64).map(row).collect()
}

/// Creates the table with columns of the given type.
fn fill(session: &mut Session, rows: &[Row], kind: &str) {
    let sql = format!(
        "drop table if exists t; create table t (id int, a {kind}, b {kind}, c {kind}, d {kind}, v int)"
    );
    assert_eq!(run(session, &sql), "");
    let values: Vec<String> = rows
        .iter()
        .map(|row| {
            let columns = row.columns.map(shown).join(", ");
            format!("({}, {columns}, {})", row.id, shown(row.value))
        })
        .collect();
    if !values.is_empty() {
        assert_eq!(run(session, &format!("insert into t values {}", values.join(", "))), "");
    }
}

fn sorted(answer: &str) -> Vec<String> {
    let mut lines: Vec<String> = answer.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn sets_are_those_of_a_naive_evaluation() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = database.session();
    for seed in 0..TABLES {
        let rng = &SeededRng::new(seed);
        let count = rng.below(30);
        let rows = random_rows(rng, count, 4);
        fill(&mut session, &rows, if rng.chance(1, 2) { "int" } else { "numeric" });
        for _ in 0..QUERIES {
            let clause = Clause::random(rng, 4);
            let sql = clause.sql();
            assert_eq!(sorted(&run(&mut session, &sql)), clause.naive(&rows), "{seed}: {sql}");
        }
    }
}

#[test]
fn sets_that_do_not_fit_the_memory_are_those_of_a_naive_evaluation() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = database.session();
    assert_eq!(run(&mut session, "set work_mem = '64kB'"), "");
    let mut spilled = 0;
    for seed in 0..3 {
        let rng = &SeededRng::new(1_000 + seed);
        let end = [12, 60, 900][seed as usize];
        let rows = random_rows(rng, 1_500, end);
        fill(&mut session, &rows, "int");
        for _ in 0..4 {
            let clause = Clause::random(rng, end);
            let sql = clause.sql();
            assert_eq!(sorted(&run(&mut session, &sql)), clause.naive(&rows), "{seed}: {sql}");
            let plan = run(&mut session, &format!("explain (analyze, timing off) {sql}"));
            spilled += usize::from(plan.contains("Disk Usage"));
        }
    }
    assert!(spilled >= 6, "{spilled}");
}

#[test]
fn conditions_on_what_all_sets_have_are_judged_before_rows_are_grouped() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = database.session();
    let setup = "create table k (id int primary key, p int); \
        insert into k select n, n % 3 from generate_series(1, 2000) n; analyze k";
    assert_eq!(run(&mut session, setup), "");
    let query = |clause: &str| {
        format!("select * from (select id, p, count(*) from k group by {clause}) s where id = 5")
    };
    for (clause, below, answer) in [
        ("id, rollup (p)", true, "5|2|1\n5|NULL|1"),
        ("grouping sets ((id, p), id)", true, "5|2|1\n5|NULL|1"),
        ("rollup (id, p)", false, "5|2|1\n5|NULL|1"),
        ("grouping sets (id, p)", false, "5|NULL|1"),
    ] {
        let sql = query(clause);
        let plan = run(&mut session, &format!("explain (costs off) {sql}"));
        assert_eq!(plan.contains("Index Cond: (id = 5)"), below, "{clause}: {plan}");
        assert_eq!(sorted(&run(&mut session, &sql)).join("\n"), answer, "{clause}");
    }
}
