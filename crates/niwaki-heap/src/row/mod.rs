//! Reading and changing rows.
//!
//! The order: arguments and results, reading, the verdict on a version, changes, and what indexes
//! ask about the rows of an entry.

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
