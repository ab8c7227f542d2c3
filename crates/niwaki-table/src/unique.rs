//! What an index asks of its table: is an entry in the way, may it go?
//!
//! Both are asked under the leaf's exclusive latch, latch heap pages, and never wait.

use std::cell::Cell;

use niwaki_heap::{DeadVersions, RowRef, UniqueProbe};
use niwaki_nbtree::{
    DeletionCandidate, DeletionOracle, RemovedInterval, UniqueCheck, UniqueVerdict,
};
use niwaki_storage::Tid;
use niwaki_txn::{Horizon, Transaction};

use crate::row_key::{HasKey, KeyMemo};
use crate::table::Table;

/// Judges entries with the key of a new one (rule 9b.11).
pub(crate) struct KeyCheck<'t> {
    pub(crate) table: &'t Table,
    pub(crate) index: usize,
    pub(crate) tx: &'t Transaction,
    /// Root of the row that is being written: its own older versions are not in its way.
    pub(crate) own: Tid,
    /// Keys of versions that only expressions tell.
    pub(crate) memo: KeyMemo,
}

impl<'t> KeyCheck<'t> {
    pub(crate) fn new(table: &'t Table, index: usize, tx: &'t Transaction, own: Tid) -> Self {
        Self { table, index, tx, own, memo: KeyMemo::default() }
    }
}

impl UniqueCheck for KeyCheck<'_> {
    fn check(&self, key: &[u8], tid: Tid) -> niwaki_storage::Result<UniqueVerdict> {
        if tid == self.own {
            return Ok(UniqueVerdict::NotConflicting);
        }
        let heap = self.table.heap();
        let unknown = Cell::new(false);
        // Entries of a chain with one key need no comparison.
        let mut has_key = |row: RowRef<'_>| {
            let has = if row.mixed {
                self.memo.has_key(self.table, self.index, row, key)
            } else {
                HasKey::Yes
            };
            unknown.set(unknown.get() || has == HasKey::Unknown);
            has == HasKey::Yes
        };
        let probe = heap.probe_unique(self.tx, tid, &mut has_key).map_err(storage)?;
        if unknown.get() && probe == UniqueProbe::Free {
            return Ok(UniqueVerdict::Undecided);
        }
        Ok(match probe {
            UniqueProbe::Conflict => UniqueVerdict::Conflict,
            UniqueProbe::InProgress(xid) => UniqueVerdict::InProgress(xid),
            UniqueProbe::Free => {
                let horizon = self.table.engine.transactions().horizon();
                let dead = heap.dead_versions(tid, &horizon, &mut has_key).map_err(storage)?;
                // A version that is not known may have the key: the entry is not dead for certain.
                if dead.is_some() && !unknown.get() {
                    UniqueVerdict::Dead
                } else {
                    UniqueVerdict::NotConflicting
                }
            }
        })
    }
}

/// Judges the entries of a full leaf (design section 6).
pub(crate) struct DeadEntries<'t> {
    pub(crate) table: &'t Table,
    pub(crate) index: usize,
}

impl DeletionOracle for DeadEntries<'_> {
    fn judge(
        &self,
        candidates: &mut [DeletionCandidate<'_>],
    ) -> niwaki_storage::Result<RemovedInterval> {
        let horizon = self.table.engine.transactions().horizon();
        let mut interval: RemovedInterval = None;
        for candidate in candidates {
            let dead = self.dead(candidate.key, candidate.tid, &horizon)?;
            // A mark is a hint (rule 9b.13): it may outlive what justified it in memory only, so the
            // table looks at every entry again.
            candidate.deletable = dead.is_some();
            if let Some(Some((begin, end))) = dead {
                let (from, to) = interval.unwrap_or((begin, end));
                interval = Some((from.min(begin), to.max(end)));
            }
        }
        Ok(interval)
    }
}

impl DeadEntries<'_> {
    fn dead(
        &self,
        key: &[u8],
        tid: Tid,
        horizon: &Horizon,
    ) -> niwaki_storage::Result<DeadVersions> {
        // A version whose key only an expression tells may have this one: its entry stays until the
        // whole chain is dead.
        let has_key =
            |row: RowRef<'_>| !row.mixed || self.table.has_key(self.index, row, key) != HasKey::No;
        self.table.heap().dead_versions(tid, horizon, has_key).map_err(storage)
    }
}

/// The heap reads only here, so what fails is storage.
fn storage(error: niwaki_heap::Error) -> niwaki_storage::Error {
    match error {
        niwaki_heap::Error::Storage(error) => error,
        other => niwaki_storage::Error::Refused(other.to_string()),
    }
}
