//! Functions and operators on dates, timestamps and intervals.

use std::sync::Arc;

use niwaki_expr::context::ExecContext;
use niwaki_expr::expr::convert_time;
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::{ArithmeticOperator, Datum, Interval, TypeOid, datetime, zoned_arithmetic};

use crate::functions::number::operators::{add, divide, multiply, negate, subtract};
use crate::functions::{Function, functions, wrong_types};

fn interval(value: niwaki_types::Result<Interval>) -> Result<Datum> {
    Ok(Datum::Interval(Arc::new(value?)))
}

fn zoned_add(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    zoned(ArithmeticOperator::Add, exec, values)
}

fn zoned_subtract(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    zoned(ArithmeticOperator::Subtract, exec, values)
}

fn zoned(operator: ArithmeticOperator, exec: &ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let [a, b] = values else { return Err(wrong_types("+")) };
    Ok(zoned_arithmetic(operator, a, b, &exec.text.zone)?)
}

#[expect(clippy::unnecessary_wraps, reason = "the signature of every function")]
fn now(exec: &mut ExecContext<'_>, _: &[Datum]) -> Result<Datum> {
    Ok(Datum::TimestampTz(exec.environment.transaction_timestamp()))
}

#[expect(clippy::unnecessary_wraps, reason = "the signature of every function")]
fn statement_timestamp(exec: &mut ExecContext<'_>, _: &[Datum]) -> Result<Datum> {
    Ok(Datum::TimestampTz(exec.environment.statement_timestamp()))
}

#[expect(clippy::unnecessary_wraps, reason = "the signature of every function")]
fn clock_timestamp(exec: &mut ExecContext<'_>, _: &[Datum]) -> Result<Datum> {
    Ok(Datum::TimestampTz(exec.environment.clock_timestamp()))
}

fn current_date(exec: &mut ExecContext<'_>, _: &[Datum]) -> Result<Datum> {
    let now = Datum::TimestampTz(exec.environment.transaction_timestamp());
    convert_time(&now, TypeOid::DATE, exec.text)
}

fn local_timestamp(exec: &mut ExecContext<'_>, _: &[Datum]) -> Result<Datum> {
    let now = Datum::TimestampTz(exec.environment.transaction_timestamp());
    convert_time(&now, TypeOid::TIMESTAMP, exec.text)
}

fn field(values: &[Datum]) -> Result<(&str, &Datum)> {
    match values {
        [Datum::Text(name), value] => Ok((name, value)),
        _ => Err(wrong_types("extract")),
    }
}

pub(crate) fn extract(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let (name, value) = field(values)?;
    Ok(datetime::extract(name, value, exec.text)?)
}

pub(crate) fn date_part(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let (name, value) = field(values)?;
    Ok(datetime::date_part(name, value, exec.text)?)
}

fn date_trunc(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let (name, value) = field(values)?;
    Ok(datetime::date_trunc(name, value, exec.text)?)
}

fn age(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let local = |value: &Datum| match convert_time(value, TypeOid::TIMESTAMP, exec.text) {
        Ok(Datum::Timestamp(t)) => Ok(t),
        Ok(_) => Err(wrong_types("age")),
        Err(error) => Err(error),
    };
    match values {
        [a, b] => interval(datetime::age(local(a)?, local(b)?)),
        _ => Err(wrong_types("age")),
    }
}

/// `AT TIME ZONE`
fn at_zone(a: &Datum, b: &Datum) -> Result<Datum> {
    let Datum::Text(name) = a else { return Err(wrong_types("timezone")) };
    let zone = niwaki_types::TimeZone::get_or_abbreviation(name)
        .map_err(|_| SqlError::new("22023", format!("time zone \"{name}\" not recognized")))?;
    match b {
        Datum::Timestamp(t) => {
            Ok(Datum::TimestampTz(datetime::timestamp_to_timestamptz(*t, &zone)?))
        }
        Datum::TimestampTz(t) => {
            Ok(Datum::Timestamp(datetime::timestamptz_to_timestamp(*t, &zone)?))
        }
        _ => Err(wrong_types("timezone")),
    }
}

fn justify_hours(a: &Datum) -> Result<Datum> {
    match a {
        Datum::Interval(i) => interval(i.justify_hours()),
        _ => Err(wrong_types("justify_hours")),
    }
}

fn make_date(values: &[Datum]) -> Result<Datum> {
    let [Datum::Int4(year), Datum::Int4(month), Datum::Int4(day)] = values else {
        return Err(wrong_types("make_date"));
    };
    Ok(Datum::Date(datetime::make_date(*year, *month, *day)?))
}

fn to_timestamp(a: &Datum) -> Result<Datum> {
    let Datum::Float8(seconds) = a else { return Err(wrong_types("to_timestamp")) };
    Ok(Datum::TimestampTz(datetime::timestamp_from_unix(*seconds)?))
}

