//! The order-preserving encoding of index keys.
//!
//! Comparing encodings byte by byte compares the values, so the index itself knows no types.
//!
//! A column's encoding is a marker byte (NULL or not, placed by `nulls_first`), then the value. The
//! value's bytes are inverted when the column is descending. No encoding is a proper prefix of
//! another one of the same column: fixed types have one length, the others a terminator.
//!
//! This file has the values without parts. The others are in `jsonb`, `array_key` and `record_key`.
#![deny(clippy::indexing_slicing)]

mod array_key;
mod jsonb;
mod record_key;
#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "a test that panics has failed, as it should")]
mod tests;

use std::sync::Arc;

use crate::error::{Result, TypeError};
use crate::moment::time_of_day::{TimeTz, stored_time};
use crate::numeric::Numeric;
use crate::types::oid::TypeOid;
use crate::value::compare::{bpchar_trimmed_bytes, canonical_bits};
use crate::value::datum::Datum;
use crate::value::key_order::KeyOrder;

/// Marker of NULL where NULLs come first.
pub const MARKER_NULL_FIRST: u8 = 0x10;
/// Marker before a value.
pub const MARKER_VALUE: u8 = 0x20;
/// Marker of NULL where NULLs come last.
pub const MARKER_NULL_LAST: u8 = 0x30;

/// Ends text, and the digits of a numeric.
const END: u8 = 0x00;
/// In `bytea`, stands before an [`END`] that is a byte of the value itself.
const ESCAPE: u8 = 0x00;
/// In `bytea`, after [`ESCAPE`]: a zero byte of the value.
const ESCAPED_ZERO: u8 = 0x01;

/// First byte of a numeric.
const NUMERIC_NEGATIVE_INFINITY: u8 = 0x08;
const NUMERIC_NEGATIVE: u8 = 0x10;
const NUMERIC_ZERO: u8 = 0x20;
const NUMERIC_POSITIVE: u8 = 0x30;
const NUMERIC_INFINITY: u8 = 0x38;
const NUMERIC_NAN: u8 = 0x40;
/// Bias that makes every exponent of a numeric (-16383..=131071) a positive number of three bytes.
const NUMERIC_EXPONENT_BIAS: i32 = 1 << 20;

/// Appends the order-preserving encoding of `value`: comparing encodings byte by byte gives the
/// column's order. Equal encodings mean equal under the operator class. No encoding is a proper
/// prefix of another one of the same column.
///
/// `value` must be of the type `order.oid` (or NULL); encodings of different types do not compare.
#[inline]
pub fn encode_key(value: &Datum, order: KeyOrder, out: &mut Vec<u8>) {
    match value {
        Datum::Int4(value) => {
            let bits = (*value as u32 ^ (1 << 31)) ^ inversion(order) as u32;
            let [a, b, c, d] = bits.to_be_bytes();
            out.extend_from_slice(&[MARKER_VALUE, a, b, c, d]);
        }
        Datum::Int8(value) => {
            let bits = (*value as u64 ^ (1 << 63)) ^ inversion(order);
            let [a, b, c, d, e, f, g, h] = bits.to_be_bytes();
            out.extend_from_slice(&[MARKER_VALUE, a, b, c, d, e, f, g, h]);
        }
        Datum::Null => {
            out.push(if order.nulls_first { MARKER_NULL_FIRST } else { MARKER_NULL_LAST });
        }
        _ => encode_other(value, order, out),
    }
}

/// Returns all ones for a descending column, else zero.
#[inline]
fn inversion(order: KeyOrder) -> u64 {
    if order.descending { u64::MAX } else { 0 }
}

