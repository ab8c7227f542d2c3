//! Functions and operators on dates, timestamps and intervals.

use std::sync::Arc;

use niwaki_types::{Datum, Interval, TextSettings, TypeOid, datetime};

use super::operators::wrong_types;
use super::{Function, functions};
use crate::context::ExecContext;
use crate::error::{Result, SqlError};

fn interval(value: niwaki_types::Result<Interval>) -> Result<Datum> {
    Ok(Datum::Interval(Arc::new(value?)))
}

fn date_add(a: &Datum, b: &Datum) -> Result<Datum> {
    match (a, b) {
        (Datum::Date(d), Datum::Int4(n)) | (Datum::Int4(n), Datum::Date(d)) => {
            Ok(Datum::Date(datetime::add_days(*d, i64::from(*n))?))
        }
        (Datum::Date(d), Datum::Interval(i)) | (Datum::Interval(i), Datum::Date(d)) => {
            let start = datetime::date_to_timestamp(*d)?;
            Ok(Datum::Timestamp(datetime::timestamp_plus_interval(start, i)?))
        }
        (Datum::Timestamp(t), Datum::Interval(i)) | (Datum::Interval(i), Datum::Timestamp(t)) => {
            Ok(Datum::Timestamp(datetime::timestamp_plus_interval(*t, i)?))
        }
        (Datum::Interval(x), Datum::Interval(y)) => interval(x.checked_add(y)),
        _ => Err(wrong_types("+")),
    }
}

fn date_subtract(a: &Datum, b: &Datum) -> Result<Datum> {
    match (a, b) {
        (Datum::Date(x), Datum::Date(y)) => Ok(Datum::Int4(datetime::subtract_dates(*x, *y)?)),
        (Datum::Date(d), Datum::Int4(n)) => {
            Ok(Datum::Date(datetime::add_days(*d, -i64::from(*n))?))
        }
        (Datum::Date(d), Datum::Interval(i)) => {
            let start = datetime::date_to_timestamp(*d)?;
            Ok(Datum::Timestamp(datetime::timestamp_plus_interval(start, &i.checked_neg()?)?))
        }
        (Datum::Timestamp(t), Datum::Interval(i)) => {
            Ok(Datum::Timestamp(datetime::timestamp_plus_interval(*t, &i.checked_neg()?)?))
        }
        (Datum::Timestamp(x), Datum::Timestamp(y))
        | (Datum::TimestampTz(x), Datum::TimestampTz(y)) => {
            interval(datetime::subtract_timestamps(*x, *y))
        }
        (Datum::Interval(x), Datum::Interval(y)) => interval(x.checked_sub(y)),
        _ => Err(wrong_types("-")),
    }
}

/// Months and days are added to what the session's clocks show, so a day may have 23 hours.
fn zoned_add(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    match values {
        [Datum::TimestampTz(t), Datum::Interval(i)]
        | [Datum::Interval(i), Datum::TimestampTz(t)] => {
            Ok(Datum::TimestampTz(datetime::timestamptz_plus_interval(*t, i, &exec.text.zone)?))
        }
        _ => Err(wrong_types("+")),
    }
}

fn zoned_subtract(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    match values {
        [Datum::TimestampTz(t), Datum::Interval(i)] => Ok(Datum::TimestampTz(
            datetime::timestamptz_plus_interval(*t, &i.checked_neg()?, &exec.text.zone)?,
        )),
        _ => Err(wrong_types("-")),
    }
}

fn interval_negate(a: &Datum) -> Result<Datum> {
    match a {
        Datum::Interval(i) => interval(i.checked_neg()),
        _ => Err(wrong_types("-")),
    }
}

fn interval_multiply(a: &Datum, b: &Datum) -> Result<Datum> {
    match (a, b) {
        (Datum::Interval(i), Datum::Float8(f)) | (Datum::Float8(f), Datum::Interval(i)) => {
            interval(i.multiply(*f))
        }
        _ => Err(wrong_types("*")),
    }
}

