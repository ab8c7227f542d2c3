//! Text by a picture to a moment: `to_timestamp`, `to_date`.

use super::{
    Convention, Dots, Field, Item, MONTHS, Node, ROMAN, WEEKDAYS, is_separator, is_space,
    iso_year_start, parse,
};
use crate::datetime::TimeZone;
use crate::datetime::calendar::{
    EPOCH_JULIAN_DAY, MICROS_PER_DAY, MICROS_PER_HOUR, MICROS_PER_MINUTE, MICROS_PER_SECOND,
    civil_from_days, days_from_civil, days_in_month, finite_date, finite_timestamp, is_leap,
    round_to_precision,
};
use crate::error::{Result, TypeError};

/// Reads a timestamp with time zone; without an offset in the text it is local time of `zone`. What the
/// picture does not name is as in 1 BC, January 1, 0 o'clock.
///
/// # Errors
/// `22007` for text that does not fit the picture, `22008` out of range, `22009` for an offset out of range,
/// `0A000` for a pattern that can only be written.
pub fn to_timestamp(text: &str, picture: &str, zone: &TimeZone) -> Result<i64> {
    let found = read(text, picture)?;
    let days = days_from_civil(found.year, found.month, found.day);
    let local = i128::from(days) * i128::from(MICROS_PER_DAY) + i128::from(found.time);
    let moment = match found.offset {
        Some(offset) => {
            finite_timestamp(local - i128::from(offset) * i128::from(MICROS_PER_SECOND))?
        }
        None => zone.to_utc(finite_timestamp(local)?)?,
    };
    if found.fraction_digits > 0 {
        return round_to_precision(moment, found.fraction_digits);
    }
    Ok(moment)
}

/// Reads a date; a time of day in the text is checked and ignored.
///
/// # Errors
/// As [`to_timestamp`].
pub fn to_date(text: &str, picture: &str) -> Result<i32> {
    let found = read(text, picture)?;
    finite_date(days_from_civil(found.year, found.month, found.day))
        .map_err(|_| TypeError::new("22008", format!("date out of range: \"{text}\"")))
}

/// What a text says.
struct Found {
    /// 0 is 1 BC.
    year: i64,
    month: u32,
    /// May lie behind the end of its month where the text names no year.
    day: u32,
    /// Microseconds of the day.
    time: i64,
    /// Seconds east of Greenwich.
    offset: Option<i64>,
    fraction_digits: i32,
}

/// Numbers as they were read; 0 is none.
#[derive(Default)]
struct Numbers {
    convention: Option<Convention>,
    twelve_hours: bool,
    afternoon: i32,
    hour: i32,
    minute: i32,
    second: i32,
    second_of_day: i32,
    milliseconds: i32,
    microseconds: i32,
    fraction_digits: i32,
    before_christ: i32,
    century: i32,
    year: i32,
    /// Digits of the pattern that gave the year.
    year_digits: usize,
    month: i32,
    week: i32,
    week_of_month: i32,
    day: i32,
    day_of_year: i32,
    /// 1 for Sunday.
    weekday: i32,
    julian: i32,
    /// 1 or -1 when there is an offset.
    offset_sign: i32,
    offset_hours: i32,
    offset_minutes: i32,
}

fn read(text: &str, picture: &str) -> Result<Found> {
    let nodes = parse(picture);
    let mut scanner =
        Scanner { text, at: 0, exact: false, skipped: 0, numbers: Numbers::default() };
    for (position, node) in nodes.iter().enumerate() {
        if scanner.rest().is_empty() {
            break;
        }
        scanner.node(node, position == 0, follower(nodes.get(position + 1)))?;
    }
    scanner.numbers.resolve(text)
}

/// Whether what follows a number ends it: anything but a digit, or nothing.
fn follower(next: Option<&Node<'_>>) -> bool {
    match next {
        None => true,
        Some(Node::Item(item)) => !item.digits,
        Some(Node::Space(character) | Node::Separator(character) | Node::Text(character)) => {
            !character.is_ascii_digit()
        }
    }
}

