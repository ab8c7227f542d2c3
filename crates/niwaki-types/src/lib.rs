#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

// The wings, lowest first. A wing names only itself and the wings before it.
//
// The one error.
mod error;
// Work and memory that a statement spends on values.
pub mod work;
// Types: their numbers, their names, and the types that users define.
mod types;
// Text forms of values without parts.
mod scalar;
// Decimal numbers.
mod numeric;
// `json`, `jsonb` and `jsonpath`.
mod json;
// Days, moments, times of day and intervals as numbers.
mod moment;
// The session's settings for reading and showing values.
mod settings;
// Values of any type, and their order.
mod value;
// Texts and arrays while they are built.
pub mod growing;
// Moments and intervals as text, by words and by pictures.
pub mod datetime;
// Index keys whose bytes have the order of the values.
mod key;
// One column in many rows.
mod vector;
// The stored form of a row.
mod layout;
// Values as text.
mod text_io;
// Values in the binary form of the protocol.
mod binary_io;
// Arithmetic and conversions.
mod operation;
// Fuzz targets of the decoders.
#[doc(hidden)]
#[cfg(any(test, feature = "hostile"))]
pub mod hostile;

pub use binary_io::{read_binary, write_binary};
pub use datetime::{Interval, MICROS_PER_DAY, TimeTz, TimeZone};
pub use error::{BYTES_LEFT_OVER, Result, TypeError, invalid_utf8};
pub use json::{
    JSON_DEPTH_MAX, JsonPath, JsonShape, Jsonb, JsonbArray, JsonbObject, Path, PathChange,
    PathMethod, PathOperator, PathStep, RawJson, RawKind, RegexFlags, json_shape, path_index,
    write_json_string,
};
pub use key::{
    MARKER_NULL_FIRST, MARKER_NULL_LAST, MARKER_VALUE, decode_key, encode_key,
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
pub use operation::cast::cast;
pub use operation::checked_arithmetic;
pub use operation::checked_arithmetic::{
    ArithmeticOperator, absolute, arithmetic, negate, numeric_to_lsn, zoned_arithmetic,
};
pub use operation::jsonb_cast::jsonb_to_scalar;
pub use scalar::float::{parse_float4, parse_float8, write_float4, write_float8};
pub use scalar::integer::{parse_int2, parse_int4, parse_int8};
pub use scalar::quoted_char;
pub use settings::{DateOrder, DateStyle, InputContext, IntervalStyle, TextSettings};
pub use text_io::input::{input, parse_bool};
pub use text_io::output::{to_text, write_text};
pub use types::column::ColumnType;
pub use types::identifier::quote_identifier;
pub use types::oid::TypeOid;
pub use types::user_types::{
    Attribute, CompositeType, EnumLabel, EnumType, LabelPlace, TypeName, UserTypes,
};
pub use value::array::{ARRAY_DIMENSIONS_MAX, ARRAY_ELEMENTS_MAX, Array, Bounds, Dimension};
pub use value::compare::{compare, compare_ordered, equal, hash};
pub use value::datum::Datum;
pub use value::key_order::KeyOrder;
pub use value::record::{RECORD_DEPTH_MAX, ROWS_DEPTH_MAX, Record};
pub use vector::{Decimals, Texts, Vector, VectorData};

#[cfg(test)]
mod operations_tests;
#[cfg(test)]
mod picture_tests;
#[cfg(test)]
mod test_values;
