//! MERGE gives the same as a naive evaluation. The test takes random tables, sources, actions and
//! join methods, with and without partitions. Another test covers rows that another session changes
//! meanwhile.

mod common;
#[path = "common/waiting.rs"]
mod waiting;

use common::run;
use niwaki::{Database, Session};
use niwaki_env::rng::SeededRng;
use waiting::blocked_until;

const TABLES: u64 = 20;
const STATEMENTS: u64 = 40;
/// Exclusive upper bound of the keys.
const KEYS: u64 = 25;

type Value = Option<i64>;

/// A row of the table, `(k, v)`, or of the source.
type Row = [Value; 2];

fn sql_of(value: Value) -> String {
    value.map_or_else(|| "null".to_owned(), |value| value.to_string())
}

fn random(rng: &SeededRng) -> Value {
    (rng.below(12) > 0).then(|| rng.below(KEYS) as i64)
}

/// An input of a condition or of a new value.
#[derive(Clone, Copy, Debug)]
enum Operand {
    Target(usize),
    Source(usize),
    Constant(i64),
}

impl Operand {
    fn random(rng: &SeededRng, matched: bool) -> Self {
        match rng.below(if matched { 5 } else { 3 }) {
            0 => Self::Constant(rng.below(KEYS) as i64),
            1 | 2 => Self::Source(rng.below(2) as usize),
            _ => Self::Target(rng.below(2) as usize),
        }
    }

    fn sql(self) -> String {
        match self {
            Self::Target(column) => format!("t.{}", ["k", "v"][column]),
            Self::Source(column) => format!("s.{}", ["k", "v"][column]),
            Self::Constant(value) => value.to_string(),
        }
    }

    fn value(self, target: Option<Row>, source: Row) -> Value {
        match self {
            Self::Target(column) => target.and_then(|row| row[column]),
            Self::Source(column) => source[column],
            Self::Constant(value) => Some(value),
        }
    }
}

#[derive(Clone, Debug)]
enum Change {
    Nothing,
    Delete,
    /// New values of the columns to set.
    Update([Option<Operand>; 2]),
    Insert([Operand; 2]),
}

/// One WHEN clause. Its condition is that one operand is less than another.
#[derive(Clone, Debug)]
struct Action {
    matched: bool,
    condition: Option<(Operand, Operand)>,
    change: Change,
}

impl Action {
    fn random(rng: &SeededRng, last: bool) -> Self {
        let matched = rng.below(5) < 3;
        let operand = || Operand::random(rng, matched);
        let condition = (!last || rng.below(2) == 0).then(|| (operand(), operand()));
        let change = match (matched, rng.below(6)) {
            (_, 0) => Change::Nothing,
            (true, 1) => Change::Delete,
            (true, 2) => Change::Update([Some(operand()), None]),
            (true, 3) => Change::Update([Some(operand()), Some(operand())]),
            (true, _) => Change::Update([None, Some(operand())]),
            (false, _) => Change::Insert([operand(), operand()]),
        };
        Self { matched, condition, change }
    }

    fn sql(&self) -> String {
        let not = if self.matched { "" } else { "not " };
        let condition = match &self.condition {
            Some((left, right)) => format!(" and {} < {}", left.sql(), right.sql()),
            None => String::new(),
        };
        let change = match &self.change {
            Change::Nothing => "do nothing".to_owned(),
            Change::Delete => "delete".to_owned(),
            Change::Update(values) => {
                let set = ["k", "v"].iter().zip(values);
                let set = set.filter_map(|(column, value)| {
                    value.map(|value| format!("{column} = {}", value.sql()))
                });
                format!("update set {}", set.collect::<Vec<_>>().join(", "))
            }
            Change::Insert([k, v]) => format!("insert (v, k) values ({}, {})", v.sql(), k.sql()),
        };
        format!(" when {not}matched{condition} then {change}")
    }

    fn holds(&self, target: Option<Row>, source: Row) -> bool {
        self.matched == target.is_some()
            && self.condition.is_none_or(|(left, right)| {
                match (left.value(target, source), right.value(target, source)) {
                    (Some(left), Some(right)) => left < right,
                    _ => false,
                }
            })
    }
}

