//! The files of a data directory, without the log: the control file, the table of files, and the
//! files of relations.
//!
//! The order: integers from bytes (`cursor`), the gate of all writes (`gate`), the table of files
//! (`file_table`), the control file, which names the current table (`control`), descriptors of
//! files (`descriptors`), forks and their segments (`files`), and what is known of them
//! (`inventory`).

pub(crate) mod control;
pub(crate) mod cursor;
pub(crate) mod descriptors;
pub(crate) mod file_table;
pub(crate) mod files;
pub(crate) mod gate;
pub(crate) mod inventory;
