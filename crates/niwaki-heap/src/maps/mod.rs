//! The maps of a heap: which pages have room, and which pages every snapshot sees.

pub(crate) mod room;
pub(crate) mod visibility;
