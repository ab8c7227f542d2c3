//! Reading and changing rows.
//!
//! The order: arguments and results (`outcome`), reading (`read`, `follow`), verdicts on versions
//! (`judge`), changes (`placement`, `insert`, `share_key`, `modify`, `live`), pieces of large
//! values (`pieces`), and what indexes ask (`unique`, `dead`, `build_scan`).

pub(crate) mod build_scan;
pub(crate) mod dead;
pub(crate) mod follow;
pub(crate) mod insert;
pub(crate) mod judge;
pub(crate) mod live;
pub(crate) mod modify;
pub(crate) mod outcome;
pub(crate) mod pieces;
pub(crate) mod placement;
pub(crate) mod read;
pub(crate) mod share_key;
pub(crate) mod unique;
