//! The fields of a moment out of tokens, by PostgreSQL's rules for the possible meanings of each
//! token.

use super::tokens::{Token, is_weekday, month_number, tokenize};
use crate::moment::abbreviations::{self, Abbreviated};
use crate::moment::calendar::{
    EPOCH_JULIAN_DAY, MICROS_PER_DAY, MICROS_PER_HOUR, MICROS_PER_MINUTE, MICROS_PER_SECOND,
    days_from_civil, days_in_month,
};
use crate::moment::offset::{Fault, offset};
use crate::moment::zone::TimeZone;
use crate::settings::DateOrder;

/// The moment that a text describes.
#[derive(Debug)]
pub(super) enum Moment {
    Infinity,
    NegativeInfinity,
    /// 1970-01-01 00:00:00 UTC
    Epoch,
    /// The start of the transaction.
    Now,
    Fields(Fields),
}

/// A date, a time of day, and perhaps a zone.
#[derive(Debug)]
pub(super) struct Fields {
    pub(super) day: Day,
    /// Microseconds since midnight; 24:00:00 and a second of 60 are allowed.
    pub(super) time: i64,
    pub(super) zone: Option<Zone>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Day {
    /// Days from the day on which the transaction started, in the session's zone.
    Relative(i64),
    /// Days from 2000-01-01.
    Number(i64),
}

#[derive(Debug)]
pub(super) enum Zone {
    /// Seconds east of Greenwich.
    Offset(i32),
    Named(TimeZone),
}

impl Zone {
    /// Returns the meaning of an abbreviation; `None` for another word.
    pub(super) fn of_abbreviation(word: &str) -> Option<Self> {
        match abbreviations::find(word)? {
            Abbreviated::Always(seconds) => Some(Self::Offset(seconds)),
            Abbreviated::In(_) => TimeZone::of_abbreviation(word).map(Self::Named),
        }
    }
}

/// Reads `text`. Where the text leaves open whether the year leads, `order` decides.
pub(super) fn read_moment(text: &str, order: DateOrder) -> Result<Moment, Fault> {
    if let Some(fields) = read_iso(text.as_bytes()) {
        return Ok(Moment::Fields(fields));
    }
    let tokens = tokenize(text).ok_or(Fault::Syntax)?;
    let mut reader = Reader::new(order);
    for token in tokens {
        reader.take(token)?;
    }
    reader.finish()
}

/// Reads the shape of nearly all input: `YYYY-MM-DD`, then perhaps a time. The time has seconds, a
/// fraction of up to six digits, and `Z` or an offset in hours or hours and minutes. Returns `None`
/// for all other text.
fn read_iso(text: &[u8]) -> Option<Fields> {
    let two = |at: usize| -> Option<u32> {
        let (tens, ones) = (text.get(at)?.wrapping_sub(b'0'), text.get(at + 1)?.wrapping_sub(b'0'));
        (tens < 10 && ones < 10).then(|| u32::from(tens) * 10 + u32::from(ones))
    };
    let is = |at: usize, byte: u8| (*text.get(at)? == byte).then_some(());
    let year = i64::from(two(0)? * 100 + two(2)?);
    is(4, b'-')?;
    let month = two(5)?;
    is(7, b'-')?;
    let day = two(8)?;
    if year == 0 || !(1..=12).contains(&month) || day == 0 || day > days_in_month(year, month) {
        return None;
    }
    let day = Day::Number(days_from_civil(year, month, day));
    if text.len() == 10 {
        return Some(Fields { day, time: 0, zone: None });
    }
    if !matches!(text.get(10)?, b' ' | b'T') {
        return None;
    }
    let (hour, minute, second) = (two(11)?, two(14)?, two(17)?);
    is(13, b':')?;
    is(16, b':')?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let mut time = i64::from(hour * 3600 + minute * 60 + second) * MICROS_PER_SECOND;
    let mut at = 19;
    if text.get(at) == Some(&b'.') {
        let mut unit = MICROS_PER_SECOND / 10;
        at += 1;
        while let Some(digit @ b'0'..=b'9') = text.get(at) {
            if unit == 0 {
                return None;
            }
            time += i64::from(digit - b'0') * unit;
            unit /= 10;
            at += 1;
        }
    }
    let zone = match text.get(at) {
        None => return Some(Fields { day, time, zone: None }),
        Some(b'Z') if text.len() == at + 1 => 0,
        Some(sign @ (b'+' | b'-')) => {
            let hours = two(at + 1)?;
            let minutes = match text.len() - at {
                3 => 0,
                6 => {
                    is(at + 3, b':')?;
                    two(at + 4)?
                }
                _ => return None,
            };
            if hours > 15 || minutes > 59 {
                return None;
            }
            let seconds = (hours * 3600 + minutes * 60) as i32;
            if *sign == b'-' { -seconds } else { seconds }
        }
        Some(_) => return None,
    };
    Some(Fields { day, time, zone: Some(Zone::Offset(zone)) })
}

/// The fields that were read so far.
#[derive(Default)]
pub(super) struct Reader {
    order: DateOrder,
    year: Option<i64>,
    /// The year was given by two digits or fewer.
    short_year: bool,
    month: Option<u32>,
    day: Option<u32>,
    day_of_year: Option<u32>,
    text_month: bool,
    day_number: Option<Day>,
    /// The next number counts days since 4714 BC.
    julian_next: bool,
    pub(super) time: Option<i64>,
    pub(super) afternoon: Option<bool>,
    weekday: bool,
    before_christ: bool,
    pub(super) zone: Option<Zone>,
    special: Option<Moment>,
}

impl Reader {
    pub(super) fn new(order: DateOrder) -> Self {
        Self { order, ..Self::default() }
    }

