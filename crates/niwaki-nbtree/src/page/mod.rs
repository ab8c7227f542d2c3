//! Index pages, tuples and log records, byte by byte, without an index around them.
//!
//! The order: entries, the page, the tuples on it, the search among them, the pivot between two of
//! them. Then come changes of a page with their bytes in the log: single items, removals, posting
//! lists. The records and their redo come last.

pub(crate) mod change;
pub(crate) mod entry;
pub(crate) mod golomb;
pub(crate) mod layout;
pub(crate) mod posting_lists;
pub(crate) mod removal;
pub(crate) mod search;
pub(crate) mod separator;
pub(crate) mod tuple;
pub(crate) mod wal;
