//! One value of a stored row.

use std::sync::Arc;

use super::apart::{self, Apart, COMPRESSED_HEAD, ValuePointer};
use super::{array_layout, record_layout};
use crate::error::{Result, TypeError};
use crate::json::json_tree::Jsonb;
use crate::moment::interval::Interval;
use crate::moment::time_of_day::{TimeTz, stored_time};
use crate::numeric::Numeric;
use crate::types::oid::TypeOid;
use crate::value::datum::Datum;
use crate::vector::Vector;

/// Longest length that the one-byte header expresses.
const SHORT_MAX: usize = 0x7f;
/// First byte of a two-byte header; it has the upper six bits of the length.
const MEDIUM: u8 = 0x80;
/// Longest length that the two-byte header expresses.
const MEDIUM_MAX: usize = 0x3fff;
/// A little-endian `u32` length follows.
const LONG: u8 = 0xc0;
/// Tag of a compressed value: a length header, the method, the length of the image and the
/// compressed image follow.
const COMPRESSED: u8 = 0xc1;
/// Tag of an out-of-line value: one byte with the length of a pointer, then the pointer.
const OUT_OF_LINE: u8 = 0xc2;

/// Appends the stored form of `value`, which is not NULL.
#[inline]
pub(super) fn write(oid: TypeOid, value: &Datum, out: &mut Vec<u8>) {
    match (oid, value) {
        (TypeOid::INT4, Datum::Int4(value)) => out.extend_from_slice(&value.to_le_bytes()),
        (TypeOid::INT8, Datum::Int8(value)) => out.extend_from_slice(&value.to_le_bytes()),
        (text, Datum::Text(value)) if text.is_text() => {
            write_length(value.len(), out);
            out.extend_from_slice(value.as_bytes());
        }
        _ => write_other(oid, value, out),
    }
}

fn write_other(oid: TypeOid, value: &Datum, out: &mut Vec<u8>) {
    match (oid, value) {
        (TypeOid::BOOL, Datum::Bool(value)) => out.push((*value).into()),
        (TypeOid::INT2, Datum::Int2(value)) => out.extend_from_slice(&value.to_le_bytes()),
        (TypeOid::FLOAT4, Datum::Float4(value)) => out.extend_from_slice(&value.to_le_bytes()),
        (TypeOid::FLOAT8, Datum::Float8(value)) => out.extend_from_slice(&value.to_le_bytes()),
        (TypeOid::DATE, Datum::Date(value)) => out.extend_from_slice(&value.to_le_bytes()),
        (TypeOid::TIMESTAMP, Datum::Timestamp(value))
        | (TypeOid::TIMESTAMPTZ, Datum::TimestampTz(value))
        | (TypeOid::TIME, Datum::Time(value)) => {
            out.extend_from_slice(&value.to_le_bytes());
        }
        (TypeOid::TIMETZ, Datum::TimeTz(value)) => {
            out.extend_from_slice(&value.time.to_le_bytes());
            out.extend_from_slice(&value.west.to_le_bytes());
        }
        (TypeOid::UUID, Datum::Uuid(value)) => out.extend_from_slice(value),
        (TypeOid::INTERVAL, Datum::Interval(value)) => {
            out.extend_from_slice(&value.micros.to_le_bytes());
            out.extend_from_slice(&value.days.to_le_bytes());
            out.extend_from_slice(&value.months.to_le_bytes());
        }
        (number, Datum::Oid(value)) if number.is_number_of_object() => {
            out.extend_from_slice(&value.to_le_bytes());
        }
        (TypeOid::TID, Datum::Tid(block, offset)) => {
            out.extend_from_slice(&block.to_le_bytes());
            out.extend_from_slice(&offset.to_le_bytes());
        }
        (oid, Datum::Enum(kind, value)) if oid == *kind => {
            out.extend_from_slice(&value.to_le_bytes());
        }
        // Of system relations only.
        (TypeOid::ACLITEM | TypeOid::PG_NODE_TREE, Datum::Text(value)) => {
            write_length(value.len(), out);
            out.extend_from_slice(value.as_bytes());
        }
        (TypeOid::PG_LSN, Datum::Lsn(value)) => out.extend_from_slice(&value.to_le_bytes()),
        (TypeOid::BYTEA, Datum::Bytea(value)) => {
            write_length(value.len(), out);
            out.extend_from_slice(value);
        }
        (TypeOid::NUMERIC, Datum::Numeric(value)) => {
            write_counted(out, |out| value.write_stored(out));
        }
        (TypeOid::JSONB, Datum::Jsonb(value)) => {
            write_counted(out, |out| value.write_stored(out));
        }
        (array, Datum::Array(element, values)) if array.element() == Some(*element) => {
            write_counted(out, |out| array_layout::write_array(*element, values, out));
        }
        (oid, Datum::Record(kind, value)) if oid == *kind && oid.is_composite() => {
            write_counted(out, |out| record_layout::write_record(value, out));
        }
        _ => panic!("a value of type {} is {value:?}", oid.display_name()),
    }
}