    /// Decides whether the fields read so far name a day.
    pub(super) fn has_date(&self) -> bool {
        self.day_number.is_some()
            || (self.year.is_some()
                && (self.day_of_year.is_some() || (self.month.is_some() && self.day.is_some())))
    }

    pub(super) fn take(&mut self, token: Token<'_>) -> Result<(), Fault> {
        match token {
            Token::Time(text) => set_once(&mut self.time, clock(text)?),
            Token::TimeMarker => Ok(()),
            Token::Date(text) if self.has_date() => self.take_packed_time(text),
            Token::Date(text) => self.take_date(text),
            Token::Julian(text) => self.take_julian(text),
            Token::Number(text, _) if self.julian_next => self.take_julian(text),
            Token::Number(text, time_marker) => self.take_number(text, time_marker),
            Token::Offset(text) => {
                if self.time.is_none() && !self.has_date() {
                    return Err(Fault::Syntax);
                }
                set_once(&mut self.zone, Zone::Offset(offset(text)?))
            }
            Token::Zone(name) => match TimeZone::get(name) {
                Ok(zone) => set_once(&mut self.zone, Zone::Named(zone)),
                Err(_) => Err(Fault::UnknownZone(name.to_ascii_lowercase())),
            },
            Token::SignedWord(negative, word) => {
                if !negative || !word.eq_ignore_ascii_case("infinity") {
                    return Err(Fault::Syntax);
                }
                set_once(&mut self.special, Moment::NegativeInfinity)
            }
            Token::Word(word) => self.take_word(word),
        }
    }

