//! Reads and writes sizes in bytes for people.

use niwaki_parse::error::{Result, SqlError};
use niwaki_types::{Datum, Numeric};

use crate::functions::text::strings::{string, text};
use crate::functions::{Function, functions};

/// The units above bytes, each 1024 times the previous one.
const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];

/// Rounds as PostgreSQL does: a unit is used from 10 of it on, halves round away from zero.
fn size_pretty(a: &Datum) -> Result<Datum> {
    let bytes = match a {
        Datum::Int8(bytes) => Numeric::from(*bytes),
        Datum::Numeric(bytes) => Numeric::clone(bytes),
        _ => return Err(SqlError::internal("a size of another type")),
    };
    let below = |value: &Numeric, limit: i32| value.abs() < Numeric::from(limit);
    if below(&bytes, 10_240) {
        return Ok(string(format!("{bytes} bytes")));
    }
    // The value stays in half units until the last step, so that rounding happens once.
    let mut halves = bytes.div_trunc(&Numeric::from(512))?;
    for unit in UNITS {
        if below(&halves, 20_479) || unit == "PB" {
            let away = Numeric::from(if halves.is_negative() { -1 } else { 1 });
            let rounded = halves.add(&away)?.div_trunc(&Numeric::from(2))?;
            return Ok(string(format!("{rounded} {unit}")));
        }
        halves = halves.div_trunc(&Numeric::from(1024))?;
    }
    Err(SqlError::internal("a size beyond all units"))
}

/// Returns the length of the number at the start of a text: sign, digits, fraction, exponent.
fn number_length(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let digits = |from: usize| {
        bytes.get(from..).unwrap_or_default().iter().take_while(|b| b.is_ascii_digit()).count()
    };
    let sign = usize::from(matches!(bytes.first(), Some(b'+' | b'-')));
    let whole = digits(sign);
    let mut end = sign + whole;
    if bytes.get(end) == Some(&b'.') {
        let fraction = digits(end + 1);
        if whole + fraction == 0 {
            return None;
        }
        end += 1 + fraction;
    } else if whole == 0 {
        return None;
    }
    if let Some(b'e' | b'E') = bytes.get(end) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + sign);
        if exponent > 0 {
            end += 1 + sign + exponent;
        }
    }
    Some(end)
}

/// `pg_size_bytes(text)`: reads a number with an optional unit.
fn size_bytes(a: &Datum) -> Result<Datum> {
    let whole = text(a)?;
    let invalid = || SqlError::new("22023", format!("invalid size: \"{whole}\""));
    let blank = |c: char| matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{b}' | '\u{c}');
    let trimmed = whole.trim_start_matches(blank);
    let (number, unit) = trimmed.split_at(number_length(trimmed).ok_or_else(invalid)?);
    let unit = unit.trim_matches(blank);
    let place = UNITS.iter().position(|known| known.eq_ignore_ascii_case(unit));
    let factor = match place {
        Some(place) => 1024i64.pow(u32::try_from(place + 1).unwrap_or(0)),
        None if unit.is_empty() || unit.eq_ignore_ascii_case("bytes") => 1,
        None => {
            return Err(invalid()
                .with_detail(format!("Invalid size unit: \"{unit}\"."))
                .with_hint(
                    "Valid units are \"bytes\", \"kB\", \"MB\", \"GB\", \"TB\", and \"PB\".",
                ));
        }
    };
    let size = Numeric::parse(number)?.mul(&Numeric::from(factor))?;
    Ok(Datum::Int8(size.to_i64()?))
}

pub(crate) const FUNCTIONS: &[Function] = functions! {
    "pg_size_pretty" (INT8) TEXT strict single immutable Unary(size_pretty);
    "pg_size_pretty" (NUMERIC) TEXT strict single immutable Unary(size_pretty);
    "pg_size_bytes" (TEXT) INT8 strict single immutable Unary(size_bytes);
};
