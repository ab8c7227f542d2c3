//! Deeply nested and very long statements. One SELECT of 18 kB once ended the server: a chain of
//! WITH queries took more stack than a session's thread has. Every recursion checked its own
//! budget, or none. Now all of them ask `niwaki_env::stack`, which knows where the stack ends, and
//! adds to it.
//!
//! Here each construct of the grammar that can nest or stand in a long list is made deep and long.
//! Each runs through all paths of a statement: executed, explained, prepared, stored as a view and
//! shown, called by a function. The statements run in a process of their own, on threads with small
//! and large stacks. Whatever the answers are, the process must survive.

mod common;

use std::fmt::Write as _;
use std::process::{Command, Stdio};

use common::run;
use niwaki::{Database, Session};
use niwaki_env::sync::thread;

/// Environment variable that makes a process the one that may die, and sets its stack in bytes.
const STACK: &str = "NIWAKI_DEEP_STACK";

/// Levels of the statements, unless [`LEVELS`] sets others.
const LEVELS_OF_CI: [usize; 2] = [30, 300];

/// Environment variable with levels for a longer run, for instance `3000,20000,100000`.
const LEVELS: &str = "NIWAKI_DEEP_LEVELS";

/// Environment variable with the name of the only construct to test, for a longer run.
const ONLY: &str = "NIWAKI_DEEP_ONLY";

/// Links of the chains of objects, unless [`LEVELS`] sets others.
const LINKS_OF_CI: usize = 100;

/// Levels of an expression that is nested in others like it.
const SIGNS: usize = 300;

/// Length in bytes above which texts are only executed and explained, so that the whole takes less
/// than a minute.
const LONG_BYTES: usize = 50_000;

/// Puts `open` and `close` that many times around `inner`.
fn around(levels: usize, open: &str, inner: &str, close: &str) -> String {
    format!("select {}{inner}{}", open.repeat(levels), close.repeat(levels))
}

/// Builds a chain of WITH queries. Each reads the one before it.
fn chain(levels: usize, first: &str, next: &str) -> String {
    let mut text = format!("with {first}");
    for level in 1..levels {
        let next = next.replace("{n}", &level.to_string()).replace("{p}", &(level - 1).to_string());
        let _ = write!(text, ", {next}");
    }
    format!("{text} select count(*) from x{}", levels - 1)
}

/// Builds a row of joins, each with the table before it.
fn joined(levels: usize, kind: &str, table: &str) -> String {
    let mut text = format!("select count(*) from {table} t0");
    for level in 1..levels {
        let _ = write!(text, " {kind} {table} t{level} on t{level}.a = t{}.a", level - 1);
    }
    text
}

/// Builds joins in brackets: each on the right of the one before.
fn joined_to_the_right(levels: usize, kind: &str) -> String {
    let opened: String = (0..levels).map(|n| format!("t t{n} {kind} (")).collect();
    let closed: String = (0..levels).rev().map(|n| format!(") on t{n}.a = t{}.a", n + 1)).collect();
    format!("select count(*) from {opened}t t{levels} cross join t u{closed}")
}

/// Returns the queries that PostgreSQL 15 answers. Niwaki must answer them too.
fn answered() -> Vec<(&'static str, String)> {
    vec![
        ("with", chain(1_000, "x0 as (select 1 as a)", "x{n} as (select a from x{p})")),
        (
            "materialized",
            chain(
                1_000,
                "x0 as materialized (select 1 as a)",
                "x{n} as materialized (select a from x{p})",
            ),
        ),
        (
            "with groups",
            chain(1_000, "x0 as (select 1 as a)", "x{n} as (select a from x{p} group by a)"),
        ),
        (
            "with exists",
            chain(
                1_000,
                "x0 as (select 1 as a)",
                "x{n} as (select 1 as a where exists (select 1 from x{p}))",
            ),
        ),
        ("union all", format!("select 1{}", " union all select 1".repeat(2_000))),
        (
            "insert union all",
            format!("insert into u select 1{}; truncate u", " union all select 1".repeat(2_000)),
        ),
        ("sum", format!("select 1{}", " + 1".repeat(1_000))),
        ("texts", format!("select length('a'{})", " || 'a'".repeat(1_000))),
        ("case", around(1_000, "case when false then 0 else ", "1", " end")),
        ("values of queries", around(500, "(select ", "1", ")")),
        ("joins", joined(500, "join", "t")),
        ("left joins", joined(500, "left join", "t")),
    ]
}

