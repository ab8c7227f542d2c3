//! Compares statements without stored tables with results recorded from PostgreSQL 15.

mod script;

use std::sync::Arc;

use niwaki_catalog::{CatalogState, NoSystem, SearchPath};
use niwaki_env::Env;
use niwaki_expr::sessionless::NoStore;
use niwaki_sql::{
    AnalyzeContext, Calls, Environment, ExecContext, NoAfterTriggers, PlannerSettings, Result,
    Scratch, SqlError, Statement, TEMP_CHUNK_BYTES, analyze_without_parameters,
};
use niwaki_table::TempSpace;
use niwaki_types::{Datum, TextSettings};
use proptest::prelude::*;

fn no_tables<T>() -> Result<T> {
    Err(SqlError::internal("this test has no tables"))
}

/// A session at a fixed moment, 2024-01-01 00:00 UTC.
struct FixedSession;

const NOW: i64 = 757_382_400_000_000;

impl Environment for FixedSession {
    fn check_interrupts(&mut self) -> Result<()> {
        Ok(())
    }
    fn transaction_timestamp(&self) -> i64 {
        NOW
    }
    fn statement_timestamp(&self) -> i64 {
        NOW
    }
    fn clock_timestamp(&self) -> i64 {
        NOW + 1
    }
    fn random(&mut self) -> u64 {
        4
    }
    fn sleep(&mut self, _: u64) -> Result<()> {
        Ok(())
    }
    fn nextval(&mut self, _: u32) -> Result<i64> {
        no_tables()
    }
    fn currval(&mut self, _: u32) -> Result<i64> {
        no_tables()
    }
    fn lastval(&mut self) -> Result<i64> {
        no_tables()
    }
    fn setval(&mut self, _: u32, _: i64, _: bool) -> Result<i64> {
        no_tables()
    }
    fn setting(&self, _: &str) -> Option<String> {
        None
    }
    fn set_setting(&mut self, _: &str, value: Option<&str>, _: bool) -> Result<String> {
        Ok(value.unwrap_or_default().to_owned())
    }
    fn current_user(&self) -> String {
        "postgres".to_owned()
    }
    fn session_user(&self) -> String {
        "postgres".to_owned()
    }
}

fn run(sql: &str, memory: usize, temp: &TempSpace) -> Result<String> {
    let catalog = CatalogState::default();
    let path = SearchPath { schemas: Vec::new(), creation: None };
    let text = TextSettings::default();
    let context = AnalyzeContext {
        catalog: &catalog,
        path: &path,
        text: &text,
        now: NOW,
        planner: PlannerSettings::default(),
        interrupts: &|| Ok(()),
        clock: &|| 0,
        functions: None,
        stored: false,
    };
    let mut lines = Vec::new();
    for statement in niwaki_sql::parse::parse(sql)? {
        let Statement::Query(planned) = analyze_without_parameters(&statement, &context)? else {
            return Err(SqlError::unsupported("a utility statement in this test"));
        };
        let mut rows: Vec<Vec<Datum>> = Vec::new();
        let mut exec = ExecContext {
            store: &mut NoStore,
            environment: &mut FixedSession,
            catalog: &catalog,
            path: &path,
            source: &NoSystem,
            text: &text,
            memory_limit: 64 << 20,
            work_mem: memory,
            hash_mem: memory,
            temp: Some(temp),
            temp_chunk: if memory < PLENTY { 64 } else { TEMP_CHUNK_BYTES },
            scratch: &mut Scratch::default(),
            definitions: niwaki_sql::definitions(),
            after_triggers: &NoAfterTriggers,
            calls: Calls::default(),
        };
        planned.execute(&mut exec, &[], &mut rows)?;
        let columns = planned.columns();
        for row in rows {
            let values: Vec<String> = row
                .iter()
                .zip(&columns)
                .map(|(value, column)| match value {
                    Datum::Null => "NULL".to_owned(),
                    value => niwaki_types::to_text(value, column.oid(), &text),
                })
                .collect();
            lines.push(values.join("|"));
        }
    }
    Ok(lines.join("\n"))
}

fn shown(sql: &str, memory: usize, temp: &TempSpace) -> String {
    match run(sql, memory, temp) {
        Ok(rows) => rows,
        Err(error) => {
            let mut text = format!("error {}: {}", error.sqlstate, error.message);
            if let Some(detail) = &error.detail {
                text.push_str(&format!("\ndetail: {detail}"));
            }
            if let Some(hint) = &error.hint {
                text.push_str(&format!("\nhint: {hint}"));
            }
            if let Some(context) = &error.context {
                text.push_str(&format!("\ncontext: {context}"));
            }
            text
        }
    }
}

/// Bytes of memory that are enough for everything in the scripts.
const PLENTY: usize = 4 << 20;

fn temporary(env: &Env) -> TempSpace {
    TempSpace::new(env.clone(), Arc::default(), Arc::default(), "query")
}

