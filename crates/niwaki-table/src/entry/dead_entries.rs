//! Dead-entry checks: which entries of a leaf the index may delete.
//!
//! The index calls them under the leaf's exclusive latch. They latch heap pages, and never wait.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use niwaki_heap::{Deadness, RowRef};
use niwaki_nbtree::{DeletionCandidate, DeletionOracle, HeapGlance, RemovedInterval};
use niwaki_storage::{BlockNumber, Csn, OffsetNumber, RelFileId, Result, Tid, Xid};
use niwaki_txn::{Horizon, Interrupted, Transaction};

use crate::entry::recheck::{Entry, Seen};
use crate::entry::unique::storage;
use crate::relation::plain_key::HasKey;
use crate::relation::table::Table;

/// The bytes of log after a snapshot from which the snapshot counts as old. Short statements, of
/// which some are always open, block nothing for long.
const OLD_LOG_BYTES: u64 = 1 << 20;

/// Judges the entries of a leaf (docs/internals/design.md, "Bottom-up deletion").
pub(crate) struct DeadEntries<'t> {
    table: &'t Table,
    index: usize,
    /// The horizon, read once per pass.
    horizon: RefCell<Option<Horizon>>,
    /// Roots with several keys whose entries may be removed: the index may have other entries for
    /// them, or get some.
    mixed: RefCell<Vec<Tid>>,
    inserting: Option<Inserting<'t>>,
}

/// The insertion that needs the room.
struct Inserting<'t> {
    tx: &'t Transaction,
    churn: &'t RefCell<OwnChurn>,
    /// Entries of the pass that stay. `own` counts those that wait for this transaction. `others`
    /// counts those that wait for another one, and promising ones.
    own: Cell<u32>,
    others: Cell<u32>,
    /// True when an old snapshot keeps entries whose removal would have made room on a leaf.
    held_back: Cell<bool>,
    /// The interrupt that ended the pass.
    interrupted: RefCell<Option<Interrupted>>,
}

impl<'t> DeadEntries<'t> {
    pub(crate) fn new(table: &'t Table, index: usize) -> Self {
        let (horizon, mixed) = (RefCell::default(), RefCell::default());
        Self { table, index, horizon, mixed, inserting: None }
    }

    /// Makes the checks for an insertion by `tx`. `churn` spares it repeated tries that meet only
    /// its own entries.
    pub(crate) fn inserting(
        table: &'t Table,
        index: usize,
        tx: &'t Transaction,
        churn: &'t RefCell<OwnChurn>,
    ) -> Self {
        debug_assert!(table.indexes[index].definition.ready, "index {index} takes no entries");
        let (own, others) = (Cell::new(0), Cell::new(0));
        let interrupted = RefCell::default();
        let held_back = Cell::new(false);
        let inserting = Some(Inserting { tx, churn, own, others, held_back, interrupted });
        Self { inserting, ..Self::new(table, index) }
    }

    /// Returns true when the index split a leaf for lack of room that only an old snapshot kept.
    pub(crate) fn was_held_back(&self) -> bool {
        self.inserting.as_ref().is_some_and(|inserting| inserting.held_back.get())
    }

    /// Takes the interrupt that made [`DeletionOracle::gives_up`] return true.
    pub(crate) fn interrupted(&self) -> Option<Interrupted> {
        self.inserting.as_ref().and_then(|inserting| inserting.interrupted.take())
    }

    fn file(&self) -> RelFileId {
        self.table.indexes[self.index].handle.file().id
    }
}

