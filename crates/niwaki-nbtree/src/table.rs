//! The interface through which an index asks its table about entries.
//!
//! The index calls the methods of [`UniqueCheck`] and [`DeletionOracle`] while it holds a leaf's
//! exclusive latch. Exceptions are [`DeletionOracle::read_in`] and [`DeletionOracle::gives_up`].
//! The implementation may latch heap pages (lock order: leaf, then heap page). It must neither wait
//! for a transaction nor call an index.

use niwaki_storage::{BlockNumber, Csn, OffsetNumber, ReadAhead, Result, Tid, Xid};

use crate::page::entry::{BatchEntry, EntryPlace};

/// The table's knowledge about an entry whose key equals a new entry's key (rule `unique-check`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UniqueVerdict {
    /// No snapshot, present or future, finds a version with this key through the entry, and the
    /// commits that justify this are flushed: the index marks the entry LP_DEAD.
    Dead,
    /// Dead as in [`UniqueVerdict::Dead`], but some of those commits are not flushed. The entry
    /// must not be marked, but the index may delete it, since the deletion is logged. Carries the
    /// interval of the removed versions.
    Removable(RemovedInterval),
    /// No conflict. The entry leads to the new entry's own chain root or to a deleted row, or the
    /// entry is stale: its chain has no live version with this key.
    NotConflicting,
    /// The chain has a live version with this key: the insertion fails.
    Conflict,
    /// A transaction still in progress inserted or deleted a version with this key
    /// (rule `published`). The insertion ends, and its caller waits for the transaction without any
    /// latch, then starts again.
    InProgress(Xid),
    /// Only an expression can decide, which must not be evaluated under a latch
    /// (rule `bytes-under-latch`). The insertion ends; the table evaluates the expression without a
    /// latch, then starts again.
    Undecided,
}

/// Decides whether an existing entry conflicts with a new one of the same key. The table implements
/// this.
pub trait UniqueCheck {
    /// Judges the entry `(key, tid)` by examining every version of the chain at `tid`. `key` is the
    /// new entry's key. The index never asks about entries already marked LP_DEAD.
    ///
    /// # Errors
    /// Storage's; the insertion fails with the error, and nothing was changed.
    fn check(&self, key: &[u8], tid: Tid) -> Result<UniqueVerdict>;

    /// Reports that the index deleted entries with this key that were [`UniqueVerdict::Removable`].
    /// `_roots` are the chain roots of those entries, as in [`DeletionOracle::deleted`].
    fn deleted(&self, _roots: &[Tid]) {}
}

/// An entry of a full leaf about which the index asks the table.
#[derive(Clone, Copy, Debug)]
pub struct DeletionCandidate<'a> {
    /// The entry's key.
    pub key: &'a [u8],
    /// The entry's TID.
    pub tid: Tid,
    /// True if the entry is marked LP_DEAD: some scan found it dead to every snapshot. A hint only
    /// (rule `dead-marks`).
    pub known_dead: bool,
    /// True if another entry of the leaf has the same key: perhaps one is an old version of the
    /// other.
    pub promising: bool,
    /// Bytes that the removal of the entry frees, its line pointer included.
    pub bytes: u16,
    /// Set by the table: the TID is DEAD, or its chain has no non-removable version with this key.
    pub deletable: bool,
    /// The index's own bookkeeping: the place of the entry on the leaf.
    pub(crate) at: EntryPlace,
}

/// Union of the lifetimes `[b, e)` of the removed versions, for standbys. `None` when no existing
/// snapshot could have seen any of them.
pub type RemovedInterval = Option<(Csn, Csn)>;

/// Returns the smallest interval that contains both.
pub(crate) fn union(a: RemovedInterval, b: RemovedInterval) -> RemovedInterval {
    match (a, b) {
        (Some((from, to)), Some((begin, end))) => Some((from.min(begin), to.max(end))),
        (one, None) | (None, one) => one,
    }
}

/// The table's optimistic reading of some entries on one heap block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapGlance {
    /// The number of entries that lead to removed rows.
    pub dead: usize,
    /// True if other entries may be dead: some version on the block was deleted or replaced since
    /// its last cleanup.
    pub more: bool,
}

/// Decides which entries of a full leaf the index may delete
/// (docs/internals/design.md, "Bottom-up deletion"). The table implements this. The index chooses
/// the heap blocks that a pass visits, and their order; the table judges block after block.
pub trait DeletionOracle {
    /// Begins a pass: the table judges entries as of now until the next call.
    fn begin(&self);

