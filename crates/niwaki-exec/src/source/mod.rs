//! Steps that read tables, functions, WITH queries and constants.

pub(crate) mod append;
pub(crate) mod function;
pub(crate) mod json_records;
pub(crate) mod rows;
pub(crate) mod scan;
