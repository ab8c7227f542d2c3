//! Tables, transactions and storage as the tested database, without SQL.
//!
//! There is one table with a primary key and an index whose key changes with most updates.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use niwaki_env::Env;
use niwaki_env::SIMULATED;
use niwaki_env::sync::plain_atomic::{AtomicU32, Ordering};
use niwaki_nbtree::{IndexOptions, KeyRange};
use niwaki_storage::{
    CheckpointKind, Error as StorageError, RelFile, RelFileId, Storage, StorageOptions, Tid,
};
use niwaki_table::{
    Direction, Engine, Error, HeapOnlyUpdates, IndexDefinition, KeyColumn, LockOutcome, Lookup,
    PageRows, Result, RowTarget, Table, TableDefinition, UpdateOutcome, Workspace,
};
use niwaki_txn::{
    BeginOptions, Durability, Error as TxnError, Isolation as Level, RowLockMode, SessionControl,
    Snapshot, TableId, TableLockMode, Transaction, TransactionManager, TxnOptions, WaitPolicy,
};
use niwaki_types::{ColumnMask, ColumnType, Datum, KeyOrder, TypeOid};
use niwaki_vacuum::{LockedTable, VacuumOptions, VacuumSummary};

use crate::model::{Isolation, Key, Reply, Rows, Step, Value};
use crate::tested_database::TestedDatabase;

/// Files of heap, primary key, second index and large values.
const FILES: [u64; 4] = [16, 17, 18, 19];
/// Position of the files of large values.
const VALUES: usize = 3;
/// Number of values of the second index's column: few, so that the column returns to earlier ones.
pub(crate) const GROUPS: Value = 5;
/// The table's name for locks.
const TABLE: TableId = TableId(1);
/// Columns: key, value, group, filler, and a large value.
pub(crate) const COLUMNS: usize = 5;
/// Age in transactions from which versions are frozen.
const FREEZE_MIN_AGE: u64 = 8;
/// Most entries on an index page, so that few rows make a deep tree.
const PAGE_ITEMS_MAX: u16 = 6;

/// An open database with one table; copies share it.
#[derive(Clone)]
pub struct TableDatabase {
    manager: Arc<TransactionManager>,
    storage: Arc<Storage>,
    table: Arc<Table>,
    /// Number of pages that vacuums gave back.
    cut: Arc<AtomicU32>,
}

/// One session's statements.
pub struct TableSession {
    database: TableDatabase,
    control: Arc<SessionControl>,
    transaction: Option<Transaction>,
    /// Names of the session's savepoints, oldest first.
    savepoints: Vec<String>,
    failed: bool,
    work: Workspace,
    lookup: Lookup,
}

/// The database with the sessions of a workload.
pub struct TestedTables {
    database: TableDatabase,
    sessions: BTreeMap<u32, TableSession>,
}

/// Locks the table, as a statement does.
fn lock(tx: &Transaction, mode: TableLockMode) -> Result<()> {
    let locked = tx.manager().locks().acquire_table(tx, TABLE, mode, WaitPolicy::Block)?;
    assert!(locked, "it waited for it");
    Ok(())
}

fn file(number: usize) -> RelFile {
    RelFile { id: RelFileId(FILES[number]), logged: true }
}

fn definition(heap_only_updates: HeapOnlyUpdates) -> TableDefinition {
    let index = |number: usize, name: &str, column: usize, oid, unique| IndexDefinition {
        unique,
        primary: unique,
        options: IndexOptions { page_items_max: Some(PAGE_ITEMS_MAX), ..IndexOptions::default() },
        ..IndexDefinition::new(
            TableId(FILES[number]),
            name,
            file(number),
            vec![KeyColumn::column(column, KeyOrder::ascending(oid))],
        )
    };
    let types = [TypeOid::INT8, TypeOid::INT8, TypeOid::INT4, TypeOid::TEXT, TypeOid::BYTEA];
    TableDefinition {
        id: TABLE,
        name: "kv".to_owned(),
        file: file(0),
        values: Some(file(VALUES)),
        fillfactor: 90,
        heap_only_updates,
        columns: types.map(ColumnType::new).to_vec(),
        missing: Vec::new(),
        indexes: vec![
            index(1, "kv_pkey", 0, TypeOid::INT8, true),
            index(2, "kv_g", 2, TypeOid::INT4, false),
        ],
    }
}

