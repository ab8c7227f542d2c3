//! The table of the interleavings: it has two rows. Beside it are the actions of actors on it, and
//! the checks afterwards.

use std::any::Any;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use niwaki_env::Env;
use niwaki_env::sync::thread;
use niwaki_env::vfs::MemoryVfs;
use niwaki_heap::{ItemKind, VacuumRoots};
use niwaki_nbtree::KeyRange;
use niwaki_storage::{Fork, RelFile, RelFileId, Storage, StorageOptions, Tid, Xid};
use niwaki_table::{
    BuildOptions, Direction, Engine, Error, ExpressionError, HeapOnlyUpdates, IndexDefinition,
    KeyColumn, KeyExpression, KeySource, Lookup, PageRows, Rounds, RowTarget, ScanKeys, Table,
    TableDefinition, UpdateOutcome, Workspace,
};
use niwaki_txn::{
    BeginOptions, Durability, Isolation, Snapshot, TableId, TableLockMode, Transaction,
    TransactionManager, TxnOptions, WaitPolicy,
};
use niwaki_types::{ColumnMask, ColumnType, Datum, KeyOrder, TypeOid, encode_key};
use niwaki_vacuum::{LockedTable, VacuumOptions, VacuumSummary, vacuum};

use crate::schedules::seed;

/// Columns: id, a, b.
pub(crate) const COLUMNS: usize = 3;
/// The index on a, of all indexes of the table.
pub(crate) const ON_A: usize = 1;

/// The table's name for locks.
const ID: TableId = TableId(1);

/// The fixture: a table whose rows 0 and 1 have a = 0 and 1.
#[derive(Clone)]
pub(crate) struct TwoRowTable {
    pub(crate) engine: Arc<Engine>,
    pub(crate) table: Arc<Table>,
    /// Durability of the transactions that insert, change and delete rows.
    pub(crate) durability: Durability,
}

/// Number of rows that [`TwoRowTable::churn`] updates.
const ROWS: i32 = 40;

/// An expression over a row.
#[derive(Clone, Copy, Debug)]
enum Formula {
    /// a.
    Same,
    /// a >= 0.
    NotNegative,
}

/// An expression over a.
#[derive(Debug)]
struct Computed {
    formula: Formula,
    columns: ColumnMask,
}

impl Computed {
    fn new(formula: Formula) -> Self {
        Self { formula, columns: ColumnMask::from_iter([1]) }
    }
}

impl KeyExpression for Computed {
    fn columns(&self) -> &ColumnMask {
        &self.columns
    }

