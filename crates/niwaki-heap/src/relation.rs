//! A heap as all sessions share it: its files, and its state in memory.

use std::fmt;
use std::sync::Weak;

use niwaki_env::hash::HashMap;
use niwaki_env::sync::plain_atomic::{AtomicU8, Ordering};
use niwaki_env::sync::{Arc, Mutex};
use niwaki_storage::page::PAGE_SIZE;
use niwaki_storage::{
    BlockNumber, BlocksAhead, Fork, OffsetNumber, PageId, PageWrite, Pin, ReadAhead, ReadStream,
    RelFile, RelFileId, Storage, Tid,
};
use niwaki_txn::{RowKey, TransactionManager};

use crate::error::Result;
use crate::memory::bits::{MapMemory, MapOptions, VisibilityMap};
use crate::memory::changed_tables::ChangeFlag;
use crate::memory::cleanup_ledger::CleanupLedger;
use crate::memory::counters::HeapCounters;
use crate::memory::freespace::FreeSpace;
use crate::memory::removed::RemovedVersions;
use crate::memory::retained::RetainedVersions;
use crate::memory::root_changes::{RootChangeCount, RootChanges};
use crate::memory::unmix_counter::UnmixCounter;
use crate::memory::unprunable::UnprunablePages;
use crate::memory::unreferenced::UnreferencedRoots;

/// One heap. Cheap to clone; clones share the state in memory.
#[derive(Clone, Debug)]
pub struct HeapRelation {
    /// The heap's files.
    pub file: RelFile,
    /// The fullness, in percent, up to which insertions fill a page.
    pub fillfactor: u8,
    /// The heap's rows are pieces of large values (TOAST chunks), which no index names
    /// (`pieces.rs`).
    pub(crate) pieces: bool,
    /// Roots of rows that move to another root are reported as roots of ended rows are
    /// ([`HeapRelation::reporting_moves`]).
    pub(crate) reports_moves: bool,
    pub(crate) shared: Arc<Shared>,
    pub(crate) counters: Arc<HeapCounters>,
    pub(crate) changes: Arc<ChangeFlag>,
}

/// State of a heap in memory.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) space: FreeSpace,
    pub(crate) unmix_counter: UnmixCounter,
    pub(crate) unprunable: UnprunablePages,
    pub(crate) unreferenced: UnreferencedRoots,
    pub(crate) removed: RemovedVersions,
    pub(crate) ledger: CleanupLedger,
    /// The root change counters of all heaps of the database.
    pub(crate) root_changes: Arc<RootChanges>,
    pub(crate) retained: RetainedVersions,
    pub(crate) map: VisibilityMap,
    /// Percent of a page that insertions leave to updates.
    left_to_updates: AtomicU8,
}

impl Shared {
    pub(crate) fn new(map: VisibilityMap, root_changes: Arc<RootChanges>) -> Self {
        Self {
            space: FreeSpace::default(),
            unmix_counter: UnmixCounter::default(),
            unprunable: UnprunablePages::default(),
            unreferenced: UnreferencedRoots::default(),
            removed: RemovedVersions::default(),
            ledger: CleanupLedger::default(),
            root_changes,
            retained: RetainedVersions::default(),
            map,
            left_to_updates: AtomicU8::default(),
        }
    }
}

impl HeapRelation {
    /// Returns the bytes of a page that insertions leave free: by the fillfactor, or more
    /// ([`Self::leave_to_updates`]).
    pub(crate) fn reserve(&self) -> usize {
        let reserve = PAGE_SIZE * usize::from(self.left_to_updates()) / 100;
        debug_assert!(reserve < PAGE_SIZE, "a page takes rows, whatever is left to updates");
        self.reserve_of_moved().max(reserve)
    }

    /// Returns the bytes of a page that rows which move there leave free.
    pub(crate) fn reserve_of_moved(&self) -> usize {
        let reserve = PAGE_SIZE * usize::from(100 - self.fillfactor.clamp(10, 100)) / 100;
        debug_assert!(reserve < PAGE_SIZE, "a page takes rows, whatever its fillfactor");
        reserve
    }

    /// Returns the part of each page, in percent, that insertions leave free, if the fillfactor
    /// does not demand more. It is 0 until a caller learns that updates need the room.
    pub fn left_to_updates(&self) -> u8 {
        self.shared.left_to_updates.load(Ordering::Relaxed)
    }

    /// Makes insertions leave this part of each page free from now on, as long as the heap is open.
    pub fn leave_to_updates(&self, percent: u8) {
        debug_assert!(percent < 100, "insertions would find no room on any page");
        self.shared.left_to_updates.store(percent, Ordering::Relaxed);
    }

    /// Returns the same heap, with these counters for its passes and updates.
    #[must_use]
    pub fn counting(mut self, counters: Arc<HeapCounters>) -> Self {
        self.counters = counters;
        self
    }

    /// Returns the same heap, whose changes are reported to `changes`.
    #[must_use]
    pub fn reporting_changes(mut self, changes: Arc<ChangeFlag>) -> Self {
        self.changes = changes;
        self
    }

    /// Requests that a background task looks after the heap's table, though the table was not
    /// changed.
    pub fn request_maintenance(&self) {
        self.changes.report();
    }