fn encode_other(value: &Datum, order: KeyOrder, out: &mut Vec<u8>) {
    out.push(MARKER_VALUE);
    let start = out.len();
    match value {
        Datum::Null => {}
        Datum::Bool(value) => out.push((*value).into()),
        Datum::Int2(value) => out.extend_from_slice(&(*value as u16 ^ (1 << 15)).to_be_bytes()),
        Datum::Int4(value) => out.extend_from_slice(&(*value as u32 ^ (1 << 31)).to_be_bytes()),
        Datum::Int8(value) => out.extend_from_slice(&(*value as u64 ^ (1 << 63)).to_be_bytes()),
        Datum::Float4(value) => {
            // Every float4 is a float8, so the narrow image of its canonical form is exact.
            let bits = if *value == 0.0 {
                0
            } else if value.is_nan() {
                f32::NAN.to_bits() & !(1 << 31)
            } else {
                value.to_bits()
            };
            let flip = if bits >> 31 == 1 { u32::MAX } else { 1 << 31 };
            out.extend_from_slice(&(bits ^ flip).to_be_bytes());
        }
        Datum::Float8(value) => {
            let bits = canonical_bits(*value);
            let flip = if bits >> 63 == 1 { u64::MAX } else { 1 << 63 };
            out.extend_from_slice(&(bits ^ flip).to_be_bytes());
        }
        Datum::Numeric(value) => encode_numeric(value, out),
        Datum::Text(value) => push_text(value.as_bytes(), order, out),
        Datum::Bytea(value) => {
            for byte in value.iter() {
                out.push(*byte);
                if *byte == ESCAPE {
                    out.push(ESCAPED_ZERO);
                }
            }
            out.extend_from_slice(&[ESCAPE, END]);
        }
        Datum::Date(value) => out.extend_from_slice(&(*value as u32 ^ (1 << 31)).to_be_bytes()),
        Datum::Timestamp(value) | Datum::TimestampTz(value) | Datum::Time(value) => {
            out.extend_from_slice(&(*value as u64 ^ (1 << 63)).to_be_bytes());
        }
        Datum::TimeTz(value) => {
            out.extend_from_slice(&(value.moment() as u64 ^ (1 << 63)).to_be_bytes());
            out.extend_from_slice(&(value.west as u32 ^ (1 << 31)).to_be_bytes());
        }
        Datum::Uuid(value) => out.extend_from_slice(value),
        Datum::Interval(value) => {
            let span = value.comparable() as u128 ^ (1 << 127);
            out.extend_from_slice(&span.to_be_bytes());
        }
        Datum::Oid(value) => out.extend_from_slice(&value.to_be_bytes()),
        Datum::Tid(block, offset) => {
            out.extend_from_slice(&block.to_be_bytes());
            out.extend_from_slice(&offset.to_be_bytes());
        }
        Datum::Lsn(value) | Datum::Enum(_, value) => {
            out.extend_from_slice(&value.to_be_bytes());
        }
        Datum::Jsonb(value) => jsonb::encode(value, out),
        Datum::Array(element, array) => array_key::encode(*element, array, out),
        Datum::Record(_, value) => record_key::encode(value, out),
    }
    if order.descending {
        out.iter_mut().skip(start).for_each(|byte| *byte = !*byte);
    }
}

/// Returns the bytes of a text that its key has: `char(n)` goes without trailing blanks.
#[inline]
fn text_of_key(text: &[u8], order: KeyOrder) -> &[u8] {
    if order.oid == TypeOid::BPCHAR { bpchar_trimmed_bytes(text) } else { text }
}

fn push_text(text: &[u8], order: KeyOrder, out: &mut Vec<u8>) {
    let text = text_of_key(text, order);
    debug_assert!(!text.contains(&END), "text never holds a zero byte");
    out.extend_from_slice(text);
    out.push(END);
}

/// Does [`encode_key`] on the bytes of a text, without making a value.
pub(crate) fn encode_text_key(text: &[u8], order: KeyOrder, out: &mut Vec<u8>) {
    out.push(MARKER_VALUE);
    let start = out.len();
    push_text(text, order, out);
    if order.descending {
        out.iter_mut().skip(start).for_each(|byte| *byte = !*byte);
    }
}

/// Does [`encode_key`] on a number, without making a value.
pub(crate) fn encode_numeric_key(number: &Numeric, order: KeyOrder, out: &mut Vec<u8>) {
    out.push(MARKER_VALUE);
    let start = out.len();
    encode_numeric(number, out);
    if order.descending {
        out.iter_mut().skip(start).for_each(|byte| *byte = !*byte);
    }
}

