//! The tables of functions and operators, with their signatures and lookup by name.

mod advisory;
mod arrays;
mod binary;
pub(crate) mod catalog;
pub(crate) mod collated;
mod column_size;
mod definitions;
mod enums;
mod format;
mod formatting;
mod information;
mod inspect;
mod json;
mod math;
mod moments;
mod operators;
mod overlaps;
mod partition_constraint;
mod partitions;
mod pattern;
mod prewarm;
mod privileges;
mod quote;
mod random;
mod regexp;
mod routines;
mod shown;
mod sizes;
mod system;
#[cfg(test)]
mod tests;
mod text;
mod time;
mod time_of_day;
mod trigonometry;
mod unicode;
mod uuid;
mod windows;

use std::fmt;
use std::sync::OnceLock;

use niwaki_env::hash::{HashMap, HashSet};
use niwaki_types::{Datum, TypeOid, quote_identifier};

use crate::context::ExecContext;
use crate::error::Result;

pub(crate) use json::{
    JsonAggregate, fields_of_objects, is_unsupported, of_json_objects, path_input, takes_json,
};
pub(crate) use operators::compare_function;
pub(crate) use quote::string_constant;
pub(crate) use random::SeededRandom;
pub(crate) use time::convert_time;
pub(crate) use time_of_day::convert_time_of_day;
pub(crate) use windows::WindowFunction;

/// The stability of a function's results, which decides when evaluation ahead of time is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Volatility {
    /// The same arguments always give the same result.
    Immutable,
    /// The same arguments give the same result during one statement.
    Stable,
    /// Every call may give another result.
    Volatile,
}

/// The implementation of a function.
pub(crate) enum Eval {
    /// One argument, which is not NULL.
    Unary(fn(&Datum) -> Result<Datum>),
    /// Two arguments, which are not NULL.
    Binary(fn(&Datum, &Datum) -> Result<Datum>),
    /// Any number of arguments.
    Pure(fn(&[Datum]) -> Result<Datum>),
    /// Takes the session.
    Context(fn(&mut ExecContext<'_>, &[Datum]) -> Result<Datum>),
    /// Takes the session and the types of the arguments, which the values alone do not show.
    Typed(fn(&mut ExecContext<'_>, &[TypeOid], &[Datum]) -> Result<Datum>),
    /// Returns a set of rows; the executor calls it.
    Set(fn(&mut ExecContext<'_>, &[Datum]) -> Result<Vec<Datum>>),
    /// Returns a set of rows of several columns; allowed in FROM only.
    Rows(&'static RowsFunction),
    /// Returns rows of JSON objects, with columns that the query names; allowed in FROM only.
    Objects(Objects),
    /// Computes one value from many rows, in the executor.
    Aggregate(crate::aggregates::AggregateKind),
    /// Computes one value from the rows around the current one, in the executor.
    Window(WindowFunction),
}

/// The objects that an argument holds, one for each result row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Objects {
    /// The argument is one object.
    One,
    /// The argument is an array of objects.
    Each,
}

/// A callback that takes one row, with one value for each column.
pub(crate) type EmitRow<'e> = &'e mut dyn FnMut(Vec<Datum>) -> Result<()>;

/// A function that is used as a table of several columns.
pub(crate) struct RowsFunction {
    /// Names and types of the columns.
    pub(crate) columns: &'static [(&'static str, TypeOid)],
    /// Emits the rows in their order.
    pub(crate) body: fn(&mut ExecContext<'_>, &[Datum], EmitRow<'_>) -> Result<()>,
}

/// A function or operator with one signature.
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) arguments: &'static [TypeOid],
    pub(crate) result: TypeOid,
    /// True if the last argument may be repeated.
    pub(crate) variadic: bool,
    /// True if a NULL argument makes the result NULL.
    pub(crate) strict: bool,
    pub(crate) volatility: Volatility,
    pub(crate) eval: Eval,
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.name, self.arguments.len())
    }
}

impl Function {
    pub(crate) fn returns_set(&self) -> bool {
        matches!(self.eval, Eval::Set(_) | Eval::Rows(_) | Eval::Objects(Objects::Each))
    }

