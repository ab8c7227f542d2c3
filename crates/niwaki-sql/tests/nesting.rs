//! Checks that deeply nested statements end in a result or in 54001, never in a crash of the
//! process. Statements that join many tables can be interrupted.

use std::cell::Cell;
use std::sync::Arc;

use niwaki_catalog::{CatalogState, SearchPath};
use niwaki_sql::{AnalyzeContext, PlannerSettings, Result, SqlError, analyze, parse};
use niwaki_types::{TextSettings, TypeError, work};

/// Returns `None` when the statement was analyzed, else the SQLSTATE.
fn outcome(sql: &str) -> Option<&'static str> {
    outcome_unless(sql, &|| Ok(()))
}

/// Does the same, with interrupt checks by `interrupts`.
fn outcome_unless(sql: &str, interrupts: &dyn Fn() -> Result<()>) -> Option<&'static str> {
    let catalog = CatalogState::default();
    let path = SearchPath { schemas: Vec::new(), creation: None };
    let text = TextSettings::default();
    let context = AnalyzeContext {
        catalog: &catalog,
        path: &path,
        text: &text,
        now: 0,
        planner: PlannerSettings::default(),
        interrupts,
        clock: &|| 0,
        functions: None,
        stored: false,
    };
    let statements = match parse::parse(sql) {
        Ok(statements) => statements,
        Err(error) => return Some(error.sqlstate),
    };
    statements.iter().find_map(|s| analyze(s, &context, &[]).err()).map(|error| error.sqlstate)
}

#[test]
fn deep_statements_are_answered() {
    for depth in [10usize, 100, 400, 900, 2_000, 20_000, 100_000] {
        let wrapped = |open: &str, inner: &str, close: &str| {
            format!("select {}{inner}{}", open.repeat(depth), close.repeat(depth))
        };
        let statements = [
            wrapped("(", "1", ")"),
            wrapped("1 + (", "1", ")"),
            wrapped("abs(", "1", ")"),
            wrapped("not ", "true", ""),
            wrapped("- ", "1", ""),
            wrapped("(select ", "1", ")"),
            wrapped("case when true then ", "1", " end"),
            wrapped("1 + ", "1", ""),
            wrapped("array[", "1", "]"),
            wrapped("", "1", "::int"),
            wrapped("coalesce(1, ", "1", ")"),
            wrapped("true and (false or ", "true", ")"),
            format!(
                "select * from {}(values (1)) as t{}",
                "(select * from ".repeat(depth),
                ") as s".repeat(depth)
            ),
            format!("select 1{}", " union select 1".repeat(depth)),
            format!("select 1 where 1 in ({}1)", "1, ".repeat(depth)),
        ];
        for statement in statements {
            let found = outcome(&statement);
            assert!(
                matches!(
                    found,
                    None | Some("54001" | "0A000" | "42804" | "42725" | "42883" | "54000")
                ),
                "depth {depth}: {found:?} for {}…",
                &statement[..60.min(statement.len())]
            );
            if depth == 10 && !statement.contains("array") {
                assert_eq!(found, None, "{statement}");
            }
        }
    }
}

#[test]
fn planning_of_many_tables_is_interrupted() {
    for tables in [10, 60] {
        let items: Vec<String> = (0..tables)
            .map(|n| format!("(values ({n}, {0}), ({n}, {0})) t{n}(a, b)", n + 1))
            .collect();
        let joined: Vec<String> = (1..tables).map(|n| format!("t{}.b = t{n}.a", n - 1)).collect();
        let sql = format!("select 1 from {} where {}", items.join(", "), joined.join(" and "));
        let asked = Cell::new(0);
        let until = |most: usize| {
            asked.set(0);
            outcome_unless(&sql, &|| {
                asked.set(asked.get() + 1);
                if asked.get() < most { Ok(()) } else { Err(SqlError::new("57014", "cancelled")) }
            })
        };
        assert_eq!(until(usize::MAX), None, "{tables} tables");
        // At least once for each pair of tables.
        let all = asked.get();
        assert!(all >= tables * (tables - 1) / 2, "{tables} tables: asked {all} times");
        for at in [1, all / 2, all] {
            assert_eq!(until(at), Some("57014"), "{tables} tables, at {at} of {all}");
            assert_eq!(asked.get(), at, "{tables} tables");
        }
    }
}

