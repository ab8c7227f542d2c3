//! Functions on byte strings: parts, bits, digests, encodings as text.

use niwaki_parse::error::{Result, SqlError};
use niwaki_types::growing::{TEXT_BYTES_MAX, charge_whole};
use niwaki_types::{Datum, work};

use crate::functions::text::strings::{overlay_bounds, string, text};
use crate::functions::{Function, functions};

fn wrong() -> SqlError {
    SqlError::internal("a function of byte strings was given values of other types")
}

fn bytes(value: &Datum) -> Result<&[u8]> {
    match value {
        Datum::Bytea(bytes) => Ok(bytes),
        _ => Err(wrong()),
    }
}

fn int(value: &Datum) -> Result<i64> {
    match value {
        Datum::Int4(v) => Ok(i64::from(*v)),
        Datum::Int8(v) => Ok(*v),
        _ => Err(wrong()),
    }
}

fn bytea(bytes: impl Into<std::sync::Arc<[u8]>>) -> Datum {
    Datum::Bytea(bytes.into())
}

/// Checks that the index lies within `count`, or returns PostgreSQL's error.
fn place(index: i64, count: usize) -> Result<usize> {
    usize::try_from(index).ok().filter(|index| *index < count).ok_or_else(|| {
        let last = i64::try_from(count).unwrap_or(i64::MAX) - 1;
        SqlError::new("2202E", format!("index {index} out of valid range, 0..{last}"))
    })
}

fn get_byte(value: &Datum, index: &Datum) -> Result<Datum> {
    let bytes = bytes(value)?;
    Ok(Datum::Int4(i32::from(bytes[place(int(index)?, bytes.len())?])))
}

fn set_byte(values: &[Datum]) -> Result<Datum> {
    let [value, index, new] = values else { return Err(wrong()) };
    let mut bytes = bytes(value)?.to_vec();
    let place = place(int(index)?, bytes.len())?;
    bytes[place] = u8::try_from(int(new)? & 0xff).unwrap_or(0);
    Ok(bytea(bytes))
}

/// Returns the byte of a bit, and the bit in that byte; the lowest bit comes first.
fn bit_place(index: i64, bytes: &[u8]) -> Result<(usize, u8)> {
    let place = place(index, bytes.len() * 8)?;
    Ok((place / 8, 1 << (place % 8)))
}

fn get_bit(value: &Datum, index: &Datum) -> Result<Datum> {
    let bytes = bytes(value)?;
    let (place, mask) = bit_place(int(index)?, bytes)?;
    Ok(Datum::Int4(i32::from(bytes[place] & mask != 0)))
}

fn set_bit(values: &[Datum]) -> Result<Datum> {
    let [value, index, new] = values else { return Err(wrong()) };
    let mut bytes = bytes(value)?.to_vec();
    let (place, mask) = bit_place(int(index)?, &bytes)?;
    match int(new)? {
        0 => bytes[place] &= !mask,
        1 => bytes[place] |= mask,
        _ => return Err(SqlError::new("22023", "new bit must be 0 or 1")),
    }
    Ok(bytea(bytes))
}

fn bit_count(value: &Datum) -> Result<Datum> {
    Ok(Datum::Int8(bytes(value)?.iter().map(|byte| i64::from(byte.count_ones())).sum()))
}

fn position(haystack: &Datum, needle: &Datum) -> Result<Datum> {
    let found = memchr::memmem::find(bytes(haystack)?, bytes(needle)?);
    let place = found.map_or(0, |at| at + 1);
    i32::try_from(place)
        .map(Datum::Int4)
        .map_err(|_| crate::functions::number::operators::range("integer"))
}

fn overlay(values: &[Datum]) -> Result<Datum> {
    let [source, new, start, count @ ..] = values else { return Err(wrong()) };
    let (source, new) = (bytes(source)?, bytes(new)?);
    let replaced = match count.first() {
        Some(count) => int(count)?,
        None => i64::try_from(new.len()).unwrap_or(i64::MAX),
    };
    let (before, after) = overlay_bounds(int(start)?, replaced)?;
    let before = source.get(..before).unwrap_or(source);
    let after = source.get(after..).unwrap_or_default();
    charge_whole(before.len() + new.len() + after.len())?;
    Ok(bytea([before, new, after].concat()))
}

fn trim(value: &Datum, set: &Datum, left: bool, right: bool) -> Result<Datum> {
    let mut rest = bytes(value)?;
    let mut set_of = [false; 256];
    bytes(set)?.iter().for_each(|byte| set_of[usize::from(*byte)] = true);
    while left
        && let Some((first, others)) = rest.split_first()
        && set_of[usize::from(*first)]
    {
        rest = others;
    }
    while right
        && let Some((last, others)) = rest.split_last()
        && set_of[usize::from(*last)]
    {
        rest = others;
    }
    Ok(bytea(rest))
}

