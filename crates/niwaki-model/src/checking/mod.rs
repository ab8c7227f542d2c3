//! Checks of the invariants, and of the rows that scans return.

pub(crate) mod invariants;
