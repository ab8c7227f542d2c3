//! Inexact functions on `numeric`: roots, exponentials, logarithms, powers.
//!
//! They are computed in binary fixed point with more bits than the result shows, and rounded once.
//! The number of digits in the result follows PostgreSQL's estimates, so that results look the
//! same.

use std::f64::consts::LOG10_E;

use num_bigint::{BigInt, Sign};

use super::arithmetic::Rounding;
use super::{
    Numeric, PRECISION_MAX, SIGNIFICANT_DIGITS_MIN, big_digits, big_power, divide_rounded, overflow,
};
use crate::error::{Result, TypeError};

/// Limit of decimal exponents. Results below ten to the power of minus this are zero, and results
/// above ten to the power of this overflow.
const RESULT_SCALE_MAX: i32 = 2 * PRECISION_MAX;

/// Returns the bits of this number of decimal digits, a little rounded up: 10/3.
fn bits_for_digits(digits: i64) -> u64 {
    (digits.max(0).unsigned_abs() * 10).div_ceil(3)
}

impl Numeric {
    /// Returns the square root, rounded to at least 16 significant digits and at least the
    /// operand's scale.
    ///
    /// # Errors
    /// `2201F` for a negative operand.
    pub fn sqrt(&self) -> Result<Self> {
        if self.is_negative() {
            return Err(TypeError::new("2201F", "cannot take square root of a negative number"));
        }
        let (weight, _) = self.weight_and_first_digit();
        let root_weight = (weight + 1) * 2 - 1;
        self.sqrt_to_scale(result_scale(SIGNIFICANT_DIGITS_MIN - root_weight, &[self]))
    }

    /// Returns the square root of a number that is not negative, rounded to `scale`.
    pub(super) fn sqrt_to_scale(&self, scale: u32) -> Result<Self> {
        let Some((value, old_scale)) = self.parts() else { return Ok(self.clone()) };
        // The integer root of value * 10^(2 (scale + 1)) has one digit more than wanted. It is cut,
        // not rounded, yet rounding it half up is right: a root is never exactly half-way.
        let shift = 2 * (i64::from(scale) + 1) - i64::from(old_scale);
        let power = u32::try_from(shift.unsigned_abs()).unwrap_or(u32::MAX);
        let radicand = if shift >= 0 {
            value.as_ref() * big_power(power)
        } else {
            value.as_ref() / big_power(power)
        };
        let root = BigInt::from_biguint(Sign::Plus, radicand.magnitude().sqrt());
        Self::from_parts((root + 5) / 10, scale)
    }

    /// Returns `e` to the power of this.
    ///
    /// # Errors
    /// `22003` when the result has too many digits.
    pub fn exp(&self) -> Result<Self> {
        if !self.is_finite() {
            return Ok(if self.is_infinite() && self.is_negative() {
                Self::ZERO
            } else {
                self.clone()
            });
        }
        let value = self.to_f64().unwrap_or(f64::MAX.copysign(self.signum()));
        let limit = f64::from(RESULT_SCALE_MAX);
        let weight = (value * LOG10_E).clamp(-limit, limit) as i32;
        let scale = result_scale(SIGNIFICANT_DIGITS_MIN - weight, &[self]);
        if value.abs() >= limit * 3.0 {
            return if value > 0.0 { Err(overflow()) } else { Ok(zero_with_scale(scale)) };
        }
        // The estimate of the weight was cut; this is the real number of digits before the point.
        let whole_digits = (value * LOG10_E).max(0.0) as i64;
        let bits = bits_for_digits(i64::from(scale) + whole_digits) + 32;
        Self::from_exponential(&self.to_fixed(bits), bits, scale)
    }

    /// Returns the natural logarithm.
    ///
    /// # Errors
    /// `2201E` for zero and negative operands.
    pub fn ln(&self) -> Result<Self> {
        self.check_logarithm()?;
        if !self.is_finite() {
            return Ok(self.clone());
        }
        let scale = result_scale(SIGNIFICANT_DIGITS_MIN - self.logarithm_weight()?, &[self]);
        let bits = bits_for_digits(scale.into()) + 32;
        from_fixed(&self.ln_fixed(bits), bits, scale)
    }