fn btrim(value: &Datum, set: &Datum) -> Result<Datum> {
    trim(value, set, true, true)
}
fn ltrim(value: &Datum, set: &Datum) -> Result<Datum> {
    trim(value, set, true, false)
}
fn rtrim(value: &Datum, set: &Datum) -> Result<Datum> {
    trim(value, set, false, true)
}

fn md5_hex(value: &Datum) -> Result<Datum> {
    use md5::{Digest, Md5};
    let bytes = match value {
        Datum::Bytea(bytes) => &**bytes,
        _ => text(value)?.as_bytes(),
    };
    let mut digest = Md5::new();
    each_piece(bytes, |piece| digest.update(piece))?;
    Ok(string(hex(&digest.finalize())))
}

/// Passes all bytes on in pieces, with interrupt checks between pieces.
fn each_piece(bytes: &[u8], mut take: impl FnMut(&[u8])) -> Result<()> {
    for piece in bytes.chunks(work::UNITS) {
        work::tick(piece.len())?;
        take(piece);
    }
    Ok(())
}

fn sha224(value: &Datum) -> Result<Datum> {
    use sha2::{Digest, Sha224};
    let mut digest = Sha224::new();
    each_piece(bytes(value)?, |piece| digest.update(piece))?;
    Ok(bytea(digest.finalize().to_vec()))
}
fn sha256(value: &Datum) -> Result<Datum> {
    use sha2::{Digest, Sha256};
    let mut digest = Sha256::new();
    each_piece(bytes(value)?, |piece| digest.update(piece))?;
    Ok(bytea(digest.finalize().to_vec()))
}
fn sha384(value: &Datum) -> Result<Datum> {
    use sha2::{Digest, Sha384};
    let mut digest = Sha384::new();
    each_piece(bytes(value)?, |piece| digest.update(piece))?;
    Ok(bytea(digest.finalize().to_vec()))
}
fn sha512(value: &Datum) -> Result<Datum> {
    use sha2::{Digest, Sha512};
    let mut digest = Sha512::new();
    each_piece(bytes(value)?, |piece| digest.update(piece))?;
    Ok(bytea(digest.finalize().to_vec()))
}

/// Writes bytes as pairs of hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Characters in a line of base64.
const LINE: usize = 76;
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn base64(bytes: &[u8]) -> String {
    let mut result = String::with_capacity(bytes.len() / 3 * 4 + bytes.len() / 57 + 5);
    for (number, group) in bytes.chunks(3).enumerate() {
        let part = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = part(0) << 16 | part(1) << 8 | part(2);
        for (place, shift) in [18u32, 12, 6, 0].into_iter().enumerate() {
            let index = usize::try_from(bits >> shift & 63).unwrap_or(0);
            let shown = if place <= group.len() { BASE64[index] } else { b'=' };
            result.push(char::from(shown));
        }
        // A full line ends even where nothing follows, unless padding filled it.
        if group.len() == 3 && (number + 1) * 4 % LINE == 0 {
            result.push('\n');
        }
    }
    result
}

/// Returns the length of a byte's escaped form.
fn escaped_length(byte: u8) -> usize {
    match byte {
        b'\\' => 2,
        0 | 128.. => 4,
        _ => 1,
    }
}

fn escaped(bytes: &[u8]) -> String {
    let mut result = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'\\' => result.push_str("\\\\"),
            0 | 128.. => result.push_str(&format!("\\{byte:03o}")),
            byte => result.push(char::from(*byte)),
        }
    }
    result
}

fn unrecognized(format: &str) -> SqlError {
    SqlError::new("22023", format!("unrecognized encoding: \"{format}\""))
}

fn encode(value: &Datum, format: &Datum) -> Result<Datum> {
    let (bytes, format) = (bytes(value)?, text(format)?);
    let length = match format.to_ascii_lowercase().as_str() {
        "hex" => bytes.len().saturating_mul(2),
        "base64" => bytes.len() / 3 * 4 + bytes.len() / 57 + 5,
        "escape" => bytes.iter().map(|byte| escaped_length(*byte)).sum(),
        _ => 0,
    };
    if length > TEXT_BYTES_MAX {
        return Err(SqlError::new("54000", "result of encoding conversion is too large"));
    }
    Ok(string(match format.to_ascii_lowercase().as_str() {
        "hex" => hex(bytes),
        "base64" => base64(bytes),
        "escape" => escaped(bytes),
        _ => return Err(unrecognized(format)),
    }))
}

