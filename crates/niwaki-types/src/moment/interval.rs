//! `interval`: months, days and microseconds, kept apart because neither a month nor a day has a
//! fixed length.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use super::calendar::{
    MICROS_PER_DAY, MICROS_PER_HOUR, MICROS_PER_MINUTE, MICROS_PER_SECOND, round_micros,
};
use crate::error::{Result, TypeError};

/// `interval`: months, days, microseconds
#[derive(Clone, Copy, Debug, Default)]
pub struct Interval {
    /// months
    pub months: i32,
    /// days
    pub days: i32,
    /// microseconds
    pub micros: i64,
}

/// Bits of the field range in an interval's typmod.
pub(crate) mod range {
    pub(crate) const MONTH: i32 = 1 << 1;
    pub(crate) const YEAR: i32 = 1 << 2;
    pub(crate) const DAY: i32 = 1 << 3;
    pub(crate) const HOUR: i32 = 1 << 10;
    pub(crate) const MINUTE: i32 = 1 << 11;
    pub(crate) const SECOND: i32 = 1 << 12;
    pub(crate) const FULL: i32 = 0x7fff;

    /// Returns the range of a typmod; -1 has the full one.
    pub(crate) fn of(typmod: i32) -> i32 {
        if typmod < 0 { FULL } else { typmod >> 16 & FULL }
    }
}

impl Interval {
    /// Makes an interval of its three parts.
    pub const fn new(months: i32, days: i32, micros: i64) -> Self {
        Self { months, days, micros }
    }

    /// Returns the number that intervals are compared by: microseconds, with 30 days a month and 24
    /// hours a day.
    #[inline]
    pub fn comparable(&self) -> i128 {
        let days = i128::from(self.months) * 30 + i128::from(self.days);
        days * i128::from(MICROS_PER_DAY) + i128::from(self.micros)
    }

    /// Decides whether the parts are the same, which is more than being equal: `1 day` equals
    /// `24:00`.
    pub fn same_image(&self, other: &Self) -> bool {
        (self.months, self.days, self.micros) == (other.months, other.days, other.micros)
    }

    /// Returns the sum, part by part.
    ///
    /// # Errors
    /// `22008`
    pub fn checked_add(&self, other: &Self) -> Result<Self> {
        let sum = || {
            Some(Self {
                months: self.months.checked_add(other.months)?,
                days: self.days.checked_add(other.days)?,
                micros: self.micros.checked_add(other.micros)?,
            })
        };
        sum().ok_or_else(out_of_range)
    }

    /// Returns the difference, part by part.
    ///
    /// # Errors
    /// `22008`
    pub fn checked_sub(&self, other: &Self) -> Result<Self> {
        let difference = || {
            Some(Self {
                months: self.months.checked_sub(other.months)?,
                days: self.days.checked_sub(other.days)?,
                micros: self.micros.checked_sub(other.micros)?,
            })
        };
        difference().ok_or_else(out_of_range)
    }

    /// Returns the interval with every part negated.
    ///
    /// # Errors
    /// `22008`
    pub fn checked_neg(&self) -> Result<Self> {
        Self::default().checked_sub(self)
    }

    /// Returns the product with a number: fractions of months become days, of days microseconds.
    ///
    /// # Errors
    /// `22008` when a part does not fit, or the factor is not a number.
    pub fn multiply(&self, factor: f64) -> Result<Self> {
        self.scale(|part| part * factor)
    }

    /// Returns the quotient by a number, as [`Interval::multiply`].
    ///
    /// # Errors
    /// `22012` by zero, `22008` when a part does not fit.
    pub fn divide(&self, divisor: f64) -> Result<Self> {
        if divisor == 0.0 {
            return Err(TypeError::division_by_zero());
        }
        self.scale(|part| part / divisor)
    }

    fn scale(&self, operate: impl Fn(f64) -> f64) -> Result<Self> {
        let months = whole_i32(operate(self.months.into()))?;
        let days = whole_i32(operate(self.days.into()))?;
        // Fractions of a month become days, a thirtieth of a month each; the remaining fraction of
        // a day becomes time. Rounding to microseconds in between keeps binary fractions from
        // growing into whole units.
        let month_rest = operate(self.months.into()) - f64::from(months);
        let month_days = round_to_micros(month_rest * 30.0);
        let day_rest =
            operate(self.days.into()) - f64::from(days) + month_days - month_days.trunc();
        let mut seconds = round_to_micros(day_rest * 86_400.0);
        let mut days = days;
        if seconds.abs() >= 86_400.0 {
            let extra = (seconds / 86_400.0).trunc();
            days = days.checked_add(extra as i32).ok_or_else(out_of_range)?;
            seconds -= extra * 86_400.0;
        }
        let days = days.checked_add(month_days as i32).ok_or_else(out_of_range)?;
        let micros = (operate(self.micros as f64) + seconds * 1e6).round_ties_even();
        let limit = f64::powi(2.0, 63);
        if !(-limit..limit).contains(&micros) {
            return Err(out_of_range());
        }
        Ok(Self { months, days, micros: micros as i64 })
    }

