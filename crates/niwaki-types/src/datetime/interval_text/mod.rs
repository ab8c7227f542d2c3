//! Text to interval: `1 year 2 months 3 days 04:05:06`, `1-2 3 4:05:06`, `P1Y2M3DT4H5M6S`.

mod duration;

use super::fields::fraction_micros;
use super::tokens::is_known;
use crate::error::{Result, TypeError};
use crate::moment::calendar::{
    MICROS_PER_DAY, MICROS_PER_HOUR, MICROS_PER_MINUTE, MICROS_PER_SECOND,
};
use crate::moment::interval::{Interval, out_of_range, range};
use crate::settings::IntervalStyle;

/// Reads an interval. The field range of `typmod` gives the unit of a bare number (seconds without
/// a range). The value is not yet cut to the range. In the style `sql_standard` a minus before the
/// first part applies to all parts, unless another part has a sign.
///
/// # Errors
/// `22007` for bad syntax, `22015` when a field is out of range, `22008` when a part does not fit.
pub fn parse_interval(text: &str, typmod: i32, style: IntervalStyle) -> Result<Interval> {
    let trimmed = text.trim_matches(crate::scalar::space::is_space);
    let fields = range::of(typmod);
    // No blanks may stand around the ISO form.
    let result = match text.strip_prefix('P') {
        Some(iso) => duration::read(iso),
        None => read(trimmed, fields, style == IntervalStyle::SqlStandard),
    };
    let sum = result.map_err(|fault| match fault {
        Fault::Syntax => {
            TypeError::new("22007", format!("invalid input syntax for type interval: \"{text}\""))
        }
        Fault::FieldRange => {
            TypeError::new("22015", format!("interval field value out of range: \"{text}\""))
        }
    })?;
    let fit = || {
        let (years, months) = (i32::try_from(sum.years).ok()?, i32::try_from(sum.months).ok()?);
        let all = i64::from(years) * 12 + i64::from(months);
        Some((all, i32::try_from(sum.days).ok()?, i64::try_from(sum.micros).ok()?))
    };
    let (months, days, micros) = fit().ok_or_else(|| {
        TypeError::new("22015", format!("interval field value out of range: \"{text}\""))
    })?;
    Ok(Interval { months: i32::try_from(months).map_err(|_| out_of_range())?, days, micros })
}

enum Fault {
    Syntax,
    FieldRange,
}

/// A unit of intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
    Decade,
    Century,
    Millennium,
}

/// Number of letters of a word that are looked at.
const UNIT_LETTERS: usize = 10;

/// Returns the unit of a word, in any case of its letters; letters behind the tenth do not count.
pub(super) fn unit(word: &str) -> Option<Unit> {
    let word = word.get(..UNIT_LETTERS).unwrap_or(word);
    Some(match word.to_ascii_lowercase().as_str() {
        "us" | "usec" | "usecs" | "usecond" | "useconds" | "microsecon" => Unit::Microsecond,
        "ms" | "msec" | "msecs" | "msecond" | "mseconds" | "millisecon" => Unit::Millisecond,
        "s" | "sec" | "secs" | "second" | "seconds" => Unit::Second,
        "m" | "min" | "mins" | "minute" | "minutes" => Unit::Minute,
        "h" | "hr" | "hrs" | "hour" | "hours" => Unit::Hour,
        "d" | "day" | "days" => Unit::Day,
        "w" | "week" | "weeks" => Unit::Week,
        "mon" | "mons" | "month" | "months" => Unit::Month,
        "y" | "yr" | "yrs" | "year" | "years" => Unit::Year,
        "dec" | "decs" | "decade" | "decades" => Unit::Decade,
        "c" | "cent" | "century" | "centuries" => Unit::Century,
        "mil" | "mils" | "millennium" | "millennia" => Unit::Millennium,
        _ => return None,
    })
}

/// Parts of an interval before they are known to fit.
#[derive(Default)]
struct Sum {
    years: i128,
    months: i128,
    days: i128,
    micros: i128,
    /// Bits of the units seen: no unit may come twice.
    seen: u32,
}

/// A decimal number cut at its point. The fraction carries the sign.
#[derive(Clone, Copy)]
struct Number {
    whole: i128,
    fraction: f64,
}

