//! Arithmetic between dates, timestamps and intervals, and conversions among them.

use super::calendar::{
    DATE_INFINITY, DATE_NEGATIVE_INFINITY, MICROS_PER_DAY, MICROS_PER_HOUR, MICROS_PER_MINUTE,
    MICROS_PER_SECOND, TIMESTAMP_INFINITY, TIMESTAMP_NEGATIVE_INFINITY, civil_from_days,
    days_from_civil, days_in_month, finite_date, finite_timestamp, is_infinite, is_infinite_date,
    split, timestamp_out_of_range,
};
use super::interval::{Interval, out_of_range as interval_out_of_range};
use super::zone::TimeZone;
use crate::error::{Result, TypeError};

/// Returns the date `days` later; an infinite date stays.
///
/// # Errors
/// `22008`
pub fn add_days(date: i32, days: i64) -> Result<i32> {
    if is_infinite_date(date) {
        return Ok(date);
    }
    let sum = i64::from(date)
        .checked_add(days)
        .ok_or_else(|| TypeError::new("22008", "date out of range"))?;
    finite_date(sum)
}

/// Returns the days from `b` to `a`.
///
/// # Errors
/// `22008` when one is infinite.
pub fn subtract_dates(a: i32, b: i32) -> Result<i32> {
    if is_infinite_date(a) || is_infinite_date(b) {
        return Err(TypeError::new("22008", "cannot subtract infinite dates"));
    }
    // Dates span fewer days than an int4 counts.
    a.checked_sub(b).ok_or_else(|| TypeError::new("22008", "date out of range"))
}

/// Returns the time from `b` to `a`, whole days apart.
///
/// # Errors
/// `22008` when one is infinite.
pub fn subtract_timestamps(a: i64, b: i64) -> Result<Interval> {
    if is_infinite(a) || is_infinite(b) {
        return Err(TypeError::new("22008", "cannot subtract infinite timestamps"));
    }
    let micros = a.checked_sub(b).ok_or_else(interval_out_of_range)?;
    Interval::new(0, 0, micros).justify_hours()
}

/// Adds months (the day is cut to the length of its new month), then days, then time.
///
/// # Errors
/// `22008`
pub fn timestamp_plus_interval(micros: i64, interval: &Interval) -> Result<i64> {
    if is_infinite(micros) {
        return Ok(micros);
    }
    let moved = add_months_and_days(micros, interval)?;
    finite_timestamp(i128::from(moved) + i128::from(interval.micros))
}

/// Works as [`timestamp_plus_interval`], but adds months and days to the local time of `zone`. So a
/// day may have 23 or 25 hours.
///
/// # Errors
/// `22008`
pub fn timestamptz_plus_interval(micros: i64, interval: &Interval, zone: &TimeZone) -> Result<i64> {
    if is_infinite(micros) {
        return Ok(micros);
    }
    let mut moved = micros;
    // The steps are done one after the other, as each lands on a moment that exists.
    if interval.months != 0 {
        let months = Interval::new(interval.months, 0, 0);
        moved = zone.to_utc(add_months_and_days(zone.to_local(moved)?, &months)?)?;
    }
    if interval.days != 0 {
        let days = Interval::new(0, interval.days, 0);
        moved = zone.to_utc(add_months_and_days(zone.to_local(moved)?, &days)?)?;
    }
    finite_timestamp(i128::from(moved) + i128::from(interval.micros))
}

fn add_months_and_days(micros: i64, interval: &Interval) -> Result<i64> {
    let (mut days, time) = split(micros);
    if interval.months != 0 {
        let civil = civil_from_days(days);
        let months = civil.year * 12 + i64::from(civil.month) - 1 + i64::from(interval.months);
        let year = months.div_euclid(12);
        let month = months.rem_euclid(12) as u32 + 1;
        days = days_from_civil(year, month, civil.day.min(days_in_month(year, month)));
    }
    days += i64::from(interval.days);
    finite_timestamp(i128::from(days) * i128::from(MICROS_PER_DAY) + i128::from(time))
}

/// Returns the time from `b` to `a` in years, months and days as people count them: the SQL
/// function `age`. Both are local times.
///
/// # Errors
/// `22008` when one is infinite.
pub fn age(a: i64, b: i64) -> Result<Interval> {
    // As in PostgreSQL 15, which has no infinite intervals, `infinity` is the last moment that the
    // bytes can express.
    if a == TIMESTAMP_NEGATIVE_INFINITY || b == TIMESTAMP_NEGATIVE_INFINITY {
        return Err(timestamp_out_of_range());
    }
    let (later, earlier) = if a < b { (b, a) } else { (a, b) };
    let (later_days, later_time) = split(later);
    let (earlier_days, earlier_time) = split(earlier);
    let (to, from) = (civil_from_days(later_days), civil_from_days(earlier_days));
    let mut months = (to.year - from.year) * 12 + i64::from(to.month) - i64::from(from.month);
    let mut days = i64::from(to.day) - i64::from(from.day);
    let mut micros = later_time - earlier_time;
    if micros < 0 {
        micros += MICROS_PER_DAY;
        days -= 1;
    }
    // The borrowed day is as long as in the month that the earlier moment lies in.
    while days < 0 {
        days += i64::from(days_in_month(from.year, from.month));
        months -= 1;
    }
    let sign = if a < b { -1 } else { 1 };
    let months = i32::try_from(months * sign).map_err(|_| interval_out_of_range())?;
    let days = i32::try_from(days * sign).map_err(|_| interval_out_of_range())?;
    Ok(Interval::new(months, days, micros * sign))
}

