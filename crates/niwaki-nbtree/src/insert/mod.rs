//! Insertions: how they end, the unique check, and the attempts to put an entry on its leaf.

pub(crate) mod entry_insert;
pub(crate) mod outcome;
pub(crate) mod unique_check;