    /// Returns the logarithm of this to a base.
    ///
    /// # Errors
    /// `2201E` when either is zero or negative, `22012` for the base 1.
    pub fn log(&self, base: &Self) -> Result<Self> {
        if self.is_nan() || base.is_nan() {
            return Ok(Self::NAN);
        }
        base.check_logarithm()?;
        self.check_logarithm()?;
        match (base.is_finite(), self.is_finite()) {
            (true, true) => {}
            (false, false) => return Ok(Self::NAN),
            (false, true) => return Ok(Self::ZERO),
            (true, false) => return Ok(Self::INFINITY),
        }
        let base_weight = base.logarithm_weight()?;
        let weight = self.logarithm_weight()? - base_weight;
        let scale = result_scale(SIGNIFICANT_DIGITS_MIN - weight, &[base, self]);
        // The quotient loses as many digits as the logarithm of the base is small.
        let small = i64::from(base_weight.min(0).abs()) * 2;
        let large = i64::from(weight.max(0));
        let bits = bits_for_digits(i64::from(scale) + small + large) + 64;
        let divisor = base.ln_fixed(bits);
        if divisor.sign() == Sign::NoSign {
            return Err(TypeError::division_by_zero());
        }
        let mut dividend = self.ln_fixed(bits) * big_power(scale);
        let negative = divisor.sign() == Sign::Minus;
        if negative {
            dividend = -dividend;
        }
        let divisor = BigInt::from_biguint(Sign::Plus, divisor.magnitude().clone());
        Self::from_parts(divide_rounded(&dividend, &divisor), scale)
    }

    /// Returns this to the power of `exponent`.
    ///
    /// # Errors
    /// `2201F` where the power is undefined or complex, `22003` when it has too many digits.
    pub fn power(&self, exponent: &Self) -> Result<Self> {
        if let Some(special) = self.special_power(exponent)? {
            return Ok(special);
        }
        let whole = exponent.trunc(0)?;
        let is_integer = whole == *exponent;
        if self.is_zero() && exponent.is_negative() {
            return Err(TypeError::new("2201F", "zero raised to a negative power is undefined"));
        }
        if self.is_negative() && !is_integer {
            return Err(TypeError::new(
                "2201F",
                "a negative number raised to a non-integer power yields a complex result",
            ));
        }
        if let (true, Ok(power)) = (is_integer, whole.to_i32()) {
            return self.integer_power(power);
        }
        if self.is_zero() {
            return Ok(zero_with_scale(16));
        }
        let odd = is_integer && !whole.rem(&Self::new(2, 0))?.is_zero();
        let base = self.abs();
        let estimate =
            base.ln_estimate() * exponent.to_f64().unwrap_or(f64::MAX.copysign(exponent.signum()));
        if estimate.abs() > f64::from(RESULT_SCALE_MAX) * 3.01 {
            if estimate > 0.0 {
                return Err(overflow());
            }
            return Ok(zero_with_scale(PRECISION_MAX.unsigned_abs()));
        }
        let weight = (estimate * LOG10_E) as i32;
        let scale = result_scale(SIGNIFICANT_DIGITS_MIN - weight, &[self, exponent]);
        // The logarithm needs the digits of the result before and after the point. It also needs
        // the digits that the exponent multiplies away.
        let exponent_digits = i64::from(exponent.leading_exponent().unwrap_or(0).max(0));
        let bits =
            bits_for_digits(i64::from(scale) + i64::from(weight.max(0)) + exponent_digits + 8) + 32;
        let Some((value, exponent_scale)) = exponent.parts() else { return Ok(Self::NAN) };
        let product = base.ln_fixed(bits) * value.as_ref();
        let logarithm = divide_rounded(&product, &big_power(exponent_scale));
        let result = Self::from_exponential(&logarithm, bits, scale)?;
        Ok(if odd && self.is_negative() { result.neg() } else { result })
    }