    /// Returns the function's schema.
    pub(crate) fn schema(&self) -> &'static str {
        if self.name == "_pg_expandarray" { "information_schema" } else { "pg_catalog" }
    }

    /// Returns the function's name in SQL text, with its schema where the name alone is not found.
    pub(crate) fn sql_name(&self) -> String {
        let name = quote_identifier(self.name);
        match self.schema() {
            "pg_catalog" => name,
            schema => format!("{schema}.{name}"),
        }
    }

    /// Returns the name of the function's one column in FROM, if different from the function's
    /// name.
    pub(crate) fn column_name(&self) -> Option<&'static str> {
        match self.name {
            "json_array_elements"
            | "jsonb_array_elements"
            | "json_array_elements_text"
            | "jsonb_array_elements_text" => Some("value"),
            "pg_partition_ancestors" => Some("relid"),
            _ => None,
        }
    }

    /// Decides whether the function returns an array whose type depends on the arguments.
    pub(crate) fn returns_any_array(&self) -> bool {
        self.result == T::ARRAY || self.result == T::COMPATIBLES
    }

    /// Returns the names and types of the columns, if there are several.
    pub(crate) fn columns(&self) -> Option<&'static [(&'static str, TypeOid)]> {
        match &self.eval {
            Eval::Rows(rows) => Some(rows.columns),
            _ => None,
        }
    }
}

/// Short names for the types in signatures.
pub(crate) struct T;

impl T {
    pub(crate) const BOOL: TypeOid = TypeOid::BOOL;
    pub(crate) const BYTEA: TypeOid = TypeOid::BYTEA;
    pub(crate) const CHAR: TypeOid = TypeOid::CHAR;
    pub(crate) const NAME: TypeOid = TypeOid::NAME;
    pub(crate) const INT8: TypeOid = TypeOid::INT8;
    pub(crate) const INT2: TypeOid = TypeOid::INT2;
    pub(crate) const INT4: TypeOid = TypeOid::INT4;
    pub(crate) const TEXT: TypeOid = TypeOid::TEXT;
    pub(crate) const OID: TypeOid = TypeOid::OID;
    pub(crate) const TID: TypeOid = TypeOid::TID;
    pub(crate) const XID: TypeOid = TypeOid::XID;
    pub(crate) const FLOAT4: TypeOid = TypeOid::FLOAT4;
    pub(crate) const FLOAT8: TypeOid = TypeOid::FLOAT8;
    pub(crate) const BPCHAR: TypeOid = TypeOid::BPCHAR;
    pub(crate) const DATE: TypeOid = TypeOid::DATE;
    pub(crate) const TIMESTAMP: TypeOid = TypeOid::TIMESTAMP;
    pub(crate) const TIMESTAMPTZ: TypeOid = TypeOid::TIMESTAMPTZ;
    pub(crate) const INTERVAL: TypeOid = TypeOid::INTERVAL;
    pub(crate) const NUMERIC: TypeOid = TypeOid::NUMERIC;
    pub(crate) const TIME: TypeOid = TypeOid::TIME;
    pub(crate) const TIMETZ: TypeOid = TypeOid::TIMETZ;
    pub(crate) const UUID: TypeOid = TypeOid::UUID;
    pub(crate) const LSN: TypeOid = TypeOid::PG_LSN;
    pub(crate) const REGCLASS: TypeOid = TypeOid::REGCLASS;
    pub(crate) const REGPROC: TypeOid = TypeOid::REGPROC;
    pub(crate) const REGPROCEDURE: TypeOid = TypeOid::REGPROCEDURE;
    pub(crate) const REGOPER: TypeOid = TypeOid::REGOPER;
    pub(crate) const REGOPERATOR: TypeOid = TypeOid::REGOPERATOR;
    pub(crate) const REGTYPE: TypeOid = TypeOid::REGTYPE;
    pub(crate) const REGROLE: TypeOid = TypeOid::REGROLE;
    pub(crate) const REGNAMESPACE: TypeOid = TypeOid::REGNAMESPACE;
    pub(crate) const REGCOLLATION: TypeOid = TypeOid::REGCOLLATION;
    pub(crate) const NODE_TREE: TypeOid = TypeOid::PG_NODE_TREE;
    pub(crate) const ACL: TypeOid = TypeOid::ACLITEM_ARRAY;
    pub(crate) const ACL_ITEM: TypeOid = TypeOid::ACLITEM;
    pub(crate) const JSON: TypeOid = TypeOid::JSON;
    pub(crate) const JSONB: TypeOid = TypeOid::JSONB;
    pub(crate) const JSONPATH: TypeOid = TypeOid::JSONPATH;
    pub(crate) const VOID: TypeOid = TypeOid::VOID;
    pub(crate) const RECORD: TypeOid = crate::types::RECORD;
    pub(crate) const NAMES: TypeOid = TypeOid::NAME_ARRAY;
    pub(crate) const TEXTS: TypeOid = TypeOid::TEXT_ARRAY;
    pub(crate) const INTS: TypeOid = TypeOid::INT4_ARRAY;
    pub(crate) const FLOATS: TypeOid = TypeOid::FLOAT8_ARRAY;
    pub(crate) const INTERVALS: TypeOid = TypeOid::INTERVAL_ARRAY;
    pub(crate) const ANY: TypeOid = crate::types::ANY;
    pub(crate) const ELEMENT: TypeOid = crate::types::ANY_ELEMENT;
    pub(crate) const ARRAY: TypeOid = crate::types::ANY_ARRAY;
    pub(crate) const ENUM: TypeOid = crate::types::ANY_ENUM;
    pub(crate) const NONARRAY: TypeOid = crate::types::ANY_NONARRAY;
    pub(crate) const COMPATIBLE: TypeOid = crate::types::ANY_COMPATIBLE;
    pub(crate) const COMPATIBLES: TypeOid = crate::types::ANY_COMPATIBLE_ARRAY;
}

