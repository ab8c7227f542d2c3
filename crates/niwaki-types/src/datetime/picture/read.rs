//! Text to a moment by a picture: `to_timestamp`, `to_date`.

use super::resolve::{Found, Numbers};
use super::{Dots, Field, Item, MONTHS, Node, ROMAN, WEEKDAYS, is_separator, is_space, parse};
use crate::error::{Result, TypeError};
use crate::moment::calendar::{
    MICROS_PER_DAY, MICROS_PER_SECOND, days_from_civil, finite_date, finite_timestamp,
    round_to_precision,
};
use crate::moment::zone::TimeZone;

/// Reads a timestamp with time zone; without an offset in the text it is local time of `zone`.
/// Fields that the picture does not name are as in 1 BC, January 1, 0 o'clock.
///
/// # Errors
/// `22007` for text that does not fit the picture, `22008` out of range, `22009` for an offset out
/// of range. `0A000` for a pattern that can only be written.
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

/// Decides whether the next node ends a number: anything but a digit, or nothing.
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
    /// Number of bytes that have been read.
    at: usize,
    /// After `FX`.
    exact: bool,
    /// Characters skipped beyond the characters of the picture.
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
                // Takes one blank or separator of any kind, or none.
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

    /// Reads the sign of an offset. A minus may have been taken for a separator before.
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
            // The day of a quarter is not defined. The number is read and ignored.
            _ => Ok(()),
        }
    }

    /// Reads an integer. Takes all digits where the picture has no further number right behind,
    /// else as many characters as `length` says. Returns the integer and the number of bytes used,
    /// leading blanks included.
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

    /// Reads a year such as `12,024`.
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
        // As in PostgreSQL, too many digits wrap. The result is hardly a valid year then, and is
        // refused as a bad year.
        let thousands = thousands.unwrap_or(i64::MAX) as i32;
        let years = years.unwrap_or(0) as i32;
        Ok(thousands.wrapping_mul(1000).wrapping_add(years))
    }
}

fn name_of(names: &[&'static str], number: usize, short: bool) -> Option<&'static str> {
    let name = names.get(number).copied()?;
    if short { name.get(..3) } else { Some(name) }
}

/// Returns sign and digits at the start, as a number unless it is too long, and the number of bytes
/// they are.
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

/// Sets a field. A field that was given before must not be given another value.
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

/// Scales digits after a point: `5` is half a second in any unit.
fn scale(value: &mut i32, used: usize, digits: usize) {
    for _ in used..digits {
        *value = value.saturating_mul(10);
    }
}

/// Returns the year near 2020 that up to three digits mean.
fn full_year(year: i32) -> i32 {
    match year {
        ..70 => year.saturating_add(2000),
        70..100 => year + 1900,
        100..520 => year + 2000,
        520..1000 => year + 1000,
        _ => year,
    }
}
