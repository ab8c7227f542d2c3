//! Checks and statistics: views of a heap that change nothing.
//!
//! The order: statistics (`distribution`, `chain_stats`), versions that snapshots hold
//! (`by_snapshot`), the stored form (`inspect`), checks of the invariants (`check`).

pub(crate) mod by_snapshot;
pub(crate) mod chain_stats;
pub(crate) mod check;
pub(crate) mod distribution;
pub(crate) mod inspect;
