//! Values that are the same to the bit.

use std::sync::Arc;

use super::tagged::write_tagged;
use crate::value::datum::Datum;

impl Datum {
    /// Decides whether two values of one type are the same to the bit, so that every result
    /// computed from them is the same, too. This is more than being equal: `1.0` and `1.00` are two
    /// values here.
    #[inline]
    pub fn same_image(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Int2(a), Self::Int2(b)) => a == b,
            (Self::Int4(a), Self::Int4(b)) | (Self::Date(a), Self::Date(b)) => a == b,
            (Self::Int8(a), Self::Int8(b))
            | (Self::Timestamp(a), Self::Timestamp(b))
            | (Self::TimestampTz(a), Self::TimestampTz(b))
            | (Self::Time(a), Self::Time(b)) => a == b,
            (Self::TimeTz(a), Self::TimeTz(b)) => a == b,
            (Self::Uuid(a), Self::Uuid(b)) => a == b,
            (Self::Float4(a), Self::Float4(b)) => a.to_bits() == b.to_bits(),
            (Self::Float8(a), Self::Float8(b)) => a.to_bits() == b.to_bits(),
            (Self::Numeric(a), Self::Numeric(b)) => Arc::ptr_eq(a, b) || a.same_image(b),
            (Self::Text(a), Self::Text(b)) => Arc::ptr_eq(a, b) || a == b,
            (Self::Bytea(a), Self::Bytea(b)) => Arc::ptr_eq(a, b) || a == b,
            (Self::Interval(a), Self::Interval(b)) => a.same_image(b),
            (Self::Oid(a), Self::Oid(b)) => a == b,
            (Self::Tid(a, b), Self::Tid(c, d)) => (a, b) == (c, d),
            (Self::Lsn(a), Self::Lsn(b)) => a == b,
            (Self::Jsonb(a), Self::Jsonb(b)) => Arc::ptr_eq(a, b) || self.same_bytes(other),
            (Self::Enum(a, b), Self::Enum(c, d)) => a == c && b == d,
            (Self::Array(a, b), Self::Array(c, d)) => {
                a == c && (Arc::ptr_eq(b, d) || self.same_bytes(other))
            }
            (Self::Record(a, b), Self::Record(c, d)) => {
                a == c && (Arc::ptr_eq(b, d) || self.same_bytes(other))
            }
            _ => false,
        }
    }

    /// Decides whether two values are stored as the same bytes.
    fn same_bytes(&self, other: &Self) -> bool {
        let [one, other] = [self, other].map(|value| {
            let mut bytes = Vec::new();
            write_tagged(value, &mut bytes);
            bytes
        });
        one == other
    }
}
