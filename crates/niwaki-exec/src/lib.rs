#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

// What steps share: starting, keys, temporary files.
mod step;
// Rows of tables, functions and WITH queries.
mod source;
// Sorted rows.
mod order;
// Joins, row by row.
mod joins;
// Many rows at a time, in one thread or several.
mod batches;
// Groups, DISTINCT and set operations.
mod grouping;
// Window functions.
mod window;
// Changes of tables.
mod change;
// Filters, projections, limits, recursion.
mod flow;
// The executor, which knows all kinds of steps.
mod executor;

pub use change::point::PointPlan;
pub use executor::fresh_state;
pub use step::random_access_tuplestore::RandomAccessTuplestore;
pub use step::start::start;
