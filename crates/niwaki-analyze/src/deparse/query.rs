//! Writes queries as text.

use niwaki_env::stack;
use niwaki_expr::context::ExecContext;
use niwaki_expr::expr::{Expr, ExprKind, Nested, Quantifier, SubQuery, SubQueryKind};
use niwaki_expr::query::{
    Body, Distinct, GroupingClause, GroupingItem, ItemKind, Query, Select, SetKind, SetOperation,
    SetSide, SharedQuery,
};
use niwaki_txn::WaitPolicy;
use niwaki_types::{Datum, TypeOid, quote_identifier};

use super::Level;
use super::expression::{Parent, Writer};
use super::from_clause::write_from;
use super::level::{Row, direction, slot_names, sort_key};
use super::lines::{ITEM, Lines, STEP};

/// The style and the context of a whole text.
pub(super) struct Style<'s, 'e> {
    /// True to leave out needless brackets.
    pub(super) pretty: bool,
    pub(super) shared: &'s [SharedQuery],
    pub(super) exec: &'s ExecContext<'e>,
}

impl<'s, 'e> Style<'s, 'e> {
    pub(super) fn writer<'w>(&'w self, level: &'w Level<'w>, indent: usize) -> Writer<'w, 'e>
    where
        's: 'w,
    {
        Writer::over(level, self.pretty, indent, self.exec)
    }
}

/// Writes the query of a view, with its WITH queries.
pub(super) fn whole(
    query: &Query,
    shared: &[SharedQuery],
    pretty: bool,
    exec: &ExecContext<'_>,
) -> String {
    let style = Style { pretty, shared, exec };
    let mut out = Lines::default();
    let mut named = Vec::new();
    named_queries(query, shared, &mut named);
    named.sort_unstable();
    write_with(&mut out, &named, &style);
    let names: Vec<&str> = query.columns.iter().map(|column| column.name.as_str()).collect();
    write_query(&mut out, query, Some(&names), None, &style);
    out.push(";");
    out.text
}

/// Collects the numbers of the WITH queries that a query names, directly or through another WITH
/// query. WITH queries of views in FROM are not among them: each view has its own.
fn named_queries(query: &Query, shared: &[SharedQuery], found: &mut Vec<usize>) {
    if let Body::Select(select) = &query.body {
        for item in &select.from.items {
            match &item.kind {
                ItemKind::Shared { number } | ItemKind::Working { number }
                    if !found.contains(number) =>
                {
                    found.push(*number);
                    if let Some(with) = shared.get(*number) {
                        named_queries(&with.query, shared, found);
                    }
                }
                ItemKind::Query(inner) if item.view.is_none() => {
                    named_queries(inner, shared, found);
                }
                _ => {}
            }
        }
    }
    if let Body::Set(set) = &query.body {
        named_queries(&set.left.query, shared, found);
        named_queries(&set.right.query, shared, found);
    }
    let mut inside = Vec::new();
    query.for_each_expr(&mut |expr| sub_queries(expr, &mut inside));
    for query in inside {
        named_queries(query, shared, found);
    }
}

fn sub_queries<'q>(expr: &'q Expr, into: &mut Vec<&'q Query>) {
    if let ExprKind::SubQuery(sub) = &expr.kind
        && let Nested::Query(query) = &sub.query
    {
        into.push(query);
    }
    expr.for_each_child(&mut |child| sub_queries(child, into));
}

fn write_with(out: &mut Lines, named: &[usize], style: &Style<'_, '_>) {
    if named.is_empty() {
        return;
    }
    let with = || named.iter().filter_map(|number| style.shared.get(*number));
    let recursive =
        |with: &SharedQuery| matches!(&with.query.body, Body::Set(set) if set.recursive.is_some());
    out.push(if with().any(recursive) { " WITH RECURSIVE " } else { " WITH " });
    for (number, with) in with().enumerate() {
        if number > 0 {
            out.push(", ");
        }
        out.push(&quote_identifier(&with.name));
        if !with.aliases.is_empty() {
            let aliases: Vec<String> =
                with.aliases.iter().map(|name| quote_identifier(name)).collect();
            out.push(&format!("({})", aliases.join(", ")));
        }
        out.push(match with.materialized {
            None => " AS (",
            Some(true) => " AS MATERIALIZED (",
            Some(false) => " AS NOT MATERIALIZED (",
        });
        let mut inner = Lines { text: String::new(), indent: STEP };
        let own: Vec<&str> = with.own_names.iter().map(String::as_str).collect();
        let renamed = matches!(with.query.body, Body::Select(_)) && !with.aliases.is_empty();
        write_query(&mut inner, &with.query, renamed.then_some(&*own), None, style);
        out.line(STEP);
        out.push(&inner.text);
        out.line(STEP);
        out.push(")");
    }
    out.line(0);
}

