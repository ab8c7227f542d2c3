//! Pages, tuples and log records, byte by byte, without a heap around them.
//!
//! The order: the tuple header, the page around tuples, changes of a page with their bytes in the
//! log, pages of the visibility map, redo of the records, and rows as readers get them.

pub(crate) mod change;
pub(crate) mod header;
pub(crate) mod map_page;
pub(crate) mod page;
pub(crate) mod redo;
pub(crate) mod rows;
