//! Joins give the same as a naive evaluation. The test takes random trees of joins, nested queries
//! in FROM, and conditions with EXISTS and IN. The tables are small and have NULLs. Every join
//! method is tried.
//!
//! `NIWAKI_JOINS_SCRIPT=file` writes the statements for psql to `file`, and the expected output to
//! `file.expected`, so that PostgreSQL can check the naive evaluation.

mod common;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use common::run;
use niwaki::{Database, Session};
use niwaki_env::rng::SeededRng;

/// Number of databases to try.
const DATABASES: u64 = 12;
/// Number of queries for each database.
const QUERIES: u64 = 40;
const COLUMNS: [&str; 3] = ["a", "b", "c"];

type Value = Option<i64>;
type Row = [Value; 3];
/// Rows of the joined aliases.
type Env = BTreeMap<usize, Row>;

/// A number.
#[derive(Clone)]
enum Term {
    Column(usize, usize),
    Constant(i64),
    Plus(Box<Term>, i64),
    Coalesce(Box<Term>, i64),
}

/// A condition.
#[derive(Clone)]
enum Condition {
    True,
    Compare(Term, &'static str, Term),
    IsNull(Term, bool),
    And(Vec<Condition>),
    Or(Vec<Condition>),
    Not(Box<Condition>),
    Exists(Box<Nested>),
    In(Term, Box<Nested>),
}

/// A query in a condition: `SELECT term FROM … WHERE …`.
#[derive(Clone)]
struct Nested {
    term: Term,
    from: From,
    condition: Condition,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Inner,
    Left,
    Right,
    Full,
}

#[derive(Clone)]
enum From {
    Table(usize, usize),
    Query(usize, Box<Derived>),
    Join(Kind, Box<From>, Box<From>, Condition),
}

/// A query in FROM, of three columns.
#[derive(Clone)]
struct Derived {
    columns: [Term; 3],
    from: From,
    condition: Condition,
    shape: Shape,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Plain,
    Distinct,
    /// `SELECT first, count(*), max(third) … GROUP BY first`.
    Grouped,
}

/// Generator of random queries.
struct Maker<'r> {
    rng: &'r SeededRng,
    aliases: usize,
    tables: usize,
}

