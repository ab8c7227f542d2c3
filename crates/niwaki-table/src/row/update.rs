//! Updates, deletions and locks of rows.

use niwaki_env::{invariant, seeded_bug};
use niwaki_heap::{HeapOutcome, RowTarget, UpdateKind};
use niwaki_txn::{Error as TxnError, RowLockMode, Snapshot, Transaction, WaitPolicy};
use niwaki_types::{ColumnMask, Datum};

use crate::error::{Error, Result};
use crate::relation::count::count;
use crate::relation::definition::{HeapOnlyUpdates, UniqueCheckTime};
use crate::relation::table::Table;
use crate::row::insert::RowEntry;
use crate::row::outcome::{LockOutcome, UpdateOutcome};
use crate::row::row_queue::RowQueue;
use crate::row::workspace::Workspace;

impl Table {
    /// Replaces the row at `target` by `new`. `old` holds the values of the judged version. Both
    /// have all columns. Waits for other transactions that are changing the row.
    ///
    /// # Errors
    /// [`Error::UniqueViolation`] and the other refusals of [`Table::insert`]; a wait's errors;
    /// serialization failure at REPEATABLE READ; storage's.
    pub fn update(
        &self,
        tx: &Transaction,
        snapshot: &Snapshot,
        target: RowTarget,
        old: &[Datum],
        new: &[Datum],
        work: &mut Workspace,
    ) -> Result<UpdateOutcome> {
        debug_assert_eq!(old.len(), self.definition.columns.len(), "the old row has all columns");
        debug_assert_eq!(new.len(), self.definition.columns.len(), "the new row has all columns");
        let changes = self.changes(old, new, work)?;
        let heap_only = match self.definition.heap_only_updates {
            HeapOnlyUpdates::AnyKey => true,
            HeapOnlyUpdates::SameKeys => !changes.any,
            HeapOnlyUpdates::Off => false,
        };
        // Set in the heap record, before any entry (rule `mixed-flag`).
        let mixed = changes.mixes && !seeded_bug!("mixed-first");
        let tried = heap_only;
        let kind = UpdateKind { heap_only, mixed, key_changed: changes.row_key };
        let mode = if kind.key_changed { RowLockMode::Update } else { RowLockMode::NoKeyUpdate };
        let mut queue = RowQueue { tid: target.root, mode, wait: WaitPolicy::Block, guard: None };
        work.held_splits = 0;
        let view = tx.view(snapshot);
        let (root, heap_only) =
            match self.replace(&view, target, (old, new), kind, &mut queue, work)? {
                HeapOutcome::Done { root, heap_only } => (root, heap_only),
                other => return modified(other),
            };
        drop(queue);
        invariant!(H2, !heap_only || root == target.root, "{root} is not {}", target.root);
        debug_assert!(!heap_only || tried, "a version is heap-only that was not to be");
        if heap_only {
            self.counters.updates.heap_only(changes.entries);
        } else {
            let left_page = root.block != target.root.block;
            let setting = self.definition.heap_only_updates;
            self.counters.updates.new_root(tried, setting, left_page);
            if left_page {
                let left = self.relation.left_to_updates();
                let learnt = self.counters.learned_fillfactor.moved(&self.counters.updates, left);
                learnt.into_iter().for_each(|percent| self.relation.leave_to_updates(percent));
            }
        }
        for index in 0..self.indexes.len() {
            // An index that is not valid yet may lack the entry that the root has in the others
            // (rule `index-build`).
            let has_entry = heap_only && self.indexes[index].definition.valid;
            let logically_unchanged = !changes.needing.contains(index);
            if has_entry && logically_unchanged {
                continue;
            }
            let entry = RowEntry { row: new, root, logically_unchanged };
            self.insert_entry(tx, index, &entry, work)?;
        }
        if heap_only && changes.mixes && seeded_bug!("mixed-first") {
            self.heap().set_mixed(tx.write_xid()?, root.block.0, &[root.offset.0])?;
        }
        self.clean_up(tx.session())?;
        self.wait_for_old_snapshot(tx, work)?;
        Ok(UpdateOutcome::Done { root })
    }

