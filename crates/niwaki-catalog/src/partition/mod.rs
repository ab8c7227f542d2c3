//! Bounds of partitions in the form that is compared with rows.

pub(crate) mod partition_hash;
