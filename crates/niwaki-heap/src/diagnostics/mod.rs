//! Checks and statistics: views of a heap that change nothing.

pub(crate) mod chain_stats;
pub(crate) mod check;
pub(crate) mod distribution;
pub(crate) mod holds;
pub(crate) mod inspect;
