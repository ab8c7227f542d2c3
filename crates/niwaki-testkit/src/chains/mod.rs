//! Chains with several keys against a multi-version model.
//!
//! One thread runs random schemas and transactions. Old readers, pruning, vacuum and index builds
//! come at any moment. Every access path is compared with the model (`paths`).
//!
//! Other sessions leave alone the ids and unique values that an open transaction has touched, so
//! nothing waits.

mod paths;
mod schema;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use niwaki_env::Env;
use niwaki_env::rng::SeededRng;
use niwaki_env::vfs::{MemoryVfs, Vfs};
use niwaki_heap::{ItemKind, VacuumRoots};
use niwaki_nbtree::IndexStats;
use niwaki_storage::compare::redo_equals_do;
use niwaki_storage::page::{ItemState, Page, PageKind};
use niwaki_storage::{CheckpointKind, OffsetNumber, Storage, StorageOptions, Xid};
use niwaki_table::{
    BuildOptions, DeferredKey, Engine, Error, HeapOnlyUpdates, Lookup, RowTarget, Table,
    TableDefinition, TableStats, UniqueCheckTime, UpdateOutcome, Workspace,
};
use niwaki_txn::{
    BeginOptions, Durability, Isolation, SessionControl, Snapshot, TableId, TableLockMode,
    Transaction, TransactionManager, TxnOptions, WaitPolicy,
};
use niwaki_types::{ColumnMask, Datum};
use niwaki_vacuum::{LockedTable, VacuumOptions, VacuumSummary, vacuum};

use paths::{Paths, Rows};
use schema::{COLUMNS, Row};

/// Number of ids of rows.
const IDS: i32 = 7;
/// Sessions with open transactions. Behind them come one that works while others wait, and the
/// readers.
const SESSIONS: usize = 3;
const HELPER: usize = SESSIONS;
const READERS: usize = 2;

/// Parameters of one run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Determines schema and statements.
    pub seed: u64,
    /// Number of statements and other events.
    pub steps: usize,
    /// The table's setting.
    pub heap_only: HeapOnlyUpdates,
    /// Sets `mixed` on every root after every step, whether the root has several keys or not.
    pub all_mixed: bool,
}

/// Counts of what a run did, so that a test can require that the run met the cases it is about.
#[derive(Clone, Copy, Debug, Default)]
pub struct Effort {
    /// Counts of the table.
    pub table: TableStats,
    /// Suppressed duplicates, all indexes together.
    pub suppressed: u64,
    /// Entries marked LP_DEAD.
    pub marked: u64,
    /// Roots that were mixed at the end.
    pub mixed: u64,
}

/// A savepoint's level, or the transaction itself.
#[derive(Default)]
struct Layer {
    writes: BTreeMap<i32, Option<Row>>,
    /// Values of u, old and new, of rows that the transaction wrote.
    values: BTreeSet<i32>,
    deferred: Vec<DeferredKey>,
}

struct Open {
    tx: Transaction,
    layers: Vec<Layer>,
}

/// Progress of a concurrent index build.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Build {
    None,
    Defined,
    /// Built and ready. The flag says whether every transaction that did not know that has ended.
    Ready(bool),
}

struct Run {
    plan: Plan,
    vfs: Arc<MemoryVfs>,
    engine: Arc<Engine>,
    table: Arc<Table>,
    controls: Vec<Arc<SessionControl>>,
    rng: SeededRng,
    work: Workspace,
    stamp: i32,
    committed: Rows,
    open: Vec<Option<Open>>,
    readers: Vec<Option<(Transaction, Snapshot, Rows)>>,
    build: Build,
}

fn engine(vfs: Arc<dyn Vfs>, seed: u64) -> Arc<Engine> {
    let env = Env::simulated(vfs, seed);
    let manager = TransactionManager::new(env.clone(), TxnOptions::default());
    let mut managers = Engine::resource_managers();
    managers.push(Arc::clone(&manager) as _);
    let options = StorageOptions { shared_buffers: 96, ..StorageOptions::tiny() };
    let (storage, _) = Storage::open(env, options, managers).expect("the storage opens");
    manager.attach(&storage).expect("the states are there");
    Engine::new(storage, manager)
}

