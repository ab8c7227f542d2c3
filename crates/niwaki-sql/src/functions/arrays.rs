//! Functions and operators on arrays, which have one dimension and begin at 1.

use niwaki_types::{Datum, TypeOid, compare, equal};

use super::{Function, functions};
use crate::context::ExecContext;
use crate::error::{Result, SqlError};

/// Most elements an array may have (PostgreSQL's limit).
const ELEMENTS_MAX: usize = 134_217_727;

fn wrong() -> SqlError {
    SqlError::internal("an array function was given values of other types")
}

fn count(value: usize) -> Result<Datum> {
    i32::try_from(value).map(Datum::Int4).map_err(|_| super::operators::range("integer"))
}

/// Equality of elements; NULL equals NULL.
fn same(element: TypeOid, a: &Datum, b: &Datum) -> bool {
    match (a.is_null(), b.is_null()) {
        (true, true) => true,
        (false, false) => equal(element, a, b),
        _ => false,
    }
}

fn unnest(_: &mut ExecContext<'_>, values: &[Datum]) -> Result<Vec<Datum>> {
    match values {
        [Datum::Array(_, elements)] => Ok(elements.to_vec()),
        _ => Ok(Vec::new()),
    }
}

fn generate_subscripts(_: &mut ExecContext<'_>, values: &[Datum]) -> Result<Vec<Datum>> {
    let (size, reverse) = match values {
        [Datum::Array(_, elements), Datum::Int4(1)] => (elements.len(), false),
        [Datum::Array(_, elements), Datum::Int4(1), Datum::Bool(reverse)] => {
            (elements.len(), *reverse)
        }
        _ => return Ok(Vec::new()),
    };
    let size = i32::try_from(size).map_err(|_| super::operators::range("integer"))?;
    if reverse {
        Ok((1..=size).rev().map(Datum::Int4).collect())
    } else {
        Ok((1..=size).map(Datum::Int4).collect())
    }
}

/// `array_position(array, element [, start])`: the first place of an element.
fn array_position(values: &[Datum]) -> Result<Datum> {
    let [Datum::Array(element, elements), wanted, start @ ..] = values else {
        return Ok(Datum::Null);
    };
    let skipped = match start {
        [] => 0,
        [Datum::Int4(start)] => usize::try_from(start.saturating_sub(1)).unwrap_or(0),
        _ => return Err(SqlError::new("22004", "initial position must not be null")),
    };
    let found = elements.iter().skip(skipped).position(|e| same(*element, e, wanted));
    found.map_or(Ok(Datum::Null), |at| count(at + skipped + 1))
}

fn array_positions(values: &[Datum]) -> Result<Datum> {
    let [Datum::Array(element, elements), wanted] = values else { return Ok(Datum::Null) };
    let places = elements.iter().enumerate().filter(|(_, e)| same(*element, e, wanted));
    let places = places.map(|(at, _)| count(at + 1)).collect::<Result<Vec<Datum>>>()?;
    Ok(Datum::Array(TypeOid::INT4, places.into()))
}

fn array_remove(values: &[Datum]) -> Result<Datum> {
    let [Datum::Array(element, elements), unwanted] = values else { return Ok(Datum::Null) };
    let kept = elements.iter().filter(|e| !same(*element, e, unwanted)).cloned().collect();
    Ok(Datum::Array(*element, kept))
}

fn array_replace(values: &[Datum]) -> Result<Datum> {
    let [Datum::Array(element, elements), from, to] = values else { return Ok(Datum::Null) };
    let replaced = |e: &Datum| if same(*element, e, from) { to.clone() } else { e.clone() };
    Ok(Datum::Array(*element, elements.iter().map(replaced).collect()))
}

/// The type of an element beside which there is no array: any value of its kind will do for `NULL || x`.
fn element_type(value: &Datum) -> TypeOid {
    super::text::shown_type(value)
}

pub(super) fn array_append(values: &[Datum]) -> Result<Datum> {
    let [array, value] = values else { return Err(wrong()) };
    Ok(match array {
        Datum::Array(element, elements) => {
            Datum::Array(*element, elements.iter().chain([value]).cloned().collect())
        }
        _ => Datum::Array(element_type(value), [value.clone()].into()),
    })
}

pub(super) fn array_prepend(values: &[Datum]) -> Result<Datum> {
    let [value, array] = values else { return Err(wrong()) };
    Ok(match array {
        Datum::Array(element, elements) => {
            Datum::Array(*element, [value].into_iter().chain(elements.iter()).cloned().collect())
        }
        _ => Datum::Array(element_type(value), [value.clone()].into()),
    })
}

