//! All objects as one moment has them.
//!
//! - `maps`, `databases`: types, functions and databases by number and by name.
//! - `system`: relations whose rows are computed, and what the running database tells them.
//! - `partitions`: the partitions of a table, ready for routing rows.
//! - `relation`: a definition with the open table, as statements use it.
//! - `catalog_state`: all objects of one moment.
//! - `types`, `functions`: find types, collations, functions and triggers in a state.
//! - `numbering`: numbers of objects without a number in the catalog.

pub(crate) mod catalog_state;
pub(crate) mod databases;
pub(crate) mod functions;
pub(crate) mod maps;
pub(crate) mod numbering;
pub(crate) mod partitions;
pub(crate) mod relation;
pub(crate) mod system;
pub(crate) mod types;