fn row(key: Key, value: Value) -> Vec<Datum> {
    let group = i32::try_from(value.rem_euclid(GROUPS)).expect("few groups");
    let length = 40 + usize::try_from(value.rem_euclid(7)).expect("few lengths") * 90;
    let filler = format!("{value}-").repeat(length / 2 + 1)[..length].to_owned();
    let large = Datum::Bytea(large_value(key, value).into());
    vec![Datum::Int8(key), Datum::Int8(value), Datum::Int4(group), Datum::text(&filler), large]
}

/// Returns bytes that do not compress. Some values are long enough to go out of line. Most values
/// of a key have the same bytes, so that most updates keep them.
fn large_value(key: Key, value: Value) -> Vec<u8> {
    /// Lengths for small limits and for normal ones: the last two take one and two pieces (TOAST
    /// chunks).
    const LENGTHS: [usize; 5] =
        if SIMULATED { [20, 80, 140, 200, 260] } else { [20, 80, 140, 2_100, 8_200] };
    let seed = if value.rem_euclid(4) == 0 { value } else { 0 };
    let length = LENGTHS[usize::try_from((key ^ seed).rem_euclid(5)).expect("few lengths")];
    let mut state = (key.wrapping_mul(31) ^ seed).cast_unsigned() | 1 << 40;
    let noise = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..length).map(noise).collect()
}

/// Returns the key and value of a row whose columns belong together.
fn judge(columns: &[Datum]) -> std::result::Result<(Key, Value), String> {
    let [
        Datum::Int8(key),
        Datum::Int8(value),
        Datum::Int4(group),
        Datum::Text(filler),
        Datum::Bytea(large),
    ] = columns
    else {
        return Err(format!("a row of the wrong shape: {columns:?}"));
    };
    let expected = row(*key, *value);
    let same = matches!(&expected[2..], [Datum::Int4(g), Datum::Text(f), Datum::Bytea(l)]
            if g == group && f == filler && l == large);
    if same {
        return Ok((*key, *value));
    }
    Err(format!("row {key} has value {value} and columns of another: {columns:?}"))
}

impl TableDatabase {
    /// Opens, recovers, and makes the table if it is not there.
    ///
    /// # Errors
    /// Any error of a layer.
    pub fn open(
        env: Env,
        full_page_writes: bool,
        heap_only_updates: HeapOnlyUpdates,
    ) -> Result<Self> {
        let manager = TransactionManager::new(env.clone(), TxnOptions::default());
        let mut managers = Engine::resource_managers();
        managers.push(Arc::clone(&manager) as _);
        let options =
            StorageOptions { shared_buffers: 32, full_page_writes, ..StorageOptions::tiny() };
        let (storage, _) = Storage::open(env, options, managers)?;
        manager.attach(&storage)?;
        let engine = Engine::new(Arc::clone(&storage), Arc::clone(&manager));
        let control = manager.register_session()?;
        for number in 0..FILES.len() {
            if !storage.file_exists(file(number).id)? {
                let transaction = manager.begin(&control, BeginOptions::default())?;
                storage.create_file(file(number), transaction.write_xid()?)?;
                transaction.commit(Durability::Flush)?;
            }
        }
        let table = Table::open(&engine, definition(heap_only_updates));
        Ok(Self { manager, storage, table, cut: Arc::default() })
    }

    /// Returns a new session.
    ///
    /// # Errors
    /// Too many sessions.
    pub fn session(&self) -> Result<TableSession> {
        Ok(TableSession {
            database: self.clone(),
            control: self.manager.register_session()?,
            transaction: None,
            savepoints: Vec::new(),
            failed: false,
            work: Workspace::new(),
            lookup: Lookup::default(),
        })
    }

