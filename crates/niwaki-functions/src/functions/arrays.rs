//! Functions and operators on arrays.

use std::sync::Arc;

use niwaki_expr::context::ExecContext;
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::growing::{Charge, charge_elements, charge_parts, value_bytes};
use niwaki_types::{
    ARRAY_DIMENSIONS_MAX, ARRAY_ELEMENTS_MAX, Array, Bounds, Datum, Dimension, TypeOid, compare,
    equal, work,
};

use super::{EmitRow, Function, RowsFunction, T, functions};

fn wrong() -> SqlError {
    SqlError::internal("an array function was given values of other types")
}

fn count(value: usize) -> Result<Datum> {
    i32::try_from(value)
        .map(Datum::Int4)
        .map_err(|_| crate::functions::number::operators::range("integer"))
}

/// Compares elements for equality; NULL equals NULL.
fn same(element: TypeOid, a: &Datum, b: &Datum) -> bool {
    match (a.is_null(), b.is_null()) {
        (true, true) => true,
        (false, false) => equal(element, a, b),
        _ => false,
    }
}

fn unnest(_: &mut ExecContext<'_>, values: &[Datum]) -> Result<Vec<Datum>> {
    match values {
        [Datum::Array(_, elements)] => {
            charge_parts(elements.len(), size_of::<Datum>())?;
            Ok(elements.to_vec())
        }
        _ => Ok(Vec::new()),
    }
}

fn generate_subscripts(_: &mut ExecContext<'_>, values: &[Datum]) -> Result<Vec<Datum>> {
    let (dimension, reverse) = match values {
        [Datum::Array(_, array), Datum::Int4(number)] => (array.dimension(*number), false),
        [Datum::Array(_, array), Datum::Int4(number), Datum::Bool(reverse)] => {
            (array.dimension(*number), *reverse)
        }
        _ => return Ok(Vec::new()),
    };
    let Some(dimension) = dimension else { return Ok(Vec::new()) };
    charge_parts(usize::try_from(dimension.length).unwrap_or(0), size_of::<Datum>())?;
    let subscripts = dimension.lower..=dimension.upper();
    Ok(if reverse {
        subscripts.rev().map(Datum::Int4).collect()
    } else {
        subscripts.map(Datum::Int4).collect()
    })
}

static EXPANDED: RowsFunction =
    RowsFunction { columns: &[("x", T::ELEMENT), ("n", T::INT4)], body: expand_array };

/// `information_schema._pg_expandarray(array)`: gives each element with its number from 1.
fn expand_array(_: &mut ExecContext<'_>, values: &[Datum], emit: EmitRow<'_>) -> Result<()> {
    let [Datum::Array(_, array)] = values else { return Ok(()) };
    let Some(first) = array.dimension(1) else { return Ok(()) };
    // In an array of several dimensions, a single subscript means NULL.
    let single = array.dimensions().len() == 1;
    let mut elements = array.iter();
    for number in 1..=first.upper().saturating_sub(first.lower).saturating_add(1) {
        let element = elements.next().filter(|_| single).cloned().unwrap_or(Datum::Null);
        emit(vec![element, Datum::Int4(number)])?;
    }
    Ok(())
}

/// Returns the subscript before the first one of an array of one dimension. A search in more
/// dimensions is refused.
fn before_first(array: &Array) -> Result<i32> {
    match array.dimensions() {
        [] => Ok(0),
        [only] => Ok(only.lower.wrapping_sub(1)),
        _ => Err(SqlError::new(
            "0A000",
            "searching for elements in multidimensional arrays is not supported",
        )),
    }
}

/// `array_position(array, element [, start])`: returns the first place of an element.
fn array_position(values: &[Datum]) -> Result<Datum> {
    let [Datum::Array(element, array), wanted, start @ ..] = values else {
        return Ok(Datum::Null);
    };
    let before = before_first(array)?;
    let start = match start {
        [] => i32::MIN,
        [Datum::Int4(start)] => *start,
        _ => return Err(SqlError::new("22004", "initial position must not be null")),
    };
    let mut place = before;
    for value in array.iter() {
        place = place.wrapping_add(1);
        if place >= start && same(*element, value, wanted) {
            return Ok(Datum::Int4(place));
        }
    }
    Ok(Datum::Null)
}

