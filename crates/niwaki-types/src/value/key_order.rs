//! The order of a column: direction, and place of NULLs.

use crate::types::oid::TypeOid;

/// The order of the values in one key column of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyOrder {
    /// Type of the column.
    pub oid: TypeOid,
    /// Descending.
    pub descending: bool,
    /// NULLs before all values (in the order of the scan).
    pub nulls_first: bool,
}

impl KeyOrder {
    /// Makes the order of SQL's `ASC`: ascending, NULLs last.
    pub const fn ascending(oid: TypeOid) -> Self {
        Self { oid, descending: false, nulls_first: false }
    }

    /// Makes the order of SQL's `DESC`: descending, NULLs first.
    pub const fn descending(oid: TypeOid) -> Self {
        Self { oid, descending: true, nulls_first: true }
    }
}