    /// Returns the table. Its columns are key, value, group, filler; it has a primary key, and an
    /// index on the group.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Calls `read` with a new transaction and a snapshot, the same for all statements.
    ///
    /// # Panics
    /// If no transaction can be begun.
    pub fn with_snapshot(&self, read: impl FnOnce(&Transaction, Snapshot)) {
        let control = self.manager.register_session().expect("a session");
        let isolation = Level::RepeatableRead;
        let options = BeginOptions { isolation, ..BeginOptions::default() };
        let tx = self.manager.begin(&control, options).expect("a transaction");
        lock(&tx, TableLockMode::AccessShare).expect("a lock");
        let snapshot = tx.snapshot().expect("a snapshot");
        read(&tx, snapshot);
    }

    /// Returns the storage.
    pub fn storage(&self) -> &Storage {
        &self.storage
    }

    /// Decides whether any row lock is kept in memory.
    pub fn any_row_locks(&self) -> bool {
        self.manager.locks().any_row_locks()
    }

    /// Returns the number of prune passes over heap pages that readers made.
    pub fn reader_passes(&self) -> u32 {
        self.table.heap().reader_passes()
    }

    /// Makes a checkpoint.
    ///
    /// # Errors
    /// An error of the storage.
    pub fn checkpoint(&self) -> Result<()> {
        self.storage.checkpoint(CheckpointKind::Requested, &[&*self.manager])?;
        Ok(())
    }

    /// Begins a transaction in a new session.
    ///
    /// # Errors
    /// Too many sessions.
    pub fn begin(&self, options: BeginOptions) -> std::result::Result<Transaction, String> {
        let control = self.manager.register_session().map_err(|error| error.to_string())?;
        let tx = self.manager.begin(&control, options).map_err(|error| error.to_string())?;
        lock(&tx, TableLockMode::AccessShare).map_err(|error| error.to_string())?;
        Ok(tx)
    }

    /// Runs a vacuum, which freezes early.
    ///
    /// # Errors
    /// An error of the storage.
    pub fn vacuum(&self, session: &Arc<SessionControl>) -> Result<VacuumSummary> {
        let options = VacuumOptions {
            freeze_min_age: FREEZE_MIN_AGE,
            truncate_pause: Duration::ZERO,
            ..VacuumOptions::default()
        };
        let tx = self.manager.begin(session, BeginOptions::default())?;
        lock(&tx, TableLockMode::ShareUpdateExclusive)?;
        let locked = Some(LockedTable { transaction: &tx, id: TABLE });
        let summary = niwaki_vacuum::vacuum(&self.table, session, locked, &options)?;
        tx.commit(Durability::Flush)?;
        self.cut.fetch_add(summary.cut + summary.values_cut, Ordering::Relaxed);
        Ok(summary)
    }

    /// Returns the number of pages at the end of the heaps that vacuums gave back since the
    /// opening.
    pub fn pages_cut(&self) -> u32 {
        self.cut.load(Ordering::Relaxed)
    }

    /// Checks, after a vacuum and with no other session at work, that no version is left that no
    /// snapshot sees (G2).
    ///
    /// # Errors
    /// The first such version.
    fn check_vacuumed(&self) -> std::result::Result<(), String> {
        let (horizon, mut report) = (self.manager.horizon(), Vec::new());
        for block in 0..self.table.blocks().map_err(|error| error.to_string())? {
            let checked = self.table.heap().check_pruned(block, &horizon, &mut report);
            checked.map_err(|error| error.to_string())?;
        }
        let values = self.table.value_heap().ok_or("a table without large values")?;
        for block in 0..values.blocks().map_err(|error| error.to_string())? {
            let checked = values.check_pruned(block, &horizon, &mut report);
            checked.map_err(|error| error.to_string())?;
        }
        match report.first() {
            Some(first) => Err(format!("left by a vacuum: {first:?}")),
            None => Ok(()),
        }
    }

