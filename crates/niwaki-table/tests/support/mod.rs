//! A test table `(id int4 unique, v int4, t text)` with an index on `v`, on files in memory.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part")]

use std::collections::BTreeMap;
use std::sync::Arc;

use niwaki_env::Env;
use niwaki_env::sync::Mutex;
use niwaki_env::sync::plain_atomic::{AtomicU64, Ordering};
use niwaki_env::vfs::{MemoryVfs, Vfs};
use niwaki_heap::{VacuumRoots, VersionRow};
use niwaki_nbtree::{IndexOptions, KeyRange};
use niwaki_storage::compare::redo_equals_do;
use niwaki_storage::page::{ItemState, Page, PageKind};
use niwaki_storage::{
    CheckpointKind, CheckpointParticipant, OffsetNumber, Storage, StorageOptions,
};
use niwaki_table::{
    Direction, Engine, HeapOnlyUpdates, IndexDefinition, KeyColumn, Lookup, PageRows, Result,
    RowTarget, Table, TableDefinition, UpdateOutcome, Workspace,
};
use niwaki_txn::{
    BeginOptions, Durability, Isolation, SessionControl, Snapshot, TableId, TableLockMode,
    Transaction, TransactionManager, TxnOptions, WaitPolicy,
};
use niwaki_types::{ColumnMask, ColumnType, Datum, KeyOrder, TypeOid};
use niwaki_vacuum::{LockedTable, VacuumOptions, VacuumSummary, vacuum};

/// Rows by id: v, length of t, and a number that distinguishes writes.
pub(crate) type Rows = BTreeMap<i32, (i32, usize, u64)>;

/// A small generator (xorshift), so that a run needs only a seed.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678_9abc_def1)
    }
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}

pub(crate) struct World {
    pub engine: Arc<Engine>,
    pub table: Arc<Table>,
    pub sessions: Vec<Arc<SessionControl>>,
    vfs: Arc<MemoryVfs>,
    work: Mutex<Workspace>,
    stamps: AtomicU64,
}

pub(crate) fn open_on(vfs: &Arc<MemoryVfs>) -> Arc<Engine> {
    open_engine(Arc::clone(vfs) as _, 64).unwrap()
}

/// Opens an engine on these files, with a pool of `shared_buffers` frames.
pub(crate) fn open_engine(
    vfs: Arc<dyn Vfs>,
    shared_buffers: usize,
) -> niwaki_storage::Result<Arc<Engine>> {
    open_engine_in(Env { vfs, ..Env::memory() }, shared_buffers)
}

/// Opens an engine in this environment.
pub(crate) fn open_engine_in(
    env: Env,
    shared_buffers: usize,
) -> niwaki_storage::Result<Arc<Engine>> {
    // The tests of threads need deadlocks.
    let deadlock_timeout = std::time::Duration::from_millis(2);
    let options = TxnOptions { deadlock_timeout, ..TxnOptions::default() };
    let manager = TransactionManager::new(env.clone(), options);
    let mut managers = Engine::resource_managers();
    managers.push(Arc::clone(&manager) as _);
    let options = StorageOptions { shared_buffers, ..StorageOptions::tiny() };
    let (storage, _) = Storage::open(env, options, managers)?;
    manager.attach(&storage).unwrap();
    Ok(Engine::new(storage, manager))
}

fn column(oid: TypeOid) -> ColumnType {
    ColumnType::new(oid)
}

impl World {
    pub(crate) fn new(sessions: usize, small_pages: bool, logged: bool) -> Self {
        let vfs = Arc::new(MemoryVfs::new());
        let engine = open_on(&vfs);
        Self::on(engine, vfs, sessions, small_pages, logged)
    }

    /// Makes a table in an engine. [`World::compare_with_redo`] copies `vfs`.
    pub(crate) fn on(
        engine: Arc<Engine>,
        vfs: Arc<MemoryVfs>,
        sessions: usize,
        small_pages: bool,
        logged: bool,
    ) -> Self {
        let sessions: Vec<_> =
            (0..sessions).map(|_| engine.transactions().register_session().unwrap()).collect();
        let tx = engine.transactions().begin(&sessions[0], BeginOptions::default()).unwrap();
        let index = |id: u64, name: &str, column: usize, unique: bool| IndexDefinition {
            unique,
            primary: unique,
            options: IndexOptions {
                page_items_max: small_pages.then_some(5),
                ..IndexOptions::default()
            },
            ..IndexDefinition::new(
                TableId(id),
                name,
                engine.create_file(&tx, logged).unwrap(),
                vec![KeyColumn::column(column, KeyOrder::ascending(TypeOid::INT4))],
            )
        };
        let definition = TableDefinition {
            id: TableId(1),
            name: "t".to_owned(),
            file: engine.create_file(&tx, logged).unwrap(),
            values: Some(engine.create_file(&tx, logged).unwrap()),
            fillfactor: 100,
            heap_only_updates: HeapOnlyUpdates::default(),
            // `s` is the stamp's low half: it distinguishes writes.
            columns: vec![
                column(TypeOid::INT4),
                column(TypeOid::INT4),
                column(TypeOid::TEXT),
                column(TypeOid::INT4),
            ],
            missing: Vec::new(),
            indexes: vec![index(2, "t_id", 0, true), index(3, "t_v", 1, false)],
        };
        tx.commit(Durability::Flush).unwrap();
        let table = Table::open(&engine, definition);
        Self {
            engine,
            table,
            sessions,
            vfs,
            work: Mutex::new(Workspace::new()),
            stamps: AtomicU64::new(0),
        }
    }