/// Returns the rest of `key` behind the key of this value, if `key` begins with it.
#[inline]
pub fn strip_key<'k>(value: &Datum, order: KeyOrder, key: &'k [u8]) -> Option<&'k [u8]> {
    match value {
        Datum::Int4(value) => {
            let bits = (*value as u32 ^ (1 << 31)) ^ inversion(order) as u32;
            key.strip_prefix(&[MARKER_VALUE])?.strip_prefix(&bits.to_be_bytes())
        }
        Datum::Int8(value) => {
            let bits = (*value as u64 ^ (1 << 63)) ^ inversion(order);
            key.strip_prefix(&[MARKER_VALUE])?.strip_prefix(&bits.to_be_bytes())
        }
        value => {
            let mut encoded = Vec::new();
            encode_key(value, order, &mut encoded);
            key.strip_prefix(encoded.as_slice())
        }
    }
}

/// Returns the rest of `key` behind the key of this text, if `key` begins with it.
pub(crate) fn strip_text_key<'k>(text: &[u8], order: KeyOrder, key: &'k [u8]) -> Option<&'k [u8]> {
    let key = key.strip_prefix(&[MARKER_VALUE])?;
    let text = text_of_key(text, order);
    let (begin, rest) = key.split_at_checked(text.len())?;
    let (end, rest) = rest.split_first()?;
    let flip = inversion(order) as u8;
    let same = match flip {
        0 => begin == text,
        _ => begin.iter().zip(text).all(|(a, b)| *a == !*b),
    };
    (same && *end == END ^ flip).then_some(rest)
}

/// Appends sign, exponent and digits of a number. The digits stand in pairs, each one more than its
/// value so that [`END`] is below all of them. Trailing zeros are left out, so equal numbers of
/// different scale have one encoding. A negative number has everything after its first byte
/// inverted.
fn encode_numeric(value: &Numeric, out: &mut Vec<u8>) {
    let negative = value.is_negative();
    if value.is_nan() {
        return out.push(NUMERIC_NAN);
    }
    if value.is_infinite() {
        return out.push(if negative { NUMERIC_NEGATIVE_INFINITY } else { NUMERIC_INFINITY });
    }
    let Some(exponent) = value.leading_exponent() else { return out.push(NUMERIC_ZERO) };
    out.push(if negative { NUMERIC_NEGATIVE } else { NUMERIC_POSITIVE });
    let start = out.len();
    let [_, a, b, c] = (exponent + NUMERIC_EXPONENT_BIAS).to_be_bytes();
    out.extend_from_slice(&[a, b, c]);
    value.with_decimal_digits(|digits| {
        let kept = digits.iter().rposition(|digit| *digit != b'0').map_or(0, |last| last + 1);
        for pair in digits.get(..kept).unwrap_or(digits).chunks(2) {
            let value = match *pair {
                [tens, ones] => (tens - b'0') * 10 + (ones - b'0'),
                [tens] => (tens - b'0') * 10,
                _ => 0,
            };
            out.push(value + 1);
        }
    });
    out.push(END);
    if negative {
        out.iter_mut().skip(start).for_each(|byte| *byte = !*byte);
    }
}

/// Decodes one column's key encoding from the front of `bytes`. Returns the value and the number of
/// bytes it took. The value is `None` when the encoding of the type cannot give it back (numeric,
/// float, char(n), interval, jsonb, arrays of them, composite types). Then the value must be read
/// from the table.
///
/// # Errors
/// `XX001` when the bytes are not an encoding of the type.
#[inline]
pub fn decode_key(bytes: &[u8], order: KeyOrder) -> Result<(Option<Datum>, usize)> {
    let (marker, body) = bytes.split_first().ok_or_else(ended)?;
    match (*marker, order.nulls_first) {
        (MARKER_VALUE, _) => {
            let (value, taken) = decode_value(body, order)?;
            Ok((value, taken + 1))
        }
        (MARKER_NULL_FIRST, true) | (MARKER_NULL_LAST, false) => Ok((Some(Datum::Null), 1)),
        (other, _) => {
            Err(TypeError::corrupt(format!("index key has the unknown marker {other:#04x}")))
        }
    }
}

/// Returns the number of bytes at the front of `bytes` that are the first column's encoding.
/// Allocates nothing.
///
/// # Errors
/// `XX001` when the bytes are not an encoding of the type.
#[inline]
pub fn key_length(bytes: &[u8], order: KeyOrder) -> Result<usize> {
    let fixed = match order.oid {
        TypeOid::INT4 | TypeOid::DATE => 5,
        TypeOid::INT8 | TypeOid::TIMESTAMP | TypeOid::TIMESTAMPTZ | TypeOid::TIME => 9,
        TypeOid::UUID => 17,
        _ => 0,
    };
    match bytes.first() {
        Some(&MARKER_VALUE) if fixed > 0 && bytes.len() >= fixed => Ok(fixed),
        Some(&MARKER_VALUE) => other_length(bytes, order),
        _ => Ok(decode_key(bytes, order)?.1),
    }
}

