//! Removal of entries that no snapshot needs, and of leaves that become empty or sparse.
//!
//! The order: pages that leave the tree, leaves that are merged or packed, deletion of entries by
//! list or by vacuum, then the marks of scans and the leaves that these show to be all dead.

pub(crate) mod empty_leaf;
pub(crate) mod entry_delete;
pub(crate) mod mark;
pub(crate) mod merge;
pub(crate) mod pack;
pub(crate) mod page_delete;
