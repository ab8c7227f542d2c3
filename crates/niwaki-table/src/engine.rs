//! What all tables of one database share: storage, transactions, and the in-memory state of each
//! relation, found by the number of its files.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use niwaki_env::sync::Mutex;
use niwaki_env::sync::plain_atomic::{AtomicU64, Ordering};
use niwaki_heap::{ChangedTables, HeapRedo, HeapRegistry, HeapRelation, MapOptions};
use niwaki_nbtree::{Index, IndexOptions, NbtreeManager};
use niwaki_storage::record::ResourceManager;
use niwaki_storage::{RelFile, RelFileId, Storage};
use niwaki_txn::{TableId, Transaction, TransactionManager};

use crate::definition::{IndexDefinition, TableDefinition};
use crate::error::Result;
use crate::over::OverLeaves;
use crate::sequence::{SequenceManager, SequenceState};
use crate::stats::{Counters, count};
use crate::suspects::Suspects;
use crate::temp::{TempFiles, TempQuota, TempSpace};

/// What all who open an index share.
#[derive(Clone, Debug)]
pub(crate) struct OpenIndex {
    pub(crate) table: TableId,
    pub(crate) handle: Arc<Index>,
    pub(crate) suspects: Arc<Suspects>,
    pub(crate) over: Arc<OverLeaves>,
}

/// A time that may change.
#[derive(Debug, Default)]
pub(crate) struct DelayCell(AtomicU64);