    fn take_word(&mut self, word: &str) -> Result<(), Fault> {
        if let Some(month) = month_number(word) {
            return self.set_text_month(month);
        }
        if is_weekday(word) {
            self.weekday = true;
            return Ok(());
        }
        match word.to_ascii_lowercase().as_str() {
            "now" => set_once(&mut self.special, Moment::Now),
            "epoch" => set_once(&mut self.special, Moment::Epoch),
            "infinity" => set_once(&mut self.special, Moment::Infinity),
            "today" => set_once(&mut self.day_number, Day::Relative(0)),
            "tomorrow" => set_once(&mut self.day_number, Day::Relative(1)),
            "yesterday" => set_once(&mut self.day_number, Day::Relative(-1)),
            "allballs" => {
                set_once(&mut self.time, 0)?;
                set_once(&mut self.zone, Zone::Offset(0))
            }
            "am" => set_once(&mut self.afternoon, false),
            "pm" => set_once(&mut self.afternoon, true),
            "bc" => {
                self.before_christ = true;
                Ok(())
            }
            "ad" | "at" | "on" | "t" => Ok(()),
            "j" | "jd" | "julian" => {
                self.julian_next = true;
                Ok(())
            }
            // `dst` may follow a zone that was given in standard time.
            "dst" => match &mut self.zone {
                Some(Zone::Offset(seconds)) => {
                    *seconds += 3600;
                    Ok(())
                }
                _ => Err(Fault::Syntax),
            },
            _ => {
                if let Some(zone) = Zone::of_abbreviation(word) {
                    return set_once(&mut self.zone, zone);
                }
                match TimeZone::get(word) {
                    Ok(zone) => set_once(&mut self.zone, Zone::Named(zone)),
                    Err(_) => Err(Fault::Syntax),
                }
            }
        }
    }

    /// Takes a number of days, whose fraction is the time of day.
    fn take_julian(&mut self, text: &str) -> Result<(), Fault> {
        self.julian_next = false;
        let (number, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
        let julian: i32 = number.parse().map_err(|_| Fault::FieldRange)?;
        if !fraction.is_empty() {
            let part: f64 = format!("0{fraction}").parse().map_err(|_| Fault::Syntax)?;
            set_once(&mut self.time, (part * MICROS_PER_DAY as f64) as i64)?;
        }
        set_once(&mut self.day_number, Day::Number(i64::from(julian) - EPOCH_JULIAN_DAY))
    }

    fn set_text_month(&mut self, month: u32) -> Result<(), Fault> {
        // A number before the name was taken for the month and was the day: `8 January`.
        if let (Some(number @ 1..=31), false, None) = (self.month, self.text_month, self.day) {
            self.day = Some(number);
            self.month = None;
        }
        self.text_month = true;
        set_once(&mut self.month, month)
    }

    /// Takes the fields between delimiters.
    pub(super) fn take_date(&mut self, text: &str) -> Result<(), Fault> {
        let fields = || text.split(['-', '/', '.']);
        // A month by name decides what the numbers may be, so the name goes first.
        for field in fields().filter(|field| field.starts_with(|c: char| c.is_alphabetic())) {
            self.set_text_month(month_number(field).ok_or(Fault::Syntax)?)?;
        }
        for field in fields().filter(|field| field.starts_with(|c: char| c.is_ascii_digit())) {
            self.take_field(field)?;
        }
        // PostgreSQL takes a weekday before a date in words only.
        if self.has_date() && !self.weekday { Ok(()) } else { Err(Fault::Syntax) }
    }

    /// Takes a packed time and its offset, which look like a date: `040506-08`.
    fn take_packed_time(&mut self, text: &str) -> Result<(), Fault> {
        let minus = text.find('-').ok_or(Fault::Syntax)?;
        let (digits, zone) = text.split_at(minus);
        if zone[1..].contains(|c: char| !c.is_ascii_digit()) {
            return Err(Fault::Syntax);
        }
        set_once(&mut self.zone, Zone::Offset(offset(zone)?))?;
        set_once(&mut self.time, packed_clock(digits, None)?)
    }

    /// Takes one number that is a year, a month or a day.
    fn take_field(&mut self, digits: &str) -> Result<(), Fault> {
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Fault::Syntax);
        }
        let value: u32 = digits.parse().map_err(|_| Fault::FieldRange)?;
        let long = digits.len() >= 3;
        let year_first = self.order == DateOrder::YearMonthDay;
        match (self.year.is_some(), self.month.is_some(), self.day.is_some()) {
            (true, false, false) if digits.len() == 3 && (1..=366).contains(&value) => {
                return set_once(&mut self.day_of_year, value);
            }
            (false, false, false) if long || year_first => self.set_year(digits, value),
            (false, false, false) if self.order == DateOrder::DayMonthYear => {
                self.day = Some(value);
            }
            (false, false, false) => self.month = Some(value),
            (true, false, false | true) | (false, false, true) => {
                self.month = Some(value);
            }
            (false, true, false) if self.text_month && (long || year_first) => {
                self.set_year(digits, value);
            }
            (false, true, false) => self.day = Some(value),
            (true, true, false) if self.text_month && long && self.short_year => {
                // The number taken for a short year was the day.
                self.day = self.year.and_then(|year| u32::try_from(year).ok());
                self.set_year(digits, value);
            }
            (true, true, false) => self.day = Some(value),
            (false, true, true) => self.set_year(digits, value),
            (true, true, true) => return Err(Fault::Syntax),
        }
        Ok(())
    }

