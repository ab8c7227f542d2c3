//! Opening of the tables that definitions describe.

pub(crate) mod build;
pub(crate) mod compile;
