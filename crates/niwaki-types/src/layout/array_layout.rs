//! The stored form of an array: element type, dimensions, elements.

use std::sync::Arc;

use super::record_layout::take_field;
use super::value::{Cursor, ended, write};
use crate::error::{Result, TypeError};
use crate::types::oid::TypeOid;
use crate::value::array::{Array, Dimension, check_dimensions};
use crate::value::datum::Datum;

pub(super) fn write_array(element: TypeOid, array: &Array, out: &mut Vec<u8>) {
    out.extend_from_slice(&element.0.to_le_bytes());
    write_dimensions(array.dimensions(), out);
    for value in array.iter() {
        out.push(value.is_null().into());
        if !value.is_null() {
            write(element, value, out);
        }
    }
}

/// Appends the number of dimensions, then the length and the lower bound of each.
pub(super) fn write_dimensions(dimensions: &[Dimension], out: &mut Vec<u8>) {
    // At most six.
    out.push(dimensions.len() as u8);
    for dimension in dimensions {
        out.extend_from_slice(&dimension.length.to_le_bytes());
        out.extend_from_slice(&dimension.lower.to_le_bytes());
    }
}

/// Reads the array that has this image; `depth` is the number of values it stands in.
///
/// # Errors
/// `XX001`
pub(super) fn read_array(element: TypeOid, bytes: &[u8], depth: usize) -> Result<Datum> {
    let mut cursor = Cursor::new(bytes);
    let stored = TypeOid(u32::from_le_bytes(cursor.take()?));
    if stored != element {
        return Err(TypeError::corrupt(format!(
            "stored array has elements of type oid {}, not {}",
            stored.0, element.0
        )));
    }
    let (dimensions, count) = read_dimensions(&mut cursor)?;
    let mut values = Vec::with_capacity(count);
    for _ in 0..count {
        values.push(match cursor.take()? {
            [0] => take_field(&mut cursor, element, depth)?,
            [1] => Datum::Null,
            [other] => {
                return Err(TypeError::corrupt(format!("stored array has the null mark {other}")));
            }
        });
    }
    if !cursor.is_empty() {
        return Err(TypeError::corrupt("stored array has bytes after its last element"));
    }
    Ok(Datum::Array(element, Arc::new(Array::stored(&dimensions, values).map_err(damaged)?)))
}

/// Reads the dimensions that [`write_dimensions`] wrote. Returns them and the number of elements
/// that follow.
///
/// # Errors
/// `XX001` for dimensions that no array has, and if fewer bytes follow than there are elements.
pub(super) fn read_dimensions(cursor: &mut Cursor<'_>) -> Result<(Vec<Dimension>, usize)> {
    let [count] = cursor.take()?;
    let mut dimensions = Vec::new();
    for _ in 0..count {
        let length = u32::from_le_bytes(cursor.take()?);
        let lower = i32::from_le_bytes(cursor.take()?);
        // Only vectors have an empty dimension.
        if length == 0 && (count > 1 || lower != 0) {
            return Err(TypeError::corrupt("stored array has a dimension without elements"));
        }
        dimensions.push(Dimension { length, lower });
    }
    let count = check_dimensions(&dimensions).map_err(damaged)?;
    // Each element takes at least a byte, so a wrong count cannot ask for more memory than that.
    if count > cursor.rest().len() {
        return Err(ended());
    }
    Ok((dimensions, count))
}

#[cold]
fn damaged(error: TypeError) -> TypeError {
    TypeError::corrupt(format!("stored array: {error}"))
}
