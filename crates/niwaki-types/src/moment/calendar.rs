//! Day numbers and civil dates, with the limits of both.

use crate::error::{Result, TypeError};

/// Microseconds of a second.
pub(crate) const MICROS_PER_SECOND: i64 = 1_000_000;
/// Microseconds of a minute.
pub(crate) const MICROS_PER_MINUTE: i64 = 60 * MICROS_PER_SECOND;
/// Microseconds of an hour.
pub(crate) const MICROS_PER_HOUR: i64 = 60 * MICROS_PER_MINUTE;
/// Microseconds of a day.
pub const MICROS_PER_DAY: i64 = 24 * MICROS_PER_HOUR;

/// `infinity` as a date.
pub const DATE_INFINITY: i32 = i32::MAX;
/// `-infinity` as a date.
pub const DATE_NEGATIVE_INFINITY: i32 = i32::MIN;
/// `infinity` as a timestamp.
pub const TIMESTAMP_INFINITY: i64 = i64::MAX;
/// `-infinity` as a timestamp.
pub const TIMESTAMP_NEGATIVE_INFINITY: i64 = i64::MIN;

/// Julian day of 2000-01-01.
pub(crate) const EPOCH_JULIAN_DAY: i64 = 2_451_545;
/// First date: 4714-11-24 BC, Julian day 0.
const DATE_MIN: i64 = -EPOCH_JULIAN_DAY;
/// The day after the last date: 5874898-01-01.
const DATE_END: i64 = 2_147_483_494 - EPOCH_JULIAN_DAY;
/// First timestamp: 4714-11-24 00:00:00 BC.
const TIMESTAMP_MIN: i64 = DATE_MIN * MICROS_PER_DAY;
/// The moment after the last timestamp: 294277-01-01 00:00:00.
const TIMESTAMP_END: i64 = 9_223_371_331_200_000_000;

/// Days in the cycle after which the calendar, weekdays included, repeats: 400 years.
pub(crate) const DAYS_PER_CYCLE: i64 = 146_097;
/// Days from 0000-03-01 to 2000-01-01.
const EPOCH_FROM_MARCH_ZERO: i64 = 730_425;

/// A date of the calendar and a time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Civil {
    /// Year; 0 is 1 BC, -1 is 2 BC.
    pub year: i64,
    /// 1 to 12.
    pub month: u32,
    /// 1 to 31.
    pub day: u32,
}

/// Returns the calendar date of a count of days from 2000-01-01.
pub fn civil_from_days(days: i64) -> Civil {
    // Years are counted from March, so that the leap day is the last of its year.
    let shifted = days + EPOCH_FROM_MARCH_ZERO;
    let cycle = shifted.div_euclid(DAYS_PER_CYCLE);
    let day_of_cycle = shifted.rem_euclid(DAYS_PER_CYCLE);
    let year_of_cycle = (day_of_cycle - day_of_cycle / 1_460 + day_of_cycle / 36_524
        - day_of_cycle / 146_096)
        / 365;
    let day_of_year =
        day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_cycle + cycle * 400 + i64::from(month <= 2);
    Civil { year, month: month as u32, day: day as u32 }
}

/// Returns the days from 2000-01-01 to a date of the calendar; `day` may lie beyond its month.
pub fn days_from_civil(year: i64, month: u32, day: u32) -> i64 {
    let year = year - i64::from(month <= 2);
    let cycle = year.div_euclid(400);
    let year_of_cycle = year.rem_euclid(400);
    let month_from_march = (i64::from(month) + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(day) - 1;
    let day_of_cycle = year_of_cycle * 365 + year_of_cycle / 4 - year_of_cycle / 100 + day_of_year;
    cycle * DAYS_PER_CYCLE + day_of_cycle - EPOCH_FROM_MARCH_ZERO
}

pub(crate) fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

pub(crate) fn days_in_month(year: i64, month: u32) -> u32 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns `days` if it is a date or infinite.
///
/// # Errors
/// `22008`
pub fn check_date(days: i64) -> Result<i32> {
    match i32::try_from(days) {
        Ok(date) if (DATE_MIN..DATE_END).contains(&days) || is_infinite_date(date) => Ok(date),
        _ => Err(TypeError::new("22008", "date out of range")),
    }
}

/// Returns `micros` if it is a timestamp or infinite.
///
/// # Errors
/// `22008`
#[inline]
pub fn check_timestamp(micros: i64) -> Result<i64> {
    if (TIMESTAMP_MIN..TIMESTAMP_END).contains(&micros) || is_infinite(micros) {
        Ok(micros)
    } else {
        Err(timestamp_out_of_range())
    }
}

/// Returns a finite timestamp from a calculation that may have left its range.
pub(crate) fn finite_timestamp(micros: i128) -> Result<i64> {
    match i64::try_from(micros) {
        Ok(micros) if (TIMESTAMP_MIN..TIMESTAMP_END).contains(&micros) => Ok(micros),
        _ => Err(timestamp_out_of_range()),
    }
}

/// Returns a finite date from a calculation that may have left its range.
pub(crate) fn finite_date(days: i64) -> Result<i32> {
    match i32::try_from(days) {
        Ok(date) if (DATE_MIN..DATE_END).contains(&days) => Ok(date),
        _ => Err(TypeError::new("22008", "date out of range")),
    }
}

#[cold]
pub(crate) fn timestamp_out_of_range() -> TypeError {
    TypeError::new("22008", "timestamp out of range")
}

/// Decides whether a moment is `infinity` or `-infinity`.
pub fn is_infinite(micros: i64) -> bool {
    micros == TIMESTAMP_INFINITY || micros == TIMESTAMP_NEGATIVE_INFINITY
}

pub(crate) fn is_infinite_date(days: i32) -> bool {
    days == DATE_INFINITY || days == DATE_NEGATIVE_INFINITY
}

/// Rounds a timestamp half away from 2000-01-01 to the digits of a second that `timestamp(p)`
/// allows; -1 changes nothing.
///
/// # Errors
/// `22008` when rounding leaves the range.
pub fn round_to_precision(micros: i64, typmod: i32) -> Result<i64> {
    if !(0..6).contains(&typmod) || is_infinite(micros) {
        return Ok(micros);
    }
    check_timestamp(round_micros(micros, typmod.unsigned_abs()))
}

/// Rounds half away from zero to `digits` of a second.
pub(crate) fn round_micros(micros: i64, digits: u32) -> i64 {
    let unit = 10i64.pow(6u32.saturating_sub(digits));
    let rest = micros % unit;
    let cut = micros - rest;
    if rest.abs() * 2 >= unit && unit > 1 { cut.saturating_add(unit * rest.signum()) } else { cut }
}

/// Splits a moment into a day and the microsecond of that day.
#[inline]
pub(crate) fn split(micros: i64) -> (i64, i64) {
    (micros.div_euclid(MICROS_PER_DAY), micros.rem_euclid(MICROS_PER_DAY))
}
