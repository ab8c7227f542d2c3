//! The stored form of a row.
//!
//! The row begins with the null bitmap, if any value is NULL. Then follow the values that are not
//! NULL, packed without alignment. The README gives every byte.
//!
//! The order: one value (`value`) with containers (`array_layout`, `record_layout`) and forms that
//! are not plain (`apart`), rows of temporary files (`tagged`), comparison by stored bytes
//! (`image_equality`, `record_image`), then reading (`view`).
#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

mod apart;
mod array_layout;
mod image_equality;
mod record_image;
mod record_layout;
pub(crate) mod tagged;
#[cfg(test)]
#[allow(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test that panics has failed, as it should"
)]
mod tests;
mod value;
mod view;

pub use apart::{
    Apart, Compression, IMAGE_MAX, ValuePointer, can_be_apart, compress, compressed_size_in_row,
    decompress, image, size_in_row, value_of_image,
};
pub use tagged::{read_tagged_into, read_tagged_row, write_tagged, write_tagged_row};
pub use value::form_tells;
pub use view::{ColumnMask, Field, KeyPart, RowView};

use crate::types::column::ColumnType;
use crate::value::datum::Datum;

/// Appends the stored form of a row: null bitmap first, only when some value is NULL. Then follows
/// each non-null value, packed without alignment. Variable-length values have a varint length
/// before them. Returns whether there is a null bitmap.
///
/// # Panics
/// If there are more or fewer values than columns, or a value is not of its column's type. The
/// executor has converted each value, and storing another one would make the row unreadable.
pub fn form_row(columns: &[ColumnType], values: &[Datum], out: &mut Vec<u8>) -> bool {
    form_row_apart(columns, values, |_| None, out)
}

/// Does [`form_row`]; a value with a form in `apart`, by column, gets that form instead of its own.
///
/// # Panics
/// As [`form_row`], and if a value has a form that its type cannot have ([`can_be_apart`]).
#[inline]
pub fn form_row_apart<'a>(
    columns: &[ColumnType],
    values: &[Datum],
    apart: impl Fn(usize) -> Option<Apart<'a>>,
    out: &mut Vec<u8>,
) -> bool {
    assert_eq!(columns.len(), values.len(), "a row has a value for each column");
    let has_nulls = values.iter().any(Datum::is_null);
    if has_nulls {
        out.extend(values.chunks(8).map(|eight| {
            eight
                .iter()
                .enumerate()
                .fold(0u8, |bits, (bit, value)| bits | (u8::from(value.is_null()) << bit))
        }));
    }
    for (number, (column, value)) in columns.iter().zip(values).enumerate() {
        if value.is_null() {
            continue;
        }
        match apart(number) {
            Some(form) => {
                assert!(can_be_apart(column.oid), "a value of this type stands in its row");
                value::write_apart(&form, out);
            }
            None => value::write(column.oid, value, out),
        }
    }
    has_nulls
}
