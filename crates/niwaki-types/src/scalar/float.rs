//! `float4` and `float8` as text.

use std::io::Write;

use super::space::is_space;
use crate::error::{Result, TypeError};

/// Reads a `float8`: decimal with optional exponent, `NaN`, `[+-]Infinity`, `[+-]inf`.
///
/// # Errors
/// `22P02` for other text, `22003` when the number is too large or too small for the type.
pub fn parse_float8(text: &str) -> Result<f64> {
    let name = "double precision";
    let value: f64 = parse(text).ok_or_else(|| TypeError::invalid_text(name, text))?;
    if (value.is_infinite() || value == 0.0) && lost(text, value == 0.0) {
        return Err(out_of_range(text, name));
    }
    Ok(value)
}

/// Reads a `float4`, as [`parse_float8`].
///
/// # Errors
/// As [`parse_float8`].
pub fn parse_float4(text: &str) -> Result<f32> {
    let name = "real";
    let value: f32 = parse(text).ok_or_else(|| TypeError::invalid_text(name, text))?;
    if (value.is_infinite() || value == 0.0) && lost(text, value == 0.0) {
        return Err(out_of_range(text, name));
    }
    Ok(value)
}

fn out_of_range(text: &str, name: &str) -> TypeError {
    let text = text.trim_matches(is_space);
    TypeError::new("22003", format!("\"{text}\" is out of range for type {name}"))
}

fn parse<F: std::str::FromStr>(text: &str) -> Option<F> {
    // Rust reads what PostgreSQL does, in any case: nan, inf, infinity, 1., .5, 1e5, signs. Of
    // these, C's strtod refuses nothing; both refuse blanks inside and hexadecimal is not offered.
    let trimmed = text.trim_matches(is_space);
    trimmed.parse().ok()
}

/// Decides whether an infinite or zero result came from digits with another meaning.
fn lost(text: &str, zero: bool) -> bool {
    let trimmed = text.trim_matches(is_space).trim_start_matches(['+', '-']);
    if zero {
        let mantissa = trimmed.split(['e', 'E']).next().unwrap_or(trimmed);
        mantissa.bytes().any(|byte| matches!(byte, b'1'..=b'9'))
    } else {
        trimmed.starts_with(|first: char| first.is_ascii_digit() || first == '.')
    }
}

/// Appends `value` as PostgreSQL shows it. With `extra_float_digits` above 0, that is the shortest
/// text that reads back as the same number. Otherwise it has 15 significant digits (fewer if the
/// setting is negative).
pub fn write_float8(value: f64, extra_float_digits: i32, out: &mut Vec<u8>) {
    if special(value, out) {
        return;
    }
    let magnitude = value.abs();
    let mut buffer = Scientific::default();
    let limit = significant(extra_float_digits, 15);
    if let Some(digits) = limit {
        buffer.write(format_args!("{:.*e}", digits - 1, magnitude));
    } else {
        let bits = magnitude.to_bits();
        let (exponent, fraction) = ((bits >> 52) as i32, bits & ((1 << 52) - 1));
        // Subnormals have the exponent of the smallest normal number, and no leading one.
        let leading = u64::from(exponent != 0) << 52;
        buffer.write_shortest(magnitude, fraction | leading, exponent.max(1) - 1075, 53);
    }
    layout(value.is_sign_negative(), &buffer, limit.unwrap_or(15), out);
}

/// Appends `value` as PostgreSQL shows it, as [`write_float8`] with 6 significant digits.
pub fn write_float4(value: f32, extra_float_digits: i32, out: &mut Vec<u8>) {
    if special(value.into(), out) {
        return;
    }
    let magnitude = value.abs();
    let mut buffer = Scientific::default();
    let limit = significant(extra_float_digits, 6);
    if let Some(digits) = limit {
        buffer.write(format_args!("{:.*e}", digits - 1, magnitude));
    } else {
        let bits = magnitude.to_bits();
        let (exponent, fraction) = ((bits >> 23) as i32, bits & ((1 << 23) - 1));
        let leading = u32::from(exponent != 0) << 23;
        let mantissa = u64::from(fraction | leading);
        buffer.write_shortest(magnitude, mantissa, exponent.max(1) - 150, 24);
    }
    layout(value.is_sign_negative(), &buffer, limit.unwrap_or(6), out);
}

/// A number as `d.ddde±x`, on the stack.
#[derive(Default)]
struct Scientific {
    bytes: [u8; 32],
    length: usize,
}

impl Scientific {
    fn write(&mut self, arguments: std::fmt::Arguments<'_>) {
        let mut rest = &mut self.bytes[..];
        let written = rest.write_fmt(arguments);
        debug_assert!(written.is_ok(), "17 digits, a point and an exponent fit");
        let left = rest.len();
        self.length = self.bytes.len() - left;
    }