fn interval_divide(a: &Datum, b: &Datum) -> Result<Datum> {
    match (a, b) {
        (Datum::Interval(i), Datum::Float8(f)) => interval(i.divide(*f)),
        _ => Err(wrong_types("/")),
    }
}

/// Converts between date, timestamp and timestamptz in the session's time zone.
///
/// # Errors
/// `22008` when the target cannot show the moment.
pub(crate) fn convert_time(value: &Datum, to: TypeOid, text: &TextSettings) -> Result<Datum> {
    let zone = &text.zone;
    Ok(match (value, to) {
        (Datum::Date(d), TypeOid::TIMESTAMP) => Datum::Timestamp(datetime::date_to_timestamp(*d)?),
        (Datum::Date(d), TypeOid::TIMESTAMPTZ) => {
            Datum::TimestampTz(datetime::date_to_timestamptz(*d, zone)?)
        }
        (Datum::Timestamp(t), TypeOid::DATE) => Datum::Date(datetime::timestamp_to_date(*t)?),
        (Datum::Timestamp(t), TypeOid::TIMESTAMPTZ) => {
            Datum::TimestampTz(datetime::timestamp_to_timestamptz(*t, zone)?)
        }
        (Datum::TimestampTz(t), TypeOid::DATE) => {
            Datum::Date(datetime::timestamptz_to_date(*t, zone)?)
        }
        (Datum::TimestampTz(t), TypeOid::TIMESTAMP) => {
            Datum::Timestamp(datetime::timestamptz_to_timestamp(*t, zone)?)
        }
        (value, _) => value.clone(),
    })
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

pub(super) fn extract(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let (name, value) = field(values)?;
    Ok(datetime::extract(name, value, exec.text)?)
}

pub(super) fn date_part(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
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

pub(super) const OPERATORS: &[Function] = functions! {
    "+" (DATE, INT4) DATE strict single immutable Binary(date_add);
    "+" (INT4, DATE) DATE strict single immutable Binary(date_add);
    "+" (DATE, INTERVAL) TIMESTAMP strict single immutable Binary(date_add);
    "+" (INTERVAL, DATE) TIMESTAMP strict single immutable Binary(date_add);
    "+" (TIMESTAMP, INTERVAL) TIMESTAMP strict single immutable Binary(date_add);
    "+" (INTERVAL, TIMESTAMP) TIMESTAMP strict single immutable Binary(date_add);
    "+" (TIMESTAMPTZ, INTERVAL) TIMESTAMPTZ strict single stable Context(zoned_add);
    "+" (INTERVAL, TIMESTAMPTZ) TIMESTAMPTZ strict single stable Context(zoned_add);
    "+" (INTERVAL, INTERVAL) INTERVAL strict single immutable Binary(date_add);
    "-" (DATE, DATE) INT4 strict single immutable Binary(date_subtract);
    "-" (DATE, INT4) DATE strict single immutable Binary(date_subtract);
    "-" (DATE, INTERVAL) TIMESTAMP strict single immutable Binary(date_subtract);
    "-" (TIMESTAMP, INTERVAL) TIMESTAMP strict single immutable Binary(date_subtract);
    "-" (TIMESTAMPTZ, INTERVAL) TIMESTAMPTZ strict single stable Context(zoned_subtract);
    "-" (TIMESTAMP, TIMESTAMP) INTERVAL strict single immutable Binary(date_subtract);
    "-" (TIMESTAMPTZ, TIMESTAMPTZ) INTERVAL strict single immutable Binary(date_subtract);
    "-" (INTERVAL, INTERVAL) INTERVAL strict single immutable Binary(date_subtract);
    "-" (INTERVAL) INTERVAL strict single immutable Unary(interval_negate);
    "*" (INTERVAL, FLOAT8) INTERVAL strict single immutable Binary(interval_multiply);
    "*" (FLOAT8, INTERVAL) INTERVAL strict single immutable Binary(interval_multiply);
    "/" (INTERVAL, FLOAT8) INTERVAL strict single immutable Binary(interval_divide);
};

pub(super) const FUNCTIONS: &[Function] = functions! {
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