    fn set_year(&mut self, digits: &str, value: u32) {
        self.year = Some(value.into());
        self.short_year = digits.len() <= 2;
    }

    /// Takes a number without delimiters: a part of a date, a whole date, or a time.
    fn take_number(&mut self, text: &str, time_marker: bool) -> Result<(), Fault> {
        let (digits, fraction) = match text.split_once('.') {
            Some((digits, fraction)) => (digits, Some(fraction)),
            None => (text, None),
        };
        if time_marker || (self.has_date() && self.time.is_none()) {
            return set_once(&mut self.time, packed_clock(digits, fraction)?);
        }
        let any_field = self.year.is_some() || self.month.is_some() || self.day.is_some();
        match fraction {
            // `1999.008`: a year and the day of that year.
            Some(fraction) if digits.len() == 4 && fraction.len() == 3 => {
                self.take_field(digits)?;
                self.take_field(fraction)
            }
            Some(_) => Err(Fault::Syntax),
            // Beside other fields of a date, a number this long is a year only if the time of day
            // came before.
            None if digits.len() >= 6 && any_field && self.time.is_none() => Err(Fault::Syntax),
            None if digits.len() >= 6 && !any_field && !self.has_date() => {
                let (rest, day) = digits.split_at(digits.len() - 2);
                let (year, month) = rest.split_at(rest.len() - 2);
                let number = |text: &str| text.parse::<u32>().map_err(|_| Fault::FieldRange);
                self.set_year(year, number(year)?);
                self.month = Some(number(month)?);
                self.day = Some(number(day)?);
                Ok(())
            }
            None if self.has_date() => Err(Fault::Syntax),
            None => self.take_field(digits),
        }
    }

    fn finish(self) -> Result<Moment, Fault> {
        if self.julian_next {
            return Err(Fault::Syntax);
        }
        if let Some(special) = self.special {
            let alone = self.year.is_none() && self.day_number.is_none() && self.time.is_none();
            return if alone { Ok(special) } else { Err(Fault::Syntax) };
        }
        let day = match self.day_number {
            Some(day) => day,
            None => Day::Number(self.calendar_day()?),
        };
        let mut time = self.time.unwrap_or(0);
        if let Some(afternoon) = self.afternoon {
            let hour = time / MICROS_PER_HOUR;
            if self.time.is_none() || hour > 12 {
                return Err(Fault::FieldRange);
            }
            if afternoon && hour != 12 {
                time += 12 * MICROS_PER_HOUR;
            } else if !afternoon && hour == 12 {
                time -= 12 * MICROS_PER_HOUR;
            }
        }
        Ok(Moment::Fields(Fields { day, time, zone: self.zone }))
    }

    /// Returns the day, counted from 2000-01-01, if the text names one of the calendar or by its
    /// number.
    pub(super) fn day(&self) -> Result<i64, Fault> {
        match self.day_number {
            Some(Day::Number(day)) => Ok(day),
            Some(Day::Relative(_)) => Err(Fault::Syntax),
            None => self.calendar_day(),
        }
    }