fn other_length(bytes: &[u8], order: KeyOrder) -> Result<usize> {
    let body = bytes.get(1..).unwrap_or_default();
    let flip = inversion(order) as u8;
    Ok(1 + match order.oid {
        text if text.is_text() => {
            body.iter().position(|byte| byte ^ flip == END).ok_or_else(ended)? + 1
        }
        TypeOid::BYTEA => {
            // Every zero byte has another byte behind it, which says whether it ends the value.
            let mut at = 0;
            loop {
                let zero = body.iter().skip(at).position(|byte| byte ^ flip == ESCAPE);
                at += zero.ok_or_else(ended)? + 2;
                match body.get(at - 1).ok_or_else(ended)? ^ flip {
                    END => break at,
                    ESCAPED_ZERO => {}
                    other => {
                        let text = format!("index key has the escape {other}");
                        return Err(TypeError::corrupt(text));
                    }
                }
            }
        }
        _ => decode_value(body, order)?.1,
    })
}

/// Takes `N` bytes from the front, inverted when the column is descending.
#[inline]
fn take<const N: usize>(bytes: &[u8], order: KeyOrder) -> Result<[u8; N]> {
    let front = bytes.first_chunk::<N>().ok_or_else(ended)?;
    let flip = inversion(order) as u8;
    Ok(front.map(|byte| byte ^ flip))
}

fn decode_value(bytes: &[u8], order: KeyOrder) -> Result<(Option<Datum>, usize)> {
    let flip = inversion(order) as u8;
    Ok(match order.oid {
        TypeOid::INT4 => {
            let bits = u32::from_be_bytes(take(bytes, order)?) ^ (1 << 31);
            (Some(Datum::Int4(bits as i32)), 4)
        }
        TypeOid::INT8 => {
            let bits = u64::from_be_bytes(take(bytes, order)?) ^ (1 << 63);
            (Some(Datum::Int8(bits as i64)), 8)
        }
        TypeOid::INT2 => {
            let bits = u16::from_be_bytes(take(bytes, order)?) ^ (1 << 15);
            (Some(Datum::Int2(bits as i16)), 2)
        }
        TypeOid::BOOL => match take(bytes, order)? {
            [0] => (Some(Datum::Bool(false)), 1),
            [1] => (Some(Datum::Bool(true)), 1),
            [other] => {
                return Err(TypeError::corrupt(format!("index key has the boolean {other}")));
            }
        },
        text if text.is_text() => {
            let length = bytes.iter().position(|byte| byte ^ flip == END).ok_or_else(ended)?;
            let text = bytes.get(..length).unwrap_or_default();
            if order.oid == TypeOid::BPCHAR {
                return Ok((None, length + 1));
            }
            let text: Arc<str> = if order.descending {
                let inverted: Vec<u8> = text.iter().map(|byte| !byte).collect();
                utf8(&inverted)?.into()
            } else {
                utf8(text)?.into()
            };
            (Some(Datum::Text(text)), length + 1)
        }
        TypeOid::BYTEA => {
            let (value, taken) = decode_bytea(bytes, flip)?;
            (Some(Datum::Bytea(value.into())), taken)
        }
        TypeOid::FLOAT4 => (None, take::<4>(bytes, order)?.len()),
        TypeOid::FLOAT8 => (None, take::<8>(bytes, order)?.len()),
        TypeOid::INTERVAL => (None, take::<16>(bytes, order)?.len()),
        TypeOid::NUMERIC => (None, numeric_length(bytes, flip)?),
        TypeOid::JSONB => (None, jsonb::length(bytes, flip)?),
        record if record.is_record() => (None, record_key::length(bytes, order)?),
        TypeOid::DATE => {
            let bits = u32::from_be_bytes(take(bytes, order)?) ^ (1 << 31);
            (Some(Datum::Date(bits as i32)), 4)
        }
        TypeOid::TIMESTAMP => {
            let bits = u64::from_be_bytes(take(bytes, order)?) ^ (1 << 63);
            (Some(Datum::Timestamp(bits as i64)), 8)
        }
        TypeOid::TIMESTAMPTZ => {
            let bits = u64::from_be_bytes(take(bytes, order)?) ^ (1 << 63);
            (Some(Datum::TimestampTz(bits as i64)), 8)
        }
        TypeOid::TIME => {
            let bits = u64::from_be_bytes(take(bytes, order)?) ^ (1 << 63);
            (Some(Datum::Time(stored_time(bits as i64)?)), 8)
        }
        TypeOid::TIMETZ => {
            let [a, b, c, d, e, f, g, h, rest @ ..] = take::<12>(bytes, order)?;
            let moment = u64::from_be_bytes([a, b, c, d, e, f, g, h]) ^ (1 << 63);
            let west = (u32::from_be_bytes(rest) ^ (1 << 31)) as i32;
            let TimeTz { time, west } = TimeTz::from_moment(moment as i64, west);
            (Some(Datum::TimeTz(TimeTz { time: stored_time(time)?, west })), 12)
        }
        TypeOid::UUID => (Some(Datum::Uuid(take(bytes, order)?)), 16),
        number if number.is_number_of_object() => {
            (Some(Datum::Oid(u32::from_be_bytes(take(bytes, order)?))), 4)
        }
        TypeOid::TID => {
            let [a, b, c, d, e, f] = take(bytes, order)?;
            let value = Datum::Tid(u32::from_be_bytes([a, b, c, d]), u16::from_be_bytes([e, f]));
            (Some(value), 6)
        }
        oid if oid.is_enum() => {
            (Some(Datum::Enum(oid, u64::from_be_bytes(take(bytes, order)?))), 8)
        }
        TypeOid::PG_LSN => (Some(Datum::Lsn(u64::from_be_bytes(take(bytes, order)?))), 8),
        array => {
            let element = array.element().ok_or_else(|| {
                TypeError::unsupported(format!(
                    "type {} cannot be an index key",
                    array.display_name()
                ))
            })?;
            array_key::decode(bytes, element, order)?
        }
    })
}