impl Sum {
    fn mark(&mut self, unit: Unit) -> Result<(), Fault> {
        let bit = 1 << unit as u32;
        if self.seen & bit != 0 {
            return Err(Fault::Syntax);
        }
        self.seen |= bit;
        Ok(())
    }

    /// Notes seconds. Seconds with a fraction exclude milliseconds and microseconds.
    fn mark_seconds(&mut self) -> Result<(), Fault> {
        self.mark(Unit::Second)?;
        self.mark(Unit::Millisecond)?;
        self.mark(Unit::Microsecond)
    }

    fn add(&mut self, number: Number, unit: Unit) -> Result<(), Fault> {
        if unit == Unit::Second && number.fraction != 0.0 {
            self.mark_seconds()?;
        } else {
            self.mark(unit)?;
        }
        self.add_again(number, unit);
        Ok(())
    }

    /// Adds to the earlier value of the unit.
    fn add_again(&mut self, number: Number, unit: Unit) {
        let Number { whole, fraction } = number;
        match unit {
            Unit::Microsecond => self.add_time(number, 1),
            Unit::Millisecond => self.add_time(number, 1_000),
            Unit::Second => self.add_time(number, MICROS_PER_SECOND),
            Unit::Minute => self.add_time(number, MICROS_PER_MINUTE),
            Unit::Hour => self.add_time(number, MICROS_PER_HOUR),
            Unit::Day => {
                self.days += whole;
                self.add_time(Number { whole: 0, fraction }, MICROS_PER_DAY);
            }
            Unit::Week => {
                self.days += whole * 7;
                self.add_day_fraction(fraction * 7.0);
            }
            Unit::Month => {
                self.months += whole;
                self.add_day_fraction(fraction * 30.0);
            }
            Unit::Year => self.add_years(number, 1),
            Unit::Decade => self.add_years(number, 10),
            Unit::Century => self.add_years(number, 100),
            Unit::Millennium => self.add_years(number, 1000),
        }
    }

    fn add_time(&mut self, number: Number, micros: i64) {
        let scaled = number.fraction * micros as f64;
        let mut fraction = scaled.trunc();
        let rest = scaled - fraction;
        if rest.abs() > 0.5 {
            fraction += rest.signum();
        }
        self.micros += number.whole * i128::from(micros) + fraction as i128;
    }

    fn add_day_fraction(&mut self, days: f64) {
        let whole = days.trunc();
        self.days += whole as i128;
        self.add_time(Number { whole: 0, fraction: days - whole }, MICROS_PER_DAY);
    }

    fn add_years(&mut self, number: Number, years: i32) {
        let months = f64::from(years) * 12.0;
        self.years += number.whole * i128::from(years);
        self.months += (number.fraction * months).round_ties_even() as i128;
    }
}

/// Returns the unit of a number at the end without a named unit.
fn default_unit(fields: i32) -> Unit {
    use range::{DAY, FULL, HOUR, MINUTE, MONTH, YEAR};
    if fields == FULL {
        Unit::Second
    } else if fields == YEAR {
        Unit::Year
    } else if fields == MONTH || fields == YEAR | MONTH {
        Unit::Month
    } else if fields == DAY {
        Unit::Day
    } else if fields == HOUR || fields == DAY | HOUR {
        Unit::Hour
    } else if fields == MINUTE || fields == HOUR | MINUTE || fields == DAY | HOUR | MINUTE {
        Unit::Minute
    } else {
        Unit::Second
    }
}