impl Maker<'_> {
    fn below(&self, bound: usize) -> usize {
        self.rng.below(bound as u64) as usize
    }

    fn term(&self, sight: &[usize]) -> Term {
        let column = || Term::Column(sight[self.below(sight.len())], self.below(3));
        match self.below(12) {
            0 => Term::Constant(self.below(5) as i64),
            1 => Term::Plus(Box::new(column()), self.below(3) as i64),
            2 => Term::Coalesce(Box::new(column()), self.below(4) as i64),
            _ => column(),
        }
    }

    fn comparison(&self, left: &[usize], right: &[usize]) -> Condition {
        let word = ["=", "=", "=", "=", "<", "<>", ">="][self.below(7)];
        Condition::Compare(self.term(left), word, self.term(right))
    }

    fn condition(&mut self, sight: &[usize], depth: usize) -> Condition {
        match self.below(if depth == 0 { 4 } else { 10 }) {
            0..=2 => self.comparison(sight, sight),
            3 => Condition::IsNull(self.term(sight), self.rng.chance(1, 2)),
            4 => Condition::And(vec![
                self.condition(sight, depth - 1),
                self.condition(sight, depth - 1),
            ]),
            5 => Condition::Or(vec![
                self.condition(sight, depth - 1),
                self.condition(sight, depth - 1),
            ]),
            6 => Condition::Not(Box::new(self.condition(sight, depth - 1))),
            _ => self.nested(sight, depth - 1),
        }
    }

    fn nested(&mut self, sight: &[usize], depth: usize) -> Condition {
        let size = 1 + self.below(2);
        let (from, inner) = self.from(size, depth);
        let all: Vec<usize> = sight.iter().chain(&inner).copied().collect();
        let mut parts = vec![self.comparison(sight, &inner)];
        if self.rng.chance(1, 2) {
            parts.push(self.condition(&all, depth));
        }
        let exists = self.rng.chance(1, 2);
        if !exists && self.rng.chance(2, 3) {
            // Most parts read nothing of the query around.
            parts = vec![self.condition(&inner, depth)];
        }
        let nested =
            Box::new(Nested { term: self.term(&inner), from, condition: Condition::And(parts) });
        let found = if exists {
            Condition::Exists(nested)
        } else {
            Condition::In(self.term(sight), nested)
        };
        if self.rng.chance(1, 2) { Condition::Not(Box::new(found)) } else { found }
    }

    /// Builds FROM with `size` items. Returns their aliases too.
    fn from(&mut self, size: usize, depth: usize) -> (From, Vec<usize>) {
        if size <= 1 {
            let alias = self.aliases;
            self.aliases += 1;
            if depth > 0 && self.rng.chance(1, 4) {
                return (From::Query(alias, Box::new(self.derived(depth - 1))), vec![alias]);
            }
            return (From::Table(alias, self.below(self.tables)), vec![alias]);
        }
        let part = 1 + self.below(size - 1);
        let (left, left_sight) = self.from(part, depth);
        let (right, right_sight) = self.from(size - part, depth);
        let kind = [Kind::Inner, Kind::Inner, Kind::Left, Kind::Left, Kind::Right, Kind::Full]
            [self.below(6)];
        let sight: Vec<usize> = left_sight.iter().chain(&right_sight).copied().collect();
        let mut on = vec![match kind {
            // PostgreSQL supports full joins by equalities only.
            Kind::Full => Condition::Compare(
                Term::Column(left_sight[self.below(left_sight.len())], self.below(3)),
                "=",
                Term::Column(right_sight[self.below(right_sight.len())], self.below(3)),
            ),
            _ => self.comparison(&left_sight, &right_sight),
        }];
        if self.rng.chance(1, 3) {
            let depth = if kind == Kind::Full { 0 } else { depth.min(1) };
            on.push(self.condition(&sight, depth));
        }
        if kind == Kind::Inner && self.rng.chance(1, 8) {
            on = vec![Condition::True];
        }
        let on = Condition::And(on);
        (From::Join(kind, Box::new(left), Box::new(right), on), sight)
    }

    fn derived(&mut self, depth: usize) -> Derived {
        let size = 1 + self.below(3);
        let (from, sight) = self.from(size, depth);
        let columns = [self.term(&sight), self.term(&sight), self.term(&sight)];
        let condition =
            if self.rng.chance(1, 2) { self.condition(&sight, depth) } else { Condition::True };
        let shape = [Shape::Plain, Shape::Plain, Shape::Plain, Shape::Distinct, Shape::Grouped]
            [self.below(5)];
        Derived { columns, from, condition, shape }
    }
}

impl Term {
    fn sql(&self) -> String {
        match self {
            Self::Column(alias, column) => format!("r{alias}.{}", COLUMNS[*column]),
            Self::Constant(number) => number.to_string(),
            Self::Plus(term, number) => format!("({} + {number})", term.sql()),
            Self::Coalesce(term, number) => format!("coalesce({}, {number})", term.sql()),
        }
    }

    fn value(&self, env: &Env) -> Value {
        match self {
            Self::Column(alias, column) => env[alias][*column],
            Self::Constant(number) => Some(*number),
            Self::Plus(term, number) => term.value(env).map(|value| value + number),
            Self::Coalesce(term, number) => term.value(env).or(Some(*number)),
        }
    }
}

impl Condition {
    fn sql(&self) -> String {
        let joined = |parts: &[Condition], word: &str| {
            let parts: Vec<String> = parts.iter().map(Condition::sql).collect();
            format!("({})", parts.join(word))
        };
        match self {
            Self::True => "true".to_owned(),
            Self::Compare(left, word, right) => format!("{} {word} {}", left.sql(), right.sql()),
            Self::IsNull(term, negated) => {
                format!("{} is {}null", term.sql(), if *negated { "not " } else { "" })
            }
            Self::And(parts) => joined(parts, " and "),
            Self::Or(parts) => joined(parts, " or "),
            Self::Not(part) => format!("not ({})", part.sql()),
            Self::Exists(nested) => format!("exists ({})", nested.sql()),
            Self::In(term, nested) => format!("{} in ({})", term.sql(), nested.sql()),
        }
    }

