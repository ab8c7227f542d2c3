//! Selects PostgreSQL's functions and operators that the catalog shows: those that Niwaki has.

use std::sync::OnceLock;

use niwaki_catalog::{builtin_functions, builtin_operators, builtin_rows};
use niwaki_env::hash::HashSet;
use niwaki_expr::function::Function;
use niwaki_parse::types::array_of;
use niwaki_types::TypeOid;

use crate::aggregates::aggregates_named;
use crate::functions::{functions_named, operators_named};

/// Decides whether `pg_proc` shows PostgreSQL's function with this number: Niwaki has it, or
/// catalogs refer to it.
pub fn is_function_shown(number: u32) -> bool {
    static SHOWN: OnceLock<HashSet<u32>> = OnceLock::new();
    SHOWN.get_or_init(functions).contains(&number)
}

/// Decides whether `pg_operator` shows PostgreSQL's operator with this number, which is true if
/// Niwaki has it.
pub fn is_operator_shown(number: u32) -> bool {
    static SHOWN: OnceLock<HashSet<u32>> = OnceLock::new();
    SHOWN.get_or_init(operators).contains(&number)
}

/// The columns of other catalogs that refer to functions.
const REFERENCES: &[(&str, &[&str])] = &[
    (
        "pg_type",
        &[
            "typinput",
            "typoutput",
            "typreceive",
            "typsend",
            "typmodin",
            "typmodout",
            "typanalyze",
            "typsubscript",
        ],
    ),
    ("pg_am", &["amhandler"]),
    ("pg_amproc", &["amproc"]),
    ("pg_cast", &["castfunc"]),
    ("pg_language", &["lanvalidator"]),
    ("pg_operator", &["oprcode", "oprrest", "oprjoin"]),
];

/// Returns the argument types as PostgreSQL declares them: repeated arguments are an array.
fn declared(function: &Function) -> Vec<TypeOid> {
    let mut arguments = function.arguments.to_vec();
    if let (true, Some(last)) = (function.variadic, function.arguments.last())
        && let Some(array) = array_of(*last)
    {
        arguments.pop();
        arguments.push(array);
    }
    arguments
}

/// Returns the numbers of the functions shown.
pub(super) fn functions() -> HashSet<u32> {
    let own = builtin_functions().all().iter().filter(|builtin| {
        let all = functions_named(builtin.name).iter().chain(aggregates_named(builtin.name));
        all.into_iter().any(|function| declared(function) == builtin.arguments)
    });
    let mut shown: HashSet<u32> = own.map(|builtin| builtin.oid).collect();
    for (catalog, columns) in REFERENCES {
        let Some(rows) = builtin_rows(catalog) else { continue };
        let places: Vec<usize> = columns
            .iter()
            .filter_map(|name| rows.columns().iter().position(|column| column == name))
            .collect();
        for row in rows.rows() {
            let row: Vec<Option<&str>> = row.collect();
            let named = places.iter().filter_map(|at| row.get(*at).copied().flatten());
            shown.extend(named.filter_map(|oid| oid.parse::<u32>().ok()));
        }
    }
    shown
}

/// Returns the numbers of the operators shown.
pub(super) fn operators() -> HashSet<u32> {
    let own = builtin_operators().all().iter().filter(|builtin| {
        let operands: Vec<TypeOid> =
            [builtin.left, builtin.right].into_iter().filter(|o| *o != 0).map(TypeOid).collect();
        operators_named(builtin.name).iter().any(|operator| operator.arguments == operands)
    });
    own.map(|builtin| builtin.oid).collect()
}