    /// Returns the horizon before a pass of bottom-up deletion: the oldest snapshot that holds
    /// versions back, or the newest commit if there is no such snapshot. `None` when the table
    /// expects such a pass to find only versions that the running transaction itself wrote.
    fn prospect(&self) -> Option<Csn>;

    /// Sets [`DeletionCandidate::deletable`] to true where the entry may go, else to false. All
    /// candidates are on one heap block, ascending, and there is at least one. A pass visits each
    /// block once. Returns the interval of the versions that the table allowed to go.
    ///
    /// # Errors
    /// Storage's; the insertion fails with the error, and nothing was changed.
    fn judge(&self, candidates: &mut [DeletionCandidate<'_>]) -> Result<RemovedInterval>;

    /// Decides whether the insertion shall end with [`crate::EntryOutcome::GivenUp`]. The index
    /// asks repeatedly while the insertion waits for the latch of its leaf.
    fn gives_up(&self) -> bool;

    /// Reports that the index deleted the entries of these chain roots, as the table allowed. The
    /// index calls this under the latch of the leaf. A table that frees line pointers in vacuum
    /// only has nothing to do.
    fn deleted(&self, _roots: &[Tid]) {}

    /// Ends a pass of bottom-up deletion; `found` says whether the pass found any deletable entry.
    fn end(&self, found: bool);

    /// Estimates cheaply how many entries that lead to these offsets of a heap block are dead.
    /// `None`: the block is not in memory.
    fn glance(&self, block: BlockNumber, offsets: &[OffsetNumber]) -> Option<HeapGlance>;

    /// Keeps the offsets of a heap block whose entries are likely to be dead to every snapshot. The
    /// version at such an offset was deleted or replaced, and no snapshot needs it. The order is
    /// arbitrary. Keeps no offset where the block is not in memory.
    fn keep_removable(&self, block: BlockNumber, offsets: &mut Vec<OffsetNumber>);

    /// Decides whether an old snapshot alone keeps a deleted or replaced version at one of these
    /// offsets of a heap block. The index asks before it splits a leaf for a version. False where
    /// the block is not in memory.
    fn keeps_for_old_snapshot(&self, _block: BlockNumber, _offsets: &[OffsetNumber]) -> bool {
        false
    }

    /// Reads a heap block into memory. The index holds no latch.
    ///
    /// # Errors
    /// Storage's.
    fn read_in(&self, block: BlockNumber) -> Result<()>;
}

/// The decision about one entry, taken under the leaf's exclusive latch (rule `one-hold`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryDecision {
    /// The entry stays.
    Keep,
    /// The entry goes.
    Delete,
    /// The entry stays, with the payload that [`EntryVisitor::payload`] returns now
    /// (rule `payload-rewritten`).
    Rewrite,
}

/// The next page of a pass over all entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextVisit {
    /// The pass goes on to the next page.
    NextPage,
    /// The pass visits the same page again: the visitor can now decide about entries that it could
    /// not decide about before.
    SamePage,
}

/// A visitor of every entry of an index ([`crate::Index::vacuum`]). A closure is a visitor that
/// only decides.
pub trait EntryVisitor {
    /// Decides about one entry. The index calls this under the leaf's exclusive latch: the visitor
    /// may latch heap pages, and must neither wait for a transaction nor call an index. An entry
    /// that goes must be dead to every snapshot. If its tuple was in the heap, the removal from the
    /// heap must be logged.
    fn decide(&mut self, entry: BatchEntry<'_>) -> EntryDecision;

    /// Returns the entry's new payload, after [`EntryDecision::Rewrite`].
    fn payload(&self) -> &[u8] {
        &[]
    }

    /// Reports that the new payload of this chain root's entry does not fit its leaf. The entry
    /// stays as it was.
    fn did_not_fit(&mut self, _root: Tid) {}

    /// Returns how far the pass reads ahead.
    fn read_ahead(&self) -> ReadAhead {
        ReadAhead::default()
    }

    /// Runs delays and interrupts between two pages, with no latch held. `reads` is the number of
    /// pages read for the last page. `changed` says whether the pass changed any of them.
    ///
    /// # Errors
    /// An error ends the pass.
    fn between_pages(&mut self, reads: u64, changed: bool) -> Result<NextVisit> {
        let _ = (reads, changed);
        Ok(NextVisit::NextPage)
    }
}

impl<F: FnMut(BatchEntry<'_>) -> EntryDecision> EntryVisitor for F {
    fn decide(&mut self, entry: BatchEntry<'_>) -> EntryDecision {
        self(entry)
    }
}
