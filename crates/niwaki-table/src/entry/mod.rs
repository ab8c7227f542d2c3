//! Index entries: whether the versions that an entry leads to have its key.
//!
//! - `row_key`: the keys of rows and of stored versions.
//! - `recheck`: whether the entry alone is enough, or the version's key must be compared.
//! - `unique`: answers the index's question whether an entry conflicts with a new one.
//! - `dead_entries`: answers the index's question which entries of a leaf it may delete.

pub(crate) mod dead_entries;
pub(crate) mod recheck;
pub(crate) mod row_key;
pub(crate) mod unique;