fn read(text: &str, fields: i32, one_sign: bool) -> Result<Sum, Fault> {
    let mut sum = Sum::default();
    let mut rest = text;
    let negative = one_sign && has_one_minus(rest);
    let mut ago = false;
    let mut empty = true;
    loop {
        rest = rest.trim_start_matches(is_between);
        let Some(first) = rest.chars().next() else { break };
        if first.is_ascii_alphabetic() {
            let (word, after) = split_while(rest, |c| c.is_ascii_alphabetic());
            if !word.eq_ignore_ascii_case("ago")
                || empty
                || !after.trim_matches(is_between).is_empty()
            {
                return Err(Fault::Syntax);
            }
            ago = true;
            rest = after;
            continue;
        }
        let in_number = |c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | ':');
        let (mut item, mut after) = split_while(rest, in_number);
        let joined;
        if matches!(item, "+" | "-") {
            // Blanks may stand behind a sign.
            let (digits, behind) =
                split_while(after.trim_start_matches(crate::scalar::space::is_space), in_number);
            joined = format!("{item}{digits}");
            (item, after) = (&joined, behind);
        }
        if !item.contains(|c: char| c.is_ascii_digit()) {
            return Err(Fault::Syntax);
        }
        if let Some(colon) = colon_behind_fraction(item) {
            (item, after) = rest.split_at(colon);
        }
        empty = false;
        rest = after;
        if item.contains(':') {
            sum.mark(Unit::Hour)?;
            sum.mark(Unit::Minute)?;
            sum.mark_seconds()?;
            // A signed number might be a time zone, so a number that is no time of day is no field
            // either.
            let signed = item.starts_with(['+', '-']);
            let fault = |fault| if signed { Fault::Syntax } else { fault };
            let micros = clock(item, fields).map_err(fault)?;
            sum.micros += if negative { -micros.abs() } else { micros };
        } else if item.trim_start_matches(['+', '-']).contains('-') {
            sum.mark(Unit::Year)?;
            sum.mark(Unit::Month)?;
            let months = year_month(item)?;
            sum.months += if negative { -months.abs() } else { months };
        } else {
            if item.starts_with("+.") || item.starts_with("-.") {
                return Err(Fault::Syntax);
            }
            let mut number = number(item)?;
            if negative && (number.whole > 0 || number.fraction > 0.0) {
                number = Number { whole: -number.whole, fraction: -number.fraction };
            }
            // An unsigned `7.years` starts like a date.
            let unsigned = item.starts_with(|c: char| c.is_ascii_digit());
            let before_word = rest.starts_with(|c: char| c.is_ascii_alphabetic());
            if unsigned && (item.ends_with('.') && before_word || rest.starts_with('/')) {
                return Err(Fault::Syntax);
            }
            let after = rest.trim_start_matches(is_between);
            let (word, after_word) = split_while(after, |c| c.is_ascii_alphabetic());
            if word.is_empty() || word.eq_ignore_ascii_case("ago") {
                // A number of days may stand without a unit before a time.
                let time_follows = after.contains(':') || are_hours(after, fields);
                if word.eq_ignore_ascii_case("ago") {
                    return Err(Fault::Syntax);
                }
                sum.add(number, if time_follows { Unit::Day } else { default_unit(fields) })?;
                if !time_follows && !after.is_empty() && word.is_empty() {
                    return Err(Fault::Syntax);
                }
            } else {
                sum.add(number, unit(word).ok_or(Fault::Syntax)?)?;
                rest = after_word;
                if runs_on(word, rest) {
                    return Err(Fault::Syntax);
                }
            }
        }
    }
    if empty {
        return Err(Fault::Syntax);
    }
    if ago {
        sum.years = -sum.years;
        sum.months = -sum.months;
        sum.days = -sum.days;
        sum.micros = -sum.micros;
    }
    Ok(sum)
}

/// Decides whether a character may stand between parts and means nothing: all punctuation that
/// begins no number.
fn is_between(c: char) -> bool {
    crate::scalar::space::is_space(c) || c.is_ascii_punctuation() && !matches!(c, '+' | '-' | '.')
}

/// Returns where a new part begins in a number without a sign. Hours have no fraction, so the colon
/// behind a fraction begins a new part.
fn colon_behind_fraction(item: &str) -> Option<usize> {
    let colon = item.find(':').filter(|colon| item.find('.').is_some_and(|point| point < *colon));
    colon.filter(|_| item.starts_with(|c: char| c.is_ascii_digit()))
}

/// Decides whether a word and what follows it are a date or a zone, and no unit.
fn runs_on(word: &str, rest: &str) -> bool {
    let always = rest.starts_with(['-', '/', '.']);
    let unless_known = rest.starts_with(|c: char| c == '+' || c.is_ascii_digit());
    always || unless_known && !is_known(word)
}