    /// Moves each 24 hours of the time part to days: `justify_hours`.
    ///
    /// # Errors
    /// `22008`
    pub fn justify_hours(&self) -> Result<Self> {
        let whole = self.micros / MICROS_PER_DAY;
        let mut micros = self.micros % MICROS_PER_DAY;
        let mut days = i64::from(self.days).checked_add(whole).ok_or_else(out_of_range)?;
        if days > 0 && micros < 0 {
            micros += MICROS_PER_DAY;
            days -= 1;
        } else if days < 0 && micros > 0 {
            micros -= MICROS_PER_DAY;
            days += 1;
        }
        let days = i32::try_from(days).map_err(|_| out_of_range())?;
        Ok(Self { months: self.months, days, micros })
    }

    /// Moves each 30 days to months: `justify_days`.
    ///
    /// # Errors
    /// `22008`
    pub fn justify_days(&self) -> Result<Self> {
        let mut months = i64::from(self.months) + i64::from(self.days / 30);
        let mut days = self.days % 30;
        if months > 0 && days < 0 {
            days += 30;
            months -= 1;
        } else if months < 0 && days > 0 {
            days -= 30;
            months += 1;
        }
        let months = i32::try_from(months).map_err(|_| out_of_range())?;
        Ok(Self { months, days, micros: self.micros })
    }

    /// Moves hours to days and days to months, and gives all parts one sign: `justify_interval`.
    ///
    /// # Errors
    /// `22008`
    pub fn justify_interval(&self) -> Result<Self> {
        let mut days = i64::from(self.days) + self.micros / MICROS_PER_DAY;
        let mut micros = self.micros % MICROS_PER_DAY;
        let mut months = i64::from(self.months) + days / 30;
        days %= 30;
        if months > 0 && (days < 0 || (days == 0 && micros < 0)) {
            days += 30;
            months -= 1;
        } else if months < 0 && (days > 0 || (days == 0 && micros > 0)) {
            days -= 30;
            months += 1;
        }
        if days > 0 && micros < 0 {
            micros += MICROS_PER_DAY;
            days -= 1;
        } else if days < 0 && micros > 0 {
            micros -= MICROS_PER_DAY;
            days += 1;
        }
        let months = i32::try_from(months).map_err(|_| out_of_range())?;
        let days = i32::try_from(days).map_err(|_| out_of_range())?;
        Ok(Self { months, days, micros })
    }

    /// Cuts the value to the fields of a typmod, and rounds it to the typmod's precision.
    ///
    /// # Errors
    /// `22008`
    pub fn apply_typmod(&self, typmod: i32) -> Result<Self> {
        use range::{DAY, HOUR, MINUTE, MONTH, YEAR};
        if typmod < 0 {
            return Ok(*self);
        }
        let mut value = *self;
        let fields = range::of(typmod);
        if fields == YEAR {
            value = Self::new(value.months / 12 * 12, 0, 0);
        } else if fields == MONTH || fields == YEAR | MONTH {
            value = Self::new(value.months, 0, 0);
        } else if fields == DAY {
            value.micros = 0;
        } else if fields == HOUR || fields == DAY | HOUR {
            value.micros -= value.micros % MICROS_PER_HOUR;
        } else if fields == MINUTE || fields == HOUR | MINUTE || fields == DAY | HOUR | MINUTE {
            value.micros -= value.micros % MICROS_PER_MINUTE;
        }
        let precision = typmod & 0xffff;
        if precision < 6 {
            value.micros = round_micros(value.micros, precision.unsigned_abs());
        }
        Ok(value)
    }

    /// Returns hours, minutes and microseconds of the minute of the time part, with its sign.
    pub(crate) fn clock(&self) -> (i64, i64, i64) {
        (
            self.micros / MICROS_PER_HOUR,
            self.micros / MICROS_PER_MINUTE % 60,
            self.micros % (60 * MICROS_PER_SECOND),
        )
    }
}

fn whole_i32(value: f64) -> Result<i32> {
    if value.is_nan() || !(-2_147_483_648.0..2_147_483_648.0).contains(&value) {
        return Err(out_of_range());
    }
    Ok(value as i32)
}

fn round_to_micros(value: f64) -> f64 {
    (value * 1e6).round_ties_even() / 1e6
}

#[cold]
pub(crate) fn out_of_range() -> TypeError {
    TypeError::new("22008", "interval out of range")
}

impl Ord for Interval {
    fn cmp(&self, other: &Self) -> Ordering {
        self.comparable().cmp(&other.comparable())
    }
}

impl PartialOrd for Interval {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Interval {
    /// Compares by SQL equality.
    fn eq(&self, other: &Self) -> bool {
        self.comparable() == other.comparable()
    }
}

impl Eq for Interval {}

impl Hash for Interval {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_i128(self.comparable());
    }
}
