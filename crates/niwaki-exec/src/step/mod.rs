//! Starting steps, and the tables, files and keys that steps share.

pub(crate) mod keys;
pub(crate) mod random_access_tuplestore;
pub(crate) mod seen_rows;
pub(crate) mod spill;
pub(crate) mod start;
pub(crate) mod unique_rows;