/// Appends the bytes that `body` writes, with their length before them.
pub(super) fn write_counted(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    // Most lengths are short: leave one byte for the length, and make room if that was not enough.
    out.push(0);
    let body_start = out.len();
    body(out);
    let length = out.len().saturating_sub(body_start);
    let mut header = Vec::new();
    write_length(length, &mut header);
    out.splice(start..body_start, header);
}

/// Appends the stored form of a compressed or out-of-line value.
pub(super) fn write_apart(value: &Apart<'_>, out: &mut Vec<u8>) {
    match value {
        Apart::Compressed { compression, raw_length, bytes } => {
            out.push(COMPRESSED);
            write_length(bytes.len().saturating_add(COMPRESSED_HEAD), out);
            out.push(*compression as u8);
            out.extend_from_slice(&raw_length.to_le_bytes());
            out.extend_from_slice(bytes);
        }
        Apart::OutOfLine(pointer) => {
            out.push(OUT_OF_LINE);
            out.push(ValuePointer::SIZE as u8);
            out.extend_from_slice(&pointer.to_bytes());
        }
    }
}

/// Returns the bytes of the header of a variable-length value of `length` bytes.
pub(super) fn header_length(length: usize) -> usize {
    if length <= SHORT_MAX {
        1
    } else if length <= MEDIUM_MAX {
        2
    } else {
        5
    }
}

/// Appends the header of a variable-length value of `length` bytes.
#[inline]
fn write_length(length: usize, out: &mut Vec<u8>) {
    if length <= SHORT_MAX {
        out.push(length as u8);
    } else if length <= MEDIUM_MAX {
        out.push(MEDIUM | (length >> 8) as u8);
        out.push(length as u8);
    } else {
        let length = u32::try_from(length).expect("a value is shorter than 4 GiB");
        out.push(LONG);
        out.extend_from_slice(&length.to_le_bytes());
    }
}

/// Decides whether stored forms tell values of this type apart: different forms are different
/// values, and different keys. False where equal values are written in several ways (1.0 and 1.00).
/// False too for a form that is one of several (compressed, or out of line).
#[inline]
pub fn form_tells(oid: TypeOid, form: &[u8]) -> bool {
    match oid {
        TypeOid::INT2
        | TypeOid::INT4
        | TypeOid::INT8
        | TypeOid::BOOL
        | TypeOid::OID
        | TypeOid::DATE
        | TypeOid::TIMESTAMP
        | TypeOid::TIMESTAMPTZ
        | TypeOid::UUID => true,
        TypeOid::TEXT | TypeOid::VARCHAR | TypeOid::BYTEA => {
            !matches!(form.first(), Some(&(COMPRESSED | OUT_OF_LINE)))
        }
        _ => false,
    }
}

