//! Exact arithmetic on `numeric` with PostgreSQL's rules for the scale of the result.

use num_bigint::{BigInt, Sign};

use super::{
    Numeric, PRECISION_MAX, Repr, SCALE_MAX, SIGNIFICANT_DIGITS_MIN, big_power, count_pairs,
    divide_rounded, divide_rounded_small, small_power,
};
use crate::error::{Result, TypeError};

/// Bound of the digits before the decimal point: one more than a number can have. Rounding there
/// leaves nothing.
const WHOLE_DIGITS_END: i32 = 131_073;

/// Limits a scale to round to: no farther than numbers have digits.
fn useful(scale: i32) -> i32 {
    scale.clamp(-WHOLE_DIGITS_END, SCALE_MAX as i32)
}

impl Numeric {
    /// Returns the sum; its scale is the larger of the two.
    ///
    /// # Errors
    /// `22003` when the result has too many digits.
    pub fn add(&self, other: &Self) -> Result<Self> {
        if let (Repr::Small(a, scale_a), Repr::Small(b, scale_b)) = (&self.0, &other.0)
            && let Some(sum) =
                aligned(*a, *scale_a, *b, *scale_b).and_then(|(a, b)| a.checked_add(b))
        {
            return Ok(Self(Repr::Small(sum, (*scale_a).max(*scale_b))));
        }
        match (self.parts(), other.parts()) {
            (Some((a, scale_a)), Some((b, scale_b))) => {
                let scale = scale_a.max(scale_b);
                let a = a.as_ref() * big_power(scale - scale_a);
                let b = b.as_ref() * big_power(scale - scale_b);
                Self::from_parts(a + b, scale)
            }
            _ => Ok(match (&self.0, &other.0) {
                (Repr::NaN, _) | (_, Repr::NaN) => Self::NAN,
                (Repr::Infinity, Repr::NegativeInfinity)
                | (Repr::NegativeInfinity, Repr::Infinity) => Self::NAN,
                (Repr::Infinity, _) | (_, Repr::Infinity) => Self::INFINITY,
                _ => Self::NEGATIVE_INFINITY,
            }),
        }
    }

    /// Returns the difference; its scale is the larger of the two.
    ///
    /// # Errors
    /// `22003` when the result has too many digits.
    pub fn sub(&self, other: &Self) -> Result<Self> {
        self.add(&other.neg())
    }

    /// Returns the product; its scale is the sum of the two, at most 16383.
    ///
    /// # Errors
    /// `22003` when the result has too many digits.
    pub fn mul(&self, other: &Self) -> Result<Self> {
        if let (Repr::Small(a, scale_a), Repr::Small(b, scale_b)) = (&self.0, &other.0) {
            let scale = u32::from(*scale_a) + u32::from(*scale_b);
            if let (Some(product), true) = (a.checked_mul(*b), scale <= SCALE_MAX) {
                return Ok(Self(Repr::Small(product, scale as u16)));
            }
        }
        if let (Some((a, scale_a)), Some((b, scale_b))) = (self.parts(), other.parts()) {
            let scale = scale_a + scale_b;
            count_pairs(&a, &b)?;
            let product = a.as_ref() * b.as_ref();
            if scale > SCALE_MAX {
                let rounded = divide_rounded(&product, &big_power(scale - SCALE_MAX));
                return Self::from_parts(rounded, SCALE_MAX);
            }
            Self::from_parts(product, scale)
        } else {
            // An infinity times zero is undefined.
            if self.is_nan() || other.is_nan() || self.is_zero() || other.is_zero() {
                return Ok(Self::NAN);
            }
            Ok(if self.is_negative() == other.is_negative() {
                Self::INFINITY
            } else {
                Self::NEGATIVE_INFINITY
            })
        }
    }

    /// Returns the quotient, rounded half away from zero to the scale that PostgreSQL chooses. That
    /// is at least 16 significant digits, at least the scale of either operand, and at most 1000.
    ///
    /// # Errors
    /// `22012` when `other` is zero, `22003` when the result has too many digits.
    pub fn div(&self, other: &Self) -> Result<Self> {
        if let Some(special) = self.special_quotient(other)? {
            return Ok(special);
        }
        self.div_to_scale(other, self.division_scale(other))
    }

