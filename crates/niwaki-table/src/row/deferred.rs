//! Deferred unique checks: at the end of a statement or of the transaction.
//!
//! An entry of a deferrable index is inserted whatever other rows have its key. If one of them is
//! live, or may yet be, the key is noted. This happens under the same leaf latch under which the
//! entry goes in. So of two transactions that insert one key, the later one notes it.
//! [`Table::check_deferred`] looks again at the due time: the noted rows may have gone, and others
//! may have come.

use std::cell::Cell;

use niwaki_heap::UniqueProbe;
use niwaki_nbtree::{Direction, KeyRange, Scan, UniqueCheck, UniqueVerdict};
use niwaki_storage::{RelFileId, Tid, Xid};
use niwaki_txn::{TableId, Transaction, WaitPolicy};
use niwaki_types::Datum;

use crate::entry::recheck::{Entry, Seen};
use crate::entry::unique::KeyCheck;
use crate::error::{Error, Result};
use crate::relation::table::Table;

/// A key that may be a duplicate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeferredKey {
    /// The table's number.
    pub table: TableId,
    /// The index's number.
    pub index: TableId,
    /// The heap's file: after TRUNCATE there is nothing left to check.
    pub file: RelFileId,
    key: Vec<u8>,
    /// Root of the row that was inserted with the key.
    root: Tid,
}

/// The result of a search for a key in a unique index, after all latches were released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FoundKey {
    /// No live row has the key.
    Nowhere,
    /// The row with this root has the key.
    At(Tid),
    /// This transaction's outcome decides whether a row has the key.
    Perhaps(Xid),
}

/// A unique check that lets every entry pass, and remembers doubtful ones.
pub(crate) struct PassingCheck<'c, 't> {
    pub(crate) inner: &'c KeyCheck<'t>,
    pub(crate) doubtful: Cell<bool>,
}

impl UniqueCheck for PassingCheck<'_, '_> {
    fn check(&self, key: &[u8], tid: Tid) -> niwaki_storage::Result<UniqueVerdict> {
        Ok(match self.inner.check(key, tid)? {
            UniqueVerdict::Conflict | UniqueVerdict::InProgress(_) | UniqueVerdict::Undecided => {
                self.doubtful.set(true);
                UniqueVerdict::NotConflicting
            }
            harmless => harmless,
        })
    }
}

impl Table {
    /// Makes the note about a key of the heap's row at `root`.
    pub(crate) fn deferred_key(&self, index: usize, key: &[u8], root: Tid) -> DeferredKey {
        debug_assert!(self.indexes[index].definition.unique, "index {index} refuses no key");
        DeferredKey {
            table: self.definition.id,
            index: self.indexes[index].definition.id,
            file: self.definition.file.id,
            key: key.to_vec(),
            root,
        }
    }

    /// Fails if the noted key is a duplicate now. Waits for transactions that decide. A key whose
    /// row, index or file has gone passes.
    ///
    /// # Errors
    /// [`Error::UniqueViolation`]; a wait's, storage's.
    pub fn check_deferred(&self, tx: &Transaction, noted: &DeferredKey) -> Result<()> {
        debug_assert_eq!(noted.table, self.definition.id, "the key of another table");
        let index = self.indexes.iter().position(|i| i.definition.id == noted.index);
        let Some(index) = index.filter(|_| self.definition.file.id == noted.file) else {
            return Ok(());
        };
        // Ends: each turn but the last waits for the end of a transaction.
        loop {
            if self.probe(tx, index, &noted.key, noted.root)? != UniqueProbe::Conflict {
                return Ok(());
            }
            match self.find_key(tx, index, &noted.key, Some(noted.root))? {
                FoundKey::Nowhere => return Ok(()),
                FoundKey::At(_) => return Err(self.deferred_violation(tx, index, noted.root)?),
                FoundKey::Perhaps(xid) => self.wait_for(tx, xid)?,
            }
        }
    }

    /// Looks for a live row with a key in an index, other than the one at `except`.
    pub(crate) fn find_key(
        &self,
        tx: &Transaction,
        index: usize,
        key: &[u8],
        except: Option<Tid>,
    ) -> Result<FoundKey> {
        debug_assert!(self.indexes[index].definition.unique, "index {index} refuses no key");
        debug_assert!(!key.is_empty(), "an empty key is the beginning of each key");
        let handle = &self.indexes[index].handle;
        let mut scan = Scan::default();
        scan.start(handle, &KeyRange::equal(key), Direction::Forward);
        // Ends: when the entries of the key are exhausted.
        while scan.next(handle)? {
            let batch = scan.batch();
            for entry in (0..batch.len()).filter_map(|position| batch.get(position)) {
                if Some(entry.tid) == except {
                    continue;
                }
                match self.probe(tx, index, key, entry.tid)? {
                    UniqueProbe::Free => {}
                    UniqueProbe::Conflict => return Ok(FoundKey::At(entry.tid)),
                    UniqueProbe::InProgress(xid) => return Ok(FoundKey::Perhaps(xid)),
                }
            }
        }
        Ok(FoundKey::Nowhere)
    }

    /// Judges the chain at `root`. The entry was read under a latch that has been released. The
    /// line pointer may belong to another row by now, so every version is compared.
    pub(crate) fn probe(
        &self,
        tx: &Transaction,
        index: usize,
        key: &[u8],
        root: Tid,
    ) -> Result<UniqueProbe> {
        let entry = Entry { index, key, root, seen: Seen::SomeTime };
        self.decide(entry, |has_key| Ok(self.heap().probe_unique(tx, root, has_key)?))
    }

    pub(crate) fn wait_for(&self, tx: &Transaction, xid: Xid) -> Result<()> {
        self.engine.transactions().locks().wait_for_xid(tx, xid, WaitPolicy::Block)?;
        Ok(())
    }

    #[cold]
    fn deferred_violation(&self, tx: &Transaction, index: usize, root: Tid) -> Result<Error> {
        let mut row = vec![Datum::Null; self.definition.columns.len()];
        let snapshot = tx.snapshot()?;
        self.fetch(tx, &snapshot, root, &self.indexes[index].key_mask, &mut row)?;
        Ok(self.unique_violation(index, &row))
    }
}