fn check(name: &str, script: &str) {
    let env = Env::memory();
    let temp = temporary(&env);
    script::check(name, script, |statement| shown(statement, PLENTY, &temp));
    assert!(!env.vfs.exists("tmp").unwrap(), "nothing is too large for the memory");
    // Without memory, every sort, hash table and tuplestore goes to temporary files. Rows without a
    // defined order then come in another order.
    let sorted = |answer: &str| {
        let mut lines: Vec<String> = answer.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    script::check(&format!("{name} without memory"), script, |statement| {
        let (usual, found) = (shown(statement, PLENTY, &temp), shown(statement, 0, &temp));
        let same = !statement.contains("order by") && sorted(&usual) == sorted(&found);
        if same { usual } else { found }
    });
    let left = env.vfs.list("tmp").unwrap_or_default();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(temp.quota().used(), 0);
}

#[test]
fn arithmetic() {
    check("arithmetic", include_str!("../testscripts/arithmetic.test"));
}

#[test]
fn strings() {
    check("strings", include_str!("../testscripts/strings.test"));
}

#[test]
fn conditions() {
    check("conditions", include_str!("../testscripts/conditions.test"));
}

#[test]
fn queries() {
    check("queries", include_str!("../testscripts/queries.test"));
}

#[test]
fn large_statements() {
    check("large_statements", include_str!("../testscripts/large_statements.test"));
}

#[test]
fn grouping_sets() {
    check("grouping_sets", include_str!("../testscripts/grouping_sets.test"));
}

#[test]
fn windows() {
    check("windows", include_str!("../testscripts/windows.test"));
}

#[test]
fn json() {
    check("json", include_str!("../testscripts/json.test"));
}

#[test]
fn jsonpath() {
    check("jsonpath", include_str!("../testscripts/jsonpath.test"));
}

#[test]
fn formatting() {
    check("formatting", include_str!("../testscripts/formatting.test"));
}

#[test]
fn time() {
    check("time", include_str!("../testscripts/time.test"));
}

#[test]
fn interval_texts() {
    check("interval_texts", include_str!("../testscripts/interval_texts.test"));
}

#[test]
fn json_that_is_not_there_is_refused_by_name() {
    for (statement, name) in [
        ("select jsonb '1' @? '$.datetime()'", "jsonpath item method .datetime()"),
        (
            "select (r).f1 from (select row(1, 2) as r union all select row(3, 4)) v",
            "a field of a record whose fields are not known",
        ),
    ] {
        let error = run(statement, PLENTY, &temporary(&Env::memory())).expect_err(statement);
        assert_eq!(error.sqlstate, "0A000", "{statement}: {error}");
        assert!(error.message.starts_with(name), "{statement}: {error}");
    }
}

#[test]
fn json_beyond_its_depth_is_an_error() {
    for (statement, sqlstate) in [
        ("select (repeat('[', 1001) || repeat(']', 1001))::jsonb", "54001"),
        ("select repeat('[', 10000000)::json", "54001"),
        ("select repeat('{\"a\":', 1000000)::jsonb", "54001"),
        ("select jsonb_build_array((repeat('[', 1000) || repeat(']', 1000))::jsonb)", "54001"),
        ("select '1'::jsonb || (repeat('[', 1000) || repeat(']', 1000))::jsonb", ""),
    ] {
        let found = run(statement, PLENTY, &temporary(&Env::memory()));
        let found = found.map_err(|error| error.sqlstate);
        assert_eq!(found.err().unwrap_or_default(), sqlstate, "{statement}");
    }
}

#[test]
fn paths_beyond_their_depth_are_errors() {
    let items = "[*]".repeat(250);
    let nested = |levels: usize| {
        let open = format!("{items} ? (exists(@").repeat(levels);
        format!("select jsonb '1' @? '${open}{}'", "))".repeat(levels))
    };
    let deep = "(repeat('[', 1000) || repeat(']', 1000))::jsonb";
    for (statement, sqlstate) in [
        (nested(1), ""),
        (nested(5), ""),
        (nested(20), "54001"),
        (format!("select count(*) from jsonb_path_query({deep}, '$.** ? (@.size() == 0)')"), ""),
        (format!("select jsonb_path_query({deep}, '$.**{{last}}{items}')"), ""),
        (format!("select {deep} @? '$.**.** ? (1 == 2)'"), ""),
        ("select repeat('(', 1000000)::jsonpath".to_owned(), "54001"),
        ("select ('$' || repeat('.a', 1000000))::jsonpath".to_owned(), "54001"),
    ] {
        let found = run(&statement, PLENTY, &temporary(&Env::memory()));
        let found = found.map_err(|error| error.sqlstate);
        assert_eq!(found.err().unwrap_or_default(), sqlstate, "{}", &statement[..60]);
    }
}

#[test]
fn math() {
    check("math", include_str!("../testscripts/math.test"));
}

#[test]
fn regexp() {
    check("regexp", include_str!("../testscripts/regexp.test"));
}

#[test]
fn text_functions() {
    check("text_functions", include_str!("../testscripts/text_functions.test"));
}

#[test]
fn binary() {
    check("binary", include_str!("../testscripts/binary.test"));
}

#[test]
fn arrays() {
    check("arrays", include_str!("../testscripts/arrays.test"));
}

#[test]
fn aggregates() {
    check("aggregates", include_str!("../testscripts/aggregates.test"));
}

#[test]
fn regexp_random() {
    check("regexp_random", include_str!("../testscripts/regexp_random.test"));
}

#[test]
fn array_dimensions() {
    check("array_dimensions", include_str!("../testscripts/array_dimensions.test"));
}

#[test]
fn array_literals() {
    check("array_literals", include_str!("../testscripts/array_literals.test"));
}

/// Queries on rows (x, y, z) that replace `{}`; `order by` only where it is complete.
const RANDOM: &[&str] = &[
    "select * from {} order by y desc, x nulls first, z",
    "select * from {} order by z, x, y limit 7 offset 3",
    "select x, count(*), sum(y), min(z), array_agg(y order by y, z desc) from {} group by x",
    "select y % 3, z, count(distinct x), string_agg(distinct z, ',') filter (where y > 5) from {} group by 1, 2",
    "select count(distinct x), count(distinct z), sum(distinct y) from {}",
    "select distinct x, z from {}",
    "select x, z from {} union select y, z from {}",
    "select x from {} intersect all select y from {}",
    "select x, z from {} except select y, z from {}",
    "select z from {} except all select left(z, 1) from {}",
    "select a.x, a.y, b.z from {} a join {} b on a.x = b.y",
    "select a.x, b.y, b.z from {} a left join {} b on a.x = b.x and a.z < b.z",
    "select a.x, b.y, b.z from {} a right join {} b on a.z = b.z and a.x = b.y",
    "select a.x, b.y, b.z from {} a full join {} b on a.z = b.z and a.x = b.y",
    "select count(*), sum(a.y), sum(b.y) from {} a full join {} b on a.x = b.x and a.y < b.y",
    "select a.x, a.z from {} a where exists (select 1 from {} b where b.x = a.y and b.z <> a.z)",
    "select a.x, a.z from {} a where not exists (select 1 from {} b where b.x = a.y and b.z < a.z)",
    "select a.x, a.z from {} a where a.x in (select b.y from {} b where b.z <> '')",
    "select a.x, a.z from {} a where not exists (select 1 from {} b where b.x < a.y)",
    "select a.x, count(b.y) from {} a left join {} b on a.x < b.y group by a.x",
    "select x, y, z, sum(y) over (partition by x), rank() over w, ntile(3) over (partition by x order by y, z), first_value(y) over w from {} window w as (partition by x order by y)",
    "select y, count(*) over (order by y range between 3 preceding and 2 following exclude ties), sum(y) over (order by y groups between 2 preceding and 1 preceding) from {}",
    "select z, array_agg(z) over w, lag(x, 7) over w, percent_rank() over w, min(z) over w from {} window w as (order by y, x, z rows between 20 preceding and 15 following exclude current row)",
    "with w as materialized (select x, y from {}) select a.x, b.y from w a, w b where a.x = b.y and a.y < b.x",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Checks that the answers with little memory are the same as with plenty.
    #[test]
    fn memory_makes_no_difference(
        rows in proptest::collection::vec((proptest::option::weighted(0.9, 0i32..40), 0i32..40, "[ab]{0,3}"), 0..120),
        memory in 0usize..12_000,
    ) {
        let mut values: Vec<String> = vec!["(null::int, 1, '')".to_owned()];
        values.extend(rows.iter().map(|(x, y, z)| match x {
            Some(x) => format!("({x}, {y}, '{z}')"),
            None => format!("(null, {y}, '{z}')"),
        }));
        let table = format!("(select * from (values {}) v(x, y, z)) t", values.join(", "));
        let env = Env::memory();
        let temp = temporary(&env);
        for query in RANDOM {
            // Each table gets an alias where the query gives none.
            let query = query.replace("{} a", "{a}").replace("{} b", "{b}").replace("{}", &table);
            let named = |name: &str| format!("{}{name}", table.trim_end_matches('t'));
            let query = query.replace("{a}", &named("a")).replace("{b}", &named("b"));
            let lines = |memory| {
                let answer = shown(&query, memory, &temp);
                let mut lines: Vec<String> = answer.lines().map(str::to_owned).collect();
                if !query.contains("order by z, x") && !query.contains("order by y desc") {
                    lines.sort();
                }
                lines
            };
            let expected = lines(PLENTY);
            prop_assert!(!expected.concat().starts_with("error"), "{}: {:?}", query, expected);
            prop_assert_eq!(lines(memory), expected, "{}", query);
        }
        prop_assert_eq!(temp.quota().used(), 0);
        prop_assert!(env.vfs.list("tmp").unwrap_or_default().is_empty());
    }
}