    /// Returns the same heap, for a table whose rows seldom get another root. Then the gardener
    /// also learns about roots that rows leave behind in the indexes. If each update makes a new
    /// root, bottom-up deletion finds such entries anyway.
    #[must_use]
    pub fn reporting_moves(mut self, reports: bool) -> Self {
        self.reports_moves = reports;
        self
    }

    /// Returns the heap's counters.
    pub fn counters(&self) -> &HeapCounters {
        &self.counters
    }
}

/// Registry of open heaps: DDL that describes a heap anew finds the heap's state in memory again.
#[derive(Default)]
pub struct HeapRegistry {
    known: Mutex<HashMap<RelFileId, Known>>,
    map_options: MapOptions,
    map_memory: Arc<MapMemory>,
    root_changes: Arc<RootChanges>,
}

/// A heap that may be open.
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
    /// Returns a registry for heaps whose visibility maps are kept with these options.
    #[must_use]
    pub fn with_maps(map_options: MapOptions) -> Self {
        Self { map_options, ..Self::default() }
    }

    /// Opens the heap with these files.
    pub fn open(&self, file: RelFile, fillfactor: u8) -> HeapRelation {
        self.open_as(file, fillfactor, false)
    }

    /// Opens the heap with these files, whose rows are pieces of the large values of another heap.
    /// Such rows are found by their addresses alone, and their line pointers are free when they go.
    pub fn open_pieces(&self, file: RelFile) -> HeapRelation {
        self.open_as(file, 100, true)
    }

    fn open_as(&self, file: RelFile, fillfactor: u8, pieces: bool) -> HeapRelation {
        let mut heaps = self.known.lock();
        debug_assert!(
            heaps.get(&file.id).is_none_or(|known| known.pieces == pieces),
            "the rows of file {} were pieces before, or are pieces now",
            file.id
        );
        let open = heaps.get(&file.id).and_then(|known| known.shared.upgrade());
        let shared = open.unwrap_or_else(|| {
            heaps.retain(|_, known| known.shared.strong_count() > 0);
            let map = VisibilityMap::new(self.map_options, self.map_memory.clone());
            Arc::new(Shared::new(map, self.root_changes.clone()))
        });
        heaps.insert(file.id, Known { file, fillfactor, pieces, shared: Arc::downgrade(&shared) });
        HeapRelation {
            file,
            fillfactor,
            pieces,
            reports_moves: false,
            shared,
            counters: Arc::default(),
            changes: Arc::default(),
        }
    }

    /// Writes the free space map of each open heap to its fork: the last action on heaps before a
    /// clean stop.
    ///
    /// The map is a hint. If a heap's files cannot be read or written, its fork keeps the former
    /// contents, and the stop is clean all the same.
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
                    reports_moves: false,
                    shared,
                    counters: Arc::default(),
                    changes: Arc::default(),
                })
            });
            open.collect()
        };
        for relation in heaps {
            // The heap's table may have been dropped.
            if storage.file_exists(relation.file.id).unwrap_or(false) {
                let _ = Heap::new(storage, txns, &relation).save_free_space();
            }
        }
    }
}

/// A heap with everything that its operations need. It is made for each call, and costs nothing.
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
    /// Returns the operations of `relation`.
    #[inline]
    pub fn new(
        storage: &'e Storage,
        txns: &'e TransactionManager,
        relation: &'e HeapRelation,
    ) -> Self {
        Self { storage, txns, relation }
    }

    /// Returns the number of blocks of the heap.
    ///
    /// # Errors
    /// Storage's.
    pub fn blocks(&self) -> Result<u32> {
        Ok(self.storage.pool().blocks(self.relation.file.id, Fork::Main)?)
    }

    /// Returns a stream over the heap's pages.
    pub fn read_stream(&self, options: ReadAhead) -> ReadStream {
        ReadStream::new(self.storage.pool(), self.relation.file.id, Fork::Main, options)
    }

    /// Returns these blocks, in this order, as a stream that reads ahead of its caller.
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

    /// Counts a version that comes to `root`, whose page is latched for writing.
    #[inline]
    pub(crate) fn note_root_change(&self, root: Tid) {
        debug_assert_ne!(root.offset, OffsetNumber::INVALID, "a root is at a line pointer");
        self.relation.shared.root_changes.note(root);
    }

    /// Returns the count for `root`. A pass notes the count while it sees the root's chain under
    /// the page's latch. As long as the count is the same, this view of the chain still holds,
    /// under the latch of any leaf.
    #[inline]
    pub fn root_change_count(&self, root: Tid) -> RootChangeCount {
        self.relation.shared.root_changes.root_change_count(root)
    }

    /// Returns the key of a row for locks in memory. A locked root is not freed
    /// (rule `root-identity`), so its TID identifies the row.
    pub(crate) fn row_key(&self, root: Tid) -> RowKey {
        RowKey { file: self.relation.file.id, root, incarnation: 0 }
    }

    /// Returns whether a transaction holds the row at `root` in memory: then its line pointer stays
    /// (rule `root-identity`).
    pub(crate) fn is_locked_in_memory(&self, root: Tid) -> bool {
        self.txns.locks().row_is_locked(self.row_key(root))
    }
}
