//! Reading and changing rows.
//!
//! The order: arguments and results (`outcome`), reading (`read`, `follow`), verdicts on versions
//! (`judge`), changes (`target`, `insert`, `share_key`, `modify`, `live`), pieces of large values
//! (`alone`), and what indexes ask (`unique`, `dead`, `build`).

pub(crate) mod alone;
pub(crate) mod build;
pub(crate) mod dead;
pub(crate) mod follow;
pub(crate) mod insert;
pub(crate) mod judge;
pub(crate) mod live;
pub(crate) mod modify;
pub(crate) mod outcome;
pub(crate) mod read;
pub(crate) mod share_key;
pub(crate) mod target;
pub(crate) mod unique;
