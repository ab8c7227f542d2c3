//! Objects as rows of a table.
//!
//! - `oid`: numbers of objects.
//! - `scan`: reads all rows of a table.
//! - `objects`: the table that stores objects, and the files of a catalog.

pub(crate) mod objects;
pub(crate) mod oid;
pub(crate) mod scan;
