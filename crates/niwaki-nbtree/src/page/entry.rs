//! Entries as callers know them, and the place of an entry on its leaf.

use niwaki_storage::{Tid, Xid};

/// The place of an entry on its leaf. Places have the order of the entries. Without the leaf's
/// latch a place has a meaning only together with a [`LeafRead`](crate::LeafRead).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntryPlace {
    /// Offset number of the item.
    pub(crate) offset: u16,
    /// Place of the TID in the item, from 0.
    pub(crate) place: u8,
}

/// One entry of a [`LeafBatch`](crate::LeafBatch).
#[derive(Clone, Copy, Debug)]
pub struct BatchEntry<'a> {
    /// Key bytes, as inserted.
    pub key: &'a [u8],
    /// INCLUDE payload, as inserted. It may be stale while the chain root is `mixed`: a root with
    /// several keys (docs/internals/design.md, "Index entries").
    pub payload: &'a [u8],
    /// TID of the chain root.
    pub tid: Tid,
}

/// An entry to insert.
#[derive(Clone, Copy, Debug)]
pub struct NewEntry<'a> {
    /// Normalized key bytes.
    pub key: &'a [u8],
    /// INCLUDE payload.
    pub payload: &'a [u8],
    /// TID of the row's chain root.
    pub tid: Tid,
    /// The inserting transaction, for the log.
    pub xid: Xid,
    /// True if the row moved and its key did not change (docs/internals/design.md, "Index
    /// entries"). This is a reason to look for dead versions before a split (bottom-up deletion).
    pub logically_unchanged: bool,
}
