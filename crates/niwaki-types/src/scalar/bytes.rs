//! `bytea` as text: the hex form (`\x…`) and the older escape form.

use crate::error::{Result, TypeError};

/// Reads either form.
///
/// # Errors
/// `22023` for bad hexadecimal digits, `22P02` for a bad escape.
pub(crate) fn parse_bytea(text: &str) -> Result<Vec<u8>> {
    match text.strip_prefix("\\x") {
        Some(hex) => parse_hex(hex),
        None => parse_escape(text.as_bytes()),
    }
}

fn parse_hex(hex: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(hex.len() / 2);
    let mut characters = hex.chars();
    let digit = |character: char| {
        character.to_digit(16).map(|digit| digit as u8).ok_or_else(|| {
            TypeError::new("22023", format!("invalid hexadecimal digit: \"{character}\""))
        })
    };
    while let Some(first) = characters.next() {
        if matches!(first, ' ' | '\n' | '\t' | '\r') {
            continue;
        }
        let high = digit(first)?;
        let second = characters.next().ok_or_else(|| {
            TypeError::new("22023", "invalid hexadecimal data: odd number of digits")
        })?;
        bytes.push(high << 4 | digit(second)?);
    }
    Ok(bytes)
}

fn parse_escape(mut rest: &[u8]) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(rest.len());
    loop {
        rest = match rest {
            [] => return Ok(bytes),
            [b'\\', b'\\', rest @ ..] => {
                bytes.push(b'\\');
                rest
            }
            [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', rest @ ..] => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest
            }
            [b'\\', ..] => {
                return Err(TypeError::new("22P02", "invalid input syntax for type bytea"));
            }
            [byte, rest @ ..] => {
                bytes.push(*byte);
                rest
            }
        };
    }
}

/// Appends the hex form, or the escape form.
pub(crate) fn write_bytea(bytes: &[u8], escape: bool, out: &mut Vec<u8>) {
    if !escape {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        out.reserve(2 + bytes.len() * 2);
        out.extend_from_slice(b"\\x");
        for byte in bytes {
            out.push(DIGITS[usize::from(byte >> 4)]);
            out.push(DIGITS[usize::from(byte & 15)]);
        }
        return;
    }
    for byte in bytes {
        match byte {
            b'\\' => out.extend_from_slice(b"\\\\"),
            0x20..=0x7e => out.push(*byte),
            _ => {
                let octal = |shift: u8| b'0' + (byte >> shift & 7);
                out.extend_from_slice(&[b'\\', octal(6), octal(3), octal(0)]);
            }
        }
    }
}
