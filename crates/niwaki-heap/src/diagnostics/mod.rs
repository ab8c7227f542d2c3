//! Checks and statistics: views of a heap that change nothing.
//!
//! The order: statistics (`distribution`, `chain_stats`), versions that snapshots hold (`holds`),
//! the stored form (`inspect`), checks of the invariants (`check`).

pub(crate) mod chain_stats;
pub(crate) mod check;
pub(crate) mod distribution;
pub(crate) mod holds;
pub(crate) mod inspect;