fn array_positions(values: &[Datum]) -> Result<Datum> {
    let [Datum::Array(element, array), wanted] = values else { return Ok(Datum::Null) };
    let mut place = before_first(array)?;
    let mut places = Vec::new();
    for value in array.iter() {
        place = place.wrapping_add(1);
        if same(*element, value, wanted) {
            places.push(Datum::Int4(place));
        }
    }
    Ok(Datum::array(TypeOid::INT4, places))
}

fn array_remove(values: &[Datum]) -> Result<Datum> {
    let [Datum::Array(element, array), unwanted] = values else { return Ok(Datum::Null) };
    let dimension = match array.dimensions() {
        [] => return Ok(Datum::Array(*element, Arc::clone(array))),
        [only] => *only,
        _ => {
            return Err(SqlError::new(
                "0A000",
                "removing elements from multidimensional arrays is not supported",
            ));
        }
    };
    let kept: Vec<Datum> = array.iter().filter(|e| !same(*element, e, unwanted)).cloned().collect();
    let length = u32::try_from(kept.len()).unwrap_or(u32::MAX);
    let array = Array::new(&[Dimension { length, ..dimension }], kept)?;
    Ok(Datum::Array(*element, Arc::new(array)))
}

fn array_replace(values: &[Datum]) -> Result<Datum> {
    let [Datum::Array(element, array), from, to] = values else { return Ok(Datum::Null) };
    let replaced = |e: &Datum| if same(*element, e, from) { to.clone() } else { e.clone() };
    let values = array.iter().map(replaced).collect();
    Ok(Datum::Array(*element, Arc::new(array.with_values(values))))
}

/// Returns the type of an element without an array beside it: any type of its kind will do for
/// `NULL || x`.
fn element_type(value: &Datum) -> TypeOid {
    crate::functions::text::strings::shown_type(value)
}

pub(super) fn array_append(values: &[Datum]) -> Result<Datum> {
    let [array, value] = values else { return Err(wrong()) };
    with_element(array, value, false)
}

pub(super) fn array_prepend(values: &[Datum]) -> Result<Datum> {
    let [value, array] = values else { return Err(wrong()) };
    with_element(array, value, true)
}

fn with_element(array: &Datum, value: &Datum, first: bool) -> Result<Datum> {
    Ok(match array {
        Datum::Array(element, array) => {
            Datum::Array(*element, Arc::new(array.with_element(value.clone(), first)?))
        }
        _ => Datum::array(element_type(value), [value.clone()]),
    })
}

pub(super) fn array_cat(values: &[Datum]) -> Result<Datum> {
    match values {
        [Datum::Array(element, x), Datum::Array(_, y)] => {
            Ok(Datum::Array(*element, Arc::new(x.concat(y)?)))
        }
        [array @ Datum::Array(..), Datum::Null] | [Datum::Null, array @ Datum::Array(..)] => {
            Ok(array.clone())
        }
        [Datum::Null, Datum::Null] => Ok(Datum::Null),
        _ => Err(wrong()),
    }
}

/// `array_fill(value, {length, …} [, {lower bound, …}])`
fn array_fill(values: &[Datum]) -> Result<Datum> {
    let [value, sizes, bounds @ ..] = values else { return Err(wrong()) };
    let null = || SqlError::new("22004", "dimension array or low bound array cannot be null");
    let (Datum::Array(_, sizes), [] | [Datum::Array(..)]) = (sizes, bounds) else {
        return Err(null());
    };
    let wrong_count = |detail: &str| {
        SqlError::new("2202E", "wrong number of array subscripts").with_detail(detail)
    };
    let numbers = |array: &Array, detail: &str| {
        if array.dimensions().len() > 1 {
            return Err(wrong_count(detail));
        }
        array
            .iter()
            .map(|number| match number {
                Datum::Int4(number) => Ok(*number),
                _ => Err(SqlError::new("22004", "dimension values cannot be null")),
            })
            .collect::<Result<Vec<i32>>>()
    };
    let sizes = numbers(sizes, "Dimension array must be one dimensional.")?;
    if sizes.len() > ARRAY_DIMENSIONS_MAX {
        let message = format!(
            "number of array dimensions ({}) exceeds the maximum allowed ({ARRAY_DIMENSIONS_MAX})",
            sizes.len()
        );
        return Err(SqlError::new("54000", message));
    }
    let lowers = match bounds {
        [Datum::Array(_, bounds)] => numbers(bounds, "Dimension array must be one dimensional.")?,
        _ => vec![1; sizes.len()],
    };
    if lowers.len() != sizes.len() {
        return Err(wrong_count("Low bound array has different size than dimensions array."));
    }
    let too_many = || {
        let message = format!("array size exceeds the maximum allowed ({ARRAY_ELEMENTS_MAX})");
        SqlError::new("54000", message)
    };
    let mut dimensions = Vec::with_capacity(sizes.len());
    let mut count = usize::from(!sizes.is_empty());
    for (length, lower) in sizes.into_iter().zip(lowers) {
        let length = u32::try_from(length).map_err(|_| too_many())?;
        dimensions.push(Dimension { length, lower });
        count = usize::try_from(length)
            .ok()
            .and_then(|length| count.checked_mul(length))
            .filter(|count| *count <= ARRAY_ELEMENTS_MAX)
            .ok_or_else(too_many)?;
    }
    let bytes = value_bytes(value).saturating_mul(count);
    charge_elements(&mut Charge::default(), count, bytes)?;
    let array = Array::new(&dimensions, vec![value.clone(); count])?;
    Ok(Datum::Array(element_type(value), Arc::new(array)))
}

