//! What a column says about its values: type and typmod.

use crate::TypeOid;

/// Type of a stored column: type oid and PostgreSQL's typmod (-1: none).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ColumnType {
    /// The type.
    pub oid: TypeOid,
    /// Length or precision, as PostgreSQL encodes it; -1 when there is none.
    pub typmod: i32,
}

impl ColumnType {
    /// `oid` without a typmod.
    pub const fn new(oid: TypeOid) -> Self {
        Self { oid, typmod: -1 }
    }

    /// `oid` with a typmod.
    pub const fn with_typmod(oid: TypeOid, typmod: i32) -> Self {
        Self { oid, typmod }
    }

    /// The characters that `varchar(n)` or `char(n)` allows.
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
    /// Type of the elements of an array type.
    pub const fn element(self) -> Option<Self> {
        match self {
            Self::TEXT_ARRAY => Some(Self::TEXT),
            Self::NAME_ARRAY => Some(Self::NAME),
            Self::INT4_ARRAY => Some(Self::INT4),
            _ => None,
        }
    }

    /// Array type with elements of this type.
    pub const fn array(self) -> Option<Self> {
        match self {
            Self::TEXT => Some(Self::TEXT_ARRAY),
            Self::NAME => Some(Self::NAME_ARRAY),
            Self::INT4 => Some(Self::INT4_ARRAY),
            _ => None,
        }
    }

    /// The name PostgreSQL shows for the type (`format_type`), without typmod.
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
            Self::BPCHAR => "character",
            Self::VARCHAR => "character varying",
            Self::DATE => "date",
            Self::TIMESTAMP => "timestamp without time zone",
            Self::TIMESTAMPTZ => "timestamp with time zone",
            Self::INTERVAL => "interval",
            Self::NUMERIC => "numeric",
            Self::PG_LSN => "pg_lsn",
            Self::REGCLASS => "regclass",
            Self::VOID => "void",
            _ => "unsupported type",
        }
    }

    /// Bytes a value takes in the stored row and on the wire (`pg_type.typlen`); `None` when it
    /// varies in the stored row.
    #[inline]
    pub const fn fixed_length(self) -> Option<usize> {
        match self {
            Self::BOOL => Some(1),
            Self::INT2 => Some(2),
            Self::INT4 | Self::FLOAT4 | Self::DATE | Self::OID | Self::XID | Self::REGCLASS => {
                Some(4)
            }
            Self::TID => Some(6),
            Self::INT8 | Self::FLOAT8 | Self::TIMESTAMP | Self::TIMESTAMPTZ | Self::PG_LSN => {
                Some(8)
            }
            Self::INTERVAL => Some(16),
            _ => None,
        }
    }
}
