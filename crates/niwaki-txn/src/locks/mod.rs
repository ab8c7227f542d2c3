//! Locks without their holders: the objects and modes of locks, and sets of them.
//!
//! The order: objects (`key`), modes (`mode`), rows of a page (`row_set`), the locks of one
//! transaction (`held`).

pub(crate) mod held;
pub(crate) mod key;
pub(crate) mod mode;
pub(crate) mod row_set;
