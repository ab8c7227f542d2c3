//! A value of any SQL type.

use std::sync::Arc;

use super::array::Array;
use super::record::Record;
use crate::json::json_tree::Jsonb;
use crate::moment::interval::Interval;
use crate::moment::time_of_day::TimeTz;
use crate::numeric::Numeric;
use crate::types::oid::TypeOid;

/// A value; each variant names its types. Cloning never allocates.
#[derive(Clone, Debug)]
pub enum Datum {
    /// SQL NULL of any type.
    Null,
    /// `bool`
    Bool(bool),
    /// `int2`
    Int2(i16),
    /// `int4`
    Int4(i32),
    /// `int8`
    Int8(i64),
    /// `float4`
    Float4(f32),
    /// `float8`
    Float8(f64),
    /// `numeric`
    Numeric(Arc<Numeric>),
    /// `text`, `varchar`, `name`, `"char"`, `char(n)` (stored blank-padded, compared without),
    /// unknown literals, and `json`, which is kept as it was given
    Text(Arc<str>),
    /// `bytea`
    Bytea(Arc<[u8]>),
    /// `date`: days since 2000-01-01
    Date(i32),
    /// `timestamp`: microseconds since 2000-01-01 00:00:00
    Timestamp(i64),
    /// `timestamptz`: microseconds since 2000-01-01 00:00:00 UTC
    TimestampTz(i64),
    /// `interval`
    Interval(Arc<Interval>),
    /// `time`: microseconds since midnight, 0 to 24 hours
    Time(i64),
    /// `timetz`
    TimeTz(TimeTz),
    /// `uuid`
    Uuid([u8; 16]),
    /// `oid`, `xid`, `regclass` (the number)
    Oid(u32),
    /// `tid`: block, offset
    Tid(u32, u16),
    /// `pg_lsn`
    Lsn(u64),
    /// `jsonb`
    Jsonb(Arc<Jsonb>),
    /// A value of an enum: the type, and the position of its label
    Enum(TypeOid, u64),
    /// An array: element type, elements and dimensions
    Array(TypeOid, Arc<Array>),
    /// A value of a composite type, or of `record`: the type, and the fields with their types
    Record(TypeOid, Arc<Record>),
}

// Rows in memory consist of these values; a larger variant goes behind an `Arc`.
const _: () = assert!(size_of::<Datum>() == 24, "a datum has three words");

impl Datum {
    /// Decides whether this is NULL.
    #[inline]
    pub const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Returns a text value.
    pub fn text(text: &str) -> Self {
        Self::Text(Arc::from(text))
    }
}

/// Returns the estimated bytes that a value takes besides its own size. These are the bytes it
/// points to, its counters, and the allocator's overhead. Memory that it shares with others counts
/// as its own.
pub fn value_bytes(value: &Datum) -> usize {
    const OVERHEAD: usize = 32;
    match value {
        Datum::Text(text) => text.len().saturating_add(OVERHEAD),
        Datum::Bytea(bytes) => bytes.len().saturating_add(OVERHEAD),
        Datum::Jsonb(value) => value.memory().saturating_add(OVERHEAD),
        Datum::Array(_, values) => elements_bytes(values).saturating_add(OVERHEAD),
        Datum::Record(_, record) => record.bytes(),
        Datum::Numeric(_) | Datum::Interval(_) => 2 * OVERHEAD,
        _ => 0,
    }
}

/// Returns the bytes of values and of their places, roughly.
pub fn elements_bytes(values: &[Datum]) -> usize {
    let inside = values.iter().map(value_bytes).fold(0, usize::saturating_add);
    size_of_val(values).saturating_add(inside)
}
