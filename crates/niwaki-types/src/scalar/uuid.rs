//! `uuid` as text: 32 hexadecimal digits, shown in groups of 8, 4, 4, 4 and 12.

use crate::error::{Result, TypeError};

/// Reads 32 hexadecimal digits, perhaps in braces. A hyphen may stand after each group of four.
///
/// # Errors
/// `22P02`
pub(crate) fn parse_uuid(text: &str) -> Result<[u8; 16]> {
    read(text).ok_or_else(|| TypeError::invalid_text("uuid", text))
}

fn read(text: &str) -> Option<[u8; 16]> {
    let body = match text.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}')?,
        None => text,
    };
    let mut rest = body.as_bytes();
    let mut value = [0; 16];
    for (number, byte) in value.iter_mut().enumerate() {
        let ([high, low], after) = rest.split_first_chunk()?;
        let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
        *byte = digit(*high)? << 4 | digit(*low)?;
        rest = match after.split_first() {
            // No hyphen stands after the last group.
            Some((b'-', after)) if number % 2 == 1 && number < 15 => after,
            _ => after,
        };
    }
    rest.is_empty().then_some(value)
}

/// Appends the digits in lower case, with hyphens.
pub(crate) fn write_uuid(value: &[u8; 16], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (number, byte) in value.iter().enumerate() {
        if matches!(number, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        out.push(DIGITS[usize::from(byte >> 4)]);
        out.push(DIGITS[usize::from(byte & 15)]);
    }
}
