//! The number of a type: PostgreSQL's oid.

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
    /// Decides whether values of this type are [`crate::Datum::Text`].
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
