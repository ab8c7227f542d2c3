//! Functions that make moments and intervals, or compare and cut them: `make_timestamp`, `date_bin`,
//! `OVERLAPS`, `timeofday`, and their like.

use std::sync::Arc;

use niwaki_types::{Datum, Interval, TimeZone, TypeOid, datetime};

use super::operators::wrong_types;
use super::time::convert_time;
use super::{Function, functions};
use crate::context::ExecContext;
use crate::error::{Result, SqlError};

/// The longest sleep, a year: long enough, and far from the end of what is counted.
const SLEEP_MICROS_MAX: i64 = 365 * niwaki_types::MICROS_PER_DAY;

fn interval(value: niwaki_types::Result<Interval>) -> Result<Datum> {
    Ok(Datum::Interval(Arc::new(value?)))
}

/// The local time that the first six values say.
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

/// Years, months, weeks, days, hours, minutes, seconds; those left out are 0.
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

/// Time from the moment to the midnight with which today begins.
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

/// The zone that a name or an abbreviation means.
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

/// `AT TIME ZONE` an interval
fn at_interval(a: &Datum, b: &Datum) -> Result<Datum> {
    let Datum::Interval(offset) = a else { return Err(wrong_types("timezone")) };
    match b {
        Datum::Timestamp(micros) => {
            let east = TimeZone::interval_offset(offset)?;
            Ok(Datum::TimestampTz(datetime::at_offset(*micros, -east)?))
        }
        Datum::TimestampTz(micros) => {
            let east = TimeZone::interval_offset(offset)?;
            Ok(Datum::Timestamp(datetime::at_offset(*micros, east)?))
        }
        _ => Err(wrong_types("timezone")),
    }
}

/// A period by its ends, of which either may be unknown and come first.
type Period = (Option<i64>, Option<i64>);

/// The end of a period, given as a moment or by its length.
fn period(start: &Datum, end: &Datum, exec: &ExecContext<'_>) -> Result<Period> {
    let moment = |value: &Datum| match value {
        Datum::Timestamp(micros) | Datum::TimestampTz(micros) => Some(*micros),
        _ => None,
    };
    let end = match (start, end) {
        (Datum::Timestamp(from), Datum::Interval(length)) => {
            Some(datetime::timestamp_plus_interval(*from, length)?)
        }
        (Datum::TimestampTz(from), Datum::Interval(length)) => {
            Some(datetime::timestamptz_plus_interval(*from, length, &exec.text.zone)?)
        }
        (_, end) => moment(end),
    };
    Ok((moment(start), end))
}

/// Whether two periods have a moment in common; `None` when that depends on an end that is unknown. A
/// period does not include its end, unless it is that moment alone.
fn overlap(first: Period, second: Period) -> Option<bool> {
    let ordered = |period: Period| match period {
        (Some(start), Some(end)) if start > end => (Some(end), Some(start)),
        (None, known) => (known, None),
        period => period,
    };
    let ((first_start, first_end), (second_start, second_end)) = (ordered(first), ordered(second));
    let (first_start, second_start) = (first_start?, second_start?);
    if first_start == second_start {
        first_end?;
        second_end?;
        return Some(true);
    }
    // The one that begins earlier must reach beyond the start of the other.
    let (earlier_end, later_start, later_end) = if first_start < second_start {
        (first_end, second_start, second_end)
    } else {
        (second_end, first_start, first_end)
    };
    if later_start < earlier_end? {
        return Some(true);
    }
    later_end?;
    Some(false)
}

fn overlaps(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let [a, b, c, d] = values else { return Err(wrong_types("overlaps")) };
    let found = overlap(period(a, b, exec)?, period(c, d, exec)?);
    Ok(found.map_or(Datum::Null, Datum::Bool))
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
    // A void function shows as an empty string.
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

pub(super) const FUNCTIONS: &[Function] = functions! {
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
    "timezone" (INTERVAL, TIMESTAMP) TIMESTAMPTZ strict single immutable Binary(at_interval);
    "timezone" (INTERVAL, TIMESTAMPTZ) TIMESTAMP strict single immutable Binary(at_interval);
    "overlaps" (TIMESTAMP, TIMESTAMP, TIMESTAMP, TIMESTAMP) BOOL nullable single immutable Context(overlaps);
    "overlaps" (TIMESTAMP, INTERVAL, TIMESTAMP, INTERVAL) BOOL nullable single immutable Context(overlaps);
    "overlaps" (TIMESTAMP, TIMESTAMP, TIMESTAMP, INTERVAL) BOOL nullable single immutable Context(overlaps);
    "overlaps" (TIMESTAMP, INTERVAL, TIMESTAMP, TIMESTAMP) BOOL nullable single immutable Context(overlaps);
    "overlaps" (TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ) BOOL nullable single immutable Context(overlaps);
    "overlaps" (TIMESTAMPTZ, INTERVAL, TIMESTAMPTZ, INTERVAL) BOOL nullable single stable Context(overlaps);
    "overlaps" (TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, INTERVAL) BOOL nullable single stable Context(overlaps);
    "overlaps" (TIMESTAMPTZ, INTERVAL, TIMESTAMPTZ, TIMESTAMPTZ) BOOL nullable single stable Context(overlaps);
    "timeofday" () TEXT strict single volatile Context(time_of_day);
    "pg_sleep_for" (INTERVAL) VOID strict single volatile Context(pg_sleep_for);
    "pg_sleep_until" (TIMESTAMPTZ) VOID strict single volatile Context(pg_sleep_until);
};