    fn holds(&self, env: &Env, tables: &[Vec<Row>]) -> Option<bool> {
        match self {
            Self::True => Some(true),
            Self::Compare(left, word, right) => {
                let (left, right) = (left.value(env)?, right.value(env)?);
                Some(match *word {
                    "=" => left == right,
                    "<" => left < right,
                    "<>" => left != right,
                    _ => left >= right,
                })
            }
            Self::IsNull(term, negated) => Some(term.value(env).is_none() != *negated),
            Self::And(parts) => three(parts.iter().map(|part| part.holds(env, tables)), false),
            Self::Or(parts) => three(parts.iter().map(|part| part.holds(env, tables)), true),
            Self::Not(part) => part.holds(env, tables).map(|holds| !holds),
            Self::Exists(nested) => Some(!nested.values(env, tables).is_empty()),
            Self::In(term, nested) => {
                let term = term.value(env);
                let values = nested.values(env, tables).into_iter();
                three(values.map(|value| Some(term? == value?)), true)
            }
        }
    }
}

/// Evaluates AND (`decides` false) or OR (true) of three-valued conditions.
fn three(parts: impl Iterator<Item = Option<bool>>, decides: bool) -> Option<bool> {
    let mut unknown = false;
    for part in parts {
        match part {
            Some(part) if part == decides => return Some(decides),
            Some(_) => {}
            None => unknown = true,
        }
    }
    if unknown { None } else { Some(!decides) }
}

impl Nested {
    fn sql(&self) -> String {
        let (term, from) = (self.term.sql(), self.from.sql());
        format!("select {term} from {from} where {}", self.condition.sql())
    }

    fn values(&self, env: &Env, tables: &[Vec<Row>]) -> Vec<Value> {
        let rows = self.from.rows(env, tables);
        let kept = rows.iter().filter(|env| self.condition.holds(env, tables) == Some(true));
        kept.map(|env| self.term.value(env)).collect()
    }
}

impl Derived {
    fn sql(&self) -> String {
        let [a, b, c] = self.columns.each_ref().map(Term::sql);
        let (from, condition) = (self.from.sql(), self.condition.sql());
        let tail = format!("from {from} where {condition}");
        match self.shape {
            Shape::Plain => format!("select {a} as a, {b} as b, {c} as c {tail}"),
            Shape::Distinct => format!("select distinct {a} as a, {b} as b, {c} as c {tail}"),
            Shape::Grouped => {
                format!("select {a} as a, count(*)::int as b, max({c}) as c {tail} group by 1")
            }
        }
    }

    fn rows(&self, tables: &[Vec<Row>]) -> Vec<Row> {
        let rows = self.from.rows(&Env::new(), tables);
        let kept = rows.iter().filter(|env| self.condition.holds(env, tables) == Some(true));
        let mut rows: Vec<Row> =
            kept.map(|env| self.columns.each_ref().map(|term| term.value(env))).collect();
        match self.shape {
            Shape::Plain => {}
            Shape::Distinct => {
                rows.sort_unstable();
                rows.dedup();
            }
            Shape::Grouped => {
                let mut groups: BTreeMap<Value, (i64, Value)> = BTreeMap::new();
                for [a, _, c] in rows {
                    let group = groups.entry(a).or_default();
                    group.0 += 1;
                    group.1 = group.1.max(c);
                }
                rows = groups.into_iter().map(|(a, (b, c))| [a, Some(b), c]).collect();
            }
        }
        rows
    }
}

impl From {
    fn sql(&self) -> String {
        match self {
            Self::Table(alias, table) => format!("t{table} r{alias}"),
            Self::Query(alias, derived) => format!("({}) r{alias}", derived.sql()),
            Self::Join(kind, left, right, on) => {
                let word = match kind {
                    Kind::Inner => "join",
                    Kind::Left => "left join",
                    Kind::Right => "right join",
                    Kind::Full => "full join",
                };
                format!("({} {word} {} on {})", left.sql(), right.sql(), on.sql())
            }
        }
    }

    fn aliases(&self, out: &mut Vec<usize>) {
        match self {
            Self::Table(alias, _) | Self::Query(alias, _) => out.push(*alias),
            Self::Join(_, left, right, _) => {
                left.aliases(out);
                right.aliases(out);
            }
        }
    }

