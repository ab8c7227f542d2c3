//! INSERT … ON CONFLICT: inserts a row, or locks the row that has its key.
//!
//! ```text
//!  ┌─► look for the key in each arbiter          a transaction in progress decides: wait for it ─┐
//!  │     found     lock the live version, if it has the key ─► the caller updates it             │
//!  │       no longer there ────────────────────────────────────────────────────────────────────►─┤
//!  │     nowhere   row into the heap, entries into the arbiters, each after its unique check     │
//!  │       all in ────────────────────────────────────────► entries into the other indexes, done │
//!  │       a key is there: take the row back ───────────────────────────────────────────────────►┤
//!  └─────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! **No row twice.** The unique check of each arbiter decides, under its leaf's latch, as for every
//! insertion (rule `unique-check`). The search before it, which holds nothing, only spares the heap
//! rows that would be taken back. Waits happen there, before the transaction has a row in the way
//! of others.
//!
//! **No row lost.** A found row is locked as an update locks it. Under that latch the code checks
//! that its live version still has the key ([`niwaki_heap::Heap::live_row`]). Between search and
//! lock the row may have been deleted, or its line pointer may belong to another row. Since a chain
//! has any number of keys, the row may also have got another key. From the lock on it stays
//! unchanged until the caller has updated it. The snapshot need not see the row, except where the
//! snapshot is to stay (REPEATABLE READ). There an unseen row is a serialization failure.
//!
//! **It ends.** A turn is repeated only after another transaction changed something since the turn
//! began. Either the found row lost its key, or another insertion came to the leaf first. Of two
//! insertions of the same key, the one that comes to the leaf first has it, so one of them always
//! goes on. A row that was taken back blocks no other insertion: its own transaction ended it.
//!
//! Arbiters are visited in one order. So an insertion that gives way at one of them gives way to
//! one that is past it. Two single rows never wait for each other. Two transactions of several
//! rows each may wait for each other, as in any order of locks. They may also do so when one came
//! to an entry of the other just before that was taken back. One of them then ends with a deadlock
//! (40P01).

use niwaki_env::seeded_bug;
use niwaki_heap::{LiveRow, NewestVersion};
use niwaki_storage::{OffsetNumber, Tid};
use niwaki_txn::{Error as TxnError, Isolation, RowLockMode, Snapshot, Transaction, WaitPolicy};
use niwaki_types::Datum;

use crate::entry::recheck::{Entry, Seen};
use crate::error::{Error, Result};
use crate::relation::count::count;
use crate::relation::table::Table;
use crate::row::deferred::FoundKey;
use crate::row::insert::RowEntry;
use crate::row::row_queue::RowQueue;
use crate::row::workspace::Workspace;

/// The outcome for a row that gives way to one with its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Upsert {
    /// The row was inserted, at this address.
    Inserted(Tid),
    /// Another row has its key, and no lock was asked for.
    Conflict,
    /// Another row has its key. Its newest version is locked.
    Locked(NewestVersion),
    /// A row that this command inserted or changed has its key.
    OwnCommand,
}

/// A row that has a key.
struct Holder {
    index: usize,
    key: Vec<u8>,
    root: Tid,
}

impl Table {
    /// Inserts a row (all columns), unless another row has its key in one of the unique indexes
    /// `arbiters`. That row is then locked in mode `lock`, if given. Waits for transactions that
    /// decide whether a row has the key.
    ///
    /// # Errors
    /// The errors of [`Table::insert`], with [`Error::UniqueViolation`] only for indexes that are
    /// no arbiters. Also a serialization failure where the snapshot stays and does not see the row
    /// with the key.
    ///
    /// # Panics
    /// If an arbiter is not unique.
    pub fn insert_or_lock(
        &self,
        tx: &Transaction,
        snapshot: &Snapshot,
        row: &[Datum],
        arbiters: &[usize],
        lock: Option<RowLockMode>,
        work: &mut Workspace,
    ) -> Result<Upsert> {
        assert!(arbiters.iter().all(|index| self.indexes[*index].definition.unique));
        // Ends: see the module.
        loop {
            tx.session().check_interrupts().map_err(TxnError::from)?;
            let Some(holder) = self.find_holder(tx, row, arbiters, work)? else {
                match self.insert_giving_way(tx, row, arbiters, work)? {
                    Some(root) => return Ok(Upsert::Inserted(root)),
                    None => continue,
                }
            };
            if let Some(outcome) = self.lock_holder(tx, snapshot, &holder, lock)? {
                return Ok(outcome);
            }
        }
    }