/// Writes a query. `names` are the column names that the reader of the query sees. Without `names`,
/// the query's own names are shown, and each side of a set operation shows its own.
pub(super) fn write_query(
    out: &mut Lines,
    query: &Query,
    names: Option<&[&str]>,
    up: Option<&Level<'_>>,
    style: &Style<'_, '_>,
) {
    stack::room(0, || write_query_here(out, query, names, up, style));
}

fn write_query_here(
    out: &mut Lines,
    query: &Query,
    names: Option<&[&str]>,
    up: Option<&Level<'_>>,
    style: &Style<'_, '_>,
) {
    let start = out.indent;
    match &query.body {
        Body::Select(select) => {
            let own: Vec<&str> = query.columns.iter().map(|column| column.name.as_str()).collect();
            write_select(out, query, select, names.unwrap_or(&own), up, style);
        }
        Body::Values(rows) => {
            write_values(out, query, rows, names, up, style);
        }
        Body::Set(set) => {
            write_set(out, set, names, up, style);
            write_bounds(out, query, &numbered_keys(query), up, style);
        }
        Body::Modify(_) => {}
    }
    out.indent = start;
}

/// Writes a query that is nested in an expression.
pub fn nested(sub: &SubQuery, writer: &Writer<'_, '_>) -> Option<String> {
    let Nested::Query(query) = &sub.query else { return None };
    let level = writer.level()?;
    let style = Style { pretty: writer.is_pretty(), shared: level.shared, exec: writer.exec() };
    let mut inner = Lines { text: String::new(), indent: writer.indent() };
    write_query(&mut inner, query, None, Some(level), &style);
    let text = inner.text;
    Some(match &sub.kind {
        SubQueryKind::Exists => format!("(EXISTS ({text}))"),
        SubQueryKind::Scalar | SubQueryKind::Assigned { .. } => format!("({text})"),
        SubQueryKind::Array => format!("ARRAY({text})"),
        SubQueryKind::Compare { function, any, left, .. } => {
            let left = writer.show(left, Parent::Operator(function.name, true));
            let quantifier = if *any { Quantifier::Any } else { Quantifier::All };
            format!("({left} {} ({text}))", comparison_word(function.name, quantifier))
        }
        SubQueryKind::CompareRows(rows) => {
            let left: Vec<String> =
                rows.left.iter().map(|part| writer.show(part, Parent::None)).collect();
            let word = comparison_word(rows.operator(), rows.with);
            format!("(({}) {word} ({text}))", left.join(", "))
        }
    })
}

fn comparison_word(operator: &str, with: Quantifier) -> String {
    match (operator, with) {
        ("=", Quantifier::Any) => "IN".to_owned(),
        (name, Quantifier::Any) => format!("{name} ANY"),
        (name, Quantifier::All) => format!("{name} ALL"),
        (name, Quantifier::Only) => name.to_owned(),
    }
}

/// Joins conditions into one AND.
pub(super) fn conjunction(parts: &[Expr]) -> Option<Expr> {
    match parts {
        [] => None,
        [one] => Some(one.clone()),
        parts => Some(Expr::new(ExprKind::And(parts.to_vec()), TypeOid::BOOL, -1)),
    }
}

