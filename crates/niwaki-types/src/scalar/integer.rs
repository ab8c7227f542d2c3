//! Integers as text: parsed without allocation, on the path of every text parameter.

use super::space::is_space;
use crate::error::{Result, TypeError};

/// Reads an `int2`: optional blanks, sign, decimal digits.
///
/// # Errors
/// `22P02` for other text, `22003` out of range.
pub fn parse_int2(text: &str) -> Result<i16> {
    parse(text, "smallint")
}

/// Reads an `int4`, as [`parse_int2`].
///
/// # Errors
/// `22P02` for other text, `22003` out of range.
pub fn parse_int4(text: &str) -> Result<i32> {
    parse(text, "integer")
}

/// Reads an `int8`, as [`parse_int2`].
///
/// # Errors
/// `22P02` for other text, `22003` out of range.
pub fn parse_int8(text: &str) -> Result<i64> {
    parse(text, "bigint")
}

#[inline]
fn parse<T: TryFrom<i64>>(text: &str, name: &str) -> Result<T> {
    match accumulate(text) {
        Parsed::Value(value) => T::try_from(value).map_err(|_| out_of_range(text, name)),
        Parsed::TooLarge => Err(out_of_range(text, name)),
        Parsed::Invalid => Err(TypeError::invalid_text(name, text)),
    }
}

enum Parsed {
    Value(i64),
    TooLarge,
    Invalid,
}

fn accumulate(text: &str) -> Parsed {
    let trimmed = text.trim_matches(is_space).as_bytes();
    let (negative, digits) = match trimmed {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return Parsed::Invalid;
    }
    // Counting downwards reaches the smallest number, whose magnitude has no positive form.
    let mut value = 0i64;
    let mut too_large = false;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Parsed::Invalid;
        }
        match value.checked_mul(10).and_then(|value| value.checked_sub(digit.into())) {
            Some(next) => value = next,
            None => too_large = true,
        }
    }
    if too_large {
        return Parsed::TooLarge;
    }
    if negative {
        return Parsed::Value(value);
    }
    value.checked_neg().map_or(Parsed::TooLarge, Parsed::Value)
}

#[cold]
fn out_of_range(text: &str, name: &str) -> TypeError {
    TypeError::new("22003", format!("value \"{text}\" is out of range for type {name}"))
}

/// Reads the number of a transaction as PostgreSQL 15 does, which refuses nothing. As in C, the
/// number is octal behind `0` and hexadecimal behind `0x`. It ends at the first other character,
/// and is at most the largest of 64 bits. The result is its lower 32 bits.
pub(crate) fn parse_xid(text: &str) -> u32 {
    let text = text.trim_start_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']);
    let (negative, digits) = match text.as_bytes() {
        [b'-', ..] => (true, &text[1..]),
        [b'+', ..] => (false, &text[1..]),
        _ => (false, text),
    };
    let is_hex = |rest: &&str| rest.starts_with(|c: char| c.is_ascii_hexdigit());
    let (base, digits) = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(rest) if is_hex(&rest) => (16, rest),
        _ if digits.starts_with('0') => (8, digits),
        _ => (10, digits),
    };
    let mut value = Some(0_u64);
    for digit in digits.chars().map_while(|c| c.to_digit(base)) {
        value = value
            .and_then(|value| value.checked_mul(base.into()))
            .and_then(|value| value.checked_add(digit.into()));
    }
    let value = match value {
        Some(value) if negative => value.wrapping_neg(),
        Some(value) => value,
        None => u64::MAX,
    };
    value as u32
}

/// Reads an unsigned 32-bit number (`oid`), where a negative number of 32 bits stands for
/// its two's complement.
///
/// # Errors
/// `22P02` for other text, `22003` out of range.
pub(crate) fn parse_u32(text: &str, name: &str) -> Result<u32> {
    match accumulate(text) {
        Parsed::Value(value) => u32::try_from(value)
            .or_else(|_| i32::try_from(value).map(|value| value as u32))
            .map_err(|_| out_of_range(text, name)),
        Parsed::TooLarge => Err(out_of_range(text, name)),
        Parsed::Invalid => Err(TypeError::invalid_text(name, text)),
    }
}
