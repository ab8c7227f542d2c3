//! `float4` and `float8` as text.

use std::io::Write;

use super::is_space;
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

/// Whether an infinite or zero result came from digits that say something else.
fn lost(text: &str, zero: bool) -> bool {
    let trimmed = text.trim_matches(is_space).trim_start_matches(['+', '-']);
    if zero {
        let mantissa = trimmed.split(['e', 'E']).next().unwrap_or(trimmed);
        mantissa.bytes().any(|byte| matches!(byte, b'1'..=b'9'))
    } else {
        trimmed.starts_with(|first: char| first.is_ascii_digit() || first == '.')
    }
}

/// Appends `value` as PostgreSQL shows it. With `extra_float_digits` above 0 that is the shortest
/// text that reads back as the same number, else 15 significant digits (fewer if it is negative).
pub fn write_float8(value: f64, extra_float_digits: i32, out: &mut Vec<u8>) {
    if special(value, out) {
        return;
    }
    let mut buffer = [0u8; 40];
    let mut rest = &mut buffer[..];
    let limit = significant(extra_float_digits, 15);
    let written = match limit {
        None => write!(rest, "{:e}", value.abs()),
        Some(digits) => write!(rest, "{:.*e}", digits - 1, value.abs()),
    };
    debug_assert!(written.is_ok(), "a double takes at most 24 bytes");
    let left = rest.len();
    layout(value.is_sign_negative(), &buffer[..40 - left], limit.unwrap_or(15), out);
}

/// Appends `value` as PostgreSQL shows it, as [`write_float8`] with 6 significant digits.
pub fn write_float4(value: f32, extra_float_digits: i32, out: &mut Vec<u8>) {
    if special(value.into(), out) {
        return;
    }
    let mut buffer = [0u8; 40];
    let mut rest = &mut buffer[..];
    let limit = significant(extra_float_digits, 6);
    let written = match limit {
        None => write!(rest, "{:e}", value.abs()),
        Some(digits) => write!(rest, "{:.*e}", digits - 1, value.abs()),
    };
    debug_assert!(written.is_ok(), "a float takes at most 16 bytes");
    let left = rest.len();
    layout(value.is_sign_negative(), &buffer[..40 - left], limit.unwrap_or(6), out);
}

/// Significant digits asked for; `None` for the shortest exact text.
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

/// Rearranges `d.ddde±x` into PostgreSQL's form: plain where the exponent is from -4 to below
/// `plain_below`, else with an exponent of a sign and two digits at least.
fn layout(negative: bool, scientific: &[u8], plain_below: usize, out: &mut Vec<u8>) {
    let at = scientific.iter().position(|byte| *byte == b'e').unwrap_or(scientific.len());
    let (mantissa, exponent) = scientific.split_at(at);
    let exponent: i32 = std::str::from_utf8(exponent.get(1..).unwrap_or_default())
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    let mut digits = [0u8; 40];
    let mut count = 0;
    for byte in mantissa.iter().filter(|byte| **byte != b'.') {
        digits[count] = *byte;
        count += 1;
    }
    // %g shows no trailing zeros, and the shortest form has none.
    while count > 1 && digits[count - 1] == b'0' {
        count -= 1;
    }
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
