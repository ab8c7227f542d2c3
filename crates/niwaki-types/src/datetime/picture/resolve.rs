//! The moment that the numbers read for a picture's patterns mean: a date, a time of day, an
//! offset.

use super::{Convention, iso_year_start};
use crate::error::{Result, TypeError};
use crate::moment::calendar::{
    EPOCH_JULIAN_DAY, MICROS_PER_HOUR, MICROS_PER_MINUTE, MICROS_PER_SECOND, civil_from_days,
    days_in_month, is_leap,
};

/// The fields that a text gave.
pub(super) struct Found {
    /// 0 is 1 BC.
    pub(super) year: i64,
    pub(super) month: u32,
    /// The day; it may lie behind the end of its month where the text names no year.
    pub(super) day: u32,
    /// Microseconds of the day.
    pub(super) time: i64,
    /// Seconds east of Greenwich.
    pub(super) offset: Option<i64>,
    pub(super) fraction_digits: i32,
}

/// Numbers as the text gave them; 0 means none.
#[derive(Default)]
pub(super) struct Numbers {
    pub(super) convention: Option<Convention>,
    pub(super) twelve_hours: bool,
    pub(super) afternoon: i32,
    pub(super) hour: i32,
    pub(super) minute: i32,
    pub(super) second: i32,
    pub(super) second_of_day: i32,
    pub(super) milliseconds: i32,
    pub(super) microseconds: i32,
    pub(super) fraction_digits: i32,
    pub(super) before_christ: i32,
    pub(super) century: i32,
    pub(super) year: i32,
    /// Number of digits of the pattern that gave the year.
    pub(super) year_digits: usize,
    pub(super) month: i32,
    pub(super) week: i32,
    pub(super) week_of_month: i32,
    pub(super) day: i32,
    pub(super) day_of_year: i32,
    /// 1 for Sunday.
    pub(super) weekday: i32,
    pub(super) julian: i32,
    /// 1 or -1 when there is an offset.
    pub(super) offset_sign: i32,
    pub(super) offset_hours: i32,
    pub(super) offset_minutes: i32,
}

/// A date while its parts are put together, with flags for the known parts.
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
    /// # Errors
    /// `22007`, `22008`, `22009`: the numbers are none of a date or time of day.
    pub(super) fn resolve(&self, text: &str) -> Result<Found> {
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

    /// Returns the microseconds of the day; `None` when a part is out of range.
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
                // Without a weekday, the day is the Monday.
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

    /// Returns the year that the numbers for year, century and era give; 0 is 1 BC.
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
