//! Facts that PostgreSQL has built in.
//!
//! - `builtin`: the records of relations, types, functions and operators.
//! - `collation`: collations.

pub(crate) mod builtin;
pub(crate) mod collation;
