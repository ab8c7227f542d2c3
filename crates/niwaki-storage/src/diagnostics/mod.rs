//! Checks and comparisons of whole directories: they change nothing.
//!
//! The order: the check of every page and of the log (`check`), and the comparison of two
//! directories (`compare`).

pub(crate) mod check;
pub mod compare;