    /// Returns the quotient without its fraction, scale 0: the SQL function `div`.
    ///
    /// # Errors
    /// `22012` when `other` is zero.
    pub fn div_trunc(&self, other: &Self) -> Result<Self> {
        if let Some(special) = self.special_quotient(other)? {
            return Ok(special);
        }
        if let (Repr::Small(a, scale_a), Repr::Small(b, scale_b)) = (&self.0, &other.0) {
            let quotient = aligned(*a, *scale_a, *b, *scale_b).and_then(|(a, b)| a.checked_div(b));
            if let Some(quotient) = quotient {
                return Ok(Self(Repr::Small(quotient, 0)));
            }
        }
        let (a, b, _) = self.aligned_big(other);
        count_pairs(&a, &b)?;
        Self::from_parts(a / b, 0)
    }

    /// Returns the remainder with the sign of `self`; its scale is the larger of the two.
    ///
    /// # Errors
    /// `22012` when `other` is zero.
    pub fn rem(&self, other: &Self) -> Result<Self> {
        match (self.is_finite(), other.is_finite()) {
            (true, true) => {}
            _ if self.is_nan() || other.is_nan() => return Ok(Self::NAN),
            (false, _) if other.is_zero() => return Err(TypeError::division_by_zero()),
            (false, _) => return Ok(Self::NAN),
            // A finite number is its own remainder of an infinite division.
            (true, false) => return Ok(self.clone()),
        }
        if other.is_zero() {
            return Err(TypeError::division_by_zero());
        }
        if let (Repr::Small(a, scale_a), Repr::Small(b, scale_b)) = (&self.0, &other.0) {
            let rest = aligned(*a, *scale_a, *b, *scale_b).and_then(|(a, b)| a.checked_rem(b));
            if let Some(rest) = rest {
                return Ok(Self(Repr::Small(rest, (*scale_a).max(*scale_b))));
            }
        }
        let (a, b, scale) = self.aligned_big(other);
        count_pairs(&a, &b)?;
        Self::from_parts(a % b, scale)
    }

    /// Returns the negated value.
    #[must_use]
    pub fn neg(&self) -> Self {
        match &self.0 {
            Repr::Small(value, scale) => match value.checked_neg() {
                Some(value) => Self(Repr::Small(value, *scale)),
                None => Self(Repr::Big(Box::new(-BigInt::from(*value)), *scale)),
            },
            Repr::Big(value, scale) => {
                let negated = -value.as_ref();
                match i128::try_from(&negated) {
                    Ok(small) => Self(Repr::Small(small, *scale)),
                    Err(_) => Self(Repr::Big(Box::new(negated), *scale)),
                }
            }
            Repr::Infinity => Self::NEGATIVE_INFINITY,
            Repr::NegativeInfinity => Self::INFINITY,
            Repr::NaN => Self::NAN,
        }
    }

    /// Returns the absolute value.
    #[must_use]
    pub fn abs(&self) -> Self {
        if self.is_negative() { self.neg() } else { self.clone() }
    }

    /// Returns -1, 0, 1 or NaN.
    #[must_use]
    pub fn sign(&self) -> Self {
        if self.is_nan() {
            Self::NAN
        } else if self.is_zero() {
            Self::ZERO
        } else if self.is_negative() {
            Self::new(-1, 0)
        } else {
            Self::new(1, 0)
        }
    }

    /// Rounds half away from zero to `scale` digits after the decimal point (before it when
    /// negative); a shorter value is padded.
    ///
    /// # Errors
    /// `22003` when the result has too many digits.
    pub fn round(&self, scale: i32) -> Result<Self> {
        self.rescale(useful(scale), Rounding::HalfAway)
    }

    /// Cuts to `scale` digits after the decimal point (before it when negative).
    ///
    /// # Errors
    /// `22003` when the result has too many digits.
    pub fn trunc(&self, scale: i32) -> Result<Self> {
        self.rescale(useful(scale), Rounding::Truncate)
    }