/// Writes a table of functions: `name(ARGUMENT TYPES) RESULT flags kind(body)`. The flags are
/// `immutable`, `stable` or `volatile`, preceded by `nullable` when NULL arguments reach the body
/// and by `variadic` when the last argument repeats.
macro_rules! functions {
    (@strict nullable) => { false };
    (@strict strict) => { true };
    (@variadic variadic) => { true };
    (@variadic single) => { false };
    (@volatility immutable) => { $crate::functions::Volatility::Immutable };
    (@volatility stable) => { $crate::functions::Volatility::Stable };
    (@volatility volatile) => { $crate::functions::Volatility::Volatile };
    ($($name:literal ($($argument:ident),*) $result:ident $strict:ident $variadic:ident $volatility:ident $kind:ident($body:expr);)*) => {
        &[$($crate::functions::Function {
            name: $name,
            arguments: &[$($crate::functions::T::$argument),*],
            result: $crate::functions::T::$result,
            variadic: $crate::functions::functions!(@variadic $variadic),
            strict: $crate::functions::functions!(@strict $strict),
            volatility: $crate::functions::functions!(@volatility $volatility),
            eval: $crate::functions::Eval::$kind($body),
        }),*]
    };
}
pub(crate) use functions;

/// Functions by their names.
pub(crate) type ByName = HashMap<&'static str, Vec<&'static Function>>;