#[test]
fn planning_of_what_nests_takes_no_time_of_its_own_for_each_level() {
    // If each level were planned in two ways to choose one, the planning would take 2^30 turns.
    let nested = |innermost: &str, level: &dyn Fn(usize, &str) -> String| {
        (0..30).rev().fold(innermost.to_owned(), |sql, number| level(number, &sql))
    };
    let item = |number: usize| format!("(values (1, 2), (3, 4)) t{number}(a, b)");
    let statements = [
        nested(&item(30), &|number, right| {
            let below = number + 1;
            format!("({} left join {right} on t{number}.b = t{below}.a)", item(number))
        }),
        nested("true", &|number, inner| {
            let around = if number == 0 { "1".to_owned() } else { format!("t{}.a", number - 1) };
            let own = format!("select 1 from {} where t{number}.a = {around}", item(number));
            format!("(exists ({own} and {inner}) or {around} = 7)")
        }),
        nested("select a, b as n from (values (1, 2), (3, 4)) t(a, b)", &|_, inner| {
            format!("select a, count(*) as n from ({inner}) t group by a order by a limit 10")
        }),
        nested("select a from (values (1), (2)) t(a)", &|number, inner| {
            format!("select a from ({inner} union all select {number}) t where a < 40")
        }),
    ];
    let [joins, exists, grouped, united] = &statements;
    for sql in [
        format!("select count(*) from {joins}"),
        format!("select {exists}"),
        grouped.clone(),
        united.clone(),
    ] {
        let asked = Cell::new(0);
        let found = outcome_unless(&sql, &|| {
            asked.set(asked.get() + 1);
            let enough = asked.get() > 200_000;
            if enough { Err(SqlError::new("57014", "cancelled")) } else { Ok(()) }
        });
        assert_eq!(found, None, "asked {} times: {}…", asked.get(), &sql[..60]);
        assert!(asked.get() >= 30, "asked {} times: {}…", asked.get(), &sql[..60]);
    }
}

#[test]
fn what_rewriting_puts_into_one_another_ends_no_process() {
    // Rewriting puts a hundred thousand levels into one another, while analysis saw only a
    // thousand.
    let signs = "- ".repeat(1_000);
    let innermost = "select a from (values (1), (2)) t(a)".to_owned();
    let sql = (0..100).fold(innermost, |sql, _| format!("select {signs}a as a from ({sql}) t"));
    let found = outcome(&format!("select count(*), sum(a) from ({sql}) t"));
    assert!(found.is_none_or(|sqlstate| sqlstate == "54001"), "{found:?}");
    // The comparison of two rows nests once for each entry.
    let ones = vec!["1"; 1_664].join(", ");
    assert_eq!(outcome(&format!("select ({ones}) < ({ones}), ({ones}) >= ({ones})")), None);
    let ones = vec!["1"; 100_000].join(", ");
    for compared in ["< (1)", "is null", "= (select 1)", "in (select 1)"] {
        let sql = format!("select ({ones}) {}", compared.replace("(1)", &format!("({ones})")));
        assert_eq!(outcome(&sql), Some("54011"), "{compared}");
    }
    let groups = "select a, count(*) as n from (values (1), (2)) t(a) group by a";
    let conditions = vec!["n <> 5"; 20_000].join(" and ");
    let found = outcome(&format!("select count(*) from ({groups}) t where {conditions}"));
    assert!(found.is_none_or(|sqlstate| sqlstate == "54001"), "{found:?}");
}

#[test]
fn what_analysis_writes_twice_counts_as_work() {
    // Eighteen levels give a million expressions, but the text has very few of them.
    for level in [
        "(({}, 1) < (2, 3))::int",
        "({} between 1 and 2)::int",
        "({} in (1, 2 + 3))::int",
        "({} between symmetric 1 and 2)::int",
    ] {
        let nested = (0..18).fold("1".to_owned(), |sql, _| level.replace("{}", &sql));
        let sql = format!("select {nested}");
        let refuses: work::Asker = Arc::new(|| Err(TypeError::new("57014", "cancelled")));
        let _asking = work::asking(Some(refuses));
        assert_eq!(outcome(&sql), Some("57014"), "{level}");
    }
}