    fn calendar_day(&self) -> Result<i64, Fault> {
        let year = self.year.ok_or(Fault::Syntax)?;
        let year = if self.before_christ {
            if year == 0 {
                return Err(Fault::FieldRange);
            }
            1 - year
        } else if self.short_year {
            // Two digits mean the years around 2000.
            if year < 70 { year + 2000 } else { year + 1900 }
        } else if year == 0 {
            return Err(Fault::FieldRange);
        } else {
            year
        };
        if let Some(day_of_year) = self.day_of_year {
            return Ok(days_from_civil(year, 1, 1) + i64::from(day_of_year) - 1);
        }
        let (Some(month), Some(day)) = (self.month, self.day) else { return Err(Fault::Syntax) };
        if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
            return Err(Fault::MonthOrDay);
        }
        if day > days_in_month(year, month) {
            return Err(Fault::FieldRange);
        }
        Ok(days_from_civil(year, month, day))
    }
}

/// Sets a field that the text must not give twice.
pub(super) fn set_once<T>(place: &mut Option<T>, value: T) -> Result<(), Fault> {
    if place.is_some() {
        return Err(Fault::Syntax);
    }
    *place = Some(value);
    Ok(())
}

/// Returns the microseconds since midnight of `HH:MM`, `HH:MM:SS` with an optional fraction, or
/// `MM:SS` with one. An empty part behind a colon is 0.
pub(super) fn clock(text: &str) -> Result<i64, Fault> {
    let (whole, fraction) = match text.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (text, None),
    };
    let mut parts = whole.split(':');
    let mut part = || -> Result<Option<i64>, Fault> {
        match parts.next() {
            None => Ok(None),
            Some("") => Ok(Some(0)),
            Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => {
                digits.parse().map(Some).map_err(|_| Fault::FieldRange)
            }
            Some(_) => Err(Fault::Syntax),
        }
    };
    let first = part()?.ok_or(Fault::Syntax)?;
    let second = part()?.ok_or(Fault::Syntax)?;
    let third = part()?;
    if whole.starts_with(':') || parts.next().is_some() {
        return Err(Fault::Syntax);
    }
    match third {
        None if fraction.is_some() => time_of_day(0, first, second, fraction),
        third => time_of_day(first, second, third.unwrap_or(0), fraction),
    }
}

/// Returns the microseconds since midnight of `HHMMSS` or `HHMM`.
pub(super) fn packed_clock(digits: &str, fraction: Option<&str>) -> Result<i64, Fault> {
    let number = |range: std::ops::Range<usize>| -> Result<i64, Fault> {
        digits.get(range).and_then(|text| text.parse().ok()).ok_or(Fault::Syntax)
    };
    match digits.len() {
        6 => time_of_day(number(0..2)?, number(2..4)?, number(4..6)?, fraction),
        4 => time_of_day(number(0..2)?, number(2..4)?, 0, fraction),
        _ => Err(Fault::Syntax),
    }
}

fn time_of_day(hour: i64, minute: i64, second: i64, fraction: Option<&str>) -> Result<i64, Fault> {
    let micros = match fraction {
        None | Some("") => 0,
        Some(digits) => fraction_micros(digits).ok_or(Fault::Syntax)?,
    };
    let beyond_midnight = hour == 24 && (minute > 0 || second > 0 || micros > 0);
    if hour > 24 || minute > 59 || second > 60 || beyond_midnight {
        return Err(Fault::FieldRange);
    }
    Ok(hour * MICROS_PER_HOUR + minute * MICROS_PER_MINUTE + second * MICROS_PER_SECOND + micros)
}

/// Returns a fraction of a second, rounded to microseconds.
pub(super) fn fraction_micros(digits: &str) -> Option<i64> {
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let fraction: f64 = format!("0.{digits}").parse().ok()?;
    Some((fraction * 1e6).round_ties_even() as i64)
}