fn write_select(
    out: &mut Lines,
    query: &Query,
    select: &Select,
    names: &[&str],
    up: Option<&Level<'_>>,
    style: &Style<'_, '_>,
) {
    let row = Row::From(slot_names(&select.from, style.shared));
    let windowing = Some(&select.windowing);
    let below = Level { up, row, sets: &select.sets, windowing, shared: style.shared };
    let grouped = select.grouping.as_ref().map(|grouping| Level {
        up,
        row: Row::Groups { grouping, below: &below },
        sets: &select.sets,
        windowing,
        shared: style.shared,
    });
    let level = grouped.as_ref().unwrap_or(&below);
    out.indent += STEP;
    out.push(" SELECT ");
    let indent = out.indent;
    let key = |target: usize| match select.targets.get(target) {
        Some(expr) => sort_key(expr, &style.writer(level, indent)),
        None => "?".to_owned(),
    };
    match &select.distinct {
        Distinct::None => {}
        Distinct::Rows => out.push("DISTINCT "),
        Distinct::On { targets, .. } => {
            let keys: Vec<String> = targets.iter().map(|target| key(*target)).collect();
            out.push(&format!("DISTINCT ON ({}) ", keys.join(", ")));
        }
    }
    let visible = select.targets.iter().take(query.columns.len());
    for (number, target) in visible.enumerate() {
        let mut text = style.writer(level, indent).column(target);
        let own = level.column_name(target);
        if let Some(name) = names.get(number)
            && own.unwrap_or("?column?") != *name
        {
            text.push_str(&format!(" AS {}", quote_identifier(name)));
        }
        if number > 0 {
            out.push(",");
        }
        if text.starts_with('\n') {
            out.trim();
        } else if number > 0 {
            out.clause("", ITEM);
        }
        out.push(&text);
    }
    write_from(out, &select.from, &below, style);
    if let Some(condition) = conjunction(&select.from.conditions) {
        let text = style.writer(&below, indent).show(&condition, Parent::None);
        out.clause(" WHERE ", 1);
        out.push(&text);
    }
    if let Some(grouping) = &select.grouping {
        let written = grouping.groups.iter().take(grouping.written);
        let keys: Vec<String> =
            written.map(|group| sort_key(group, &style.writer(&below, indent))).collect();
        match &grouping.clause {
            Some(clause) => {
                out.clause(" GROUP BY ", 1);
                out.push(&grouping_clause(clause, &keys));
            }
            None if keys.is_empty() => {}
            None => {
                out.clause(" GROUP BY ", 1);
                out.push(&keys.join(", "));
            }
        }
        if let Some(having) = &grouping.having {
            let text = style.writer(level, indent).show(having, Parent::None);
            out.clause(" HAVING ", 0);
            out.push(&text);
        }
    }
    let keys: Vec<String> = query.order.iter().map(|order| key(order.target)).collect();
    write_bounds(out, query, &keys, up, style);
    for target in &select.locks {
        let item = select.from.items.iter().find(|item| item.slots.start == target.start);
        out.clause(&format!(" {}", target.lock.clause()), 0);
        if let Some(item) = item {
            out.push(&format!(" OF {}", quote_identifier(item.shown_name())));
        }
        out.push(match target.wait {
            WaitPolicy::Block => "",
            WaitPolicy::Skip => " SKIP LOCKED",
            WaitPolicy::NoWait => " NOWAIT",
        });
    }
    out.indent -= STEP;
}

/// Writes GROUP BY with grouping sets; `keys` are the texts of the group expressions.
fn grouping_clause(clause: &GroupingClause, keys: &[String]) -> String {
    let items = clause.items.iter().map(|item| grouping_item(item, keys, true));
    let items = items.collect::<Vec<_>>().join(", ");
    if clause.distinct { format!("DISTINCT {items}") } else { items }
}

/// Writes a part of that GROUP BY. `bare`: a single expression needs no brackets.
fn grouping_item(item: &GroupingItem, keys: &[String], bare: bool) -> String {
    let list = |items: &[GroupingItem], bare: bool| {
        items.iter().map(|item| grouping_item(item, keys, bare)).collect::<Vec<_>>().join(", ")
    };
    match item {
        GroupingItem::Simple(groups) => {
            let keys = groups.iter().map(|group| keys.get(*group).map_or("?", String::as_str));
            let text = keys.collect::<Vec<_>>().join(", ");
            if bare && groups.len() == 1 { text } else { format!("({text})") }
        }
        GroupingItem::Rollup(items) => format!("ROLLUP({})", list(items, true)),
        GroupingItem::Cube(items) => format!("CUBE({})", list(items, true)),
        GroupingItem::Sets(items) => format!("GROUPING SETS ({})", list(items, false)),
    }
}

/// Writes ORDER BY, OFFSET and LIMIT.
fn write_bounds(
    out: &mut Lines,
    query: &Query,
    keys: &[String],
    up: Option<&Level<'_>>,
    style: &Style<'_, '_>,
) {
    let keys: Vec<String> = query
        .order
        .iter()
        .zip(keys)
        .map(|(order, key)| format!("{key}{}", direction(order.descending, order.nulls_first)))
        .collect();
    if !keys.is_empty() {
        out.clause(" ORDER BY ", 1);
        out.push(&keys.join(", "));
    }
    // OFFSET and LIMIT read no row of their own query.
    let nothing =
        Level { up, row: Row::From(Vec::new()), sets: &[], windowing: None, shared: style.shared };
    for (word, bound) in [(" OFFSET ", &query.offset), (" LIMIT ", &query.limit)] {
        if let Some(bound) = bound {
            let text = match &bound.kind {
                // The type of these constants is always `bigint`, so it is not shown.
                ExprKind::Const(Datum::Int8(number)) if *number >= 0 => number.to_string(),
                _ => style.writer(&nothing, out.indent).show(bound, Parent::None),
            };
            out.clause(word, 0);
            out.push(&text);
        }
    }
}

