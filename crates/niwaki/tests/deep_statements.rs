//! One SELECT of 18 kB ended the server: a chain of WITH queries took more stack than a session's thread has.
//! Every recursion looked at its own budget, or at none. Now all of them ask `niwaki_env::stack`, which knows where the
//! stack ends, and adds to it.
//!
//! Each construct of the grammar that can hold itself, or stand in a long row, is made deep and long here. The statements run in
//! a process of their own, on threads with small and large stacks: whatever they are answered with, the process lives.

mod common;

use std::fmt::Write as _;
use std::process::Command;

use common::run;
use niwaki::{Database, Session};
use niwaki_env::sync::thread;

/// Says to a process that it is the one that may die, and with which stack, in bytes.
const STACK: &str = "NIWAKI_DEEP_STACK";

/// Levels of the statements, unless [`LONG`] says others. PostgreSQL 15 answers those of a thousand.
const LEVELS: [usize; 2] = [30, 1_000];

/// Levels for a longer run, for instance `3000,20000`.
const LONG: &str = "NIWAKI_DEEP_LEVELS";

/// What must be answered with rows at all of [`LEVELS`].
const ANSWERED: [&str; 9] = [
    "brackets",
    "sum",
    "texts",
    "and",
    "case",
    "union all",
    "with",
    "materialized",
    "values of queries",
];

/// `open` and `close` that many times around `inner`.
fn around(levels: usize, open: &str, inner: &str, close: &str) -> String {
    format!("select {}{inner}{}", open.repeat(levels), close.repeat(levels))
}

/// A chain of WITH queries, each of which reads the one before it.
fn chain(levels: usize, first: &str, next: &str) -> String {
    let mut text = format!("with {first}");
    for level in 1..levels {
        let next = next.replace("{n}", &level.to_string()).replace("{p}", &(level - 1).to_string());
        let _ = write!(text, ", {next}");
    }
    format!("{text} select count(*) from x{}", levels - 1)
}

fn joined(levels: usize, kind: &str) -> String {
    let mut text = "select count(*) from (select 1 as a) t0".to_owned();
    for level in 1..levels {
        let _ = write!(text, " {kind} (select 1 as a) t{level} on t{level}.a = t{}.a", level - 1);
    }
    text
}