    fn evaluate(&self, row: &[Datum]) -> Result<Datum, ExpressionError> {
        Ok(match self.formula {
            Formula::Same => row[1].clone(),
            Formula::NotNegative => Datum::Bool(integer(&row[1]) >= 0),
        })
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Returns the index on a, without its file.
fn on_a(key: Vec<KeyColumn>) -> IndexDefinition {
    IndexDefinition::new(TableId(3), "on_a", RelFile { id: RelFileId(0), logged: true }, key)
}

/// The actions of one actor on the fixture.
pub(crate) type Actor = Box<dyn FnOnce(&TwoRowTable) + Send>;

pub(crate) fn row(id: i32, a: i32, b: i32) -> Vec<Datum> {
    vec![Datum::Int4(id), Datum::Int4(a), Datum::Int4(b)]
}

pub(crate) fn integer(datum: &Datum) -> i32 {
    match datum {
        Datum::Int4(value) => *value,
        other => panic!("{other:?} is no integer"),
    }
}

fn key_of(value: i32) -> Vec<u8> {
    let mut key = Vec::new();
    encode_key(&Datum::Int4(value), KeyOrder::ascending(TypeOid::INT4), &mut key);
    key
}

impl TwoRowTable {
    /// Makes a fixture with a primary key only.
    pub(crate) fn new(heap_only: HeapOnlyUpdates) -> Self {
        Self::filled(heap_only, 100)
    }

    /// Makes a [`TwoRowTable::new`] whose pages insertions fill up to `fillfactor` percent.
    pub(crate) fn filled(heap_only: HeapOnlyUpdates, fillfactor: u8) -> Self {
        let env = Env::simulated(Arc::new(MemoryVfs::new()), seed());
        let manager = TransactionManager::new(env.clone(), TxnOptions::default());
        let mut managers = Engine::resource_managers();
        managers.push(Arc::clone(&manager) as _);
        let options = StorageOptions { shared_buffers: 32, ..StorageOptions::tiny() };
        let (storage, _) = Storage::open(env, options, managers).expect("the storage opens");
        manager.attach(&storage).expect("the states are there");
        let engine = Engine::new(storage, manager);
        let mut definition = None;
        transaction(&engine, |tx| {
            let file = || engine.create_file(tx, true).expect("a file");
            let key = vec![KeyColumn::column(0, KeyOrder::ascending(TypeOid::INT4))];
            let primary = IndexDefinition {
                unique: true,
                primary: true,
                ..IndexDefinition::new(TableId(2), "primary", file(), key)
            };
            definition = Some(TableDefinition {
                id: ID,
                name: "t".to_owned(),
                file: file(),
                values: None,
                fillfactor,
                heap_only_updates: heap_only,
                columns: vec![ColumnType::new(TypeOid::INT4); COLUMNS],
                missing: Vec::new(),
                indexes: vec![primary],
            });
            true
        });
        let table = Table::open(&engine, definition.expect("the definition"));
        let fixture = Self { engine, table, durability: Durability::Flush };
        transaction(&fixture.engine, |tx| {
            for id in 0..2 {
                fixture.table.insert(tx, &row(id, id, id), &mut Workspace::new()).expect("a row");
            }
            true
        });
        fixture
    }

    /// Adds an index on a to the table; b is its payload.
    pub(crate) fn index_on_a(&mut self, unique: bool) {
        self.index_on_a_with(unique, vec![2]);
    }

    pub(crate) fn index_on_a_with(&mut self, unique: bool, include: Vec<usize>) {
        let key = vec![KeyColumn::column(1, KeyOrder::ascending(TypeOid::INT4))];
        self.index_with(IndexDefinition { unique, include, ..on_a(key) });
    }

    /// Adds an index on an expression over a. The index has only the rows that have an a.
    fn index_on_computed_a(&mut self) {
        let source = KeySource::Expression(Arc::new(Computed::new(Formula::Same)));
        let key = vec![KeyColumn { source, order: KeyOrder::ascending(TypeOid::INT4) }];
        let predicate = Computed::new(Formula::NotNegative);
        self.index_with(IndexDefinition { predicate: Some(Arc::new(predicate)), ..on_a(key) });
    }

    fn index_with(&mut self, index: IndexDefinition) {
        let mut definition = self.table.definition().clone();
        let mut table = None;
        transaction(&self.engine, |tx| {
            let file = self.engine.create_file(tx, true).expect("a file");
            definition.indexes.push(IndexDefinition { file, ..index });
            let built = Table::open(&self.engine, definition.clone());
            built.build_index(tx, ON_A, &BuildOptions::default()).expect("a build");
            table = Some(built);
            true
        });
        self.table = table.expect("the table");
    }

    /// Changes row 0 from a = 0 to a = 2 while an old snapshot is held, then builds an index on a.
    /// The index has entries of both keys for the chain root.
    pub(crate) fn two_keys() -> Self {
        let mut fixture = Self::new(HeapOnlyUpdates::SameKeys);
        beside_an_old_snapshot(&Arc::clone(&fixture.engine), || {
            fixture.change(0, Some(2), None, true);
            fixture.index_on_a(false);
        });
        fixture
    }

    /// Makes a fixture with an index on a, perhaps a unique one, and chains of any keys.
    pub(crate) fn any_key(unique: bool) -> Self {
        let mut fixture = Self::new(HeapOnlyUpdates::AnyKey);
        fixture.index_on_a(unique);
        fixture
    }

    /// Makes a fixture where row 0 went from a = 0 to a = 2 in one chain. The index on a has no
    /// payload.
    pub(crate) fn two_versions() -> Self {
        let mut fixture = Self::new(HeapOnlyUpdates::AnyKey);
        fixture.index_on_a_with(false, Vec::new());
        fixture.change(0, Some(2), None, true);
        fixture
    }

    /// Makes [`TwoRowTable::two_versions`], with an index whose key and predicate are computed.
    pub(crate) fn two_computed_versions() -> Self {
        let mut fixture = Self::new(HeapOnlyUpdates::AnyKey);
        fixture.index_on_computed_a();
        fixture.change(0, Some(2), None, true);
        fixture
    }

    /// Returns the fixture with an index on a that takes no entries any more, as in the last step
    /// of a concurrent drop.
    pub(crate) fn without_entries_on_a(&self) -> Self {
        let mut definition = self.table.definition().clone();
        let index = &mut definition.indexes[ON_A];
        (index.ready, index.valid) = (false, false);
        Self { table: Table::open(&self.engine, definition), ..self.clone() }
    }

    /// Drops the file of the index on a.
    pub(crate) fn drop_file_on_a(&self) {
        let file = self.table.definition().indexes[ON_A].file;
        self.engine.storage().drop_file(file).expect("the file goes");
    }

    /// Makes a fixture with an index on a where each version has its own chain root.
    pub(crate) fn same_page_for_ever() -> Self {
        let mut fixture = Self::new(HeapOnlyUpdates::Off);
        fixture.index_on_a(false);
        (2..ROWS).for_each(|id| fixture.insert(id, id));
        fixture
    }

    /// Updates rows `updates` times, with unchanged keys.
    pub(crate) fn churn(&self, updates: i32) {
        (0..updates).for_each(|n| self.change(n % ROWS, None, None, true));
    }

    /// Inserts a row, unless a unique index refuses it.
    pub(crate) fn insert(&self, id: i32, a: i32) {
        transaction_for(&self.engine, self.durability, |tx| {
            match self.table.insert(tx, &row(id, a, 0), &mut Workspace::new()) {
                Ok(_) => true,
                Err(Error::UniqueViolation(_)) => false,
                Err(error) => panic!("{error}"),
            }
        });
    }

    /// Inserts rows in one transaction, which is rolled back.
    pub(crate) fn insert_and_roll_back(&self, ids: Range<i32>) {
        transaction_for(&self.engine, self.durability, |tx| {
            let mut work = Workspace::new();
            for id in ids {
                self.table.insert(tx, &row(id, id, 0), &mut work).expect("a row");
            }
            false
        });
    }

    pub(crate) fn blocks(&self) -> u32 {
        self.table.blocks().expect("blocks")
    }

    /// Returns the ids of the rows of a page.
    pub(crate) fn ids_on(&self, block: u32) -> BTreeSet<i32> {
        let mut ids = BTreeSet::new();
        transaction(&self.engine, |tx| {
            let snapshot = tx.snapshot().expect("a snapshot");
            let (mut page, mut out) = (PageRows::new(), vec![Datum::Null; COLUMNS]);
            let mut scan = self.table.seq_scan(block..block + 1);
            while scan.next_page(&self.table, tx, &snapshot, &mut page).expect("a page") {
                for stored in page.iter() {
                    let all = ColumnMask::all(COLUMNS);
                    self.table.deform(stored, &all, &mut out).expect("a row");
                    ids.insert(integer(&out[0]));
                }
            }
            true
        });
        ids
    }

    /// Deletes the row of an id.
    pub(crate) fn delete(&self, id: i32) {
        transaction_for(&self.engine, self.durability, |tx| {
            self.delete_in(tx, id);
            true
        });
    }

    /// Deletes the row of an id in a statement of `tx`.
    pub(crate) fn delete_in(&self, tx: &Transaction, id: i32) {
        let snapshot = tx.snapshot_for_write().expect("a snapshot");
        let (target, _) = self.find(tx, &snapshot, id);
        let done = self.table.delete(tx, &snapshot, target).expect("a deletion");
        assert!(matches!(done, UpdateOutcome::Done { .. }), "{done:?}, and nobody is in the way");
        drop(snapshot);
        tx.next_command().expect("a command");
    }

    /// Updates the row of an id in a statement of `tx`, without a change of its values. Returns the
    /// row's address now.
    pub(crate) fn update_in(&self, tx: &Transaction, id: i32) -> Tid {
        let snapshot = tx.snapshot_for_write().expect("a snapshot");
        let (target, old) = self.find(tx, &snapshot, id);
        let work = &mut Workspace::new();
        let done = self.table.update(tx, &snapshot, target, &old, &old, work).expect("an update");
        drop(snapshot);
        tx.next_command().expect("a command");
        match done {
            UpdateOutcome::Done { root } => root,
            other => panic!("{other:?}, and nobody is in the way"),
        }
    }

    /// Gives the row of an id other values, in its own transaction, unless a unique index refuses
    /// them.
    pub(crate) fn change(&self, id: i32, a: Option<i32>, b: Option<i32>, commits: bool) {
        self.change_while(id, a, b, || commits);
    }

    /// Does [`TwoRowTable::change`] in a transaction that stays open for `body`, which says whether
    /// to commit.
    pub(crate) fn change_while(
        &self,
        id: i32,
        a: Option<i32>,
        b: Option<i32>,
        body: impl FnOnce() -> bool,
    ) {
        transaction_for(&self.engine, self.durability, |tx| {
            let snapshot = tx.snapshot_for_write().expect("a snapshot");
            let (target, old) = self.find(tx, &snapshot, id);
            let new = row(id, a.unwrap_or(integer(&old[1])), b.unwrap_or(integer(&old[2])));
            let mut work = Workspace::new();
            let changed = self.table.update(tx, &snapshot, target, &old, &new, &mut work);
            drop(snapshot);
            match changed {
                Ok(UpdateOutcome::Done { .. }) => body(),
                Err(Error::UniqueViolation(_)) => false,
                other => panic!("{other:?}, and nobody is in the way"),
            }
        });
    }

    pub(crate) fn find(
        &self,
        tx: &Transaction,
        snapshot: &Snapshot,
        id: i32,
    ) -> (RowTarget, Vec<Datum>) {
        let mut out = vec![Datum::Null; COLUMNS];
        let (all, mut lookup) = (ColumnMask::all(COLUMNS), Lookup::default());
        let key = key_of(id);
        let found = self.table.fetch_unique(tx, snapshot, 0, &key, &all, &mut out, &mut lookup);
        (RowTarget::visible(found.expect("a lookup").expect("the row is there")), out)
    }

    /// Reads the whole index on a, forward and backward, and compares with what the heap has. Reads
    /// from rows, and from entries alone, under one snapshot.
    pub(crate) fn read(&self) {
        transaction(&self.engine, |tx| {
            let snapshot = tx.snapshot().expect("a snapshot");
            let all = ColumnMask::all(COLUMNS);
            let mut out = vec![Datum::Null; COLUMNS];
            let mut values = Vec::new();
            for direction in [Direction::Forward, Direction::Backward] {
                let covers = !self.table.definition().indexes[ON_A].include.is_empty();
                for only in [true, false].into_iter().filter(|only| covers || !only) {
                    let (mut scan, needed) = match only {
                        true => {
                            let scan = self.table.index_only_scan(ON_A, ScanKeys::ALL, direction);
                            (scan, ColumnMask::from_iter([1, 2]))
                        }
                        false => {
                            let scan = self.table.index_scan(ON_A, &KeyRange::ALL, direction);
                            (scan, all.clone())
                        }
                    };
                    let mut found = Vec::new();
                    let table = &*self.table;
                    while scan
                        .next(table, tx, &snapshot, &needed, &mut out)
                        .expect("a row")
                        .is_some()
                    {
                        found.push((integer(&out[1]), integer(&out[2])));
                    }
                    assert_eq!(
                        found.len(),
                        found.iter().collect::<BTreeSet<_>>().len(),
                        "a row twice"
                    );
                    let mut ordered = found.clone();
                    ordered.sort_unstable();
                    if direction == Direction::Backward {
                        found.reverse();
                    }
                    assert_eq!(found, ordered, "out of order");
                    values.push(found);
                }
            }
            let mut scan = self.table.seq_scan(0..self.table.blocks().expect("blocks"));
            let (mut page, mut expected) = (PageRows::new(), Vec::new());
            while scan.next_page(&self.table, tx, &snapshot, &mut page).expect("a page") {
                for stored in page.iter() {
                    self.table.deform(stored, &all, &mut out).expect("a row");
                    expected.push((integer(&out[1]), integer(&out[2])));
                }
            }
            expected.sort_unstable();
            let keys: BTreeSet<i32> = expected.iter().map(|(a, _)| *a).collect();
            let unique = self.table.definition().indexes[ON_A].unique;
            assert!(!unique || keys.len() == expected.len(), "two rows of one key: {expected:?}");
            for found in values {
                assert_eq!(found, expected, "a and b by the index, and in the heap");
            }
            true
        });
    }

    pub(crate) fn prune(&self) {
        let horizon = self.engine.transactions().horizon();
        for block in 0..self.table.blocks().expect("blocks") {
            let heap = self.table.heap();
            heap.vacuum_page(block, &horizon, Xid::INVALID, true, &mut VacuumRoots::default())
                .expect("a page");
        }
    }

    /// Runs a vacuum, which takes `mixed` away where it can be.
    pub(crate) fn clean(&self) {
        self.vacuum(true);
    }

    /// Runs a vacuum, which may truncate the heap if `truncate`; returns its summary.
    pub(crate) fn vacuum(&self, truncate: bool) -> VacuumSummary {
        let control = self.engine.transactions().register_session().expect("a session");
        let options =
            VacuumOptions { freeze_min_age: u64::MAX, truncate, ..VacuumOptions::default() };
        let tx = self.engine.transactions().begin(&control, BeginOptions::default());
        let tx = tx.expect("a transaction");
        lock(&tx, TableLockMode::ShareUpdateExclusive);
        let locked = Some(LockedTable { transaction: &tx, id: ID });
        let summary = vacuum(&self.table, &control, locked, &options).expect("a vacuum");
        tx.commit(Durability::Flush).expect("a commit");
        summary
    }

    /// Adds empty pages at the end, as a crash leaves them.
    pub(crate) fn extend(&self, pages: u32) {
        let file = self.table.definition().file;
        self.engine.storage().pool().extend(file, Fork::Main, pages).expect("pages");
    }

    /// Runs `body` under the exclusive lock of a definition.
    pub(crate) fn define<T>(&self, body: impl FnOnce() -> T) -> T {
        let control = self.engine.transactions().register_session().expect("a session");
        let tx = self.engine.transactions().begin(&control, BeginOptions::default());
        let tx = tx.expect("a transaction");
        lock(&tx, TableLockMode::AccessExclusive);
        let done = body();
        tx.commit(Durability::Flush).expect("a commit");
        done
    }

    /// Decides whether a definition waits for the table. A vacuum that waits for other vacuums does
    /// not count.
    pub(crate) fn is_definition_waiting(&self) -> bool {
        let locks = self.engine.transactions().locks();
        locks.has_waiters_excluded_by(ID, TableLockMode::RowExclusive)
    }

    /// Prunes every page, as an access does that finds the page short of room.
    pub(crate) fn settle(&self) {
        for block in 0..self.table.blocks().expect("blocks") {
            self.table.heap().prune_page(block).expect("a page");
        }
    }

    /// Rounds of the gardener's thread, as if every page had been quiet for long.
    pub(crate) fn rounds(&self, count: usize) {
        let mut rounds = Rounds::default();
        for _ in 0..count {
            let quiet = self.engine.storage().wal().insert_lsn();
            transaction(&self.engine, |tx| {
                self.table.round(tx.session(), &mut rounds, quiet).expect("a round");
                true
            });
        }
    }

    pub(crate) fn has_mixed(&self) -> bool {
        let mut mixed = false;
        let see = |_, kind| mixed |= kind == (ItemKind::Root { mixed: true });
        self.table.heap().check_page(0, &mut Vec::new(), see, |_| {}).expect("a page");
        mixed
    }

    pub(crate) fn check(&self) {
        let report = self.table.check().expect("a check");
        assert!(report.corruptions.is_empty(), "{:#?}", report.corruptions);
    }

    /// Plays all actors at the same time. Then one actor reads alone, and the invariants hold.
    pub(crate) fn play(&self, actors: Vec<Actor>) {
        let mut threads = Vec::new();
        for actor in actors {
            let fixture = self.clone();
            threads.push(thread::spawn(move || actor(&fixture)));
        }
        threads.into_iter().for_each(|thread| thread.join().expect("an actor ends"));
        self.read();
        self.check();
    }
}

/// Locks the table, as a statement does.
fn lock(tx: &Transaction, mode: TableLockMode) {
    let locked = tx.manager().locks().acquire_table(tx, ID, mode, WaitPolicy::Block);
    assert!(locked.expect("a lock"));
}

/// Does something while a snapshot of before is held.
pub(crate) fn beside_an_old_snapshot<T>(engine: &Engine, body: impl FnOnce() -> T) -> T {
    let control = engine.transactions().register_session().expect("a session");
    let isolation = Isolation::RepeatableRead;
    let options = BeginOptions { isolation, ..BeginOptions::default() };
    let old = engine.transactions().begin(&control, options).expect("a transaction");
    let snapshot = old.snapshot().expect("a snapshot");
    let done = body();
    drop(snapshot);
    drop(old);
    done
}

/// Runs a transaction; `body` says whether it commits.
pub(crate) fn transaction(engine: &Engine, body: impl FnOnce(&Transaction) -> bool) {
    transaction_for(engine, Durability::Flush, body);
}

fn transaction_for(
    engine: &Engine,
    durability: Durability,
    body: impl FnOnce(&Transaction) -> bool,
) {
    let control = engine.transactions().register_session().expect("a session");
    let isolation = Isolation::ReadCommitted;
    let options = BeginOptions { isolation, ..BeginOptions::default() };
    let tx = engine.transactions().begin(&control, options).expect("a transaction");
    lock(&tx, TableLockMode::RowExclusive);
    if body(&tx) {
        tx.commit(durability).expect("a commit");
    } else {
        tx.abort();
    }
}
