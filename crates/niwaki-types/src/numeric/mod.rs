//! PostgreSQL's `numeric`: an exact decimal number of any size that remembers its display scale.
//!
//! A finite value is an integer coefficient divided by ten to the power of its scale. Coefficients
//! that fit 127 bits, which is nearly all there are, live in an `i128`, and larger ones in a big
//! integer. PostgreSQL counts in base 10000 instead. Where its scale rules show that (division,
//! roots), the base-10000 weight is computed from the decimal digits.
//!
//! The order: the number and its order, in this file, arithmetic (`arithmetic`, `whole`,
//! `functions`), other forms (`convert`, `numeric_text`, `binary`), and pictures (`picture`).

mod arithmetic;
mod binary;
mod convert;
mod functions;
mod numeric_text;
mod picture;
#[cfg(test)]
pub(crate) mod tests;
mod whole;

pub use convert::{numeric_precision_scale, numeric_typmod};
pub use picture::{
    float4_to_char, float8_to_char, int4_to_char, int8_to_char, numeric_to_char, to_number,
};
pub use whole::Spread;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use num_bigint::{BigInt, Sign};

use crate::error::{Result, TypeError};
use crate::work;

/// Most digits after the decimal point.
pub(crate) const SCALE_MAX: u32 = 16383;
/// Most digits before the decimal point.
pub(crate) const INTEGER_DIGITS_MAX: u32 = 131_072;
/// Largest precision a typmod can name; also the largest scale a division chooses by itself.
pub(crate) const PRECISION_MAX: i32 = 1000;
/// Number of digits that a hash depends on; fewer than fit 127 bits.
const HASHED_DIGITS: u32 = 30;
/// Least number of significant digits that inexact operations deliver.
const SIGNIFICANT_DIGITS_MIN: i32 = 16;

/// `numeric`
#[derive(Clone, Debug)]
pub struct Numeric(Repr);

#[derive(Clone, Debug)]
enum Repr {
    /// Coefficient and scale.
    Small(i128, u16),
    /// A coefficient outside `i128`. Smaller ones are never here, so every value has one form per
    /// scale.
    Big(Box<BigInt>, u16),
    NegativeInfinity,
    Infinity,
    NaN,
}

/// Powers of ten that fit `i128`.
const POWERS: [i128; 39] = {
    let mut powers = [1i128; 39];
    let mut i = 1;
    while i < 39 {
        powers[i] = powers[i - 1] * 10;
        i += 1;
    }
    powers
};

/// Returns ten to the power of `exponent` as `i128` if it fits.
#[inline]
fn small_power(exponent: u32) -> Option<i128> {
    POWERS.get(usize::try_from(exponent).ok()?).copied()
}

/// Returns ten to the power of `exponent`.
fn big_power(exponent: u32) -> BigInt {
    match small_power(exponent) {
        Some(power) => BigInt::from(power),
        None => BigInt::from(10).pow(exponent),
    }
}

/// Returns the count of decimal digits of a magnitude; zero has none.
fn small_digits(magnitude: u128) -> u32 {
    if magnitude == 0 { 0 } else { magnitude.ilog10() + 1 }
}

/// Returns the least and greatest count of decimal digits of a number with `bits` bits, at least
/// one.
fn digits_between(bits: u64) -> (u32, u32) {
    // 0.301029995 < log10(2) < 0.301029996
    let digits = |bits: u64, log: u64| bits.saturating_mul(log) / 1_000_000_000 + 1;
    let (least, most) = (digits(bits - 1, 301_029_995), digits(bits, 301_029_996));
    let count = |digits: u64| u32::try_from(digits).unwrap_or(u32::MAX);
    (count(least), count(most))
}

/// Returns the count of decimal digits of `value` without its sign; zero has none.
fn big_digits(value: &BigInt) -> u32 {
    if value.sign() == Sign::NoSign {
        return 0;
    }
    let (mut digits, most) = digits_between(value.bits());
    // Ends: the bounds are one apart, or two. A power that long takes milliseconds.
    while digits < most && value.magnitude() >= big_power(digits).magnitude() {
        digits += 1;
    }
    digits
}

/// Counts the work of a product or a quotient: as many steps as pairs of words.
fn count_pairs(a: &BigInt, b: &BigInt) -> Result<()> {
    let words = |value: &BigInt| usize::try_from(value.bits() / 64).unwrap_or(usize::MAX);
    work::tick(words(a).saturating_mul(words(b)))
}

impl Numeric {
    /// Zero with scale 0.
    pub const ZERO: Self = Self(Repr::Small(0, 0));
    /// `NaN`
    pub const NAN: Self = Self(Repr::NaN);
    /// `Infinity`
    pub const INFINITY: Self = Self(Repr::Infinity);
    /// `-Infinity`
    pub const NEGATIVE_INFINITY: Self = Self(Repr::NegativeInfinity);

