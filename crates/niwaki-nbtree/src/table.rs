//! What an index asks of the table it belongs to.
//!
//! Both traits are called while a leaf's exclusive latch is held. The implementation may latch heap
//! pages (lock order: leaf, then heap page), and must neither wait for a transaction nor call an
//! index.

use niwaki_storage::{Csn, Result, Tid, Xid};

use crate::batch::EntryPlace;

/// What the table knows about an entry whose key equals a new one's (rule 9b.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UniqueVerdict {
    /// No snapshot, present or future, finds a version with this key through the entry, and the
    /// commits that justify this are flushed: the index marks the entry LP_DEAD.
    Dead,
    /// Not in the way: the new entry's own root, a deleted row, or a stale entry whose chain has no
    /// live version with this key.
    NotConflicting,
    /// A live version with this key: the insertion fails.
    Conflict,
    /// A version with this key was inserted or deleted by a transaction still in progress (rule
    /// 9b.1): wait for it without any latch, then start again.
    InProgress(Xid),
    /// Only an expression can tell, which must not be evaluated under a latch (rule 9b.16): the table
    /// does so without any, then starts again.
    Undecided,
}

/// Implemented by the table: is this entry in the way of a new one with the same key?
pub trait UniqueCheck {
    /// Judges the entry `(key, tid)`, `key` being that of the new entry, by examining every version
    /// of the chain at `tid`. Never asked about entries already marked LP_DEAD.
    ///
    /// # Errors
    /// Storage's; the insertion fails with it, and nothing was changed.
    fn check(&self, key: &[u8], tid: Tid) -> Result<UniqueVerdict>;
}

/// An entry whose removal would help.
#[derive(Clone, Copy, Debug)]
pub struct DeletionCandidate<'a> {
    /// The entry's key.
    pub key: &'a [u8],
    /// The entry's TID.
    pub tid: Tid,
    /// Marked LP_DEAD: some scan found it dead to everyone. The table need not look again, except
    /// for the interval.
    pub known_dead: bool,
    /// Set by the table: TID is DEAD, or its chain has no non-removable version with this key.
    /// Preset to `known_dead`.
    pub deletable: bool,
    /// The index's own bookkeeping: where it is on the leaf.
    pub(crate) at: EntryPlace,
}

/// Union of the lifetimes `[b, e)` of what a removal removes, for standbys; `None` when no snapshot
/// that exists could have seen any of it.
pub type RemovedInterval = Option<(Csn, Csn)>;

/// Implemented by the table: which entries of a full leaf may go (design section 6)?
pub trait DeletionOracle {
    /// Sets [`DeletionCandidate::deletable`] where it is true; `candidates` are ascending by TID.
    /// Returns the interval of what it allowed.
    ///
    /// # Errors
    /// Storage's; the insertion fails with it, and nothing was changed.
    fn judge(&self, candidates: &mut [DeletionCandidate<'_>]) -> Result<RemovedInterval>;
}

/// What to do with one entry, decided under the leaf's exclusive latch (rule 9b.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryDecision {
    /// It stays.
    Keep,
    /// It goes.
    Delete,
}
