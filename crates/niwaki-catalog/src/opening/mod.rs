//! Opening of the tables that definitions describe.
//!
//! - `compile`: the interface to the SQL layer, which reads stored expressions.
//! - `build`: converts definitions to definitions of the table layer.

pub(crate) mod build;
pub(crate) mod compile;