/// Builds queries in FROM, each with a deep expression over the query inside it.
fn signs_in_from(levels: usize) -> String {
    let signs = "- ".repeat(SIGNS);
    (0..levels).fold("select a from t".to_owned(), |inside, _| {
        format!("select {signs}a as a from ({inside}) x")
    })
}

/// Returns each construct by name, as a query of `n` levels.
#[expect(clippy::too_many_lines, reason = "one table of statements")]
fn queries(n: usize) -> Vec<(&'static str, String)> {
    // Planning considers pairs of tables. A query with 500 joins is among those that must be
    // answered.
    let tables = n.min(60);
    let mut all = vec![
        ("signs in FROM", signs_in_from(n)),
        (
            "conditions of groups",
            format!(
                "select * from (select a, count(*) as c from t group by a) x where c > 0{}",
                " and c <> 5".repeat(20 * n)
            ),
        ),
        (
            "rows in order",
            format!(
                "select a from t where (a{0}, 2) < (a{0}, 3)",
                ", 1".repeat((5 * n).min(1_600))
            ),
        ),
        ("brackets", around(n, "(", "1", ")")),
        ("sum", format!("select 1{}", " + 1".repeat(n))),
        ("sum of a column", format!("select a{} from t", " + a".repeat(n))),
        ("sum to the right", around(n, "1 + (", "1", ")")),
        ("texts", format!("select length('a'{})", " || 'a'".repeat(n))),
        ("signs", around(n, "- ", "1", "")),
        ("signs of a column", format!("select {}a from t", "- ".repeat(n))),
        ("not", around(n, "not ", "true", "")),
        ("not of a column", format!("select {}a = 1 from t", "not ".repeat(n))),
        ("and", format!("select true{}", " and true".repeat(n))),
        ("or of comparisons", format!("select 1 where 1 = 2{}", " or 1 = 3".repeat(n))),
        ("conditions", format!("select a from t where a = 1{}", " and a > 0".repeat(n))),
        ("alternatives", format!("select a from t where a = 2{}", " or a + 0 = 1".repeat(n))),
        ("and in or", around(n, "(true and (false or ", "true", "))")),
        (
            "and in or of columns",
            format!(
                "select a from t where {}a = 1{}",
                "(a > 0 and (a = 2 or ".repeat(n),
                "))".repeat(n)
            ),
        ),
        ("comparisons of results", around(n, "(", "1 = 1", ") = true")),
        ("between", around(n, "(1 between 0 and ", "1", ")::int")),
        ("case", around(n, "case when false and true then 0 else ", "1", " end")),
        ("case of a case", around(n, "case ", "1", " when 1 then 1 else 2 end")),
        ("case in a condition", around(n, "case when ", "true", " then true end")),
        ("casts", format!("select 1{}", "::bigint::int".repeat(n / 2))),
        ("casts of a column", format!("select a{} from t", "::text::int".repeat(n / 2))),
        ("cast()", around(n, "cast(", "1", " as int)")),
        ("functions", around(n, "abs(", "-1", ")")),
        ("functions of a column", format!("select {}a{} from t", "abs(".repeat(n), ")".repeat(n))),
        ("coalesce", around(n, "coalesce(null, ", "1", ")")),
        ("greatest", around(n, "greatest(0, ", "1", ")")),
        ("nullif", around(n, "nullif(", "1", ", 2)")),
        ("rows", around(n, "row(", "1", ")")),
        ("rows compared", format!("select {0}1{1} = {0}1{1}", "row(".repeat(n), ")".repeat(n))),
        ("arrays", around(n, "array[", "1", "]")),
        ("arrays in rows", around(n, "row(array[", "1", "])")),
        ("is null", format!("select 1{}", " is null".repeat(n))),
        ("isnull", format!("select 1{}", " isnull".repeat(n))),
        ("is true", format!("select true{}", " is true".repeat(n))),
        ("is distinct", around(n, "(", "true", " is distinct from false)")),
        ("collate", format!("select 'a'{}", " collate \"C\"".repeat(n))),
        ("like", around(n, "('a' like ", "'a'", ")::text")),
        ("at time zone", format!("select now(){}", " at time zone 'utc'".repeat(n))),
        ("operator()", format!("select 1{}", " operator(pg_catalog.+) 1".repeat(n))),
        ("in", around(n, "1 in (select 1 where ", "true", ")")),
        ("not in", around(n, "1 not in (select 2 where ", "true", ")")),
        ("= any", around(n, "true = any (array[", "true", "])")),
        ("> all", around(n, "true >= all (select ", "true", ")")),
        ("row in", around(n, "(1, true) in (select 1, ", "true", ")")),
        ("values of queries", around(n, "(select ", "1", ")")),
        (
            "values of queries of columns",
            format!("select {}a{} from t", "(select ".repeat(n), " + a)".repeat(n)),
        ),
        ("exists", around(n, "exists (select 1 where ", "true", ")")),
        (
            "exists of columns",
            format!(
                "select a from t where {}true{}",
                "exists (select 1 from t where a = 1 and ".repeat(n),
                ")".repeat(n)
            ),
        ),
        ("array of a query", around(n, "cardinality(array(select ", "1", "))")),
        ("from", around(n, "* from (select ", "1 as a", ") s")),
        ("from with a limit", around(n, "* from (select ", "1 as a", " limit 1) s")),
        ("from with an order", around(n, "* from (select ", "1 as a", " order by a) s")),
        ("from with groups", around(n, "a from (select ", "1 as a", ") s group by a")),
        (
            "from with a window",
            around(n, "a, row_number() over (order by a) from (select ", "1 as a", ") s"),
        ),
        ("distinct", around(n, "distinct a from (select ", "1 as a", ") s")),
        ("aggregates", around(n, "max(a) as a from (select ", "1 as a", ") s")),
        ("lateral", around(tables, "* from (values (1)) v, lateral (select ", "1 as a", ") s")),
        ("union", format!("select 1{}", " union select 1".repeat(n))),
        ("union all", format!("select 1{}", " union all select 1".repeat(n))),
        (
            "union all of tables",
            format!("select a from t{}", " union all select a from t".repeat(n)),
        ),
        ("intersect", format!("select 1{}", " intersect select 1".repeat(n))),
        ("except", format!("select 1{}", " except select 2".repeat(n))),
        (
            "union to the right",
            format!("{}select 1{}", "select 1 union all (".repeat(n), ")".repeat(n)),
        ),
        (
            "except to the right",
            format!("{}select 1{}", "select 1 except all (".repeat(n), ")".repeat(n)),
        ),
        ("brackets of a query", format!("{}select 1{}", "(".repeat(n), ")".repeat(n))),
        ("values", format!("select count(*) from (values (1){}) v", ", (1)".repeat(n))),
        ("list", format!("select 1 where 1 in (2{})", ", 3".repeat(n))),
        ("list of columns", format!("select a from t where a in (2{})", ", a".repeat(n))),
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
            "with unions",
            chain(
                n,
                "x0 as materialized (select 1 as a)",
                "x{n} as materialized (select a from x{p} union select 2)",
            ),
        ),
        (
            "with windows",
            chain(
                n,
                "x0 as (select 1 as a)",
                "x{n} as (select row_number() over (order by a) as a from x{p})",
            ),
        ),
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
        (
            "with recursive",
            chain(
                n,
                "recursive x0 as (select 1 as a)",
                "x{n} as (select a from x{p} union select a + 1 from x{n} where a < 2)",
            ),
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
        ("fields", format!("select {}1{}", "(row(".repeat(n), ")).f1".repeat(n))),
        ("dimensions", format!("select null::int{}", "[]".repeat(n))),
        ("filter", around(n, "(select count(*) filter (where ", "true", ") > 0)")),
        ("order by", format!("select a from t order by a{}", " + 1".repeat(n))),
        ("group by", format!("select 1 from t group by a{}", " + 1".repeat(n))),
        ("windows", {
            let named: String = (1..n).map(|at| format!(", w{at} as (w{})", at - 1)).collect();
            format!("select count(*) over w{} from t window w0 as (partition by a){named}", n - 1)
        }),
        ("limit", format!("select a from t limit 1{}", " + 1".repeat(n))),
        ("json", format!("select '{}{}'::jsonb is null", "[".repeat(n), "]".repeat(n))),
        (
            "json of objects",
            format!("select '{}1{}'::json is null", "{\"a\":".repeat(n), "}".repeat(n)),
        ),
        ("json built", around(n, "jsonb_build_array(", "1", ")")),
        ("json text built", around(n, "json_build_object('a', ", "1", ")")),
        ("json steps", format!("select '{{}}'::jsonb{}", " -> 'a'".repeat(n))),
        (
            "json path",
            format!("select jsonb_path_exists('1', '{}1{} == 1')", "(".repeat(n), ")".repeat(n)),
        ),
        ("json path steps", format!("select jsonb_path_exists('1', '${}')", ".a".repeat(n))),
        ("json path sum", format!("select jsonb_path_query('1', '$ {}')", "+ 1".repeat(n))),
        (
            "json path filters",
            format!("select jsonb_path_exists('1', '${}')", "?(@ == 1)".repeat(n)),
        ),
        (
            "json path in filters",
            format!("select jsonb_path_exists('1', '${}@ == 1{}')", "?(".repeat(n), ")".repeat(n)),
        ),
        (
            "json path not",
            format!("select jsonb_path_exists('1', '{}($ == 1){}')", "!(".repeat(n), ")".repeat(n)),
        ),
        ("json path signs", format!("select jsonb_path_query('1', '{}1')", "-".repeat(n))),
        ("array of text", format!("select '{}1{}'::int[]", "{".repeat(n), "}".repeat(n))),
        ("pattern", format!("select 'a' ~ '{}a{}'", "(".repeat(n), ")".repeat(n))),
        (
            "pattern of alternatives",
            format!("select 'a' ~ '{}a{}'", "(b|".repeat(n), ")".repeat(n)),
        ),
        ("pattern repeated", format!("select 'a' ~ '{}a{}'", "(".repeat(n), "{1,2})".repeat(n))),
        ("pattern of stars", format!("select 'a' ~ '{}a{}'", "(?:".repeat(n), ")*".repeat(n))),
        ("long pattern", format!("select 'a' ~ 'b{}'", "|a".repeat(n))),
        ("look ahead", format!("select 'a' ~ '{}a{}'", "(?=".repeat(n), ")".repeat(n))),
        ("similar to", format!("select 'a' similar to '{}a{}'", "(".repeat(n), ")".repeat(n))),
        ("comments", format!("select 1 {}{}", "/*".repeat(n), "*/".repeat(n))),
        ("number", format!("select 1{}", "0".repeat(n))),
        (
            "values read deep",
            format!(
                "with recursive r as (select '1'::jsonb as j, 1 as n union all \
             select jsonb_build_array(j), n + 1 from r where n < {n}) select count(*) from r"
            ),
        ),
        (
            "rows read deep",
            format!(
                "with recursive r as (select row(1) as v, 1 as n union all \
                 select row(v), n + 1 from r where n < {n}) select max(length(v::text)) from r"
            ),
        ),
        ("calls itself", format!("select f({n})")),
        ("functions of a user", around(n, "g(", "1", ")")),
    ];
    all.extend([
        ("join", joined(tables, "join", "t")),
        ("join of queries", joined(tables, "join", "(select 1 as a)")),
        ("left join", joined(tables, "left join", "t")),
        ("full join", joined(tables, "full join", "t")),
        ("join to the right", joined_to_the_right(tables, "join")),
        ("left join to the right", joined_to_the_right(tables, "left join")),
        ("full join to the right", joined_to_the_right(tables, "full join")),
        ("natural join", {
            let more: String = (1..tables).map(|at| format!(" natural join t t{at}")).collect();
            format!("select count(*) from t t0{more}")
        }),
    ]);
    all
}

