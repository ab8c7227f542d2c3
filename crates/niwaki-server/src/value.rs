//! What the wire says of a type.

use niwaki_types::TypeOid;

/// PostgreSQL's `typlen`: bytes of a fixed-size type, -1 for a variable one, -2 for a C string.
pub(crate) fn type_size(oid: TypeOid) -> i16 {
    match oid {
        TypeOid::BOOL | TypeOid::CHAR => 1,
        TypeOid::INT2 => 2,
        TypeOid::INT4
        | TypeOid::OID
        | TypeOid::XID
        | TypeOid::FLOAT4
        | TypeOid::DATE
        | TypeOid::REGCLASS
        | TypeOid::VOID => 4,
        TypeOid::TID => 6,
        TypeOid::INT8
        | TypeOid::FLOAT8
        | TypeOid::TIMESTAMP
        | TypeOid::TIMESTAMPTZ
        | TypeOid::PG_LSN => 8,
        TypeOid::INTERVAL => 16,
        TypeOid::NAME => 64,
        TypeOid::UNKNOWN => -2,
        _ => -1,
    }
}
