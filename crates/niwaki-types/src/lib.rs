#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod arith;
mod binary_io;
mod cast;
mod column;
mod compare;
pub mod datetime;
mod datum;
mod error;
#[doc(hidden)]
#[cfg(any(test, feature = "hostile"))]
pub mod hostile;
mod key;
mod layout;
mod numeric;
#[cfg(test)]
mod operations_tests;
mod settings;
#[cfg(test)]
mod test_values;
mod text_io;

pub use arith::{ArithmeticOperator, absolute, arithmetic, negate};
pub use binary_io::{read_binary, write_binary};
pub use cast::cast;
pub use column::ColumnType;
pub use compare::{compare, compare_ordered, equal, hash};
pub use datetime::{Interval, MICROS_PER_DAY, TimeZone};
pub use datum::*;
pub use error::{Result, TypeError};
pub use key::{
    KeyOrder, MARKER_NULL_FIRST, MARKER_NULL_LAST, MARKER_VALUE, decode_key, encode_key,
    key_equal_is_image_equal, key_length,
};
pub use layout::{
    Apart, ColumnMask, Compression, Field, IMAGE_MAX, RowView, ValuePointer, can_be_apart,
    compress, compressed_size_in_row, decompress, form_row, form_row_apart, image, size_in_row,
    value_of_image,
};
pub use numeric::{Numeric, Spread, numeric_precision_scale, numeric_typmod};
pub use settings::{DateOrder, InputContext, TextSettings};
pub use text_io::{
    input, parse_float4, parse_float8, parse_int2, parse_int4, parse_int8, to_text, write_float4,
    write_float8, write_text,
};