fn decode(source: &Datum, format: &Datum) -> Result<Datum> {
    let (source, format) = (text(source)?, text(format)?);
    Ok(bytea(match format.to_ascii_lowercase().as_str() {
        "hex" => from_hex(source)?,
        "base64" => from_base64(source)?,
        "escape" => from_escaped(source.as_bytes())?,
        _ => return Err(unrecognized(format)),
    }))
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

fn from_hex(source: &str) -> Result<Vec<u8>> {
    let digit = |c: char| {
        c.to_digit(16)
            .and_then(|digit| u8::try_from(digit).ok())
            .ok_or_else(|| SqlError::new("22023", format!("invalid hexadecimal digit: \"{c}\"")))
    };
    let mut result = Vec::with_capacity(source.len() / 2);
    let mut rest = source.chars();
    while let Some(c) = rest.next() {
        // Blanks may stand between bytes, but not within one.
        if is_blank(c) {
            continue;
        }
        let high = digit(c)?;
        let Some(c) = rest.next() else {
            return Err(SqlError::new("22023", "invalid hexadecimal data: odd number of digits"));
        };
        result.push(high << 4 | digit(c)?);
    }
    Ok(result)
}

fn from_base64(source: &str) -> Result<Vec<u8>> {
    let mut result = Vec::with_capacity(source.len() / 4 * 3);
    let mut bits = 0u32;
    let mut count = 0;
    // The number of bytes in the last group.
    let mut last = None;
    for c in source.chars().filter(|c| !is_blank(*c)) {
        let value = if c == '=' {
            if last.is_none() {
                last = match count {
                    2 => Some(1),
                    3 => Some(2),
                    _ => {
                        return Err(SqlError::new(
                            "22023",
                            "unexpected \"=\" while decoding base64 sequence",
                        ));
                    }
                };
            }
            0
        } else {
            let place = BASE64.iter().position(|digit| char::from(*digit) == c);
            place.and_then(|place| u32::try_from(place).ok()).ok_or_else(|| {
                SqlError::new(
                    "22023",
                    format!("invalid symbol \"{c}\" found while decoding base64 sequence"),
                )
            })?
        };
        bits = bits << 6 | value;
        count += 1;
        if count == 4 {
            let [_, group @ ..] = bits.to_be_bytes();
            result.extend_from_slice(&group[..last.unwrap_or(3)]);
            (bits, count) = (0, 0);
        }
    }
    if count != 0 {
        return Err(SqlError::new("22023", "invalid base64 end sequence")
            .with_hint("Input data is missing padding, is truncated, or is otherwise corrupted."));
    }
    Ok(result)
}

fn from_escaped(source: &[u8]) -> Result<Vec<u8>> {
    let mut result = Vec::with_capacity(source.len());
    let mut rest = source;
    while let Some((first, others)) = rest.split_first() {
        rest = match (first, others) {
            (b'\\', [b'\\', rest @ ..]) => {
                result.push(b'\\');
                rest
            }
            (b'\\', [high @ b'0'..=b'3', middle @ b'0'..=b'7', low @ b'0'..=b'7', rest @ ..]) => {
                result.push((high - b'0') << 6 | (middle - b'0') << 3 | (low - b'0'));
                rest
            }
            (b'\\', _) => {
                return Err(SqlError::new("22P02", "invalid input syntax for type bytea"));
            }
            (byte, rest) => {
                result.push(*byte);
                rest
            }
        };
    }
    Ok(result)
}

pub(crate) const FUNCTIONS: &[Function] = functions! {
    "get_byte" (BYTEA, INT4) INT4 strict single immutable Binary(get_byte);
    "set_byte" (BYTEA, INT4, INT4) BYTEA strict single immutable Pure(set_byte);
    "get_bit" (BYTEA, INT8) INT4 strict single immutable Binary(get_bit);
    "set_bit" (BYTEA, INT8, INT4) BYTEA strict single immutable Pure(set_bit);
    "bit_count" (BYTEA) INT8 strict single immutable Unary(bit_count);
    "position" (BYTEA, BYTEA) INT4 strict single immutable Binary(position);
    "overlay" (BYTEA, BYTEA, INT4) BYTEA strict single immutable Pure(overlay);
    "overlay" (BYTEA, BYTEA, INT4, INT4) BYTEA strict single immutable Pure(overlay);
    "btrim" (BYTEA, BYTEA) BYTEA strict single immutable Binary(btrim);
    "ltrim" (BYTEA, BYTEA) BYTEA strict single immutable Binary(ltrim);
    "rtrim" (BYTEA, BYTEA) BYTEA strict single immutable Binary(rtrim);
    "md5" (TEXT) TEXT strict single immutable Unary(md5_hex);
    "md5" (BYTEA) TEXT strict single immutable Unary(md5_hex);
    "sha224" (BYTEA) BYTEA strict single immutable Unary(sha224);
    "sha256" (BYTEA) BYTEA strict single immutable Unary(sha256);
    "sha384" (BYTEA) BYTEA strict single immutable Unary(sha384);
    "sha512" (BYTEA) BYTEA strict single immutable Unary(sha512);
    "encode" (BYTEA, TEXT) TEXT strict single immutable Binary(encode);
    "decode" (TEXT, TEXT) BYTEA strict single immutable Binary(decode);
};