    /// Finds the row that has the key of `row` in one of the indexes, in the first index that has
    /// such a row.
    fn find_holder(
        &self,
        tx: &Transaction,
        row: &[Datum],
        arbiters: &[usize],
        work: &mut Workspace,
    ) -> Result<Option<Holder>> {
        for &index in arbiters {
            work.key.clear();
            let Some(traits) = self.index_key(index, row, &mut work.key)? else { continue };
            if !self.can_conflict(index, traits) {
                continue;
            }
            // Ends: each turn but the last waits for the end of a transaction.
            loop {
                match self.find_key(tx, index, &work.key, None)? {
                    FoundKey::Nowhere => break,
                    FoundKey::At(root) => {
                        return Ok(Some(Holder { index, key: work.key.clone(), root }));
                    }
                    FoundKey::Perhaps(xid) => self.wait_for(tx, xid)?,
                }
            }
        }
        Ok(None)
    }

    /// Inserts the row, unless another insertion comes to the leaf of an arbiter first. Then
    /// returns `None`, and takes the row back. The row then has no entry in an index that is no
    /// arbiter.
    fn insert_giving_way(
        &self,
        tx: &Transaction,
        row: &[Datum],
        arbiters: &[usize],
        work: &mut Workspace,
    ) -> Result<Option<Tid>> {
        let root = self.place(tx, row, work)?;
        debug_assert_ne!(root.offset, OffsetNumber::INVALID, "the row is at no line pointer");
        let entry = RowEntry { row, root, logically_unchanged: false };
        for &index in arbiters {
            if !self.try_insert_entry(tx, index, &entry, work)? {
                if !seeded_bug!("conflict-take-back") {
                    self.heap().take_back(tx, root)?;
                    self.end_values(tx, &work.values)?;
                }
                return Ok(None);
            }
        }
        for index in (0..self.indexes.len()).filter(|index| !arbiters.contains(index)) {
            self.insert_entry(tx, index, &entry, work)?;
        }
        count(&self.counters.inserted, 1);
        Ok(Some(root))
    }