    /// Returns `coefficient` divided by ten to the power of `scale`.
    ///
    /// # Panics
    /// If `scale` exceeds 16383.
    pub const fn new(coefficient: i128, scale: u16) -> Self {
        assert!(scale as u32 <= SCALE_MAX, "scale of a numeric");
        Self(Repr::Small(coefficient, scale))
    }

    /// Decides whether the values and their scales are the same, which is more than being equal.
    pub fn same_image(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Repr::Small(a, scale), Repr::Small(b, other)) => (a, scale) == (b, other),
            (Repr::Big(a, scale), Repr::Big(b, other)) => (a, scale) == (b, other),
            (Repr::NegativeInfinity, Repr::NegativeInfinity)
            | (Repr::Infinity, Repr::Infinity)
            | (Repr::NaN, Repr::NaN) => true,
            _ => false,
        }
    }

    /// Returns the coefficient and scale, if the coefficient fits.
    #[inline]
    pub fn small_parts(&self) -> Option<(i64, u16)> {
        match self.0 {
            Repr::Small(coefficient, scale) => Some((i64::try_from(coefficient).ok()?, scale)),
            _ => None,
        }
    }

    /// Makes a value of a big coefficient, in its smallest form, within PostgreSQL's limits. Counts
    /// work.
    ///
    /// # Errors
    /// `22003` when there are too many digits before or after the decimal point. Also the errors
    /// that end the statement.
    fn from_parts(coefficient: BigInt, scale: u32) -> Result<Self> {
        Self::within_limits(coefficient, scale)?.counted()
    }

    /// Makes the same without counting work, so that only too many digits are an error. For callers
    /// that take an error for damage, or drop it.
    fn within_limits(coefficient: BigInt, scale: u32) -> Result<Self> {
        let scale = checked_scale(scale)?;
        if let Ok(small) = i128::try_from(&coefficient) {
            Ok(Self(Repr::Small(small, scale)))
        } else {
            let most = INTEGER_DIGITS_MAX + u32::from(scale);
            // A value that was just read is far from the limit nearly always.
            if digits_between(coefficient.bits()).1 > most && big_digits(&coefficient) > most {
                return Err(overflow());
            }
            Ok(Self(Repr::Big(Box::new(coefficient), scale)))
        }
    }

    /// Returns the value itself, once its bytes are counted as work.
    fn counted(self) -> Result<Self> {
        if let Repr::Big(value, _) = &self.0 {
            work::tick(usize::try_from(value.bits() / 8).unwrap_or(usize::MAX))?;
        }
        Ok(self)
    }

    /// Returns the digits shown after the decimal point; 0 for the special values.
    pub fn scale(&self) -> u16 {
        match self.0 {
            Repr::Small(_, scale) | Repr::Big(_, scale) => scale,
            _ => 0,
        }
    }

    /// Decides whether this is `NaN`.
    pub fn is_nan(&self) -> bool {
        matches!(self.0, Repr::NaN)
    }

    /// Decides whether this is `Infinity` or `-Infinity`.
    pub fn is_infinite(&self) -> bool {
        matches!(self.0, Repr::Infinity | Repr::NegativeInfinity)
    }

    /// Decides whether this is a number: neither `NaN` nor infinite.
    pub fn is_finite(&self) -> bool {
        matches!(self.0, Repr::Small(..) | Repr::Big(..))
    }

    /// Decides whether this is zero.
    pub fn is_zero(&self) -> bool {
        matches!(self.0, Repr::Small(0, _))
    }

    /// Decides whether this is below zero; false for `NaN`.
    pub fn is_negative(&self) -> bool {
        match &self.0 {
            Repr::Small(value, _) => *value < 0,
            Repr::Big(value, _) => value.sign() == Sign::Minus,
            Repr::NegativeInfinity => true,
            Repr::Infinity | Repr::NaN => false,
        }
    }

    /// Returns the coefficient and the scale of a finite value.
    fn parts(&self) -> Option<(Cow<'_, BigInt>, u32)> {
        match &self.0 {
            Repr::Small(value, scale) => Some((Cow::Owned(BigInt::from(*value)), (*scale).into())),
            Repr::Big(value, scale) => Some((Cow::Borrowed(value), (*scale).into())),
            _ => None,
        }
    }

    /// Returns the decimal digits of the coefficient; zero has none.
    fn digits(&self) -> u32 {
        match &self.0 {
            Repr::Small(value, _) => small_digits(value.unsigned_abs()),
            Repr::Big(value, _) => big_digits(value),
            _ => 0,
        }
    }

    /// Returns the power of ten of the first significant digit; `None` for zero and the special
    /// values.
    pub(crate) fn leading_exponent(&self) -> Option<i32> {
        let digits = self.digits();
        (digits > 0).then(|| digits as i32 - 1 - i32::from(self.scale()))
    }

    /// Returns the rank of special values: below (-1), among (0) or above (1, 2) the numbers.
    fn rank(&self) -> i8 {
        match self.0 {
            Repr::NegativeInfinity => -1,
            Repr::Small(..) | Repr::Big(..) => 0,
            Repr::Infinity => 1,
            Repr::NaN => 2,
        }
    }
}

