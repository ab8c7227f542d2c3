//! Values with a tag for their kind: rows in temporary files, whose reader knows no types.
//!
//! A byte tells the kind, then the value stands as in a stored row. Nothing of this outlives a
//! statement.

use std::sync::Arc;

use super::array_layout;
use super::value::{self, Cursor};
use crate::error::{Result, TypeError};
use crate::types::oid::TypeOid;
use crate::value::array::Array;
use crate::value::datum::Datum;
use crate::value::record::Record;

const NULL: u8 = 0;
const ARRAY: u8 = 1;
const ENUM: u8 = 22;
const RECORD: u8 = 23;

/// Most nested values: more than a statement can nest.
const VALUES_DEPTH_MAX: usize = crate::value::record::ROWS_DEPTH_MAX;

/// Kinds of values that are neither NULL nor an array, label or composite value. Each has its byte,
/// and a type whose values are of that kind.
const KINDS: [(u8, TypeOid); 20] = [
    (2, TypeOid::BOOL),
    (3, TypeOid::INT2),
    (4, TypeOid::INT4),
    (5, TypeOid::INT8),
    (6, TypeOid::FLOAT4),
    (7, TypeOid::FLOAT8),
    (8, TypeOid::NUMERIC),
    (9, TypeOid::TEXT),
    (10, TypeOid::BYTEA),
    (11, TypeOid::DATE),
    (12, TypeOid::TIMESTAMP),
    (13, TypeOid::TIMESTAMPTZ),
    (14, TypeOid::INTERVAL),
    (15, TypeOid::TIME),
    (16, TypeOid::TIMETZ),
    (17, TypeOid::UUID),
    (18, TypeOid::OID),
    (19, TypeOid::TID),
    (20, TypeOid::PG_LSN),
    (21, TypeOid::JSONB),
];

#[inline]
fn kind_of(value: &Datum) -> (u8, TypeOid) {
    let place = match value {
        Datum::Null => return (NULL, TypeOid::UNKNOWN),
        Datum::Array(element, _) => return (ARRAY, *element),
        Datum::Enum(oid, _) => return (ENUM, *oid),
        Datum::Record(oid, _) => return (RECORD, *oid),
        Datum::Bool(_) => 0,
        Datum::Int2(_) => 1,
        Datum::Int4(_) => 2,
        Datum::Int8(_) => 3,
        Datum::Float4(_) => 4,
        Datum::Float8(_) => 5,
        Datum::Numeric(_) => 6,
        Datum::Text(_) => 7,
        Datum::Bytea(_) => 8,
        Datum::Date(_) => 9,
        Datum::Timestamp(_) => 10,
        Datum::TimestampTz(_) => 11,
        Datum::Interval(_) => 12,
        Datum::Time(_) => 13,
        Datum::TimeTz(_) => 14,
        Datum::Uuid(_) => 15,
        Datum::Oid(_) => 16,
        Datum::Tid(..) => 17,
        Datum::Lsn(_) => 18,
        Datum::Jsonb(_) => 19,
    };
    KINDS.get(place).copied().unwrap_or((NULL, TypeOid::UNKNOWN))
}

/// Appends a value so that [`read_tagged_row`] reads it back without knowing its type.
#[inline]
pub fn write_tagged(value: &Datum, out: &mut Vec<u8>) {
    let (tag, oid) = kind_of(value);
    out.push(tag);
    match value {
        Datum::Null => {}
        Datum::Array(element, values) => {
            out.extend_from_slice(&element.0.to_le_bytes());
            value::write_counted(out, |out| {
                array_layout::write_dimensions(values.dimensions(), out);
                write_tagged_row(values, out);
            });
        }
        Datum::Enum(oid, _) => {
            out.extend_from_slice(&oid.0.to_le_bytes());
            value::write(*oid, value, out);
        }
        Datum::Record(oid, record) => {
            out.extend_from_slice(&oid.0.to_le_bytes());
            value::write_counted(out, |out| write_record(record, out));
        }
        _ => value::write(oid, value, out),
    }
}

/// Writes the fields, tagged themselves, behind their types. The names follow if the value has its
/// own names.
fn write_record(record: &Record, out: &mut Vec<u8>) {
    let names = record.names();
    out.push(names.is_some().into());
    for (number, (kind, value)) in record.fields().enumerate() {
        out.extend_from_slice(&kind.0.to_le_bytes());
        if let Some(name) = names.and_then(|names| names.get(number)) {
            value::write_counted(out, |out| out.extend_from_slice(name.as_bytes()));
        }
        write_tagged(value, out);
    }
}

