//! The engine: state that all tables of one database share.
//!
//! It holds storage, transactions, and the in-memory state of each relation, found by the number of
//! its files.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use niwaki_env::hash::HashMap;
use niwaki_env::sync::Mutex;
use niwaki_env::sync::plain_atomic::{AtomicU64, Ordering};
use niwaki_heap::{ChangedTables, HeapRedo, HeapRegistry, HeapRelation, MapOptions};
use niwaki_nbtree::{Index, IndexOptions, NbtreeManager};
use niwaki_storage::record::ResourceManager;
use niwaki_storage::{RelFile, RelFileId, Storage};
use niwaki_txn::{TableId, Transaction, TransactionManager};

use crate::error::Result;
use crate::relation::count::count;
use crate::relation::definition::{IndexDefinition, TableDefinition};
use crate::relation::expired_prefix::ExpiredPrefixes;
use crate::relation::sequence_state::{SequenceManager, SequenceState, settle};
use crate::relation::stats::Counters;
use crate::relation::suspects::Suspects;
use crate::sorting::temp_files::{TempFiles, TempQuota, TempSpace};

/// State that all openers of an index share.
#[derive(Clone, Debug)]
pub(crate) struct OpenIndex {
    pub(crate) table: TableId,
    pub(crate) handle: Arc<Index>,
    pub(crate) suspects: Arc<Suspects>,
    pub(crate) expired: Arc<ExpiredPrefixes>,
}

/// A duration that may change.
#[derive(Debug, Default)]
pub(crate) struct DelayCell(AtomicU64);

impl DelayCell {
    /// Sets the duration, in microseconds: 584,000 years at most.
    pub(crate) fn set(&self, delay: Duration) {
        // Relaxed, here and below: a reader that sees the old duration uses that one.
        self.0.store(u64::try_from(delay.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }
}

/// The number of tables, indexes or sequences known before the first search for gone ones.
const KNOWN_MIN: usize = 64;

// With 0, the first table would find no room after the search.
const _: () = assert!(KNOWN_MIN > 0);

/// Indexes that are open, or were.
#[derive(Debug, Default)]
struct OpenIndexes {
    files: HashMap<RelFileId, OpenIndex>,
    /// The number of indexes at which the next search for gone ones comes.
    full: usize,
}

/// Sequences that are open, or were.
#[derive(Debug, Default)]
struct OpenSequences {
    files: HashMap<RelFileId, Arc<Mutex<SequenceState>>>,
    /// The number of sequences at which the next search for gone ones comes.
    full: usize,
}

/// Counters of all tables.
#[derive(Debug, Default)]
struct AllCounters {
    /// Counters by the table's catalog number. They outlive TRUNCATE: while a table exists, a
    /// session has it open.
    tables: HashMap<TableId, Arc<Counters>>,
    /// Sums of the gone tables of each database, with the number of one of these tables. The key is
    /// the database: the upper half of a table's number.
    gone: HashMap<u64, (TableId, [u64; 5])>,
    /// The number of tables at which the next search for gone ones comes.
    full: usize,
}

impl AllCounters {
    fn of(&mut self, table: TableId, changed: &Arc<ChangedTables>) -> Arc<Counters> {
        if let Some(known) = self.tables.get(&table) {
            return Arc::clone(known);
        }
        if self.tables.len() >= self.full {
            self.sum_up();
            // Doubled: each new table then pays for a look at two others.
            self.full = (2 * self.tables.len()).max(KNOWN_MIN);
        }
        debug_assert!(self.tables.len() < self.full, "the next search for gone tables is due");
        let counters = Arc::new(Counters::new(table, changed));
        self.tables.insert(table, Arc::clone(&counters));
        counters
    }

    /// Drops the counters of tables that no session has open, which are gone, and keeps their sums.
    /// A session may make temporary tables without end.
    fn sum_up(&mut self) {
        let Self { tables, gone, .. } = self;
        tables.retain(|table, counters| {
            let is_open = Arc::strong_count(counters) > 1;
            if !is_open {
                let (_, sum) = gone.entry(table.0 >> 32).or_insert((*table, [0; 5]));
                add(sum, rows_in(counters));
            }
            is_open
        });
    }
}

/// Returns the rows returned by scans, fetched for index scans, inserted, updated, deleted.
fn rows_in(counters: &Counters) -> [u64; 5] {
    let stats = counters.read();
    let returned = stats.seq_rows + stats.gone_entries_read;
    [returned, stats.index_rows, stats.inserted, stats.updates.total(), stats.deleted]
}

fn add(sums: &mut [u64; 5], more: [u64; 5]) {
    for (sum, more) in sums.iter_mut().zip(more) {
        *sum += more;
    }
}

/// The shared state of all tables of one database; one per database.
pub struct Engine {
    storage: Arc<Storage>,
    transactions: Arc<TransactionManager>,
    heaps: HeapRegistry,
    indexes: Mutex<OpenIndexes>,
    sequences: Mutex<OpenSequences>,
    counters: Mutex<AllCounters>,
    changed: Arc<ChangedTables>,
    pub(crate) version_split_delay: DelayCell,
    temp_files: Arc<TempFiles>,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("storage", &self.storage).finish_non_exhaustive()
    }
}

impl Engine {
    /// Makes the engine of an open data directory. Recovery is complete.
    pub fn new(storage: Arc<Storage>, transactions: Arc<TransactionManager>) -> Arc<Self> {
        Self::with_maps(storage, transactions, MapOptions::default())
    }

