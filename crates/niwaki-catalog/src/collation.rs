//! Collations: names of the one order that there is, that of the bytes.
//!
//! Those that PostgreSQL has besides sort otherwise, and are not there. So a collation changes no order; what it decides is
//! which characters have cases and are letters: with `C`, `POSIX` and `ucs_basic` those of ASCII.

use niwaki_types::{ColumnType, TypeOid};

use crate::builtin::{builtin_rows, builtin_types};
use crate::{CatalogState, Column, Oid};

/// Numbers and names of all collations; they are in `pg_catalog`.
pub fn collations() -> impl Iterator<Item = (Oid, &'static str)> {
    let rows = builtin_rows("pg_collation").into_iter().flat_map(|rows| rows.rows());
    rows.filter_map(|mut row| {
        let oid = row.next().flatten()?.parse().ok()?;
        Some((Oid(oid), row.next().flatten()?))
    })
}

/// The name of a collation.
pub fn collation_name(oid: Oid) -> Option<&'static str> {
    collations().find(|(known, _)| *known == oid).map(|(_, name)| name)
}

/// The collation that values of a type have of their own; `None` where nothing is sorted by one. What a domain is made of has its.
pub fn type_collation(oid: TypeOid) -> Option<Oid> {
    let kind = builtin_types().by_oid(oid.0)?;
    Some(Oid(kind.collation)).filter(|collation| *collation != Oid::INVALID)
}

impl CatalogState {
    /// The collation that values of a type, or of a domain over it, have of their own.
    pub fn own_collation(&self, of: ColumnType) -> Option<Oid> {
        let Some(domain) = of.domain.and_then(|domain| self.domain(domain)) else {
            return type_collation(of.oid);
        };
        domain.collation.or_else(|| self.own_collation(domain.below()))
    }

    /// The collation of a column.
    pub fn column_collation(&self, column: &Column) -> Option<Oid> {
        column.collation.or_else(|| self.own_collation(column.column_type()))
    }
}