/// Each construct by name, as a statement of so many levels.
fn statements(n: usize) -> Vec<(&'static str, String)> {
    let mut all = vec![
        ("brackets", around(n, "(", "1", ")")),
        ("sum", format!("select 1{}", " + 1".repeat(n))),
        ("sum to the right", around(n, "1 + (", "1", ")")),
        ("texts", format!("select length('a'{})", " || 'a'".repeat(n))),
        ("signs", around(n, "- ", "1", "")),
        ("not", around(n, "not ", "true", "")),
        ("and", format!("select true{}", " and true".repeat(n))),
        ("or of comparisons", format!("select 1 where 1 = 2{}", " or 1 = 3".repeat(n))),
        ("and in or", around(n, "(true and (false or ", "true", "))")),
        ("case", around(n, "case when false and true then 0 else ", "1", " end")),
        ("case of a case", around(n, "case ", "1", " when 1 then 1 else 2 end")),
        ("casts", format!("select 1{}", "::bigint::int".repeat(n / 2))),
        ("functions", around(n, "abs(", "-1", ")")),
        ("coalesce", around(n, "coalesce(null, ", "1", ")")),
        ("greatest", around(n, "greatest(0, ", "1", ")")),
        ("nullif", around(n, "nullif(", "1", ", 2)")),
        ("rows", around(n, "row(", "1", ")")),
        ("arrays", around(n, "array[", "1", "]")),
        ("is null", format!("select 1{}", " is null".repeat(n))),
        ("isnull", format!("select 1{}", " isnull".repeat(n))),
        ("is true", format!("select true{}", " is true".repeat(n))),
        ("collate", format!("select 'a'{}", " collate \"C\"".repeat(n))),
        ("at time zone", format!("select now(){}", " at time zone 'utc'".repeat(n))),
        ("operator()", format!("select 1{}", " operator(pg_catalog.+) 1".repeat(n))),
        ("in", around(n, "1 in (select 1 where ", "true", ")")),
        ("= any", around(n, "true = any (array[", "true", "])")),
        ("values of queries", around(n, "(select ", "1", ")")),
        ("exists", around(n, "exists (select 1 where ", "true", ")")),
        ("array of a query", around(n, "cardinality(array(select ", "1", "))")),
        ("from", around(n, "* from (select ", "1 as a", ") s")),
        ("from with a limit", around(n, "* from (select ", "1 as a", " limit 1) s")),
        ("lateral", around(n, "* from (values (1)) v, lateral (select ", "1 as a", ") s")),
        ("union", format!("select 1{}", " union select 1".repeat(n))),
        ("union all", format!("select 1{}", " union all select 1".repeat(n))),
        ("except", format!("select 1{}", " except select 2".repeat(n))),
        (
            "union to the right",
            format!("{}select 1{}", "select 1 union all (".repeat(n), ")".repeat(n)),
        ),
        ("values", format!("select count(*) from (values (1){}) v", ", (1)".repeat(n))),
        ("list", format!("select 1 where 1 in (2{})", ", 3".repeat(n))),
        ("targets", format!("select 1{}", ", 1".repeat(n.min(1_600) - 1))),
        ("with", chain(n, "x0 as (select 1 as a)", "x{n} as (select a from x{p})")),
        (
            "materialized",
            chain(
                n,
                "x0 as materialized (select 1 as a)",
                "x{n} as materialized (select a from x{p})",
            ),
        ),
        (
            "with groups",
            chain(n, "x0 as (select 1 as a)", "x{n} as (select a from x{p} group by a)"),
        ),
        ("with limits", chain(n, "x0 as (select 1 as a)", "x{n} as (select a from x{p} limit 1)")),
        (
            "with exists",
            chain(
                n,
                "x0 as (select 1 as a)",
                "x{n} as (select 1 as a where exists (select 1 from x{p}))",
            ),
        ),
        (
            "with values",
            chain(n, "x0 as (select 1 as a)", "x{n} as (select (select max(a) from x{p}) as a)"),
        ),
        ("with in with", around(n, "* from (with x as (select ", "1 as a", ") select * from x) s")),
        (
            "grouping sets",
            format!(
                "select count(*) from t group by {}a{}",
                "grouping sets (".repeat(n),
                ")".repeat(n)
            ),
        ),
        ("subscripts", format!("select (array[1]){}", "[1]".repeat(n))),
        ("filter", around(n, "(select count(*) filter (where ", "true", ") > 0)")),
        ("order by", format!("select a from t order by a{}", " + 1".repeat(n))),
        ("json", format!("select '{}{}'::jsonb is null", "[".repeat(n), "]".repeat(n))),
        ("json built", around(n, "jsonb_build_array(", "1", ")")),
        (
            "json path",
            format!("select jsonb_path_exists('1', '{}1{} == 1')", "(".repeat(n), ")".repeat(n)),
        ),
        ("pattern", format!("select 'a' ~ '{}a{}'", "(".repeat(n), ")".repeat(n))),
        ("look ahead", format!("select 'a' ~ '{}a{}'", "(?=".repeat(n), ")".repeat(n))),
        ("insert", format!("insert into t select 1{}", " union all select 1".repeat(n))),
        ("update", format!("update t set a = a{}", " + 0".repeat(n))),
        ("delete", format!("delete from t where a = 0{}", " + 0".repeat(n))),
        (
            "explain",
            format!("explain select 1{}", " + a".repeat(n))
                .replace("select 1", "select 1 from t where a > 1"),
        ),
        ("prepare", format!("prepare p as select 1{}; execute p; deallocate p", " + 1".repeat(n))),
        (
            "view",
            format!(
                "create view v as select 1{} as a; select * from v; drop view v",
                " + 1".repeat(n)
            ),
        ),
        (
            "table of rows",
            format!("create temp table q as select 1{} as a; drop table q", " + 1".repeat(n)),
        ),
        (
            "default",
            format!(
                "create table d (a int default 1{}); insert into d default values; drop table d",
                " + 1".repeat(n)
            ),
        ),
        (
            "check",
            format!(
                "create table d (a int check (a > 0{})); insert into d values (1); drop table d",
                " + 0".repeat(n)
            ),
        ),
        ("index", format!("create index i on t ((a{})); drop index i", " + 1".repeat(n))),
        (
            "function",
            format!(
                "create function f() returns int language sql as 'select 1{}'; select f(); drop function f()",
                " + 1".repeat(n)
            ),
        ),
        (
            "calls itself",
            format!(
                "create function f(n int) returns int language sql as 'select case when n <= 0 then 0 else f(n - 1) + 1 end'; select f({n}); drop function f(int)"
            ),
        ),
    ];
    // Planning looks at pairs of tables.
    if n <= 1_000 {
        for (name, kind) in
            [("join", "join"), ("left join", "left join"), ("full join", "full join")]
        {
            all.push((name, joined(n.min(500), kind)));
        }
    }
    all
}