    /// Returns the smallest integer that is not below this.
    ///
    /// # Errors
    /// `22003` when the result has too many digits.
    pub fn ceil(&self) -> Result<Self> {
        self.rescale(0, Rounding::Up)
    }

    /// Returns the largest integer that is not above this.
    ///
    /// # Errors
    /// `22003` when the result has too many digits.
    pub fn floor(&self) -> Result<Self> {
        self.rescale(0, Rounding::Down)
    }

    /// Gives the value another scale. A negative scale rounds digits before the decimal point and
    /// displays none after it.
    pub(super) fn rescale(&self, scale: i32, rounding: Rounding) -> Result<Self> {
        if !self.is_finite() {
            return Ok(self.clone());
        }
        let old = i32::from(self.scale());
        let shown = scale.max(0) as u32;
        if scale >= old {
            let power = scale.abs_diff(old);
            if let (Repr::Small(value, _), Some(factor)) = (&self.0, small_power(power))
                && let Some(value) = value.checked_mul(factor)
            {
                return Ok(Self(Repr::Small(value, super::checked_scale(shown)?)));
            }
            let Some((value, _)) = self.parts() else { return Ok(self.clone()) };
            return Self::from_parts(value.as_ref() * big_power(power), shown);
        }
        let cut = old.abs_diff(scale);
        // If more digits are cut than there are, only the direction of rounding matters.
        if cut > self.digits() + 1 {
            let away = match rounding {
                Rounding::Up => !self.is_negative() && !self.is_zero(),
                Rounding::Down => self.is_negative(),
                Rounding::HalfAway | Rounding::Truncate => false,
            };
            if !away {
                return Ok(Self(Repr::Small(0, super::checked_scale(shown)?)));
            }
        }
        let restore = scale.min(0).unsigned_abs();
        if let (Repr::Small(value, _), Some(divisor)) = (&self.0, small_power(cut)) {
            let quotient = rounding.divide_small(*value, divisor);
            if let Some(value) = small_power(restore).and_then(|power| quotient.checked_mul(power))
            {
                return Ok(Self(Repr::Small(value, super::checked_scale(shown)?)));
            }
        }
        let Some((value, _)) = self.parts() else { return Ok(self.clone()) };
        let quotient = rounding.divide(value.as_ref(), &big_power(cut));
        Self::from_parts(quotient * big_power(restore), shown)
    }

    /// Returns the quotient of two finite numbers, rounded half away from zero to `scale`.
    pub(super) fn div_to_scale(&self, other: &Self, scale: u32) -> Result<Self> {
        // a / 10^sa divided by b / 10^sb, times 10^scale, is a * 10^(scale + sb - sa) / b.
        let shift = i64::from(scale) + i64::from(other.scale()) - i64::from(self.scale());
        let power = u32::try_from(shift.unsigned_abs()).unwrap_or(u32::MAX);
        if let (Repr::Small(a, _), Repr::Small(b, _), Some(factor), true) =
            (&self.0, &other.0, small_power(power), shift >= 0)
            && let (Some(dividend), Some(divisor)) = (a.checked_mul(factor), b.checked_abs())
        {
            let quotient = divide_rounded_small(dividend, divisor);
            let quotient = if *b < 0 { quotient.checked_neg() } else { Some(quotient) };
            if let Some(quotient) = quotient {
                return Ok(Self(Repr::Small(quotient, super::checked_scale(scale)?)));
            }
        }
        let (Some((a, _)), Some((b, _))) = (self.parts(), other.parts()) else {
            return Ok(Self::NAN);
        };
        let (mut dividend, mut divisor) = (a.into_owned(), b.into_owned());
        if divisor.sign() == Sign::Minus {
            dividend = -dividend;
            divisor = -divisor;
        }
        if shift >= 0 {
            dividend *= big_power(power);
        } else {
            divisor *= big_power(power);
        }
        count_pairs(&dividend, &divisor)?;
        Self::from_parts(divide_rounded(&dividend, &divisor), scale)
    }

