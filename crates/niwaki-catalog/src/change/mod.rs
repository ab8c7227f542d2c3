//! The catalog of a database, and the transactions that change it.

pub(crate) mod catalog;
pub(crate) mod overlay;
pub(crate) mod shared;
pub(crate) mod temporary;
