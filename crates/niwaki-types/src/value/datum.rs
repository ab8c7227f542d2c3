//! Values of SQL types, with the types by their PostgreSQL oid.

use std::sync::Arc;

use super::array::Array;
use super::record::Record;
use crate::json::value::Jsonb;
use crate::layout::tagged::write_tagged;
use crate::moment::interval::Interval;
use crate::moment::time_of_day::TimeTz;
use crate::numeric::Numeric;

/// PostgreSQL's oid of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeOid(pub u32);

/// The oids of the types Niwaki knows (PostgreSQL's numbers).
impl TypeOid {
    /// `bool`
    pub const BOOL: Self = Self(16);
    /// `bytea`
    pub const BYTEA: Self = Self(17);
    /// `"char"`: one byte
    pub const CHAR: Self = Self(18);
    /// `name`
    pub const NAME: Self = Self(19);
    /// `int8`
    pub const INT8: Self = Self(20);
    /// `int2`
    pub const INT2: Self = Self(21);
    /// `int4`
    pub const INT4: Self = Self(23);
    /// `text`
    pub const TEXT: Self = Self(25);
    /// `oid`
    pub const OID: Self = Self(26);
    /// `tid`
    pub const TID: Self = Self(27);
    /// `xid`
    pub const XID: Self = Self(28);
    /// `float4`
    pub const FLOAT4: Self = Self(700);
    /// `float8`
    pub const FLOAT8: Self = Self(701);
    /// An untyped literal whose type is inferred.
    pub const UNKNOWN: Self = Self(705);
    /// `text[]`
    pub const TEXT_ARRAY: Self = Self(1009);
    /// `name[]`
    pub const NAME_ARRAY: Self = Self(1003);
    /// `int4[]`
    pub const INT4_ARRAY: Self = Self(1007);
    /// `bool[]`
    pub const BOOL_ARRAY: Self = Self(1000);
    /// `bytea[]`
    pub const BYTEA_ARRAY: Self = Self(1001);
    /// `"char"[]`
    pub const CHAR_ARRAY: Self = Self(1002);
    /// `int2[]`
    pub const INT2_ARRAY: Self = Self(1005);
    /// `tid[]`
    pub const TID_ARRAY: Self = Self(1010);
    /// `xid[]`
    pub const XID_ARRAY: Self = Self(1011);
    /// `char(n)[]`
    pub const BPCHAR_ARRAY: Self = Self(1014);
    /// `varchar[]`
    pub const VARCHAR_ARRAY: Self = Self(1015);
    /// `int8[]`
    pub const INT8_ARRAY: Self = Self(1016);
    /// `float4[]`
    pub const FLOAT4_ARRAY: Self = Self(1021);
    /// `float8[]`
    pub const FLOAT8_ARRAY: Self = Self(1022);
    /// `oid[]`
    pub const OID_ARRAY: Self = Self(1028);
    /// `timestamp[]`
    pub const TIMESTAMP_ARRAY: Self = Self(1115);
    /// `date[]`
    pub const DATE_ARRAY: Self = Self(1182);
    /// `timestamptz[]`
    pub const TIMESTAMPTZ_ARRAY: Self = Self(1185);
    /// `time[]`
    pub const TIME_ARRAY: Self = Self(1183);
    /// `timetz[]`
    pub const TIMETZ_ARRAY: Self = Self(1270);
    /// `uuid[]`
    pub const UUID_ARRAY: Self = Self(2951);
    /// `interval[]`
    pub const INTERVAL_ARRAY: Self = Self(1187);
    /// `numeric[]`
    pub const NUMERIC_ARRAY: Self = Self(1231);
    /// `regclass[]`
    pub const REGCLASS_ARRAY: Self = Self(2210);
    /// `pg_lsn[]`
    pub const PG_LSN_ARRAY: Self = Self(3221);
    /// `char(n)`
    pub const BPCHAR: Self = Self(1042);
    /// `varchar(n)`
    pub const VARCHAR: Self = Self(1043);
    /// `date`
    pub const DATE: Self = Self(1082);
    /// `time without time zone`
    pub const TIME: Self = Self(1083);
    /// `time with time zone`
    pub const TIMETZ: Self = Self(1266);
    /// `uuid`
    pub const UUID: Self = Self(2950);
    /// `timestamp without time zone`
    pub const TIMESTAMP: Self = Self(1114);
    /// `timestamp with time zone`
    pub const TIMESTAMPTZ: Self = Self(1184);
    /// `interval`
    pub const INTERVAL: Self = Self(1186);
    /// `numeric`
    pub const NUMERIC: Self = Self(1700);
    /// `pg_lsn`
    pub const PG_LSN: Self = Self(3220);
    /// `json`
    pub const JSON: Self = Self(114);
    /// `json[]`
    pub const JSON_ARRAY: Self = Self(199);
    /// `jsonb`
    pub const JSONB: Self = Self(3802);
    /// `jsonb[]`
    pub const JSONB_ARRAY: Self = Self(3807);
    /// `jsonpath`
    pub const JSONPATH: Self = Self(4072);
    /// `jsonpath[]`
    pub const JSONPATH_ARRAY: Self = Self(4073);
    /// `regclass`
    pub const REGCLASS: Self = Self(2205);
    /// `void`
    pub const VOID: Self = Self(2278);
    /// `record`: rows whose fields have no declared types
    pub const RECORD: Self = Self(2249);
    /// `record[]`
    pub const RECORD_ARRAY: Self = Self(2287);
}

impl TypeOid {
    /// Decides whether values of this type are [`Datum::Text`].
    #[inline]
    pub(crate) const fn is_text(self) -> bool {
        matches!(
            self,
            Self::TEXT
                | Self::VARCHAR
                | Self::BPCHAR
                | Self::NAME
                | Self::CHAR
                | Self::UNKNOWN
                | Self::JSON
                | Self::JSONPATH
        )
    }
}

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