impl DeletionOracle for DeadEntries<'_> {
    fn begin(&self) {
        *self.horizon.borrow_mut() = None;
        self.mixed.borrow_mut().clear();
        if let Some(inserting) = &self.inserting {
            inserting.own.set(0);
            inserting.others.set(0);
        }
    }

    fn prospect(&self) -> Option<Csn> {
        if let Some(inserting) = &self.inserting
            && !inserting.churn.borrow_mut().is_worth_a_try(inserting.tx.xid(), self.file())
        {
            return None;
        }
        Some(self.with_horizon(Horizon::oldest))
    }

    fn judge(&self, candidates: &mut [DeletionCandidate<'_>]) -> Result<RemovedInterval> {
        let Some(first) = candidates.first() else { return Ok(None) };
        let block = first.tid.block;
        debug_assert!(candidates.is_sorted_by_key(|it| it.tid), "candidates are not in order");
        self.with_horizon(|horizon| {
            let heap = self.table.heap();
            let probe = heap.probe_dead(block.0).map_err(storage)?;
            let mut interval: RemovedInterval = None;
            for candidate in candidates {
                debug_assert_eq!(candidate.tid.block, block, "one block at a time");
                let (key, root) = (candidate.key, candidate.tid);
                let entry = Entry { index: self.index, key, root, seen: Seen::Now };
                // A version whose key comes from an expression may have this key. Its entry stays
                // until the whole chain is dead.
                let has_key = |row: RowRef<'_>| self.table.recheck(entry, row, None) != HasKey::No;
                // A mark is a hint (rule `dead-marks`): the table checks marked entries too.
                let deadness = probe.deadness(candidate.tid, horizon, has_key);
                candidate.deletable = matches!(deadness, Deadness::Dead { .. });
                if candidate.deletable && probe.is_mixed(root) {
                    self.mixed.borrow_mut().push(root);
                }
                match deadness {
                    Deadness::Dead { lifetime: Some((begin, end)), .. } => {
                        let (from, to) = interval.unwrap_or((begin, end));
                        interval = Some((from.min(begin), to.max(end)));
                    }
                    Deadness::Dead { lifetime: None, .. } => {}
                    Deadness::Pending(xid) => self.stays_for(Some(xid)),
                    Deadness::Alive if candidate.promising => self.stays_for(None),
                    Deadness::Alive => {}
                }
            }
            Ok(interval)
        })
    }

    fn gives_up(&self) -> bool {
        let Some(Inserting { tx, interrupted, .. }) = &self.inserting else { return false };
        // The leaf is latched, so this only asks and does not wait.
        let Err(why) = tx.session().interrupted() else { return false };
        *interrupted.borrow_mut() = Some(why);
        true
    }

    fn deleted(&self, roots: &[Tid]) {
        if self.inserting.is_none() {
            // A reader's lock does not exclude DDL on the table.
            return;
        }
        let mixed = self.mixed.borrow();
        self.table.note_unreferenced(self.index, roots, &mixed);
    }

    fn end(&self, found: bool) {
        let Some(Inserting { tx, churn, own, others, .. }) = &self.inserting else { return };
        let mostly_own = own.get() > others.get();
        if found || mostly_own {
            churn.borrow_mut().note(tx.xid(), self.file(), !found);
        }
    }

    fn glance(&self, block: BlockNumber, offsets: &[OffsetNumber]) -> Option<HeapGlance> {
        let (dead, more) = self.table.heap().pruned_roots(block.0, offsets)?;
        Some(HeapGlance { dead, more })
    }

    fn keep_removable(&self, block: BlockNumber, offsets: &mut Vec<OffsetNumber>) {
        let waits = |xid| self.stays_for(Some(xid));
        self.with_horizon(|horizon| {
            self.table.heap().keep_removable(block.0, offsets, horizon, waits);
        });
    }

    fn keeps_for_old_snapshot(&self, block: BlockNumber, offsets: &[OffsetNumber]) -> bool {
        let transactions = self.table.engine.transactions();
        let kept = self.with_horizon(|horizon| {
            let log_since = transactions.published().0.saturating_sub(horizon.oldest().0);
            log_since >= OLD_LOG_BYTES && self.table.heap().retains_some(block.0, offsets, horizon)
        });
        if let Some(inserting) = self.inserting.as_ref().filter(|_| kept) {
            inserting.held_back.set(true);
        }
        kept
    }

    fn read_in(&self, block: BlockNumber) -> Result<()> {
        self.table.heap().read_in(block.0).map_err(storage)
    }
}

