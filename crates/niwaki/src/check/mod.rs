//! `niwaki check`: tests of all invariants that hold for a directory.

pub(crate) mod enum_values;
pub(crate) mod expressions;
pub(crate) mod partitions;
pub(crate) mod views;
pub(crate) mod visit;