    /// Checks every invariant of heap and indexes, and that nothing is pinned.
    ///
    /// # Errors
    /// The first violation.
    pub fn check(&self) -> std::result::Result<(), String> {
        let report = self.table.check().map_err(|error| error.to_string())?;
        if let Some(first) = report.corruptions.first() {
            return Err(format!("{} violations, first {first:?}", report.corruptions.len()));
        }
        if self.storage.pool().is_idle() { Ok(()) } else { Err("a page is pinned".to_owned()) }
    }
}

impl TableSession {
    /// Executes one statement.
    ///
    /// # Errors
    /// Answers that the model does not know; SQLSTATEs that it does know are in the reply.
    pub fn step(&mut self, step: &Step) -> std::result::Result<Reply, String> {
        match self.execute(step) {
            Ok(reply) => Ok(reply),
            Err(error) => {
                if self.transaction.is_some() {
                    self.fail();
                }
                match state(&error) {
                    Some(state) => Ok(Reply::Error(state.to_owned())),
                    None => Err(error.to_string()),
                }
            }
        }
    }

    fn execute(&mut self, step: &Step) -> Result<Reply> {
        match step {
            Step::Begin(isolation) => {
                let isolation = match isolation {
                    Isolation::ReadCommitted => Level::ReadCommitted,
                    Isolation::RepeatableRead => Level::RepeatableRead,
                };
                let options = BeginOptions { isolation, ..BeginOptions::default() };
                self.transaction = Some(self.database.manager.begin(&self.control, options)?);
            }
            Step::Commit | Step::Rollback => {
                let failed = std::mem::take(&mut self.failed);
                self.savepoints.clear();
                match self.transaction.take() {
                    Some(transaction) if *step == Step::Commit && !failed => {
                        transaction.commit(Durability::Flush)?;
                    }
                    Some(transaction) => transaction.abort(),
                    None => {}
                }
            }
            Step::RollbackTo(name) => {
                self.open().rollback_to(&name.to_string())?;
                let at = self.position(*name);
                self.savepoints.truncate(at + 1);
                self.failed = false;
            }
            _ if self.failed => return Ok(Reply::Error("25P02".to_owned())),
            Step::Savepoint(name) => {
                self.open().savepoint(&name.to_string());
                self.savepoints.push(name.to_string());
            }
            Step::Release(name) => {
                self.open().release(&name.to_string())?;
                let at = self.position(*name);
                self.savepoints.truncate(at);
            }
            Step::Checkpoint => self.database.checkpoint()?,
            Step::Vacuum => drop(self.database.vacuum(&self.control)?),
            _ => return self.statement(step),
        }
        Ok(Reply::Done(0))
    }

    /// Undoes a failed statement and its (sub)transaction at once, and frees their locks. The
    /// session still has to send ROLLBACK.
    fn fail(&mut self) {
        self.failed = true;
        if let Some(name) = self.savepoints.last() {
            self.open().rollback_to(name).expect("the newest savepoint");
        } else {
            // Until then an empty transaction takes its place.
            let failed = self.transaction.take();
            drop(failed);
            let nothing = self.database.manager.begin(&self.control, BeginOptions::default());
            self.transaction = nothing.ok();
        }
    }

    fn position(&self, name: u32) -> usize {
        let name = name.to_string();
        self.savepoints.iter().rposition(|other| *other == name).expect("a savepoint that exists")
    }

    fn open(&self) -> &Transaction {
        self.transaction.as_ref().expect("a statement that needs a transaction")
    }

    fn statement(&mut self, step: &Step) -> Result<Reply> {
        if let Some(transaction) = self.transaction.take() {
            let reply = self.rows_statement(&transaction, step);
            let next = transaction.next_command();
            self.transaction = Some(transaction);
            next?;
            return reply;
        }
        let transaction = self.database.manager.begin(&self.control, BeginOptions::default())?;
        let reply = self.rows_statement(&transaction, step)?;
        transaction.commit(Durability::Flush)?;
        Ok(reply)
    }

