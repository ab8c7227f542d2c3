//! The tables of all functions and operators, and the lookup by name.

use std::sync::OnceLock;

use niwaki_types::TypeOid;

use super::catalog::{
    advisory, column_size, definitions, information, inspect, objects, partitions, prewarm,
    privileges, routines, sizes, system,
};
use super::number::{math, operators, random, trigonometry};
use super::text::{binary, format, pattern, quote, regexp, strings, unicode, uuid};
use super::time::{dates, formatting, moments, overlaps, time_of_day};
use super::{ByName, Function, index};
use super::{arrays, enums, json, windows};

/// All functions, grouped by subject.
pub(super) const GROUPS: &[(&str, &[&[Function]])] = &[
    ("Text", &[strings::FUNCTIONS, format::FUNCTIONS, quote::FUNCTIONS, unicode::FUNCTIONS]),
    ("Regular expressions", &[regexp::COLLATED, regexp::FUNCTIONS]),
    ("Byte strings", &[binary::FUNCTIONS]),
    ("Numbers", &[math::FUNCTIONS, trigonometry::FUNCTIONS, random::FUNCTIONS]),
    ("Arrays", &[arrays::FUNCTIONS]),
    ("Enums", &[enums::FUNCTIONS]),
    (
        "Date and time",
        &[dates::FUNCTIONS, time_of_day::FUNCTIONS, moments::FUNCTIONS, overlaps::FUNCTIONS],
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
            objects::FUNCTIONS,
            definitions::FUNCTIONS,
            partitions::FUNCTIONS,
            routines::FUNCTIONS,
            privileges::FUNCTIONS,
            advisory::FUNCTIONS,
        ],
    ),
    ("Looking at what is stored", &[inspect::FUNCTIONS, prewarm::FUNCTIONS]),
];

pub(super) const OPERATORS: &[&[Function]] = &[
    operators::OPERATORS,
    pattern::OPERATORS,
    arrays::OPERATORS,
    dates::OPERATORS,
    time_of_day::OPERATORS,
    json::OPERATORS,
];

fn all_functions() -> ByName {
    let tables: Vec<&'static [Function]> =
        GROUPS.iter().flat_map(|(_, tables)| tables.iter().copied()).collect();
    index(&tables)
}

/// Returns all functions of this name.
pub fn functions_named(name: &str) -> &'static [&'static Function] {
    static MAP: OnceLock<ByName> = OnceLock::new();
    MAP.get_or_init(all_functions).get(name).map_or(&[], Vec::as_slice)
}

/// Returns the functions of this name that take their last arguments as one array: `f(VARIADIC
/// array)`.
pub fn variadic_forms(name: &str) -> &'static [&'static Function] {
    static MAP: OnceLock<ByName> = OnceLock::new();
    MAP.get_or_init(|| index(&[format::VARIADIC, information::VARIADIC, json::VARIADIC]))
        .get(name)
        .map_or(&[], Vec::as_slice)
}

/// Joins the written arguments of a call into one text. VARIADIC precedes an argument that the
/// function takes as one array. Repeated arguments become such an array too, if their type is
/// known.
pub fn arguments_text(function: &'static Function, mut arguments: Vec<String>) -> String {
    let as_one = variadic_forms(function.name).iter().any(|form| std::ptr::eq(*form, function));
    if as_one && let Some(array) = arguments.last_mut() {
        array.insert_str(0, "VARIADIC ");
    }
    if function.variadic && function.arguments.last() != Some(&niwaki_parse::types::ANY) {
        let own = function.arguments.len().saturating_sub(1).min(arguments.len());
        let array = arguments.split_off(own);
        arguments.push(format!("VARIADIC ARRAY[{}]", array.join(", ")));
    }
    arguments.join(", ")
}

/// Returns all operators of this name; prefix operators have one argument.
pub fn operators_named(name: &str) -> &'static [&'static Function] {
    static MAP: OnceLock<ByName> = OnceLock::new();
    MAP.get_or_init(|| index(OPERATORS)).get(name).map_or(&[], Vec::as_slice)
}

/// Returns the comparison operator of this name for two values of one type. The grammar implies
/// such conditions in CASE, IN, NULLIF, DISTINCT and joins with USING.
pub fn compare_function(name: &str, oid: TypeOid) -> Option<&'static Function> {
    let element = niwaki_parse::types::element_of(oid);
    // Arrays of a type without equality have no equality either.
    if matches!(element, Some(TypeOid::JSON | TypeOid::JSONPATH)) {
        return None;
    }
    let is_array = element.is_some();
    let oid = match oid {
        TypeOid::VARCHAR | TypeOid::UNKNOWN => TypeOid::TEXT,
        object if object.is_object_name() => TypeOid::OID,
        _ if is_array => niwaki_parse::types::ANY_ARRAY,
        _ if oid.is_enum() => niwaki_parse::types::ANY_ENUM,
        _ if oid.is_record() => TypeOid::RECORD,
        oid => oid,
    };
    operators_named(name).iter().copied().find(|f| f.arguments == [oid, oid])
}
