//! Resolution of built-in type names in definitions.

use niwaki_catalog::builtin_types;
use niwaki_types::{ColumnType, TypeOid};
use pg_query::NodeEnum;
use pg_query::protobuf::{TypeName, a_const};

use crate::error::{Result, SqlError};
use crate::parse::position_of;
use crate::types::{array_of, category, encode_typmod, is_absent_type, type_by_name};

/// Returns the integer type of a serial type, which draws its values from its own sequence.
pub(super) fn serial_type(type_name: &TypeName) -> Option<TypeOid> {
    match type_name.names.as_slice() {
        [one] => match one.node.as_ref() {
            Some(NodeEnum::String(s)) => match s.sval.as_str() {
                "serial" | "serial4" => Some(TypeOid::INT4),
                "bigserial" | "serial8" => Some(TypeOid::INT8),
                "smallserial" | "serial2" => Some(TypeOid::INT2),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}

/// Returns the parts of a type's name.
fn parts(type_name: &TypeName) -> Vec<&str> {
    type_name
        .names
        .iter()
        .filter_map(|n| match n.node.as_ref() {
            Some(NodeEnum::String(s)) => Some(s.sval.as_str()),
            _ => None,
        })
        .collect()
}

/// Returns the name of a pseudo-type, which no column can have, if the type is one.
pub(super) fn pseudo_type(type_name: &TypeName) -> Option<String> {
    let parts = parts(type_name);
    let ([name] | ["pg_catalog", name]) = parts.as_slice() else { return None };
    let array = !type_name.array_bounds.is_empty();
    // Only these pseudo-types have array types.
    let has_arrays = ["record", "cstring"].contains(name);
    let pseudo = *name == "unknown" || builtin_types().named(name).any(|kind| kind.category == 'P');
    (pseudo && (!array || has_arrays)).then(|| format!("{name}{}", if array { "[]" } else { "" }))
}

/// Returns the built-in type that a syntax tree names, with its modifier checked.
///
/// # Errors
/// 42704 for an unknown type, 0A000 for a type that columns cannot have yet, 22023 for an invalid
/// modifier.
pub fn column_type(type_name: &TypeName, source: &str) -> Result<ColumnType> {
    let parts = parts(type_name);
    let at = |e: SqlError| e.with_position(position_of(source, type_name.location));
    let shown = parts.join(".");
    let name = match parts.as_slice() {
        [name] | ["pg_catalog", name] => *name,
        _ => return Err(at(undefined(&shown))),
    };
    if type_name.setof || type_name.pct_type {
        return Err(at(SqlError::unsupported("%TYPE or SETOF in a column's type")));
    }
    let modifiers = modifiers(type_name, &shown).map_err(at)?;
    let none = |oid: TypeOid| {
        if modifiers.is_empty() {
            Ok(ColumnType::new(oid))
        } else {
            Err(SqlError::new(
                "42601",
                format!("type modifier is not allowed for type \"{shown}\""),
            ))
        }
    };
    let column = match name {
        "bool" | "boolean" => none(TypeOid::BOOL),
        "int2" | "smallint" => none(TypeOid::INT2),
        "int4" | "int" | "integer" => none(TypeOid::INT4),
        "int8" | "bigint" => none(TypeOid::INT8),
        "float4" | "real" => none(TypeOid::FLOAT4),
        "float8" => none(TypeOid::FLOAT8),
        "text" => none(TypeOid::TEXT),
        "bytea" => none(TypeOid::BYTEA),
        "date" => none(TypeOid::DATE),
        "oid" => none(TypeOid::OID),
        "name" => none(TypeOid::NAME),
        "char" => none(TypeOid::CHAR),
        "varchar" => length(TypeOid::VARCHAR, &modifiers, "varchar"),
        "bpchar" => length(TypeOid::BPCHAR, &modifiers, "char"),
        "timestamp" => precision(TypeOid::TIMESTAMP, &modifiers, "TIMESTAMP"),
        "timestamptz" => precision(TypeOid::TIMESTAMPTZ, &modifiers, "TIMESTAMP"),
        "interval" => interval(&modifiers),
        "numeric" | "decimal" => numeric(&modifiers),
        "time" => precision(TypeOid::TIME, &modifiers, "TIME"),
        "timetz" => precision(TypeOid::TIMETZ, &modifiers, "TIME"),
        "uuid" => none(TypeOid::UUID),
        "json" => none(TypeOid::JSON),
        "jsonb" => none(TypeOid::JSONB),
        "jsonpath" => none(TypeOid::JSONPATH),
        _ if is_absent_type(name) => Err(SqlError::unsupported(format!("type {name}"))),
        // All other storable types, which have no modifier. Types of the categories P and X cannot
        // be stored.
        _ => match type_by_name(name).filter(|oid| !matches!(category(*oid), 'P' | 'X')) {
            Some(oid) => none(oid),
            None => Err(undefined(&shown)),
        },
    }
    .map_err(at)?;
    if type_name.array_bounds.is_empty() {
        return Ok(column);
    }
    // The declared number and sizes of dimensions have no effect.
    let array = array_of(column.oid).ok_or_else(|| at(undefined(&format!("{shown}[]"))))?;
    Ok(ColumnType::with_typmod(array, column.typmod))
}

fn undefined(name: &str) -> SqlError {
    SqlError::new("42704", format!("type \"{name}\" does not exist"))
}

fn modifiers(type_name: &TypeName, shown: &str) -> Result<Vec<i32>> {
    type_name
        .typmods
        .iter()
        .map(|n| match n.node.as_ref() {
            Some(NodeEnum::AConst(c)) => match &c.val {
                Some(a_const::Val::Ival(i)) => Ok(i.ival),
                // The parser omits a zero.
                None if !c.isnull => Ok(0),
                _ => Err(SqlError::new(
                    "42601",
                    "type modifiers must be simple constants or identifiers",
                )),
            },
            _ => Err(SqlError::new(
                "42601",
                format!("type modifiers of \"{shown}\" must be simple constants or identifiers"),
            )),
        })
        .collect()
}

fn length(oid: TypeOid, modifiers: &[i32], name: &str) -> Result<ColumnType> {
    match modifiers {
        [] => Ok(ColumnType::new(oid)),
        [n] if *n < 1 => {
            Err(SqlError::new("22023", format!("length for type {name} must be at least 1")))
        }
        [n] if *n > 10_485_760 => {
            Err(SqlError::new("22023", format!("length for type {name} cannot exceed 10485760")))
        }
        [n] => Ok(ColumnType::with_typmod(oid, n + 4)),
        _ => Err(SqlError::new("22023", "invalid type modifier")),
    }
}

fn precision(oid: TypeOid, modifiers: &[i32], name: &str) -> Result<ColumnType> {
    match modifiers {
        [] => Ok(ColumnType::new(oid)),
        [p] if *p < 0 => {
            Err(SqlError::new("22023", format!("{name}({p}) precision must not be negative")))
        }
        [p] => Ok(ColumnType::with_typmod(oid, (*p).min(6))),
        _ => Err(SqlError::new("22023", "invalid type modifier")),
    }
}

fn interval(modifiers: &[i32]) -> Result<ColumnType> {
    let arguments: Vec<i64> = modifiers.iter().copied().map(i64::from).collect();
    let typmod = if arguments.is_empty() {
        -1
    } else {
        encode_typmod(TypeOid::INTERVAL, &arguments)
            .map_err(|message| SqlError::new("22023", message))?
    };
    Ok(ColumnType::with_typmod(TypeOid::INTERVAL, typmod))
}

fn numeric(modifiers: &[i32]) -> Result<ColumnType> {
    let (precision, scale) = match modifiers {
        [] => return Ok(ColumnType::new(TypeOid::NUMERIC)),
        [p] => (*p, 0),
        [p, s] => (*p, *s),
        _ => return Err(SqlError::new("22023", "invalid NUMERIC type modifier")),
    };
    if !(1..=1000).contains(&precision) {
        return Err(SqlError::new(
            "22023",
            format!("NUMERIC precision {precision} must be between 1 and 1000"),
        ));
    }
    if !(-1000..=1000).contains(&scale) {
        return Err(SqlError::new(
            "22023",
            format!("NUMERIC scale {scale} must be between -1000 and 1000"),
        ));
    }
    // PostgreSQL's encoding: precision above, scale in 11 bits, plus 4.
    let typmod = ((precision << 16) | (scale & 0x7ff)) + 4;
    Ok(ColumnType::with_typmod(TypeOid::NUMERIC, typmod))
}
