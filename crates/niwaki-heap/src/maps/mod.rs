//! The maps of a heap: which pages have room, and which pages every snapshot sees.
//!
//! The order: the free space map (`room`), the visibility map and the log records of changes
//! (`visibility`).

pub(crate) mod room;
pub(crate) mod visibility;