/// The bytes of a row from which values are taken front to back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(super) fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[inline]
    pub(super) fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (front, rest) = self.rest.split_first_chunk::<N>().ok_or_else(ended)?;
        self.rest = rest;
        Ok(*front)
    }

    #[inline]
    pub(super) fn take_slice(&mut self, length: usize) -> Result<&'a [u8]> {
        let (front, rest) = self.rest.split_at_checked(length).ok_or_else(ended)?;
        self.rest = rest;
        Ok(front)
    }

    /// Takes the next value, if it is compressed or out of line; takes nothing otherwise.
    #[inline]
    pub(super) fn take_apart(&mut self, oid: TypeOid) -> Result<Option<Apart<'a>>> {
        match self.rest.first() {
            Some(&(COMPRESSED | OUT_OF_LINE)) if apart::can_be_apart(oid) => {
                self.take_apart_now().map(Some)
            }
            _ => Ok(None),
        }
    }

    #[cold]
    fn take_apart_now(&mut self) -> Result<Apart<'a>> {
        let [first] = self.take()?;
        if first == COMPRESSED {
            return apart::read_compressed(self);
        }
        let [length] = self.take()?;
        let pointer = self.take_slice(length.into())?;
        ValuePointer::from_bytes(pointer).map(Apart::OutOfLine)
    }

    /// Takes the bytes of a variable-length value without its header.
    #[inline]
    pub(super) fn take_counted(&mut self) -> Result<&'a [u8]> {
        let [first] = self.take()?;
        if usize::from(first) <= SHORT_MAX {
            return self.take_slice(first.into());
        }
        self.take_counted_long(first)
    }

    fn take_counted_long(&mut self, first: u8) -> Result<&'a [u8]> {
        let length = match first {
            LONG => usize::try_from(u32::from_le_bytes(self.take()?)).map_err(|_| ended())?,
            COMPRESSED | OUT_OF_LINE => {
                return Err(TypeError::corrupt(
                    "a value that stands as it is, or not at all, is compressed or out of line",
                ));
            }
            medium if medium < LONG => {
                let [low] = self.take()?;
                usize::from(u16::from_be_bytes([medium & !MEDIUM, low]))
            }
            other => {
                return Err(TypeError::corrupt(format!(
                    "stored row has the unknown length header {other:#04x}"
                )));
            }
        };
        self.take_slice(length)
    }

    /// Takes the stored bytes of the next value, without length header.
    #[inline]
    pub(super) fn take_raw(&mut self, oid: TypeOid) -> Result<&'a [u8]> {
        match oid.fixed_length() {
            Some(length) => self.take_slice(length),
            None => self.take_counted(),
        }
    }

    /// Skips the next value in whatever form.
    #[inline]
    pub(super) fn skip(&mut self, oid: TypeOid) -> Result<()> {
        match oid.fixed_length() {
            // No value of a fixed length is ever apart.
            Some(length) => self.take_slice(length).map(drop),
            None => self.skip_varying(oid),
        }
    }

    fn skip_varying(&mut self, oid: TypeOid) -> Result<()> {
        match self.take_apart(oid)? {
            Some(_) => Ok(()),
            None => self.take_counted().map(drop),
        }
    }

    /// Takes the bytes of the next value in whatever form, with the header or tag that gives the
    /// form.
    #[inline]
    pub(super) fn take_stored(&mut self, oid: TypeOid) -> Result<&'a [u8]> {
        let before = self.rest;
        self.skip(oid)?;
        let taken = before.len().saturating_sub(self.rest.len());
        Ok(before.get(..taken).unwrap_or_default())
    }

    /// Takes the next value.
    #[inline]
    pub(super) fn take_value(&mut self, oid: TypeOid) -> Result<Datum> {
        match oid {
            TypeOid::INT4 => Ok(Datum::Int4(i32::from_le_bytes(self.take()?))),
            TypeOid::INT8 => Ok(Datum::Int8(i64::from_le_bytes(self.take()?))),
            text if text.is_text() => read_text(self.take_counted()?),
            _ => self.take_other(oid),
        }
    }

    /// Takes the bytes of the value, if its type is one of text and it is neither compressed nor
    /// out of line.
    #[inline]
    pub(super) fn take_text(&mut self, oid: TypeOid) -> Result<Option<&'a [u8]>> {
        if oid.is_text() { self.take_counted().map(Some) } else { Ok(None) }
    }

    /// Appends the next value to `out`, a vector of its type. A compressed or out-of-line value is
    /// returned instead.
    #[inline]
    pub(super) fn take_into(
        &mut self,
        oid: TypeOid,
        out: &mut Vector,
    ) -> Result<Option<Apart<'a>>> {
        let before = self.rest;
        let appended = match oid {
            TypeOid::INT4 => out.push_int4(i32::from_le_bytes(self.take()?)),
            TypeOid::INT8 => out.push_int8(i64::from_le_bytes(self.take()?)),
            _ => return self.take_varying_into(oid, out),
        };
        if !appended {
            self.rest = before;
            out.push(&self.take_value(oid)?);
        }
        Ok(None)
    }

    fn take_varying_into(&mut self, oid: TypeOid, out: &mut Vector) -> Result<Option<Apart<'a>>> {
        if let Some(value) = self.take_apart(oid)? {
            return Ok(Some(value));
        }
        let before = self.rest;
        let appended = match oid {
            text if text.is_text() => out.push_text(str_of(self.take_counted()?)?),
            TypeOid::NUMERIC => {
                out.push_numeric(Numeric::from_stored(self.take_counted()?)?);
                true
            }
            _ => false,
        };
        if !appended {
            self.rest = before;
            out.push(&self.take_value(oid)?);
        }
        Ok(None)
    }

    fn take_other(&mut self, oid: TypeOid) -> Result<Datum> {
        Ok(match oid {
            TypeOid::BOOL => match self.take()? {
                [0] => Datum::Bool(false),
                [1] => Datum::Bool(true),
                [other] => {
                    return Err(TypeError::corrupt(format!("stored boolean is {other}")));
                }
            },
            TypeOid::INT2 => Datum::Int2(i16::from_le_bytes(self.take()?)),
            TypeOid::FLOAT4 => Datum::Float4(f32::from_le_bytes(self.take()?)),
            TypeOid::FLOAT8 => Datum::Float8(f64::from_le_bytes(self.take()?)),
            TypeOid::DATE => Datum::Date(i32::from_le_bytes(self.take()?)),
            TypeOid::TIMESTAMP => Datum::Timestamp(i64::from_le_bytes(self.take()?)),
            TypeOid::TIMESTAMPTZ => Datum::TimestampTz(i64::from_le_bytes(self.take()?)),
            TypeOid::INTERVAL => Datum::Interval(Arc::new(Interval {
                micros: i64::from_le_bytes(self.take()?),
                days: i32::from_le_bytes(self.take()?),
                months: i32::from_le_bytes(self.take()?),
            })),
            TypeOid::TIME => Datum::Time(stored_time(i64::from_le_bytes(self.take()?))?),
            TypeOid::TIMETZ => Datum::TimeTz(TimeTz {
                time: stored_time(i64::from_le_bytes(self.take()?))?,
                west: i32::from_le_bytes(self.take()?),
            }),
            TypeOid::UUID => Datum::Uuid(self.take()?),
            TypeOid::ACLITEM | TypeOid::PG_NODE_TREE => read_text(self.take_counted()?)?,
            number if number.is_number_of_object() => Datum::Oid(u32::from_le_bytes(self.take()?)),
            TypeOid::TID => {
                let block = u32::from_le_bytes(self.take()?);
                Datum::Tid(block, u16::from_le_bytes(self.take()?))
            }
            TypeOid::PG_LSN => Datum::Lsn(u64::from_le_bytes(self.take()?)),
            oid if oid.is_enum() => Datum::Enum(oid, u64::from_le_bytes(self.take()?)),
            other => return read_image(other, self.take_counted()?),
        })
    }
}

/// Reads the value of variable length that has this image.
pub(super) fn read_image(oid: TypeOid, image: &[u8]) -> Result<Datum> {
    Ok(match oid {
        text if text.is_text() => read_text(image)?,
        TypeOid::BYTEA => Datum::Bytea(Arc::from(image)),
        TypeOid::NUMERIC => Datum::Numeric(Arc::new(Numeric::from_stored(image)?)),
        TypeOid::JSONB => Datum::Jsonb(Jsonb::from_stored(image)?),
        composite if composite.is_composite() => record_layout::read_record(composite, image, 0)?,
        array => {
            let element = array.element().ok_or_else(|| {
                TypeError::corrupt(format!("stored row has a column of type oid {}", array.0))
            })?;
            array_layout::read_array(element, image, 0)?
        }
    })
}

#[inline]
fn str_of(image: &[u8]) -> Result<&str> {
    std::str::from_utf8(image).map_err(|_| TypeError::corrupt("stored text is not UTF-8"))
}

#[inline]
fn read_text(image: &[u8]) -> Result<Datum> {
    Ok(Datum::Text(Arc::from(str_of(image)?)))
}

#[cold]
pub(super) fn ended() -> TypeError {
    TypeError::corrupt("stored row ends inside a value")
}