    /// Deletes the row at `target`. Waits for other transactions that are changing the row.
    ///
    /// # Errors
    /// A wait's; serialization failure at REPEATABLE READ; storage's.
    pub fn delete(
        &self,
        tx: &Transaction,
        snapshot: &Snapshot,
        target: RowTarget,
    ) -> Result<UpdateOutcome> {
        self.delete_row(tx, snapshot, target, false)
    }

    /// Deletes as [`Table::delete`] a row that moves to another table. Transactions that wait for
    /// the row get an error about the move.
    ///
    /// # Errors
    /// As [`Table::delete`].
    pub fn delete_moved(
        &self,
        tx: &Transaction,
        snapshot: &Snapshot,
        target: RowTarget,
    ) -> Result<UpdateOutcome> {
        self.delete_row(tx, snapshot, target, true)
    }

    fn delete_row(
        &self,
        tx: &Transaction,
        snapshot: &Snapshot,
        target: RowTarget,
        moved: bool,
    ) -> Result<UpdateOutcome> {
        let mut queue = RowQueue {
            tid: target.root,
            mode: RowLockMode::Update,
            wait: WaitPolicy::Block,
            guard: None,
        };
        let view = tx.view(snapshot);
        let (heap, mut external) = (self.heap(), None);
        let outcome = self
            .attempt(tx, &mut queue, || heap.delete_noting(&view, target, moved, &mut external))?;
        let HeapOutcome::Done { root, .. } = outcome else { return modified(outcome) };
        if let Some(version) = external {
            self.end_values(tx, &self.pointers_of(&version)?)?;
        }
        count(&self.counters.deleted, 1);
        self.clean_up(tx.session())?;
        Ok(UpdateOutcome::Done { root })
    }

    /// Locks the row at `target` until the transaction ends.
    ///
    /// # Errors
    /// [`Error::RowNotAvailable`] under [`WaitPolicy::NoWait`]; a wait's; serialization failure at
    /// REPEATABLE READ; storage's.
    pub fn lock_row(
        &self,
        tx: &Transaction,
        snapshot: &Snapshot,
        target: RowTarget,
        mode: RowLockMode,
        wait: WaitPolicy,
    ) -> Result<LockOutcome> {
        let mut queue = RowQueue { tid: target.root, mode, wait, guard: None };
        let view = tx.view(snapshot);
        // Ends: each turn but the last waits for the end of a transaction or lock.
        loop {
            match self.heap().lock(&view, target, mode)? {
                HeapOutcome::Done { .. } => return Ok(LockOutcome::Locked),
                HeapOutcome::Wait(blocker) => {
                    if !self.wait(tx, blocker, &mut queue)? {
                        return Ok(LockOutcome::Skipped);
                    }
                }
                other => {
                    return Ok(match modified(other)? {
                        UpdateOutcome::Changed(changed) => LockOutcome::Changed(changed),
                        UpdateOutcome::Gone => LockOutcome::Gone,
                        UpdateOutcome::SelfModified => LockOutcome::SelfModified,
                        UpdateOutcome::Done { .. } => LockOutcome::Locked,
                    });
                }
            }
        }
    }

    /// Computes the changes of an update to all indexes, ready or not (rule `index-build`).
    fn changes(&self, old: &[Datum], new: &[Datum], work: &mut Workspace) -> Result<Changes> {
        let mut changes = Changes::default();
        for (number, index) in self.indexes.iter().enumerate() {
            let change = self.change_of(number, old, new, work)?;
            changes.any |= change != IndexChange::None;
            changes.mixes |= match change {
                IndexChange::None => false,
                IndexChange::Payload => !seeded_bug!("payload-mixes"),
                IndexChange::Membership(_) => !seeded_bug!("predicate-mixes"),
                IndexChange::Key => true,
            };
            // Only such a key could be referred to from elsewhere, as in PostgreSQL.
            let names_rows = index.definition.unique
                && !index.computed
                && index.definition.check_time == UniqueCheckTime::AtOnce;
            if change.needs_entry() {
                changes.row_key |= names_rows;
                changes.entries += usize::from(index.definition.ready);
                changes.needing.insert(number);
            }
        }
        changes.assert_state(self.indexes.len());
        Ok(changes)
    }