fn begin(engine: &Engine, control: &Arc<SessionControl>, isolation: Isolation) -> Transaction {
    let options = BeginOptions { isolation, ..BeginOptions::default() };
    engine.transactions().begin(control, options).expect("a transaction")
}

impl Open {
    fn view(&self, committed: &Rows) -> Rows {
        let mut rows = committed.clone();
        for (id, row) in self.layers.iter().flat_map(|layer| &layer.writes) {
            match row {
                Some(row) => rows.insert(*id, row.clone()),
                None => rows.remove(id),
            };
        }
        rows
    }

    fn layer(&mut self) -> &mut Layer {
        self.layers.last_mut().expect("a level")
    }
}

impl Run {
    fn new(plan: Plan) -> Self {
        let rng = SeededRng::new(plan.seed);
        let vfs = Arc::new(MemoryVfs::new());
        let engine = engine(Arc::clone(&vfs) as _, plan.seed);
        let controls: Vec<_> = (0..SESSIONS + 1 + READERS)
            .map(|_| engine.transactions().register_session().expect("a session"))
            .collect();
        let tx = begin(&engine, &controls[HELPER], Isolation::ReadCommitted);
        let file = || engine.create_file(&tx, true).expect("a file");
        let mut indexes = vec![schema::primary(file())];
        if rng.chance(1, 2) {
            indexes.push(schema::unique(&rng, 3, file()));
        }
        for id in 0..=rng.below(3) {
            indexes.push(schema::random(&rng, 10 + id, file()));
        }
        let definition = TableDefinition {
            id: TableId(1),
            name: "t".to_owned(),
            file: file(),
            values: Some(file()),
            fillfactor: 100,
            heap_only_updates: plan.heap_only,
            columns: schema::column_types(),
            missing: Vec::new(),
            indexes,
        };
        tx.commit(Durability::Flush).expect("a commit");
        let table = Table::open(&engine, definition);
        Self {
            plan,
            vfs,
            engine,
            table,
            controls,
            rng,
            work: Workspace::new(),
            stamp: 0,
            committed: Rows::new(),
            open: (0..SESSIONS).map(|_| None).collect(),
            readers: (0..READERS).map(|_| None).collect(),
            build: Build::None,
        }
    }

    fn step(&mut self) {
        let session = self.rng.below(SESSIONS as u64) as usize;
        match self.rng.below(24) {
            0..=2 => self.end(session),
            3 => self.savepoint(session),
            4 => self.roll_back(session),
            5 => self.reader(),
            6 => self.vacuum(),
            7 => self.prune(),
            8 => self.build(),
            9..=11 => self.insert(session),
            12 => self.delete(session),
            _ => self.update(session),
        }
        if self.plan.all_mixed {
            self.mix_all();
        }
        if self.rng.chance(1, 3) {
            self.verify();
        }
        if self.rng.chance(1, 40) {
            let storage = self.engine.storage();
            let transactions = self.engine.transactions();
            storage
                .checkpoint(CheckpointKind::Requested, &[&**transactions])
                .expect("a checkpoint");
        }
        if self.rng.chance(1, 60) {
            self.crash_on_a_copy();
        }
    }

    /// Opens a session's transaction if it has none.
    fn open(&mut self, session: usize) {
        if self.open[session].is_none() {
            let tx = begin(&self.engine, &self.controls[session], Isolation::ReadCommitted);
            self.open[session] = Some(Open { tx, layers: vec![Layer::default()] });
        }
    }

    fn view(&self, session: usize) -> Rows {
        self.open[session].as_ref().expect("begun").view(&self.committed)
    }

