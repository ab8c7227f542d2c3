//! Uniqueness checks: whether an existing index entry conflicts with a new one.
//!
//! The index calls them under the leaf's exclusive latch. They latch heap pages, and never wait.

use std::cell::{Cell, RefCell};

use niwaki_env::seeded_bug;
use niwaki_heap::{Deadness, RowRef, UniqueProbe};
use niwaki_nbtree::{UniqueCheck, UniqueVerdict};
use niwaki_storage::Tid;
use niwaki_txn::Transaction;

use crate::entry::recheck::{Entry, Seen};
use crate::entry::row_key::KeyMemo;
use crate::relation::plain_key::HasKey;
use crate::relation::table::Table;

/// Judges existing entries that have the key of a new one (rule `unique-check`).
pub(crate) struct KeyCheck<'t> {
    pub(crate) table: &'t Table,
    pub(crate) index: usize,
    pub(crate) tx: &'t Transaction,
    /// Chain root of the row that is being written. The row's own older versions never conflict.
    pub(crate) own: Tid,
    /// Keys of versions whose key comes from an expression.
    pub(crate) memo: KeyMemo,
    /// Roots with several keys whose entries may be removed: the index may have other entries for
    /// them.
    mixed: RefCell<Vec<Tid>>,
}

impl<'t> KeyCheck<'t> {
    pub(crate) fn new(table: &'t Table, index: usize, tx: &'t Transaction, own: Tid) -> Self {
        debug_assert!(table.indexes[index].definition.ready, "index {index} takes no entries");
        Self { table, index, tx, own, memo: KeyMemo::default(), mixed: RefCell::default() }
    }
}

impl UniqueCheck for KeyCheck<'_> {
    fn check(&self, key: &[u8], tid: Tid) -> niwaki_storage::Result<UniqueVerdict> {
        if tid == self.own && !seeded_bug!("unique-own-root") {
            return Ok(UniqueVerdict::NotConflicting);
        }
        let heap = self.table.heap();
        let unknown = Cell::new(false);
        let entry = Entry { index: self.index, key, root: tid, seen: Seen::Now };
        let mut has_key = |row: RowRef<'_>| {
            let has = self.table.recheck(entry, row, Some(&self.memo));
            unknown.set(unknown.get() || has == HasKey::Unknown);
            has == HasKey::Yes
        };
        let probe = heap.probe_unique(self.tx, tid, &mut has_key).map_err(storage)?;
        if unknown.get() && probe == UniqueProbe::Free {
            return Ok(UniqueVerdict::Undecided);
        }
        Ok(match probe {
            UniqueProbe::Conflict => UniqueVerdict::Conflict,
            UniqueProbe::InProgress(xid) => {
                debug_assert!(!self.tx.is_mine(xid), "{xid} would wait for its own end");
                UniqueVerdict::InProgress(xid)
            }
            UniqueProbe::Free => {
                let horizon = self.table.engine.transactions().horizon();
                let probe = heap.probe_dead(tid.block.0).map_err(storage)?;
                match probe.deadness(tid, &horizon, &mut has_key) {
                    // A version whose key is unknown may have this key, so the entry is not surely
                    // dead.
                    _ if unknown.get() => UniqueVerdict::NotConflicting,
                    Deadness::Dead { durable: true, .. } => UniqueVerdict::Dead,
                    Deadness::Dead { lifetime, durable: false } => {
                        if probe.is_mixed(tid) {
                            self.mixed.borrow_mut().push(tid);
                        }
                        UniqueVerdict::Removable(lifetime)
                    }
                    Deadness::Alive | Deadness::Pending(_) => UniqueVerdict::NotConflicting,
                }
            }
        })
    }

    fn deleted(&self, roots: &[Tid]) {
        self.table.note_unreferenced(self.index, roots, &self.mixed.borrow());
    }
}

/// Converts a heap error. The heap only reads here, so its errors are storage errors.
pub(crate) fn storage(error: niwaki_heap::Error) -> niwaki_storage::Error {
    match error {
        niwaki_heap::Error::Storage(error) => error,
        other => niwaki_storage::Error::Refused(other.to_string()),
    }
}
