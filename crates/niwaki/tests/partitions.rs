//! Partitioned tables give the same as a naive evaluation. The test takes random bounds by RANGE
//! and LIST, two levels, partitions with another column order, and random rows, changes and
//! conditions. Other tests have two sessions that meet on moved rows.

mod common;
#[path = "common/waiting.rs"]
mod waiting;

use common::run;
use niwaki::{Database, Session};
use niwaki_env::rng::SeededRng;
use waiting::blocked_until;

const TABLES: u64 = 30;
const STATEMENTS: u64 = 60;
/// Exclusive upper bound of the keys.
const KEYS: u64 = 30;

type Value = Option<i64>;

/// A row `(a, b, id)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    a: Value,
    b: Value,
    id: i64,
}

fn sql_of(value: Value) -> String {
    value.map_or_else(|| "null".to_owned(), |value| value.to_string())
}

/// Bound of a partition.
#[derive(Clone, Debug)]
enum Takes {
    /// Bounds of `a`, and with the second pair, of `b` too.
    Range([i64; 2], [i64; 2]),
    List(Vec<Value>),
    Default,
}

struct Table {
    two: bool,
    list: bool,
    partitions: Vec<(String, Takes)>,
}

impl Table {
    fn takes(&self, takes: &Takes, row: Row) -> bool {
        match takes {
            Takes::List(values) => values.contains(&row.a),
            Takes::Range(low, high) => match (row.a, row.b) {
                (Some(a), Some(b)) if self.two => *low <= [a, b] && [a, b] < *high,
                (Some(a), _) if !self.two => low[0] <= a && a < high[0],
                _ => false,
            },
            Takes::Default => {
                let others = self.partitions.iter().filter(|(_, t)| !matches!(t, Takes::Default));
                !others.into_iter().any(|(_, other)| self.takes(other, row))
            }
        }
    }

    fn has_place(&self, row: Row) -> bool {
        self.partitions.iter().any(|(_, takes)| self.takes(takes, row))
    }

    /// Creates a random table of this kind.
    fn create(rng: &SeededRng, session: &mut Session) -> Self {
        let (list, two) = (rng.below(2) == 0, rng.below(2) == 0);
        let two = two && !list;
        let by = match (list, two) {
            (true, _) => "list (a)",
            (false, true) => "range (a, b)",
            (false, false) => "range (a)",
        };
        ok(session, &format!("create table t (a int, b int, id int) partition by {by}"));
        let mut table = Self { two, list, partitions: Vec::new() };
        let mut bounds = Vec::new();
        if list {
            let mut values: Vec<Value> = (0..KEYS as i64).map(Some).collect();
            values.push(None);
            while values.len() > 8 {
                let mut own = Vec::new();
                for _ in 0..=rng.below(6) {
                    own.push(values.swap_remove(rng.below(values.len() as u64) as usize));
                }
                bounds.push(Takes::List(own));
            }
        } else {
            let mut at = rng.below(4) as i64;
            while at < KEYS as i64 - 3 {
                let next = at + 1 + rng.below(8) as i64;
                let inner = |_: i64| if two { rng.below(KEYS) as i64 } else { 0 };
                bounds.push(Takes::Range([at, inner(at)], [next, inner(next)]));
                // Sometimes leave a gap.
                at = next + 1 + rng.below(2) as i64;
            }
        }
        if rng.below(2) == 0 {
            bounds.push(Takes::Default);
        }
        for (number, takes) in bounds.into_iter().enumerate() {
            let name = format!("t{number}");
            let values = match &takes {
                Takes::Default => "default".to_owned(),
                Takes::List(values) => {
                    let values: Vec<String> = values.iter().map(|v| sql_of(*v)).collect();
                    format!("for values in ({})", values.join(", "))
                }
                Takes::Range(low, high) if two => format!(
                    "for values from ({}, {}) to ({}, {})",
                    low[0], low[1], high[0], high[1]
                ),
                Takes::Range(low, high) => {
                    format!("for values from ({}) to ({})", low[0], high[0])
                }
            };
            match rng.below(4) {
                0 => {
                    ok(session, &format!("create table {name} (gone text, id int, b int, a int)"));
                    ok(session, &format!("alter table {name} drop column gone"));
                    ok(session, &format!("alter table t attach partition {name} {values}"));
                }
                1 => {
                    // Add another level, which takes all rows.
                    ok(
                        session,
                        &format!(
                            "create table {name} partition of t {values} partition by range (id)"
                        ),
                    );
                    ok(
                        session,
                        &format!(
                            "create table {name}x partition of {name} for values from (minvalue) to (50)"
                        ),
                    );
                    ok(session, &format!("create table {name}y partition of {name} default"));
                }
                _ => ok(session, &format!("create table {name} partition of t {values}")),
            }
            table.partitions.push((name, takes));
        }
        for keys in ["a", "b desc", "a, b", "b nulls first, a desc", "a desc, b desc", "id"] {
            if rng.below(3) == 0 {
                ok(session, &format!("create index on t ({keys})"));
            }
        }
        table
    }
}

