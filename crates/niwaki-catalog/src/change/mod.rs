//! The catalog of a database, and the transactions that change it.
//!
//! - `shared`: the list of databases, and the counter of object numbers.
//! - `apply`: changes, and the state that they make.
//! - `catalog`: the catalog of one database: its committed state.
//! - `temporary`: relations that only one session has.
//! - `overlay`: the changes of one transaction.

pub(crate) mod apply;
pub(crate) mod catalog;
pub(crate) mod overlay;
pub(crate) mod shared;
pub(crate) mod temporary;