/// Builds the index of function tables by name.
pub(crate) fn index(tables: &[&'static [Function]]) -> ByName {
    let mut map = ByName::default();
    for function in tables.iter().copied().flatten() {
        map.entry(function.name).or_default().push(function);
    }
    map
}

/// All functions, grouped by subject.
const GROUPS: &[(&str, &[&[Function]])] = &[
    ("Text", &[text::FUNCTIONS, format::FUNCTIONS, quote::FUNCTIONS, unicode::FUNCTIONS]),
    ("Regular expressions", &[regexp::COLLATED, regexp::FUNCTIONS]),
    ("Byte strings", &[binary::FUNCTIONS]),
    ("Numbers", &[math::FUNCTIONS, trigonometry::FUNCTIONS, random::FUNCTIONS]),
    ("Arrays", &[arrays::FUNCTIONS]),
    ("Enums", &[enums::FUNCTIONS]),
    (
        "Date and time",
        &[time::FUNCTIONS, time_of_day::FUNCTIONS, moments::FUNCTIONS, overlaps::FUNCTIONS],
    ),
    ("Format pictures", &[formatting::FUNCTIONS]),
    ("uuid", &[uuid::FUNCTIONS]),
    ("JSON", &[json::FUNCTIONS, json::RECORDS]),
    ("Over windows", &[windows::FUNCTIONS]),
    (
        "The session, the catalog and the server",
        &[
            information::FUNCTIONS,
            sizes::FUNCTIONS,
            column_size::FUNCTIONS,
            system::FUNCTIONS,
            catalog::FUNCTIONS,
            definitions::FUNCTIONS,
            partitions::FUNCTIONS,
            routines::FUNCTIONS,
            privileges::FUNCTIONS,
            advisory::FUNCTIONS,
        ],
    ),
    ("Looking at what is stored", &[inspect::FUNCTIONS, prewarm::FUNCTIONS]),
];

const OPERATORS: &[&[Function]] = &[
    operators::OPERATORS,
    pattern::OPERATORS,
    arrays::OPERATORS,
    time::OPERATORS,
    time_of_day::OPERATORS,
    json::OPERATORS,
];

fn all_functions() -> ByName {
    let tables: Vec<&'static [Function]> =
        GROUPS.iter().flat_map(|(_, tables)| tables.iter().copied()).collect();
    index(&tables)
}

/// Returns all functions of this name.
pub(crate) fn functions_named(name: &str) -> &'static [&'static Function] {
    static MAP: OnceLock<ByName> = OnceLock::new();
    MAP.get_or_init(all_functions).get(name).map_or(&[], Vec::as_slice)
}

/// Decides whether `pg_proc` shows PostgreSQL's function with this number: Niwaki has it, or
/// catalogs refer to it.
pub fn is_function_shown(number: u32) -> bool {
    static SHOWN: OnceLock<HashSet<u32>> = OnceLock::new();
    SHOWN.get_or_init(shown::functions).contains(&number)
}

/// Decides whether `pg_operator` shows PostgreSQL's operator with this number, which is true if
/// Niwaki has it.
pub fn is_operator_shown(number: u32) -> bool {
    static SHOWN: OnceLock<HashSet<u32>> = OnceLock::new();
    SHOWN.get_or_init(shown::operators).contains(&number)
}

/// Returns the functions of this name that take their last arguments as one array: `f(VARIADIC
/// array)`.
pub(crate) fn variadic_forms(name: &str) -> &'static [&'static Function] {
    static MAP: OnceLock<ByName> = OnceLock::new();
    MAP.get_or_init(|| index(&[format::VARIADIC, information::VARIADIC, json::VARIADIC]))
        .get(name)
        .map_or(&[], Vec::as_slice)
}

/// Joins the written arguments of a call into one text. VARIADIC precedes an argument that the
/// function takes as one array. Repeated arguments become such an array too, if their type is
/// known.
pub(crate) fn arguments_text(function: &'static Function, mut arguments: Vec<String>) -> String {
    let as_one = variadic_forms(function.name).iter().any(|form| std::ptr::eq(*form, function));
    if as_one && let Some(array) = arguments.last_mut() {
        array.insert_str(0, "VARIADIC ");
    }
    if function.variadic && function.arguments.last() != Some(&crate::types::ANY) {
        let own = function.arguments.len().saturating_sub(1).min(arguments.len());
        let array = arguments.split_off(own);
        arguments.push(format!("VARIADIC ARRAY[{}]", array.join(", ")));
    }
    arguments.join(", ")
}

/// Returns all operators of this name; prefix operators have one argument.
pub(crate) fn operators_named(name: &str) -> &'static [&'static Function] {
    static MAP: OnceLock<ByName> = OnceLock::new();
    MAP.get_or_init(|| index(OPERATORS)).get(name).map_or(&[], Vec::as_slice)
}
