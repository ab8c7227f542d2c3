#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod column;
mod compare;
mod datetime;
mod datum;
mod error;
mod key;
mod layout;
mod numeric;
mod settings;
mod text_io;

pub use column::ColumnType;
pub use compare::{compare, compare_ordered, equal, hash};
pub use datetime::{Interval, MICROS_PER_DAY, TimeZone};
pub use datum::*;
pub use error::{Result, TypeError};
pub use key::{
    KeyOrder, MARKER_NULL_FIRST, MARKER_NULL_LAST, MARKER_VALUE, decode_key, encode_key,
    key_equal_is_image_equal,
};
pub use layout::{ColumnMask, RowView, form_row};
pub use numeric::{Numeric, numeric_precision_scale, numeric_typmod};
pub use settings::{DateOrder, InputContext, TextSettings};
pub use text_io::{parse_float4, parse_float8, write_float4, write_float8};
