//! Steps that return many rows at a time.

mod batch_append;
mod batch_scan;
pub(crate) mod batch_start;
pub(crate) mod batch_step;
mod batches_to_rows;
mod join;
mod join_table;
mod large_values;
mod nested;
pub(crate) mod parallel;
mod rows_to_batches;
