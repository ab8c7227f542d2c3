//! Steps that return many rows at a time.

mod append;
mod join;
mod join_table;
mod large;
mod nested;
pub(crate) mod parallel;
mod rows;
mod scan;
mod single;
pub(crate) mod start;
pub(crate) mod step;
