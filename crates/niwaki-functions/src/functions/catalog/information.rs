//! Functions that describe their arguments, or the calls around them.

use niwaki_expr::context::ExecContext;
use niwaki_parse::error::Result;
use niwaki_types::Datum;

use crate::functions::{Function, functions};

fn count_where(values: &[Datum], test: impl Fn(&Datum) -> bool) -> Result<Datum> {
    let count = values.iter().filter(|value| test(value)).count();
    i32::try_from(count)
        .map(Datum::Int4)
        .map_err(|_| crate::functions::number::operators::range("integer"))
}

fn nulls(values: &[Datum]) -> Result<Datum> {
    count_where(values, Datum::is_null)
}

fn non_nulls(values: &[Datum]) -> Result<Datum> {
    count_where(values, |value| !value.is_null())
}

/// Counts the NULLs among the elements of an array; NULL for a NULL array.
fn nulls_of_array(values: &[Datum]) -> Result<Datum> {
    match values {
        [Datum::Array(_, elements)] => nulls(elements),
        _ => Ok(Datum::Null),
    }
}

fn non_nulls_of_array(values: &[Datum]) -> Result<Datum> {
    match values {
        [Datum::Array(_, elements)] => non_nulls(elements),
        _ => Ok(Datum::Null),
    }
}

fn trigger_depth(exec: &mut ExecContext<'_>, _: &[Datum]) -> Result<Datum> {
    Ok(Datum::Int4(exec.calls.trigger_depth()))
}

pub(crate) const FUNCTIONS: &[Function] = functions! {
    "num_nulls" (ANY) INT4 nullable variadic immutable Pure(nulls);
    "num_nonnulls" (ANY) INT4 nullable variadic immutable Pure(non_nulls);
    "pg_trigger_depth" () INT4 strict single stable Context(trigger_depth);
};

pub(crate) const VARIADIC: &[Function] = functions! {
    "num_nulls" (ARRAY) INT4 nullable single immutable Pure(nulls_of_array);
    "num_nonnulls" (ARRAY) INT4 nullable single immutable Pure(non_nulls_of_array);
};