    /// Returns the quotient when an operand is special, `None` when both are numbers.
    fn special_quotient(&self, other: &Self) -> Result<Option<Self>> {
        if self.is_nan() || other.is_nan() {
            return Ok(Some(Self::NAN));
        }
        if other.is_zero() {
            return Err(TypeError::division_by_zero());
        }
        Ok(match (self.is_finite(), other.is_finite()) {
            (true, true) => None,
            (false, false) => Some(Self::NAN),
            (true, false) => Some(Self::ZERO),
            (false, true) => Some(if self.is_negative() == other.is_negative() {
                Self::INFINITY
            } else {
                Self::NEGATIVE_INFINITY
            }),
        })
    }

    /// Returns the base-10000 weight of the first digit and that digit, as PostgreSQL stores the
    /// number.
    pub(super) fn weight_and_first_digit(&self) -> (i32, i32) {
        let Some(exponent) = self.leading_exponent() else { return (0, 0) };
        let weight = exponent.div_euclid(4);
        let kept = exponent.rem_euclid(4) as u32 + 1;
        let digits = self.digits();
        let first = match &self.0 {
            Repr::Small(value, _) => {
                let magnitude = value.unsigned_abs();
                if digits >= kept {
                    magnitude / small_power(digits - kept).map_or(1, i128::unsigned_abs)
                } else {
                    magnitude * 10u128.pow(kept - digits)
                }
            }
            Repr::Big(value, _) => {
                let first = value.as_ref() / big_power(digits - kept);
                first.magnitude().try_into().unwrap_or(0)
            }
            _ => 0,
        };
        (weight, i32::try_from(first).unwrap_or(9999))
    }

    /// Returns the scale of a quotient of two finite numbers.
    pub(super) fn division_scale(&self, other: &Self) -> u32 {
        let (weight, first) = self.weight_and_first_digit();
        let (other_weight, other_first) = other.weight_and_first_digit();
        let quotient_weight = weight - other_weight - i32::from(first <= other_first);
        let scale = (SIGNIFICANT_DIGITS_MIN - quotient_weight * 4)
            .max(self.scale().into())
            .max(other.scale().into());
        scale.clamp(0, PRECISION_MAX).unsigned_abs()
    }

    pub(super) fn aligned_big(&self, other: &Self) -> (BigInt, BigInt, u32) {
        let (Some((a, scale_a)), Some((b, scale_b))) = (self.parts(), other.parts()) else {
            unreachable!("callers have dealt with the special values");
        };
        let scale = scale_a.max(scale_b);
        let a = a.as_ref() * big_power(scale - scale_a);
        let b = b.as_ref() * big_power(scale - scale_b);
        (a, b, scale)
    }
}

/// The direction of rounding when digits are cut off.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rounding {
    HalfAway,
    Truncate,
    Up,
    Down,
}

impl Rounding {
    fn divide_small(self, value: i128, divisor: i128) -> i128 {
        let inexact = value % divisor != 0;
        match self {
            Self::HalfAway => divide_rounded_small(value, divisor),
            Self::Truncate => value / divisor,
            Self::Up => value / divisor + i128::from(inexact && value > 0),
            Self::Down => value / divisor - i128::from(inexact && value < 0),
        }
    }

    fn divide(self, value: &BigInt, divisor: &BigInt) -> BigInt {
        let inexact = || (value % divisor).sign() != Sign::NoSign;
        match self {
            Self::HalfAway => divide_rounded(value, divisor),
            Self::Truncate => value / divisor,
            Self::Up => value / divisor + i32::from(value.sign() == Sign::Plus && inexact()),
            Self::Down => value / divisor - i32::from(value.sign() == Sign::Minus && inexact()),
        }
    }
}

/// Returns both coefficients at the larger scale, if they still fit.
#[inline]
fn aligned(a: i128, scale_a: u16, b: i128, scale_b: u16) -> Option<(i128, i128)> {
    if scale_a == scale_b {
        return Some((a, b));
    }
    let power = small_power(u32::from(scale_a.abs_diff(scale_b)))?;
    if scale_a < scale_b {
        Some((a.checked_mul(power)?, b))
    } else {
        Some((a, b.checked_mul(power)?))
    }
}