    /// Makes an engine as [`Engine::new`] does, with options for visibility maps.
    pub fn with_maps(
        storage: Arc<Storage>,
        transactions: Arc<TransactionManager>,
        maps: MapOptions,
    ) -> Arc<Self> {
        let temp_files = Arc::new(TempFiles::new(storage.write_gate().clone()));
        Arc::new(Self {
            storage,
            transactions,
            heaps: HeapRegistry::with_maps(maps),
            indexes: Mutex::default(),
            sequences: Mutex::default(),
            counters: Mutex::default(),
            changed: Arc::default(),
            version_split_delay: DelayCell::default(),
            temp_files,
        })
    }

    /// Returns the resource managers that [`Storage::open`] needs for recovery, besides the
    /// transaction manager.
    pub fn resource_managers() -> Vec<Arc<dyn ResourceManager>> {
        vec![HeapRedo::new(), Arc::new(NbtreeManager), Arc::new(SequenceManager)]
    }

    /// Returns the storage: pages, buffers, log.
    #[inline]
    pub fn storage(&self) -> &Arc<Storage> {
        &self.storage
    }

    /// Returns the transaction manager: transactions and locks.
    #[inline]
    pub fn transactions(&self) -> &Arc<TransactionManager> {
        &self.transactions
    }

    /// Creates empty files for a heap, an index or a sequence. They are removed if `tx` rolls back.
    ///
    /// # Errors
    /// Storage's errors; an error if `tx` is read-only.
    pub fn create_file(&self, tx: &Transaction, logged: bool) -> Result<RelFile> {
        let file = RelFile { id: self.storage.allocate_file(), logged };
        let xid = tx.write_xid()?;
        // Registered before the file exists: if its creation fails half-way, the abort cleans up.
        tx.drop_file_at_abort(file);
        self.storage.create_file(file, xid)?;
        Ok(file)
    }

    /// Removes these files when `tx` commits, for TRUNCATE and DROP.
    pub fn drop_at_commit(&self, tx: &Transaction, file: RelFile) {
        tx.drop_file_at_commit(file);
    }

    /// Removes temporary files that a crash left behind. Called once, before other work begins.
    ///
    /// # Errors
    /// Storage's.
    pub fn remove_temporary_files(&self) -> Result<()> {
        Ok(TempFiles::remove_all(self.storage.env())?)
    }

    /// Closes temporary files whose handles outlive the database, as cursors of idle sessions do.
    pub fn close_temporary_files(&self) {
        self.temp_files.close_all();
    }

    /// Returns the bytes written to temporary files since the database was opened.
    pub fn temporary_bytes(&self) -> u64 {
        self.temp_files.bytes_written()
    }

    /// Returns the number of temporary files made since the database was opened.
    pub fn temporary_files(&self) -> u64 {
        self.temp_files.made()
    }

    /// Returns the place where a session's statements put data that memory has no room for. `quota`
    /// counts the files.
    pub fn temporary_space(&self, quota: Arc<TempQuota>) -> TempSpace {
        let env = self.storage.env().clone();
        TempSpace::new(env, Arc::clone(&self.temp_files), quota, "query")
    }

    /// Returns the place where index builds put their runs.
    pub(crate) fn sort_space(&self) -> TempSpace {
        let env = self.storage.env().clone();
        TempSpace::new(env, Arc::clone(&self.temp_files), Arc::default(), "sort")
    }

    /// Forgets the in-memory state of files that are gone.
    pub fn forget(&self, file: RelFileId) {
        let mut indexes = self.indexes.lock();
        if let Some(index) = indexes.files.remove(&file) {
            self.count_gone(&index);
        }
        drop(indexes);
        self.sequences.lock().files.remove(&file);
    }

