//! Dates, timestamps and intervals as text: `DateStyle` ISO, `IntervalStyle` postgres.

use super::calendar::{
    Civil, DATE_INFINITY, DATE_NEGATIVE_INFINITY, MICROS_PER_HOUR, MICROS_PER_MINUTE,
    MICROS_PER_SECOND, TIMESTAMP_INFINITY, TIMESTAMP_NEGATIVE_INFINITY, civil_from_days, split,
};
use super::zone::TimeZone;
use super::{Interval, TimeTz};

/// Appends a date, such as `2003-04-12` or `0044-03-15 BC`.
pub fn write_date(days: i32, out: &mut Vec<u8>) {
    match days {
        DATE_INFINITY => out.extend_from_slice(b"infinity"),
        DATE_NEGATIVE_INFINITY => out.extend_from_slice(b"-infinity"),
        _ => {
            let civil = civil_from_days(days.into());
            write_civil(civil, out);
            write_era(civil, out);
        }
    }
}

/// Appends a timestamp, such as `2003-04-12 04:05:06.789`.
pub fn write_timestamp(micros: i64, out: &mut Vec<u8>) {
    if let Some(civil) = write_moment(micros, out) {
        write_era(civil, out);
    }
}

/// Appends a timestamp in the local time of `zone`, such as `2003-04-12 04:05:06+02`.
pub fn write_timestamptz(micros: i64, zone: &TimeZone, out: &mut Vec<u8>) {
    let offset = zone.offset_at(micros);
    // Near the ends of the range the local time may lie a little outside; it still has a date.
    let local = micros.saturating_add(i64::from(offset) * MICROS_PER_SECOND);
    let infinite = micros == TIMESTAMP_INFINITY || micros == TIMESTAMP_NEGATIVE_INFINITY;
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
    let year = if civil.year > 0 { civil.year } else { 1 - civil.year };
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(year).as_bytes();
    out.resize(out.len() + 4usize.saturating_sub(digits.len()), b'0');
    out.extend_from_slice(digits);
    out.push(b'-');
    write_two(civil.month.into(), out);
    out.push(b'-');
    write_two(civil.day.into(), out);
}

fn write_era(civil: Civil, out: &mut Vec<u8>) {
    if civil.year <= 0 {
        out.extend_from_slice(b" BC");
    }
}

/// Appends `HH:MM:SS` and the fraction without trailing zeros; hours may have more digits.
fn write_time(micros: u64, out: &mut Vec<u8>) {
    write_two(micros / MICROS_PER_HOUR.unsigned_abs(), out);
    out.push(b':');
    write_two(micros / MICROS_PER_MINUTE.unsigned_abs() % 60, out);
    out.push(b':');
    write_two(micros / MICROS_PER_SECOND.unsigned_abs() % 60, out);
    let mut fraction = micros % MICROS_PER_SECOND.unsigned_abs();
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

fn write_two(number: u64, out: &mut Vec<u8>) {
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

/// Appends an interval, such as `1 year 2 mons -3 days +04:05:06`.
pub fn write_interval(interval: &Interval, out: &mut Vec<u8>) {
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