    fn rows_statement(&mut self, tx: &Transaction, step: &Step) -> Result<Reply> {
        let table = Arc::clone(&self.database.table);
        lock(tx, TableLockMode::AccessShare)?;
        match step {
            Step::Read(key) => {
                let snapshot = tx.snapshot()?;
                let found = self.find(tx, &snapshot, *key)?;
                Ok(Reply::Row(found.map(|(_, columns)| value_of(&columns))))
            }
            Step::Scan => Ok(Reply::Rows(self.database.sequential(tx)?)),
            Step::Insert(key, value) => {
                // A statement fixes the snapshot of REPEATABLE READ even if it reads nothing.
                let _snapshot = tx.snapshot()?;
                lock(tx, TableLockMode::RowExclusive)?;
                table.insert(tx, &row(*key, *value), &mut self.work)?;
                Ok(Reply::Done(1))
            }
            Step::Update(key, value) => self.modify(tx, *key, Some(&|_| *value)),
            Step::Delete(key) => self.modify(tx, *key, None),
            _ => unreachable!("handled by `execute`"),
        }
    }

    /// Adds to the value of a row; returns the number of changed rows.
    ///
    /// # Errors
    /// As [`TableSession::step`], with the SQLSTATE as error.
    pub fn add(&mut self, key: Key, amount: Value) -> std::result::Result<u64, String> {
        if self.failed {
            return Err("25P02".to_owned());
        }
        let transaction = self.transaction.take().expect("inside a transaction");
        let reply = self.modify(&transaction, key, Some(&|value| value + amount));
        let next = transaction.next_command();
        self.transaction = Some(transaction);
        next.map_err(|error| error.to_string())?;
        match reply {
            Ok(Reply::Done(count)) => Ok(count),
            Ok(other) => Err(format!("{other:?}")),
            Err(error) => {
                self.fail();
                Err(state(&error).map_or_else(|| error.to_string(), str::to_owned))
            }
        }
    }

    /// Locks the newest version of the row of a key; false when there is no row.
    ///
    /// # Errors
    /// As [`TableSession::add`].
    pub fn lock(&mut self, key: Key, mode: RowLockMode) -> std::result::Result<bool, String> {
        let transaction = self.transaction.take().expect("inside a transaction");
        let outcome = self.lock_key(&transaction, key, mode);
        self.transaction = Some(transaction);
        outcome.map_err(|error| {
            self.fail();
            state(&error).map_or_else(|| error.to_string(), str::to_owned)
        })
    }

    fn lock_key(&mut self, tx: &Transaction, key: Key, mode: RowLockMode) -> Result<bool> {
        let table = Arc::clone(&self.database.table);
        lock(tx, TableLockMode::RowShare)?;
        let snapshot = tx.snapshot_for_write()?;
        let Some((root, _)) = self.find(tx, &snapshot, key)? else { return Ok(false) };
        let target = RowTarget::visible(root);
        let outcome = table.lock_row(tx, &snapshot, target, mode, WaitPolicy::Block)?;
        Ok(matches!(outcome, LockOutcome::Locked | LockOutcome::Changed(_)))
    }