    /// Returns the rows, each with the rows around it.
    fn rows(&self, around: &Env, tables: &[Vec<Row>]) -> Vec<Env> {
        let with = |alias: usize, row: &Row| {
            let mut env = around.clone();
            env.insert(alias, *row);
            env
        };
        let (kind, left, right, on) = match self {
            Self::Table(alias, table) => {
                return tables[*table].iter().map(|row| with(*alias, row)).collect();
            }
            Self::Query(alias, derived) => {
                return derived.rows(tables).iter().map(|row| with(*alias, row)).collect();
            }
            Self::Join(kind, left, right, on) => (*kind, left, right, on),
        };
        let (left_rows, right_rows) = (left.rows(around, tables), right.rows(around, tables));
        let nulls = |from: &From, env: &Env| {
            let (mut env, mut aliases) = (env.clone(), Vec::new());
            from.aliases(&mut aliases);
            for alias in aliases {
                env.insert(alias, [None; 3]);
            }
            env
        };
        let mut met = vec![false; right_rows.len()];
        let mut found = Vec::new();
        for l in &left_rows {
            let mut matched = false;
            for (number, r) in right_rows.iter().enumerate() {
                let both: Env = l.iter().chain(r).map(|(alias, row)| (*alias, *row)).collect();
                if on.holds(&both, tables) == Some(true) {
                    matched = true;
                    met[number] = true;
                    found.push(both);
                }
            }
            if !matched && matches!(kind, Kind::Left | Kind::Full) {
                found.push(nulls(right, l));
            }
        }
        for (r, met) in right_rows.iter().zip(met) {
            if !met && matches!(kind, Kind::Right | Kind::Full) {
                found.push(nulls(left, r));
            }
        }
        found
    }
}

/// Creates a database, and returns its contents too.
fn database(rng: &SeededRng, script: &mut String) -> (Session, Vec<Vec<Row>>) {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = database.session();
    let mut tables = Vec::new();
    for number in 0..4 {
        let mut setup = format!("create table t{number} (a int, b int, c int not null); ");
        let rows: Vec<Row> = (0..rng.below(9))
            .map(|_| {
                let value = || if rng.chance(1, 6) { None } else { Some(rng.below(5) as i64) };
                [value(), value(), Some(rng.below(4) as i64)]
            })
            .collect();
        for row in &rows {
            let values = row.map(|v| v.map_or_else(|| "null".to_owned(), |v| v.to_string()));
            write!(setup, "insert into t{number} values ({}); ", values.join(", ")).unwrap();
        }
        if rng.chance(1, 2) {
            write!(setup, "create index on t{number} (a); ").unwrap();
        }
        if rng.chance(1, 3) {
            write!(setup, "create index on t{number} (c, b); ").unwrap();
        }
        if rng.chance(1, 2) {
            write!(setup, "analyze t{number}; ").unwrap();
        }
        assert_eq!(run(&mut session, setup.trim_end_matches("; ")), "");
        writeln!(script, "drop table if exists t{number}; {setup}").unwrap();
        tables.push(rows);
    }
    (session, tables)
}

/// Settings under which every query is run.
const WAYS: [&str; 5] = [
    "set enable_hashjoin = on; set enable_mergejoin = on; set enable_nestloop = on; \
     set enable_seqscan = on",
    "set enable_hashjoin = off",
    "set enable_mergejoin = off",
    "set enable_hashjoin = on; set enable_nestloop = off",
    "set enable_hashjoin = off; set enable_mergejoin = on; set enable_seqscan = off",
];

