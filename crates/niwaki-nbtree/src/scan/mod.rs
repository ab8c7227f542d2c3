//! Scans: ranges of keys, read a leaf at a time.
//!
//! The order: ranges, the matches of one leaf, the progress of a scan, and the scan.

pub(crate) mod batch;
pub(crate) mod leaves;
pub(crate) mod passed;
pub(crate) mod range;
pub(crate) mod ranges;
