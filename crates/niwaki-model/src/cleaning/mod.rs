//! Removal of versions, entries and marks.
//!
//! - `prune`: one pass over a heap page.
//! - `settle`: clears and frees roots by counting removed versions.
//! - `deleter`: deletes entries from a leaf.
//! - `gardener`: cleans up the roots that pruning noted, one by one.
//! - `vacuum`: cleans up all roots, index by index.

pub(crate) mod deleter;
pub(crate) mod gardener;
pub(crate) mod prune;
pub(crate) mod settle;
pub(crate) mod vacuum;