/// Returns statements of `n` levels that are no queries.
#[expect(clippy::too_many_lines, reason = "one table of statements")]
fn changes(n: usize) -> Vec<(&'static str, String)> {
    vec![
        ("insert", format!("insert into u select 1{}", " union all select 1".repeat(n))),
        ("insert of values", format!("insert into u values (1{})", " + 1".repeat(n))),
        ("insert of rows", format!("insert into u values (1){}", ", (1)".repeat(n))),
        ("update", format!("update u set a = a{}", " + 0".repeat(n))),
        (
            "update of a query",
            format!("update u set a = {}1{}", "(select ".repeat(n), ")".repeat(n)),
        ),
        ("delete", format!("delete from u where a = 0{}", " + 0".repeat(n))),
        ("returning", format!("insert into u values (1) returning a{}", " + 0".repeat(n))),
        (
            "merge",
            format!(
                "merge into u using t on u.a = t.a when matched then update set a = t.a{}",
                " + 0".repeat(n)
            ),
        ),
        (
            "changes in with",
            chain(
                n.min(300),
                "x0 as (insert into u values (1) returning a)",
                "x{n} as (insert into u select a from x{p} returning a)",
            ),
        ),
        (
            "default",
            format!(
                "create table d (a int default 1{}); insert into d default values; \
                 select pg_get_expr(adbin, adrelid) from pg_attrdef where adrelid = 'd'::regclass; \
                 drop table d",
                " + 1".repeat(n)
            ),
        ),
        (
            "check",
            format!(
                "create table d (a int check (a > 0{})); insert into d values (1); \
                 select pg_get_constraintdef(oid) from pg_constraint where conrelid = 'd'::regclass; \
                 drop table d",
                " + 0".repeat(n)
            ),
        ),
        (
            "check of brackets",
            format!(
                "create table d (a int check ({}a > 0{})); insert into d values (1); drop table d",
                "not (".repeat(n),
                ")".repeat(n)
            ),
        ),
        (
            "generated",
            format!(
                "create table d (a int, b int generated always as (a{}) stored); \
                 insert into d values (1); drop table d",
                " + 1".repeat(n)
            ),
        ),
        (
            "index",
            format!(
                "create index i on t ((a{})); select pg_get_indexdef('i'::regclass); drop index i",
                " + 1".repeat(n)
            ),
        ),
        (
            "partial index",
            format!(
                "create index i on t (a) where a > 0{}; insert into t values (2); \
                 delete from t where a = 2; drop index i",
                " + 0".repeat(n)
            ),
        ),
        (
            "domain",
            format!(
                "create domain dom as int check (value > 0{}); select 1::dom; drop domain dom",
                " + 0".repeat(n)
            ),
        ),
        (
            "trigger",
            format!(
                "create table d (a int); create function tf() returns trigger language plpgsql as \
                 $$ begin new.a := new.a{}; return new; end $$; \
                 create trigger tr before insert on d for each row when (new.a > 0{}) \
                 execute function tf(); insert into d values (1); drop table d; drop function tf()",
                " + 1".repeat(n),
                " + 0".repeat(n)
            ),
        ),
        ("copy", format!("copy (select 1{}) to stdout", " + 1".repeat(n))),
        (
            "cursor",
            format!("begin; declare c cursor for select 1{}; fetch c; commit", " + 1".repeat(n)),
        ),
        (
            "table of rows",
            format!("create temp table q as select 1{} as a; drop table q", " + 1".repeat(n)),
        ),
        (
            "materialized view",
            format!(
                "create materialized view mv as select a{} as b from t; refresh materialized view mv; \
                 drop materialized view mv",
                " + 1".repeat(n)
            ),
        ),
        (
            "savepoints",
            format!(
                "begin; {} insert into u values (1); commit",
                "savepoint s;".repeat(n.min(20_000))
            ),
        ),
        (
            "cascade along a table",
            format!(
                "create table d (id int primary key, p int references d on delete cascade); \
                 insert into d select g, nullif(g - 1, 0) from generate_series(1, {n}) g; \
                 create index on d (p); delete from d where id = 1; drop table d"
            ),
        ),
    ]
}

