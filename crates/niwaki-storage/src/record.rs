//! The vocabulary of the write-ahead log: who owns a record, and what redo gets.

/// Owner of a record type (byte in the record header). Numbers are part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Manager {
    /// Checkpoints, file creation and removal, full-page images.
    Storage = 0,
    /// Commit, abort, transaction status.
    Transaction = 1,
    /// Heap tuples and pages.
    Heap = 2,
    /// nbtree.
    Nbtree = 3,
    /// Sequences.
    Sequence = 4,
    /// Visibility and free space maps.
    Map = 5,
}