pub(super) fn array_cat(values: &[Datum]) -> Result<Datum> {
    match values {
        [Datum::Array(element, x), Datum::Array(_, y)] => {
            Ok(Datum::Array(*element, x.iter().chain(y.iter()).cloned().collect()))
        }
        [array @ Datum::Array(..), Datum::Null] | [Datum::Null, array @ Datum::Array(..)] => {
            Ok(array.clone())
        }
        [Datum::Null, Datum::Null] => Ok(Datum::Null),
        _ => Err(wrong()),
    }
}

/// `array_fill(value, {size} [, {1}])`
fn array_fill(values: &[Datum]) -> Result<Datum> {
    let [value, sizes, bounds @ ..] = values else { return Err(wrong()) };
    let numbers = |value: &Datum| match value {
        Datum::Array(_, numbers) => numbers
            .iter()
            .map(|number| match number {
                Datum::Int4(number) => Ok(*number),
                _ => Err(SqlError::new("22004", "dimension values cannot be null")),
            })
            .collect::<Result<Vec<i32>>>(),
        _ => Err(SqlError::new("22004", "dimension array or low bound array cannot be null")),
    };
    let bounds = bounds.first().map(numbers).transpose()?;
    let sizes = numbers(sizes)?;
    if bounds.as_ref().is_some_and(|bounds| bounds.len() != sizes.len()) {
        return Err(SqlError::new("2202E", "wrong number of array subscripts")
            .with_detail("Low bound array has different size than dimensions array."));
    }
    let element = element_type(value);
    let size = match sizes.as_slice() {
        [] => 0,
        [size] => *size,
        _ => return Err(SqlError::unsupported("an array of several dimensions")),
    };
    let size =
        usize::try_from(size).ok().filter(|size| *size <= ELEMENTS_MAX).ok_or_else(|| {
            SqlError::new(
                "54000",
                format!("array size exceeds the maximum allowed ({ELEMENTS_MAX})"),
            )
        })?;
    if size > 0 && bounds.is_some_and(|bounds| bounds != [1]) {
        return Err(SqlError::unsupported("an array that does not begin at 1"));
    }
    Ok(Datum::Array(element, std::iter::repeat_n(value.clone(), size).collect()))
}

fn array_dims(a: &Datum) -> Result<Datum> {
    match a {
        Datum::Array(_, elements) if elements.is_empty() => Ok(Datum::Null),
        Datum::Array(_, elements) => Ok(Datum::text(&format!("[1:{}]", elements.len()))),
        _ => Err(wrong()),
    }
}

fn array_ndims(a: &Datum) -> Result<Datum> {
    match a {
        Datum::Array(_, elements) if elements.is_empty() => Ok(Datum::Null),
        Datum::Array(..) => Ok(Datum::Int4(1)),
        _ => Err(wrong()),
    }
}

/// `array_length`, `array_upper`: of one dimension both are the number of elements.
fn array_upper(a: &Datum, dimension: &Datum) -> Result<Datum> {
    match (a, dimension) {
        (Datum::Array(_, elements), Datum::Int4(1)) if !elements.is_empty() => {
            count(elements.len())
        }
        _ => Ok(Datum::Null),
    }
}

fn array_lower(a: &Datum, dimension: &Datum) -> Result<Datum> {
    match (a, dimension) {
        (Datum::Array(_, elements), Datum::Int4(1)) if !elements.is_empty() => Ok(Datum::Int4(1)),
        _ => Ok(Datum::Null),
    }
}

fn cardinality(a: &Datum) -> Result<Datum> {
    match a {
        Datum::Array(_, elements) => count(elements.len()),
        _ => Err(wrong()),
    }
}

fn trim_array(a: &Datum, removed: &Datum) -> Result<Datum> {
    let (Datum::Array(element, elements), Datum::Int4(removed)) = (a, removed) else {
        return Err(wrong());
    };
    let kept = usize::try_from(*removed).ok().and_then(|n| elements.len().checked_sub(n));
    let kept = kept.and_then(|kept| elements.get(..kept)).ok_or_else(|| {
        SqlError::new(
            "2202E",
            format!("number of elements to trim must be between 0 and {}", elements.len()),
        )
    })?;
    Ok(Datum::Array(*element, kept.into()))
}

/// The element at a place from 1, and those from one place to another: what subscripts give.
pub(crate) fn slice(array: &Datum, lower: Option<i32>, upper: Option<i32>) -> Datum {
    let Datum::Array(element, elements) = array else { return Datum::Null };
    let first = usize::try_from(lower.unwrap_or(1).max(1) - 1).unwrap_or(0);
    let last = match upper {
        Some(upper) => usize::try_from(upper).unwrap_or(0).min(elements.len()),
        None => elements.len(),
    };
    Datum::Array(*element, elements.get(first..last).unwrap_or_default().into())
}