    /// Computes the change of an update to one index. An update that changes no column the index
    /// reads changes nothing. Otherwise keys are compared under the operator class, and expressions
    /// by their values, not by the columns that they read.
    fn change_of(
        &self,
        index: usize,
        old: &[Datum],
        new: &[Datum],
        work: &mut Workspace,
    ) -> Result<IndexChange> {
        if self.needed_for(index).iter().all(|column| old[column].same_image(&new[column])) {
            return Ok(IndexChange::None);
        }
        work.old_key.clear();
        work.key.clear();
        let before = self.encode_index_key(index, old, &mut work.old_key)?;
        let after = self.encode_index_key(index, new, &mut work.key)?;
        if before != after {
            return Ok(IndexChange::Membership(after));
        }
        if work.old_key != work.key {
            return Ok(IndexChange::Key);
        }
        if !after || self.indexes[index].include.is_empty() {
            return Ok(IndexChange::None);
        }
        work.old_key.clear();
        work.payload.clear();
        self.encode_payload(index, old, &mut work.old_key);
        self.encode_payload(index, new, &mut work.payload);
        let same = work.old_key == work.payload;
        Ok(if same { IndexChange::None } else { IndexChange::Payload })
    }
}

/// The change of an update to one index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IndexChange {
    /// No change: the existing entry serves the new version too, or neither version has one.
    None,
    /// The INCLUDE payload alone changed. If the row moves, the new entry is a version duplicate of
    /// the old.
    Payload,
    /// The key changed.
    Key,
    /// The row entered the partial index (true), or left it (false).
    Membership(bool),
}

impl IndexChange {
    /// Returns true when the entry of the old version does not serve the new one. Ignores the
    /// payload, which no scan reads while the root is `mixed`.
    fn needs_entry(self) -> bool {
        matches!(self, Self::Key | Self::Membership(true))
    }
}

/// The changes of an update to all indexes.
#[derive(Clone, Debug, Default)]
struct Changes {
    /// True when a key, a predicate or a payload changed.
    any: bool,
    /// True when some entry of the root no longer has the key and payload of every version.
    mixes: bool,
    /// True when the key of a unique index that names rows changed. This decides the row lock.
    row_key: bool,
    /// Indexes in which the entry of the old version does not serve the new one.
    needing: ColumnMask,
    /// The number of these indexes that take entries.
    entries: usize,
}

impl Changes {
    /// Asserts what holds of the changes to all of `indexes` indexes.
    fn assert_state(&self, indexes: usize) {
        let Self { any, mixes, row_key, ref needing, entries } = *self;
        debug_assert!(any || !mixes, "an update that changes nothing makes a root mixed");
        debug_assert!(
            mixes || !row_key,
            "a key that names rows changed, and the root is not mixed"
        );
        debug_assert!(any || needing.is_empty(), "an update that changes nothing needs an entry");
        debug_assert!(needing.end() <= indexes, "an index that the table does not have");
        debug_assert!(entries <= indexes, "{entries} entries for {indexes} indexes");
        debug_assert!(entries == 0 || !needing.is_empty(), "an entry that no index needs");
    }
}

/// Converts an outcome that ends the operation without the change.
fn modified(outcome: HeapOutcome) -> Result<UpdateOutcome> {
    let failure = |cause| Err(Error::Transaction(TxnError::SerializationFailure { cause }));
    match outcome {
        HeapOutcome::Done { root, .. } => Ok(UpdateOutcome::Done { root }),
        HeapOutcome::SelfModified => Ok(UpdateOutcome::SelfModified),
        HeapOutcome::Changed(newest) => Ok(UpdateOutcome::Changed(newest)),
        HeapOutcome::Gone => Ok(UpdateOutcome::Gone),
        HeapOutcome::Moved => Err(Error::RowMoved),
        HeapOutcome::ConcurrentUpdate => failure("update"),
        HeapOutcome::ConcurrentDelete => failure("delete"),
        HeapOutcome::Wait(_) | HeapOutcome::External(_) => {
            Err(Error::Limit("an outcome that nobody saw to".to_owned()))
        }
    }
}
