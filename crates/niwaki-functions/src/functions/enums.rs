//! Functions on enums.

use niwaki_expr::context::ExecContext;
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::{Datum, TypeOid};

use super::{Function, functions};

/// Returns the values of an enum, in their order. The enum is the type of the first argument, whose
/// value does not matter.
fn values_of(exec: &ExecContext<'_>, types: &[TypeOid]) -> Result<(TypeOid, Vec<Datum>)> {
    let found = types.first().and_then(|oid| Some((*oid, exec.text.types.get(*oid)?)));
    let (oid, found) =
        found.ok_or_else(|| SqlError::new("0A000", "could not determine actual enum type"))?;
    Ok((oid, found.labels.iter().map(|label| Datum::Enum(oid, label.position)).collect()))
}

/// Returns PostgreSQL's error for an enum without labels.
fn empty(exec: &ExecContext<'_>, oid: TypeOid) -> SqlError {
    let name = exec.text.types.shown(oid).unwrap_or_default();
    SqlError::new("55000", format!("enum {name} contains no values"))
}

fn enum_first(exec: &mut ExecContext<'_>, types: &[TypeOid], _: &[Datum]) -> Result<Datum> {
    let (oid, values) = values_of(exec, types)?;
    values.first().cloned().ok_or_else(|| empty(exec, oid))
}

fn enum_last(exec: &mut ExecContext<'_>, types: &[TypeOid], _: &[Datum]) -> Result<Datum> {
    let (oid, values) = values_of(exec, types)?;
    values.last().cloned().ok_or_else(|| empty(exec, oid))
}

/// `enum_range(any value)` returns all values; `enum_range(from, to)` the values between, where
/// NULL means no bound.
fn enum_range(exec: &mut ExecContext<'_>, types: &[TypeOid], bounds: &[Datum]) -> Result<Datum> {
    let (oid, values) = values_of(exec, types)?;
    let inside = |value: &Datum| {
        let [lower, upper] = bounds else { return true };
        let order = |a, b| niwaki_types::compare(oid, a, b);
        (lower.is_null() || order(lower, value).is_le())
            && (upper.is_null() || order(value, upper).is_le())
    };
    Ok(Datum::array(oid, values.into_iter().filter(inside)))
}

/// Returns the greater of two values; aggregates and clients call this function by name.
fn larger(a: &Datum, b: &Datum) -> Result<Datum> {
    Ok(if niwaki_types::compare(TypeOid::UNKNOWN, a, b).is_ge() { a } else { b }.clone())
}

fn smaller(a: &Datum, b: &Datum) -> Result<Datum> {
    Ok(if niwaki_types::compare(TypeOid::UNKNOWN, a, b).is_le() { a } else { b }.clone())
}

pub(super) const FUNCTIONS: &[Function] = functions! {
    "enum_first" (ENUM) ENUM nullable single stable Typed(enum_first);
    "enum_last" (ENUM) ENUM nullable single stable Typed(enum_last);
    "enum_range" (ENUM) ARRAY nullable single stable Typed(enum_range);
    "enum_range" (ENUM, ENUM) ARRAY nullable single stable Typed(enum_range);
    "enum_larger" (ENUM, ENUM) ENUM strict single immutable Binary(larger);
    "enum_smaller" (ENUM, ENUM) ENUM strict single immutable Binary(smaller);
};
