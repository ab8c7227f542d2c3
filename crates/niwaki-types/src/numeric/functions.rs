//! Inexact functions on `numeric`: roots, exponentials, logarithms, powers.

use num_bigint::{BigInt, Sign};

use super::{Numeric, PRECISION_MAX, SIGNIFICANT_DIGITS_MIN, big_power};
use crate::error::{Result, TypeError};

impl Numeric {
    /// Square root, rounded to at least 16 significant digits and at least the operand's scale.
    ///
    /// # Errors
    /// `2201F` for a negative operand.
    pub fn sqrt(&self) -> Result<Self> {
        if self.is_negative() {
            return Err(TypeError::new("2201F", "cannot take square root of a negative number"));
        }
        let Some((value, old_scale)) = self.parts() else { return Ok(self.clone()) };
        let (weight, _) = self.weight_and_first_digit();
        let root_weight =
            if weight >= 0 { (weight + 1) * 4 / 2 - 1 } else { 1 - (1 - weight) * 4 / 2 };
        let scale = (SIGNIFICANT_DIGITS_MIN - root_weight)
            .max(self.scale().into())
            .clamp(0, PRECISION_MAX)
            .unsigned_abs();
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
}