fn read_record(oid: TypeOid, bytes: &[u8], depth: usize) -> Result<Datum> {
    if depth > VALUES_DEPTH_MAX {
        return Err(damaged());
    }
    let mut cursor = Cursor::new(bytes);
    let named = cursor.take()? != [0];
    let (mut kinds, mut names, mut values) = (Vec::new(), Vec::new(), Vec::new());
    while !cursor.is_empty() {
        kinds.push(TypeOid(u32::from_le_bytes(cursor.take()?)));
        if named {
            let name = std::str::from_utf8(cursor.take_counted()?).map_err(|_| damaged())?;
            names.push(Arc::from(name));
        }
        values.push(take(&mut cursor, depth)?);
    }
    let record = Record::new(kinds, values);
    let record = if named { record.with_names(Arc::from(names)) } else { record };
    Ok(Datum::Record(oid, Arc::new(record)))
}

/// Appends the values of a row, one after the other, each as [`write_tagged`] writes it.
#[inline]
pub fn write_tagged_row(values: &[Datum], out: &mut Vec<u8>) {
    for value in values {
        write_tagged(value, out);
    }
}

/// Appends the values in `bytes`, up to its end, to `row`.
///
/// # Errors
/// `XX001` for bytes that [`write_tagged`] did not write.
#[inline]
pub fn read_tagged_row(bytes: &[u8], row: &mut Vec<Datum>) -> Result<()> {
    let mut cursor = Cursor::new(bytes);
    while !cursor.is_empty() {
        row.push(take(&mut cursor, 0)?);
    }
    Ok(())
}

/// Puts the values in `bytes`, up to its end, into the first places of `row`; returns their number.
///
/// # Errors
/// As [`read_tagged_row`], and if there are more values than places.
#[inline]
pub fn read_tagged_into(bytes: &[u8], row: &mut [Datum]) -> Result<usize> {
    let mut cursor = Cursor::new(bytes);
    let mut count = 0usize;
    for place in row {
        if cursor.is_empty() {
            break;
        }
        *place = take(&mut cursor, 0)?;
        count = count.saturating_add(1);
    }
    if cursor.is_empty() { Ok(count) } else { Err(damaged()) }
}

#[cold]
fn damaged() -> TypeError {
    TypeError::corrupt("a temporary row has a value of no known kind, or too many values")
}

/// Reads an array whose elements are tagged themselves: no row can be stored for some types, which
/// only the catalog has.
fn read_array(element: TypeOid, bytes: &[u8], depth: usize) -> Result<Datum> {
    let mut cursor = Cursor::new(bytes);
    let (dimensions, count) = array_layout::read_dimensions(&mut cursor)?;
    let mut values = Vec::with_capacity(count);
    while !cursor.is_empty() {
        values.push(match cursor.take()? {
            [ARRAY] => return Err(damaged()),
            [tag] => take_plain(tag, &mut cursor, depth)?,
        });
    }
    let array = Array::stored(&dimensions, values).map_err(|_| damaged())?;
    Ok(Datum::Array(element, Arc::new(array)))
}

/// Takes a value that is no array, behind its tag.
#[inline]
fn take_plain(tag: u8, cursor: &mut Cursor<'_>, depth: usize) -> Result<Datum> {
    if tag == NULL {
        return Ok(Datum::Null);
    }
    if tag == ENUM {
        let oid = TypeOid(u32::from_le_bytes(cursor.take()?));
        return if oid.is_enum() { cursor.take_value(oid) } else { Err(damaged()) };
    }
    if tag == RECORD {
        let oid = TypeOid(u32::from_le_bytes(cursor.take()?));
        let bytes = cursor.take_counted()?;
        return if oid.is_record() {
            read_record(oid, bytes, depth.saturating_add(1))
        } else {
            Err(damaged())
        };
    }
    let place = usize::from(tag).checked_sub(2).ok_or_else(damaged)?;
    let (_, oid) = KINDS.get(place).ok_or_else(damaged)?;
    cursor.take_value(*oid)
}

#[inline]
fn take(cursor: &mut Cursor<'_>, depth: usize) -> Result<Datum> {
    match cursor.take()? {
        [ARRAY] => {
            let element = TypeOid(u32::from_le_bytes(cursor.take()?));
            if element.element().is_some() {
                return Err(damaged());
            }
            read_array(element, cursor.take_counted()?, depth)
        }
        [tag] => take_plain(tag, cursor, depth),
    }
}