/// Returns the table after the statement; `None` if the statement would affect a row twice.
fn naive(
    rows: &[Row],
    source: &[Row],
    on: Option<(Operand, Operand)>,
    actions: &[Action],
) -> Option<Vec<Row>> {
    let mut after: Vec<Option<Row>> = rows.iter().copied().map(Some).collect();
    let mut affected = vec![false; rows.len()];
    let mut inserted = Vec::new();
    for s in source {
        let matches = |t: &Row| {
            let equal = t[0].is_some() && t[0] == s[0];
            equal
                && on.is_none_or(|(left, right)| {
                    let sides = (left.value(Some(*t), *s), right.value(Some(*t), *s));
                    matches!(sides, (Some(left), Some(right)) if left < right)
                })
        };
        let mut matched = false;
        for (number, t) in rows.iter().enumerate().filter(|(_, t)| matches(t)) {
            matched = true;
            let action = actions.iter().find(|action| action.holds(Some(*t), *s));
            let new = match action.map(|action| &action.change) {
                None | Some(Change::Nothing) => continue,
                Some(Change::Delete) => None,
                Some(Change::Update(values)) => {
                    let mut new = *t;
                    for (column, value) in values.iter().enumerate() {
                        if let Some(value) = value {
                            new[column] = value.value(Some(*t), *s);
                        }
                    }
                    Some(new)
                }
                Some(Change::Insert(_)) => unreachable!("for rows that match nothing"),
            };
            if std::mem::replace(&mut affected[number], true) {
                return None;
            }
            after[number] = new;
        }
        let action = actions.iter().find(|action| !matched && action.holds(None, *s));
        if let Some(Change::Insert(values)) = action.map(|action| &action.change) {
            inserted.push(values.map(|value| value.value(None, *s)));
        }
    }
    let mut after: Vec<Row> = after.into_iter().flatten().chain(inserted).collect();
    after.sort_unstable();
    Some(after)
}

fn shown(rows: &[Row]) -> String {
    let value = |value: &Value| value.map_or_else(|| "NULL".to_owned(), |v| v.to_string());
    let lines = rows.iter().map(|[k, v]| format!("{}|{}", value(k), value(v)));
    lines.collect::<Vec<_>>().join("\n")
}

fn ok(session: &mut Session, sql: &str) {
    let answer = run(session, sql);
    assert!(!answer.starts_with("error"), "{sql}: {answer}");
}

#[test]
fn random_merges_give_what_a_naive_evaluation_gives() {
    let seed = std::env::var("NIWAKI_SEED").map_or(23, |seed| seed.parse().unwrap());
    let (mut done, mut twice) = (0, 0);
    for number in 0..TABLES {
        let rng = SeededRng::new(seed + number);
        let database = Database::in_memory_without_threads().unwrap();
        let mut session = database.session();
        match rng.below(3) {
            0 => {
                ok(&mut session, "create table t (k int, v int) partition by range (k)");
                ok(&mut session, "create table low partition of t for values from (0) to (9)");
                ok(&mut session, "create table other (v int, gone int, k int)");
                ok(&mut session, "alter table other drop column gone");
                ok(&mut session, "alter table t attach partition other default");
            }
            _ => ok(&mut session, "create table t (k int, v int)"),
        }
        if rng.below(2) == 0 {
            ok(&mut session, "create index on t (k)");
        }
        let mut rows: Vec<Row> = Vec::new();
        for _ in 0..STATEMENTS {
            for method in ["hashjoin", "mergejoin", "nestloop", "seqscan"] {
                let switch = if rng.below(2) == 0 { "on" } else { "off" };
                ok(&mut session, &format!("set enable_{method} = {switch}"));
            }
            let source: Vec<Row> =
                (0..=rng.below(8)).map(|_| [random(&rng), random(&rng)]).collect();
            let count = 1 + rng.below(4);
            // A clause after an unconditional one of the same kind is refused.
            let actions: Vec<Action> =
                (0..count).map(|n| Action::random(&rng, n + 1 == count)).collect();
            let on = (rng.below(4) == 0)
                .then(|| (Operand::random(&rng, true), Operand::random(&rng, true)));
            let values =
                source.iter().map(|[k, v]| format!("({}::int, {}::int)", sql_of(*k), sql_of(*v)));
            let values = values.collect::<Vec<_>>().join(", ");
            let from = if rng.below(2) == 0 {
                format!("(values {values}) s(k, v)")
            } else {
                ok(&mut session, "drop table if exists s");
                ok(&mut session, "create table s (v int, k int)");
                ok(&mut session, &format!("insert into s (k, v) values {values}"));
                ["s", "(select s.* from s where true) s"][rng.below(2) as usize].to_owned()
            };
            let and = on.map_or_else(String::new, |(left, right)| {
                format!(" and {} < {}", left.sql(), right.sql())
            });
            let whens: String = actions.iter().map(Action::sql).collect();
            let sql = format!("merge into t using {from} on t.k = s.k{and}{whens}");
            let answer = run(&mut session, &sql);
            if let Some(after) = naive(&rows, &source, on, &actions) {
                assert_eq!(answer, "", "seed {}: {sql}", seed + number);
                rows = after;
                done += 1;
            } else {
                let wanted = "error 21000: MERGE command cannot affect row a second time";
                assert_eq!(answer.lines().next(), Some(wanted), "seed {}: {sql}", seed + number);
                twice += 1;
            }
            let found =
                run(&mut session, "select k, v from t order by k nulls first, v nulls first");
            assert_eq!(found, shown(&rows), "seed {}: {sql}", seed + number);
        }
        drop(session);
        assert_eq!(database.check().unwrap().violations, []);
    }
    assert!(done > 100 && twice > 10, "{done} done, {twice} affect a row twice");
}

