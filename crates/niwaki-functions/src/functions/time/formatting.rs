//! Formats values by a picture, and reads them back: `to_char`, `to_timestamp`, `to_date`,
//! `to_number`.

use std::sync::Arc;

use niwaki_env::memory;
use niwaki_expr::context::ExecContext;
use niwaki_parse::error::Result;
use niwaki_types::{
    Datum, datetime, float4_to_char, float8_to_char, int4_to_char, int8_to_char, numeric_to_char,
};

use crate::functions::{Function, functions, wrong_types};

/// Returns a text, or NULL for `None`.
fn text(value: Option<String>) -> Datum {
    value.map_or(Datum::Null, |text| Datum::Text(text.into()))
}

/// Bytes of memory that reading a picture takes for each byte of the picture.
const PICTURE_BYTES: usize = 48;

/// Returns the picture, if there is memory to read it.
fn picture<'d>(value: &'d Datum, function: &'static str) -> Result<&'d str> {
    let Datum::Text(picture) = value else { return Err(wrong_types(function)) };
    memory::room(picture.len().saturating_mul(PICTURE_BYTES))?;
    Ok(picture)
}

fn number_to_char(a: &Datum, b: &Datum) -> Result<Datum> {
    let picture = picture(b, "to_char")?;
    let shown = match a {
        Datum::Int4(value) => int4_to_char(*value, picture)?,
        Datum::Int8(value) => int8_to_char(*value, picture)?,
        Datum::Float4(value) => float4_to_char(*value, picture)?,
        Datum::Float8(value) => float8_to_char(*value, picture)?,
        Datum::Numeric(value) => numeric_to_char(value, picture)?,
        _ => return Err(wrong_types("to_char")),
    };
    Ok(text(Some(shown)))
}

fn time_to_char(a: &Datum, b: &Datum) -> Result<Datum> {
    let picture = picture(b, "to_char")?;
    Ok(text(match a {
        Datum::Timestamp(micros) => datetime::timestamp_to_char(*micros, picture)?,
        Datum::Interval(interval) => datetime::interval_to_char(interval, picture)?,
        _ => return Err(wrong_types("to_char")),
    }))
}

fn zoned_to_char(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let [Datum::TimestampTz(micros), given] = values else { return Err(wrong_types("to_char")) };
    let picture = picture(given, "to_char")?;
    Ok(text(datetime::timestamptz_to_char(*micros, picture, &exec.text.zone)?))
}

fn to_timestamp(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let [Datum::Text(given), written] = values else { return Err(wrong_types("to_timestamp")) };
    let picture = picture(written, "to_timestamp")?;
    Ok(Datum::TimestampTz(datetime::to_timestamp(given, picture, &exec.text.zone)?))
}

fn to_date(a: &Datum, b: &Datum) -> Result<Datum> {
    let Datum::Text(given) = a else { return Err(wrong_types("to_date")) };
    Ok(Datum::Date(datetime::to_date(given, picture(b, "to_date")?)?))
}

fn to_number(a: &Datum, b: &Datum) -> Result<Datum> {
    let Datum::Text(given) = a else { return Err(wrong_types("to_number")) };
    let number = niwaki_types::to_number(given, picture(b, "to_number")?)?;
    Ok(number.map_or(Datum::Null, |number| Datum::Numeric(Arc::new(number))))
}

pub(crate) const FUNCTIONS: &[Function] = functions! {
    "to_char" (TIMESTAMPTZ, TEXT) TEXT strict single stable Context(zoned_to_char);
    "to_char" (NUMERIC, TEXT) TEXT strict single stable Binary(number_to_char);
    "to_char" (INT4, TEXT) TEXT strict single stable Binary(number_to_char);
    "to_char" (INT8, TEXT) TEXT strict single stable Binary(number_to_char);
    "to_char" (FLOAT4, TEXT) TEXT strict single stable Binary(number_to_char);
    "to_char" (FLOAT8, TEXT) TEXT strict single stable Binary(number_to_char);
    "to_char" (INTERVAL, TEXT) TEXT strict single stable Binary(time_to_char);
    "to_char" (TIMESTAMP, TEXT) TEXT strict single stable Binary(time_to_char);
    "to_timestamp" (TEXT, TEXT) TIMESTAMPTZ strict single stable Context(to_timestamp);
    "to_date" (TEXT, TEXT) DATE strict single stable Binary(to_date);
    "to_number" (TEXT, TEXT) NUMERIC strict single stable Binary(to_number);
};