struct Scanner<'t> {
    text: &'t str,
    /// Bytes that are read.
    at: usize,
    /// After `FX`.
    exact: bool,
    /// Characters skipped beyond what the picture asks for.
    skipped: i32,
    numbers: Numbers,
}

impl<'t> Scanner<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn skip_spaces(&mut self) -> i32 {
        let rest = self.rest();
        let spaces = rest.len() - rest.trim_start_matches(is_space).len();
        self.at += spaces;
        i32::try_from(spaces).unwrap_or(i32::MAX)
    }

    fn skip_character(&mut self) {
        self.at += self.rest().chars().next().map_or(0, char::len_utf8);
    }

    fn node(&mut self, node: &Node<'_>, is_first: bool, ends: bool) -> Result<()> {
        let item = match node {
            Node::Item(item) => Some(item),
            _ => None,
        };
        let is_switch = item.is_some_and(|item| item.field == Field::Exact);
        if !self.exact && !is_switch && (item.is_some() || is_first) {
            let spaces = self.skip_spaces();
            self.skipped = self.skipped.saturating_add(spaces);
        }
        match node {
            Node::Space(_) | Node::Separator(_) if self.exact => self.skip_character(),
            Node::Space(_) | Node::Separator(_) => {
                // One blank or separator, whichever it is; or none.
                let next = self.rest().chars().next();
                if next.is_some_and(|next| is_space(next) || is_separator(next)) {
                    self.skip_character();
                } else {
                    self.skipped -= 1;
                }
            }
            Node::Text(_) if !self.exact && self.skipped > 0 => self.skipped -= 1,
            Node::Text(_) => self.skip_character(),
            Node::Item(item) => {
                self.item(item, ends || item.ordinal.is_some())?;
                if !self.exact {
                    self.skipped = self.skip_spaces();
                }
            }
        }
        Ok(())
    }

    fn item(&mut self, item: &Item<'_>, ends: bool) -> Result<()> {
        if let Some(convention) = item.convention
            && *self.numbers.convention.get_or_insert(convention) != convention
        {
            return Err(TypeError::new("22007", "invalid combination of date conventions")
                .with_hint(
                    "Do not mix Gregorian and ISO week date conventions in a formatting template.",
                ));
        }
        match item.field {
            Field::Exact => self.exact = true,
            Field::Meridiem(_) | Field::Era(_) => self.letters(item)?,
            Field::MonthName | Field::ShortMonthName | Field::RomanMonth => {
                self.month_name(item)?;
            }
            Field::DayName | Field::ShortDayName => {
                let number = self.name(item, |number| {
                    name_of(&WEEKDAYS, number, item.field == Field::ShortDayName)
                })?;
                set(&mut self.numbers.weekday, number, item)?;
                self.numbers.weekday += 1;
            }
            Field::Zone | Field::ZoneOffset => {
                return Err(TypeError::new(
                    "0A000",
                    format!("formatting field \"{}\" is only supported in to_char", item.name),
                ));
            }
            Field::ZoneHour => {
                self.offset_sign();
                let (value, _) = self.integer(item, 2, ends)?;
                set(&mut self.numbers.offset_hours, value, item)?;
            }
            Field::ZoneMinute => {
                if self.numbers.offset_sign == 0 {
                    self.numbers.offset_sign = 1;
                }
                let (value, _) = self.integer(item, 2, ends)?;
                set(&mut self.numbers.offset_minutes, value, item)?;
            }
            Field::YearWithComma => {
                let year = self.year_with_comma()?;
                set(&mut self.numbers.year, year, item)?;
                self.numbers.year_digits = 4;
                self.skip_ordinal(item);
            }
            _ => {
                self.number(item, ends)?;
                self.skip_ordinal(item);
            }
        }
        Ok(())
    }

    fn skip_ordinal(&mut self, item: &Item<'_>) {
        if item.ordinal.is_some() {
            self.skip_character();
            self.skip_character();
        }
    }

    /// A minus may have been taken for a separator before.
    fn offset_sign(&mut self) {
        let before = self.text.get(..self.at).unwrap_or_default();
        self.numbers.offset_sign = match self.rest().bytes().next() {
            Some(sign @ (b'+' | b'-' | b' ')) => {
                self.at += 1;
                if sign == b'-' { -1 } else { 1 }
            }
            _ if self.skipped > 0 && before.ends_with('-') => -1,
            _ => 1,
        };
    }

    fn letters(&mut self, item: &Item<'_>) -> Result<()> {
        let (names, is_era) = match item.field {
            Field::Era(Dots::With) => (["a.d.", "b.c."], true),
            Field::Era(Dots::Without) => (["ad", "bc"], true),
            Field::Meridiem(Dots::With) => (["a.m.", "p.m."], false),
            _ => (["am", "pm"], false),
        };
        let number = self.name(item, |number| names.get(number).copied())?;
        if is_era {
            set(&mut self.numbers.before_christ, number, item)
        } else {
            set(&mut self.numbers.afternoon, number, item)?;
            self.numbers.twelve_hours = true;
            Ok(())
        }
    }

    fn month_name(&mut self, item: &Item<'_>) -> Result<()> {
        let month = match item.field {
            // Longer numerals first: some begin with others.
            Field::RomanMonth => {
                12 - self.name(item, |number| {
                    11usize.checked_sub(number).and_then(|number| ROMAN.get(number)).copied()
                })?
            }
            field => {
                let short = field == Field::ShortMonthName;
                self.name(item, |number| name_of(&MONTHS, number, short))? + 1
            }
        };
        set(&mut self.numbers.month, month, item)
    }

    /// Reads one of several names in any case of letters, and returns its number from 0.
    fn name(
        &mut self,
        item: &Item<'_>,
        names: impl Fn(usize) -> Option<&'static str>,
    ) -> Result<i32> {
        let rest = self.rest();
        let mut number = 0;
        while let Some(name) = names(number) {
            if rest.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name)) {
                self.at += name.len();
                return Ok(i32::try_from(number).unwrap_or(i32::MAX));
            }
            number += 1;
        }
        let end = rest.find([' ', '\t', '\n', '\r', '\x0c']).unwrap_or(rest.len());
        let given = rest.get(..end).unwrap_or(rest);
        Err(invalid_value(given, item)
            .with_detail("The given value did not match any of the allowed values for this field."))
    }

    fn number(&mut self, item: &Item<'_>, ends: bool) -> Result<()> {
        // Nearly all numbers have as many digits as their pattern has letters.
        let letters = item.name.len();
        let length = match item.field {
            Field::Hour12 | Field::Hour24 => 2,
            Field::Milliseconds | Field::IsoDayOfYear => 3,
            Field::Microseconds => 6,
            Field::IsoDayOfWeek => 1,
            Field::Fraction(digits) => digits as usize,
            _ => letters,
        };
        let (value, used) = self.integer(item, length, ends)?;
        let numbers = &mut self.numbers;
        match item.field {
            Field::Hour12 => {
                numbers.twelve_hours = true;
                set(&mut numbers.hour, value, item)
            }
            Field::Hour24 => set(&mut numbers.hour, value, item),
            Field::Minute => set(&mut numbers.minute, value, item),
            Field::Second => set(&mut numbers.second, value, item),
            Field::SecondOfDay => set(&mut numbers.second_of_day, value, item),
            Field::Milliseconds => {
                set(&mut numbers.milliseconds, value, item)?;
                scale(&mut numbers.milliseconds, used, 3);
                Ok(())
            }
            Field::Microseconds | Field::Fraction(_) => {
                if let Field::Fraction(digits) = item.field {
                    numbers.fraction_digits = digits.cast_signed();
                }
                set(&mut numbers.microseconds, value, item)?;
                scale(&mut numbers.microseconds, used, 6);
                Ok(())
            }
            Field::Month => set(&mut numbers.month, value, item),
            Field::Day => set(&mut numbers.day, value, item),
            Field::DayOfYear | Field::IsoDayOfYear => set(&mut numbers.day_of_year, value, item),
            Field::DayOfWeek => set(&mut numbers.weekday, value, item),
            Field::IsoDayOfWeek => {
                set(&mut numbers.weekday, value, item)?;
                numbers.weekday = numbers.weekday.saturating_add(1);
                if numbers.weekday > 7 {
                    numbers.weekday = 1;
                }
                Ok(())
            }
            Field::Week | Field::IsoWeek => set(&mut numbers.week, value, item),
            Field::WeekOfMonth => set(&mut numbers.week_of_month, value, item),
            Field::Century => set(&mut numbers.century, value, item),
            Field::Julian => set(&mut numbers.julian, value, item),
            Field::Year(digits) | Field::IsoYear(digits) => {
                set(&mut numbers.year, value, item)?;
                if digits < 4 && used < 4 {
                    numbers.year = full_year(numbers.year);
                }
                numbers.year_digits = digits;
                Ok(())
            }
            // Which day of the quarter should it be? It is read and ignored.
            _ => Ok(()),
        }
    }

    /// Reads an integer: all digits where the picture has no further number right behind, else as many
    /// characters as `length` says. Returns it with the count of bytes used, blanks before it included.
    fn integer(&mut self, item: &Item<'_>, length: usize, ends: bool) -> Result<(i32, usize)> {
        let start = self.at;
        self.skip_spaces();
        let rest = self.rest();
        let mut cut = length.min(rest.len());
        while !rest.is_char_boundary(cut) {
            cut -= 1;
        }
        let copy = rest.get(..cut).unwrap_or(rest);
        let value = if item.fill || ends {
            let (value, used) = leading_integer(rest);
            if used == 0 {
                self.at = start;
            }
            self.at += used;
            value
        } else {
            const HINT: &str =
                "If your source string is not fixed-width, try using the \"FM\" modifier.";
            if rest.len() < length {
                return Err(TypeError::new(
                    "22007",
                    format!("source string too short for \"{}\" formatting field", item.name),
                )
                .with_detail(format!(
                    "Field requires {length} characters, but only {} remain.",
                    rest.len()
                ))
                .with_hint(HINT));
            }
            let (value, used) = leading_integer(copy);
            if used > 0 && used < length {
                return Err(invalid_value(copy, item)
                    .with_detail(format!(
                        "Field requires {length} characters, but only {used} could be parsed."
                    ))
                    .with_hint(HINT));
            }
            self.at += used;
            value
        };
        if self.at == start {
            return Err(invalid_value(copy, item).with_detail("Value must be an integer."));
        }
        let Some(value) = value.and_then(|value| i32::try_from(value).ok()) else {
            return Err(TypeError::new(
                "22008",
                format!("value for \"{}\" in source string is out of range", item.name),
            )
            .with_detail(format!(
                "Value must be in the range {} to {}.",
                i32::MIN,
                i32::MAX
            )));
        };
        Ok((value, self.at - start))
    }

    /// `12,024`
    fn year_with_comma(&mut self) -> Result<i32> {
        let invalid = || TypeError::new("22007", "invalid input string for \"Y,YYY\"");
        self.skip_spaces();
        let (thousands, used) = leading_integer(self.rest());
        self.at += used;
        let after = self.rest().strip_prefix(',').filter(|_| used > 0).ok_or_else(invalid)?;
        self.at += 1;
        let blanks = after.len() - after.trim_start_matches(is_space).len();
        self.at += blanks;
        let rest = self.rest();
        let mut cut = rest.len().min(3);
        while !rest.is_char_boundary(cut) {
            cut -= 1;
        }
        let (years, used) = leading_integer(rest.get(..cut).unwrap_or_default());
        if used == 0 {
            return Err(invalid());
        }
        self.at += used;
        // As in PostgreSQL, too many digits wrap; the year is hardly one then, and is refused as such.
        let thousands = thousands.unwrap_or(i64::MAX) as i32;
        let years = years.unwrap_or(0) as i32;
        Ok(thousands.wrapping_mul(1000).wrapping_add(years))
    }
}

