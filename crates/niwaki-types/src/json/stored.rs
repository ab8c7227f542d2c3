//! The stored form of `jsonb`, which the README describes byte by byte.
#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::sync::Arc;

use super::json_tree::{Jsonb, key_order};
use super::parse::JSON_DEPTH_MAX;
use crate::error::{Result, TypeError};
use crate::numeric::Numeric;

/// Kinds of values, in the upper three bits of a head.
const NULL: u8 = 0;
const FALSE: u8 = 1;
const TRUE: u8 = 2;
const NUMBER: u8 = 3;
const STRING: u8 = 4;
const ARRAY: u8 = 5;
const OBJECT: u8 = 6;

/// Number of bits of a head that hold a length.
const LENGTH_BITS: u32 = 5;
/// Tag when the length follows in one byte; the next two: in two or four bytes.
const IN_ONE: u8 = 29;
const IN_TWO: u8 = 30;
const IN_FOUR: u8 = 31;

impl Jsonb {
    /// Appends the stored form.
    pub(crate) fn write_stored(&self, out: &mut Vec<u8>) {
        match self {
            Self::Null => write_head(NULL, 0, out),
            Self::Bool(false) => write_head(FALSE, 0, out),
            Self::Bool(true) => write_head(TRUE, 0, out),
            Self::Number(number) => {
                let mut bytes = Vec::new();
                number.write_stored(&mut bytes);
                write_head(NUMBER, bytes.len(), out);
                out.extend_from_slice(&bytes);
            }
            Self::String(text) => write_string(text, out),
            Self::Array(array) => {
                write_head(ARRAY, array.items().len(), out);
                array.items().iter().for_each(|item| item.write_stored(out));
            }
            Self::Object(object) => {
                write_head(OBJECT, object.pairs().len(), out);
                for (key, value) in object.pairs() {
                    write_string(key, out);
                    value.write_stored(out);
                }
            }
        }
    }

    /// Reads all of `bytes` as the stored form of a value.
    ///
    /// # Errors
    /// `XX001` when the bytes are not in the form of [`Jsonb::write_stored`].
    pub(crate) fn from_stored(bytes: &[u8]) -> Result<Arc<Self>> {
        let mut reader = Reader { rest: bytes };
        let value = reader.value(JSON_DEPTH_MAX)?;
        if !reader.rest.is_empty() {
            return Err(TypeError::corrupt("stored jsonb has bytes after its end"));
        }
        Ok(Arc::new(value))
    }
}

fn write_string(text: &str, out: &mut Vec<u8>) {
    write_head(STRING, text.len(), out);
    out.extend_from_slice(text.as_bytes());
}

/// Appends a kind and a length in the shortest form.
fn write_head(kind: u8, length: usize, out: &mut Vec<u8>) {
    let kind = kind << LENGTH_BITS;
    if let Some(length) = u8::try_from(length).ok().filter(|length| *length < IN_ONE) {
        out.push(kind | length);
    } else if let Ok(length) = u8::try_from(length) {
        out.extend_from_slice(&[kind | IN_ONE, length]);
    } else if let Ok(length) = u16::try_from(length) {
        out.push(kind | IN_TWO);
        out.extend_from_slice(&length.to_le_bytes());
    } else {
        let length = u32::try_from(length).expect("a value is shorter than 4 GiB");
        out.push(kind | IN_FOUR);
        out.extend_from_slice(&length.to_le_bytes());
    }
}

/// Takes values from the front of stored bytes.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (front, rest) = self.rest.split_first_chunk::<N>().ok_or_else(ended)?;
        self.rest = rest;
        Ok(*front)
    }

    fn take_slice(&mut self, length: usize) -> Result<&'a [u8]> {
        let (front, rest) = self.rest.split_at_checked(length).ok_or_else(ended)?;
        self.rest = rest;
        Ok(front)
    }

    /// Reads a kind and a length, in its shortest form.
    fn head(&mut self) -> Result<(u8, usize)> {
        let [head] = self.take()?;
        let kind = head >> LENGTH_BITS;
        let short = head & ((1 << LENGTH_BITS) - 1);
        let (length, least) = match short {
            IN_ONE => (u32::from(u8::from_le_bytes(self.take()?)), u32::from(IN_ONE)),
            IN_TWO => (u32::from(u16::from_le_bytes(self.take()?)), 1 << 8),
            IN_FOUR => (u32::from_le_bytes(self.take()?), 1 << 16),
            short => (u32::from(short), 0),
        };
        if length < least {
            return Err(TypeError::corrupt(
                "stored jsonb has a length that is not in its shortest form",
            ));
        }
        Ok((kind, usize::try_from(length).map_err(|_| ended())?))
    }

    /// Checks a count of parts that take at least `bytes` each: a wrong count asks for no more
    /// memory than the input has bytes.
    fn check_count(&self, count: usize, bytes: usize) -> Result<()> {
        if count.saturating_mul(bytes) > self.rest.len() { Err(ended()) } else { Ok(()) }
    }

    fn text(&mut self, length: usize) -> Result<Arc<str>> {
        let bytes = self.take_slice(length)?;
        let text = std::str::from_utf8(bytes).ok().filter(|_| !bytes.contains(&0));
        text.map(Arc::from)
            .ok_or_else(|| TypeError::corrupt("stored jsonb has a string that is no text"))
    }

    /// Reads the next value, which has no more than `levels`.
    fn value(&mut self, levels: u16) -> Result<Jsonb> {
        let (kind, length) = self.head()?;
        Ok(match kind {
            NULL if length == 0 => Jsonb::Null,
            FALSE if length == 0 => Jsonb::Bool(false),
            TRUE if length == 0 => Jsonb::Bool(true),
            NUMBER => {
                let number = Numeric::from_stored(self.take_slice(length)?)?;
                if !number.is_finite() {
                    return Err(TypeError::corrupt("stored jsonb has a number that is none"));
                }
                Jsonb::Number(number)
            }
            STRING => Jsonb::String(self.text(length)?),
            ARRAY => {
                let levels = levels.checked_sub(1).ok_or_else(too_deep)?;
                self.check_count(length, 1)?;
                let items = (0..length).map(|_| self.value(levels).map(Arc::new));
                Jsonb::array(items.collect::<Result<_>>()?)?
            }
            OBJECT => {
                let levels = levels.checked_sub(1).ok_or_else(too_deep)?;
                self.check_count(length, 2)?;
                let mut pairs: Vec<(Arc<str>, Arc<Jsonb>)> = Vec::new();
                for _ in 0..length {
                    let (STRING, bytes) = self.head()? else {
                        return Err(TypeError::corrupt("stored jsonb has a key that is no string"));
                    };
                    let key = self.text(bytes)?;
                    if pairs.last().is_some_and(|(last, _)| key_order(last, &key).is_ge()) {
                        return Err(TypeError::corrupt("stored jsonb has keys out of order"));
                    }
                    pairs.push((key, Arc::new(self.value(levels)?)));
                }
                Jsonb::object(pairs)?
            }
            other => {
                return Err(TypeError::corrupt(format!(
                    "stored jsonb has the unknown kind {other} of length {length}"
                )));
            }
        })
    }
}

#[cold]
fn ended() -> TypeError {
    TypeError::corrupt("stored jsonb ends inside a value")
}

#[cold]
fn too_deep() -> TypeError {
    TypeError::corrupt("stored jsonb has too many levels")
}
