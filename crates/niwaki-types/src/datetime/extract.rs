//! Fields of dates, times, timestamps and intervals: `extract`, `date_part`, and cutting to a field
//! with `date_trunc`.

use std::sync::Arc;

use super::interval_text::{Unit, unit as unit_of};
use crate::error::{Result, TypeError};
use crate::moment::calendar::{
    Civil, EPOCH_JULIAN_DAY, MICROS_PER_DAY, MICROS_PER_HOUR, MICROS_PER_MINUTE, MICROS_PER_SECOND,
    check_timestamp, civil_from_days, days_from_civil, finite_timestamp, is_infinite, split,
};
use crate::moment::interval::Interval;
use crate::moment::operations::{clock, date_to_timestamp, date_to_timestamptz};
use crate::moment::time_of_day::TimeTz;
use crate::moment::zone::TimeZone;
use crate::numeric::Numeric;
use crate::settings::TextSettings;
use crate::types::oid::TypeOid;
use crate::value::datum::Datum;

/// Days from 2000-01-01 back to 1970-01-01, in microseconds.
const UNIX_EPOCH_MICROS: i64 = -10_957 * MICROS_PER_DAY;

/// A field that `extract` or `date_trunc` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Microseconds,
    Milliseconds,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
    Decade,
    Century,
    Millennium,
    DayOfWeek,
    IsoDayOfWeek,
    DayOfYear,
    IsoYear,
    Julian,
    Epoch,
    TimeZone,
    TimeZoneHour,
    TimeZoneMinute,
}

impl From<Unit> for Field {
    fn from(unit: Unit) -> Self {
        match unit {
            Unit::Microsecond => Self::Microseconds,
            Unit::Millisecond => Self::Milliseconds,
            Unit::Second => Self::Second,
            Unit::Minute => Self::Minute,
            Unit::Hour => Self::Hour,
            Unit::Day => Self::Day,
            Unit::Week => Self::Week,
            Unit::Month => Self::Month,
            Unit::Year => Self::Year,
            Unit::Decade => Self::Decade,
            Unit::Century => Self::Century,
            Unit::Millennium => Self::Millennium,
        }
    }
}

fn field(name: &str) -> Option<Field> {
    // A unit of intervals has the same spellings as a field.
    if let Some(unit) = unit_of(name) {
        return Some(unit.into());
    }
    Some(match name.to_ascii_lowercase().as_str() {
        "quarter" | "qtr" => Field::Quarter,
        "dow" => Field::DayOfWeek,
        "isodow" => Field::IsoDayOfWeek,
        "doy" => Field::DayOfYear,
        "isoyear" => Field::IsoYear,
        "julian" | "jd" | "j" => Field::Julian,
        "epoch" => Field::Epoch,
        "timezone" => Field::TimeZone,
        "timezone_h" | "timezone_hour" => Field::TimeZoneHour,
        "timezone_m" | "timezone_minute" => Field::TimeZoneMinute,
        _ => return None,
    })
}

/// Returns a field that a moment can be cut to, or that PostgreSQL at least knows as a unit.
fn unit(name: &str) -> Option<Field> {
    field(name).filter(|field| {
        !matches!(
            field,
            Field::DayOfWeek
                | Field::IsoDayOfWeek
                | Field::DayOfYear
                | Field::IsoYear
                | Field::Julian
                | Field::Epoch
        )
    })
}

#[cold]
fn not_recognized(name: &str, kind: TypeOid) -> TypeError {
    let kind = kind.display_name();
    TypeError::new(
        "22023",
        format!("unit \"{}\" not recognized for type {kind}", name.to_ascii_lowercase()),
    )
}

#[cold]
fn not_supported(name: &str, kind: TypeOid) -> TypeError {
    let kind = kind.display_name();
    TypeError::new(
        "0A000",
        format!("unit \"{}\" not supported for type {kind}", name.to_ascii_lowercase()),
    )
}

/// Returns a field of a date, time, timestamp or interval as `numeric`. NULL gives NULL, and so
/// does a field that an infinite moment does not have.
///
/// # Errors
/// `22023` for an unknown field, `0A000` for one that the type does not have.
pub fn extract(name: &str, value: &Datum, settings: &TextSettings) -> Result<Datum> {
    let found = match value {
        Datum::Null => None,
        Datum::Timestamp(micros) => extract_moment(name, *micros, None, TypeOid::TIMESTAMP)?,
        Datum::TimestampTz(micros) => {
            extract_moment(name, *micros, Some(&settings.zone), TypeOid::TIMESTAMPTZ)?
        }
        Datum::Date(days) => extract_date(name, *days)?,
        Datum::Interval(interval) => Some(extract_interval(name, interval)?),
        Datum::Time(time) => Some(extract_time(name, *time, None)?),
        Datum::TimeTz(value) => Some(extract_time(name, value.time, Some(value))?),
        _ => return Err(TypeError::unsupported("extract from a value without time")),
    };
    Ok(found.map_or(Datum::Null, |value| Datum::Numeric(Arc::new(value))))
}