/// Returns the moment `seconds` after 1970-01-01 00:00:00 UTC: `to_timestamp`.
///
/// # Errors
/// `22008` when it is out of range or not a number.
pub fn timestamp_from_unix(seconds: f64) -> Result<i64> {
    if seconds.is_infinite() {
        return Ok(if seconds > 0.0 { TIMESTAMP_INFINITY } else { TIMESTAMP_NEGATIVE_INFINITY });
    }
    if seconds.is_nan() {
        return Err(TypeError::new("22008", "timestamp cannot be NaN"));
    }
    let out_of_range = || {
        let mut shown = Vec::new();
        // Six significant digits, as C's %g has them.
        crate::scalar::float::write_float8(seconds, 6 - 15, &mut shown);
        let shown = String::from_utf8_lossy(&shown).into_owned();
        TypeError::new("22008", format!("timestamp out of range: \"{shown}\""))
    };
    // 10,957 days lie between the two epochs.
    let micros = ((seconds - 946_684_800.0) * 1e6).round_ties_even();
    if micros.abs() >= 9.3e18 {
        return Err(out_of_range());
    }
    finite_timestamp(micros as i128).map_err(|_| out_of_range())
}

/// Returns the date of a year (negative before Christ), month and day: `make_date`.
///
/// # Errors
/// `22008` when there is no such date.
pub fn make_date(year: i32, month: i32, day: i32) -> Result<i32> {
    let out_of_range = || {
        TypeError::new(
            "22008",
            format!("date field value out of range: {year}-{month:02}-{day:02}"),
        )
    };
    let astronomical = if year < 0 { i64::from(year) + 1 } else { i64::from(year) };
    let month = u32::try_from(month).ok().filter(|month| (1..=12).contains(month));
    let (Some(month), Ok(day)) = (month, u32::try_from(day)) else { return Err(out_of_range()) };
    if year == 0 || day == 0 || day > days_in_month(astronomical, month) {
        return Err(out_of_range());
    }
    finite_date(days_from_civil(astronomical, month, day)).map_err(|_| {
        TypeError::new("22008", format!("date out of range: {astronomical}-{month:02}-{day:02}"))
    })
}

/// Returns midnight at the start of a date.
///
/// # Errors
/// `22008` when no timestamp is that late.
pub fn date_to_timestamp(date: i32) -> Result<i64> {
    match date {
        DATE_INFINITY => Ok(TIMESTAMP_INFINITY),
        DATE_NEGATIVE_INFINITY => Ok(TIMESTAMP_NEGATIVE_INFINITY),
        _ => finite_timestamp(i128::from(date) * i128::from(MICROS_PER_DAY))
            .map_err(|_| TypeError::new("22008", "date out of range for timestamp")),
    }
}

/// Returns midnight at the start of a date in `zone`.
///
/// # Errors
/// `22008`
pub fn date_to_timestamptz(date: i32, zone: &TimeZone) -> Result<i64> {
    zone.to_utc(date_to_timestamp(date)?)
}

/// Returns the date of a timestamp.
///
/// # Errors
/// `22008`
pub fn timestamp_to_date(micros: i64) -> Result<i32> {
    match micros {
        TIMESTAMP_INFINITY => Ok(DATE_INFINITY),
        TIMESTAMP_NEGATIVE_INFINITY => Ok(DATE_NEGATIVE_INFINITY),
        _ => finite_date(split(micros).0),
    }
}

/// Returns the date that a calendar in `zone` shows at a moment.
///
/// # Errors
/// `22008`
pub fn timestamptz_to_date(micros: i64, zone: &TimeZone) -> Result<i32> {
    timestamp_to_date(zone.to_local(micros)?)
}

/// Returns the moment at which clocks in `zone` show `local`.
///
/// # Errors
/// `22008`
pub fn timestamp_to_timestamptz(local: i64, zone: &TimeZone) -> Result<i64> {
    zone.to_utc(local)
}

/// Returns the local time that clocks in `zone` show at a moment.
///
/// # Errors
/// `22008`
pub fn timestamptz_to_timestamp(micros: i64, zone: &TimeZone) -> Result<i64> {
    zone.to_local(micros)
}

/// Returns hour, minute, second and microsecond of a time of day.
pub(crate) fn clock(time: i64) -> (i64, i64, i64, i64) {
    (
        time / MICROS_PER_HOUR,
        time / MICROS_PER_MINUTE % 60,
        time / MICROS_PER_SECOND % 60,
        time % MICROS_PER_SECOND,
    )
}