fn array_dims(a: &Datum) -> Result<Datum> {
    match a {
        Datum::Array(_, array) if array.dimensions().is_empty() => Ok(Datum::Null),
        Datum::Array(_, array) => Ok(Datum::text(&array.dimensions_text())),
        _ => Err(wrong()),
    }
}

fn array_ndims(a: &Datum) -> Result<Datum> {
    match a {
        Datum::Array(_, array) if array.dimensions().is_empty() => Ok(Datum::Null),
        Datum::Array(_, array) => count(array.dimensions().len()),
        _ => Err(wrong()),
    }
}

/// Returns the dimension of this number, if the array has it.
fn dimension(array: &Datum, number: &Datum) -> Option<Dimension> {
    match (array, number) {
        (Datum::Array(_, array), Datum::Int4(number)) => array.dimension(*number),
        _ => None,
    }
}

fn array_length(array: &Datum, number: &Datum) -> Result<Datum> {
    let length = dimension(array, number).map(|found| count(found.length as usize));
    length.unwrap_or(Ok(Datum::Null))
}

fn array_upper(array: &Datum, number: &Datum) -> Result<Datum> {
    Ok(dimension(array, number).map_or(Datum::Null, |found| Datum::Int4(found.upper())))
}

fn array_lower(array: &Datum, number: &Datum) -> Result<Datum> {
    Ok(dimension(array, number).map_or(Datum::Null, |found| Datum::Int4(found.lower)))
}

fn cardinality(a: &Datum) -> Result<Datum> {
    match a {
        Datum::Array(_, array) => count(array.len()),
        _ => Err(wrong()),
    }
}

fn trim_array(a: &Datum, removed: &Datum) -> Result<Datum> {
    let (Datum::Array(element, array), Datum::Int4(removed)) = (a, removed) else {
        return Err(wrong());
    };
    let first = array.dimensions().first().copied();
    let length = first.map_or(0, |first| first.length);
    let kept = u32::try_from(*removed).ok().and_then(|removed| length.checked_sub(removed));
    let Some(kept) = kept else {
        return Err(SqlError::new(
            "2202E",
            format!("number of elements to trim must be between 0 and {length}"),
        ));
    };
    let Some(first) = first.filter(|_| kept > 0) else {
        return Ok(Datum::array(*element, []));
    };
    let upper = Some(Dimension { length: kept, ..first }.upper());
    let kept = array.slice(&[Bounds { lower: None, upper }]);
    Ok(Datum::Array(*element, Arc::new(kept)))
}

/// Decides whether a value is among the elements of an array; NULL is in no array.
fn is_in(element: TypeOid, wanted: &Datum, array: &Array) -> Result<bool> {
    work::tick(array.len())?;
    let same = |e: &Datum| !e.is_null() && equal(element, e, wanted);
    Ok(!wanted.is_null() && array.iter().any(same))
}

/// Decides whether each element of `b` is in `a`; NULL is in no array.
fn contains(a: &Datum, b: &Datum) -> Result<Datum> {
    let (Datum::Array(element, a), Datum::Array(_, b)) = (a, b) else { return Err(wrong()) };
    for wanted in b.iter() {
        if !is_in(*element, wanted, a)? {
            return Ok(Datum::Bool(false));
        }
    }
    Ok(Datum::Bool(true))
}

fn contained(a: &Datum, b: &Datum) -> Result<Datum> {
    contains(b, a)
}

