//! A heap as everybody shares it: its files, and what is kept in memory about them.

use std::fmt;
use std::sync::Weak;

use niwaki_env::hash::HashMap;
use niwaki_env::sync::plain_atomic::{AtomicU8, Ordering};
use niwaki_env::sync::{Arc, Mutex};
use niwaki_storage::page::PAGE_SIZE;
use niwaki_storage::{
    BlockNumber, BlocksAhead, Fork, PageId, PageWrite, Pin, ReadAhead, ReadStream, RelFile,
    RelFileId, Storage,
};
use niwaki_txn::TransactionManager;

use crate::arrivals::Arrivals;
use crate::changed::ChangeTold;
use crate::counters::HeapCounters;
use crate::error::Result;
use crate::freespace::FreeSpace;
use crate::held::HeldVersions;
use crate::mixed::Unmixes;
use crate::records::Records;
use crate::removed::RemovedVersions;
use crate::unindexed::Unindexed;
use crate::visibility::{MapMemory, MapOptions, VisibilityMap};

/// One heap. Cheap to clone; clones share what is in memory.
#[derive(Clone, Debug)]
pub struct HeapRelation {
    /// Its files.
    pub file: RelFile,
    /// How full, in percent, insertions leave a page.
    pub fillfactor: u8,
    /// Its rows are pieces of large values, which no index names (`alone.rs`).
    pub(crate) pieces: bool,
    /// Rows that move to another root are told of as those that end ([`HeapRelation::telling_moves`]).
    pub(crate) tells_moves: bool,
    pub(crate) shared: Arc<Shared>,
    pub(crate) counters: Arc<HeapCounters>,
    pub(crate) changes: Arc<ChangeTold>,
}

/// What is in memory about a heap.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) space: FreeSpace,
    pub(crate) unmixes: Unmixes,
    pub(crate) unindexed: Unindexed,
    pub(crate) removed: RemovedVersions,
    pub(crate) records: Records,
    /// Of all heaps of the database.
    pub(crate) arrivals: Arc<Arrivals>,
    pub(crate) held: HeldVersions,
    pub(crate) map: VisibilityMap,
    /// Percent of a page.
    left_to_updates: AtomicU8,
}

impl Shared {
    pub(crate) fn new(map: VisibilityMap, arrivals: Arc<Arrivals>) -> Self {
        Self {
            space: FreeSpace::default(),
            unmixes: Unmixes::default(),
            unindexed: Unindexed::default(),
            removed: RemovedVersions::default(),
            records: Records::default(),
            arrivals,
            held: HeldVersions::default(),
            map,
            left_to_updates: AtomicU8::default(),
        }
    }
}

impl HeapRelation {
    /// Bytes of a page that insertions leave free: what the fillfactor says, or more ([`Self::leave_to_updates`]).
    pub(crate) fn reserve(&self) -> usize {
        self.reserve_of_moved().max(PAGE_SIZE * usize::from(self.left_to_updates()) / 100)
    }

    /// Bytes of a page that rows which move there leave free.
    pub(crate) fn reserve_of_moved(&self) -> usize {
        PAGE_SIZE * usize::from(100 - self.fillfactor.clamp(10, 100)) / 100
    }

    /// What insertions leave free of each page, in percent, if the fillfactor does not say more: 0 until somebody
    /// learns that updates need it.
    pub fn left_to_updates(&self) -> u8 {
        self.shared.left_to_updates.load(Ordering::Relaxed)
    }

    /// Insertions leave so much free from now on, as long as the heap is open.
    pub fn leave_to_updates(&self, percent: u8) {
        self.shared.left_to_updates.store(percent, Ordering::Relaxed);
    }

    /// The same heap, whose passes and updates count there.
    #[must_use]
    pub fn counting(mut self, counters: Arc<HeapCounters>) -> Self {
        self.counters = counters;
        self
    }

    /// The same heap, whose changes are told there.
    #[must_use]
    pub fn telling_changes(mut self, changes: Arc<ChangeTold>) -> Self {
        self.changes = changes;
        self
    }

    /// Somebody should look after its table, though it was not changed.
    pub fn wants_care(&self) {
        self.changes.tell();
    }

    /// The same heap, of a table whose rows seldom get another root: what one leaves behind in the indexes is told to
    /// the gardener too. Where each update makes a new root, bottom-up deletion meets it.
    #[must_use]
    pub fn telling_moves(mut self, tells: bool) -> Self {
        self.tells_moves = tells;
        self
    }

    /// What it counted.
    pub fn counters(&self) -> &HeapCounters {
        &self.counters
    }
}

/// Finds what is in memory about a heap again when the heap is described anew (DDL).
#[derive(Default)]
pub struct HeapRegistry {
    known: Mutex<HashMap<RelFileId, Known>>,
    map_options: MapOptions,
    map_memory: Arc<MapMemory>,
    arrivals: Arc<Arrivals>,
}