    /// Forgets the counters of tables whose database was dropped. `gone` chooses the tables.
    pub fn forget_tables(&self, gone: impl Fn(TableId) -> bool) {
        // Includes indexes that were rolled back: forgotten later, they would count for their
        // tables.
        let mut indexes = self.indexes.lock();
        indexes.files.retain(|_, index| !gone(index.table));
        drop(indexes);
        let mut counters = self.counters.lock();
        counters.tables.retain(|table, _| !gone(*table));
        counters.gone.retain(|_, (table, _)| !gone(*table));
    }

    /// Adds the entries read from a gone index to the counters of its table.
    fn count_gone(&self, index: &OpenIndex) {
        let read = index.handle.stats().entries_read;
        count(&self.counters(index.table).gone_entries_read, read);
    }

    /// Applies new settings of an index after their commit. Does nothing for an index that was
    /// never opened.
    pub fn set_index_options(&self, file: RelFileId, options: IndexOptions) {
        if let Some(index) = self.indexes.lock().files.get(&file) {
            index.handle.set_options(options);
        }
    }

    pub(crate) fn heap(&self, definition: &TableDefinition) -> HeapRelation {
        self.heaps.open(definition.file, definition.fillfactor)
    }

    /// Returns the heap of a table's large values.
    pub(crate) fn value_heap(&self, definition: &TableDefinition) -> Option<HeapRelation> {
        definition.values.map(|file| self.heaps.open_pieces(file))
    }

    /// Returns an index of a table.
    pub(crate) fn index(&self, table: TableId, definition: &IndexDefinition) -> OpenIndex {
        let mut indexes = self.indexes.lock();
        let OpenIndexes { files, full } = &mut *indexes;
        if files.len() >= *full && !files.contains_key(&definition.file.id) {
            // While an index exists, its table is open, and so is the index. No `forget` call comes
            // for indexes of transactions that were rolled back.
            files.retain(|_, index| {
                let is_open = Arc::strong_count(&index.handle) > 1;
                if !is_open {
                    self.count_gone(index);
                }
                is_open
            });
            *full = (2 * files.len()).max(KNOWN_MIN);
        }
        debug_assert!(files.len() < *full || files.contains_key(&definition.file.id));
        let index = files.entry(definition.file.id).or_insert_with(|| {
            let (storage, file) = (Arc::clone(&self.storage), definition.file);
            let index = Index::new(storage, file, &definition.name, definition.options);
            let handle = Arc::new(if definition.equal_is_image() {
                index
            } else {
                index.without_posting_lists()
            });
            OpenIndex { table, handle, suspects: Arc::default(), expired: Arc::default() }
        });
        index.clone()
    }

    pub(crate) fn sequence(&self, file: RelFileId) -> Arc<Mutex<SequenceState>> {
        let mut sequences = self.sequences.lock();
        let OpenSequences { files, full } = &mut *sequences;
        if files.len() >= *full && !files.contains_key(&file) {
            // While a sequence exists, the catalog has it open. No `forget` call comes for
            // sequences of transactions that were rolled back.
            files.retain(|_, state| Arc::strong_count(state) > 1);
            *full = (2 * files.len()).max(KNOWN_MIN);
        }
        debug_assert!(files.len() < *full || files.contains_key(&file));
        Arc::clone(files.entry(file).or_default())
    }

    pub(crate) fn counters(&self, table: TableId) -> Arc<Counters> {
        self.counters.lock().of(table, &self.changed)
    }

    /// Returns the row counts of tables since the database was opened: rows returned by scans,
    /// fetched for index scans, inserted, updated, deleted. `mine` chooses the tables. Tables that
    /// were dropped, or made by a transaction that was rolled back, count too.
    pub fn rows_counted(&self, mine: impl Fn(TableId) -> bool) -> [u64; 5] {
        let mut rows = [0; 5];
        // Held throughout: reads from a file that goes meanwhile count once.
        let indexes = self.indexes.lock();
        for index in indexes.files.values().filter(|index| mine(index.table)) {
            add(&mut rows, [index.handle.stats().entries_read, 0, 0, 0, 0]);
        }
        let counters = self.counters.lock();
        for (_, counters) in counters.tables.iter().filter(|(table, _)| mine(**table)) {
            add(&mut rows, rows_in(counters));
        }
        for (_, gone) in counters.gone.values().filter(|(table, _)| mine(*table)) {
            add(&mut rows, *gone);
        }
        rows
    }

    /// Returns the numbers of the tables changed since the last call.
    pub fn take_changed_tables(&self) -> Vec<TableId> {
        self.changed.take()
    }