fn overlaps(a: &Datum, b: &Datum) -> Result<Datum> {
    let (Datum::Array(element, a), Datum::Array(_, b)) = (a, b) else { return Err(wrong()) };
    for wanted in a.iter() {
        if is_in(*element, wanted, b)? {
            return Ok(Datum::Bool(true));
        }
    }
    Ok(Datum::Bool(false))
}

/// Counts the thresholds, which are sorted, that are at most the operand.
fn width_bucket(operand: &Datum, thresholds: &Datum) -> Result<Datum> {
    let Datum::Array(element, thresholds) = thresholds else { return Err(wrong()) };
    if thresholds.dimensions().len() > 1 {
        return Err(SqlError::new("2202E", "thresholds must be one-dimensional array"));
    }
    if thresholds.iter().any(Datum::is_null) {
        return Err(SqlError::new("22004", "thresholds array must not contain NULLs"));
    }
    count(thresholds.partition_point(|threshold| compare(*element, threshold, operand).is_le()))
}

pub(super) const FUNCTIONS: &[Function] = functions! {
    "unnest" (ARRAY) ELEMENT strict single immutable Set(unnest);
    "_pg_expandarray" (ARRAY) RECORD strict single immutable Rows(&EXPANDED);
    "generate_subscripts" (ARRAY, INT4) INT4 strict single immutable Set(generate_subscripts);
    "generate_subscripts" (ARRAY, INT4, BOOL) INT4 strict single immutable Set(generate_subscripts);
    "array_position" (COMPATIBLES, COMPATIBLE) INT4 nullable single immutable Pure(array_position);
    "array_position" (COMPATIBLES, COMPATIBLE, INT4) INT4 nullable single immutable Pure(array_position);
    "array_positions" (COMPATIBLES, COMPATIBLE) INTS nullable single immutable Pure(array_positions);
    "array_remove" (COMPATIBLES, COMPATIBLE) COMPATIBLES nullable single immutable Pure(array_remove);
    "array_replace" (COMPATIBLES, COMPATIBLE, COMPATIBLE) COMPATIBLES nullable single immutable Pure(array_replace);
    "array_append" (COMPATIBLES, COMPATIBLE) COMPATIBLES nullable single immutable Pure(array_append);
    "array_prepend" (COMPATIBLE, COMPATIBLES) COMPATIBLES nullable single immutable Pure(array_prepend);
    "array_cat" (COMPATIBLES, COMPATIBLES) COMPATIBLES nullable single immutable Pure(array_cat);
    "array_fill" (ELEMENT, INTS) ARRAY nullable single immutable Pure(array_fill);
    "array_fill" (ELEMENT, INTS, INTS) ARRAY nullable single immutable Pure(array_fill);
    "array_dims" (ARRAY) TEXT strict single immutable Unary(array_dims);
    "array_ndims" (ARRAY) INT4 strict single immutable Unary(array_ndims);
    "array_length" (ARRAY, INT4) INT4 strict single immutable Binary(array_length);
    "array_upper" (ARRAY, INT4) INT4 strict single immutable Binary(array_upper);
    "array_lower" (ARRAY, INT4) INT4 strict single immutable Binary(array_lower);
    "cardinality" (ARRAY) INT4 strict single immutable Unary(cardinality);
    "trim_array" (ARRAY, INT4) ARRAY strict single immutable Binary(trim_array);
    "arraycontains" (ARRAY, ARRAY) BOOL strict single immutable Binary(contains);
    "arraycontained" (ARRAY, ARRAY) BOOL strict single immutable Binary(contained);
    "arrayoverlap" (ARRAY, ARRAY) BOOL strict single immutable Binary(overlaps);
    "width_bucket" (COMPATIBLE, COMPATIBLES) INT4 strict single immutable Binary(width_bucket);
};

pub(super) const OPERATORS: &[Function] = functions! {
    "@>" (ARRAY, ARRAY) BOOL strict single immutable Binary(contains);
    "<@" (ARRAY, ARRAY) BOOL strict single immutable Binary(contained);
    "&&" (ARRAY, ARRAY) BOOL strict single immutable Binary(overlaps);
    "||" (COMPATIBLES, COMPATIBLE) COMPATIBLES nullable single immutable Pure(array_append);
    "||" (COMPATIBLE, COMPATIBLES) COMPATIBLES nullable single immutable Pure(array_prepend);
    "||" (COMPATIBLES, COMPATIBLES) COMPATIBLES nullable single immutable Pure(array_cat);
};
