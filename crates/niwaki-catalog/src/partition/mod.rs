//! Bounds of partitions in the form that is compared with rows.
//!
//! - `partition_hash`: hash values of rows, as PostgreSQL computes them.
//! - `column_map`: rows of one table in the columns of another.
//! - `bound`: bounds in comparable form.
//! - `bound_text`: keys and bounds as PostgreSQL shows them.

pub(crate) mod bound;
pub(crate) mod bound_text;
pub(crate) mod column_map;
pub(crate) mod partition_hash;
