//! Exact functions on `numeric` beyond arithmetic: divisors, factorials, needed digits, statistics.

use num_bigint::{BigInt, BigUint, Sign};

use super::{Numeric, overflow};
use crate::error::{Result, TypeError};

/// Largest number whose factorial has not too many digits for a numeric.
const FACTORIAL_MAX: i64 = 32_177;

/// A statistic of a set of numbers, computed from their count, sum and sum of squares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// `var_pop`
    PopulationVariance,
    /// `var_samp`
    SampleVariance,
    /// `stddev_pop`
    PopulationDeviation,
    /// `stddev_samp`
    SampleDeviation,
}

impl Spread {
    /// Decides whether the set is a sample of a population, so that one member is not enough.
    pub fn is_of_sample(self) -> bool {
        matches!(self, Self::SampleVariance | Self::SampleDeviation)
    }

    /// Decides whether the statistic is the square root of the variance.
    pub fn is_deviation(self) -> bool {
        matches!(self, Self::PopulationDeviation | Self::SampleDeviation)
    }
}

impl Numeric {
    /// Returns the product of all whole numbers from 1 to `number`.
    ///
    /// # Errors
    /// `22003` for a negative number, and when the result has too many digits.
    pub fn factorial(number: i64) -> Result<Self> {
        if number < 0 {
            return Err(TypeError::new("22003", "factorial of a negative number is undefined"));
        }
        if number > FACTORIAL_MAX {
            return Err(overflow());
        }
        let mut product = BigUint::from(1u32);
        for factor in 2..=number.unsigned_abs() {
            product *= factor;
        }
        Self::from_parts(BigInt::from(product), 0)
    }

    /// Returns the greatest common divisor: both numbers are whole multiples of it. Its scale is
    /// the larger of the two. `NaN` unless both are finite.
    ///
    /// # Errors
    /// `22003` when the result has too many digits.
    pub fn gcd(&self, other: &Self) -> Result<Self> {
        let Some((a, b, scale)) = self.aligned_magnitudes(other) else { return Ok(Self::NAN) };
        Self::from_parts(BigInt::from(greatest_divisor(a, b)), scale)
    }

    /// Returns the least common multiple, 0 if one number is 0. Its scale is the larger of the two.
    /// `NaN` unless both are finite.
    ///
    /// # Errors
    /// `22003` when the result has too many digits.
    pub fn lcm(&self, other: &Self) -> Result<Self> {
        let Some((a, b, scale)) = self.aligned_magnitudes(other) else { return Ok(Self::NAN) };
        let divisor = greatest_divisor(a.clone(), b.clone());
        if divisor == BigUint::ZERO {
            return Self::from_parts(BigInt::from(0), scale);
        }
        Self::from_parts(BigInt::from(a / divisor * b), scale)
    }

    /// Returns the coefficients of both without their signs, at one scale; `None` unless both are
    /// finite.
    fn aligned_magnitudes(&self, other: &Self) -> Option<(BigUint, BigUint, u32)> {
        if !self.is_finite() || !other.is_finite() {
            return None;
        }
        let (a, b, scale) = self.aligned_big(other);
        Some((a.magnitude().clone(), b.magnitude().clone(), scale))
    }

    /// Returns the number of digits after the decimal point that the value needs; `None` for the
    /// special values.
    pub fn min_scale(&self) -> Option<u16> {
        let (value, _) = self.parts()?;
        if value.sign() == Sign::NoSign {
            return Some(0);
        }
        let digits = value.magnitude().to_string();
        let zeros = digits.len() - digits.trim_end_matches('0').len();
        let zeros = u16::try_from(zeros).unwrap_or(u16::MAX);
        Some(self.scale().saturating_sub(zeros))
    }

    /// Returns the value at the smallest scale that shows it.
    ///
    /// # Errors
    /// None for a value of this crate: it has no more digits than before.
    pub fn trim_scale(&self) -> Result<Self> {
        match self.min_scale() {
            Some(scale) => self.round(scale.into()),
            None => Ok(self.clone()),
        }
    }

    /// Returns variance or standard deviation of `count` numbers from their sum and sum of squares.
    /// `None` where `count` is too small for the statistic.
    ///
    /// # Errors
    /// `22003` when the result has too many digits.
    pub fn spread(
        spread: Spread,
        count: i64,
        sum: &Self,
        sum_of_squares: &Self,
    ) -> Result<Option<Self>> {
        if count < 1 || (count == 1 && spread.is_of_sample()) {
            return Ok(None);
        }
        if !sum.is_finite() || !sum_of_squares.is_finite() {
            return Ok(Some(Self::NAN));
        }
        let members = Self::from(count);
        let dividend = members.mul(sum_of_squares)?.sub(&sum.mul(sum)?)?;
        // Digits cut off at a very small scale can make it negative.
        if dividend.is_zero() || dividend.is_negative() {
            return Ok(Some(Self::ZERO));
        }
        let freedom = if spread.is_of_sample() { Self::from(count - 1) } else { members.clone() };
        let divisor = members.mul(&freedom)?;
        let scale = dividend.division_scale(&divisor);
        let variance = dividend.div_to_scale(&divisor, scale)?;
        Ok(Some(if spread.is_deviation() { variance.sqrt_to_scale(scale)? } else { variance }))
    }
}

/// Computes Euclid's algorithm; the result is zero only for two zeros.
fn greatest_divisor(mut a: BigUint, mut b: BigUint) -> BigUint {
    while b != BigUint::ZERO {
        let rest = a % &b;
        a = std::mem::replace(&mut b, rest);
    }
    a
}
