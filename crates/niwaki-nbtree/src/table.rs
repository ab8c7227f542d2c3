//! What an index asks of the table it belongs to.
//!
//! Both traits are called while a leaf's exclusive latch is held, but for reading in heap blocks. The
//! implementation may latch heap pages (lock order: leaf, then heap page), and must neither wait for a
//! transaction nor call an index.

use niwaki_storage::{BlockNumber, Csn, OffsetNumber, ReadAhead, Result, Tid, Xid};

use crate::batch::{BatchEntry, EntryPlace};

/// What the table knows about an entry whose key equals a new one's (rule 9b.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UniqueVerdict {
    /// No snapshot, present or future, finds a version with this key through the entry, and the
    /// commits that justify this are flushed: the index marks the entry LP_DEAD.
    Dead,
    /// As [`UniqueVerdict::Dead`], but some of those commits are not flushed: it must not be marked, it may be
    /// deleted, since that is logged. With the interval that this removes.
    Removable(RemovedInterval),
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

    /// The index has deleted entries with this key that were [`UniqueVerdict::Removable`], which lead to these
    /// roots; as [`DeletionOracle::deleted`].
    fn deleted(&self, _roots: &[Tid]) {}
}

/// An entry of a full leaf, as the table is asked about it.
#[derive(Clone, Copy, Debug)]
pub struct DeletionCandidate<'a> {
    /// The entry's key.
    pub key: &'a [u8],
    /// The entry's TID.
    pub tid: Tid,
    /// Marked LP_DEAD: some scan found it dead to everyone. A hint only (rule 9b.13).
    pub known_dead: bool,
    /// Another entry of the leaf has its key: perhaps one is an old version of the other.
    pub promising: bool,
    /// What its removal frees, in bytes, its line pointer included.
    pub bytes: u16,
    /// Set by the table: TID is DEAD, or its chain has no non-removable version with this key.
    pub deletable: bool,
    /// The index's own bookkeeping: where it is on the leaf.
    pub(crate) at: EntryPlace,
}

/// Union of the lifetimes `[b, e)` of what a removal removes, for standbys; `None` when no snapshot
/// that exists could have seen any of it.
pub type RemovedInterval = Option<(Csn, Csn)>;

/// What a table knows of entries on a heap block at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapGlance {
    /// So many lead to rows that are gone.
    pub dead: usize,
    /// Others may be dead: something was deleted or replaced on the block since it was cleaned.
    pub more: bool,
}

/// Implemented by the table: which entries of a full leaf may go (design section 6)? The index chooses
/// the heap blocks that a pass visits, and in which order; the table judges block after block.
pub trait DeletionOracle {
    /// A pass begins: entries are judged as of now until the next one.
    fn begin(&self);

    /// Before a pass of bottom-up deletion: the oldest snapshot that holds versions back, or the
    /// newest commit if none does; `None` when the table expects such a pass to find only what the
    /// running transaction itself wrote.
    fn prospect(&self) -> Option<Csn>;

    /// Sets [`DeletionCandidate::deletable`] where it is true, else to false. The candidates, at least
    /// one, ascending, are all on one heap block, which is visited once. Returns the interval of what
    /// it allowed.
    ///
    /// # Errors
    /// Storage's; the insertion fails with it, and nothing was changed.
    fn judge(&self, candidates: &mut [DeletionCandidate<'_>]) -> Result<RemovedInterval>;

    /// Asked now and then while the insertion waits for the latch of its leaf: whether it shall end, with
    /// [`crate::InsertOutcome::GivenUp`].
    fn gives_up(&self) -> bool;

    /// The index has deleted the entries that lead to these roots, as the table allowed. Told under the latch
    /// of the leaf. Nothing to do for a table that frees line pointers in vacuum only.
    fn deleted(&self, _roots: &[Tid]) {}

    /// A pass of bottom-up deletion ended; whether it found anything.
    fn end(&self, found: bool);

    /// How many of the entries that lead to these offsets of a heap block are dead, as far as can be told
    /// cheaply. `None`: the block is not in memory.
    fn glance(&self, block: BlockNumber, offsets: &[OffsetNumber]) -> Option<HeapGlance>;

    /// Keeps those of these offsets of a heap block, in any order, whose entries are likely to be dead to all:
    /// what they lead to was deleted or replaced, and no snapshot needs it. None, where the block is not in
    /// memory.
    fn keep_removable(&self, block: BlockNumber, offsets: &mut Vec<OffsetNumber>);

    /// Asked before a leaf is split for a version: whether an old snapshot alone keeps what one of these offsets of a heap
    /// block leads to, although it was deleted or replaced. False, where the block is not in memory.
    fn keeps_for_old_snapshot(&self, _block: BlockNumber, _offsets: &[OffsetNumber]) -> bool {
        false
    }

    /// Reads a heap block in. No latch is held.
    ///
    /// # Errors
    /// Storage's.
    fn read_in(&self, block: BlockNumber) -> Result<()>;
}

/// What to do with one entry, decided under the leaf's exclusive latch (rule 9b.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryDecision {
    /// It stays.
    Keep,
    /// It goes.
    Delete,
    /// It stays, with the payload that [`EntryVisitor::payload`] has now (rule 9b.14).
    Rewrite,
}

/// Where a pass over all entries goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextVisit {
    /// On to the next page.
    NextPage,
    /// To the same page again: what could not be decided there can be now.
    SamePage,
}

/// Who visits every entry of an index ([`crate::Index::vacuum`]). A closure is one that only decides.
pub trait EntryVisitor {
    /// Called under the leaf's exclusive latch: the visitor may latch heap pages, and must neither wait for a
    /// transaction nor call an index. What goes must be dead to everyone, and its removal from the heap,
    /// if it was there, logged.
    fn decide(&mut self, entry: BatchEntry<'_>) -> EntryDecision;

    /// After [`EntryDecision::Rewrite`]: the entry's new payload.
    fn payload(&self) -> &[u8] {
        &[]
    }

    /// The new payload of this root's entry does not fit its leaf: it stays as it was.
    fn did_not_fit(&mut self, _root: Tid) {}

    /// How far the pass reads ahead.
    fn read_ahead(&self) -> ReadAhead {
        ReadAhead::default()
    }

    /// Called with no latch held, for delays and interrupts: `reads` pages were read for the last one, of which
    /// something was changed or not.
    ///
    /// # Errors
    /// End the pass.
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
