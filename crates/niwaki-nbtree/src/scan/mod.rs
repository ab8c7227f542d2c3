//! Scans: ranges of keys, read a leaf at a time.
//!
//! The order: ranges, the matches of one leaf, the position of a scan, and the scan.

pub(crate) mod batch;
pub(crate) mod key_range;
pub(crate) mod position;
pub(crate) mod range_scan;
pub(crate) mod range_source;