    /// Returns -1.0, 0.0 or 1.0.
    fn signum(&self) -> f64 {
        if self.is_zero() {
            0.0
        } else if self.is_negative() {
            -1.0
        } else {
            1.0
        }
    }

    fn check_logarithm(&self) -> Result<()> {
        if self.is_zero() {
            return Err(TypeError::new("2201E", "cannot take logarithm of zero"));
        }
        if self.is_negative() {
            return Err(TypeError::new("2201E", "cannot take logarithm of a negative number"));
        }
        Ok(())
    }

    fn special_power(&self, exponent: &Self) -> Result<Option<Self>> {
        let one = || Some(Self::new(1, 0));
        if self.is_finite() && exponent.is_finite() {
            return Ok(None);
        }
        // Anything to the power of zero is one, and so is one to any power.
        if self.is_nan() || exponent.is_nan() {
            let is_one = (self.is_nan() && exponent.is_zero()) || *self == Self::new(1, 0);
            return Ok(if is_one { one() } else { Some(Self::NAN) });
        }
        if self.is_zero() && exponent.is_negative() {
            return Err(TypeError::new("2201F", "zero raised to a negative power is undefined"));
        }
        if exponent.is_zero() || *self == Self::new(1, 0) {
            return Ok(one());
        }
        let integer_exponent = !exponent.is_finite() || exponent.trunc(0)? == *exponent;
        if self.is_negative() && !integer_exponent {
            return Err(TypeError::new(
                "2201F",
                "a negative number raised to a non-integer power yields a complex result",
            ));
        }
        if exponent.is_infinite() {
            let magnitude = self.abs();
            let unit = Self::new(1, 0);
            return Ok(Some(if magnitude == unit {
                unit
            } else if (magnitude > unit) != exponent.is_negative() {
                Self::INFINITY
            } else {
                Self::ZERO
            }));
        }
        // An infinite base, a finite exponent.
        if exponent.is_negative() {
            return Ok(Some(Self::ZERO));
        }
        let odd = !exponent.rem(&Self::new(2, 0))?.is_zero();
        Ok(Some(if self.is_negative() && odd { Self::NEGATIVE_INFINITY } else { Self::INFINITY }))
    }

    fn integer_power(&self, power: i32) -> Result<Self> {
        let scale = result_scale(SIGNIFICANT_DIGITS_MIN, &[self]);
        let shown = scale as i32;
        match power {
            0 => return Self::new(1, 0).round(shown),
            1 => return self.round(shown),
            -1 => return Self::new(1, 0).div_to_scale(self, scale),
            2 => return self.mul(self)?.round(shown),
            _ if self.is_zero() => return Ok(zero_with_scale(scale)),
            _ => {}
        }
        let logarithm = f64::from(power) * self.abs().ln_estimate() * LOG10_E;
        if logarithm > 3.0 * 32_767.0 * 4.0 {
            return Err(overflow());
        }
        if logarithm + 1.0 < -f64::from(scale) || logarithm + 1.0 < -f64::from(PRECISION_MAX) {
            return Ok(zero_with_scale(scale));
        }
        // The exact power may have millions of digits; only these are wanted.
        let wanted = 1 + i64::from(scale) + (logarithm.max(0.0) as i64) + 24;
        let Some((base, base_scale)) = self.parts() else { return Ok(Self::NAN) };
        let (value, exponent) = powered(base.as_ref(), -i64::from(base_scale), power, wanted);
        if power > 0 {
            return decimal_to_scale(value, exponent, scale);
        }
        // 1 / (value * 10^exponent), times 10^scale.
        let shift = i64::from(scale) - exponent;
        let negative = value.sign() == Sign::Minus;
        let magnitude = BigInt::from_biguint(Sign::Plus, value.magnitude().clone());
        let quotient = if shift >= 0 {
            let shift = u32::try_from(shift).map_err(|_| overflow())?;
            divide_rounded(&big_power(shift), &magnitude)
        } else {
            BigInt::from(0)
        };
        Self::from_parts(if negative { -quotient } else { quotient }, scale)
    }

