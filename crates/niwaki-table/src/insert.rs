//! Inserting rows, and entries into indexes.

use niwaki_heap::{InsertOptions, NewRow};
use niwaki_nbtree::{InsertOutcome, NewEntry, UniqueCheck};
use niwaki_storage::Tid;
use niwaki_txn::{Transaction, WaitPolicy};
use niwaki_types::{Datum, form_row};

use crate::error::Result;
use crate::stats::count;
use crate::table::Table;
use crate::unique::{DeadEntries, KeyCheck};
use crate::workspace::Workspace;

/// An entry for a row that is in the heap already.
pub(crate) struct RowEntry<'r> {
    pub(crate) row: &'r [Datum],
    /// Root of its chain.
    pub(crate) root: Tid,
    /// The row moved and this index's key did not change.
    pub(crate) logically_unchanged: bool,
}

impl Table {
    /// Inserts a row (all columns) and returns its address. Waits for transactions that may yet make
    /// a key of it unique.
    ///
    /// # Errors
    /// [`crate::Error::UniqueViolation`], [`crate::Error::RowTooBig`], [`crate::Error::KeyTooBig`],
    /// a wait's, storage's. The transaction must roll back (to a savepoint, at least) then: the row
    /// may be in the heap.
    pub fn insert(&self, tx: &Transaction, row: &[Datum], work: &mut Workspace) -> Result<Tid> {
        work.row.clear();
        let has_nulls = form_row(&self.definition.columns, row, &mut work.row);
        let new = NewRow { natts: row.len() as u16, has_nulls, bytes: &work.row };
        let root = self.heap().insert(tx, new, InsertOptions::default())?;
        for index in 0..self.indexes.len() {
            let entry = RowEntry { row, root, logically_unchanged: false };
            self.insert_entry(tx, index, &entry, work)?;
        }
        count(&self.counters.inserted, 1);
        Ok(root)
    }

    /// Inserts rows (all columns each) with one log record a page: COPY, INSERT … SELECT.
    ///
    /// # Errors
    /// As [`Table::insert`].
    pub fn insert_many(
        &self,
        tx: &Transaction,
        rows: &[Vec<Datum>],
        options: InsertOptions,
        work: &mut Workspace,
    ) -> Result<()> {
        work.row.clear();
        let mut parts = Vec::with_capacity(rows.len());
        for row in rows {
            let start = work.row.len();
            let has_nulls = form_row(&self.definition.columns, row, &mut work.row);
            parts.push((start..work.row.len(), row.len() as u16, has_nulls));
        }
        let new: Vec<NewRow<'_>> = parts
            .into_iter()
            .map(|(range, natts, has_nulls)| NewRow { natts, has_nulls, bytes: &work.row[range] })
            .collect();
        work.tids.clear();
        self.heap().insert_many(tx, &new, options, &mut work.tids)?;
        for index in 0..self.indexes.len() {
            for (number, row) in rows.iter().enumerate() {
                let root = work.tids[number];
                let entry = RowEntry { row, root, logically_unchanged: false };
                self.insert_entry(tx, index, &entry, work)?;
            }
        }
        count(&self.counters.inserted, rows.len() as u64);
        Ok(())
    }

    /// Inserts the entry of one index for a row of the heap.
    pub(crate) fn insert_entry(
        &self,
        tx: &Transaction,
        index: usize,
        entry: &RowEntry<'_>,
        work: &mut Workspace,
    ) -> Result<()> {
        let xid = tx.write_xid()?;
        work.key.clear();
        self.encode_index_key(index, entry.row, &mut work.key);
        work.payload.clear();
        self.encode_payload(index, entry.row, &mut work.payload);
        let new = NewEntry {
            key: &work.key,
            payload: &work.payload,
            tid: entry.root,
            xid,
            logically_unchanged: entry.logically_unchanged,
        };
        let unique = self.indexes[index].definition.unique && !self.key_has_null(index, entry.row);
        let check = KeyCheck { table: self, index, tx, own: entry.root };
        let check: Option<&dyn UniqueCheck> = if unique { Some(&check) } else { None };
        let oracle = DeadEntries { table: self, index };
        // Ends: each turn but the last waits for the end of a transaction.
        loop {
            match self.indexes[index].handle.insert(&new, check, Some(&oracle))? {
                InsertOutcome::Inserted | InsertOutcome::AlreadyThere => return Ok(()),
                InsertOutcome::Conflict(_) => return Err(self.unique_violation(index, entry.row)),
                InsertOutcome::Wait(xid) => {
                    let locks = self.engine.transactions().locks();
                    locks.wait_for_xid(tx, xid, WaitPolicy::Block)?;
                }
            }
        }
    }
}
