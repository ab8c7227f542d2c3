//! The tree: the handle of an index, the way from the root to an entry, and the way a tree grows.
//!
//! The order: the handle, links and new pages, the descent, entries of a leaf, the choice of a
//! split point and the split. Then come a build from sorted entries, and the check of a whole tree.

pub(crate) mod allocate;
pub(crate) mod build;
pub(crate) mod check;
pub(crate) mod descend;
pub(crate) mod index;
pub(crate) mod locate;
pub(crate) mod split;
pub(crate) mod split_point;
