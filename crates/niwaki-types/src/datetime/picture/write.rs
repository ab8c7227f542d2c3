//! Moments and intervals to text by a picture: `to_char`.

use super::{
    Case, Dots, Field, Item, MONTHS, Node, ROMAN, WEEKDAYS, iso_year_start, julian_day, parse,
};
use crate::error::{Result, TypeError};
use crate::moment::calendar::{MICROS_PER_SECOND, civil_from_days, is_infinite, split};
use crate::moment::interval::Interval;
use crate::moment::operations::clock;
use crate::moment::zone::TimeZone;
use crate::scalar::ordinal::ordinal;

/// Writes a timestamp by a picture; `None`, which SQL shows as NULL, for an empty picture or an
/// infinite
/// timestamp.
///
/// # Errors
/// None today; the signature matches [`interval_to_char`].
pub fn timestamp_to_char(micros: i64, picture: &str) -> Result<Option<String>> {
    if is_infinite(micros) || picture.is_empty() {
        return Ok(None);
    }
    Fields::of_moment(micros, 0, None).write(picture).map(Some)
}

/// Writes a timestamp by a picture, as clocks in `zone` show it; otherwise as
/// [`timestamp_to_char`].
///
/// # Errors
/// None today; the signature matches [`interval_to_char`].
pub fn timestamptz_to_char(micros: i64, picture: &str, zone: &TimeZone) -> Result<Option<String>> {
    if is_infinite(micros) || picture.is_empty() {
        return Ok(None);
    }
    let offset = i64::from(zone.offset_at(micros));
    // Near the ends of the range the local time may lie a little outside; it still has a date.
    let local = micros.saturating_add(offset * MICROS_PER_SECOND);
    Fields::of_moment(local, offset, Some(zone.abbreviation_at(micros))).write(picture).map(Some)
}

/// Writes an interval by a picture; `None`, which SQL shows as NULL, for an empty picture.
///
/// # Errors
/// `22007` for a pattern that only a date has.
pub fn interval_to_char(interval: &Interval, picture: &str) -> Result<Option<String>> {
    if picture.is_empty() {
        return Ok(None);
    }
    Fields::of_interval(interval).write(picture).map(Some)
}

/// The fields that patterns show. In an interval every part has its own sign.
struct Fields {
    is_interval: bool,
    /// 0 is 1 BC.
    year: i64,
    month: i64,
    day: i64,
    day_of_year: i64,
    /// 0 for Sunday.
    weekday: usize,
    hour: i64,
    minute: i64,
    second: i64,
    micros: i64,
    /// Seconds east of Greenwich.
    offset: i64,
    zone: Option<String>,
}

impl Fields {
    fn of_moment(local: i64, offset: i64, zone: Option<String>) -> Self {
        let (days, time) = split(local);
        let civil = civil_from_days(days);
        let (hour, minute, second, micros) = clock(time);
        let (year, month, day) = (civil.year, i64::from(civil.month), i64::from(civil.day));
        let julian = julian_day(year, month, day);
        Self {
            is_interval: false,
            year,
            month,
            day,
            day_of_year: julian - julian_day(year, 1, 1) + 1,
            weekday: usize::try_from((julian + 1).rem_euclid(7)).unwrap_or(0),
            hour,
            minute,
            second,
            micros,
            offset,
            zone,
        }
    }

    fn of_interval(interval: &Interval) -> Self {
        let (hour, minute, rest) = interval.clock();
        let (months, day) = (i64::from(interval.months), i64::from(interval.days));
        Self {
            is_interval: true,
            year: months / 12,
            month: months % 12,
            day,
            day_of_year: months * 30 + day,
            weekday: 0,
            hour,
            minute,
            second: rest / MICROS_PER_SECOND,
            micros: rest % MICROS_PER_SECOND,
            offset: 0,
            zone: None,
        }
    }

    fn write(&self, picture: &str) -> Result<String> {
        let mut out = String::with_capacity(picture.len() * 2);
        for node in parse(picture) {
            match node {
                Node::Item(item) => self.write_item(&item, &mut out)?,
                Node::Space(character) | Node::Separator(character) | Node::Text(character) => {
                    out.push(character);
                }
            }
        }
        Ok(out)
    }