/// Does [`extract`] as `float8`: the SQL function `date_part`.
///
/// # Errors
/// As [`extract`].
pub fn date_part(name: &str, value: &Datum, settings: &TextSettings) -> Result<Datum> {
    // `date_part` knows dates as timestamps, with all their fields.
    let promoted;
    let value = match value {
        Datum::Date(days) => {
            promoted = Datum::Timestamp(date_to_timestamp(*days)?);
            &promoted
        }
        other => other,
    };
    if let Some(value) = time_part(name, value) {
        return Ok(Datum::Float8(value));
    }
    Ok(match extract(name, value, settings)? {
        Datum::Numeric(value) => Datum::Float8(value.to_f64()?),
        other => other,
    })
}

fn integer(value: i64) -> Numeric {
    Numeric::from(value)
}

fn scaled(value: i128, scale: u16) -> Numeric {
    Numeric::new(value, scale)
}

fn extract_moment(
    name: &str,
    micros: i64,
    zone: Option<&TimeZone>,
    kind: TypeOid,
) -> Result<Option<Numeric>> {
    let field = field(name).ok_or_else(|| not_recognized(name, kind))?;
    let zone_field = matches!(field, Field::TimeZone | Field::TimeZoneHour | Field::TimeZoneMinute);
    if is_infinite(micros) {
        return Ok(infinite_field(field, micros > 0));
    }
    if zone_field && zone.is_none() {
        return Err(not_supported(name, kind));
    }
    let offset = zone.map_or(0, |zone| zone.offset_at(micros));
    if field == Field::Epoch {
        let since = i128::from(micros) - i128::from(UNIX_EPOCH_MICROS);
        return Ok(Some(scaled(since, 6)));
    }
    let local = zone.map_or(Ok(micros), |zone| zone.to_local(micros))?;
    let (days, time) = split(local);
    let (hour, minute, second, fraction) = clock(time);
    let offset = i64::from(offset);
    Ok(Some(match field {
        Field::Microseconds => integer(second * MICROS_PER_SECOND + fraction),
        Field::Milliseconds => scaled((second * MICROS_PER_SECOND + fraction).into(), 3),
        Field::Second => scaled((second * MICROS_PER_SECOND + fraction).into(), 6),
        Field::Minute => integer(minute),
        Field::Hour => integer(hour),
        Field::Julian => {
            let part = integer(time).div(&integer(MICROS_PER_DAY))?;
            integer(days + EPOCH_JULIAN_DAY).add(&part)?
        }
        Field::TimeZone => integer(offset),
        Field::TimeZoneHour => integer(offset / 3600),
        Field::TimeZoneMinute => integer(offset / 60 % 60),
        _ => integer(day_field(field, days)),
    }))
}

/// Returns a field of an infinite moment: fields that only grow are infinite, the others unknown.
fn infinite_field(field: Field, positive: bool) -> Option<Numeric> {
    let grows = matches!(
        field,
        Field::Year
            | Field::Decade
            | Field::Century
            | Field::Millennium
            | Field::Julian
            | Field::IsoYear
            | Field::Epoch
    );
    grows.then_some(if positive { Numeric::INFINITY } else { Numeric::NEGATIVE_INFINITY })
}

fn extract_date(name: &str, days: i32) -> Result<Option<Numeric>> {
    let kind = TypeOid::DATE;
    let field = field(name).ok_or_else(|| not_recognized(name, kind))?;
    match field {
        Field::Microseconds
        | Field::Milliseconds
        | Field::Second
        | Field::Minute
        | Field::Hour
        | Field::TimeZone
        | Field::TimeZoneHour
        | Field::TimeZoneMinute => return Err(not_supported(name, kind)),
        _ => {}
    }
    if crate::moment::calendar::is_infinite_date(days) {
        return Ok(infinite_field(field, days > 0));
    }
    let days = i64::from(days);
    Ok(Some(match field {
        Field::Epoch => integer((days + 10_957) * 86_400),
        Field::Julian => integer(days + EPOCH_JULIAN_DAY),
        _ => integer(day_field(field, days)),
    }))
}