/// Decides whether a text starts with a number of hours.
fn are_hours(text: &str, fields: i32) -> bool {
    let in_number = |c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.');
    let (number, after) = split_while(text, in_number);
    let after = after.trim_start_matches(is_between);
    let (word, _) = split_while(after, |c| c.is_ascii_alphabetic());
    let unit = if after.is_empty() { Some(default_unit(fields)) } else { unit(word) };
    !number.is_empty() && unit == Some(Unit::Hour)
}

/// Decides whether the first part has a minus and no other part a sign.
fn has_one_minus(text: &str) -> bool {
    let text = text.trim_start_matches(is_between);
    // Inside a part, as in `1-2`, a character of a number stands before.
    let starts_part = |before: &u8| !(before.is_ascii_digit() || matches!(before, b'.' | b':'));
    let later_sign = text
        .as_bytes()
        .windows(2)
        .any(|pair| starts_part(&pair[0]) && matches!(pair[1], b'+' | b'-'));
    text.starts_with('-') && !later_sign
}

fn split_while(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !belongs(c)).unwrap_or(text.len()))
}

/// Splits off the sign; true for a minus.
fn sign(text: &str) -> (bool, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    }
}

fn whole(digits: &str) -> Result<i128, Fault> {
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Fault::Syntax);
    }
    // The limit is far beyond any part of an interval, yet far from the end of the sums. The last
    // value fits only with a minus.
    let value = digits.parse::<u64>().ok().filter(|value| *value <= i64::MIN.unsigned_abs());
    value.map(i128::from).ok_or(Fault::FieldRange)
}

fn number(text: &str) -> Result<Number, Fault> {
    let (negative, body) = sign(text);
    let (integer, fraction) = body.split_once('.').unwrap_or((body, ""));
    if integer.is_empty() && fraction.is_empty() {
        return Err(Fault::Syntax);
    }
    let integer = if integer.is_empty() { 0 } else { whole(integer)? };
    let fraction = if fraction.is_empty() {
        0.0
    } else if fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        format!("0.{fraction}").parse::<f64>().map_err(|_| Fault::Syntax)?
    } else {
        return Err(Fault::Syntax);
    };
    Ok(if negative {
        Number { whole: -integer, fraction: -fraction }
    } else {
        Number { whole: integer, fraction }
    })
}

/// Reads `[sign] years - months`.
fn year_month(text: &str) -> Result<i128, Fault> {
    let (negative, body) = sign(text);
    let (years, months) = body.split_once('-').ok_or(Fault::Syntax)?;
    let (years, months) = (whole(years)?, whole(months)?);
    if months >= 12 {
        return Err(Fault::FieldRange);
    }
    let total = years * 12 + months;
    Ok(if negative { -total } else { total })
}

/// Reads `[sign] H:M`, `H:M:S`, `M:S.fraction`; under `minute to second`, two parts are `M:S`.
fn clock(text: &str, fields: i32) -> Result<i128, Fault> {
    let (negative, body) = sign(text);
    let (body, fraction) = match body.split_once('.') {
        Some((body, fraction)) => (body, Some(fraction)),
        None => (body, None),
    };
    // An empty part behind a colon is 0.
    let part = |text: &str| if text.is_empty() { Ok(0) } else { whole(text) };
    let parts = body.split(':').map(part).collect::<Result<Vec<_>, _>>()?;
    let (hours, minutes, seconds) = match parts[..] {
        [minutes, seconds] if fraction.is_some() || fields == range::MINUTE | range::SECOND => {
            (0, minutes, seconds)
        }
        [hours, minutes] => (hours, minutes, 0),
        [hours, minutes, seconds] => (hours, minutes, seconds),
        _ => return Err(Fault::Syntax),
    };
    let micros = fraction.map_or(Some(0), fraction_micros).ok_or(Fault::Syntax)?;
    if minutes > 59 || seconds > 60 {
        return Err(Fault::FieldRange);
    }
    let total = hours * i128::from(MICROS_PER_HOUR)
        + minutes * i128::from(MICROS_PER_MINUTE)
        + seconds * i128::from(MICROS_PER_SECOND)
        + i128::from(micros);
    if total > i64::MAX.into() {
        return Err(Fault::FieldRange);
    }
    Ok(if negative { -total } else { total })
}