/// Views, each of which reads the one before it, and functions that call the one before.
fn chains_of_objects(session: &mut Session, levels: usize) {
    let mut text = "create view c0 as select 1 as a; create function g0(n int) returns int language sql as 'select n';".to_owned();
    for level in 1..levels {
        let before = level - 1;
        let _ = write!(
            text,
            "create view c{level} as select a from c{before} limit 1; \
             create function g{level}(n int) returns int language sql as 'select g{before}(n) + 1';"
        );
    }
    answer(session, "chain of views and functions", &text);
    let last = levels - 1;
    answer(session, "the last view", &format!("select * from c{last}"));
    answer(
        session,
        "its definition",
        &format!("select length(pg_get_viewdef('c{last}'::regclass))"),
    );
    answer(session, "the last function", &format!("select g{last}(1)"));
    answer(session, "all views dropped", "drop view c0 cascade");
}

/// Runs it. The answer is rows, or a limit.
fn answer(session: &mut Session, name: &str, text: &str) -> bool {
    eprintln!("{name}: {} bytes", text.len());
    let found = run(session, text);
    let failed = found.lines().find(|line| line.starts_with("error"));
    if let Some(failed) = failed {
        eprintln!("    {}", &failed[..failed.len().min(120)]);
        assert!(!failed.starts_with("error XX"), "{name}: {failed}");
    }
    failed.is_none()
}

/// Runs all of it, in a process that may die.
fn in_child() {
    let database = Database::in_memory().unwrap();
    let mut session = database.session();
    assert_eq!(run(&mut session, "create table t (a int); insert into t values (1)"), "");
    assert_eq!(run(&mut session, "set statement_timeout = '20s'"), "");
    let long = std::env::var(LONG).ok();
    let levels: Vec<usize> = match &long {
        Some(levels) => levels.split(',').map(|one| one.parse().unwrap()).collect(),
        None => LEVELS.to_vec(),
    };
    for levels in levels {
        for (name, text) in statements(levels) {
            let done = answer(&mut session, &format!("{levels} × {name}"), &text);
            let must = long.is_none() && ANSWERED.contains(&name);
            assert!(done || !must, "{levels} × {name} is refused");
            let left = run(&mut session, "rollback");
            assert!(!left.starts_with("error"), "{left}");
            assert_eq!(run(&mut session, "select 1"), "1");
        }
    }
    chains_of_objects(&mut session, 300);
}

#[test]
fn the_process_survives_every_deep_statement() {
    if let Ok(stack) = std::env::var(STACK) {
        let bytes = stack.parse().unwrap();
        thread::spawn_with_stack("deep", bytes, in_child).unwrap().join().unwrap();
        return;
    }
    for bytes in [256 << 10, 8 << 20] {
        let name = "the_process_survives_every_deep_statement";
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(STACK, bytes.to_string())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stderr);
        let last: Vec<&str> = said.lines().rev().take(8).collect();
        assert!(child.status.success(), "{bytes} bytes: {:?} after {last:#?}", child.status);
    }
}