/// Returns a field that depends on the day alone.
fn day_field(field: Field, days: i64) -> i64 {
    let Civil { year, month, day } = civil_from_days(days);
    // No year 0 is shown: 1 BC is -1.
    let shown = if year > 0 { year } else { year - 1 };
    match field {
        Field::Day => day.into(),
        Field::Month => month.into(),
        Field::Quarter => i64::from(month - 1) / 3 + 1,
        Field::Year => shown,
        Field::Week => iso_week(days).1,
        Field::IsoYear => {
            let year = iso_week(days).0;
            if year > 0 { year } else { year - 1 }
        }
        Field::Decade => year.div_euclid(10),
        Field::Century => {
            if year > 0 {
                (year + 99) / 100
            } else {
                -((99 - (year - 1)) / 100)
            }
        }
        Field::Millennium => {
            if year > 0 {
                (year + 999) / 1000
            } else {
                -((999 - (year - 1)) / 1000)
            }
        }
        Field::DayOfWeek => weekday(days),
        Field::IsoDayOfWeek => match weekday(days) {
            0 => 7,
            day => day,
        },
        Field::DayOfYear => days - days_from_civil(year, 1, 1) + 1,
        _ => 0,
    }
}

/// Returns the day of the week, from 0 for Sunday to 6; 2000-01-01 was a Saturday.
fn weekday(days: i64) -> i64 {
    (days + 6).rem_euclid(7)
}

/// Returns Monday of the week that `days` lies in.
fn monday(days: i64) -> i64 {
    days - (days + 5).rem_euclid(7)
}

/// Returns the ISO year and week: the week belongs to the year that its Thursday lies in.
fn iso_week(days: i64) -> (i64, i64) {
    let thursday = monday(days) + 3;
    let year = civil_from_days(thursday).year;
    (year, (thursday - days_from_civil(year, 1, 1)) / 7 + 1)
}

/// Returns a field of a time of day that may have a fraction, added up in binary as in PostgreSQL.
fn time_part(name: &str, value: &Datum) -> Option<f64> {
    let (time, west) = match value {
        Datum::Time(time) => (*time, 0),
        Datum::TimeTz(value) => (value.time, value.west),
        _ => return None,
    };
    let (_, _, second, fraction) = clock(time);
    match field(name)? {
        Field::Milliseconds => Some(second as f64 * 1e3 + fraction as f64 / 1e3),
        Field::Second => Some(second as f64 + fraction as f64 / 1e6),
        Field::Epoch => Some(time as f64 / 1e6 + f64::from(west)),
        _ => None,
    }
}

/// Extracts a field of a time of day; `zoned` is given if the time has a zone.
fn extract_time(name: &str, time: i64, zoned: Option<&TimeTz>) -> Result<Numeric> {
    let kind = if zoned.is_some() { TypeOid::TIMETZ } else { TypeOid::TIME };
    let field = field(name).ok_or_else(|| not_recognized(name, kind))?;
    let (hour, minute, second, fraction) = clock(time);
    let rest = second * MICROS_PER_SECOND + fraction;
    let east = zoned.map(|value| -i64::from(value.west));
    Ok(match (field, east) {
        (Field::Microseconds, _) => integer(rest),
        (Field::Milliseconds, _) => scaled(rest.into(), 3),
        (Field::Second, _) => scaled(rest.into(), 6),
        (Field::Minute, _) => integer(minute),
        (Field::Hour, _) => integer(hour),
        (Field::Epoch, _) => scaled(zoned.map_or(time, TimeTz::moment).into(), 6),
        (Field::TimeZone, Some(east)) => integer(east),
        (Field::TimeZoneHour, Some(east)) => integer(east / 3600),
        (Field::TimeZoneMinute, Some(east)) => integer(east / 60 % 60),
        _ => return Err(not_supported(name, kind)),
    })
}

fn extract_interval(name: &str, interval: &Interval) -> Result<Numeric> {
    let kind = TypeOid::INTERVAL;
    let field = field(name).ok_or_else(|| not_recognized(name, kind))?;
    let (hours, minutes, rest) = interval.clock();
    let (years, months) = (i64::from(interval.months / 12), i64::from(interval.months % 12));
    Ok(match field {
        Field::Microseconds => integer(rest),
        Field::Milliseconds => scaled(rest.into(), 3),
        Field::Second => scaled(rest.into(), 6),
        Field::Minute => integer(minutes),
        Field::Hour => integer(hours),
        Field::Day => integer(interval.days.into()),
        Field::Month => integer(months),
        Field::Quarter => integer(months / 3 + 1),
        Field::Year => integer(years),
        Field::Decade => integer(years / 10),
        Field::Century => integer(years / 100),
        Field::Millennium => integer(years / 1000),
        Field::Epoch => {
            // A year counts as 365.25 days, a month as 30.
            let quarter_days = i128::from(years) * 1461
                + (i128::from(months) * 30 + i128::from(interval.days)) * 4;
            let micros =
                quarter_days * i128::from(MICROS_PER_DAY / 4) + i128::from(interval.micros);
            scaled(micros, 6)
        }
        _ => return Err(not_supported(name, kind)),
    })
}