fn decode_bytea(bytes: &[u8], flip: u8) -> Result<(Vec<u8>, usize)> {
    let mut value = Vec::new();
    let mut rest = bytes.iter().map(|byte| byte ^ flip);
    let mut taken = 0;
    loop {
        let byte = rest.next().ok_or_else(ended)?;
        taken += 1;
        if byte != ESCAPE {
            value.push(byte);
            continue;
        }
        taken += 1;
        match rest.next().ok_or_else(ended)? {
            END => return Ok((value, taken)),
            ESCAPED_ZERO => value.push(0),
            other => {
                return Err(TypeError::corrupt(format!("index key has the escape {other}")));
            }
        }
    }
}

fn numeric_length(bytes: &[u8], flip: u8) -> Result<usize> {
    let first = bytes.first().ok_or_else(ended)? ^ flip;
    let end = match first {
        NUMERIC_POSITIVE => END ^ flip,
        NUMERIC_NEGATIVE => !END ^ flip,
        NUMERIC_NEGATIVE_INFINITY | NUMERIC_ZERO | NUMERIC_INFINITY | NUMERIC_NAN => return Ok(1),
        other => {
            return Err(TypeError::corrupt(format!("index key has the numeric class {other}")));
        }
    };
    let digits = bytes.get(4..).ok_or_else(ended)?;
    Ok(digits.iter().position(|byte| *byte == end).ok_or_else(ended)? + 5)
}

fn utf8(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes)
        .map_err(|_| TypeError::corrupt("index key has text that is not UTF-8"))
}

#[cold]
fn ended() -> TypeError {
    TypeError::corrupt("index key ends inside a value")
}

/// Decides whether equal values of the type have the same bytes. Then [`decode_key`] gives the
/// value back, and duplicates may share one key.
pub const fn key_equal_is_image_equal(oid: TypeOid) -> bool {
    match oid {
        TypeOid::NUMERIC
        | TypeOid::JSONB
        | TypeOid::FLOAT4
        | TypeOid::FLOAT8
        | TypeOid::BPCHAR
        | TypeOid::INTERVAL => false,
        // The type alone does not give the types of the fields.
        record if record.is_record() => false,
        array => match array.element() {
            Some(element) => key_equal_is_image_equal(element),
            None => true,
        },
    }
}
