//! Compares the tables of functions with PostgreSQL's catalog and with `docs/functions.md`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;

use niwaki_expr::function::Eval;
use niwaki_parse::types::{ANY, format_oid};
use niwaki_types::TypeOid;

use super::tables::{GROUPS, OPERATORS};
use super::*;
use crate::aggregates::AGGREGATES;

/// PostgreSQL's functions and operators; the head of each file names its columns.
const POSTGRESQL_FUNCTIONS: &str = include_str!("../../testdata/pg_proc.tsv");
const POSTGRESQL_OPERATORS: &str = include_str!("../../testdata/pg_operator.tsv");

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/functions.md");

fn functions() -> impl Iterator<Item = &'static Function> {
    GROUPS.iter().flat_map(|(_, tables)| tables.iter().copied().flatten())
}

fn lines(file: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    file.lines().filter(|line| !line.starts_with("# ")).map(|line| line.split('\t').collect())
}

fn shown(oid: TypeOid) -> String {
    if oid == ANY { "\"any\"".to_owned() } else { format_oid(oid) }
}

fn signature(function: &Function) -> String {
    let mut arguments: Vec<String> = function.arguments.iter().map(|oid| shown(*oid)).collect();
    // PostgreSQL declares repeated arguments as their array.
    if let (true, Some(last)) = (function.variadic, function.arguments.last())
        && let Some(array) = niwaki_parse::types::array_of(*last)
    {
        arguments.pop();
        arguments.push(shown(array));
    }
    format!("{}({})", function.name, arguments.join(", "))
}

fn result(function: &Function) -> String {
    let set = if function.returns_set() { "setof " } else { "" };
    format!("{set}{}", shown(function.result))
}

#[test]
fn bodies_fit_their_signatures() {
    let operators = OPERATORS.iter().copied().flatten();
    let variadic = [text::format::VARIADIC, catalog::information::VARIADIC].into_iter().flatten();
    for function in functions().chain(operators).chain(variadic).chain(AGGREGATES) {
        match function.eval {
            Eval::Unary(_) => assert_eq!(function.arguments.len(), 1, "{function:?}"),
            Eval::Binary(_) => assert_eq!(function.arguments.len(), 2, "{function:?}"),
            _ => {}
        }
        if matches!(function.eval, Eval::Unary(_) | Eval::Binary(_)) {
            assert!(function.strict, "{function:?}");
        }
        if function.columns().is_some() {
            assert!(function.strict && function.result == T::RECORD, "{function:?}");
        }
    }
}

/// Functions here that are not in PostgreSQL's `pg_catalog`: words of the grammar, and functions of
/// extensions and of `information_schema`.
const ELSEWHERE: &[&str] = &[
    "_pg_expandarray",
    "current_date",
    "current_time",
    "localtime",
    "localtimestamp",
    "user",
    "pg_prewarm",
    "pg_visibility_map",
    "pg_visibility_map_summary",
];