impl DelayCell {
    /// Microseconds are counted; 584,000 years at most.
    pub(crate) fn set(&self, delay: Duration) {
        // Relaxed, here and below: who sees the old time goes by that.
        self.0.store(u64::try_from(delay.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }
}

/// One per database.
pub struct Engine {
    storage: Arc<Storage>,
    transactions: Arc<TransactionManager>,
    heaps: HeapRegistry,
    indexes: Mutex<HashMap<RelFileId, OpenIndex>>,
    sequences: Mutex<HashMap<RelFileId, Arc<Mutex<SequenceState>>>>,
    /// Counters of tables by their catalog number. They outlive TRUNCATE, and their tables, whose
    /// rows stay in the numbers of the database.
    counters: Mutex<HashMap<TableId, Arc<Counters>>>,
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
    /// The engine of an open data directory, whose recovery is over.
    pub fn new(storage: Arc<Storage>, transactions: Arc<TransactionManager>) -> Arc<Self> {
        Self::with_maps(storage, transactions, MapOptions::default())
    }

    /// As [`Engine::new`], with visibility maps kept so.
    pub fn with_maps(
        storage: Arc<Storage>,
        transactions: Arc<TransactionManager>,
        maps: MapOptions,
    ) -> Arc<Self> {
        Arc::new(Self {
            storage,
            transactions,
            heaps: HeapRegistry::with_maps(maps),
            indexes: Mutex::default(),
            sequences: Mutex::default(),
            counters: Mutex::default(),
            changed: Arc::default(),
            version_split_delay: DelayCell::default(),
            temp_files: Arc::default(),
        })
    }

    /// What [`Storage::open`] needs for recovery, besides the transaction manager.
    pub fn resource_managers() -> Vec<Arc<dyn ResourceManager>> {
        vec![HeapRedo::new(), Arc::new(NbtreeManager), Arc::new(SequenceManager)]
    }

    /// Pages, buffers, log.
    #[inline]
    pub fn storage(&self) -> &Arc<Storage> {
        &self.storage
    }

    /// Transactions and locks.
    #[inline]
    pub fn transactions(&self) -> &Arc<TransactionManager> {
        &self.transactions
    }

    /// New, empty files for a heap, an index or a sequence; gone if `tx` rolls back.
    ///
    /// # Errors
    /// Storage's; `tx` being read-only.
    pub fn create_file(&self, tx: &Transaction, logged: bool) -> Result<RelFile> {
        let file = RelFile { id: self.storage.allocate_file(), logged };
        let xid = tx.write_xid()?;
        // Before the file exists: if creating it fails half-way, the abort cleans up.
        tx.drop_file_at_abort(file);
        self.storage.create_file(file, xid)?;
        Ok(file)
    }

    /// TRUNCATE, DROP: these files go when `tx` commits.
    pub fn drop_at_commit(&self, tx: &Transaction, file: RelFile) {
        tx.drop_file_at_commit(file);
    }

    /// Removes temporary files that a crash left behind. Called once, before anybody works.
    ///
    /// # Errors
    /// Storage's.
    pub fn remove_temporary_files(&self) -> Result<()> {
        Ok(TempFiles::remove_all(self.storage.env())?)
    }

    /// Bytes written to temporary files since the database was opened.
    pub fn temporary_bytes(&self) -> u64 {
        self.temp_files.bytes_written()
    }

    /// Temporary files made since the database was opened.
    pub fn temporary_files(&self) -> u64 {
        self.temp_files.made()
    }

    /// Where a session's statements put what memory has no room for; those of its files are counted by `quota`.
    pub fn temporary_space(&self, quota: Arc<TempQuota>) -> TempSpace {
        let env = self.storage.env().clone();
        TempSpace::new(env, Arc::clone(&self.temp_files), quota, "query")
    }

    /// Where index builds put their runs.
    pub(crate) fn sort_space(&self) -> TempSpace {
        let env = self.storage.env().clone();
        TempSpace::new(env, Arc::clone(&self.temp_files), Arc::default(), "sort")
    }

    /// Forgets the in-memory state of files that are gone.
    pub fn forget(&self, file: RelFileId) {
        let mut indexes = self.indexes.lock();
        if let Some(index) = indexes.remove(&file) {
            let read = index.handle.stats().entries_read;
            count(&self.counters(index.table).gone_entries_read, read);
        }
        drop(indexes);
        self.sequences.lock().remove(&file);
    }

    /// New settings for an index, now that they are committed. Does nothing for an index that nobody
    /// opened yet.
    pub fn set_index_options(&self, file: RelFileId, options: IndexOptions) {
        if let Some(index) = self.indexes.lock().get(&file) {
            index.handle.set_options(options);
        }
    }

    pub(crate) fn heap(&self, definition: &TableDefinition) -> HeapRelation {
        self.heaps.open(definition.file, definition.fillfactor)
    }

    /// The heap of a table's large values.
    pub(crate) fn value_heap(&self, definition: &TableDefinition) -> Option<HeapRelation> {
        definition.values.map(|file| self.heaps.open_pieces(file))
    }

    /// An index of a table.
    pub(crate) fn index(&self, table: TableId, definition: &IndexDefinition) -> OpenIndex {
        let mut indexes = self.indexes.lock();
        let index = indexes.entry(definition.file.id).or_insert_with(|| {
            let (storage, file) = (Arc::clone(&self.storage), definition.file);
            let index = Index::new(storage, file, &definition.name, definition.options);
            let handle = Arc::new(match definition.equal_is_image() {
                true => index,
                false => index.without_posting_lists(),
            });
            OpenIndex { table, handle, suspects: Arc::default(), over: Arc::default() }
        });
        index.clone()
    }

    pub(crate) fn sequence(&self, file: RelFileId) -> Arc<Mutex<SequenceState>> {
        Arc::clone(self.sequences.lock().entry(file).or_default())
    }

    pub(crate) fn counters(&self, table: TableId) -> Arc<Counters> {
        let new = || Arc::new(Counters::new(table, &self.changed));
        Arc::clone(self.counters.lock().entry(table).or_insert_with(new))
    }

    /// Returns what tables counted since the database was opened: rows returned by scans, fetched
    /// for index scans, inserted, updated, deleted. `mine` chooses the tables. Those that were
    /// dropped, or made by a transaction that was rolled back, count too.
    pub fn rows_counted(&self, mine: impl Fn(TableId) -> bool) -> [u64; 5] {
        let mut rows = [0; 5];
        let mut add = |more: [u64; 5]| {
            for (sum, more) in rows.iter_mut().zip(more) {
                *sum += more;
            }
        };
        // Held throughout: what was read from a file that goes meanwhile counts once.
        let indexes = self.indexes.lock();
        for index in indexes.values().filter(|index| mine(index.table)) {
            add([index.handle.stats().entries_read, 0, 0, 0, 0]);
        }
        for (_, counters) in self.counters.lock().iter().filter(|(table, _)| mine(**table)) {
            let stats = counters.read();
            let returned = stats.seq_rows + stats.gone_entries_read;
            let updated = stats.updates.total();
            add([returned, stats.index_rows, stats.inserted, updated, stats.deleted]);
        }
        rows
    }

    /// Numbers of the tables that were changed since they were taken last.
    pub fn take_changed_tables(&self) -> Vec<TableId> {
        self.changed.take()
    }

    /// What is left to do before a clean stop: where each used sequence really stands is written down,
    /// so that there is no gap, and where heaps have room.
    ///
    /// # Errors
    /// Storage's. The stop must not be a clean one then; sequences go on behind the values that were
    /// logged ahead.
    pub fn settle(&self) -> Result<()> {
        self.heaps.save_free_space(&self.storage, &self.transactions);
        let sequences: Vec<_> =
            self.sequences.lock().iter().map(|(file, state)| (*file, Arc::clone(state))).collect();
        for (_, state) in sequences {
            crate::sequence::settle(&self.storage, &mut state.lock())?;
        }
        Ok(())
    }
}