    /// Decides whether a row with this id and these values of u can be written without waiting.
    fn is_free(&self, session: usize, ids: &[i32], values: &[i32]) -> bool {
        let others = self.open.iter().enumerate().filter(|(other, _)| *other != session);
        let mut layers = others.filter_map(|(_, open)| open.as_ref()).flat_map(|o| &o.layers);
        layers.all(|layer| {
            ids.iter().all(|id| !layer.writes.contains_key(id))
                && values.iter().all(|value| !layer.values.contains(value))
        })
    }

    /// Decides whether a unique index that checks at once refuses this row, in place of row `old`.
    fn clashes(&self, view: &Rows, old: Option<i32>, new: &Row) -> bool {
        let others = || view.values().filter(|row| Some(row.id) != old);
        let with_key = |row: &Row| {
            self.unique_key(row, UniqueCheckTime::AtOnce)
                .is_some_and(|key| self.unique_key(new, UniqueCheckTime::AtOnce) == Some(key))
        };
        others().any(|row| row.id == new.id || with_key(row))
    }

    /// Returns the row's key in a unique index on u. None without such an index, or if the index
    /// leaves the row out.
    fn unique_key(&self, row: &Row, time: UniqueCheckTime) -> Option<Vec<u8>> {
        let indexes = &self.table.definition().indexes;
        let index = indexes.iter().position(|i| i.unique && !i.primary && i.check_time == time)?;
        let mut key = Vec::new();
        let has = self.table.encode_index_key(index, &row.datums(), &mut key).expect("a key");
        has.then_some(key)
    }