fn ok(session: &mut Session, sql: &str) {
    let answer = run(session, sql);
    assert!(!answer.starts_with("error"), "{sql}: {answer}");
}

fn value(rng: &SeededRng) -> Value {
    (rng.below(12) > 0).then(|| rng.below(KEYS) as i64)
}

/// A condition that can be evaluated for a row: unknown is not true.
#[derive(Clone, Debug)]
enum Condition {
    Compare(bool, &'static str, Value),
    In(bool, Vec<i64>),
    Null(bool, bool),
    And(Vec<Condition>),
    Or(Vec<Condition>),
}

impl Condition {
    fn random(rng: &SeededRng, depth: u64) -> Self {
        let parts = || (0..2 + rng.below(2)).map(|_| Self::random(rng, depth + 1)).collect();
        let of_a = rng.below(3) > 0;
        match rng.below(if depth > 1 { 6 } else { 9 }) {
            0..=3 => {
                let operator = ["=", "<", "<=", ">", ">=", "="][rng.below(6) as usize];
                Self::Compare(of_a, operator, Some(rng.below(KEYS + 4) as i64 - 2))
            }
            4 => Self::In(of_a, (0..=rng.below(4)).map(|_| rng.below(KEYS) as i64).collect()),
            5 => Self::Null(of_a, rng.below(2) == 0),
            6 | 7 => Self::And(parts()),
            _ => Self::Or(parts()),
        }
    }

    /// Returns the condition's SQL with values in it, or with parameters in their places.
    fn sql(&self, parameters: &mut Option<Vec<i64>>) -> String {
        let name = |of_a: bool| if of_a { "a" } else { "b" };
        let mut given = |value: i64| match parameters {
            Some(all) => {
                all.push(value);
                format!("${}", all.len())
            }
            None => value.to_string(),
        };
        match self {
            Self::Compare(of_a, operator, value) => {
                format!("{} {operator} {}", name(*of_a), given(value.unwrap_or(0)))
            }
            Self::In(of_a, values) => {
                let values: Vec<String> = values.iter().map(|value| given(*value)).collect();
                format!("{} in ({})", name(*of_a), values.join(", "))
            }
            Self::Null(of_a, negated) => {
                format!("{} is {}null", name(*of_a), if *negated { "not " } else { "" })
            }
            Self::And(parts) | Self::Or(parts) => {
                let word = if matches!(self, Self::And(_)) { " and " } else { " or " };
                let parts: Vec<String> = parts.iter().map(|part| part.sql(parameters)).collect();
                format!("({})", parts.join(word))
            }
        }
    }

