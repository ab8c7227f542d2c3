//! The declared type of a column: type and typmod.

use super::oid::TypeOid;

/// Type of a stored column: type oid and PostgreSQL's typmod (-1: none).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ColumnType {
    /// The type.
    pub oid: TypeOid,
    /// Length or precision, as PostgreSQL encodes it; -1 when there is none.
    pub typmod: i32,
    /// The domain of the values, if the column has one. `oid` and `typmod` are the domain's base
    /// type in the end. So code that stores, compares or shows values need not know the domain.
    pub domain: Option<TypeOid>,
}

impl ColumnType {
    /// Returns `oid` without a typmod.
    pub const fn new(oid: TypeOid) -> Self {
        Self { oid, typmod: -1, domain: None }
    }

    /// Returns `oid` with a typmod.
    pub const fn with_typmod(oid: TypeOid, typmod: i32) -> Self {
        Self { oid, typmod, domain: None }
    }

    /// Returns the type as it was declared: the domain, if it is one.
    pub fn declared(self) -> TypeOid {
        self.domain.unwrap_or(self.oid)
    }

    /// Returns the number of characters that `varchar(n)` or `char(n)` allows.
    pub fn length_limit(self) -> Option<usize> {
        match self.oid {
            TypeOid::VARCHAR | TypeOid::BPCHAR if self.typmod >= 4 => {
                usize::try_from(self.typmod - 4).ok()
            }
            _ => None,
        }
    }
}

impl From<TypeOid> for ColumnType {
    fn from(oid: TypeOid) -> Self {
        Self::new(oid)
    }
}

impl TypeOid {
    /// Returns the type of the elements of an array type.
    pub const fn element(self) -> Option<Self> {
        Some(match self {
            Self::BOOL_ARRAY => Self::BOOL,
            Self::BYTEA_ARRAY => Self::BYTEA,
            Self::CHAR_ARRAY => Self::CHAR,
            Self::NAME_ARRAY => Self::NAME,
            Self::INT2_ARRAY => Self::INT2,
            Self::INT4_ARRAY => Self::INT4,
            Self::TEXT_ARRAY => Self::TEXT,
            Self::TID_ARRAY => Self::TID,
            Self::XID_ARRAY => Self::XID,
            Self::BPCHAR_ARRAY => Self::BPCHAR,
            Self::VARCHAR_ARRAY => Self::VARCHAR,
            Self::INT8_ARRAY => Self::INT8,
            Self::FLOAT4_ARRAY => Self::FLOAT4,
            Self::FLOAT8_ARRAY => Self::FLOAT8,
            Self::OID_ARRAY => Self::OID,
            Self::TIMESTAMP_ARRAY => Self::TIMESTAMP,
            Self::DATE_ARRAY => Self::DATE,
            Self::TIMESTAMPTZ_ARRAY => Self::TIMESTAMPTZ,
            Self::INTERVAL_ARRAY => Self::INTERVAL,
            Self::TIME_ARRAY => Self::TIME,
            Self::TIMETZ_ARRAY => Self::TIMETZ,
            Self::UUID_ARRAY => Self::UUID,
            Self::NUMERIC_ARRAY => Self::NUMERIC,
            Self::REGCLASS_ARRAY => Self::REGCLASS,
            Self::PG_LSN_ARRAY => Self::PG_LSN,
            Self::JSON_ARRAY => Self::JSON,
            Self::JSONB_ARRAY => Self::JSONB,
            Self::JSONPATH_ARRAY => Self::JSONPATH,
            Self::RECORD_ARRAY => Self::RECORD,
            Self::INT2VECTOR => Self::INT2,
            Self::OIDVECTOR => Self::OID,
            Self::ACLITEM_ARRAY => Self::ACLITEM,
            other => {
                return match other.object_element() {
                    Some(element) => Some(element),
                    None => other.user_element(),
                };
            }
        })
    }

    /// Returns the array type with elements of this type.
    pub const fn array(self) -> Option<Self> {
        Some(match self {
            Self::BOOL => Self::BOOL_ARRAY,
            Self::BYTEA => Self::BYTEA_ARRAY,
            Self::CHAR => Self::CHAR_ARRAY,
            Self::NAME => Self::NAME_ARRAY,
            Self::INT2 => Self::INT2_ARRAY,
            Self::INT4 => Self::INT4_ARRAY,
            Self::TEXT => Self::TEXT_ARRAY,
            Self::TID => Self::TID_ARRAY,
            Self::XID => Self::XID_ARRAY,
            Self::BPCHAR => Self::BPCHAR_ARRAY,
            Self::VARCHAR => Self::VARCHAR_ARRAY,
            Self::INT8 => Self::INT8_ARRAY,
            Self::FLOAT4 => Self::FLOAT4_ARRAY,
            Self::FLOAT8 => Self::FLOAT8_ARRAY,
            Self::OID => Self::OID_ARRAY,
            Self::TIMESTAMP => Self::TIMESTAMP_ARRAY,
            Self::DATE => Self::DATE_ARRAY,
            Self::TIMESTAMPTZ => Self::TIMESTAMPTZ_ARRAY,
            Self::INTERVAL => Self::INTERVAL_ARRAY,
            Self::TIME => Self::TIME_ARRAY,
            Self::TIMETZ => Self::TIMETZ_ARRAY,
            Self::UUID => Self::UUID_ARRAY,
            Self::NUMERIC => Self::NUMERIC_ARRAY,
            Self::REGCLASS => Self::REGCLASS_ARRAY,
            Self::PG_LSN => Self::PG_LSN_ARRAY,
            Self::JSON => Self::JSON_ARRAY,
            Self::JSONB => Self::JSONB_ARRAY,
            Self::JSONPATH => Self::JSONPATH_ARRAY,
            Self::RECORD => Self::RECORD_ARRAY,
            Self::ACLITEM => Self::ACLITEM_ARRAY,
            other => {
                return match other.object_array() {
                    Some(array) => Some(array),
                    None => other.user_array(),
                };
            }
        })
    }