    /// Writes the shortest text that reads back as `value`, which is `mantissa * 2^exponent`.
    /// `bits` is the width of a full mantissa. Where Rust chooses other digits, this gives
    /// PostgreSQL's choice.
    fn write_shortest<F>(&mut self, value: F, mantissa: u64, exponent: i32, bits: u32)
    where
        F: Copy + PartialEq + std::fmt::LowerExp + std::str::FromStr,
    {
        self.write(format_args!("{value:e}"));
        if mantissa == 0 {
            return;
        }
        let reads_back = |text: &Self| text.text().parse().is_ok_and(|read: F| read == value);
        // A text half-way to a neighbour reads back only because ties go to even; PostgreSQL does
        // not rely on that and shows more digits.
        if self.is_half_way(mantissa, exponent, bits) {
            for digits in 1..17usize {
                self.write(format_args!("{value:.digits$e}"));
                if reads_back(self) && !self.is_half_way(mantissa, exponent, bits) {
                    return;
                }
            }
        }
        // When two texts are equally near, the last digit is even. They are equally near if the
        // exact decimal form has just one digit more, which is then a five. That form has as many
        // decimal places as the number has binary places.
        let (_, count, first) = self.parts();
        let binary_places = -exponent - mantissa.trailing_zeros() as i32;
        let decimal_places = count as i32 - 1 - first;
        if binary_places > 0 && binary_places == decimal_places + 1 {
            let mut even = Self::default();
            even.write(format_args!("{:.*e}", count - 1, value));
            if reads_back(&even) {
                *self = even;
            }
        }
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or("0e0")
    }

    /// Returns the digits before the exponent without point and trailing zeros, their count, and
    /// the exponent of the first.
    fn parts(&self) -> ([u8; 32], usize, i32) {
        let text = &self.bytes[..self.length];
        let at = text.iter().position(|byte| *byte == b'e').unwrap_or(text.len());
        let exponent = std::str::from_utf8(text.get(at + 1..).unwrap_or_default())
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(0);
        let mut digits = [b'0'; 32];
        let mut count = 0;
        for byte in text[..at].iter().filter(|byte| **byte != b'.') {
            digits[count] = *byte;
            count += 1;
        }
        while count > 1 && digits[count - 1] == b'0' {
            count -= 1;
        }
        (digits, count, exponent)
    }

    /// Decides whether the text is exactly half-way between the number `mantissa * 2^exponent` and
    /// one of its neighbours; `bits` is the width of a full mantissa.
    fn is_half_way(&self, mantissa: u64, exponent: i32, bits: u32) -> bool {
        // Only even mantissas win ties, and only integers have so short a half-way point.
        if mantissa % 2 == 1 || exponent < 1 {
            return false;
        }
        let (digits, count, first) = self.parts();
        let power = first + 1 - count as i32;
        if !(0..=23).contains(&power) {
            return false;
        }
        // With the factor 2^power taken off both sides: digits * 5^power = half * 2^shift.
        let whole =
            digits[..count].iter().fold(0u128, |n, digit| n * 10 + u128::from(digit - b'0'));
        let text = whole * 5u128.pow(power.unsigned_abs());
        let equals = |half: u64, half_exponent: i32| {
            let shift = half_exponent - power;
            let half = u128::from(half);
            if shift >= 0 {
                shift < 64 && half << shift == text
            } else {
                shift > -40 && text.checked_shl(shift.unsigned_abs()) == Some(half)
            }
        };
        // Below a power of two the neighbour is only half as far.
        let below = if mantissa == 1 << (bits - 1) {
            equals(4 * mantissa - 1, exponent - 2)
        } else {
            equals(2 * mantissa - 1, exponent - 1)
        };
        below || equals(2 * mantissa + 1, exponent - 1)
    }
}

/// Returns the significant digits asked for; `None` for the shortest exact text.
fn significant(extra_float_digits: i32, base: i32) -> Option<usize> {
    if extra_float_digits > 0 {
        return None;
    }
    Some((base + extra_float_digits).max(1).unsigned_abs() as usize)
}

fn special(value: f64, out: &mut Vec<u8>) -> bool {
    if value.is_nan() {
        out.extend_from_slice(b"NaN");
    } else if value.is_infinite() {
        out.extend_from_slice(if value < 0.0 { b"-Infinity" } else { b"Infinity" });
    } else {
        return false;
    }
    true
}

/// Rearranges `d.ddde±x` into PostgreSQL's form. The form is plain where the exponent is from -4 to
/// below `plain_below`. Otherwise it has an exponent of a sign and two digits at least.
fn layout(negative: bool, scientific: &Scientific, plain_below: usize, out: &mut Vec<u8>) {
    let (digits, count, exponent) = scientific.parts();
    let digits = &digits[..count];
    if negative {
        out.push(b'-');
    }
    if exponent < -4 || exponent >= plain_below as i32 {
        out.push(digits[0]);
        if count > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..]);
        }
        out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
        if exponent.abs() < 10 {
            out.push(b'0');
        }
        out.extend_from_slice(itoa::Buffer::new().format(exponent.unsigned_abs()).as_bytes());
    } else if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.resize(out.len() + (-1 - exponent) as usize, b'0');
        out.extend_from_slice(digits);
    } else {
        let whole = exponent as usize + 1;
        if count <= whole {
            out.extend_from_slice(digits);
            out.resize(out.len() + (whole - count), b'0');
        } else {
            out.extend_from_slice(&digits[..whole]);
            out.push(b'.');
            out.extend_from_slice(&digits[whole..]);
        }
    }
}
