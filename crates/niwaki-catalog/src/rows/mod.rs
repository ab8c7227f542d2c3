//! Objects as rows, and the table that has these rows.

pub(crate) mod objects;
pub(crate) mod oid;
pub(crate) mod scan;