    fn holds(&self, row: Row) -> Option<bool> {
        let value = |of_a: bool| if of_a { row.a } else { row.b };
        match self {
            Self::Compare(of_a, operator, other) => {
                let (left, right) = (value(*of_a)?, (*other)?);
                Some(match *operator {
                    "=" => left == right,
                    "<" => left < right,
                    "<=" => left <= right,
                    ">" => left > right,
                    _ => left >= right,
                })
            }
            Self::In(of_a, values) => Some(values.contains(&value(*of_a)?)),
            Self::Null(of_a, negated) => Some(value(*of_a).is_none() != *negated),
            Self::And(parts) => {
                let all: Vec<Option<bool>> = parts.iter().map(|part| part.holds(row)).collect();
                if all.contains(&Some(false)) {
                    Some(false)
                } else if all.contains(&None) {
                    None
                } else {
                    Some(true)
                }
            }
            Self::Or(parts) => {
                let all: Vec<Option<bool>> = parts.iter().map(|part| part.holds(row)).collect();
                if all.contains(&Some(true)) {
                    Some(true)
                } else if all.contains(&None) {
                    None
                } else {
                    Some(false)
                }
            }
        }
    }
}

/// First keys of ORDER BY, as text, and the row values that sort in that order.
struct Order {
    sql: String,
    keys: Vec<(bool, bool, bool)>,
}

impl Order {
    fn random(rng: &SeededRng) -> Self {
        let of_a = rng.below(2) == 0;
        let columns = if rng.below(2) == 0 { vec![of_a] } else { vec![of_a, !of_a] };
        let (mut parts, mut keys) = (Vec::new(), Vec::new());
        let all_descending = rng.below(2) == 0;
        for of_a in columns {
            let descending = if rng.below(4) == 0 { !all_descending } else { all_descending };
            let nulls_first = if rng.below(4) == 0 { !descending } else { descending };
            let column = if of_a { "a" } else { "b" };
            let direction = if descending { " desc" } else { "" };
            let nulls = if nulls_first { "first" } else { "last" };
            parts.push(format!("{column}{direction} nulls {nulls}"));
            keys.push((of_a, descending, nulls_first));
        }
        Self { sql: parts.join(", "), keys }
    }