#[test]
fn joins_give_what_a_naive_evaluation_gives() {
    let out = std::env::var("NIWAKI_JOINS_SCRIPT").ok();
    let (mut script, mut expected) = (String::new(), String::new());
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(5_003);
    let rng = SeededRng::new(seed);
    for _ in 0..DATABASES {
        let (mut session, tables) = database(&rng, &mut script);
        for _ in 0..QUERIES {
            let mut maker = Maker { rng: &rng, aliases: 0, tables: tables.len() };
            let size = 1 + maker.below(4);
            let (from, sight) = maker.from(size, 2);
            let condition =
                if rng.chance(3, 4) { maker.condition(&sight, 2) } else { Condition::True };
            let condition = if rng.chance(1, 3) {
                Condition::And(vec![condition, maker.nested(&sight, 1)])
            } else {
                condition
            };
            let terms: Vec<Term> = (0..3).map(|_| maker.term(&sight)).collect();
            let list: Vec<String> = terms.iter().map(Term::sql).collect();
            let query = format!(
                "select {} from {} where {} order by 1, 2, 3",
                list.join(", "),
                from.sql(),
                condition.sql()
            );
            let rows = from.rows(&Env::new(), &tables);
            let kept = rows.iter().filter(|env| condition.holds(env, &tables) == Some(true));
            let mut rows: Vec<Vec<Value>> =
                kept.map(|env| terms.iter().map(|term| term.value(env)).collect()).collect();
            // NULLs sort last.
            rows.sort_by_key(|row| {
                row.iter().map(|v| (v.is_none(), v.unwrap_or(0))).collect::<Vec<_>>()
            });
            let lines: Vec<String> = rows
                .iter()
                .map(|row| {
                    let values = row.iter();
                    let shown = values.map(|v| v.map_or("NULL".to_owned(), |v| v.to_string()));
                    shown.collect::<Vec<_>>().join("|")
                })
                .collect();
            // Below an aggregate, joins pass many rows at a time upwards.
            let sum = |column: usize| rows.iter().filter_map(|row| row[column]).sum::<i64>();
            let known = |column: usize| rows.iter().filter(|row| row[column].is_some()).count();
            let lists: Vec<String> = list
                .iter()
                .map(|term| format!("count({term}), coalesce(sum({term}), 0)"))
                .collect();
            let summed = format!(
                "select count(*), {} from {} where {}",
                lists.join(", "),
                from.sql(),
                condition.sql()
            );
            let sums: Vec<String> =
                (0..3).map(|column| format!("{}|{}", known(column), sum(column))).collect();
            let sums = format!("{}|{}", rows.len(), sums.join("|"));
            for way in WAYS {
                assert_eq!(run(&mut session, way), "");
                for (query, expected) in [(&query, &lines.join("\n")), (&summed, &sums)] {
                    let found = run(&mut session, query);
                    if found != *expected {
                        let plan = run(&mut session, &format!("explain (costs off) {query}"));
                        panic!("{way}\n{query}\n{plan}\nexpected:\n{expected}\nfound:\n{found}");
                    }
                }
            }
            writeln!(script, "{query};").unwrap();
            lines.iter().for_each(|line| writeln!(expected, "{line}").unwrap());
        }
    }
    if let Some(out) = out {
        std::fs::write(format!("{out}.expected"), expected).unwrap();
        std::fs::write(out, script).unwrap();
    }
}

/// Aggregates over joins that pass many rows at a time equal those over joins row by row. Neither
/// the matches nor the fit of the inner rows in memory may matter.
#[test]
fn joins_of_many_rows_are_those_of_single_rows() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = database.session();
    let setup = "create table one (k int, n numeric(8, 2), s text); \
        create table many (k int, v int8, f float8, s text); create table none (k int, s text); \
        insert into one select case when i % 97 = 0 then null else i end, i / 4.0, 'one ' || i % 50 from generate_series(1, 5000) i; \
        insert into many select case when i % 89 = 0 then null else i % 700 end, i, case when i % 7 = 0 then null else i / 8.0 end, \
            case when i % 5 = 0 then null else 'many ' || i % 40 end from generate_series(1, 9000) i; analyze; \
        set enable_mergejoin = off; set enable_nestloop = off";
    assert_eq!(run(&mut session, setup), "");
    let joins = [
        ("a.k, a.n, b.v, b.s, b.f", "many b join one a on a.k = b.k"),
        (
            "a.k, a.n, b.v, b.s, b.f",
            "many b join one a on a.k = b.k and a.n < b.v % 90 where b.f is not null",
        ),
        ("a.k, a.n, b.v, b.s, b.f", "many b left join one a on a.k = b.k + 400"),
        ("a.k, a.n, b.v, b.s, b.f", "many b left join one a on a.k = b.k and a.n > b.f"),
        ("a.k, a.n, b.v, b.s, b.f", "one a join many b on a.k = b.k"),
        ("a.k, a.n, b.v, b.s, b.f", "one a left join many b on a.k = b.k and b.v > 5000"),
        (
            "a.k, b.v, c.v, b.s, c.s",
            "many b join many c on b.k = c.k and b.v < c.v join one a on a.k = c.k",
        ),
        (
            "a.k, b.v, c.v, b.s, c.s",
            "many b left join (one a left join many c on c.k = a.k + 350) on b.k = a.k",
        ),
        ("b.k, b.v, c.s, c.k, b.f", "many b left join none c on c.k = b.k"),
        ("b.k, b.v, c.s, c.k, b.f", "many b left join none c on c.k = b.k and c.s < b.s"),
        ("b.k, b.v, c.s, c.k, b.f", "none c left join many b on c.k = b.k"),
        ("b.k, b.v, b.s, b.f, a.s", "many b join one a on a.s = 'one ' || b.v % 60 and a.k < 20"),
        (
            "b.k, b.v, b.s, b.f, b.k + 1",
            "many b where exists (select from one a where a.k = b.k and a.n > 3)",
        ),
        (
            "a.k, a.n, a.s, a.k + 1, a.n",
            "one a where exists (select from many b where a.k = b.k and a.n < b.v % 80)",
        ),
        (
            "a.k, a.n, a.s, a.k + 1, a.n",
            "one a where not exists (select from many b where a.k = b.k and a.n < b.v % 80)",
        ),
        (
            "a.k, a.n, a.s, a.k + 1, a.n",
            "one a where not exists (select from many b where a.k = b.k)",
        ),
        (
            "a.k, a.n, a.s, a.k + 1, a.n",
            "one a where not exists (select from none b where a.k = b.k and a.s > b.s)",
        ),
        (
            "a.k, g.m, a.s, g.k, a.n",
            "one a join (select k % 30 as k, max(v) as m from many group by 1) g on g.k = a.k % 40",
        ),
    ];
    let sums = "count(*), count(a), sum(a), count(b), sum(b::numeric), count(c::text), min(c::text), max(c::text), count(d), min(d::text), max(d::text), count(e), max(e::text)";
    for (columns, join) in joins {
        let inner = |more: &str| format!("select {columns} from {join}{more}");
        let by_rows = format!("select {sums} from ({} offset 0) x (a, b, c, d, e)", inner(""));
        let batches = format!("select {sums} from ({}) x (a, b, c, d, e)", inner(""));
        let groups = |more: &str| {
            format!(
                "select e, count(*), sum(a), count(c), min(d::text) from ({}) x (a, b, c, d, e) group by e order by e",
                inner(more)
            )
        };
        for memory in ["64kB", "64MB"] {
            assert_eq!(run(&mut session, &format!("set work_mem = '{memory}'")), "");
            let expected = run(&mut session, &by_rows);
            assert!(!expected.starts_with("error"), "{by_rows}: {expected}");
            assert_eq!(run(&mut session, &batches), expected, "{batches} with {memory}");
            let expected = run(&mut session, &groups(" offset 0"));
            assert_eq!(run(&mut session, &groups("")), expected, "{} with {memory}", groups(""));
        }
    }
}

