//! Dates, timestamps and intervals as text in `DateStyle` ISO and `IntervalStyle` postgres.
//!
//! The other styles are in `styles`.

use super::styles;
use crate::moment::calendar::{
    Civil, DATE_INFINITY, DATE_NEGATIVE_INFINITY, MICROS_PER_HOUR, MICROS_PER_MINUTE,
    MICROS_PER_SECOND, TIMESTAMP_INFINITY, TIMESTAMP_NEGATIVE_INFINITY, civil_from_days,
    is_infinite, split,
};
use crate::moment::interval::Interval;
use crate::moment::time_of_day::TimeTz;
use crate::settings::{DateStyle, IntervalStyle, TextSettings};

/// Appends a date in the session's style, such as `2003-04-12` or `0044-03-15 BC`.
pub fn write_date(days: i32, settings: &TextSettings, out: &mut Vec<u8>) {
    match days {
        DATE_INFINITY => out.extend_from_slice(b"infinity"),
        DATE_NEGATIVE_INFINITY => out.extend_from_slice(b"-infinity"),
        _ if settings.date_style != DateStyle::Iso => {
            styles::write_date(civil_from_days(days.into()), settings, out);
        }
        _ => {
            let civil = civil_from_days(days.into());
            write_civil(civil, out);
            write_era(civil, out);
        }
    }
}

/// Appends a timestamp in the session's style, such as `2003-04-12 04:05:06.789`.
pub fn write_timestamp(micros: i64, settings: &TextSettings, out: &mut Vec<u8>) {
    if settings.date_style != DateStyle::Iso && !is_infinite(micros) {
        return styles::write_moment(micros, None, settings, out);
    }
    if let Some(civil) = write_moment(micros, out) {
        write_era(civil, out);
    }
}

/// Appends a timestamp in the session's style and zone, such as `2003-04-12 04:05:06+02`.
pub fn write_timestamptz(micros: i64, settings: &TextSettings, out: &mut Vec<u8>) {
    let infinite = is_infinite(micros);
    let zone = &settings.zone;
    let offset = zone.offset_at(micros);
    // Near the ends of the range the local time may lie a little outside; it still has a date.
    let local = micros.saturating_add(i64::from(offset) * MICROS_PER_SECOND);
    if settings.date_style != DateStyle::Iso && !infinite {
        return styles::write_moment(local, Some(&zone.abbreviation_at(micros)), settings, out);
    }
    if let Some(civil) = write_moment(if infinite { micros } else { local }, out) {
        write_offset(offset, out);
        write_era(civil, out);
    }
}

/// Appends date and time; returns the date unless the moment is infinite.
fn write_moment(micros: i64, out: &mut Vec<u8>) -> Option<Civil> {
    match micros {
        TIMESTAMP_INFINITY => out.extend_from_slice(b"infinity"),
        TIMESTAMP_NEGATIVE_INFINITY => out.extend_from_slice(b"-infinity"),
        _ => {
            let (days, time) = split(micros);
            let civil = civil_from_days(days);
            write_civil(civil, out);
            out.push(b' ');
            write_time(time.unsigned_abs(), out);
            return Some(civil);
        }
    }
    None
}

fn write_civil(civil: Civil, out: &mut Vec<u8>) {
    write_year(civil, out);
    out.push(b'-');
    write_two(civil.month.into(), out);
    out.push(b'-');
    write_two(civil.day.into(), out);
}

/// Appends the year in the usual count, with four digits at least.
pub(super) fn write_year(civil: Civil, out: &mut Vec<u8>) {
    let year = if civil.year > 0 { civil.year } else { 1 - civil.year };
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(year).as_bytes();
    out.resize(out.len() + 4usize.saturating_sub(digits.len()), b'0');
    out.extend_from_slice(digits);
}

pub(super) fn write_era(civil: Civil, out: &mut Vec<u8>) {
    if civil.year <= 0 {
        out.extend_from_slice(b" BC");
    }
}

/// Appends `HH:MM:SS` and the fraction without trailing zeros; hours may have more digits.
pub(super) fn write_time(micros: u64, out: &mut Vec<u8>) {
    write_two(micros / MICROS_PER_HOUR.unsigned_abs(), out);
    out.push(b':');
    write_two(micros / MICROS_PER_MINUTE.unsigned_abs() % 60, out);
    out.push(b':');
    write_two(micros / MICROS_PER_SECOND.unsigned_abs() % 60, out);
    write_fraction(micros % MICROS_PER_SECOND.unsigned_abs(), out);
}

/// Appends a point and microseconds without trailing zeros, or nothing for none.
pub(super) fn write_fraction(mut fraction: u64, out: &mut Vec<u8>) {
    if fraction > 0 {
        out.push(b'.');
        let mut unit = 100_000;
        while fraction > 0 {
            out.push(b'0' + (fraction / unit) as u8);
            fraction %= unit;
            unit /= 10;
        }
    }
}

pub(super) fn write_two(number: u64, out: &mut Vec<u8>) {
    if number < 100 {
        out.extend_from_slice(&[b'0' + (number / 10) as u8, b'0' + (number % 10) as u8]);
    } else {
        out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }
}

/// Appends the offset from Greenwich: `+02`, `-03:30`, with seconds where history has them.
fn write_offset(seconds: i32, out: &mut Vec<u8>) {
    out.push(if seconds < 0 { b'-' } else { b'+' });
    let seconds = u64::from(seconds.unsigned_abs());
    write_two(seconds / 3600, out);
    if seconds % 3600 != 0 {
        out.push(b':');
        write_two(seconds / 60 % 60, out);
    }
    if seconds % 60 != 0 {
        out.push(b':');
        write_two(seconds % 60, out);
    }
}

/// Appends a time of day, such as `04:05:06.789`.
pub fn write_time_of_day(time: i64, out: &mut Vec<u8>) {
    write_time(time.unsigned_abs(), out);
}

/// Appends a time of day and its zone, such as `04:05:06-08`.
pub fn write_timetz(value: &TimeTz, out: &mut Vec<u8>) {
    write_time_of_day(value.time, out);
    write_offset(value.west.saturating_neg(), out);
}

/// Appends an interval in the session's style, such as `1 year 2 mons -3 days +04:05:06`.
pub fn write_interval(interval: &Interval, style: IntervalStyle, out: &mut Vec<u8>) {
    match style {
        IntervalStyle::Postgres => write_postgres(interval, out),
        IntervalStyle::PostgresVerbose => styles::write_verbose(interval, out),
        IntervalStyle::SqlStandard => styles::write_sql_standard(interval, out),
        IntervalStyle::Iso8601 => styles::write_iso_8601(interval, out),
    }
}

fn write_postgres(interval: &Interval, out: &mut Vec<u8>) {
    // A part after a negative one shows its plus sign.
    let mut after_negative = false;
    let mut empty = true;
    let parts =
        [(interval.months / 12, "year"), (interval.months % 12, "mon"), (interval.days, "day")];
    for (value, unit) in parts {
        if value == 0 {
            continue;
        }
        if !empty {
            out.push(b' ');
        }
        if after_negative && value > 0 {
            out.push(b'+');
        }
        out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
        out.push(b' ');
        out.extend_from_slice(unit.as_bytes());
        if value != 1 {
            out.push(b's');
        }
        after_negative = value < 0;
        empty = false;
    }
    if empty || interval.micros != 0 {
        if !empty {
            out.push(b' ');
        }
        if interval.micros < 0 {
            out.push(b'-');
        } else if after_negative {
            out.push(b'+');
        }
        write_time(interval.micros.unsigned_abs(), out);
    }
}