    fn write_item(&self, item: &Item<'_>, out: &mut String) -> Result<()> {
        if self.is_interval && needs_date(item.field) {
            return Err(TypeError::new(
                "22007",
                "invalid format specification for an interval value",
            )
            .with_hint("Intervals are not tied to specific calendar dates."));
        }
        if let Some((value, width)) = self.number(item.field) {
            write_number(value, width, item, out);
            return Ok(());
        }
        match item.field {
            Field::Meridiem(dots) => {
                let afternoon = self.hour % 24 >= 12;
                out.push_str(&letters(if afternoon { "PM" } else { "AM" }, dots, item.case));
            }
            Field::Era(dots) => {
                let name = if self.year <= 0 { "BC" } else { "AD" };
                out.push_str(&letters(name, dots, item.case));
            }
            Field::MonthName => {
                write_name(MONTHS.get(self.month_index()).unwrap_or(&""), 9, item, out);
            }
            Field::ShortMonthName => {
                let name = MONTHS.get(self.month_index()).unwrap_or(&"");
                write_name(name.get(..3).unwrap_or(name), 3, item, out);
            }
            Field::DayName => write_name(WEEKDAYS.get(self.weekday).unwrap_or(&""), 9, item, out),
            Field::ShortDayName => {
                let name = WEEKDAYS.get(self.weekday).unwrap_or(&"");
                write_name(name.get(..3).unwrap_or(name), 3, item, out);
            }
            Field::RomanMonth => self.write_roman_month(item, out),
            Field::YearWithComma => {
                let start = out.len();
                let year = self.shown_year(self.year);
                let thousands = year / 1000;
                out.push_str(&format!("{thousands},{:03}", year - thousands * 1000));
                write_ordinal(start, item, out);
            }
            Field::Zone => {
                if let Some(zone) = &self.zone {
                    out.push_str(&cased(zone, item.case));
                }
            }
            Field::ZoneHour => {
                out.push(if self.offset < 0 { '-' } else { '+' });
                out.push_str(&format!("{:02}", self.offset.abs() / 3600));
            }
            Field::ZoneMinute => {
                out.push_str(&format!("{:02}", self.offset.abs() % 3600 / 60));
            }
            Field::ZoneOffset => {
                out.push(if self.offset < 0 { '-' } else { '+' });
                let width = if item.fill { 0 } else { 2 };
                out.push_str(&format!("{:0width$}", self.offset.abs() / 3600));
                if self.offset % 3600 != 0 {
                    out.push_str(&format!(":{:02}", self.offset.abs() % 3600 / 60));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns value and width of a pattern that is a number. A width that fits numbers from 0 on
    /// has room for a minus below. `None` for the other patterns, and for a quarter of an interval
    /// without months.
    fn number(&self, field: Field) -> Option<(i64, usize)> {
        let signed = |value: i64, width: usize| (value, width + usize::from(value < 0));
        let julian = || julian_day(self.year, self.month, self.day);
        Some(match field {
            Field::Hour12 => {
                let hour = if self.hour % 12 == 0 { 12 } else { self.hour % 12 };
                (hour, 2 + usize::from(self.hour < 0))
            }
            Field::Hour24 => signed(self.hour, 2),
            Field::Minute => signed(self.minute, 2),
            Field::Second => signed(self.second, 2),
            Field::SecondOfDay => (self.hour * 3600 + self.minute * 60 + self.second, 0),
            Field::Fraction(digits) => {
                let width = digits as usize;
                (self.micros / 10i64.pow(6u32.saturating_sub(digits)), width)
            }
            Field::Milliseconds => (self.micros / 1000, 3),
            Field::Microseconds => (self.micros, 6),
            Field::Month => signed(self.month, 2),
            Field::Day => (self.day, 2),
            Field::DayOfYear => (self.day_of_year, 3),
            Field::IsoDayOfYear => (julian() - iso_year_start(self.iso_week().0) + 1, 3),
            Field::DayOfWeek => (self.weekday as i64 + 1, 0),
            Field::IsoDayOfWeek => (if self.weekday == 0 { 7 } else { self.weekday as i64 }, 0),
            Field::Week => ((self.day_of_year - 1) / 7 + 1, 2),
            Field::IsoWeek => (self.iso_week().1, 2),
            Field::WeekOfMonth => ((self.day - 1) / 7 + 1, 0),
            Field::Quarter if self.month == 0 => return None,
            Field::Quarter => ((self.month - 1) / 3 + 1, 0),
            Field::Century => {
                let century = if self.is_interval {
                    self.year / 100
                } else if self.year > 0 {
                    (self.year - 1) / 100 + 1
                } else {
                    self.year / 100 - 1
                };
                signed(century, 2)
            }
            Field::Year(digits) => self.year_digits(self.year, digits),
            Field::IsoYear(digits) => self.year_digits(self.iso_week().0, digits),
            Field::Julian => (julian(), 0),
            _ => return None,
        })
    }

    /// Returns the year as people count it; years of intervals are just a number.
    fn shown_year(&self, year: i64) -> i64 {
        if self.is_interval || year > 0 { year } else { 1 - year }
    }

    fn year_digits(&self, year: i64, digits: usize) -> (i64, usize) {
        let width = digits + usize::from(self.shown_year(self.year) < 0);
        let year = self.shown_year(year);
        match digits {
            4 => (year, width),
            3 => (year % 1000, width),
            2 => (year % 100, width),
            _ => (year % 10, 1),
        }
    }

    /// Returns the ISO year and week.
    fn iso_week(&self) -> (i64, i64) {
        let julian = julian_day(self.year, self.month, self.day);
        let mut year = self.year;
        if julian < iso_year_start(year) {
            year -= 1;
        }
        let week = (julian - iso_year_start(year)) / 7 + 1;
        let next = iso_year_start(year + 1);
        if week >= 52 && julian >= next {
            return (year + 1, (julian - next) / 7 + 1);
        }
        (year, week)
    }

    fn month_index(&self) -> usize {
        usize::try_from(self.month - 1).unwrap_or(usize::MAX)
    }

    /// Writes a month as a Roman numeral. Months of intervals go on below zero: -1 is the last of a
    /// year.
    fn write_roman_month(&self, item: &Item<'_>, out: &mut String) {
        let index = match self.month {
            0 if self.year == 0 => return,
            0 if self.year > 0 => 11,
            0 => 0,
            month if month < 0 => month + 12,
            month => month - 1,
        };
        let name = usize::try_from(index).ok().and_then(|index| ROMAN.get(index)).unwrap_or(&"");
        write_name(name, 4, item, out);
    }
}

/// Decides whether a pattern has no meaning for an interval.
fn needs_date(field: Field) -> bool {
    matches!(
        field,
        Field::Zone
            | Field::ZoneHour
            | Field::ZoneMinute
            | Field::ZoneOffset
            | Field::Era(_)
            | Field::MonthName
            | Field::ShortMonthName
            | Field::DayName
            | Field::ShortDayName
            | Field::DayOfWeek
            | Field::IsoDayOfWeek
    )
}

fn cased(name: &str, case: Case) -> String {
    match case {
        Case::Upper => name.to_ascii_uppercase(),
        Case::Capital => name.to_owned(),
        Case::Lower => name.to_ascii_lowercase(),
    }
}

/// Returns two letters, each with a dot behind it if `dots` says so.
fn letters(name: &str, dots: Dots, case: Case) -> String {
    let name = cased(name, case);
    match dots {
        Dots::Without => name,
        Dots::With => name.chars().flat_map(|letter| [letter, '.']).collect(),
    }
}

fn write_name(name: &str, width: usize, item: &Item<'_>, out: &mut String) {
    let width = if item.fill || item.translated { 0 } else { width };
    out.push_str(&format!("{:<width$}", cased(name, item.case)));
}

fn write_number(value: i64, width: usize, item: &Item<'_>, out: &mut String) {
    let start = out.len();
    // Fractions of a second keep their zeros.
    let fixed =
        matches!(item.field, Field::Fraction(_) | Field::Milliseconds | Field::Microseconds);
    let width = if item.fill && !fixed { 0 } else { width };
    out.push_str(&format!("{value:0width$}"));
    write_ordinal(start, item, out);
}

/// Appends `st`, `nd`, `rd` or `th` to the number that begins at `start`.
fn write_ordinal(start: usize, item: &Item<'_>, out: &mut String) {
    if let Some(case) = item.ordinal {
        let suffix = ordinal(out.get(start..).unwrap_or_default());
        out.push_str(&cased(suffix, case));
    }
}
