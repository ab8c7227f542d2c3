//! The ways in which an insertion ends.

use niwaki_storage::{Tid, Xid};

/// The end of an insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryOutcome {
    /// The entry was inserted.
    Inserted,
    /// The entry existed already (docs/internals/design.md, "Index entries"): nothing was inserted.
    /// Its LP_DEAD mark, if any, is gone, and scans that read the leaf before can no longer mark
    /// the entry.
    AlreadyThere,
    /// A live row has this key: the entry at this TID. Nothing was inserted.
    Conflict(Tid),
    /// The conflict depends on this transaction: the caller waits for its end, then starts again.
    /// Nothing was inserted, and no latch is held.
    Wait(Xid),
    /// [`crate::DeletionOracle::gives_up`] returned true while the insertion waited for the leaf's
    /// latch. Nothing was inserted, and no latch is held.
    GivenUp,
    /// The table answered [`crate::UniqueVerdict::Undecided`]: the caller finds out, then starts
    /// again. Nothing was inserted, and no latch is held.
    Undecided,
}