#[test]
fn signatures_are_those_of_postgresql() {
    let mut known: HashMap<String, Vec<&str>> = HashMap::new();
    for fields in lines(POSTGRESQL_FUNCTIONS) {
        let mut signature = fields[1].to_owned();
        for left_out in 0..=fields[5].parse::<usize>().unwrap() {
            if left_out > 0 {
                let end = signature.rfind(", ").or(signature.rfind('(').map(|at| at + 1)).unwrap();
                signature = format!("{})", &signature[..end]);
            }
            known.insert(signature.clone(), fields[2..5].to_vec());
        }
    }
    assert!(known.len() > 2000);
    let mut wrong = Vec::new();
    for function in functions().chain(AGGREGATES) {
        if function.name.starts_with("niwaki_") || ELSEWHERE.contains(&function.name) {
            continue;
        }
        let strictness = if function.strict { "strict" } else { "nullable" };
        let found =
            [result(function), strictness.to_owned(), function.volatility.letter().to_owned()];
        match known.get(signature(function).as_str()) {
            Some(fields) if *fields == found => {}
            // The result depends on the session's time zone, so it must not be in an index.
            Some(_) if signature(function).starts_with("age(timestamp with time zone") => {}
            // The function reads the catalog, so its result can change.
            Some(_) if signature(function) == "pg_partition_root(regclass)" => {}
            // The elements are separate arguments here. An array is not NULL when its elements are.
            Some(_) if signature(function) == "jsonb_delete(jsonb, text[])" => {}
            Some(fields) => {
                wrong.push(format!("{}: {found:?}, not {fields:?}", signature(function)));
            }
            None => wrong.push(format!("{}: not there", signature(function))),
        }
    }
    assert!(wrong.is_empty(), "{} differ from PostgreSQL's:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn operators_are_those_of_postgresql() {
    let known: BTreeSet<Vec<&str>> = lines(POSTGRESQL_OPERATORS).collect();
    assert!(known.len() > 700);
    let mut wrong = Vec::new();
    for operator in OPERATORS.iter().copied().flatten() {
        let (left, right) = operands(operator);
        let result = shown(operator.result);
        if !known.contains(&vec![operator.name, &left, &right, &result]) {
            wrong.push(format!("{left} {} {right} = {result}", operator.name));
        }
    }
    assert!(wrong.is_empty(), "{} are not PostgreSQL's:\n{}", wrong.len(), wrong.join("\n"));
}

/// Returns the left operand, empty for a prefix operator, and the right operand.
fn operands(operator: &Function) -> (String, String) {
    match operator.arguments {
        [right] => (String::new(), shown(*right)),
        [left, right] => (shown(*left), shown(*right)),
        _ => panic!("an operator with {} operands", operator.arguments.len()),
    }
}

/// Appends lines of the document: one line per function name, with all signatures.
fn list<'f>(out: &mut String, functions: impl Iterator<Item = &'f Function>) {
    let mut by_name: BTreeMap<&str, Vec<&Function>> = BTreeMap::new();
    for function in functions {
        by_name.entry(function.name).or_default().push(function);
    }
    for (name, all) in by_name {
        let shown: Vec<String> = all
            .iter()
            .map(|function| {
                let arguments: Vec<String> =
                    function.arguments.iter().map(|oid| shown(*oid)).collect();
                let more = if function.variadic { ", …" } else { "" };
                format!("`({}{more}) → {}`", arguments.join(", "), result(function))
            })
            .collect();
        let _ = writeln!(out, "- **{name}** {}", shown.join(", "));
    }
}

fn document() -> String {
    let theirs = |kinds: &[&str]| -> BTreeSet<&str> {
        lines(POSTGRESQL_FUNCTIONS)
            .filter(|fields| kinds.contains(&fields[0]))
            .filter_map(|fields| fields[1].split('(').next())
            .collect()
    };
    let ours = |name: &&&str| functions().any(|function| function.name == **name);
    let names = theirs(&["f", "w", "p"]);
    let aggregates = theirs(&["a"]);
    let operators = lines(POSTGRESQL_OPERATORS).count();
    let mut out = String::from(
        "# Functions and operators\n\nMade from the tables of `niwaki-functions` by `cargo xtask functions`; a test holds it up to date, and compares \
         every signature with PostgreSQL 15's.\nA type's name as a function (`int4(x)`, `text(x)`) is a cast, and is not counted.\n\n",
    );
    let _ = writeln!(
        out,
        "| | Niwaki has | PostgreSQL 15 has |\n|---|---|---|\n\
         | names of functions, without those that only types, operators, indexes and aggregates call | {} | {} |\n\
         | names of aggregates | {} | {} |\n\
         | operators, each pair of types for itself | {} | {operators} |\n",
        names.iter().filter(ours).count(),
        names.len(),
        aggregates.iter().filter(|name| crate::aggregates::is_aggregate(name)).count(),
        aggregates.len(),
        OPERATORS.iter().copied().flatten().count(),
    );
    for (title, tables) in GROUPS {
        let _ = writeln!(out, "## {title}\n");
        list(&mut out, tables.iter().copied().flatten());
        out.push('\n');
    }
    out.push_str("## Aggregates\n\n");
    list(&mut out, AGGREGATES.iter());
    out.push_str("\n## Operators\n\n| operator | operands → result |\n|---|---|\n");
    let mut by_name: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for operator in OPERATORS.iter().copied().flatten() {
        let (left, right) = operands(operator);
        let operands = if left.is_empty() { right } else { format!("{left}, {right}") };
        let line = format!("{operands} → {}", shown(operator.result));
        by_name.entry(operator.name).or_default().push(line);
    }
    for (name, all) in by_name {
        // A vertical bar would end the cell.
        let _ = writeln!(out, "| `{}` | {} |", name.replace('|', "\\|"), all.join("; "));
    }
    out
}

/// With `NIWAKI_REWRITE` set, this test writes the document anew; `cargo xtask functions` does
/// that.
#[test]
fn the_document_is_up_to_date() {
    let wanted = document();
    if std::env::var_os("NIWAKI_REWRITE").is_some() {
        std::fs::write(DOCUMENT, &wanted).unwrap();
    }
    let found = std::fs::read_to_string(DOCUMENT).unwrap_or_default();
    assert!(found == wanted, "docs/functions.md is not up to date: run `cargo xtask functions`");
}
