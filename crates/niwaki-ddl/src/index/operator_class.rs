//! Operator classes of nbtree. Every type has one order, and most classes are other names for it.

use niwaki_catalog::CatalogState;
use niwaki_session::shown_type;
use niwaki_sql::types::element_of;
use niwaki_sql::{Result, SqlError};
use niwaki_types::{TypeOid, UserTypes};

/// Name of a class, the types it takes, and whether it is their default.
type Class = (&'static str, &'static [TypeOid], bool);

const STRINGS: &[TypeOid] = &[TypeOid::TEXT, TypeOid::VARCHAR];

/// Types for numbers of objects, shown as numbers or as names.
const OBJECTS: &[TypeOid] = &[
    TypeOid::OID,
    TypeOid::REGCLASS,
    TypeOid::REGTYPE,
    TypeOid::REGPROC,
    TypeOid::REGPROCEDURE,
    TypeOid::REGOPER,
    TypeOid::REGOPERATOR,
    TypeOid::REGROLE,
    TypeOid::REGNAMESPACE,
    TypeOid::REGCOLLATION,
];

/// Known classes. Text compares by code points, as in the C locale, so the pattern classes have the
/// same order as the others.
const CLASSES: &[Class] = &[
    ("bool_ops", &[TypeOid::BOOL], true),
    ("bytea_ops", &[TypeOid::BYTEA], true),
    ("char_ops", &[TypeOid::CHAR], true),
    ("name_ops", &[TypeOid::NAME], true),
    ("int2_ops", &[TypeOid::INT2], true),
    ("int4_ops", &[TypeOid::INT4], true),
    ("int8_ops", &[TypeOid::INT8], true),
    ("text_ops", STRINGS, true),
    ("varchar_ops", STRINGS, false),
    ("text_pattern_ops", STRINGS, false),
    ("varchar_pattern_ops", STRINGS, false),
    ("bpchar_ops", &[TypeOid::BPCHAR], true),
    ("bpchar_pattern_ops", &[TypeOid::BPCHAR], false),
    ("oid_ops", OBJECTS, true),
    ("tid_ops", &[TypeOid::TID], true),
    ("float4_ops", &[TypeOid::FLOAT4], true),
    ("float8_ops", &[TypeOid::FLOAT8], true),
    ("numeric_ops", &[TypeOid::NUMERIC], true),
    ("date_ops", &[TypeOid::DATE], true),
    ("timestamp_ops", &[TypeOid::TIMESTAMP], true),
    ("timestamptz_ops", &[TypeOid::TIMESTAMPTZ], true),
    ("interval_ops", &[TypeOid::INTERVAL], true),
    ("time_ops", &[TypeOid::TIME], true),
    ("timetz_ops", &[TypeOid::TIMETZ], true),
    ("uuid_ops", &[TypeOid::UUID], true),
    ("pg_lsn_ops", &[TypeOid::PG_LSN], true),
    ("jsonb_ops", &[TypeOid::JSONB], true),
];

/// Returns the name that the catalog stores for the class of a key column: `None` for the type's
/// default.
///
/// # Errors
/// 42704 when the class does not exist, or the type has no class. 42804 when the class is for other
/// types.
pub(crate) fn choose(
    state: &CatalogState,
    types: &UserTypes,
    oid: TypeOid,
    name: Option<&str>,
) -> Result<Option<String>> {
    let array = element_of(oid).is_some();
    let element = element_of(oid).unwrap_or(oid);
    let indexable = element.is_enum()
        || element.is_composite() && can_be_key(state, element)
        || CLASSES.iter().any(|(_, types, _)| types.contains(&element));
    let Some(name) = name else {
        if indexable {
            return Ok(None);
        }
        return Err(SqlError::new(
            "42704",
            format!(
                "data type {} has no default operator class for access method \"btree\"",
                shown_type(types, oid)
            ),
        )
        .with_hint("You must specify an operator class for the index or define a default operator class for the data type."));
    };
    let wrong_type = || {
        SqlError::new(
            "42804",
            format!(
                "operator class \"{name}\" does not accept data type {}",
                shown_type(types, oid)
            ),
        )
    };
    if name == "record_ops" {
        return if oid.is_composite() && indexable { Ok(None) } else { Err(wrong_type()) };
    }
    if name == "enum_ops" {
        return if oid.is_enum() { Ok(None) } else { Err(wrong_type()) };
    }
    if name == "array_ops" {
        return if array && indexable { Ok(None) } else { Err(wrong_type()) };
    }
    let (_, taken, default) =
        CLASSES.iter().find(|(class, ..)| *class == name).ok_or_else(|| {
            SqlError::new(
                "42704",
                format!("operator class \"{name}\" does not exist for access method \"btree\""),
            )
        })?;
    if !taken.contains(&oid) {
        if name == "bpchar_ops" && STRINGS.contains(&oid) {
            let what = format!("operator class bpchar_ops of {}", shown_type(types, oid));
            return Err(SqlError::unsupported(what));
        }
        return Err(wrong_type());
    }
    Ok((!default).then(|| name.to_owned()))
}

/// Returns whether values of a composite type can be keys: all its fields can be.
fn can_be_key(state: &CatalogState, oid: TypeOid) -> bool {
    let fields = state.fields_of(oid).unwrap_or_default();
    fields.iter().all(|(_, column)| {
        let element = element_of(column.oid).unwrap_or(column.oid);
        element.is_enum()
            || element.is_composite() && can_be_key(state, element)
            || CLASSES.iter().any(|(_, types, _)| types.contains(&element))
    })
}