    /// Returns this times two to the power of `bits`, cut to an integer.
    fn to_fixed(&self, bits: u64) -> BigInt {
        match self.parts() {
            Some((value, scale)) => (value.as_ref() << bits) / big_power(scale),
            None => BigInt::from(0),
        }
    }

    /// Returns the natural logarithm times two to the power of `bits`.
    fn ln_fixed(&self, bits: u64) -> BigInt {
        let Some((value, scale)) = self.parts() else { return BigInt::from(0) };
        let work = bits + 32;
        // value / 10^scale = mantissa * 2^exponent with the mantissa in [3/4, 3/2).
        let divisor = big_power(scale);
        let mut exponent = value.bits() as i64 - divisor.bits() as i64;
        let shift = work as i64 - exponent;
        let mut mantissa = if shift >= 0 {
            (value.as_ref() << shift.unsigned_abs()) / &divisor
        } else {
            value.as_ref() / (divisor << shift.unsigned_abs())
        };
        let one = BigInt::from(1) << work;
        let (upper, lower) = (&one + (&one >> 1u32), &one - (&one >> 2u32));
        while mantissa >= upper {
            mantissa >>= 1u32;
            exponent += 1;
        }
        while mantissa < lower {
            mantissa <<= 1u32;
            exponent -= 1;
        }
        // ln m = 2 artanh((m - 1) / (m + 1)), and that argument is at most a fifth.
        let argument = ((&mantissa - &one) << work) / (&mantissa + &one);
        let logarithm = artanh(&argument, work) * 2 + ln2(work) * exponent;
        logarithm >> 32u32
    }

    /// Estimates the natural logarithm of a positive number.
    fn ln_estimate(&self) -> f64 {
        let near_one = self.to_f64().ok().filter(|value| (0.5..2.0).contains(value));
        if near_one.is_some() {
            // Close to one, a double's own error would show.
            let fixed = self.ln_fixed(96);
            return fixed.to_string().parse::<f64>().unwrap_or(0.0) / 2f64.powi(96);
        }
        let (digits, exponent) = match self.parts() {
            Some((value, _)) => {
                let digits = big_digits(value.as_ref());
                let leading = value.as_ref() / big_power(digits.saturating_sub(17));
                (leading.to_string().parse::<f64>().unwrap_or(1.0), digits.saturating_sub(17))
            }
            None => (1.0, 0),
        };
        let power = f64::from(exponent) - f64::from(self.scale());
        digits.ln() + power * std::f64::consts::LN_10
    }

    /// Returns PostgreSQL's estimate of the decimal weight of the natural logarithm.
    fn logarithm_weight(&self) -> Result<i32> {
        if self.is_negative() || self.is_zero() {
            return Ok(0);
        }
        if *self >= Self::new(9, 1) && *self <= Self::new(11, 1) {
            // ln(1 + x) is nearly x.
            let distance = self.sub(&Self::new(1, 0))?;
            return Ok(distance.leading_exponent().unwrap_or(0));
        }
        Ok(self.ln_estimate().abs().log10() as i32)
    }

    /// Returns `e` to the power of `logarithm / 2^bits`, rounded to `scale`.
    fn from_exponential(logarithm: &BigInt, bits: u64, scale: u32) -> Result<Self> {
        let work = bits + 64;
        let logarithm = logarithm << 64u32;
        let ln2 = ln2(work);
        // logarithm = n ln 2 + rest
        let n = &logarithm / &ln2;
        let rest = &logarithm - &n * &ln2;
        let n = i64::try_from(&n).map_err(|_| overflow())?;
        // The rest is halved so often that the series is short, and the result squared as often.
        let halvings = 16u32;
        let mantissa = {
            let guarded = work + 2 * u64::from(halvings);
            let argument = (rest << (2 * halvings)) >> halvings;
            let mut power = exp_series(&argument, guarded);
            for _ in 0..halvings {
                power = (&power * &power) >> guarded;
            }
            power >> (2 * halvings)
        };
        // mantissa * 2^(n - work) * 10^scale
        let scaled = mantissa * big_power(scale);
        let shift = n - work as i64;
        let coefficient = if shift >= 0 {
            scaled << shift.unsigned_abs()
        } else {
            divide_rounded(&scaled, &(BigInt::from(1) << shift.unsigned_abs()))
        };
        Self::from_parts(coefficient, scale)
    }
}

