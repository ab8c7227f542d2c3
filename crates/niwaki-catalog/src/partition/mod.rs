//! Bounds of partitions in the form that is compared with rows.

pub(crate) mod bound;
pub(crate) mod bound_text;
pub(crate) mod column_map;
pub(crate) mod partition_hash;