impl DeadEntries<'_> {
    fn with_horizon<R>(&self, ask: impl FnOnce(&Horizon) -> R) -> R {
        let mut horizon = self.horizon.borrow_mut();
        ask(horizon.get_or_insert_with(|| self.table.engine.transactions().horizon()))
    }

    /// Counts an entry that stays. `pending` is the transaction whose end it waits for, if any.
    fn stays_for(&self, pending: Option<Xid>) {
        if let Some(Inserting { tx, own, others, .. }) = &self.inserting {
            let counted = if pending.is_some_and(|xid| tx.is_mine(xid)) { own } else { others };
            counted.set(counted.get() + 1);
        }
    }
}

/// Tries of bottom-up deletion, per index, that found mostly entries of the running transaction
/// itself.
///
/// A statement that updates many rows fills leaf after leaf with versions that cannot be removed
/// before its end. After each failed try, twice as many tries are spared. Some still run, so that a
/// later try can show its worth.
#[derive(Debug, Default)]
pub(crate) struct OwnChurn {
    transaction: Option<Xid>,
    tries: BTreeMap<RelFileId, Tries>,
}

/// The tries on one index.
#[derive(Clone, Copy, Debug, Default)]
struct Tries {
    /// Failed tries in a row.
    failed: u32,
    /// Tries to be spared before the next one.
    spared: u32,
}

/// The most tries that are spared after a failed one.
const SPARED_MAX: u32 = 64;

// The spared tries double up to here.
const _: () = assert!(SPARED_MAX.is_power_of_two());

impl OwnChurn {
    fn of(&mut self, transaction: Option<Xid>, index: RelFileId) -> &mut Tries {
        if self.transaction != transaction {
            self.transaction = transaction;
            self.tries.clear();
        }
        self.tries.entry(index).or_default()
    }

    fn is_worth_a_try(&mut self, transaction: Option<Xid>, index: RelFileId) -> bool {
        let tries = self.of(transaction, index);
        debug_assert!(tries.spared <= SPARED_MAX, "{} tries are spared", tries.spared);
        debug_assert!(
            tries.spared == 0 || tries.failed > 0,
            "tries are spared without a failed one"
        );
        tries.spared = tries.spared.saturating_sub(1);
        tries.spared == 0
    }

    fn note(&mut self, transaction: Option<Xid>, index: RelFileId, mostly_own: bool) {
        let tries = self.of(transaction, index);
        tries.failed = if mostly_own { tries.failed + 1 } else { 0 };
        tries.spared = if mostly_own { SPARED_MAX.min(1 << tries.failed.min(31)) } else { 0 };
        debug_assert_eq!(tries.spared > 0, mostly_own, "only failed tries spare others");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_in_vain_grow_rare() {
        let mut churn = OwnChurn::default();
        let (first, second) = (Some(Xid(10)), Some(Xid(11)));
        let index = RelFileId(7);
        let mut tried = Vec::new();
        for turn in 0..400 {
            if churn.is_worth_a_try(first, index) {
                tried.push(turn);
                churn.note(first, index, true);
            }
        }
        assert_eq!(tried, [0, 2, 6, 14, 30, 62, 126, 190, 254, 318, 382]);
        assert!(churn.is_worth_a_try(first, RelFileId(8)), "another index");
        assert!(churn.is_worth_a_try(second, index), "another transaction");
        churn.note(second, index, true);
        assert!(!churn.is_worth_a_try(second, index));
        assert!(churn.is_worth_a_try(second, index));
        churn.note(second, index, false);
        assert!(churn.is_worth_a_try(second, index), "it found something");
    }
}
