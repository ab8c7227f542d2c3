//! Makes and truncates moments and intervals: `make_timestamp`, `date_bin`, `timeofday`, and
//! similar functions.

use std::sync::Arc;

use niwaki_expr::context::ExecContext;
use niwaki_expr::expr::convert_time;
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::{Datum, Interval, TimeZone, TypeOid, datetime};

use crate::functions::{Function, functions, wrong_types};

/// The longest sleep, in microseconds: a year, which is long enough and far below the largest
/// count.
const SLEEP_MICROS_MAX: i64 = 365 * niwaki_types::MICROS_PER_DAY;

fn interval(value: niwaki_types::Result<Interval>) -> Result<Datum> {
    Ok(Datum::Interval(Arc::new(value?)))
}

/// Returns the local time that the first six values give.
fn local_moment(values: &[Datum], name: &str) -> Result<i64> {
    let [
        Datum::Int4(year),
        Datum::Int4(month),
        Datum::Int4(day),
        Datum::Int4(hour),
        Datum::Int4(minute),
        Datum::Float8(second),
        ..,
    ] = values
    else {
        return Err(wrong_types(name));
    };
    Ok(datetime::make_timestamp(*year, *month, *day, *hour, *minute, *second)?)
}

fn make_timestamp(values: &[Datum]) -> Result<Datum> {
    Ok(Datum::Timestamp(local_moment(values, "make_timestamp")?))
}

fn make_timestamptz(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let local = local_moment(values, "make_timestamptz")?;
    let moment = match values.get(6) {
        Some(Datum::Text(name)) => TimeZone::of_argument(name)?.to_utc(local)?,
        _ => exec.text.zone.to_utc(local)?,
    };
    Ok(Datum::TimestampTz(moment))
}

/// Makes an interval of years, months, weeks, days, hours, minutes and seconds; omitted parts are
/// 0.
fn make_interval(values: &[Datum]) -> Result<Datum> {
    let mut parts = [0i32; 6];
    let mut seconds = 0.0;
    for (position, value) in values.iter().enumerate() {
        match (parts.get_mut(position), value) {
            (Some(part), Datum::Int4(value)) => *part = *value,
            (None, Datum::Float8(value)) => seconds = *value,
            _ => return Err(wrong_types("make_interval")),
        }
    }
    let [years, months, weeks, days, hours, minutes] = parts;
    interval(datetime::make_interval(years, months, weeks, days, hours, minutes, seconds))
}

fn date_bin(values: &[Datum]) -> Result<Datum> {
    Ok(match values {
        [Datum::Interval(stride), Datum::Timestamp(moment), Datum::Timestamp(origin)] => {
            Datum::Timestamp(datetime::date_bin(stride, *moment, *origin)?)
        }
        [Datum::Interval(stride), Datum::TimestampTz(moment), Datum::TimestampTz(origin)] => {
            Datum::TimestampTz(datetime::date_bin(stride, *moment, *origin)?)
        }
        _ => return Err(wrong_types("date_bin")),
    })
}

fn is_finite(a: &Datum) -> Result<Datum> {
    Ok(Datum::Bool(match a {
        Datum::Date(days) => {
            !matches!(*days, datetime::DATE_INFINITY | datetime::DATE_NEGATIVE_INFINITY)
        }
        Datum::Timestamp(micros) | Datum::TimestampTz(micros) => {
            !matches!(*micros, datetime::TIMESTAMP_INFINITY | datetime::TIMESTAMP_NEGATIVE_INFINITY)
        }
        Datum::Interval(_) => true,
        _ => return Err(wrong_types("isfinite")),
    }))
}

fn justify_days(a: &Datum) -> Result<Datum> {
    match a {
        Datum::Interval(i) => interval(i.justify_days()),
        _ => Err(wrong_types("justify_days")),
    }
}

fn justify_interval(a: &Datum) -> Result<Datum> {
    match a {
        Datum::Interval(i) => interval(i.justify_interval()),
        _ => Err(wrong_types("justify_interval")),
    }
}

/// Returns the time from the moment to the midnight at which today begins.
fn age_today(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let [value] = values else { return Err(wrong_types("age")) };
    let now = Datum::TimestampTz(exec.environment.transaction_timestamp());
    let today = convert_time(&now, TypeOid::DATE, exec.text)?;
    let local = |value: &Datum| match convert_time(value, TypeOid::TIMESTAMP, exec.text) {
        Ok(Datum::Timestamp(micros)) => Ok(micros),
        Ok(_) => Err(wrong_types("age")),
        Err(error) => Err(error),
    };
    interval(datetime::age(local(&today)?, local(value)?))
}

/// Returns the zone that a name or an abbreviation means.
fn zone_named(name: &str) -> Result<TimeZone> {
    TimeZone::get_or_abbreviation(name)
        .map_err(|_| SqlError::new("22023", format!("time zone \"{name}\" not recognized")))
}

