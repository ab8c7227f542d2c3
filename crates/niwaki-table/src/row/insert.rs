//! Insertion of rows into the heap, and of their entries into indexes.

use std::cell::Cell;

use niwaki_env::{invariant, seeded_bug};
use niwaki_heap::{InsertOptions, NewRow, UniqueProbe};
use niwaki_nbtree::{EntryOutcome, NewEntry, UniqueCheck};
use niwaki_storage::{OffsetNumber, Tid};
use niwaki_txn::{Error as TxnError, Transaction};
use niwaki_types::Datum;

use crate::entry::dead_entries::DeadEntries;
use crate::entry::unique::KeyCheck;
use crate::error::{Error, Result};
use crate::relation::count::count;
use crate::relation::definition::UniqueCheckTime;
use crate::relation::table::Table;
use crate::row::deferred::PassingCheck;
use crate::row::workspace::Workspace;

/// An index entry for a row that is already in the heap.
pub(crate) struct RowEntry<'r> {
    pub(crate) row: &'r [Datum],
    /// Root of the row's chain.
    pub(crate) root: Tid,
    /// True when the row moved and this index's key did not change.
    pub(crate) logically_unchanged: bool,
}

/// The reaction of an entry's unique check to another row that has the key, or may yet have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Check {
    /// No check.
    Not,
    /// Refuses the entry, after waiting for transactions that decide.
    Wait,
    /// Gives way at once.
    GiveWay,
    /// Reacts as [`Check::Wait`], but ignores a row that no longer has the key by then.
    WhileThere,
}

impl Table {
    /// Inserts a row (all columns) and returns its address. Waits for transactions that decide
    /// whether one of its keys is unique.
    ///
    /// # Errors
    /// [`crate::Error::UniqueViolation`], [`crate::Error::RowTooBig`],
    /// [`crate::Error::ValueTooBig`], [`crate::Error::KeyTooBig`], a wait's, storage's. The
    /// transaction must then roll back (to a savepoint, at least): the row may be in the heap.
    pub fn insert(&self, tx: &Transaction, row: &[Datum], work: &mut Workspace) -> Result<Tid> {
        let root = self.place(tx, row, work)?;
        debug_assert_ne!(root.offset, OffsetNumber::INVALID, "the row is at no line pointer");
        let entry = RowEntry { row, root, logically_unchanged: false };
        let entered = (0..self.indexes.len())
            .try_for_each(|index| self.insert_entry(tx, index, &entry, work));
        // Transactions whose inserts always fail leave work for the gardener as well. An interrupt
        // from this call must come before a refusal: it is reported only once.
        self.clean_up(tx.session())?;
        entered?;
        count(&self.counters.inserted, 1);
        Ok(root)
    }

    /// Puts a row into the heap alone, and its large values into their heap. `work.values` then
    /// holds their positions.
    pub(crate) fn place(
        &self,
        tx: &Transaction,
        row: &[Datum],
        work: &mut Workspace,
    ) -> Result<Tid> {
        let options = InsertOptions::default();
        work.row.clear();
        let formed = self.form(tx, row, options, work)?;
        Ok(self.heap().insert(tx, formed.row(&work.row), options)?)
    }

