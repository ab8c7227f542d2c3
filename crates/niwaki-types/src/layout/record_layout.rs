//! The stored form of a composite value: the number of fields, then for each its type, a NULL flag,
//! and its value.

use std::sync::Arc;

use super::array_layout;
use super::value::{Cursor, ended, write};
use crate::error::{Result, TypeError};
use crate::types::oid::TypeOid;
use crate::value::datum::Datum;
use crate::value::record::{RECORD_DEPTH_MAX, Record};

/// Bytes of a field that is NULL: no field has fewer.
const FIELD_BYTES_MIN: usize = 5;

pub(super) fn write_record(record: &Record, out: &mut Vec<u8>) {
    // At most 1600, as columns of a table.
    out.extend_from_slice(&(record.values().len() as u16).to_le_bytes());
    for (kind, value) in record.fields() {
        out.extend_from_slice(&kind.0.to_le_bytes());
        out.push(value.is_null().into());
        if !value.is_null() {
            write(kind, value, out);
        }
    }
}

/// Reads the value of a composite type that has this image; `depth` is the number of values it
/// stands in.
///
/// # Errors
/// `XX001`
pub(super) fn read_record(oid: TypeOid, bytes: &[u8], depth: usize) -> Result<Datum> {
    let mut cursor = Cursor::new(bytes);
    let count = usize::from(u16::from_le_bytes(cursor.take()?));
    // A wrong count cannot ask for more memory than there are bytes.
    if count > cursor.rest().len() / FIELD_BYTES_MIN {
        return Err(ended());
    }
    let mut kinds = Vec::with_capacity(count);
    let mut values = Vec::with_capacity(count);
    for _ in 0..count {
        let kind = TypeOid(u32::from_le_bytes(cursor.take()?));
        kinds.push(kind);
        values.push(match cursor.take()? {
            [0] => take_field(&mut cursor, kind, depth)?,
            [1] => Datum::Null,
            [other] => {
                let text = format!("stored composite value has the null mark {other}");
                return Err(TypeError::corrupt(text));
            }
        });
    }
    if !cursor.is_empty() {
        return Err(TypeError::corrupt("stored composite value has bytes after its last field"));
    }
    Ok(Datum::Record(oid, Arc::new(Record::new(kinds, values))))
}

/// Takes the next value, a field of a value nested in `depth` others.
///
/// # Errors
/// `XX001`, also for values nested too deeply: damaged bytes must not take all of the stack.
pub(super) fn take_field(cursor: &mut Cursor<'_>, kind: TypeOid, depth: usize) -> Result<Datum> {
    let element = match kind.element() {
        Some(element) if element.is_composite() => Some(element),
        None if kind.is_composite() => None,
        _ => return cursor.take_value(kind),
    };
    let depth = depth.saturating_add(1);
    if depth > RECORD_DEPTH_MAX {
        return Err(TypeError::corrupt("stored composite values stand in one another too deeply"));
    }
    let image = cursor.take_counted()?;
    match element {
        Some(element) => array_layout::read_array(element, image, depth),
        None => read_record(kind, image, depth),
    }
}