/// Cuts a moment to the start of the named unit, in the session's zone for `timestamptz` and dates,
/// or an interval to whole units.
///
/// # Errors
/// `22023` for an unknown unit, `0A000` for one that nothing can be cut to, `22008` out of range.
pub fn date_trunc(name: &str, value: &Datum, settings: &TextSettings) -> Result<Datum> {
    match value {
        Datum::Null => Ok(Datum::Null),
        Datum::Timestamp(micros) => {
            Ok(Datum::Timestamp(trunc_moment(name, *micros, TypeOid::TIMESTAMP)?))
        }
        Datum::Date(days) => {
            let micros = date_to_timestamptz(*days, &settings.zone)?;
            Ok(Datum::TimestampTz(trunc_zoned(name, micros, &settings.zone)?))
        }
        Datum::TimestampTz(micros) => {
            Ok(Datum::TimestampTz(trunc_zoned(name, *micros, &settings.zone)?))
        }
        Datum::Interval(interval) => Ok(Datum::Interval(Arc::new(trunc_interval(name, interval)?))),
        _ => Err(TypeError::unsupported("date_trunc of a value without time")),
    }
}

/// Cuts a timestamp with time zone to the start of the named unit as clocks in `zone` show it.
///
/// # Errors
/// As [`date_trunc`].
pub fn trunc_zoned(name: &str, micros: i64, zone: &TimeZone) -> Result<i64> {
    let kind = TypeOid::TIMESTAMPTZ;
    if is_infinite(micros) {
        return Ok(micros);
    }
    let unit = unit(name).ok_or_else(|| not_recognized(name, kind))?;
    let local = zone.to_local(micros)?;
    let cut = trunc_moment(name, local, kind)?;
    let within_day = matches!(
        unit,
        Field::Microseconds | Field::Milliseconds | Field::Second | Field::Minute | Field::Hour
    );
    if within_day {
        // The same offset holds, even in an hour that clocks show twice.
        return Ok(micros - (local - cut));
    }
    zone.to_utc(cut)
}

fn trunc_moment(name: &str, micros: i64, kind: TypeOid) -> Result<i64> {
    if is_infinite(micros) {
        return Ok(micros);
    }
    // Bytes from disk may hold any number.
    let micros = check_timestamp(micros)?;
    let unit = unit(name).ok_or_else(|| not_recognized(name, kind))?;
    let floor = |unit: i64| micros - micros.rem_euclid(unit);
    let day = |days: i64| finite_timestamp(i128::from(days) * i128::from(MICROS_PER_DAY));
    let year_start = |year: i64| day(days_from_civil(year, 1, 1));
    let (days, _) = split(micros);
    let Civil { year, month, .. } = civil_from_days(days);
    // Groups of years start with the year 1, not 0, before Christ too.
    let group = |size: i64| (year - 1).div_euclid(size) * size + 1;
    match unit {
        Field::Microseconds => Ok(micros),
        Field::Milliseconds => Ok(floor(1000)),
        Field::Second => Ok(floor(MICROS_PER_SECOND)),
        Field::Minute => Ok(floor(MICROS_PER_MINUTE)),
        Field::Hour => Ok(floor(MICROS_PER_HOUR)),
        Field::Day => Ok(floor(MICROS_PER_DAY)),
        Field::Week => day(monday(days)),
        Field::Month => day(days_from_civil(year, month, 1)),
        Field::Quarter => day(days_from_civil(year, (month - 1) / 3 * 3 + 1, 1)),
        Field::Year => year_start(year),
        Field::Decade => year_start(year.div_euclid(10) * 10),
        Field::Century => year_start(group(100)),
        Field::Millennium => year_start(group(1000)),
        _ => Err(not_supported(name, kind)),
    }
}

fn trunc_interval(name: &str, interval: &Interval) -> Result<Interval> {
    let kind = TypeOid::INTERVAL;
    let unit = unit(name).ok_or_else(|| not_recognized(name, kind))?;
    let months = |size: i32| Interval::new(interval.months / size * size, 0, 0);
    let time = |unit: i64| Interval { micros: interval.micros / unit * unit, ..*interval };
    Ok(match unit {
        Field::Millennium => months(12_000),
        Field::Century => months(1_200),
        Field::Decade => months(120),
        Field::Year => months(12),
        Field::Quarter => months(3),
        Field::Month => months(1),
        Field::Day => Interval { micros: 0, ..*interval },
        Field::Hour => time(MICROS_PER_HOUR),
        Field::Minute => time(MICROS_PER_MINUTE),
        Field::Second => time(MICROS_PER_SECOND),
        Field::Milliseconds => time(1000),
        Field::Microseconds => *interval,
        Field::Week => {
            return Err(
                not_supported(name, kind).with_detail("Months usually have fractional weeks.")
            );
        }
        _ => return Err(not_supported(name, kind)),
    })
}
