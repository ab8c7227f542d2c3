//! The files of a data directory, without the log: the control file, the table of files, and the
//! files of relations.
//!
//! The order: integers from bytes (`cursor`), the gate of all writes (`gate`), the table of files
//! (`file_table`), the control file, which names the current table (`control`), descriptors of
//! files (`open_files`), forks and their segments (`files`), and what is known of them
//! (`known_files`).

pub(crate) mod control;
pub(crate) mod cursor;
pub(crate) mod file_table;
pub(crate) mod files;
pub(crate) mod gate;
pub(crate) mod known_files;
pub(crate) mod open_files;