/// Returns the sort keys of a query whose keys are columns, as numbers of columns.
fn numbered_keys(query: &Query) -> Vec<String> {
    query.order.iter().map(|key| (key.target + 1).to_string()).collect()
}

/// Writes VALUES with its order and bounds. VALUES itself has no place for other column names than
/// `column1` and so on: a query around it gives them.
fn write_values(
    out: &mut Lines,
    query: &Query,
    rows: &[Vec<Expr>],
    names: Option<&[&str]>,
    up: Option<&Level<'_>>,
    style: &Style<'_, '_>,
) {
    let nothing =
        Level { up, row: Row::From(Vec::new()), sets: &[], windowing: None, shared: style.shared };
    out.indent += STEP;
    let writer = style.writer(&nothing, out.indent);
    let rows = rows.iter().map(|row| {
        let values: Vec<String> = row.iter().map(|value| writer.column(value)).collect();
        format!("({})", values.join(","))
    });
    let values = format!("VALUES {}", rows.collect::<Vec<_>>().join(", "));
    let own = |number: usize| format!("column{}", number + 1);
    let named =
        names.filter(|names| names.iter().enumerate().any(|(number, name)| *name != own(number)));
    let Some(names) = named else {
        out.push(&format!(" {values}"));
        return write_bounds(out, query, &numbered_keys(query), up, style);
    };
    let column = |number: usize| format!("\"*VALUES*\".{}", own(number));
    out.push(" SELECT ");
    for (number, name) in names.iter().enumerate() {
        if number > 0 {
            out.push(",");
            out.clause("", ITEM);
        }
        out.push(&column(number));
        if *name != own(number) {
            out.push(&format!(" AS {}", quote_identifier(name)));
        }
    }
    out.clause(" FROM ", 2);
    out.push(&format!("({values}) \"*VALUES*\""));
    let keys: Vec<String> = query.order.iter().map(|key| column(key.target)).collect();
    write_bounds(out, query, &keys, up, style);
}

fn write_set(
    out: &mut Lines,
    set: &SetOperation,
    names: Option<&[&str]>,
    up: Option<&Level<'_>>,
    style: &Style<'_, '_>,
) {
    let nested = |side: &SetSide| match &side.query.body {
        Body::Set(inner) if is_bare(&side.query) => {
            Some(inner.kind == set.kind && inner.all == set.all)
        }
        _ => None,
    };
    // An operation of the same kind on the left needs no brackets.
    let bracketed = nested(&set.left) == Some(false);
    write_side(out, &set.left, bracketed, names, up, style);
    let start = out.indent;
    if bracketed {
        out.push(" ");
    } else {
        out.line(start);
    }
    out.push(match set.kind {
        SetKind::Union => "UNION ",
        SetKind::Intersect => "INTERSECT ",
        SetKind::Except => "EXCEPT ",
    });
    if set.all {
        out.push("ALL ");
    }
    let bracketed = nested(&set.right).is_some();
    if !bracketed {
        out.line(start);
    }
    write_side(out, &set.right, bracketed, names, up, style);
}

/// Returns true if a query has no ORDER BY, LIMIT or OFFSET.
fn is_bare(query: &Query) -> bool {
    query.order.is_empty() && query.limit.is_none() && query.offset.is_none()
}

fn write_side(
    out: &mut Lines,
    side: &SetSide,
    bracketed: bool,
    names: Option<&[&str]>,
    up: Option<&Level<'_>>,
    style: &Style<'_, '_>,
) {
    let start = out.indent;
    if bracketed {
        out.push("(");
        out.line(start + STEP);
        out.indent = start + STEP;
    }
    let inner_bracket = !bracketed && !is_bare(&side.query);
    if inner_bracket {
        out.push("(");
    }
    // A side stands on the level of the operation, so both have the same outer level.
    write_query(out, &side.query, names, up, style);
    if inner_bracket {
        out.push(")");
    }
    if bracketed {
        out.indent = start;
        out.line(start);
        out.push(")");
    }
}