    /// Returns the name PostgreSQL shows for the type (`format_type`), without typmod.
    pub const fn display_name(self) -> &'static str {
        match self {
            Self::BOOL => "boolean",
            Self::BYTEA => "bytea",
            Self::CHAR => "\"char\"",
            Self::NAME => "name",
            Self::INT8 => "bigint",
            Self::INT2 => "smallint",
            Self::INT4 => "integer",
            Self::TEXT => "text",
            Self::OID => "oid",
            Self::TID => "tid",
            Self::XID => "xid",
            Self::FLOAT4 => "real",
            Self::FLOAT8 => "double precision",
            Self::UNKNOWN => "unknown",
            Self::TEXT_ARRAY => "text[]",
            Self::NAME_ARRAY => "name[]",
            Self::INT4_ARRAY => "integer[]",
            Self::BOOL_ARRAY => "boolean[]",
            Self::BYTEA_ARRAY => "bytea[]",
            Self::CHAR_ARRAY => "\"char\"[]",
            Self::INT2_ARRAY => "smallint[]",
            Self::TID_ARRAY => "tid[]",
            Self::XID_ARRAY => "xid[]",
            Self::BPCHAR_ARRAY => "character[]",
            Self::VARCHAR_ARRAY => "character varying[]",
            Self::INT8_ARRAY => "bigint[]",
            Self::FLOAT4_ARRAY => "real[]",
            Self::FLOAT8_ARRAY => "double precision[]",
            Self::OID_ARRAY => "oid[]",
            Self::TIMESTAMP_ARRAY => "timestamp without time zone[]",
            Self::DATE_ARRAY => "date[]",
            Self::TIMESTAMPTZ_ARRAY => "timestamp with time zone[]",
            Self::INTERVAL_ARRAY => "interval[]",
            Self::TIME_ARRAY => "time without time zone[]",
            Self::TIMETZ_ARRAY => "time with time zone[]",
            Self::UUID_ARRAY => "uuid[]",
            Self::NUMERIC_ARRAY => "numeric[]",
            Self::REGCLASS_ARRAY => "regclass[]",
            Self::PG_LSN_ARRAY => "pg_lsn[]",
            Self::BPCHAR => "character",
            Self::VARCHAR => "character varying",
            Self::DATE => "date",
            Self::TIMESTAMP => "timestamp without time zone",
            Self::TIMESTAMPTZ => "timestamp with time zone",
            Self::INTERVAL => "interval",
            Self::TIME => "time without time zone",
            Self::TIMETZ => "time with time zone",
            Self::UUID => "uuid",
            Self::NUMERIC => "numeric",
            Self::PG_LSN => "pg_lsn",
            Self::JSON => "json",
            Self::JSON_ARRAY => "json[]",
            Self::JSONB => "jsonb",
            Self::JSONB_ARRAY => "jsonb[]",
            Self::JSONPATH => "jsonpath",
            Self::JSONPATH_ARRAY => "jsonpath[]",
            Self::REGCLASS => "regclass",
            Self::VOID => "void",
            Self::RECORD => "record",
            Self::RECORD_ARRAY => "record[]",
            other if other.is_enum() => "enum",
            other if other.is_composite() => "composite type",
            other => match other.object_type_name() {
                Some(name) => name,
                None => "unsupported type",
            },
        }
    }

    /// Returns the bytes of a value in the stored row, and except for enums on the wire. `None`
    /// when the size in the stored row varies.
    #[inline]
    pub const fn fixed_length(self) -> Option<usize> {
        // Walking over a row asks for each column: most have one of these types.
        match self {
            Self::INT4 => Some(4),
            Self::INT8 => Some(8),
            Self::TEXT => None,
            other => other.fixed_length_of_other(),
        }
    }

    const fn fixed_length_of_other(self) -> Option<usize> {
        match self {
            Self::BOOL => Some(1),
            Self::INT2 => Some(2),
            Self::INT4 | Self::FLOAT4 | Self::DATE | Self::OID | Self::XID => Some(4),
            object if object.is_object_name() => Some(4),
            Self::TID => Some(6),
            Self::INT8
            | Self::FLOAT8
            | Self::TIMESTAMP
            | Self::TIMESTAMPTZ
            | Self::TIME
            | Self::PG_LSN => Some(8),
            Self::TIMETZ => Some(12),
            Self::INTERVAL | Self::UUID => Some(16),
            other if other.is_enum() => Some(8),
            _ => None,
        }
    }
}