/// A heap that somebody may have open.
struct Known {
    file: RelFile,
    fillfactor: u8,
    pieces: bool,
    shared: Weak<Shared>,
}

impl fmt::Debug for HeapRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeapRegistry").finish_non_exhaustive()
    }
}

impl HeapRegistry {
    /// For heaps whose visibility maps are kept so.
    #[must_use]
    pub fn with_maps(map_options: MapOptions) -> Self {
        Self { map_options, ..Self::default() }
    }

    /// The heap with these files.
    pub fn open(&self, file: RelFile, fillfactor: u8) -> HeapRelation {
        self.open_as(file, fillfactor, false)
    }

    /// The heap with these files, whose rows are pieces of the large values of another one: they are found by
    /// their addresses alone, and their line pointers are free when they go.
    pub fn open_pieces(&self, file: RelFile) -> HeapRelation {
        self.open_as(file, 100, true)
    }

    fn open_as(&self, file: RelFile, fillfactor: u8, pieces: bool) -> HeapRelation {
        let mut heaps = self.known.lock();
        let open = heaps.get(&file.id).and_then(|known| known.shared.upgrade());
        let shared = open.unwrap_or_else(|| {
            heaps.retain(|_, known| known.shared.strong_count() > 0);
            let map = VisibilityMap::new(self.map_options, self.map_memory.clone());
            Arc::new(Shared::new(map, self.arrivals.clone()))
        });
        heaps.insert(file.id, Known { file, fillfactor, pieces, shared: Arc::downgrade(&shared) });
        HeapRelation {
            file,
            fillfactor,
            pieces,
            tells_moves: false,
            shared,
            counters: Arc::default(),
            changes: Arc::default(),
        }
    }

    /// Writes what is known about the room of each open heap to its fork: the last thing that is done
    /// to heaps before a clean stop.
    ///
    /// It is a hint: a heap whose files cannot be read or written keeps what it had, and the stop is
    /// a clean one all the same.
    pub fn save_free_space(&self, storage: &Storage, txns: &TransactionManager) {
        let heaps: Vec<HeapRelation> = {
            let heaps = self.known.lock();
            let open = heaps.values().filter_map(|known| {
                let Known { file, fillfactor, pieces, ref shared } = *known;
                let shared = shared.upgrade()?;
                Some(HeapRelation {
                    file,
                    fillfactor,
                    pieces,
                    tells_moves: false,
                    shared,
                    counters: Arc::default(),
                    changes: Arc::default(),
                })
            });
            open.collect()
        };
        for relation in heaps {
            // Its table may have been dropped.
            if storage.file_exists(relation.file.id).unwrap_or(false) {
                let _ = Heap::new(storage, txns, &relation).save_free_space();
            }
        }
    }
}

/// A heap and what its operations need: made for each call, costs nothing.
#[derive(Clone, Copy)]
pub struct Heap<'e> {
    pub(crate) storage: &'e Storage,
    pub(crate) txns: &'e TransactionManager,
    pub(crate) relation: &'e HeapRelation,
}

impl fmt::Debug for Heap<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heap").field("relation", self.relation).finish_non_exhaustive()
    }
}

impl<'e> Heap<'e> {
    /// The operations of `relation`.
    #[inline]
    pub fn new(
        storage: &'e Storage,
        txns: &'e TransactionManager,
        relation: &'e HeapRelation,
    ) -> Self {
        Self { storage, txns, relation }
    }

    /// Blocks of the heap.
    ///
    /// # Errors
    /// Storage's.
    pub fn blocks(&self) -> Result<u32> {
        Ok(self.storage.pool().blocks(self.relation.file.id, Fork::Main)?)
    }

    /// A stream over the heap's pages.
    pub fn read_stream(&self, options: ReadAhead) -> ReadStream {
        ReadStream::new(self.storage.pool(), self.relation.file.id, Fork::Main, options)
    }

    /// These blocks, in this order, read ahead of who visits them.
    pub fn ahead<I: Iterator<Item = u32>>(
        &self,
        blocks: I,
        options: ReadAhead,
    ) -> BlocksAhead<'e, I> {
        let pool = self.storage.pool();
        BlocksAhead::new(pool, self.relation.file.id, Fork::Main, options, blocks)
    }

    #[inline]
    pub(crate) fn page_id(&self, block: u32) -> PageId {
        PageId { file: self.relation.file.id, fork: Fork::Main, block: BlockNumber(block) }
    }

    #[inline]
    pub(crate) fn pin(&self, block: u32) -> Result<Pin<'e>> {
        Ok(self.storage.pool().pin(self.page_id(block))?)
    }

    /// Latches a page to change it.
    #[inline]
    pub(crate) fn pin_write(&self, block: u32) -> Result<PageWrite<'e>> {
        self.open_visibility_map()?;
        Ok(self.pin(block)?.into_write())
    }
}