    /// Locks the live version of a row that was found by its key. Returns `None` when the row no
    /// longer has the key.
    fn lock_holder(
        &self,
        tx: &Transaction,
        snapshot: &Snapshot,
        holder: &Holder,
        lock: Option<RowLockMode>,
    ) -> Result<Option<Upsert>> {
        if lock.is_none() && tx.isolation() == Isolation::ReadCommitted {
            return Ok(Some(Upsert::Conflict));
        }
        let view = tx.view(snapshot);
        let Holder { index, key, root } = holder;
        debug_assert!(self.indexes[*index].definition.unique, "index {index} refuses no key");
        debug_assert!(!key.is_empty(), "the row at {root} was found without a key");
        let entry = Entry { index: *index, key, root: *root, seen: Seen::SomeTime };
        let mode = lock.unwrap_or(RowLockMode::NoKeyUpdate);
        let mut queue = RowQueue { tid: *root, mode, wait: WaitPolicy::Block, guard: None };
        // Ends: each turn but the last waits for the end of a transaction or lock.
        loop {
            let found = self.decide(entry, |has_key| {
                Ok(self.heap().live_row(&view, *root, lock, has_key)?)
            })?;
            return Ok(Some(match found {
                LiveRow::Wait(blocker) => {
                    self.wait(tx, blocker, &mut queue)?;
                    continue;
                }
                LiveRow::Gone => return Ok(None),
                LiveRow::NotSeen => {
                    return Err(Error::Transaction(TxnError::SerializationFailure {
                        cause: "update",
                    }));
                }
                LiveRow::Found(_) | LiveRow::OwnCommand if lock.is_none() => Upsert::Conflict,
                LiveRow::Found(newest) => {
                    debug_assert_eq!(newest.target.root, *root, "another row is locked");
                    debug_assert!(newest.target.version.is_some(), "a locked version has a name");
                    Upsert::Locked(newest)
                }
                LiveRow::OwnCommand => Upsert::OwnCommand,
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use niwaki_env::Env;
    use niwaki_storage::{Storage, StorageOptions};
    use niwaki_txn::{
        BeginOptions, Durability, SessionControl, TableId, TransactionManager, TxnOptions,
    };
    use niwaki_types::{ColumnType, KeyOrder, TypeOid};

    use super::*;
    use crate::relation::definition::{
        HeapOnlyUpdates, IndexDefinition, KeyColumn, TableDefinition,
    };
    use crate::relation::engine::Engine;

    fn engine() -> Arc<Engine> {
        let env = Env::memory();
        let manager = TransactionManager::new(env.clone(), TxnOptions::default());
        let mut managers = Engine::resource_managers();
        managers.push(Arc::clone(&manager) as _);
        let options = StorageOptions { shared_buffers: 64, ..StorageOptions::tiny() };
        let (storage, _) = Storage::open(env, options, managers).unwrap();
        manager.attach(&storage).unwrap();
        Engine::new(storage, manager)
    }

    /// Makes a table `(t text unique, id int4 unique)`.
    fn table(engine: &Arc<Engine>, session: &Arc<SessionControl>) -> Arc<Table> {
        let tx = engine.transactions().begin(session, BeginOptions::default()).unwrap();
        let file = || engine.create_file(&tx, true).unwrap();
        let types = [TypeOid::TEXT, TypeOid::INT4];
        let index = |column: usize| {
            let key = vec![KeyColumn::column(column, KeyOrder::ascending(types[column]))];
            let id = TableId(2 + column as u64);
            IndexDefinition { unique: true, ..IndexDefinition::new(id, "unique", file(), key) }
        };
        let definition = TableDefinition {
            id: TableId(1),
            name: "t".to_owned(),
            file: file(),
            values: Some(file()),
            fillfactor: 100,
            heap_only_updates: HeapOnlyUpdates::AnyKey,
            columns: types.map(ColumnType::new).to_vec(),
            missing: Vec::new(),
            indexes: (0..types.len()).map(index).collect(),
        };
        tx.commit(Durability::Flush).unwrap();
        Table::open(engine, definition)
    }

    /// Regression test: a row that gives way at its second arbiter has an entry in the first. Its
    /// key is out of line, and its chunks went with the row. So the key of the entry could no
    /// longer be read.
    #[test]
    fn the_key_of_a_row_that_gave_way_is_read_before_its_pieces_go() {
        let engine = engine();
        let session = engine.transactions().register_session().unwrap();
        let table = table(&engine, &session);
        let begin = || engine.transactions().begin(&session, BeginOptions::default()).unwrap();
        let mut work = Workspace::new();
        let tx = begin();
        table.insert(&tx, &[Datum::text("first"), Datum::Int4(1)], &mut work).unwrap();
        tx.commit(Durability::Flush).unwrap();
        // The value is too long for its row, and not compressible.
        let mut state = 1u64;
        let noise = |_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            char::from(b'!' + (state >> 32) as u8 % 90)
        };
        let large: String = (0..2_400).map(noise).collect();
        let tx = begin();
        let row = [Datum::text(&large), Datum::Int4(1)];
        assert_eq!(table.insert_giving_way(&tx, &row, &[0, 1], &mut work).unwrap(), None);
        assert_eq!(work.values.len(), 1, "the key is out of line");
        tx.commit(Durability::Flush).unwrap();
        // Another writer comes by, then a pass, then the gardener.
        table.clean_up(&session).unwrap();
        table.heap().prune_page(0).unwrap();
        table.clean_up_all(&session).unwrap();
        assert_eq!(table.index_stats(0).retail_deleted_entries, 1);
    }
}
