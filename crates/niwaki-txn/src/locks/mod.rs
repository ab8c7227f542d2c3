//! Locks without their holders: the objects and modes of locks, sets of them, and counts.
//!
//! The order: objects (`key`), modes (`mode`), rows of a page (`row_set`), the locks of one
//! transaction (`held`) and of one session (`advisory_holds`), counts of locks (`counts`), and the
//! share of waits for which spinning paid (`spin_stats`).

pub(crate) mod advisory_holds;
pub(crate) mod counts;
pub(crate) mod held;
pub(crate) mod key;
pub(crate) mod mode;
pub(crate) mod row_set;
pub(crate) mod spin_stats;