    /// Inserts rows (all columns each) with one log record a page, for COPY and INSERT … SELECT.
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
        tx.session().check_interrupts().map_err(TxnError::from)?;
        work.row.clear();
        let mut parts = Vec::with_capacity(rows.len());
        for row in rows {
            let start = work.row.len();
            let formed = self.form(tx, row, options, work)?;
            parts.push((formed, start..work.row.len()));
        }
        let new: Vec<NewRow<'_>> =
            parts.into_iter().map(|(formed, range)| formed.row(&work.row[range])).collect();
        work.tids.clear();
        self.heap().insert_many(tx, &new, options, &mut work.tids)?;
        debug_assert_eq!(work.tids.len(), rows.len(), "an address for each row");
        // Handles the versions pruned from their pages, before an index refuses one of the rows.
        self.clean_up_after(tx.session(), rows.len())?;
        for index in 0..self.indexes.len() {
            tx.session().check_interrupts().map_err(TxnError::from)?;
            for (number, row) in rows.iter().enumerate() {
                let root = work.tids[number];
                let entry = RowEntry { row, root, logically_unchanged: false };
                self.insert_entry(tx, index, &entry, work)?;
            }
        }
        count(&self.counters.inserted, rows.len() as u64);
        self.clean_up(tx.session())
    }

    /// Inserts the entry of one index for a row of the heap, if the index takes entries and its
    /// predicate includes the row.
    pub(crate) fn insert_entry(
        &self,
        tx: &Transaction,
        index: usize,
        entry: &RowEntry<'_>,
        work: &mut Workspace,
    ) -> Result<()> {
        self.insert_entry_as(tx, index, entry, Check::Wait, work).map(|_| ())
    }

    /// Inserts as [`Table::insert_entry`], but gives way. Returns false, and inserts no entry, when
    /// another row has the key, or may yet have it.
    pub(crate) fn try_insert_entry(
        &self,
        tx: &Transaction,
        index: usize,
        entry: &RowEntry<'_>,
        work: &mut Workspace,
    ) -> Result<bool> {
        self.insert_entry_as(tx, index, entry, Check::GiveWay, work)
    }

    /// Inserts as [`Table::insert_entry`], without a unique check. Used for a version that is not
    /// live, or whose writer makes the check: such a version never conflicts.
    pub(crate) fn insert_unchecked(
        &self,
        tx: &Transaction,
        index: usize,
        entry: &RowEntry<'_>,
        work: &mut Workspace,
    ) -> Result<()> {
        self.insert_entry_as(tx, index, entry, Check::Not, work).map(|_| ())
    }

    /// Inserts as [`Table::insert_entry`], for a row that existed when an index was validated.
    /// Meanwhile it may have moved, or gone and come back. Then its own next version has the key,
    /// which is no conflict.
    pub(crate) fn insert_validated(
        &self,
        tx: &Transaction,
        index: usize,
        entry: &RowEntry<'_>,
        work: &mut Workspace,
    ) -> Result<()> {
        self.insert_entry_as(tx, index, entry, Check::WhileThere, work).map(|_| ())
    }

    fn insert_entry_as(
        &self,
        tx: &Transaction,
        index: usize,
        entry: &RowEntry<'_>,
        how: Check,
        work: &mut Workspace,
    ) -> Result<bool> {
        if !self.indexes[index].definition.ready {
            return Ok(true);
        }
        invariant!(X4, entry.root.offset != OffsetNumber::INVALID, "an entry for {}", entry.root);
        let xid = tx.write_xid()?;
        debug_assert!(xid.is_normal(), "transaction {xid} inserts an entry");
        work.key.clear();
        let Some(traits) = self.index_key(index, entry.row, &mut work.key)? else {
            return Ok(true);
        };
        work.payload.clear();
        self.encode_payload(index, entry.row, &mut work.payload);
        let new = NewEntry {
            key: &work.key,
            payload: &work.payload,
            tid: entry.root,
            xid,
            logically_unchanged: entry.logically_unchanged,
        };
        debug_assert!(!work.key.is_empty(), "an entry has a key");
        let check = KeyCheck::new(self, index, tx, entry.root);
        let passing = PassingCheck { inner: &check, doubtful: Cell::new(false) };
        let mut unique: Option<&dyn UniqueCheck> =
            if how == Check::Not || !self.can_conflict(index, traits) {
                None
            } else if self.indexes[index].definition.check_time == UniqueCheckTime::Later {
                Some(&passing)
            } else {
                Some(&check)
            };
        let oracle = DeadEntries::inserting(self, index, tx, &work.churn);
        // Ends: each turn but the last waits for the end of a transaction, or learns a new
        // version's key.
        loop {
            match self.indexes[index].handle.insert(&new, unique, Some(&oracle))? {
                EntryOutcome::Inserted | EntryOutcome::AlreadyThere => {
                    debug_assert!(
                        !passing.doubtful.get()
                            || self.indexes[index].definition.check_time == UniqueCheckTime::Later,
                        "the key of an index that is checked at once is noted for later",
                    );
                    work.held_splits += u32::from(oracle.was_held_back());
                    if passing.doubtful.get() {
                        work.deferred.push(self.deferred_key(index, &work.key, entry.root));
                    }
                    return Ok(true);
                }
                EntryOutcome::Conflict(_) | EntryOutcome::Wait(_) if how == Check::GiveWay => {
                    return Ok(false);
                }
                EntryOutcome::Conflict(_)
                    if how == Check::WhileThere && !seeded_bug!("conflict-with-itself") =>
                {
                    match self.probe(tx, index, &work.key, entry.root)? {
                        UniqueProbe::Conflict => {
                            return Err(self.unique_violation(index, entry.row));
                        }
                        UniqueProbe::InProgress(xid) => self.wait_for(tx, xid)?,
                        // Only an older snapshot needs the entry.
                        UniqueProbe::Free => unique = None,
                    }
                }
                EntryOutcome::Conflict(_) => return Err(self.unique_violation(index, entry.row)),
                EntryOutcome::GivenUp => {
                    if let Some(why) = oracle.interrupted() {
                        return Err(Error::Transaction(why.into()));
                    }
                }
                EntryOutcome::Undecided => {
                    debug_assert!(unique.is_some(), "an entry without a check is undecided");
                    check.memo.learn(self, index)?;
                }
                EntryOutcome::Wait(xid) => self.wait_for(tx, xid)?,
            }
        }
    }
}
