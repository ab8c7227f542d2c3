//! Pages, tuples and log records, byte by byte, without a heap around them.
//!
//! The order: the tuple's header (`header`), the page around tuples (`page`), changes of a page
//! with their bytes in the log (`change`), pages of the visibility map (`map_page`), redo of the
//! records (`redo`), and rows as readers get them (`rows`).

pub(crate) mod change;
pub(crate) mod header;
pub(crate) mod map_page;
pub(crate) mod page;
pub(crate) mod redo;
pub(crate) mod rows;
