//! A table for which tests decide which entries are dead.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use niwaki_storage::{BlockNumber, Csn, OffsetNumber, Result, Tid};

use crate::{DeletionCandidate, DeletionOracle, HeapGlance, RemovedInterval};

/// The interval of everything that a [`TestTable`] allows.
pub(crate) const REMOVED: RemovedInterval = Some((Csn(3), Csn(9)));

/// A table that allows entries that `dead` accepts, and notes the questions.
pub(crate) struct TestTable<F: Fn(&DeletionCandidate<'_>) -> bool> {
    dead: F,
    /// Every question, in order.
    pub(crate) asked: RefCell<Vec<(Tid, bool)>>,
    /// Keys and TIDs that were allowed to go.
    pub(crate) allowed: RefCell<Vec<(Vec<u8>, Tid)>>,
    /// Heap blocks visited, in order.
    pub(crate) visited: RefCell<Vec<u32>>,
    /// Heap blocks that are on disk only.
    pub(crate) on_disk: RefCell<BTreeSet<u32>>,
    /// True if glances (optimistic reads) return nothing, as for blocks that are not in memory.
    pub(crate) blind: Cell<bool>,
    /// Heap blocks on which glances see no dead entry.
    pub(crate) alive: RefCell<BTreeSet<u32>>,
    /// The horizon: the oldest snapshot that holds versions back.
    pub(crate) oldest: Cell<Option<Csn>>,
    /// True if the table gives up every wait for a latch.
    pub(crate) impatient: Cell<bool>,
    /// For each pass of bottom-up deletion: whether it found an entry.
    pub(crate) ended: RefCell<Vec<bool>>,
}

impl<F: Fn(&DeletionCandidate<'_>) -> bool> TestTable<F> {
    pub(crate) fn new(dead: F) -> Self {
        Self {
            dead,
            asked: RefCell::default(),
            allowed: RefCell::default(),
            visited: RefCell::default(),
            on_disk: RefCell::default(),
            blind: Cell::new(false),
            alive: RefCell::default(),
            oldest: Cell::new(Some(Csn(5))),
            impatient: Cell::new(false),
            ended: RefCell::default(),
        }
    }
}

impl<F: Fn(&DeletionCandidate<'_>) -> bool> DeletionOracle for TestTable<F> {
    fn begin(&self) {}

    fn prospect(&self) -> Option<Csn> {
        self.oldest.get()
    }

    fn judge(&self, candidates: &mut [DeletionCandidate<'_>]) -> Result<RemovedInterval> {
        let block = candidates[0].tid.block;
        assert!(candidates.iter().all(|candidate| candidate.tid.block == block));
        assert!(candidates.is_sorted_by_key(|candidate| candidate.tid));
        assert!(!self.on_disk.borrow().contains(&block.0), "read under the leaf's latch");
        self.visited.borrow_mut().push(block.0);
        for candidate in candidates {
            self.asked.borrow_mut().push((candidate.tid, candidate.known_dead));
            candidate.deletable = (self.dead)(candidate);
            if candidate.deletable {
                self.allowed.borrow_mut().push((candidate.key.to_vec(), candidate.tid));
            }
        }
        Ok(REMOVED)
    }

    fn gives_up(&self) -> bool {
        self.impatient.get()
    }

    fn end(&self, found: bool) {
        self.ended.borrow_mut().push(found);
    }

    fn glance(&self, block: BlockNumber, offsets: &[OffsetNumber]) -> Option<HeapGlance> {
        let seen = !self.blind.get() && !self.on_disk.borrow().contains(&block.0);
        let dead = if self.alive.borrow().contains(&block.0) { 0 } else { offsets.len() };
        seen.then_some(HeapGlance { dead, more: false })
    }

    fn keep_removable(&self, _: BlockNumber, _: &mut Vec<OffsetNumber>) {}

    fn read_in(&self, block: BlockNumber) -> Result<()> {
        assert!(self.on_disk.borrow_mut().remove(&block.0), "it was there already");
        Ok(())
    }
}