    /// Updates (or deletes) the row of a key as an executor does: a version that another
    /// transaction changed meanwhile is judged again.
    fn modify(
        &mut self,
        tx: &Transaction,
        key: Key,
        change: Option<&dyn Fn(Value) -> Value>,
    ) -> Result<Reply> {
        let table = Arc::clone(&self.database.table);
        lock(tx, TableLockMode::RowExclusive)?;
        let snapshot = tx.snapshot_for_write()?;
        let Some((root, mut old)) = self.find(tx, &snapshot, key)? else {
            return Ok(Reply::Done(0));
        };
        let mut target = RowTarget::visible(root);
        // Ends: each further turn follows a change that another transaction committed.
        loop {
            let outcome = match change {
                Some(change) => {
                    let new = row(key, change(value_of(&old)));
                    table.update(tx, &snapshot, target, &old, &new, &mut self.work)?
                }
                None => table.delete(tx, &snapshot, target)?,
            };
            match outcome {
                UpdateOutcome::Done { .. } => return Ok(Reply::Done(1)),
                UpdateOutcome::Gone | UpdateOutcome::SelfModified => return Ok(Reply::Done(0)),
                UpdateOutcome::Changed(changed) => {
                    target = changed.target;
                    let row = &changed.row;
                    let all = ColumnMask::all(COLUMNS);
                    table.deform_parts(row.natts, row.has_nulls, &row.bytes, &all, &mut old)?;
                }
            }
        }
    }

    fn find(
        &mut self,
        tx: &Transaction,
        snapshot: &Snapshot,
        key: Key,
    ) -> Result<Option<(Tid, Vec<Datum>)>> {
        let table = &self.database.table;
        let mut encoded = Vec::new();
        table.encode_index_key(0, &row(key, 0), &mut encoded)?;
        let mut out = vec![Datum::Null; COLUMNS];
        let all = ColumnMask::all(COLUMNS);
        let lookup = &mut self.lookup;
        let found = table.fetch_unique(tx, snapshot, 0, &encoded, &all, &mut out, lookup)?;
        Ok(found.map(|root| (root, out)))
    }
}

fn value_of(columns: &[Datum]) -> Value {
    match columns[1] {
        Datum::Int8(value) => value,
        ref other => panic!("value {other:?}"),
    }
}

/// Returns the SQLSTATEs that the model knows, and deadlocks.
fn state(error: &Error) -> Option<&'static str> {
    match error {
        Error::UniqueViolation(_) => Some("23505"),
        Error::Transaction(TxnError::SerializationFailure { .. }) => Some("40001"),
        Error::Transaction(TxnError::Deadlock { .. }) => Some("40P01"),
        _ => None,
    }
}

fn damaged(detail: String) -> Error {
    Error::Storage(StorageError::Refused(detail))
}

impl TableDatabase {
    /// Returns all rows that the transaction sees, by a sequential scan.
    ///
    /// # Errors
    /// Storage's, and rows whose columns do not belong together.
    pub fn sequential(&self, tx: &Transaction) -> Result<Rows> {
        let snapshot = tx.snapshot()?;
        let mut scan = self.table.seq_scan(0..self.table.blocks()?);
        let mut page = PageRows::new();
        let mut rows = Rows::new();
        let mut out = vec![Datum::Null; COLUMNS];
        while scan.next_page(&self.table, tx, &snapshot, &mut page)? {
            for found in page.iter() {
                self.table.deform(found, &ColumnMask::all(COLUMNS), &mut out)?;
                collect("a sequential scan", &out, &mut rows)?;
            }
        }
        Ok(rows)
    }

    fn through_index(&self, tx: &Transaction, index: usize, direction: Direction) -> Result<Rows> {
        let snapshot = tx.snapshot()?;
        let mut scan = self.table.index_scan(index, &KeyRange::ALL, direction);
        let mut rows = Rows::new();
        let mut order: Vec<i64> = Vec::new();
        let mut out = vec![Datum::Null; COLUMNS];
        let all = ColumnMask::all(COLUMNS);
        while scan.next(&self.table, tx, &snapshot, &all, &mut out)?.is_some() {
            collect("an index scan", &out, &mut rows)?;
            order.push(match out[if index == 0 { 0 } else { 2 }] {
                Datum::Int8(key) => key,
                Datum::Int4(group) => group.into(),
                ref other => return Err(damaged(format!("key {other:?}"))),
            });
        }
        if direction == Direction::Backward {
            order.reverse();
        }
        if !order.is_sorted() {
            return Err(damaged(format!("index {index} is out of order: {order:?}")));
        }
        Ok(rows)
    }