pub(crate) const OPERATORS: &[Function] = functions! {
    "+" (DATE, INT4) DATE strict single immutable Binary(add);
    "+" (INT4, DATE) DATE strict single immutable Binary(add);
    "+" (DATE, INTERVAL) TIMESTAMP strict single immutable Binary(add);
    "+" (INTERVAL, DATE) TIMESTAMP strict single immutable Binary(add);
    "+" (TIMESTAMP, INTERVAL) TIMESTAMP strict single immutable Binary(add);
    "+" (INTERVAL, TIMESTAMP) TIMESTAMP strict single immutable Binary(add);
    "+" (TIMESTAMPTZ, INTERVAL) TIMESTAMPTZ strict single stable Context(zoned_add);
    "+" (INTERVAL, TIMESTAMPTZ) TIMESTAMPTZ strict single stable Context(zoned_add);
    "+" (INTERVAL, INTERVAL) INTERVAL strict single immutable Binary(add);
    "-" (DATE, DATE) INT4 strict single immutable Binary(subtract);
    "-" (DATE, INT4) DATE strict single immutable Binary(subtract);
    "-" (DATE, INTERVAL) TIMESTAMP strict single immutable Binary(subtract);
    "-" (TIMESTAMP, INTERVAL) TIMESTAMP strict single immutable Binary(subtract);
    "-" (TIMESTAMPTZ, INTERVAL) TIMESTAMPTZ strict single stable Context(zoned_subtract);
    "-" (TIMESTAMP, TIMESTAMP) INTERVAL strict single immutable Binary(subtract);
    "-" (TIMESTAMPTZ, TIMESTAMPTZ) INTERVAL strict single immutable Binary(subtract);
    "-" (INTERVAL, INTERVAL) INTERVAL strict single immutable Binary(subtract);
    "-" (INTERVAL) INTERVAL strict single immutable Unary(negate);
    "*" (INTERVAL, FLOAT8) INTERVAL strict single immutable Binary(multiply);
    "*" (FLOAT8, INTERVAL) INTERVAL strict single immutable Binary(multiply);
    "/" (INTERVAL, FLOAT8) INTERVAL strict single immutable Binary(divide);
};

pub(crate) const FUNCTIONS: &[Function] = functions! {
    "now" () TIMESTAMPTZ strict single stable Context(now);
    "transaction_timestamp" () TIMESTAMPTZ strict single stable Context(now);
    "statement_timestamp" () TIMESTAMPTZ strict single stable Context(statement_timestamp);
    "clock_timestamp" () TIMESTAMPTZ strict single volatile Context(clock_timestamp);
    "current_date" () DATE strict single stable Context(current_date);
    "localtimestamp" () TIMESTAMP strict single stable Context(local_timestamp);
    "extract" (TEXT, DATE) NUMERIC strict single immutable Context(extract);
    "extract" (TEXT, TIMESTAMP) NUMERIC strict single immutable Context(extract);
    "extract" (TEXT, TIMESTAMPTZ) NUMERIC strict single stable Context(extract);
    "extract" (TEXT, INTERVAL) NUMERIC strict single immutable Context(extract);
    "date_part" (TEXT, DATE) FLOAT8 strict single immutable Context(date_part);
    "date_part" (TEXT, TIMESTAMP) FLOAT8 strict single immutable Context(date_part);
    "date_part" (TEXT, TIMESTAMPTZ) FLOAT8 strict single stable Context(date_part);
    "date_part" (TEXT, INTERVAL) FLOAT8 strict single immutable Context(date_part);
    "date_trunc" (TEXT, TIMESTAMP) TIMESTAMP strict single immutable Context(date_trunc);
    "date_trunc" (TEXT, TIMESTAMPTZ) TIMESTAMPTZ strict single stable Context(date_trunc);
    "date_trunc" (TEXT, INTERVAL) INTERVAL strict single immutable Context(date_trunc);
    "age" (TIMESTAMP, TIMESTAMP) INTERVAL strict single immutable Context(age);
    "age" (TIMESTAMPTZ, TIMESTAMPTZ) INTERVAL strict single stable Context(age);
    "timezone" (TEXT, TIMESTAMP) TIMESTAMPTZ strict single immutable Binary(at_zone);
    "timezone" (TEXT, TIMESTAMPTZ) TIMESTAMP strict single immutable Binary(at_zone);
    "justify_hours" (INTERVAL) INTERVAL strict single immutable Unary(justify_hours);
    "make_date" (INT4, INT4, INT4) DATE strict single immutable Pure(make_date);
    "to_timestamp" (FLOAT8) TIMESTAMPTZ strict single immutable Unary(to_timestamp);
};