    /// Opens the table of another world, in an engine on a copy of its files.
    pub(crate) fn reopened(engine: Arc<Engine>, definition: &TableDefinition) -> Self {
        let table = Table::open(&engine, definition.clone());
        let session = engine.transactions().register_session().unwrap();
        Self {
            table,
            sessions: vec![session],
            vfs: Arc::new(MemoryVfs::new()),
            work: Mutex::new(Workspace::new()),
            stamps: AtomicU64::new(0),
            engine,
        }
    }

    /// Makes updates that change a key make a new root from now on.
    pub(crate) fn keep_to_same_keys(&mut self) {
        let mut definition = self.table.definition().clone();
        definition.heap_only_updates = HeapOnlyUpdates::SameKeys;
        self.table = Table::open(&self.engine, definition);
    }

    /// Returns the number of the next write.
    pub(crate) fn stamp(&self) -> u64 {
        self.stamps.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn begin(&self, session: usize, isolation: Isolation) -> Transaction {
        let options = BeginOptions { isolation, ..BeginOptions::default() };
        self.engine.transactions().begin(&self.sessions[session], options).unwrap()
    }

    /// Returns a row as this write stores it.
    pub(crate) fn row(&self, id: i32, v: i32, t: &str) -> Vec<Datum> {
        let stamp = self.stamps.load(Ordering::Relaxed) as i32;
        vec![Datum::Int4(id), Datum::Int4(v), Datum::text(t), Datum::Int4(stamp)]
    }

    pub(crate) fn insert(&self, tx: &Transaction, id: i32, v: i32, t: &str) -> Result<()> {
        self.table.insert(tx, &self.row(id, v, t), &mut self.work.lock()).map(drop)
    }

    /// Inserts as [`World::insert`] does, with memory of its own: it may wait.
    pub(crate) fn insert_with(&self, tx: &Transaction, id: i32, v: i32, t: &str) -> Result<()> {
        self.table.insert(tx, &self.row(id, v, t), &mut Workspace::new()).map(drop)
    }

    /// Prunes every page.
    pub(crate) fn prune(&self) {
        let horizon = self.engine.transactions().horizon();
        for block in 0..self.table.blocks().unwrap() {
            let mut roots = VacuumRoots::default();
            let oldest = niwaki_storage::Xid::INVALID;
            self.table.heap().vacuum_page(block, &horizon, oldest, true, &mut roots).unwrap();
        }
    }

    pub(crate) fn update(
        &self,
        tx: &Transaction,
        snapshot: &Snapshot,
        target: RowTarget,
        old: &[Datum],
        new: (i32, i32, &str),
    ) -> Result<UpdateOutcome> {
        let new = self.row(new.0, new.1, new.2);
        self.table.update(tx, snapshot, target, old, &new, &mut self.work.lock())
    }

    /// Finds the row with this id, by the unique index.
    pub(crate) fn find(
        &self,
        tx: &Transaction,
        snapshot: &Snapshot,
        id: i32,
    ) -> Option<(RowTarget, Vec<Datum>)> {
        let mut key = Vec::new();
        self.table.encode_index_key(0, &self.row(id, 0, ""), &mut key).unwrap();
        let mut out = vec![Datum::Null; 4];
        let mut lookup = Lookup::default();
        let all = ColumnMask::all(4);
        self.table
            .fetch_unique(tx, snapshot, 0, &key, &all, &mut out, &mut lookup)
            .unwrap()
            .map(|root| (RowTarget::visible(root), out))
    }

    pub(crate) fn values(&self, row: &VersionRow) -> (i32, i32, usize) {
        let mut out = vec![Datum::Null; 4];
        let all = ColumnMask::all(4);
        self.table.deform_parts(row.natts, row.has_nulls, &row.bytes, &all, &mut out).unwrap();
        let (id, (v, len, _)) = fields(&out);
        (id, v, len)
    }

    /// Returns all rows by a sequential scan. Both indexes must agree with it, in both directions.
    pub(crate) fn rows(&self, tx: &Transaction, snapshot: &Snapshot) -> Rows {
        let all = ColumnMask::all(4);
        let mut out = vec![Datum::Null; 4];
        let mut found = Vec::new();
        let mut scan = self.table.seq_scan(0..self.table.blocks().unwrap());
        let mut page = PageRows::new();
        while scan.next_page(&self.table, tx, snapshot, &mut page).unwrap() {
            for stored in page.iter() {
                self.table.deform(stored, &all, &mut out).unwrap();
                found.push((fields(&out), stored.root));
            }
        }
        found.sort_unstable();
        for index in 0..2 {
            for direction in [Direction::Forward, Direction::Backward] {
                let mut by_index = Vec::new();
                let mut scan = self.table.index_scan(index, &KeyRange::ALL, direction);
                while let Some(root) = scan.next(&self.table, tx, snapshot, &all, &mut out).unwrap()
                {
                    by_index.push((fields(&out), root));
                }
                by_index.sort_unstable();
                assert_eq!(by_index, found, "index {index} {direction:?} against the heap");
            }
        }
        let count = found.len();
        let rows: Rows = found.into_iter().map(|(row, _)| row).collect();
        assert_eq!(rows.len(), count, "an id comes twice");
        rows
    }

    pub(crate) fn vacuum(&self, session: usize, freeze: bool) -> VacuumSummary {
        let freeze_min_age = if freeze { 0 } else { u64::MAX };
        // A freezing vacuum counts all remaining versions.
        let skip_pages = !freeze;
        let options = VacuumOptions {
            freeze_min_age,
            skip_pages,
            memory_bytes: 150,
            ..VacuumOptions::default()
        };
        let summary = self.vacuum_with(session, &options);
        self.check();
        summary
    }

    /// Runs a vacuum that may cut the heap. Other sessions here hold no lock on the table. Between
    /// two of their calls, only their snapshots depend on it.
    pub(crate) fn vacuum_with(&self, session: usize, options: &VacuumOptions) -> VacuumSummary {
        let tx = self.begin(session, Isolation::ReadCommitted);
        let (id, mode) = (TableId(1), TableLockMode::ShareUpdateExclusive);
        let locks = self.engine.transactions().locks();
        assert!(locks.acquire_table(&tx, id, mode, WaitPolicy::Block).unwrap());
        let locked = Some(LockedTable { transaction: &tx, id });
        let summary = vacuum(&self.table, &self.sessions[session], locked, options).unwrap();
        tx.commit(Durability::Flush).unwrap();
        summary
    }

    pub(crate) fn checkpoint(&self) {
        let transactions: &dyn CheckpointParticipant = &**self.engine.transactions();
        let storage = self.engine.storage();
        storage.checkpoint(CheckpointKind::Requested, &[transactions]).unwrap();
    }

    pub(crate) fn check(&self) {
        let report = self.table.check().unwrap();
        assert!(report.corruptions.is_empty(), "{:#?}", report.corruptions);
    }

    /// Opens a copy of the files as a killed process leaves them. Redo makes the same pages, and
    /// the committed rows exist.
    pub(crate) fn compare_with_redo(&self, committed: &Rows) {
        if !self.table.definition().file.logged {
            return;
        }
        self.engine.storage().wal().flush(self.engine.storage().wal().insert_lsn()).unwrap();
        let copy = Arc::new(self.vfs.fork());
        let engine = open_on(&copy);
        let mask = |page: &mut Page| {
            niwaki_heap::mask_hints(page);
            mask_index(page);
        };
        let differences = redo_equals_do(self.engine.storage(), engine.storage(), &mask).unwrap();
        // States of transactions are written by checkpoints, not by redo.
        let differences: Vec<_> = differences.into_iter().filter(|d| d.id.file.0 >= 16).collect();
        assert!(differences.is_empty(), "{differences:?}");
        let world = World::reopened(engine, self.table.definition());
        world.check();
        let tx = world.begin(0, Isolation::ReadCommitted);
        let snapshot = tx.snapshot().unwrap();
        assert_eq!(&world.rows(&tx, &snapshot), committed, "after a crash");
        drop(snapshot);
        drop(tx);
    }
}

/// Masks the marks of dead entries, which are hints.
fn mask_index(page: &mut Page) {
    if page.kind() != PageKind::Nbtree {
        return;
    }
    for offset in 1..=page.item_count() {
        let number = OffsetNumber(offset);
        let id = page.item_id(number);
        if id.state() == ItemState::Dead && !id.is_empty() {
            page.set_item_id(number, id.with_state(ItemState::Normal));
        }
    }
}

fn fields(row: &[Datum]) -> (i32, (i32, usize, u64)) {
    match row {
        [Datum::Int4(id), Datum::Int4(v), Datum::Text(t), Datum::Int4(stamp)] => {
            (*id, (*v, t.len(), *stamp as u64))
        }
        other => panic!("{other:?}"),
    }
}

/// Makes a world for tests with threads.
pub(crate) fn open_world(sessions: usize) -> World {
    World::new(sessions, true, true)
}
