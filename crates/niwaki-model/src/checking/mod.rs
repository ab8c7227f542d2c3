//! Checks of a run.
//!
//! - `answers`: checks commits, scans, and conclusions of followers against the oracle.
//! - `invariants`: checks the invariants after every step that changed something.

pub(crate) mod answers;
pub(crate) mod invariants;