/// Whether each element of `b` is in `a`; NULL is in nothing.
fn contains(a: &Datum, b: &Datum) -> Result<Datum> {
    let (Datum::Array(element, a), Datum::Array(_, b)) = (a, b) else { return Err(wrong()) };
    let inside = |wanted: &Datum| {
        !wanted.is_null() && a.iter().any(|e| !e.is_null() && equal(*element, e, wanted))
    };
    Ok(Datum::Bool(b.iter().all(inside)))
}

fn contained(a: &Datum, b: &Datum) -> Result<Datum> {
    contains(b, a)
}

fn overlaps(a: &Datum, b: &Datum) -> Result<Datum> {
    let (Datum::Array(element, a), Datum::Array(_, b)) = (a, b) else { return Err(wrong()) };
    let inside = |wanted: &Datum| {
        !wanted.is_null() && b.iter().any(|e| !e.is_null() && equal(*element, e, wanted))
    };
    Ok(Datum::Bool(a.iter().any(inside)))
}

/// How many of the thresholds, which are sorted, are at most the operand.
fn width_bucket(operand: &Datum, thresholds: &Datum) -> Result<Datum> {
    let Datum::Array(element, thresholds) = thresholds else { return Err(wrong()) };
    if thresholds.iter().any(Datum::is_null) {
        return Err(SqlError::new("22004", "thresholds array must not contain NULLs"));
    }
    count(thresholds.partition_point(|threshold| compare(*element, threshold, operand).is_le()))
}

pub(super) const FUNCTIONS: &[Function] = functions! {
    "unnest" (ARRAY) ELEMENT strict single immutable Set(unnest);
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
    "array_length" (ARRAY, INT4) INT4 strict single immutable Binary(array_upper);
    "array_upper" (ARRAY, INT4) INT4 strict single immutable Binary(array_upper);
    "array_lower" (ARRAY, INT4) INT4 strict single immutable Binary(array_lower);
    "cardinality" (ARRAY) INT4 strict single immutable Unary(cardinality);
    "trim_array" (ARRAY, INT4) ARRAY strict single immutable Binary(trim_array);
    "arraycontains" (ARRAY, ARRAY) BOOL strict single immutable Binary(contains);
    "arraycontained" (ARRAY, ARRAY) BOOL strict single immutable Binary(contained);
    "arrayoverlap" (ARRAY, ARRAY) BOOL strict single immutable Binary(overlaps);
    "width_bucket" (COMPATIBLE, COMPATIBLES) INT4 strict single immutable Binary(width_bucket);
};

/// From 0, as vectors are counted.
fn vector_subscripts(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Vec<Datum>> {
    let less_one = |value: Datum| match value {
        Datum::Int4(number) => Datum::Int4(number.saturating_sub(1)),
        other => other,
    };
    Ok(generate_subscripts(exec, values)?.into_iter().map(less_one).collect())
}

fn vector_lower(a: &Datum, dimension: &Datum) -> Result<Datum> {
    Ok(match array_lower(a, dimension)? {
        Datum::Int4(number) => Datum::Int4(number - 1),
        other => other,
    })
}

fn vector_upper(a: &Datum, dimension: &Datum) -> Result<Datum> {
    Ok(match array_upper(a, dimension)? {
        Datum::Int4(number) => Datum::Int4(number - 1),
        other => other,
    })
}

/// What is told of vectors, which begin at 0, in the place of what is told of arrays.
pub(super) const OF_VECTORS: &[Function] = functions! {
    "generate_subscripts" (ARRAY, INT4) INT4 strict single immutable Set(vector_subscripts);
    "generate_subscripts" (ARRAY, INT4, BOOL) INT4 strict single immutable Set(vector_subscripts);
    "array_upper" (ARRAY, INT4) INT4 strict single immutable Binary(vector_upper);
    "array_lower" (ARRAY, INT4) INT4 strict single immutable Binary(vector_lower);
};

pub(super) const OPERATORS: &[Function] = functions! {
    "@>" (ARRAY, ARRAY) BOOL strict single immutable Binary(contains);
    "<@" (ARRAY, ARRAY) BOOL strict single immutable Binary(contained);
    "&&" (ARRAY, ARRAY) BOOL strict single immutable Binary(overlaps);
    "||" (COMPATIBLES, COMPATIBLE) COMPATIBLES nullable single immutable Pure(array_append);
    "||" (COMPATIBLE, COMPATIBLES) COMPATIBLES nullable single immutable Pure(array_prepend);
    "||" (COMPATIBLES, COMPATIBLES) COMPATIBLES nullable single immutable Pure(array_cat);
};