/// Returns the error `22003` for a result with too many digits.
#[cold]
fn overflow() -> TypeError {
    TypeError::new("22003", "value overflows numeric format")
}

fn checked_scale(scale: u32) -> Result<u16> {
    if scale > SCALE_MAX {
        return Err(overflow());
    }
    u16::try_from(scale).map_err(|_| overflow())
}

/// Divides rounding half away from zero; `divisor` is positive.
fn divide_rounded(dividend: &BigInt, divisor: &BigInt) -> BigInt {
    let quotient = dividend / divisor;
    let remainder = dividend - &quotient * divisor;
    let twice = remainder.magnitude() * 2u32;
    if twice < *divisor.magnitude() {
        quotient
    } else if dividend.sign() == Sign::Minus {
        quotient - 1
    } else {
        quotient + 1
    }
}

/// Does [`divide_rounded`] on numbers that fit `i128`.
fn divide_rounded_small(dividend: i128, divisor: i128) -> i128 {
    let quotient = dividend / divisor;
    let remainder = (dividend % divisor).unsigned_abs();
    // remainder >= divisor - remainder says "at least half" without overflow.
    if remainder >= divisor.unsigned_abs() - remainder && remainder != 0 {
        if dividend < 0 { quotient - 1 } else { quotient + 1 }
    } else {
        quotient
    }
}

impl Ord for Numeric {
    /// Compares in PostgreSQL's order: `-Infinity`, numbers by value, `Infinity`, `NaN`.
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            (Repr::Small(a, scale_a), Repr::Small(b, scale_b)) => {
                compare_small(*a, *scale_a, *b, *scale_b)
            }
            _ => self.rank().cmp(&other.rank()).then_with(|| self.compare_big(other)),
        }
    }
}

fn compare_small(a: i128, scale_a: u16, b: i128, scale_b: u16) -> Ordering {
    if scale_a == scale_b {
        return a.cmp(&b);
    }
    if a.signum() != b.signum() {
        return a.cmp(&b);
    }
    let difference = u32::from(scale_a.abs_diff(scale_b));
    let power = small_power(difference);
    if scale_a < scale_b {
        match power.and_then(|power| a.checked_mul(power)) {
            Some(a) => a.cmp(&b),
            // At the larger scale `a` does not fit: it is further from zero than `b`, unless it is
            // zero.
            None => a.cmp(&0),
        }
    } else {
        match power.and_then(|power| b.checked_mul(power)) {
            Some(b) => a.cmp(&b),
            None => 0.cmp(&b),
        }
    }
}

impl Numeric {
    fn compare_big(&self, other: &Self) -> Ordering {
        let (Some((a, scale_a)), Some((b, scale_b))) = (self.parts(), other.parts()) else {
            return Ordering::Equal;
        };
        if a.sign() != b.sign() {
            return a.sign().cmp(&b.sign());
        }
        if scale_a == scale_b || a.sign() == Sign::NoSign {
            return a.as_ref().cmp(b.as_ref());
        }
        // Numbers of different magnitude need no multiplication.
        let exponents = |value: &BigInt, scale: u32| {
            let (least, most) = digits_between(value.bits());
            (i64::from(least) - i64::from(scale), i64::from(most) - i64::from(scale))
        };
        let (least_a, most_a) = exponents(a.as_ref(), scale_a);
        let (least_b, most_b) = exponents(b.as_ref(), scale_b);
        if most_a < least_b || most_b < least_a {
            let by_exponent = least_a.cmp(&least_b);
            return if a.sign() == Sign::Minus { by_exponent.reverse() } else { by_exponent };
        }
        match scale_a.cmp(&scale_b) {
            Ordering::Equal => a.as_ref().cmp(b.as_ref()),
            Ordering::Less => (a.as_ref() * big_power(scale_b - scale_a)).cmp(b.as_ref()),
            Ordering::Greater => a.as_ref().cmp(&(b.as_ref() * big_power(scale_a - scale_b))),
        }
    }
}

impl PartialOrd for Numeric {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Numeric {
    /// Compares by SQL equality: `1.0 = 1.00`, `NaN = NaN`.
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Numeric {}

impl Hash for Numeric {
    /// Hashes equal values alike whatever their scale. The hashed parts are the exponent of the
    /// first digit and the first 30 digits without trailing zeros.
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_i8(self.rank());
        state.write_u8(self.is_negative().into());
        state.write_i32(self.leading_exponent().unwrap_or(0));
        let excess = self.digits().saturating_sub(HASHED_DIGITS);
        let mut leading = match &self.0 {
            Repr::Small(value, _) => {
                value.unsigned_abs() / small_power(excess).map_or(1, i128::unsigned_abs)
            }
            Repr::Big(value, _) => {
                let leading = value.as_ref() / big_power(excess);
                u128::try_from(leading.magnitude()).unwrap_or(0)
            }
            _ => 0,
        };
        while leading != 0 && leading % 10 == 0 {
            leading /= 10;
        }
        state.write_u128(leading);
    }
}