fn name_of(names: &[&'static str], number: usize, short: bool) -> Option<&'static str> {
    let name = names.get(number).copied()?;
    if short { name.get(..3) } else { Some(name) }
}

/// Sign and digits at the start, as a number unless it is too long, and how many bytes they are.
fn leading_integer(text: &str) -> (Option<i64>, usize) {
    let signed = usize::from(text.starts_with(['+', '-']));
    let digits = text.bytes().skip(signed).take_while(u8::is_ascii_digit).count();
    if digits == 0 {
        return (Some(0), 0);
    }
    let used = signed + digits;
    (text.get(..used).and_then(|text| text.parse().ok()), used)
}

fn invalid_value(given: &str, item: &Item<'_>) -> TypeError {
    TypeError::new("22007", format!("invalid value \"{given}\" for \"{}\"", item.name))
}

/// A field that was given before must not be given another value.
fn set(field: &mut i32, value: i32, item: &Item<'_>) -> Result<()> {
    if *field != 0 && *field != value {
        return Err(TypeError::new(
            "22007",
            format!("conflicting values for \"{}\" field in formatting string", item.name),
        )
        .with_detail("This value contradicts a previous setting for the same field type."));
    }
    *field = value;
    Ok(())
}

/// Digits after a point: `5` is half a second in any unit.
fn scale(value: &mut i32, used: usize, digits: usize) {
    for _ in used..digits {
        *value = value.saturating_mul(10);
    }
}

/// The year near 2020 that up to three digits mean.
fn full_year(year: i32) -> i32 {
    match year {
        ..70 => year.saturating_add(2000),
        70..100 => year + 1900,
        100..520 => year + 2000,
        520..1000 => year + 1000,
        _ => year,
    }
}

/// A date while its parts come together, and which of them are known.
struct Date {
    year: i64,
    month: i64,
    day: i64,
    has_year: bool,
    has_month: bool,
    has_day: bool,
}

impl Date {
    fn set_all(&mut self, julian: i64) {
        let civil = civil_from_days(julian - EPOCH_JULIAN_DAY);
        *self = Self {
            year: civil.year,
            month: civil.month.into(),
            day: civil.day.into(),
            has_year: true,
            has_month: true,
            has_day: true,
        };
    }

    fn is_valid(&self) -> bool {
        let month = u32::try_from(self.month).ok().filter(|month| (1..=12).contains(month));
        if (self.has_month && month.is_none()) || (self.has_day && !(1..=31).contains(&self.day)) {
            return false;
        }
        let complete = self.has_year && self.has_month && self.has_day;
        !complete || month.is_some_and(|month| self.day <= days_in_month(self.year, month).into())
    }
}

impl Numbers {
    fn resolve(&self, text: &str) -> Result<Found> {
        let out_of_range =
            || TypeError::new("22008", format!("date/time field value out of range: \"{text}\""));
        let time = self.time_of_day()?;
        let date = self.date()?;
        if !date.is_valid() || i32::try_from(date.year).is_err() {
            return Err(out_of_range());
        }
        let (Ok(month), Ok(day)) = (u32::try_from(date.month), u32::try_from(date.day)) else {
            return Err(out_of_range());
        };
        let offset = if self.offset_sign == 0 {
            None
        } else {
            let (hours, minutes) = (i64::from(self.offset_hours), i64::from(self.offset_minutes));
            if !(0..=15).contains(&hours) || !(0..60).contains(&minutes) {
                return Err(TypeError::new(
                    "22009",
                    format!("time zone displacement out of range: \"{text}\""),
                ));
            }
            Some(i64::from(self.offset_sign) * (hours * 3600 + minutes * 60))
        };
        let time = time.ok_or_else(out_of_range)?;
        Ok(Found {
            year: date.year,
            month,
            day,
            time,
            offset,
            fraction_digits: self.fraction_digits,
        })
    }

    /// Microseconds of the day; `None` when a part is out of range.
    fn time_of_day(&self) -> Result<Option<i64>> {
        let of_day = i64::from(self.second_of_day);
        let or = |given: i32, other: i64| if given == 0 { other } else { i64::from(given) };
        let mut hour = or(self.hour, of_day / 3600);
        let minute = or(self.minute, of_day % 3600 / 60);
        let second = or(self.second, of_day % 60);
        if self.twelve_hours {
            if !(1..=12).contains(&hour) {
                return Err(TypeError::new(
                    "22007",
                    format!("hour \"{hour}\" is invalid for the 12-hour clock"),
                )
                .with_hint("Use the 24-hour clock, or give an hour between 1 and 12."));
            }
            if self.afternoon != 0 && hour < 12 {
                hour += 12;
            } else if self.afternoon == 0 && hour == 12 {
                hour = 0;
            }
        }
        let micros = i64::from(self.milliseconds) * 1000 + i64::from(self.microseconds);
        let valid = (0..24).contains(&hour)
            && (0..60).contains(&minute)
            && (0..60).contains(&second)
            && (0..MICROS_PER_SECOND).contains(&micros);
        Ok(valid.then(|| {
            hour * MICROS_PER_HOUR
                + minute * MICROS_PER_MINUTE
                + second * MICROS_PER_SECOND
                + micros
        }))
    }

    fn date(&self) -> Result<Date> {
        let mut date =
            Date { year: 0, month: 1, day: 1, has_year: false, has_month: false, has_day: false };
        if let Some(year) = self.full_year() {
            date.year = year;
            date.has_year = true;
        }
        if self.julian != 0 {
            date.set_all(self.julian.into());
        }
        let is_iso = self.convention == Some(Convention::IsoWeek);
        let mut day_of_year = i64::from(self.day_of_year);
        if self.week != 0 {
            let weeks = i64::from(self.week) - 1;
            if is_iso {
                // Without a weekday it is the Monday.
                let weekday = match self.weekday {
                    0 => 0,
                    sunday if sunday <= 1 => 6,
                    weekday => i64::from(weekday) - 2,
                };
                date.set_all(iso_year_start(date.year) + weeks * 7 + weekday);
            } else {
                day_of_year = weeks * 7 + 1;
            }
        }
        let mut day = i64::from(self.day);
        if self.week_of_month != 0 {
            day = (i64::from(self.week_of_month) - 1) * 7 + 1;
        }
        if day != 0 {
            date.day = day;
            date.has_day = true;
        }
        if self.month != 0 {
            date.month = self.month.into();
            date.has_month = true;
        }
        if day_of_year != 0 && (date.month <= 1 || date.day <= 1) {
            if date.year == 0 && self.before_christ == 0 {
                return Err(TypeError::new(
                    "22007",
                    "cannot calculate day of year without year information",
                ));
            }
            if is_iso {
                date.set_all(iso_year_start(date.year) - 1 + day_of_year);
            } else {
                date.set_day_of_year(day_of_year);
            }
        }
        Ok(date)
    }

    /// The year that year, century and era say; 0 is 1 BC.
    fn full_year(&self) -> Option<i64> {
        let sign = if self.before_christ != 0 { -1 } else { 1 };
        let (century, year) = (i64::from(self.century) * sign, i64::from(self.year));
        if self.year == 0 {
            // The first year of the century.
            return match self.century {
                0 => None,
                _ if century >= 0 => Some((century - 1) * 100 + 1),
                _ => Some(century * 100 + 1),
            };
        }
        if self.century == 0 || self.year_digits > 2 {
            let year = year * sign;
            return Some(if year < 0 { year + 1 } else { year });
        }
        // The 21st century ends with 2100; the 6th before Christ goes from 600 to 501 BC.
        Some(match (year % 100, century >= 0) {
            (0, true) => century * 100,
            (0, false) => century * 100 + 1,
            (year, true) => (century - 1) * 100 + year,
            (year, false) => (century + 1) * 100 - year + 1,
        })
    }
}

impl Date {
    /// Sets month and day, as far as they are not given, by the day of the year.
    fn set_day_of_year(&mut self, day_of_year: i64) {
        let february = if is_leap(self.year) { 29 } else { 28 };
        let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let mut before = 0;
        let mut month = 1;
        for length in lengths {
            if day_of_year <= before + length {
                break;
            }
            before += length;
            month += 1;
        }
        if self.month <= 1 {
            self.month = month;
        }
        if self.day <= 1 {
            self.day = day_of_year - before;
        }
        self.has_month = true;
        self.has_day = true;
    }
}