    /// Returns a value that compares as rows do.
    fn place(&self, row: &Row) -> Vec<(bool, i64)> {
        let place = |(of_a, descending, nulls_first): &(bool, bool, bool)| {
            let value = if *of_a { row.a } else { row.b };
            let sign = if *descending { -1 } else { 1 };
            (value.is_none() != *nulls_first, sign * value.unwrap_or(0))
        };
        self.keys.iter().map(place).collect()
    }
}

/// Checks the first rows in an order, which indexes of the partitions may have. Also checks the
/// least and greatest values.
fn check_order(rng: &SeededRng, condition: &Condition, rows: &[Row], session: &mut Session) {
    let (order, count) = (Order::random(rng), 1 + rng.below(6) as usize);
    let (scans, sorts) = (rng.below(3) == 0, rng.below(4) > 0);
    ok(session, &format!("set enable_seqscan = {scans}; set enable_incremental_sort = {sorts}"));
    let text = condition.sql(&mut None);
    let mut wanted: Vec<Row> =
        rows.iter().copied().filter(|row| condition.holds(*row) == Some(true)).collect();
    wanted.sort_by_key(|row| (order.place(row), row.id));
    let skipped = rng.below(3) as usize;
    let sql = format!(
        "select * from t where {text} order by {}, id limit {count} offset {skipped}",
        order.sql
    );
    let some: Vec<Row> = wanted.iter().skip(skipped).take(count).copied().collect();
    assert_eq!(run(session, &sql), shown(&some), "{sql}");
    // Without a further key, only the values of the keys are certain.
    let (columns, of_key): (Vec<&str>, Vec<bool>) =
        order.keys.iter().map(|(of_a, ..)| (if *of_a { "a" } else { "b" }, *of_a)).unzip();
    let line = |row: &Row| {
        let values = of_key.iter().map(|of_a| shown_value(if *of_a { row.a } else { row.b }));
        values.collect::<Vec<_>>().join("|")
    };
    let sql = format!(
        "select {} from t where {text} order by {} limit {count}",
        columns.join(", "),
        order.sql
    );
    let values: Vec<String> = wanted.iter().take(count).map(line).collect();
    assert_eq!(run(session, &sql), values.join("\n"), "{sql}");
    let sql = format!("select min(a), max(a), min(b), max(b), max(id) from t where {text}");
    let extreme = |value: fn(&Row) -> Value, greatest: bool| {
        let values = wanted.iter().filter_map(value);
        shown_value(if greatest { values.max() } else { values.min() })
    };
    let values = [
        extreme(|row| row.a, false),
        extreme(|row| row.a, true),
        extreme(|row| row.b, false),
        extreme(|row| row.b, true),
        extreme(|row| Some(row.id), true),
    ];
    assert_eq!(run(session, &sql), values.join("|"), "{sql}");
    ok(session, "reset enable_seqscan; reset enable_incremental_sort");
}

fn shown_value(value: Value) -> String {
    value.map_or_else(|| "NULL".to_owned(), |value| value.to_string())
}

fn shown(rows: &[Row]) -> String {
    let line = |row: &Row| format!("{}|{}|{}", shown_value(row.a), shown_value(row.b), row.id);
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn random_tables_give_what_a_naive_evaluation_gives() {
    let seed = std::env::var("NIWAKI_SEED").map_or(41, |seed| seed.parse().unwrap());
    for number in 0..TABLES {
        let rng = SeededRng::new(seed + number);
        let database = Database::in_memory_without_threads().unwrap();
        let mut session = database.session();
        let table = Table::create(&rng, &mut session);
        let mut rows: Vec<Row> = Vec::new();
        let mut next = 0;
        for _ in 0..STATEMENTS {
            one_statement(&rng, &table, &mut rows, &mut next, &mut session, seed + number);
        }
        let all = run(&mut session, "select * from t order by id");
        rows.sort_by_key(|row| row.id);
        assert_eq!(all, shown(&rows), "seed {} ({})", seed + number, table.list);
        let mut sum = 0;
        for (name, takes) in &table.partitions {
            let mut own: Vec<Row> =
                rows.iter().copied().filter(|row| table.takes(takes, *row)).collect();
            own.sort_by_key(|row| row.id);
            sum += own.len();
            let found = run(&mut session, &format!("select a, b, id from {name} order by id"));
            assert_eq!(found, shown(&own), "seed {}, {name}", seed + number);
        }
        assert_eq!(sum, rows.len());
        drop(session);
        assert_eq!(database.check().unwrap().violations, []);
    }
}

fn one_statement(
    rng: &SeededRng,
    table: &Table,
    rows: &mut Vec<Row>,
    next: &mut i64,
    session: &mut Session,
    seed: u64,
) {
    let condition = Condition::random(rng, 0);
    let text = condition.sql(&mut None);
    match rng.below(10) {
        8 | 9 => check_order(rng, &condition, rows, session),
        0..=2 => {
            let row = Row { a: value(rng), b: value(rng), id: *next };
            *next += 1;
            let sql =
                format!("insert into t values ({}, {}, {})", sql_of(row.a), sql_of(row.b), row.id);
            let answer = run(session, &sql);
            if table.has_place(row) {
                assert_eq!(answer, "", "seed {seed}: {sql}");
                rows.push(row);
            } else {
                assert!(answer.starts_with("error 23514"), "seed {seed}: {sql}: {answer}");
            }
        }
        3 | 4 => {
            let mut parameters = Some(Vec::new());
            let prepared = condition.sql(&mut parameters);
            let mut wanted: Vec<Row> =
                rows.iter().copied().filter(|row| condition.holds(*row) == Some(true)).collect();
            wanted.sort_by_key(|row| row.id);
            let sql = format!("select * from t where {text} order by id");
            assert_eq!(run(session, &sql), shown(&wanted), "seed {seed}: {sql}");
            let values = parameters.unwrap_or_default();
            if values.is_empty() {
                return;
            }
            let types = vec!["int"; values.len()].join(", ");
            let values: Vec<String> = values.iter().map(i64::to_string).collect();
            let sql = format!(
                "prepare q ({types}) as select * from t where {prepared} order by id; execute q ({})",
                values.join(", ")
            );
            assert_eq!(run(session, &sql), shown(&wanted), "seed {seed}: {sql}");
            ok(session, "deallocate q");
        }
        5 | 6 => {
            let by = rng.below(5) as i64 - 2;
            let sql = format!("update t set a = a + {by}, b = a where {text}");
            let changed = |row: Row| match condition.holds(row) {
                Some(true) => Row { a: row.a.map(|a| a + by), b: row.a, id: row.id },
                _ => row,
            };
            let new: Vec<Row> = rows.iter().map(|row| changed(*row)).collect();
            let answer = run(session, &sql);
            if new.iter().zip(&*rows).all(|(new, old)| new == old || table.has_place(*new)) {
                assert_eq!(answer, "", "seed {seed}: {sql}");
                *rows = new;
            } else {
                assert!(answer.starts_with("error 23514"), "seed {seed}: {sql}: {answer}");
            }
        }
        _ => {
            let sql = format!("delete from t where {text}");
            assert_eq!(run(session, &sql), "", "seed {seed}: {sql}");
            rows.retain(|row| condition.holds(*row) != Some(true));
        }
    }
}

/// Creates a table of two partitions, and two sessions.
fn sessions() -> (Database, Session, Session) {
    let database = Database::in_memory_without_threads().unwrap();
    let mut first = database.session();
    let second = database.session();
    let setup = "create table t (a int, v int) partition by range (a); \
                 create table low partition of t for values from (0) to (10); \
                 create table high (v int, gone int, a int); alter table high drop column gone; \
                 alter table t attach partition high for values from (10) to (20); \
                 insert into t values (1, 10), (2, 20), (11, 30)";
    assert_eq!(run(&mut first, setup), "");
    (database, first, second)
}

#[test]
fn a_row_that_went_to_another_partition_cannot_be_changed() {
    let moved = "error 40001: tuple to be locked was already moved to another partition due to concurrent update";
    for statement in [
        "update t set v = v + 1 where a = 1",
        "delete from t where a = 1",
        "delete from low where a = 1",
        "select * from t where a = 1 for update",
        "update t set a = 12 where a = 1",
    ] {
        let (database, mut a, b) = sessions();
        run(&mut a, "begin; update t set a = 15 where a = 1");
        let (found, _) = blocked_until(&database, &mut a, "commit", b, statement);
        assert_eq!(found, moved, "{statement}");
    }
    // A row that was changed before it moved is found at its old place.
    let (database, mut a, b) = sessions();
    run(&mut a, "begin; update t set v = 11 where a = 1; update t set a = 15 where a = 1");
    let (found, _) = blocked_until(&database, &mut a, "commit", b, "delete from t where a = 1");
    assert_eq!(found, moved);
    // A deletion remains a deletion.
    let (database, mut a, b) = sessions();
    run(&mut a, "begin; delete from t where a = 1");
    let (found, _) =
        blocked_until(&database, &mut a, "commit", b, "update t set v = 5 where a = 1 returning *");
    assert_eq!(found, "");
    // A move that is undone is none.
    let (database, mut a, b) = sessions();
    run(&mut a, "begin; update t set a = 15 where a = 1");
    let statement = "update t set v = v + 1 where a = 1 returning *";
    let (found, _) = blocked_until(&database, &mut a, "rollback", b, statement);
    assert_eq!(found, "1|11");
}

#[test]
fn at_repeatable_read_a_row_that_moved_was_updated() {
    let (_database, mut a, mut b) = sessions();
    run(&mut b, "begin isolation level repeatable read; select * from t");
    run(&mut a, "update t set a = 15 where a = 1");
    let found = run(&mut b, "update t set v = 1 where a = 1");
    assert_eq!(found, "error 40001: could not serialize access due to concurrent update");
}

#[test]
fn rows_of_partitions_are_judged_on_the_newest_version() {
    let (database, mut a, b) = sessions();
    run(&mut a, "begin; update t set v = v + 1 where a = 11");
    let statement = "update t set v = v + 100 where v >= 30 returning tableoid::regclass, *";
    let (found, mut b) = blocked_until(&database, &mut a, "commit", b, statement);
    assert_eq!(found, "high|11|131");
    // The newest version does not satisfy the condition.
    run(&mut a, "begin; update t set v = 0 where a = 11");
    let (found, b2) = blocked_until(
        &database,
        &mut a,
        "commit",
        b,
        "update t set a = 5 where v = 131 returning *",
    );
    assert_eq!(found, "");
    b = b2;
    // The row must go to the partition of its newest version.
    run(&mut a, "begin; update t set a = 12 where a = 11");
    let (found, _) = blocked_until(
        &database,
        &mut a,
        "commit",
        b,
        "update t set a = a - 8 where v = 0 returning tableoid::regclass, *",
    );
    assert_eq!(found, "low|4|0");
    assert_eq!(run(&mut a, "select * from t order by a"), "1|10\n2|20\n4|0");
}