fn date_trunc_in_zone(values: &[Datum]) -> Result<Datum> {
    let [Datum::Text(unit), Datum::TimestampTz(micros), Datum::Text(zone)] = values else {
        return Err(wrong_types("date_trunc"));
    };
    if matches!(*micros, datetime::TIMESTAMP_INFINITY | datetime::TIMESTAMP_NEGATIVE_INFINITY) {
        return Ok(Datum::TimestampTz(*micros));
    }
    Ok(Datum::TimestampTz(datetime::trunc_zoned(unit, *micros, &zone_named(zone)?)?))
}

#[expect(clippy::unnecessary_wraps, reason = "the signature of every function")]
fn time_of_day(exec: &mut ExecContext<'_>, _: &[Datum]) -> Result<Datum> {
    let now = exec.environment.clock_timestamp();
    Ok(Datum::Text(datetime::time_of_day_text(now, &exec.text.zone).into()))
}

fn sleep_until(exec: &mut ExecContext<'_>, moment: i64) -> Result<Datum> {
    let micros = moment.saturating_sub(exec.environment.clock_timestamp()).min(SLEEP_MICROS_MAX);
    if let Ok(micros) = u64::try_from(micros)
        && micros > 0
    {
        exec.environment.sleep(micros)?;
    }
    // A void function shows an empty string.
    Ok(Datum::text(""))
}

fn pg_sleep_for(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let [Datum::Interval(length)] = values else { return Err(wrong_types("pg_sleep_for")) };
    let now = exec.environment.clock_timestamp();
    let end = datetime::timestamptz_plus_interval(now, length, &exec.text.zone)?;
    sleep_until(exec, end)
}

fn pg_sleep_until(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let [Datum::TimestampTz(moment)] = values else { return Err(wrong_types("pg_sleep_until")) };
    sleep_until(exec, *moment)
}

pub(crate) const FUNCTIONS: &[Function] = functions! {
    "make_timestamp" (INT4, INT4, INT4, INT4, INT4, FLOAT8) TIMESTAMP strict single immutable Pure(make_timestamp);
    "make_timestamptz" (INT4, INT4, INT4, INT4, INT4, FLOAT8) TIMESTAMPTZ strict single stable Context(make_timestamptz);
    "make_timestamptz" (INT4, INT4, INT4, INT4, INT4, FLOAT8, TEXT) TIMESTAMPTZ strict single stable Context(make_timestamptz);
    "make_interval" () INTERVAL strict single immutable Pure(make_interval);
    "make_interval" (INT4) INTERVAL strict single immutable Pure(make_interval);
    "make_interval" (INT4, INT4) INTERVAL strict single immutable Pure(make_interval);
    "make_interval" (INT4, INT4, INT4) INTERVAL strict single immutable Pure(make_interval);
    "make_interval" (INT4, INT4, INT4, INT4) INTERVAL strict single immutable Pure(make_interval);
    "make_interval" (INT4, INT4, INT4, INT4, INT4) INTERVAL strict single immutable Pure(make_interval);
    "make_interval" (INT4, INT4, INT4, INT4, INT4, INT4) INTERVAL strict single immutable Pure(make_interval);
    "make_interval" (INT4, INT4, INT4, INT4, INT4, INT4, FLOAT8) INTERVAL strict single immutable Pure(make_interval);
    "date_bin" (INTERVAL, TIMESTAMP, TIMESTAMP) TIMESTAMP strict single immutable Pure(date_bin);
    "date_bin" (INTERVAL, TIMESTAMPTZ, TIMESTAMPTZ) TIMESTAMPTZ strict single immutable Pure(date_bin);
    "isfinite" (DATE) BOOL strict single immutable Unary(is_finite);
    "isfinite" (TIMESTAMP) BOOL strict single immutable Unary(is_finite);
    "isfinite" (TIMESTAMPTZ) BOOL strict single immutable Unary(is_finite);
    "isfinite" (INTERVAL) BOOL strict single immutable Unary(is_finite);
    "justify_days" (INTERVAL) INTERVAL strict single immutable Unary(justify_days);
    "justify_interval" (INTERVAL) INTERVAL strict single immutable Unary(justify_interval);
    "age" (TIMESTAMP) INTERVAL strict single stable Context(age_today);
    "age" (TIMESTAMPTZ) INTERVAL strict single stable Context(age_today);
    "date_trunc" (TEXT, TIMESTAMPTZ, TEXT) TIMESTAMPTZ strict single stable Pure(date_trunc_in_zone);
    "timeofday" () TEXT strict single volatile Context(time_of_day);
    "pg_sleep_for" (INTERVAL) VOID strict single volatile Context(pg_sleep_for);
    "pg_sleep_until" (TIMESTAMPTZ) VOID strict single volatile Context(pg_sleep_until);
};