/// Two columns that are unique together have as many values as there are rows. If they were
/// estimated as independent, the join would have 120 rows.
#[test]
fn a_join_by_all_columns_of_a_unique_index_gives_a_row_for_each() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = database.session();
    let sql = "create table part (a int, b int, unique (a, b)); create table line (a int, b int); \
               insert into part select i / 4, i * 7 % 1000 from generate_series(0, 9999) i; \
               insert into line select i % 10000 / 4, i % 10000 * 7 % 1000 from generate_series(0, 29999) i";
    assert_eq!(run(&mut session, sql), "");
    assert_eq!(run(&mut session, "analyze"), "");
    let mut rows = |from: &str| -> f64 {
        let plan = run(&mut session, &format!("explain select from {from}"));
        let (_, after) = plan.split_once("rows=").unwrap();
        after.split(' ').next().unwrap().parse().unwrap()
    };
    let joined = rows("line l join part p on l.a = p.a and l.b = p.b");
    assert!((29_000.0..31_000.0).contains(&joined), "{joined}");
    // For other columns the estimate knows only that they have no more combinations than rows.
    let joined = rows("line l join line m on l.a = m.a and l.b = m.b");
    assert!(joined >= 29_000.0, "{joined}");
}

/// A view's columns may be constants, and whether two of them are equal does not depend on the
/// rows. A join ON them was once estimated to give one row for each left row. It then came before
/// joins that filter most rows out.
#[test]
fn a_join_on_constants_is_taken_to_have_all_pairs() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = database.session();
    let sql = "create table t (i int); insert into t select generate_series(1, 100); \
               create view v as select 7 as seven, i from t";
    assert_eq!(run(&mut session, sql), "");
    assert_eq!(run(&mut session, "analyze"), "");
    let plan = run(
        &mut session,
        "explain select (select count(*) from t a left join t b on v.seven <> 8) from v",
    );
    let joined = plan.lines().find(|line| line.contains("Left Join")).unwrap();
    let (_, after) = joined.split_once("rows=").unwrap();
    let rows: f64 = after.split_once(' ').unwrap().0.parse().unwrap();
    assert!(rows > 9000.0, "{plan}");
}