    /// Runs a statement that a unique index may refuse, and compares whether it did.
    fn statement(
        &mut self,
        session: usize,
        clash: bool,
        write: impl FnOnce(&Table, &Transaction, &mut Workspace) -> niwaki_table::Result<()>,
    ) -> bool {
        let Self { open, table, work, .. } = self;
        let open = open[session].as_mut().expect("begun");
        open.tx.savepoint("statement");
        let result = write(table, &open.tx, work);
        if result.is_err() {
            open.tx.rollback_to("statement").expect("the savepoint");
        }
        open.tx.release("statement").expect("the savepoint");
        open.tx.next_command().expect("a command");
        let deferred = work.take_deferred();
        match result {
            Ok(()) => {
                assert!(!clash, "a second row with a unique key was let in");
                open.layer().deferred.extend(deferred);
                true
            }
            Err(Error::UniqueViolation(violation)) => {
                assert!(clash, "refused, and nobody has the key: {violation:?}");
                false
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn insert(&mut self, session: usize) {
        self.open(session);
        self.stamp += 1;
        let id = self.rng.below(IDS as u64) as i32;
        let row = Row::random(&self.rng, id, self.stamp);
        if !self.is_free(session, &[id], &[row.u]) {
            return;
        }
        let clash = self.clashes(&self.view(session), None, &row);
        let done = self.statement(session, clash, |table, tx, work| {
            table.insert(tx, &row.datums(), work).map(drop)
        });
        if done {
            let layer = self.open[session].as_mut().expect("begun").layer();
            layer.values.insert(row.u);
            layer.writes.insert(id, Some(row));
        }
    }

    fn update(&mut self, session: usize) {
        self.open(session);
        self.stamp += 1;
        let view = self.view(session);
        let Some((id, old)) = self.pick(&view) else { return };
        let mut new = Row { stamp: self.stamp, ..old.clone() };
        // Mostly changes one column, and sometimes gives the same value.
        for _ in 0..=self.rng.below(2) {
            new.change_any(&self.rng);
        }
        if self.rng.chance(1, 10) {
            new.id = self.rng.below(IDS as u64) as i32;
        }
        if !self.is_free(session, &[id, new.id], &[old.u, new.u]) {
            return;
        }
        let clash = self.clashes(&view, Some(id), &new);
        let done = self.statement(session, clash, |table, tx, work| {
            let snapshot = tx.snapshot_for_write()?;
            let target = find(table, tx, &snapshot, &old);
            let done = table.update(tx, &snapshot, target, &old.datums(), &new.datums(), work)?;
            assert!(matches!(done, UpdateOutcome::Done { .. }), "{done:?}: nobody was in the way");
            Ok(())
        });
        if done {
            let layer = self.open[session].as_mut().expect("begun").layer();
            layer.values.extend([old.u, new.u]);
            layer.writes.insert(id, None);
            layer.writes.insert(new.id, Some(new));
        }
    }

    fn delete(&mut self, session: usize) {
        self.open(session);
        let view = self.view(session);
        let Some((id, old)) = self.pick(&view) else { return };
        if !self.is_free(session, &[id], &[old.u]) {
            return;
        }
        self.statement(session, false, |table, tx, _| {
            let snapshot = tx.snapshot_for_write()?;
            let done = table.delete(tx, &snapshot, find(table, tx, &snapshot, &old))?;
            assert!(matches!(done, UpdateOutcome::Done { .. }), "{done:?}: nobody was in the way");
            Ok(())
        });
        let layer = self.open[session].as_mut().expect("begun").layer();
        layer.values.insert(old.u);
        layer.writes.insert(id, None);
    }

    fn pick(&self, view: &Rows) -> Option<(i32, Row)> {
        let at = self.rng.below(view.len().max(1) as u64) as usize;
        view.iter().nth(at).map(|(id, row)| (*id, row.clone()))
    }

    fn savepoint(&mut self, session: usize) {
        self.open(session);
        let open = self.open[session].as_mut().expect("begun");
        if open.layers.len() < 4 {
            open.tx.savepoint(&format!("s{}", open.layers.len()));
            open.layers.push(Layer::default());
        }
    }

    fn roll_back(&mut self, session: usize) {
        let Some(open) = &mut self.open[session] else { return };
        let depth = open.layers.len() - 1;
        if depth == 0 {
            return;
        }
        open.tx.rollback_to(&format!("s{depth}")).expect("the savepoint");
        open.tx.release(&format!("s{depth}")).expect("the savepoint");
        open.tx.next_command().expect("a command");
        open.layers.pop();
    }

    fn end(&mut self, session: usize) {
        let Some(open) = self.open[session].take() else { return };
        if self.rng.chance(1, 4) {
            return open.tx.abort();
        }
        let view = open.view(&self.committed);
        let mut keys = BTreeSet::new();
        let twice = view
            .values()
            .filter_map(|row| self.unique_key(row, UniqueCheckTime::Later))
            .any(|key| !keys.insert(key));
        let mut refused = false;
        for noted in open.layers.iter().flat_map(|layer| &layer.deferred) {
            match self.table.check_deferred(&open.tx, noted) {
                Ok(()) => {}
                Err(Error::UniqueViolation(_)) => refused = true,
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(refused, twice, "a deferred unique key");
        if refused {
            return open.tx.abort();
        }
        open.tx.commit(Durability::Flush).expect("a commit");
        self.committed = view;
    }

    /// Takes an old snapshot, or gives one back.
    fn reader(&mut self) {
        let at = self.rng.below(READERS as u64) as usize;
        if let Some((tx, snapshot, rows)) = self.readers[at].take() {
            self.compare(&tx, &snapshot, &rows);
            drop(snapshot);
            return drop(tx);
        }
        let control = &self.controls[HELPER + 1 + at];
        let tx = begin(&self.engine, control, Isolation::RepeatableRead);
        let snapshot = tx.snapshot().expect("a snapshot");
        self.readers[at] = Some((tx, snapshot, self.committed.clone()));
    }

    fn vacuum(&mut self) {
        if self.build != Build::None {
            return;
        }
        let freeze_min_age = if self.rng.chance(1, 3) { 0 } else { u64::MAX };
        let options =
            VacuumOptions { freeze_min_age, memory_bytes: 150, ..VacuumOptions::default() };
        self.vacuum_with(&options);
    }

    /// Runs a vacuum that may truncate the heap. No other session holds a lock on the table:
    /// between two steps, a transaction keeps only what its snapshots see.
    fn vacuum_with(&self, options: &VacuumOptions) -> VacuumSummary {
        let control = &self.controls[HELPER];
        let tx = begin(&self.engine, control, Isolation::ReadCommitted);
        let (id, mode) = (TableId(1), TableLockMode::ShareUpdateExclusive);
        let locked = tx.manager().locks().acquire_table(&tx, id, mode, WaitPolicy::Block);
        assert!(locked.expect("a lock"));
        let locked = Some(LockedTable { transaction: &tx, id });
        let summary = vacuum(&self.table, control, locked, options).expect("a vacuum");
        tx.commit(Durability::Flush).expect("a commit");
        summary
    }

    fn prune(&mut self) {
        let horizon = self.engine.transactions().horizon();
        for block in 0..self.table.blocks().expect("blocks") {
            let heap = self.table.heap();
            heap.vacuum_page(block, &horizon, Xid::INVALID, true, &mut VacuumRoots::default())
                .expect("a page");
        }
    }

    /// Takes a concurrent index build a step further, if the transactions that it would wait for
    /// are gone.
    fn build(&mut self) {
        let idle = self.open.iter().all(Option::is_none);
        let mut definition = self.table.definition().clone();
        let last = definition.indexes.len() - 1;
        let tx = begin(&self.engine, &self.controls[HELPER], Isolation::ReadCommitted);
        match self.build {
            Build::None if idle && definition.indexes.len() < 7 => {
                let file = self.engine.create_file(&tx, true).expect("a file");
                let mut index = schema::random(&self.rng, 20 + last as u64, file);
                (index.ready, index.valid) = (false, false);
                definition.indexes.push(index);
                self.build = Build::Defined;
            }
            Build::Defined => {
                let options = BuildOptions::default();
                self.table.build_index(&tx, last, &options).expect("a build");
                definition.indexes[last].ready = true;
                self.build = Build::Ready(idle);
            }
            Build::Ready(quiet) if quiet || idle => {
                let options = BuildOptions::default();
                self.table.validate_index(&tx, last, &options).expect("a validation");
                definition.indexes[last].valid = true;
                self.build = Build::None;
            }
            _ => {}
        }
        tx.commit(Durability::Flush).expect("a commit");
        self.table = Table::open(&self.engine, definition);
    }

    /// Returns the roots of every block.
    fn roots(&self, of: impl Fn(bool) -> bool) -> Vec<(u32, Vec<u16>)> {
        let blocks = 0..self.table.blocks().expect("blocks");
        let roots_of = |block| {
            let mut roots = Vec::new();
            let found = self.table.heap().check_page(
                block,
                &mut Vec::new(),
                |tid, kind| match kind {
                    ItemKind::Root { mixed } if of(mixed) => roots.push(tid.offset.0),
                    _ => {}
                },
                |_| {},
            );
            found.expect("a page");
            (block, roots)
        };
        blocks.map(roots_of).filter(|(_, roots)| !roots.is_empty()).collect()
    }

    fn mix_all(&mut self) {
        let unmixed = self.roots(|mixed| !mixed);
        let tx = begin(&self.engine, &self.controls[HELPER], Isolation::ReadCommitted);
        let xid = tx.write_xid().expect("an id");
        for (block, roots) in unmixed {
            self.table.heap().set_mixed(xid, block, &roots).expect("roots");
        }
        tx.commit(Durability::Flush).expect("a commit");
    }

    fn compare(&self, tx: &Transaction, snapshot: &Snapshot, expected: &Rows) {
        let (table, rng) = (&*self.table, &self.rng);
        Paths { table, tx, snapshot, rng, expected }.compare();
    }

    /// Requires that every snapshot sees what the model says, by every path, and that the
    /// invariants hold.
    fn verify(&self) {
        for open in self.open.iter().flatten() {
            let snapshot = open.tx.snapshot().expect("a snapshot");
            self.compare(&open.tx, &snapshot, &open.view(&self.committed));
        }
        for (tx, snapshot, rows) in self.readers.iter().flatten() {
            self.compare(tx, snapshot, rows);
        }
        check(&self.table);
    }

    /// Opens a copy of the disk as a stop of the machine would leave it now.
    fn crash_on_a_copy(&self) {
        let storage = self.engine.storage();
        storage.wal().flush(storage.wal().insert_lsn()).expect("it can be written");
        let engine = engine(Arc::new(self.vfs.fork()), self.plan.seed);
        let mask = |page: &mut Page| {
            niwaki_heap::mask_hints(page);
            mask_marks(page);
        };
        let mut differences = redo_equals_do(storage, engine.storage(), &mask).expect("pages");
        // States of transactions are written by checkpoints, not by redo.
        differences.retain(|difference| difference.id.file.0 >= 16);
        assert!(differences.is_empty(), "W3: {differences:?}");
        let table = Table::open(&engine, self.table.definition().clone());
        check(&table);
        let control = engine.transactions().register_session().expect("a session");
        let tx = begin(&engine, &control, Isolation::ReadCommitted);
        let snapshot = tx.snapshot().expect("a snapshot");
        let (rng, expected) = (&self.rng, &self.committed);
        Paths { table: &table, tx: &tx, snapshot: &snapshot, rng, expected }.compare();
    }

    fn finish(mut self) -> Effort {
        self.verify();
        (0..SESSIONS).for_each(|session| self.end(session));
        for at in 0..READERS {
            if self.readers[at].is_some() {
                let (tx, snapshot, rows) = self.readers[at].take().expect("some");
                self.compare(&tx, &snapshot, &rows);
            }
        }
        while self.build != Build::None {
            self.build();
        }
        self.crash_on_a_copy();
        let mixed = self.roots(|mixed| mixed).iter().map(|(_, roots)| roots.len() as u64).sum();
        self.vacuum();
        let options =
            VacuumOptions { freeze_min_age: 0, skip_pages: false, ..VacuumOptions::default() };
        let left = self.vacuum_with(&options);
        assert_eq!(left.remaining, self.committed.len() as u64, "G2: versions left");
        let still = self.roots(|mixed| mixed);
        assert!(still.is_empty(), "still mixed: {still:?}");
        self.verify();
        let indexes = 0..self.table.definition().indexes.len();
        let stats: Vec<IndexStats> = indexes.map(|index| self.table.index_stats(index)).collect();
        Effort {
            table: self.table.stats(),
            suppressed: stats.iter().map(|stats| stats.suppressed_duplicates).sum(),
            marked: stats.iter().map(|stats| stats.marked_dead).sum(),
            mixed,
        }
    }
}

/// Returns the row as the model knows it, by its id.
fn find(table: &Table, tx: &Transaction, snapshot: &Snapshot, row: &Row) -> RowTarget {
    let mut key = Vec::new();
    table.encode_index_key(0, &row.datums(), &mut key).expect("a key");
    let mut out = vec![Datum::Null; COLUMNS];
    let (all, mut lookup) = (ColumnMask::all(COLUMNS), Lookup::default());
    let found = table.fetch_unique(tx, snapshot, 0, &key, &all, &mut out, &mut lookup);
    let root = found.expect("a lookup").expect("the model sees it");
    assert_eq!(&Row::of(&out), row);
    RowTarget::visible(root)
}

fn check(table: &Table) {
    let report = table.check().expect("a check");
    assert!(report.corruptions.is_empty(), "{:#?}", report.corruptions);
}

/// Masks marks of dead entries, which are hints.
fn mask_marks(page: &mut Page) {
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

/// Runs one plan; deterministic.
///
/// # Panics
/// When a path gives another answer than the model, or an invariant does not hold.
pub fn run(plan: Plan) -> Effort {
    let mut run = Run::new(plan);
    (0..plan.steps).for_each(|_| run.step());
    run.finish()
}