/// Creates a table of four rows, and two sessions.
fn sessions(partitioned: bool) -> (Database, Session, Session) {
    let database = Database::in_memory_without_threads().unwrap();
    let mut first = database.session();
    let second = database.session();
    let table = if !partitioned {
        "create table t (id int primary key, v int)"
    } else {
        "create table t (id int primary key, v int) partition by range (id); \
         create table low partition of t for values from (0) to (10); \
         create table high partition of t default"
    };
    let setup = format!("{table}; insert into t values (1, 10), (2, 20), (3, 30), (11, 110)");
    assert_eq!(run(&mut first, &setup), "");
    (database, first, second)
}

const MERGE: &str = "merge into t using (values (1)) s(id) on t.id = s.id \
    when matched and v >= 100 then delete \
    when matched and v > 50 then update set v = v + 1000 \
    when matched then update set v = v + 1 \
    when not matched then insert values (s.id, -1)";

/// Returns the table after a MERGE that waited for a transaction with these changes.
fn after(partitioned: bool, changes: &str, end: &str) -> String {
    let (database, mut a, b) = sessions(partitioned);
    assert_eq!(run(&mut a, &format!("begin; {changes}")), "");
    let (found, mut b) = blocked_until(&database, &mut a, end, b, MERGE);
    let rows = run(&mut b, "select * from t where id < 10 order by id");
    drop((a, b));
    assert_eq!(database.check().unwrap().violations, []);
    if found.is_empty() { rows } else { found }
}

#[test]
fn actions_are_chosen_anew_for_the_newest_version() {
    for partitioned in [false, true] {
        let after = |changes, end| after(partitioned, changes, end);
        assert_eq!(after("update t set v = 15 where id = 1", "commit"), "1|16\n2|20\n3|30");
        assert_eq!(after("update t set v = 60 where id = 1", "commit"), "1|1060\n2|20\n3|30");
        assert_eq!(after("update t set v = 100 where id = 1", "commit"), "2|20\n3|30");
        assert_eq!(after("update t set v = 100 where id = 1", "rollback"), "1|11\n2|20\n3|30");
        // A row that is gone, or that no longer matches, matches nothing.
        assert_eq!(after("delete from t where id = 1", "commit"), "1|-1\n2|20\n3|30");
        assert_eq!(after("update t set id = 7 where id = 1", "commit"), "1|-1\n2|20\n3|30\n7|10");
    }
    let moved = "error 40001: tuple to be locked was already moved to another partition due to concurrent update";
    assert_eq!(after(true, "update t set id = 17 where id = 1", "commit"), moved);
}

#[test]
fn what_was_inserted_meanwhile_is_in_the_way() {
    let merge = "merge into t using (values (5)) s(id) on t.id = s.id \
                 when matched then delete when not matched then insert values (s.id, -1)";
    let (database, mut a, b) = sessions(false);
    run(&mut a, "begin; insert into t values (5, 50)");
    let (found, mut b) = blocked_until(&database, &mut a, "commit", b, merge);
    let wanted = "error 23505: duplicate key value violates unique constraint \"t_pkey\"";
    assert_eq!(found.lines().next(), Some(wanted));
    assert_eq!(run(&mut b, merge), "");
    assert_eq!(run(&mut b, "select count(*) from t"), "4");
}

#[test]
fn at_repeatable_read_a_row_that_changed_is_refused() {
    let (_database, mut a, mut b) = sessions(false);
    run(&mut b, "begin isolation level repeatable read; select * from t");
    run(&mut a, "update t set v = 15 where id = 1");
    let wanted = "error 40001: could not serialize access due to concurrent update";
    assert_eq!(run(&mut b, MERGE), wanted);
    run(&mut b, "rollback; begin isolation level repeatable read; select * from t");
    run(&mut a, "delete from t where id = 1");
    let wanted = "error 40001: could not serialize access due to concurrent delete";
    assert_eq!(run(&mut b, MERGE), wanted);
}

#[test]
fn what_it_did_is_told() {
    let (_database, mut a, _b) = sessions(false);
    run(&mut a, "analyze t");
    let plan =
        run(&mut a, &format!("explain (analyze, costs off, timing off, summary off) {MERGE}"));
    let lines: Vec<&str> = plan.lines().collect();
    assert_eq!(lines[0], "Merge on t (actual rows=0 loops=1)");
    assert_eq!(lines[1], "  Tuples: updated=1");
    assert_eq!(run(&mut a, "select * from t where id = 1"), "1|11");
    let many = "explain (analyze, format json, timing off, summary off) \
                merge into t using generate_series(1, 9) s(id) on t.id = s.id \
                when matched and t.id = 1 then delete when matched and t.id = 2 then do nothing \
                when matched then update set v = 0 when not matched then insert values (s.id)";
    let plan = run(&mut a, many);
    for wanted in ["Inserted\": 6", "Updated\": 1", "Deleted\": 1", "Skipped\": 1"] {
        assert!(plan.contains(&format!("\"Tuples {wanted}")), "{plan}");
    }
}
