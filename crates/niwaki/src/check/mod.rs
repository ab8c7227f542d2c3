//! `niwaki check`: tests of all invariants that hold for a directory.
//!
//! - `views`, `expressions`, `enum_values`, `partitions`: what tables, views and functions store.
//! - `visit`: visits all relations, and calls these tests and those of the layers below.

pub(crate) mod enum_values;
pub(crate) mod expressions;
pub(crate) mod partitions;
pub(crate) mod views;
pub(crate) mod visit;
