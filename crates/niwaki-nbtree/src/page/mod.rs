//! Index pages, tuples and log records, byte by byte, without an index around them.
//!
//! The order: entries, the page, the tuples on it, the search among them, the pivot between two of
//! them, then changes of a page with their bytes in the log, and the records with their redo.

pub(crate) mod bits;
pub(crate) mod change;
pub(crate) mod entry;
pub(crate) mod layout;
pub(crate) mod removal;
pub(crate) mod search;
pub(crate) mod separator;
pub(crate) mod tuple;
pub(crate) mod wal;
