//! Conversions of `numeric` to and from the other number types and to the limits of a typmod.

use super::{Numeric, Repr, big_power, divide_rounded, divide_rounded_small, small_power};
use crate::error::{Result, TypeError};

macro_rules! from_integer {
    ($($integer:ty),*) => {$(
        impl From<$integer> for Numeric {
            fn from(value: $integer) -> Self {
                Self(Repr::Small(value.into(), 0))
            }
        }
    )*};
}
from_integer!(i16, i32, u32, i64, u64, i128);

impl Numeric {
    /// Returns the value rounded half away from zero to an integer; `type_name` is for the message.
    fn to_integer(&self, type_name: &str) -> Result<i128> {
        let out_of_range = || TypeError::out_of_range(type_name);
        match &self.0 {
            Repr::Small(value, 0) => Ok(*value),
            Repr::Small(value, scale) => Ok(match small_power((*scale).into()) {
                Some(divisor) => divide_rounded_small(*value, divisor),
                None => 0,
            }),
            Repr::Big(value, scale) => {
                let rounded = divide_rounded(value, &big_power((*scale).into()));
                i128::try_from(&rounded).map_err(|_| out_of_range())
            }
            Repr::NaN => Err(TypeError::new("0A000", format!("cannot convert NaN to {type_name}"))),
            Repr::Infinity | Repr::NegativeInfinity => {
                Err(TypeError::new("0A000", format!("cannot convert infinity to {type_name}")))
            }
        }
    }

    /// Rounds half away from zero.
    ///
    /// # Errors
    /// `22003` out of range, `0A000` for NaN and the infinities.
    pub fn to_i16(&self) -> Result<i16> {
        let name = "smallint";
        self.to_integer(name)?.try_into().map_err(|_| TypeError::out_of_range(name))
    }

    /// Rounds half away from zero.
    ///
    /// # Errors
    /// `22003` out of range, `0A000` for NaN and the infinities.
    pub fn to_i32(&self) -> Result<i32> {
        let name = "integer";
        self.to_integer(name)?.try_into().map_err(|_| TypeError::out_of_range(name))
    }

    /// Rounds half away from zero.
    ///
    /// # Errors
    /// `22003` out of range, `0A000` for NaN and the infinities.
    pub fn to_i64(&self) -> Result<i64> {
        let name = "bigint";
        self.to_integer(name)?.try_into().map_err(|_| TypeError::out_of_range(name))
    }

    /// Rounds half away from zero.
    ///
    /// # Errors
    /// `22003` out of range, `0A000` for NaN and the infinities.
    pub fn to_u64(&self) -> Result<u64> {
        let name = "unsigned bigint";
        self.to_integer(name)?.try_into().map_err(|_| TypeError::out_of_range(name))
    }

    /// Returns the nearest double.
    ///
    /// # Errors
    /// `22003` when the value is beyond the largest double, or not zero and below the smallest.
    pub fn to_f64(&self) -> Result<f64> {
        match &self.0 {
            // Both operands are exact, so the division rounds once, correctly.
            Repr::Small(value, scale) if value.unsigned_abs() < 1 << 53 && *scale <= 22 => {
                let power = small_power((*scale).into()).unwrap_or(1);
                Ok(*value as f64 / power as f64)
            }
            Repr::NaN => Ok(f64::NAN),
            Repr::Infinity => Ok(f64::INFINITY),
            Repr::NegativeInfinity => Ok(f64::NEG_INFINITY),
            _ => crate::scalar::float::parse_float8(&self.to_string()),
        }
    }

    /// Returns the nearest single-precision number.
    ///
    /// # Errors
    /// `22003` when the value is beyond the largest one, or not zero and below the smallest.
    pub fn to_f32(&self) -> Result<f32> {
        match &self.0 {
            Repr::NaN => Ok(f32::NAN),
            Repr::Infinity => Ok(f32::INFINITY),
            Repr::NegativeInfinity => Ok(f32::NEG_INFINITY),
            _ => crate::scalar::float::parse_float4(&self.to_string()),
        }
    }

    /// Returns the decimal number of 15 significant digits nearest to `value`, without trailing
    /// zeros.
    pub fn from_f64(value: f64) -> Self {
        Self::from_float(value, 15)
    }

    /// Returns the decimal number of 6 significant digits nearest to `value`, without trailing
    /// zeros.
    pub fn from_f32(value: f32) -> Self {
        Self::from_float(value.into(), 6)
    }

    fn from_float(value: f64, significant: usize) -> Self {
        if value.is_nan() {
            return Self::NAN;
        }
        if value.is_infinite() {
            return if value < 0.0 { Self::NEGATIVE_INFINITY } else { Self::INFINITY };
        }
        let text = format!("{:.*e}", significant - 1, value.abs());
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let exponent = exponent.parse().unwrap_or(0);
        let (integer, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let fraction = fraction.trim_end_matches('0');
        // A double has at most 309 digits before the point and a scale of at most 339.
        Self::from_digits(value < 0.0, integer, fraction, exponent).unwrap_or(Self::NAN)
    }

    /// Rounds to the scale of `typmod` and checks its precision; -1 changes nothing.
    ///
    /// # Errors
    /// `22003` when the value does not fit the precision.
    pub fn apply_typmod(&self, typmod: i32) -> Result<Self> {
        let Some((precision, scale)) = numeric_precision_scale(typmod) else {
            return Ok(self.clone());
        };
        let too_big = |detail: String| {
            Err(TypeError::new("22003", "numeric field overflow").with_detail(detail))
        };
        if self.is_nan() {
            return Ok(Self::NAN);
        }
        if self.is_infinite() {
            return too_big(format!(
                "A field with precision {precision}, scale {scale} cannot hold an infinite value."
            ));
        }
        let rounded = if i32::from(self.scale()) == scale {
            self.clone()
        } else {
            self.rescale(scale, super::arithmetic::Rounding::HalfAway)?
        };
        let integer_digits = precision - scale;
        match rounded.leading_exponent() {
            Some(exponent) if exponent >= integer_digits => too_big(format!(
                "A field with precision {precision}, scale {scale} must round to an absolute value less than {}{}.",
                if integer_digits != 0 { "10^" } else { "" },
                if integer_digits != 0 { integer_digits } else { 1 },
            )),
            _ => Ok(rounded),
        }
    }
}

/// Returns the precision and scale of `numeric(precision, scale)`'s typmod; `None` without limits.
pub fn numeric_precision_scale(typmod: i32) -> Option<(i32, i32)> {
    if typmod < 4 {
        return None;
    }
    let packed = typmod - 4;
    // The scale is a signed number of 11 bits.
    let scale = ((packed & 0x7ff) ^ 0x400) - 0x400;
    Some(((packed >> 16) & 0xffff, scale))
}

/// Returns the typmod of `numeric(precision, scale)`.
///
/// # Errors
/// `22023` when the precision is not in 1..=1000 or the scale not in -1000..=1000.
pub fn numeric_typmod(precision: i32, scale: i32) -> Result<i32> {
    if !(1..=super::PRECISION_MAX).contains(&precision) {
        return Err(TypeError::new(
            "22023",
            format!("NUMERIC precision {precision} must be between 1 and 1000"),
        ));
    }
    if !(-super::PRECISION_MAX..=super::PRECISION_MAX).contains(&scale) {
        return Err(TypeError::new(
            "22023",
            format!("NUMERIC scale {scale} must be between -1000 and 1000"),
        ));
    }
    Ok(((precision << 16) | (scale & 0x7ff)) + 4)
}
