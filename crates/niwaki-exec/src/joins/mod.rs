//! Steps that join two inputs row by row.

pub(crate) mod hash_join;
pub(crate) mod join_step;
pub(crate) mod merge_join;
