//! Removal of versions and entries.

pub(crate) mod deleter;
pub(crate) mod gardener;
pub(crate) mod prune;
pub(crate) mod settle;
pub(crate) mod vacuum;