/// Returns the scale of a result that wants `wanted` digits after the point: not less than the
/// operands'.
fn result_scale(wanted: i32, operands: &[&Numeric]) -> u32 {
    let least = operands.iter().map(|operand| i32::from(operand.scale())).max().unwrap_or(0);
    wanted.max(least).clamp(0, PRECISION_MAX).unsigned_abs()
}

fn zero_with_scale(scale: u32) -> Numeric {
    Numeric::ZERO.rescale(scale as i32, Rounding::Truncate).unwrap_or(Numeric::ZERO)
}

fn from_fixed(value: &BigInt, bits: u64, scale: u32) -> Result<Numeric> {
    let scaled = value * big_power(scale);
    Numeric::from_parts(divide_rounded(&scaled, &(BigInt::from(1) << bits)), scale)
}

/// Returns `value * 10^exponent` rounded to `scale`.
fn decimal_to_scale(value: BigInt, exponent: i64, scale: u32) -> Result<Numeric> {
    let shift = exponent + i64::from(scale);
    let power = u32::try_from(shift.unsigned_abs()).map_err(|_| overflow())?;
    let coefficient = if shift >= 0 {
        if power > 200_000 {
            return Err(overflow());
        }
        value * big_power(power)
    } else {
        divide_rounded(&value, &big_power(power))
    };
    Numeric::from_parts(coefficient, scale)
}

/// Returns the magnitude of the `power`-th power of `base * 10^exponent`, kept to about `wanted`
/// digits. The result is a coefficient and its exponent.
fn powered(base: &BigInt, exponent: i64, power: i32, wanted: i64) -> (BigInt, i64) {
    let trim = |value: BigInt, exponent: i64| {
        let excess = i64::from(big_digits(&value)) - wanted;
        match u32::try_from(excess) {
            Ok(excess) if excess > 0 => {
                (divide_rounded(&value, &big_power(excess)), exponent + i64::from(excess))
            }
            _ => (value, exponent),
        }
    };
    let mut result = (BigInt::from(1), 0);
    let mut square = (base.clone(), exponent);
    let mut bits = power.unsigned_abs();
    loop {
        if bits & 1 == 1 {
            result = trim(&result.0 * &square.0, result.1 + square.1);
        }
        bits >>= 1;
        if bits == 0 {
            return result;
        }
        square = trim(&square.0 * &square.0, square.1 * 2);
    }
}

/// Returns `artanh(argument / 2^bits) * 2^bits` for a small argument.
fn artanh(argument: &BigInt, bits: u64) -> BigInt {
    let square = (argument * argument) >> bits;
    let mut power = argument.clone();
    let mut sum = argument.clone();
    let mut divisor = 3u32;
    // Each term is at most a 25th of the one before, so this ends.
    loop {
        power = (&power * &square) >> bits;
        let term = &power / divisor;
        if term.sign() == Sign::NoSign || term == BigInt::from(-1) {
            return sum;
        }
        sum += term;
        divisor += 2;
    }
}

/// Returns `ln 2 * 2^bits`.
fn ln2(bits: u64) -> BigInt {
    let work = bits + 16;
    let third = (BigInt::from(1) << work) / 3;
    (artanh(&third, work) * 2) >> 16u32
}

/// Returns `exp(argument / 2^bits) * 2^bits` for a small argument.
fn exp_series(argument: &BigInt, bits: u64) -> BigInt {
    let one = BigInt::from(1) << bits;
    let mut term = one.clone();
    let mut sum = one;
    let mut divisor = 1u32;
    // Each term is at most a fraction of the one before, so this ends.
    loop {
        term = ((&term * argument) >> bits) / divisor;
        if term.sign() == Sign::NoSign || term == BigInt::from(-1) {
            return sum;
        }
        sum += &term;
        divisor += 1;
    }
}