    /// Returns all committed rows, read in five ways that must agree.
    ///
    /// # Errors
    /// The rows cannot be read, or two ways differ.
    pub fn rows(&self) -> std::result::Result<Rows, String> {
        let isolation = Level::RepeatableRead;
        let tx = self.begin(BeginOptions { isolation, ..BeginOptions::default() })?;
        let rows = self.rows_as(&tx)?;
        tx.commit(Durability::Flush).map_err(|error| error.to_string())?;
        Ok(rows)
    }

    /// Returns all rows that a transaction of one snapshot sees, read in five ways that must agree.
    ///
    /// # Errors
    /// As [`TableDatabase::rows`].
    pub fn rows_as(&self, tx: &Transaction) -> std::result::Result<Rows, String> {
        let text = |error: Error| error.to_string();
        let sequential = self.sequential(tx).map_err(text)?;
        for index in 0..2 {
            for direction in [Direction::Forward, Direction::Backward] {
                let rows = self.through_index(tx, index, direction).map_err(text)?;
                if rows != sequential {
                    return Err(format!(
                        "index {index} {direction:?} sees {rows:?}, a sequential scan {sequential:?}"
                    ));
                }
            }
        }
        Ok(sequential)
    }
}

fn collect(how: &str, columns: &[Datum], rows: &mut Rows) -> Result<()> {
    let (key, value) = judge(columns).map_err(|detail| damaged(format!("{how}: {detail}")))?;
    match rows.insert(key, value) {
        None => Ok(()),
        Some(other) => Err(damaged(format!("{how}: row {key} came twice: {other}, {value}"))),
    }
}

impl TestedTables {
    /// Opens with chains of the given kind of keys.
    ///
    /// # Errors
    /// Any error of a layer.
    pub(crate) fn open_as(
        env: Env,
        full_page_writes: bool,
        heap_only: HeapOnlyUpdates,
    ) -> std::result::Result<Self, String> {
        let database = TableDatabase::open(env, full_page_writes, heap_only);
        let database = database.map_err(|error| error.to_string())?;
        Ok(Self { database, sessions: BTreeMap::new() })
    }

    /// Returns the database.
    pub fn database(&self) -> &TableDatabase {
        &self.database
    }
}

/// [`TestedTables`] with chains of any keys (`heap_only_updates = any_key`).
pub struct AnyKeyTables(TestedTables);

impl TestedDatabase for AnyKeyTables {
    fn open(env: Env, full_page_writes: bool) -> std::result::Result<Self, String> {
        TestedTables::open_as(env, full_page_writes, HeapOnlyUpdates::AnyKey).map(Self)
    }

    fn step(&mut self, session: u32, step: &Step) -> std::result::Result<Reply, String> {
        self.0.step(session, step)
    }

    fn rows(&mut self) -> std::result::Result<Rows, String> {
        self.0.rows()
    }

    fn check(&mut self) -> std::result::Result<(), String> {
        self.0.check()
    }
}

impl TestedDatabase for TestedTables {
    fn open(env: Env, full_page_writes: bool) -> std::result::Result<Self, String> {
        Self::open_as(env, full_page_writes, HeapOnlyUpdates::SameKeys)
    }

    fn step(&mut self, session: u32, step: &Step) -> std::result::Result<Reply, String> {
        if !self.sessions.contains_key(&session) {
            let new = self.database.session().map_err(|error| error.to_string())?;
            self.sessions.insert(session, new);
        }
        let reply = self.sessions.get_mut(&session).expect("just inserted").step(step)?;
        // One thread takes all steps.
        if (step, &reply) == (&Step::Vacuum, &Reply::Done(0)) {
            self.database.check_vacuumed()?;
        }
        Ok(reply)
    }

    fn rows(&mut self) -> std::result::Result<Rows, String> {
        self.database.rows()
    }

    fn check(&mut self) -> std::result::Result<(), String> {
        self.database.check()
    }
}