    /// Writes state that a clean stop must keep. This is the current value of each used sequence,
    /// so that there is no gap, and the free space of heaps.
    ///
    /// # Errors
    /// Storage's. The stop must then not be a clean one. Sequences go on behind the values that
    /// were logged ahead.
    pub fn settle(&self) -> Result<()> {
        self.heaps.save_free_space(&self.storage, &self.transactions);
        let sequences: Vec<_> = self.sequences.lock().files.values().cloned().collect();
        for state in sequences {
            settle(&self.storage, &mut state.lock())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use niwaki_env::Env;
    use niwaki_storage::StorageOptions;
    use niwaki_txn::TxnOptions;
    use niwaki_types::{ColumnType, KeyOrder, TypeOid};

    use super::*;
    use crate::relation::definition::{HeapOnlyUpdates, KeyColumn};
    use crate::relation::sequence::{Sequence, SequenceOptions};
    use crate::relation::table::Table;

    fn engine() -> Arc<Engine> {
        let env = Env::memory();
        let manager = TransactionManager::new(env.clone(), TxnOptions::default());
        let mut managers = Engine::resource_managers();
        managers.push(Arc::clone(&manager) as _);
        let (storage, _) = Storage::open(env, StorageOptions::tiny(), managers).unwrap();
        manager.attach(&storage).unwrap();
        Engine::new(storage, manager)
    }

    /// Regression test: sequences of rolled back transactions were kept for ever.
    #[test]
    fn sequences_that_are_gone_are_forgotten() {
        let engine = engine();
        let open = |number: u64| {
            let file = RelFile { id: RelFileId(number), logged: true };
            Sequence::open(&engine, file, SequenceOptions::default())
        };
        let kept = open(1_000);
        let state = Arc::downgrade(&engine.sequence(RelFileId(1_000)));
        (1_001..2_001).for_each(|number| drop(open(number)));
        assert!(engine.sequences.lock().files.len() <= KNOWN_MIN);
        // A sequence that is open keeps its state.
        let now = engine.sequence(RelFileId(1_000));
        assert!(state.upgrade().is_some_and(|before| Arc::ptr_eq(&before, &now)));
        drop(kept);
    }

    /// Regression test: counters of temporary tables, and indexes of rolled back ones, were kept
    /// for ever.
    #[test]
    fn of_tables_that_are_gone_sums_are_left() {
        let engine = engine();
        let open = |number: u64| {
            let file =
                |part: u64| RelFile { id: RelFileId(1_000 + 2 * number + part), logged: true };
            let key = vec![KeyColumn::column(0, KeyOrder::ascending(TypeOid::INT4))];
            let index = IndexDefinition::new(TableId((1 << 20) | number), "i", file(1), key);
            let definition = TableDefinition {
                id: TableId(number),
                name: "t".to_owned(),
                file: file(0),
                values: None,
                fillfactor: 100,
                heap_only_updates: HeapOnlyUpdates::AnyKey,
                columns: vec![ColumnType::new(TypeOid::INT4)],
                missing: Vec::new(),
                indexes: vec![index],
            };
            Table::open(&engine, definition)
        };
        let mine = |table: TableId| table.0 < 1 << 32;
        let kept = open(7);
        count(&kept.counters.inserted, 1);
        let other = open(5 << 32);
        count(&other.counters.inserted, 1);
        drop(other);
        for number in 100..1_100 {
            let table = open(number);
            count(&table.counters.inserted, 1);
            count(&table.counters.gone_entries_read, 2);
            count(&table.counters.deleted, 3);
            drop(table);
            if number % 2 == 0 {
                engine.forget(RelFileId(1_000 + 2 * number + 1));
            }
        }
        assert_eq!(engine.rows_counted(mine), [2_000, 0, 1_001, 0, 3_000]);
        assert_eq!(engine.rows_counted(|table| !mine(table)), [0, 0, 1, 0, 0]);
        assert!(engine.counters.lock().tables.len() <= KNOWN_MIN);
        assert!(engine.indexes.lock().files.len() <= KNOWN_MIN);
        // An existing table keeps its own counters and its own index.
        assert!(Arc::ptr_eq(&open(7).counters, &kept.counters));
        assert!(Arc::ptr_eq(&open(7).indexes[0].handle, &kept.indexes[0].handle));
        // A dropped database leaves nothing, and nothing comes back with one of its indexes.
        drop(open(5 << 32));
        engine.forget_tables(|table| !mine(table));
        (2_000..3_000).for_each(|number| drop(open(number)));
        let counters = engine.counters.lock();
        assert!(counters.gone.contains_key(&0) && !counters.gone.contains_key(&5));
        assert!(counters.tables.keys().all(|table| mine(*table)));
    }
}
