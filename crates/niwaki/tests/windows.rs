//! Window functions give the same as a naive evaluation. The test takes random rows with NULLs and
//! ties, random partitions, orders and frames. Some runs have so little memory that partitions go
//! to files.
//!
//! The naive evaluation tests each row for each other row's frame, as the standard defines frames.

mod common;

use common::run;
use niwaki::{Database, Session};
use niwaki_env::rng::SeededRng;

const TABLES: u64 = 18;
const QUERIES: u64 = 60;

type Value = Option<i64>;

#[derive(Clone, Copy)]
struct Row {
    id: i64,
    part: Value,
    order: Value,
    value: Value,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Rows,
    Range,
    Groups,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Bound {
    UnboundedPreceding,
    Preceding(i64),
    Current,
    Following(i64),
    UnboundedFollowing,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Exclude {
    Nothing,
    Current,
    Group,
    Ties,
}

struct Window {
    partitioned: bool,
    ordered: bool,
    descending: bool,
    nulls_first: bool,
    mode: Mode,
    start: Bound,
    end: Bound,
    exclude: Exclude,
}

impl Bound {
    fn random(rng: &SeededRng, start: bool, offsets: bool) -> Self {
        let offset = rng.below(5) as i64;
        match rng.below(if offsets { 4 } else { 2 }) {
            0 if start => Self::UnboundedPreceding,
            0 => Self::UnboundedFollowing,
            1 => Self::Current,
            2 => Self::Preceding(offset),
            _ => Self::Following(offset),
        }
    }

    fn sql(self) -> String {
        match self {
            Self::UnboundedPreceding => "unbounded preceding".to_owned(),
            Self::Preceding(n) => format!("{n} preceding"),
            Self::Current => "current row".to_owned(),
            Self::Following(n) => format!("{n} following"),
            Self::UnboundedFollowing => "unbounded following".to_owned(),
        }
    }

    /// Returns the distance of the bound behind the current row; `None` for an unbounded one.
    fn distance(self) -> Option<i64> {
        match self {
            Self::Preceding(n) => Some(-n),
            Self::Current => Some(0),
            Self::Following(n) => Some(n),
            Self::UnboundedPreceding | Self::UnboundedFollowing => None,
        }
    }
}

impl Window {
    fn random(rng: &SeededRng) -> Self {
        let ordered = !rng.chance(1, 5);
        let mode = match rng.below(if ordered { 3 } else { 2 }) {
            0 => Mode::Rows,
            1 => Mode::Range,
            _ => Mode::Groups,
        };
        let offsets = ordered || mode == Mode::Rows;
        let (start, end) = loop {
            let start = Bound::random(rng, true, offsets);
            let end = Bound::random(rng, false, offsets);
            // Frames that the grammar refuses.
            let refused = matches!(
                (start, end),
                (Bound::Current, Bound::Preceding(_))
                    | (Bound::Following(_), Bound::Preceding(_) | Bound::Current)
            );
            if !refused {
                break (start, end);
            }
        };
        let exclude = match rng.below(6) {
            0 => Exclude::Current,
            1 => Exclude::Group,
            2 => Exclude::Ties,
            _ => Exclude::Nothing,
        };
        let (partitioned, descending) = (!rng.chance(1, 3), rng.chance(1, 2));
        let nulls_first = rng.chance(1, 2);
        Self { partitioned, ordered, descending, nulls_first, mode, start, end, exclude }
    }

    fn sql(&self) -> String {
        let mut sql = String::new();
        if self.partitioned {
            sql.push_str("partition by p ");
        }
        if self.ordered {
            let way = if self.descending { "desc" } else { "asc" };
            let nulls = if self.nulls_first { "first" } else { "last" };
            sql.push_str(&format!("order by o {way} nulls {nulls} "));
        }
        let mode = match self.mode {
            Mode::Rows => "rows",
            Mode::Range => "range",
            Mode::Groups => "groups",
        };
        let exclude = match self.exclude {
            Exclude::Nothing => "no others",
            Exclude::Current => "current row",
            Exclude::Group => "group",
            Exclude::Ties => "ties",
        };
        let (start, end) = (self.start.sql(), self.end.sql());
        sql.push_str(&format!("{mode} between {start} and {end} exclude {exclude}"));
        sql
    }

    /// Returns the rows of each partition in their order.
    fn partitions(&self, rows: &[Row]) -> Vec<Vec<Row>> {
        let mut partitions: Vec<Vec<Row>> = Vec::new();
        for row in rows {
            let same = |p: &&mut Vec<Row>| !self.partitioned || p[0].part == row.part;
            match partitions.iter_mut().find(same) {
                Some(partition) => partition.push(*row),
                None => partitions.push(vec![*row]),
            }
        }
        if self.ordered {
            for partition in &mut partitions {
                partition.sort_by(|a, b| match (a.order, b.order) {
                    (Some(a), Some(b)) if self.descending => b.cmp(&a),
                    (Some(a), Some(b)) => a.cmp(&b),
                    (a, b) if self.nulls_first => a.is_some().cmp(&b.is_some()),
                    (a, b) => a.is_none().cmp(&b.is_none()),
                });
            }
        }
        partitions
    }

    /// Decides whether row `j` is on the inner side of one bound of row `i`'s frame: the start or
    /// the end.
    fn is_inside(&self, rows: &[Row], groups: &[i64], i: usize, j: usize, start: bool) -> bool {
        let bound = if start { self.start } else { self.end };
        let Some(distance) = bound.distance() else { return true };
        let judge = |at: i64, limit: i64| if start { at >= limit } else { at <= limit };
        match self.mode {
            Mode::Rows => judge(j as i64, i as i64 + distance),
            Mode::Groups => judge(groups[j], groups[i] + distance),
            Mode::Range if bound == Bound::Current => judge(groups[j], groups[i]),
            Mode::Range => match (rows[i].order, rows[j].order) {
                (Some(base), Some(at)) if self.descending => judge(-at, -base + distance),
                (Some(base), Some(at)) => judge(at, base + distance),
                // The order puts NULLs before or after all other values, at any distance.
                _ => judge(groups[j], groups[i]),
            },
        }
    }

    fn frame(&self, rows: &[Row], groups: &[i64], i: usize) -> Vec<Value> {
        (0..rows.len())
            .filter(|&j| self.is_inside(rows, groups, i, j, true))
            .filter(|&j| self.is_inside(rows, groups, i, j, false))
            .filter(|&j| match self.exclude {
                Exclude::Nothing => true,
                Exclude::Current => j != i,
                Exclude::Group => groups[j] != groups[i],
                Exclude::Ties => j == i || groups[j] != groups[i],
            })
            .map(|j| rows[j].value)
            .collect()
    }
}

fn shown(value: Value) -> String {
    value.map_or_else(|| "NULL".to_owned(), |value| value.to_string())
}

/// Returns the select list, with varying numbers.
fn calls(k: i64) -> String {
    [
        "count(*) over w".to_owned(),
        "count(v) over w".to_owned(),
        "sum(v) over w".to_owned(),
        "min(v) over w".to_owned(),
        "max(v) over w".to_owned(),
        "count(*) filter (where v > 2) over w".to_owned(),
        "array_agg(v) over w".to_owned(),
        "first_value(v) over w".to_owned(),
        "last_value(v) over w".to_owned(),
        format!("nth_value(v, {k}) over w"),
        "row_number() over w".to_owned(),
        "rank() over w".to_owned(),
        "dense_rank() over w".to_owned(),
        format!("ntile({k}) over w"),
        format!("lag(v, {k}, -7) over w"),
        format!("lead(v, {k}) over w"),
        "percent_rank() over w".to_owned(),
        "cume_dist() over w".to_owned(),
    ]
    .join(", ")
}

/// Computes the same for each row, in the order of `id`.
fn naive(window: &Window, rows: &[Row], k: i64) -> Vec<String> {
    let mut answers: Vec<(i64, String)> = Vec::new();
    for partition in window.partitions(rows) {
        let mut groups = vec![0i64];
        for pair in partition.windows(2) {
            let same = !window.ordered || pair[0].order == pair[1].order;
            groups.push(groups[groups.len() - 1] + i64::from(!same));
        }
        let count = partition.len();
        for (i, row) in partition.iter().enumerate() {
            let frame = window.frame(&partition, &groups, i);
            let known: Vec<i64> = frame.iter().copied().flatten().collect();
            let sum = (!known.is_empty()).then(|| known.iter().sum());
            let list: Vec<String> = frame.iter().map(|v| shown(*v)).collect();
            let list =
                if list.is_empty() { "NULL".to_owned() } else { format!("{{{}}}", list.join(",")) };
            let first_peer = groups.iter().position(|g| *g == groups[i]).unwrap();
            let last_peer = groups.iter().rposition(|g| *g == groups[i]).unwrap();
            // Sizes of buckets differ by at most one, the larger first.
            let mut bucket = 0;
            let mut left = i as i64;
            loop {
                let size = count as i64 / k + i64::from(bucket < count as i64 % k);
                bucket += 1;
                if left < size {
                    break;
                }
                left -= size;
            }
            let at = |place: i64, none: Value| {
                let found = usize::try_from(place).ok().and_then(|place| partition.get(place));
                found.map_or(none, |row| row.value)
            };
            let percent = if count == 1 { 0.0 } else { first_peer as f64 / (count as f64 - 1.0) };
            let values = [
                row.id.to_string(),
                frame.len().to_string(),
                known.len().to_string(),
                shown(sum),
                shown(known.iter().min().copied()),
                shown(known.iter().max().copied()),
                known.iter().filter(|v| **v > 2).count().to_string(),
                list,
                shown(frame.first().copied().flatten()),
                shown(frame.last().copied().flatten()),
                shown(frame.get(k as usize - 1).copied().flatten()),
                (i + 1).to_string(),
                (first_peer + 1).to_string(),
                (groups[i] + 1).to_string(),
                bucket.to_string(),
                shown(at(i as i64 - k, Some(-7))),
                shown(at(i as i64 + k, None)),
                percent.to_string(),
                ((last_peer + 1) as f64 / count as f64).to_string(),
            ];
            answers.push((row.id, values.join("|")));
        }
    }
    answers.sort();
    answers.into_iter().map(|(_, answer)| answer).collect()
}

fn random_rows(rng: &SeededRng, count: u64) -> Vec<Row> {
    let value = |end: u64| -> Value { (!rng.chance(1, 6)).then(|| rng.below(end) as i64) };
    (0..count)
        .map(|id| Row { id: id as i64, part: value(4), order: value(9), value: value(7) })
        .collect()
}

fn fill(session: &mut Session, rows: &[Row], pad: usize) {
    let values: Vec<String> = rows
        .iter()
        .map(|row| {
            let Row { id, part, order, value } = row;
            let pad = "x".repeat(pad);
            format!("({id}, {}, {}, {}, '{pad}')", shown(*part), shown(*order), shown(*value))
        })
        .collect();
    let sql = format!(
        "drop table if exists t; create table t (id int, p int, o int, v int, pad text); insert into t values {}",
        values.join(", ")
    );
    assert_eq!(run(session, &sql), "");
}

#[test]
fn frames_are_those_of_a_naive_evaluation() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = database.session();
    for seed in 0..TABLES {
        let rng = &SeededRng::new(seed);
        // The larger tables do not fit in little memory, whatever their windows are.
        let (count, pad) = if seed % 3 == 2 { (260, 300) } else { (1 + rng.below(60), 0) };
        let rows = random_rows(rng, count);
        fill(&mut session, &rows, pad);
        for query in 0..QUERIES / if pad > 0 { 4 } else { 1 } {
            let window = Window::random(rng);
            let k = 1 + rng.below(5) as i64;
            let expected = naive(&window, &rows, k);
            // The other values of a row go through the window with it.
            let sql = format!(
                "select id, {}, length(pad) from t window w as ({}) order by id",
                calls(k),
                window.sql()
            );
            for memory in ["64kB", "64MB"] {
                run(&mut session, &format!("set work_mem = '{memory}'"));
                let found = run(&mut session, &sql);
                let found: Vec<&str> = found.lines().collect();
                assert_eq!(found.len(), expected.len(), "seed {seed}, query {query}: {sql}");
                for (found, expected) in found.iter().zip(&expected) {
                    let expected = format!("{expected}|{pad}");
                    assert_eq!(*found, expected, "seed {seed}, query {query}, {memory}: {sql}");
                }
            }
        }
    }
}
