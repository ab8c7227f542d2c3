//! Steps that change tables, and the triggers that they fire.

pub(crate) mod conflict;
pub(crate) mod merge;
pub(crate) mod modify;
pub(crate) mod partitions;
pub(crate) mod point;
pub(crate) mod trigger;
