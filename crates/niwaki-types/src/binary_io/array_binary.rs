//! Arrays in the binary format: dimensions, then the elements with their lengths.

use std::sync::Arc;

use super::{Reader, length_word, read_binary, write_binary};
use crate::error::{Result, TypeError, left_over};
use crate::types::column::ColumnType;
use crate::types::oid::TypeOid;
use crate::types::user_types::UserTypes;
use crate::value::array::{
    ARRAY_DIMENSIONS_MAX, Array, Dimension, check_dimensions, too_many_dimensions,
    too_many_elements,
};
use crate::value::datum::Datum;

pub(super) fn write_array(element: TypeOid, array: &Array, types: &UserTypes, out: &mut Vec<u8>) {
    let dimensions = array.dimensions();
    let count = i32::try_from(dimensions.len()).unwrap_or(0);
    out.extend_from_slice(&count.to_be_bytes());
    out.extend_from_slice(&i32::from(array.has_nulls()).to_be_bytes());
    out.extend_from_slice(&element.0.to_be_bytes());
    for dimension in dimensions {
        out.extend_from_slice(&dimension.length.to_be_bytes());
        out.extend_from_slice(&dimension.lower.to_be_bytes());
    }
    for value in array.iter() {
        if value.is_null() {
            out.extend_from_slice(&(-1i32).to_be_bytes());
            continue;
        }
        let mut item = Vec::new();
        write_binary(value, element, types, &mut item);
        out.extend_from_slice(&length_word(item.len()));
        out.extend_from_slice(&item);
    }
}

pub(super) fn read_array(element: ColumnType, bytes: &[u8], types: &UserTypes) -> Result<Datum> {
    let mut reader = Reader(bytes);
    let count = i32::from_be_bytes(reader.take()?);
    let count = usize::try_from(count)
        .map_err(|_| TypeError::invalid_binary(format!("invalid number of dimensions: {count}")))?;
    if count > ARRAY_DIMENSIONS_MAX {
        return Err(too_many_dimensions(count));
    }
    let flags = i32::from_be_bytes(reader.take()?);
    let sent = TypeOid(u32::from_be_bytes(reader.take()?));
    if flags != 0 && flags != 1 {
        return Err(TypeError::invalid_binary("invalid array flags"));
    }
    if sent != element.oid {
        return Err(TypeError::new(
            "42804",
            format!(
                "binary data has array element type {} ({}) instead of expected {} ({})",
                sent.0,
                sent.display_name(),
                element.oid.0,
                element.oid.display_name()
            ),
        ));
    }
    let mut dimensions = Vec::with_capacity(count);
    for _ in 0..count {
        let length = i32::from_be_bytes(reader.take()?);
        let lower = i32::from_be_bytes(reader.take()?);
        let length = u32::try_from(length).map_err(|_| too_many_elements())?;
        dimensions.push(Dimension { length, lower });
    }
    let elements = check_dimensions(&dimensions)?;
    let mut values = Vec::new();
    for _ in 0..elements {
        let length = i32::from_be_bytes(reader.take()?);
        values.push(match usize::try_from(length) {
            Ok(length) => {
                let bytes = reader.take_slice(length).map_err(|_| element_length())?;
                read_binary(element, bytes, types)?
            }
            Err(_) if length == -1 => Datum::Null,
            Err(_) => return Err(element_length()),
        });
    }
    if !reader.0.is_empty() {
        return Err(left_over());
    }
    Ok(Datum::Array(element.oid, Arc::new(Array::new(&dimensions, values)?)))
}

#[cold]
fn element_length() -> TypeError {
    TypeError::invalid_binary("insufficient data left in message")
}