/// Returns chains of objects. Each object depends on the one before. A chain has its first
/// statement, the next ones, and the queries on the chain. `{n}` is a link's number, `{p}` the
/// number of the one before. `{signs}` makes an expression deep by itself.
#[expect(clippy::too_many_lines, reason = "one table of statements")]
fn objects() -> Vec<(&'static str, &'static str, &'static str, &'static [&'static str])> {
    vec![
        (
            "views",
            "create view c0 as select 1 as a",
            "create view c{n} as select a from c{p}",
            &[
                "select * from c{n}",
                "explain select * from c{n}",
                "select length(pg_get_viewdef('c{n}'::regclass))",
                "update c{n} set a = 1",
                "drop view c0 cascade",
            ],
        ),
        (
            "views of a table",
            "create table vt (a int); create view c0 as select a from vt",
            "create view c{n} as select a from c{p} limit 1",
            &[
                "select * from c{n}",
                "alter table vt rename column a to b",
                "alter table vt drop column b cascade",
                "drop table vt cascade",
            ],
        ),
        (
            "views to write to",
            "create table vt (a int); create view c0 as select a from vt",
            "create view c{n} as select a from c{p} where a > 0 with check option",
            &["insert into c{n} values (1)", "update c{n} set a = 2", "drop table vt cascade"],
        ),
        (
            "deep columns of views",
            "create table vt (a int, b int); create view c0 as select a, b from vt",
            "create view c{n} as select {signs}a as a, b from c{p}",
            &[
                "select * from c{n}",
                "select * from c{n} where a > 0",
                "update c{n} set b = 1 where a > 0",
                "drop table vt cascade",
            ],
        ),
        (
            "functions of deep expressions",
            "create function h0(n int) returns int language sql immutable as 'select {signs}n'",
            "create function h{n}(n int) returns int language sql immutable as \
             'select {signs}h{p}({signs}n)'",
            &["select h{n}(1)", "select h{n}(a) from t", "drop function h0(int) cascade"],
        ),
        (
            "functions",
            "create function h0(n int) returns int language sql as 'select n'",
            "create function h{n}(n int) returns int language sql as 'select h{p}(n) + 1'",
            &[
                "select h{n}(1)",
                "select h{n}(a) from t",
                "create view hv as select h{n}(1)",
                "drop function h0(int) cascade",
            ],
        ),
        (
            "functions that are run",
            "create function h0(n int) returns int language sql volatile as 'select n'",
            "create function h{n}(n int) returns int language sql volatile as \
             'insert into u values (n); select h{p}(n) + 1'",
            &["select h{n}(1)"],
        ),
        (
            "domains",
            "create domain m0 as int",
            "create domain m{n} as m{p} check (value > -{n})",
            &[
                "select 5::m{n}",
                "select '5'::m{n}",
                "create table mt (a m{n})",
                "insert into mt values (5)",
                "select * from mt",
                "drop domain m0 cascade",
            ],
        ),
        (
            "composite types",
            "create type k0 as (a int)",
            "create type k{n} as (x k{p})",
            &[
                "select null::k{n}",
                "create table kt (a k{n})",
                "insert into kt values (null)",
                "select '(1)'::k{n}",
                "drop type k0 cascade",
            ],
        ),
        (
            "composite types with two attributes of the one before",
            "create type k0 as (a int)",
            "create type k{n} as (x k{p}, y k{p})",
            &["select null::k{n}", "create table kt (a k{n})", "drop type k0 cascade"],
        ),
        (
            "arrays in composite types",
            "create type k0 as (a int)",
            "create type k{n} as (x k{p}[])",
            &["select null::k{n}", "select '(\"{}\")'::k{n}", "drop type k0 cascade"],
        ),
        (
            "foreign keys",
            "create table f0 (id int primary key); insert into f0 values (1)",
            "create table f{n} (id int primary key references f{p} on delete cascade \
             on update cascade); insert into f{n} values (1)",
            &[
                "update f0 set id = 2",
                "delete from f0",
                "truncate f0 cascade",
                "drop table f0 cascade",
            ],
        ),
        (
            "triggers",
            "create table g0 (a int)",
            "create table g{n} (a int); create function gf{n}() returns trigger language plpgsql as \
             'begin insert into g{p} values (new.a); return new; end'; \
             create trigger gt{n} before insert on g{n} for each row execute function gf{n}()",
            &["insert into g{n} values (1)", "drop table g0 cascade"],
        ),
        (
            "partitions",
            "create table p0 (a int) partition by range (a)",
            "create table p{n} partition of p{p} for values from (0) to (100) partition by range (a)",
            &[
                "create table pl partition of p{n} for values from (0) to (100)",
                "insert into p0 values (5)",
                "select * from p0",
                "update p0 set a = 6",
                "create index on p0 (a)",
                "alter table p0 add column b int",
                "analyze p0",
                "truncate p0",
                "drop table p0",
            ],
        ),
        (
            "materialized views",
            "create materialized view w0 as select 1 as a",
            "create materialized view w{n} as select a from w{p}",
            &["refresh materialized view w{n}", "drop materialized view w0 cascade"],
        ),
        (
            "tables like tables",
            "create table l0 (a int default 1)",
            "create table l{n} (like l{p} including all)",
            &["insert into l{n} default values"],
        ),
        (
            "prepared statements",
            "prepare s0 as select 1",
            "prepare s{n} as select 1",
            &["execute s{n}", "explain execute s{n}", "deallocate all"],
        ),
    ]
}

/// The part of the process that may die: it runs the statements and prints their answers.
struct Child {
    _database: Database,
    session: Session,
    only: Option<String>,
}

impl Child {
    fn new() -> Self {
        let database = Database::in_memory_without_threads().unwrap();
        let mut session = database.session();
        let begin = "create table t (a int); insert into t values (1); create table u (a int); \
             create function f(n int) returns int language sql as \
             'select case when n <= 0 then 0 else f(n - 1) + 1 end'; \
             create function g(n int) returns int language sql as 'select n + 1'; \
             set statement_timeout = '20s'";
        assert_eq!(run(&mut session, begin), "");
        Self { _database: database, session, only: std::env::var(ONLY).ok() }
    }

    /// Runs a text. The answer must be rows, or an error other than an internal one.
    fn answer(&mut self, name: &str, text: &str) -> bool {
        eprintln!("{name}: {} bytes", text.len());
        let found = run(&mut self.session, text);
        let failed = found.lines().find(|line| line.starts_with("error"));
        if let Some(failed) = failed {
            eprintln!("    {}", failed.get(..120).unwrap_or(failed));
            assert!(!failed.starts_with("error XX"), "{name}: {failed}");
        }
        failed.is_none()
    }

    /// Runs a statement that may leave a block or objects behind, and checks that the session can
    /// go on.
    fn goes_on(&mut self, name: &str, text: &str, clean: &str) {
        self.answer(name, text);
        let left = run(&mut self.session, &format!("rollback; {clean}"));
        assert!(!left.contains("error"), "{name}: {left}");
        assert_eq!(run(&mut self.session, "select 1"), "1", "{name}");
    }

    /// Runs a query in each way that a query can be executed.
    fn query(&mut self, name: &str, text: &str) {
        self.goes_on(name, text, "");
        self.goes_on(&format!("{name}, explained"), &format!("explain verbose {text}"), "");
        if text.len() > LONG_BYTES {
            // The other ways would meet nothing new.
            return;
        }
        let prepared = format!("prepare p as {text}; execute p; explain execute p");
        self.goes_on(&format!("{name}, prepared"), &prepared, "deallocate all");
        let view = format!(
            "create view v as select * from ({text}) as v(a); \
             select length(pg_get_viewdef('v'::regclass)); select * from v"
        );
        self.goes_on(&format!("{name}, a view"), &view, "drop view if exists v");
        let function = format!(
            "create function q() returns bigint language sql as $q$ select count(*) from ({text}) as v $q$; \
             select q()"
        );
        self.goes_on(&format!("{name}, a function"), &function, "drop function if exists q");
    }

    fn all(&mut self) {
        let levels = std::env::var(LEVELS).ok();
        let list: Vec<usize> = match &levels {
            Some(levels) => levels.split(',').map(|one| one.parse().unwrap()).collect(),
            None => LEVELS_OF_CI.to_vec(),
        };
        let wanted =
            |only: &Option<String>, name: &str| only.as_ref().is_none_or(|only| name == only);
        for level in list {
            for (name, text) in queries(level) {
                if wanted(&self.only, name) {
                    self.query(&format!("{level} × {name}"), &text);
                }
            }
            for (name, text) in changes(level) {
                if wanted(&self.only, name) {
                    let clean = "drop table if exists d, q cascade; drop function if exists tf; \
                         drop index if exists i; drop domain if exists dom; \
                         drop materialized view if exists mv; truncate u";
                    self.goes_on(&format!("{level} × {name}"), &text, clean);
                }
            }
            let links = if levels.is_some() { level.min(5_000) } else { LINKS_OF_CI };
            for (name, first, next, asked) in objects() {
                if level >= LINKS_OF_CI && wanted(&self.only, name) {
                    self.objects(&format!("{links} × {name}"), links, (first, next), asked);
                }
            }
        }
    }

    /// Creates, uses and drops a chain of objects.
    fn objects(&mut self, name: &str, links: usize, (first, next): (&str, &str), asked: &[&str]) {
        let signs = "- ".repeat(SIGNS);
        assert!(self.answer(name, &first.replace("{signs}", &signs)), "{name}");
        let mut last = 0;
        for link in 1..links {
            let text = next.replace("{n}", &link.to_string()).replace("{p}", &last.to_string());
            let text = text.replace("{signs}", &signs);
            let found = run(&mut self.session, &text);
            if found.starts_with("error") {
                // A limit was reached: the links before it are used.
                eprintln!("    link {link}: {found}");
                break;
            }
            last = link;
        }
        for text in asked {
            self.answer(name, &text.replace("{n}", &last.to_string()));
        }
        assert_eq!(run(&mut self.session, "select 1"), "1", "{name}");
        // The next kind of object uses the same names.
        *self = Self::new();
    }
}

/// Runs all statements in a process that may die.
fn in_child() {
    let mut child = Child::new();
    if child.only.is_none() {
        assert_eq!(run(&mut child.session, "set statement_timeout = 0"), "");
        for (name, text) in answered() {
            assert!(child.answer(&format!("answered: {name}"), &text), "{name} is refused");
        }
    }
    let timeout = if std::env::var_os(LEVELS).is_some() { "20s" } else { "1s" };
    let set = format!("set statement_timeout = '{timeout}'");
    assert_eq!(run(&mut child.session, &set), "");
    child.all();
}

#[test]
fn the_process_survives_every_deep_statement() {
    if let Ok(stack) = std::env::var(STACK) {
        let bytes = stack.parse().unwrap();
        thread::spawn_with_stack("deep", bytes, in_child).unwrap().join().unwrap();
        return;
    }
    let name = "the_process_survives_every_deep_statement";
    // Both processes run at once, because each has one working thread.
    let children = [256 << 10, 8 << 20].map(|bytes: usize| {
        let mut child = Command::new(std::env::current_exe().unwrap());
        let child = child.args(["--exact", name, "--nocapture"]).env(STACK, bytes.to_string());
        let child = child.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        (bytes, std::thread::spawn(|| child.wait_with_output().unwrap()))
    });
    for (bytes, child) in children {
        let output = child.join().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let last: Vec<&str> = said.lines().rev().take(8).collect();
        assert!(output.status.success(), "{bytes} bytes: {:?} after {last:#?}", output.status);
    }
}
