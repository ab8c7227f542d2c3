//! Facts that PostgreSQL has built in.

pub(crate) mod builtin;
pub(crate) mod collation;
