//! `numeric` as text, in and out.

use std::fmt;

use num_bigint::BigInt;

use super::{INTEGER_DIGITS_MAX, Numeric, Repr, SCALE_MAX, big_power, overflow, small_power};
use crate::error::{Result, TypeError};

impl Numeric {
    /// Reads `[space] [sign] digits [. digits] [e exponent] [space]`, `NaN`, `[sign] Infinity` or
    /// `[sign] inf`.
    ///
    /// # Errors
    /// `22P02` for other text, `22003` when there are too many digits.
    pub fn parse(text: &str) -> Result<Self> {
        let invalid = || TypeError::invalid_text("numeric", text);
        let trimmed = text.trim_matches(crate::scalar::space::is_space);
        let (negative, body) = match trimmed.as_bytes().first() {
            Some(b'-') => (true, &trimmed[1..]),
            Some(b'+') => (false, &trimmed[1..]),
            _ => (false, trimmed),
        };
        if !body.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            return if trimmed.eq_ignore_ascii_case("nan") {
                Ok(Self::NAN)
            } else if body.eq_ignore_ascii_case("infinity") || body.eq_ignore_ascii_case("inf") {
                Ok(if negative { Self::NEGATIVE_INFINITY } else { Self::INFINITY })
            } else {
                Err(invalid())
            };
        }
        let (mantissa, exponent) = match body.find(['e', 'E']) {
            Some(at) => (&body[..at], parse_exponent(&body[at + 1..]).ok_or_else(invalid)?),
            None => (body, 0),
        };
        let (integer, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits_only = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if !digits_only(integer) || !digits_only(fraction) || integer.len() + fraction.len() == 0 {
            return Err(invalid());
        }
        Self::from_digits(negative, integer, fraction, exponent)?.counted()
    }

    /// Returns the value of `integer.fraction` times ten to the power of `exponent`; both are ASCII
    /// digits. Fails for its digits alone: the caller counts the work.
    pub(super) fn from_digits(
        negative: bool,
        integer: &str,
        fraction: &str,
        exponent: i64,
    ) -> Result<Self> {
        let scale = fraction.len() as i64 - exponent;
        if scale > i64::from(SCALE_MAX) {
            return Err(overflow());
        }
        // Zeros between the digits and the decimal point when the exponent moves the point to the
        // right.
        let zeros = u32::try_from(scale.min(0).unsigned_abs()).unwrap_or(u32::MAX);
        let shown = u16::try_from(scale.max(0)).map_err(|_| overflow())?;
        let mut small = 0i128;
        let mut fits = true;
        for byte in integer.bytes().chain(fraction.bytes()) {
            let digit = i128::from(byte - b'0');
            if let Some(value) = small.checked_mul(10).and_then(|value| value.checked_add(digit)) {
                small = value;
            } else {
                fits = false;
                break;
            }
        }
        if fits {
            if small == 0 {
                return Ok(Self(Repr::Small(0, shown)));
            }
            if let Some(value) = small_power(zeros).and_then(|power| small.checked_mul(power)) {
                return Ok(Self(Repr::Small(if negative { -value } else { value }, shown)));
            }
        }
        let significant = integer.trim_start_matches('0').len() as u64;
        if significant + u64::from(zeros) > u64::from(INTEGER_DIGITS_MAX) + fraction.len() as u64 {
            return Err(overflow());
        }
        let mut digits = String::with_capacity(integer.len() + fraction.len());
        digits.push_str(integer);
        digits.push_str(fraction);
        let value = BigInt::parse_bytes(digits.as_bytes(), 10).ok_or_else(overflow)?;
        let value = value * big_power(zeros);
        Self::within_limits(if negative { -value } else { value }, shown.into())
    }

    /// Appends the value as PostgreSQL shows it: all digits, with exactly [`Numeric::scale`] of
    /// them after the decimal point.
    pub fn write_text(&self, out: &mut Vec<u8>) {
        match &self.0 {
            Repr::Small(value, scale) => {
                if *value < 0 {
                    out.push(b'-');
                }
                let mut buffer = itoa::Buffer::new();
                write_digits(buffer.format(value.unsigned_abs()).as_bytes(), *scale, out);
            }
            Repr::Big(value, scale) => {
                if self.is_negative() {
                    out.push(b'-');
                }
                write_digits(value.magnitude().to_str_radix(10).as_bytes(), *scale, out);
            }
            Repr::NaN => out.extend_from_slice(b"NaN"),
            Repr::Infinity => out.extend_from_slice(b"Infinity"),
            Repr::NegativeInfinity => out.extend_from_slice(b"-Infinity"),
        }
    }
}

/// Appends `digits` with the decimal point `scale` digits before their end.
fn write_digits(digits: &[u8], scale: u16, out: &mut Vec<u8>) {
    let scale = usize::from(scale);
    let (integer, fraction) = digits.split_at(digits.len().saturating_sub(scale));
    if integer.is_empty() {
        out.push(b'0');
    } else {
        out.extend_from_slice(integer);
    }
    if scale > 0 {
        out.push(b'.');
        out.resize(out.len() + (scale - fraction.len()), b'0');
        out.extend_from_slice(fraction);
    }
}

/// Parses `[space] [sign] digits` after the `e`. A number beyond any limit is cut to one that still
/// is.
fn parse_exponent(text: &str) -> Option<i64> {
    let text = text.trim_start_matches(crate::scalar::space::is_space);
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let magnitude = digits.parse::<i64>().unwrap_or(i64::MAX).min(1 << 30);
    Some(if text.starts_with('-') { -magnitude } else { magnitude })
}

impl fmt::Display for Numeric {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = Vec::new();
        self.write_text(&mut out);
        formatter.write_str(std::str::from_utf8(&out).map_err(|_| fmt::Error)?)
    }
}
