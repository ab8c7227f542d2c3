#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod arith;
mod array;
mod binary_io;
mod cast;
mod column;
mod compare;
pub mod datetime;
mod datum;
mod error;
pub mod growing;
#[doc(hidden)]
#[cfg(any(test, feature = "hostile"))]
pub mod hostile;
mod identifier;
mod json;
mod key;
mod layout;
mod numeric;
mod object_types;
#[cfg(test)]
mod operations_tests;
#[cfg(test)]
mod picture_tests;
pub mod quoted_char;
mod record;
mod settings;
#[cfg(test)]
mod test_values;
mod text_io;
mod user_types;
mod vector;
pub mod work;

pub use arith::{
    ArithmeticOperator, absolute, arithmetic, negate, numeric_to_lsn, zoned_arithmetic,
};
pub use array::{ARRAY_DIMENSIONS_MAX, ARRAY_ELEMENTS_MAX, Array, Bounds, Dimension};
pub use binary_io::{BYTES_LEFT_OVER, read_binary, write_binary};
pub use cast::cast;
pub use column::ColumnType;
pub use compare::{compare, compare_ordered, equal, hash};
pub use datetime::{Interval, MICROS_PER_DAY, TimeTz, TimeZone};
pub use datum::*;
pub use error::{Result, TypeError};
pub use identifier::quote_identifier;
pub use json::{
    JSON_DEPTH_MAX, JsonPath, JsonShape, Jsonb, JsonbArray, JsonbObject, Path, PathChange,
    PathMethod, PathOperator, PathStep, RawJson, RawKind, RegexFlags, json_shape, jsonb_to_scalar,
    path_index, write_json_string,
};
pub use key::{
    KeyOrder, MARKER_NULL_FIRST, MARKER_NULL_LAST, MARKER_VALUE, decode_key, encode_key,
    key_equal_is_image_equal, key_length, strip_key,
};
pub use layout::{
    Apart, ColumnMask, Compression, Field, IMAGE_MAX, KeyPart, RowView, ValuePointer, can_be_apart,
    compress, compressed_size_in_row, decompress, form_row, form_row_apart, form_tells, image,
    read_tagged_into, read_tagged_row, size_in_row, value_of_image, write_tagged, write_tagged_row,
};
pub use numeric::{
    Numeric, Spread, float4_to_char, float8_to_char, int4_to_char, int8_to_char,
    numeric_precision_scale, numeric_to_char, numeric_typmod, to_number,
};
pub use record::{RECORD_DEPTH_MAX, ROWS_DEPTH_MAX, Record};
pub use settings::{DateOrder, DateStyle, InputContext, IntervalStyle, TextSettings};
pub use text_io::{
    input, parse_bool, parse_float4, parse_float8, parse_int2, parse_int4, parse_int8, to_text,
    write_float4, write_float8, write_text,
};
pub use user_types::{
    Attribute, CompositeType, EnumLabel, EnumType, LabelPlace, TypeName, UserTypes,
};
pub use vector::{Decimals, Texts, Vector, VectorData};
