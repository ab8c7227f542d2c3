//! The memory of an open index between operations: settings, counts and hints.
//!
//! Everything here is bounded. The order: settings and counters, the credit of deletions, leaves on
//! which passes failed, the state of packing, then free pages and the epoch of links.

pub(crate) mod credit;
pub(crate) mod density;
pub(crate) mod failures;
pub(crate) mod latch_hold;
pub(crate) mod options;
pub(crate) mod recycle;
pub(crate) mod stats;
