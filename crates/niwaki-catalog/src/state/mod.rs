//! All objects as one moment has them.

pub(crate) mod catalog_state;
pub(crate) mod databases;
pub(crate) mod functions;
pub(crate) mod maps;
pub(crate) mod numbering;
pub(crate) mod partitions;
pub(crate) mod relation;
pub(crate) mod system;
pub(crate) mod types;
