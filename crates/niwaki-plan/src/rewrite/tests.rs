//! Tests of the growth limits, and of the limit on computing constants.

use niwaki_analyze::analyze::Analyzer;
use niwaki_expr::analysis::AnalyzeContext;
use niwaki_expr::expr::ExprKind;
use niwaki_expr::query::{Body, DEPTH_MAX, Query, StatementBody, StatementQuery, depth};
use niwaki_expr::sessionless::analyze_context;

use super::{Values, rewrite};

/// Returns a statement after rewriting.
fn rewritten(sql: &str) -> StatementQuery {
    let mut statement = analyzed(sql);
    rewrite(&mut statement, &mut Values::new(&[])).unwrap();
    statement
}

/// Returns a statement before rewriting.
fn analyzed(sql: &str) -> StatementQuery {
    let context = AnalyzeContext { stored: false, ..analyze_context(0) };
    let parsed = niwaki_parse::parse::parse(sql).unwrap();
    let mut analyzer = Analyzer::new(&context, sql, Vec::new());
    analyzer.statement_query(&parsed[0].node).unwrap().0
}

#[test]
fn a_condition_with_any_construct_is_a_copy_of_itself_alone() {
    for query in [
        "select 1",
        "select 1 union select 2",
        "values (1), (2)",
        "select b from generate_series(1, 2) with ordinality f(b)",
        "select rank() over (partition by b order by c rows 1 preceding) from (select 1, 2) u(b, c)",
        "select count(*) filter (where b > 1) from (select 1) u(b) group by rollup (b)",
        "select generate_series(1, 2) offset 1",
        "select sum(b) over (order by b) from (values (a)) u(b)",
    ] {
        let asked = format!("a in ({query})");
        let sql = format!("select 1 from (values (1)) t(a) where {asked} and {asked}");
        let statement = analyzed(&sql);
        let StatementBody::Select(Query { body: Body::Select(select), .. }) = &statement.body
        else {
            panic!("{sql}")
        };
        let [one, other] = select.from.conditions.as_slice() else { panic!("{sql}") };
        assert!(one.is_copy_of(&one.clone()), "{sql}");
        assert!(!one.is_copy_of(other), "{sql}");
    }
}

/// Returns the number of expressions in a statement after rewriting.
fn length(sql: &str) -> usize {
    let statement = rewritten(sql);
    let StatementQuery { body: StatementBody::Select(query), shared } = &statement else {
        panic!("{sql}")
    };
    query.nodes() + shared.iter().map(|shared| shared.query.nodes()).sum::<usize>()
}

/// Nests `level` repeatedly: each level replaces `{}` by the one before.
fn nested(levels: usize, level: &str) -> String {
    let innermost = "select a from (values (1), (2)) t(a)".to_owned();
    (0..levels).fold(innermost, |sql, _| level.replace("{}", &sql))
}

#[test]
fn what_is_read_twice_on_each_level_does_not_grow_without_bound() {
    // Twenty levels would otherwise become a million expressions.
    for level in [
        "select a + a as a from ({}) t",
        "select a from (select a + a as a from ({}) t) t where a + a > 0",
        "select distinct a + a as a from ({}) t where a > 0",
        "select a + a as a from ({}) t where a > 0 group by a + a",
        "select a from (select a + a as a from ({}) t) t union all select 1",
        "select a from (select a + a as a from ({}) t offset 0) t where a > 0",
        "select a from (select case when a > 0 then a else -a end as a from ({}) t) t",
        "select 1 - (select max(a + a) from ({}) t) as a",
    ] {
        let sql = nested(20, level);
        let length = length(&sql);
        assert!(length < 100_000, "{length} expressions of {level}");
    }
    let with: Vec<String> = (1..20)
        .map(|n| {
            let before = n - 1;
            format!("w{n} as not materialized (select * from w{before} union all table w{before})")
        })
        .collect();
    let sql = format!("with w0 as (select 1 as a), {} select a from w19", with.join(", "));
    assert!(length(&sql) < 100_000);
}

/// Returns the depth of the deepest expression in a query or its FROM queries.
fn deepest(query: &Query) -> usize {
    let mut found = 0_usize;
    query.for_each_expr(&mut |expr| found = found.max(depth(expr)));
    query.for_each_item_query(&mut |query| found = found.max(deepest(query)));
    found
}

#[test]
fn what_is_put_into_one_another_does_not_nest_without_bound() {
    let signs = "- ".repeat(100);
    for level in [
        format!("select {signs}a as a from ({{}}) t"),
        format!("select distinct {signs}a as a from ({{}}) t where a > 0"),
        format!("select {signs}a as a from ({{}}) t where a > 0 group by {signs}a"),
    ] {
        let StatementBody::Select(query) = rewritten(&nested(20, &level)).body else {
            panic!("{level}")
        };
        let found = deepest(&query);
        assert!(found <= DEPTH_MAX + 110, "{found} levels of {level}");
    }
    // 2 000 conditions on groups share one AND.
    let conditions = vec!["n <> 5"; 2_000].join(" and ");
    let groups = "select a, count(*) as n from (values (1), (2)) t(a) group by a";
    let statement = rewritten(&format!("select * from ({groups}) t where {conditions}"));
    let StatementBody::Select(query) = statement.body else { panic!("{conditions}") };
    assert!(deepest(&query) < 10);
}

#[test]
fn what_people_write_is_put_into_one_query() {
    let sql = nested(8, "select a + a as a from ({}) t");
    assert!(length(&sql) > 1 << 8);
}

#[test]
fn constants_of_a_statement_have_one_bound_together() {
    let _account = crate::early_evaluation::open_account();
    let constants = vec!["length(repeat('x', 900000))"; 300].join(", ");
    let statement = rewritten(&format!("select {constants}, 1 + 1"));
    let StatementBody::Select(query) = &statement.body else { panic!("{constants}") };
    let Body::Select(select) = &query.body else { panic!("{constants}") };
    let is_computed = select.targets.iter().map(|target| matches!(target.kind, ExprKind::Const(_)));
    let computed: Vec<bool> = is_computed.collect();
    let first = computed.iter().position(|computed| !computed).unwrap();
    assert!(first > 5, "{first}");
    // Once the time is used up, all further expressions are left unfolded, whatever they take.
    assert!(computed[first..].iter().all(|computed| !computed));
}
