//! Conditions that are derived from others, and given to indexes, lose no row. The test uses random
//! texts and patterns, and columns that are conditions. It compares index scans with full scans,
//! with constants and with parameters.

mod common;

use common::run;
use niwaki::{Database, Session};
use niwaki_env::rng::SeededRng;

const ROWS: u64 = 400;
const QUERIES: u64 = 300;
/// Characters of the texts. They are few, so that texts have equal beginnings, and patterns or
/// orders treat some of them specially.
const CHARACTERS: [&str; 9] = ["a", "b", "%", "_", "\\", "é", "\u{7f}", "\u{d7ff}", "\u{10ffff}"];

fn text(rng: &SeededRng, longest: u64) -> String {
    (0..rng.below(longest + 1)).map(|_| CHARACTERS[rng.below(9) as usize]).collect()
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn pattern(rng: &SeededRng) -> String {
    let mut pattern = text(rng, 3);
    if rng.below(3) > 0 {
        pattern.push('%');
    }
    // A pattern with this end is an error if a row is compared with it.
    if pattern.chars().rev().take_while(|character| *character == '\\').count() % 2 == 1 {
        pattern.push('a');
    }
    pattern
}

fn database() -> Database {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = database.session();
    let rng = SeededRng::new(7);
    run(
        &mut session,
        "create table t (id int primary key, a text, v varchar(20), done bool, k int)",
    );
    for id in 0..ROWS {
        let (a, v) = (text(&rng, 4), text(&rng, 3));
        let done = ["true", "false", "null"][rng.below(3) as usize];
        let a = if rng.below(20) == 0 { "null".to_owned() } else { quoted(&a) };
        let sql = format!("insert into t values ({id}, {a}, {}, {done}, {})", quoted(&v), id % 20);
        assert_eq!(run(&mut session, &sql), "", "{sql}");
    }
    for keys in ["a", "v varchar_pattern_ops", "done, k", "(lower(a) || v) desc"] {
        let sql = format!("create index on t ({keys})");
        assert_eq!(run(&mut session, &sql), "", "{sql}");
    }
    run(&mut session, "analyze t");
    database
}

/// Sets the method of finding rows.
fn find(session: &mut Session, by_index: bool, bitmaps: bool) {
    let sql = format!(
        "set enable_seqscan = {}; set enable_indexscan = {by_index}; set enable_bitmapscan = {}",
        !by_index,
        by_index && bitmaps
    );
    assert_eq!(run(session, &sql), "");
}

#[test]
fn no_row_is_left_out() {
    let database = database();
    let mut session = database.session();
    let rng = SeededRng::new(11);
    let mut found_some = 0;
    for _ in 0..QUERIES {
        let column = ["a", "v", "lower(a) || v"][rng.below(3) as usize];
        let pattern = pattern(&rng);
        let condition = match rng.below(4) {
            0 => ["done", "not done", "done is true", "done is false", "done is not true"]
                [rng.below(5) as usize]
                .to_owned(),
            1 => format!("k < {}", rng.below(20)),
            _ => "true".to_owned(),
        };
        let rest = format!("and {condition} order by id");
        let all = format!("select id from t where {column} like {} {rest}", quoted(&pattern));
        find(&mut session, false, false);
        let expected = run(&mut session, &all);
        found_some += usize::from(!expected.is_empty());
        find(&mut session, true, rng.below(2) == 0);
        let found = run(&mut session, &all);
        assert_eq!(found, expected, "{all}");
        let prepared =
            format!("prepare q (text) as select id from t where {column} like $1 {rest}");
        assert_eq!(run(&mut session, &prepared), "", "{prepared}");
        for _ in 0..2 {
            let sql = format!("execute q ({})", quoted(&pattern));
            assert_eq!(run(&mut session, &sql), expected, "{all}, prepared");
        }
        run(&mut session, "deallocate q");
    }
    assert!(found_some > 50, "{found_some} queries found something");
}

/// Random bounds of ranges; some are NULL. Each execution of a prepared statement must give the
/// same as a query with the values.
#[test]
fn plans_for_values_give_what_queries_give() {
    let database = database();
    let mut session = database.session();
    let rng = SeededRng::new(13);
    let prepared = [
        "select id from t where k >= $1 and k < $2 and done order by id",
        "select id from t where (k > $1 or a < 'b') and id <= $2 order by id",
        "select count(*), max(k), min(a) from t where k between $1 and $2",
        "select id from t where k < $2 and a like (select 'a%' where $1 > 3) order by id",
        "with w as (select k from t where k > $1) select count(*) from w where k < $2",
        "select x.id from t x join t y on x.id = y.k where y.id < $2 and x.k > $1 order by 1",
        "select id from t where k > $1 order by a, id limit $2",
    ];
    for (number, query) in prepared.iter().enumerate() {
        run(&mut session, &format!("prepare q{number} (int, int) as {query}"));
    }
    for _ in 0..QUERIES {
        let number = rng.below(prepared.len() as u64) as usize;
        let value = |least: u64| match rng.below(12) {
            0 if least == 0 => "null".to_owned(),
            _ => (least + rng.below(20)).to_string(),
        };
        let (low, high) = (value(0), value(u64::from(number == 6)));
        let mode =
            ["auto", "auto", "force_custom_plan", "force_generic_plan"][rng.below(4) as usize];
        run(&mut session, &format!("set plan_cache_mode = {mode}"));
        let found = run(&mut session, &format!("execute q{number} ({low}, {high})"));
        let sql = prepared[number].replace("$1", &format!("{low}::int"));
        let sql = sql.replace("$2", &format!("{high}::int"));
        assert_eq!(found, run(&mut session, &sql), "{sql}");
    }
}
