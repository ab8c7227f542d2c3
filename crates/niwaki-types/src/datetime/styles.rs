//! The non-default styles of dates, timestamps and intervals.
//!
//! They are `DateStyle` SQL, Postgres and German, and `IntervalStyle` `postgres_verbose`,
//! `sql_standard` and `iso_8601`.

use super::format::{write_era, write_fraction, write_time, write_two, write_year};
use crate::moment::calendar::{Civil, MICROS_PER_SECOND, civil_from_days, split};
use crate::moment::interval::Interval;
use crate::moment::zone::TimeZone;
use crate::settings::{DateOrder, DateStyle, TextSettings};

/// Names of months, as the `Postgres` style shortens them.
const MONTHS: &[u8; 36] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
/// Names of weekdays from Sunday.
const WEEKDAYS: &[u8; 21] = b"SunMonTueWedThuFriSat";
/// Longest shown name of a zone, in bytes.
const ZONE_BYTES_MAX: usize = 10;

/// Returns three letters of a list of names.
fn short_name(names: &'static [u8], number: usize) -> &'static [u8] {
    names.chunks_exact(3).nth(number).unwrap_or_default()
}

/// Writes day and month in the session's order, with `separator` between and behind, or as the
/// style has them.
fn write_day_and_month(civil: Civil, settings: &TextSettings, separator: u8, out: &mut Vec<u8>) {
    let day_first =
        settings.date_style == DateStyle::German || settings.date_order == DateOrder::DayMonthYear;
    let (first, second) =
        if day_first { (civil.day, civil.month) } else { (civil.month, civil.day) };
    write_two(first.into(), out);
    out.push(separator);
    write_two(second.into(), out);
    out.push(separator);
}

/// Appends a date in a style other than ISO.
pub(super) fn write_date(civil: Civil, settings: &TextSettings, out: &mut Vec<u8>) {
    let separator = match settings.date_style {
        DateStyle::German => b'.',
        DateStyle::Sql => b'/',
        DateStyle::Postgres | DateStyle::Iso => b'-',
    };
    write_day_and_month(civil, settings, separator, out);
    write_year(civil, out);
    write_era(civil, out);
}

/// Appends a finite local time in a style other than ISO, with the name of its zone if it has one.
pub(super) fn write_moment(
    local: i64,
    zone: Option<&str>,
    settings: &TextSettings,
    out: &mut Vec<u8>,
) {
    let (days, time) = split(local);
    let civil = civil_from_days(days);
    let time = time.unsigned_abs();
    if settings.date_style == DateStyle::Postgres {
        // 2000-01-01 was a Saturday.
        let weekday = usize::try_from((days + 6).rem_euclid(7)).unwrap_or(0);
        out.extend_from_slice(short_name(WEEKDAYS, weekday));
        out.push(b' ');
        let month = short_name(MONTHS, civil.month.saturating_sub(1) as usize);
        if settings.date_order == DateOrder::DayMonthYear {
            write_two(civil.day.into(), out);
            out.push(b' ');
            out.extend_from_slice(month);
        } else {
            out.extend_from_slice(month);
            out.push(b' ');
            write_two(civil.day.into(), out);
        }
        out.push(b' ');
        write_time(time, out);
        out.push(b' ');
        write_year(civil, out);
    } else {
        let separator = if settings.date_style == DateStyle::German { b'.' } else { b'/' };
        write_day_and_month(civil, settings, separator, out);
        write_year(civil, out);
        out.push(b' ');
        write_time(time, out);
    }
    if let Some(zone) = zone {
        out.push(b' ');
        let shown = zone.as_bytes();
        out.extend_from_slice(shown.get(..ZONE_BYTES_MAX).unwrap_or(shown));
    }
    write_era(civil, out);
}

/// Returns a moment as `timeofday` shows it: `Sat Apr 12 04:05:06.789000 2003 CEST`.
pub fn time_of_day_text(micros: i64, zone: &TimeZone) -> String {
    let offset = i64::from(zone.offset_at(micros)) * MICROS_PER_SECOND;
    let (days, time) = split(micros.saturating_add(offset));
    let civil = civil_from_days(days);
    let mut out = Vec::new();
    let weekday = usize::try_from((days + 6).rem_euclid(7)).unwrap_or(0);
    out.extend_from_slice(short_name(WEEKDAYS, weekday));
    out.push(b' ');
    out.extend_from_slice(short_name(MONTHS, civil.month.saturating_sub(1) as usize));
    out.push(b' ');
    write_two(civil.day.into(), &mut out);
    out.push(b' ');
    let seconds = time - time % MICROS_PER_SECOND;
    write_time(seconds.unsigned_abs(), &mut out);
    out.extend_from_slice(format!(".{:06} ", time % MICROS_PER_SECOND).as_bytes());
    write_year(civil, &mut out);
    out.push(b' ');
    out.extend_from_slice(zone.abbreviation_at(micros).as_bytes());
    String::from_utf8(out).unwrap_or_default()
}

/// An interval cut into the fields that people name. All fields of the time part have its sign.
struct Fields {
    years: i64,
    months: i64,
    days: i64,
    hours: i64,
    minutes: i64,
    seconds: i64,
    micros: i64,
}

impl Fields {
    fn of(interval: &Interval) -> Self {
        let (hours, minutes, rest) = interval.clock();
        Self {
            years: (interval.months / 12).into(),
            months: (interval.months % 12).into(),
            days: interval.days.into(),
            hours,
            minutes,
            seconds: rest / MICROS_PER_SECOND,
            micros: rest % MICROS_PER_SECOND,
        }
    }

    fn has_time(&self) -> bool {
        self.hours != 0 || self.minutes != 0 || self.seconds != 0 || self.micros != 0
    }
}

fn write_number(number: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Writes hours, `:`, minutes, `:`, seconds, all without a sign.
fn write_clock(fields: &Fields, out: &mut Vec<u8>) {
    write_number(fields.hours.abs(), out);
    out.push(b':');
    write_two(fields.minutes.unsigned_abs(), out);
    out.push(b':');
    write_two(fields.seconds.unsigned_abs(), out);
    write_fraction(fields.micros.unsigned_abs(), out);
}

/// Writes `@ 1 year 2 mons 3 days 4 hours 5 mins 6.7 secs`. If the first part is negative, writes
/// `ago`, and the other parts show their signs the other way round.
pub(super) fn write_verbose(interval: &Interval, out: &mut Vec<u8>) {
    let fields = Fields::of(interval);
    out.push(b'@');
    let mut before: Option<bool> = None;
    let parts = [
        (fields.years, "year"),
        (fields.months, "mon"),
        (fields.days, "day"),
        (fields.hours, "hour"),
        (fields.minutes, "min"),
    ];
    for (value, unit) in parts {
        if value == 0 {
            continue;
        }
        let turned = *before.get_or_insert(value < 0);
        let value = if turned { -value } else { value };
        out.push(b' ');
        write_number(value, out);
        out.push(b' ');
        out.extend_from_slice(unit.as_bytes());
        if value != 1 {
            out.push(b's');
        }
    }
    let (seconds, micros) = (fields.seconds, fields.micros);
    if seconds != 0 || micros != 0 {
        let negative = seconds < 0 || micros < 0;
        let turned = *before.get_or_insert(negative);
        out.push(b' ');
        if negative != turned {
            out.push(b'-');
        }
        write_number(seconds.abs(), out);
        write_fraction(micros.unsigned_abs(), out);
        out.extend_from_slice(if seconds.abs() == 1 && micros == 0 { b" sec" } else { b" secs" });
    }
    match before {
        None => out.extend_from_slice(b" 0"),
        Some(true) => out.extend_from_slice(b" ago"),
        Some(false) => {}
    }
}

/// Writes `1-2`, `3 4:05:06` or `4:05:06` with one sign. With parts of both kinds or of both signs,
/// writes `+1-2 -3 +4:05:06`.
pub(super) fn write_sql_standard(interval: &Interval, out: &mut Vec<u8>) {
    let fields = Fields::of(interval);
    let negative = interval.months < 0 || interval.days < 0 || interval.micros < 0;
    let positive = interval.months > 0 || interval.days > 0 || interval.micros > 0;
    let sign = |negative: bool| if negative { b'-' } else { b'+' };
    if !negative && !positive {
        out.push(b'0');
        return;
    }
    let year_month = interval.months != 0;
    let day_time = interval.days != 0 || interval.micros != 0;
    if (negative && positive) || (year_month && day_time) {
        out.push(sign(interval.months < 0));
        write_number(fields.years.abs(), out);
        out.push(b'-');
        write_number(fields.months.abs(), out);
        out.extend_from_slice(&[b' ', sign(interval.days < 0)]);
        write_number(fields.days.abs(), out);
        out.extend_from_slice(&[b' ', sign(interval.micros < 0)]);
        write_clock(&fields, out);
        return;
    }
    if negative {
        out.push(b'-');
    }
    if year_month {
        write_number(fields.years.abs(), out);
        out.push(b'-');
        write_number(fields.months.abs(), out);
        return;
    }
    if fields.days != 0 {
        write_number(fields.days.abs(), out);
        out.push(b' ');
    }
    write_clock(&fields, out);
}

/// Writes `P1Y2M3DT4H5M6.7S`; every part has its own sign.
pub(super) fn write_iso_8601(interval: &Interval, out: &mut Vec<u8>) {
    let fields = Fields::of(interval);
    out.push(b'P');
    let part = |value: i64, unit: u8, out: &mut Vec<u8>| {
        if value != 0 {
            write_number(value, out);
            out.push(unit);
        }
    };
    part(fields.years, b'Y', out);
    part(fields.months, b'M', out);
    part(fields.days, b'D', out);
    if !fields.has_time() {
        if interval.months == 0 && interval.days == 0 {
            out.extend_from_slice(b"T0S");
        }
        return;
    }
    out.push(b'T');
    part(fields.hours, b'H', out);
    part(fields.minutes, b'M', out);
    if fields.seconds != 0 || fields.micros != 0 {
        if fields.seconds < 0 || fields.micros < 0 {
            out.push(b'-');
        }
        write_number(fields.seconds.abs(), out);
        write_fraction(fields.micros.unsigned_abs(), out);
        out.push(b'S');
    }
}
