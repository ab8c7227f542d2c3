//! Collations: several names of the only order, the order of bytes.
//!
//! PostgreSQL's other collations sort differently and do not exist here, so a collation changes no
//! order. A collation decides only which characters are letters and have cases. With `C`, `POSIX`
//! and `ucs_basic` only ASCII letters do.

use niwaki_types::TypeOid;

use crate::postgres::builtin::{builtin_rows, builtin_types};
use crate::rows::oid::Oid;

/// Iterates over the numbers and names of all collations. They are in `pg_catalog`.
pub fn collations() -> impl Iterator<Item = (Oid, &'static str)> {
    let rows = builtin_rows("pg_collation").into_iter().flat_map(|rows| rows.rows());
    rows.filter_map(|mut row| {
        let oid = row.next().flatten()?.parse().ok()?;
        Some((Oid(oid), row.next().flatten()?))
    })
}

/// Returns the name of a collation.
pub fn collation_name(oid: Oid) -> Option<&'static str> {
    collations().find(|(known, _)| *known == oid).map(|(_, name)| name)
}

/// Returns the default collation of a type's values; `None` for types without collation. A domain
/// has the collation of its base type.
pub fn type_collation(oid: TypeOid) -> Option<Oid> {
    let kind = builtin_types().by_oid(oid.0)?;
    Some(Oid(kind.collation)).filter(|collation| *collation != Oid::INVALID)
}
