//! Index builds: read every version, sort the keys, load them.
//!
//! ```text
//!  heap ──blocks──> worker 0: keys, sort ─┐
//!       ──blocks──> worker 1: keys, sort ─┴─ merge ──> leaves from left to right
//! ```

use std::sync::Arc;

use niwaki_env::memory;
use niwaki_env::sync::plain_atomic::{AtomicBool, AtomicU32, Ordering};
use niwaki_env::sync::thread;
use niwaki_env::{invariant, seeded_bug};
use niwaki_heap::{Live, VersionRow};
use niwaki_storage::{Csn, OffsetNumber, ReadAhead, Tid, Xid};
use niwaki_txn::{Horizon, Snapshot, Transaction};
use niwaki_types::{ColumnMask, Datum};

use crate::build::progress::{BuildProgress, Phase};
use crate::error::{Error, Result};
use crate::relation::table::Table;
use crate::row::insert::RowEntry;
use crate::row::workspace::Workspace;
use crate::sorting::runs::{IndexEntries, SortEntry};
use crate::sorting::sort::{SortSpace, Sorted, Sorter};

/// Blocks that a worker takes at a time.
const CHUNK_BLOCKS: u32 = 32;
/// The least blocks of a heap for which a second worker is worth its thread.
const PARALLEL_BLOCKS_MIN: u32 = 1024;

const _: () = assert!(CHUNK_BLOCKS > 0);
// Each of two workers finds a chunk.
const _: () = assert!(2 * CHUNK_BLOCKS <= PARALLEL_BLOCKS_MIN);

/// Options of an index build.
#[derive(Clone, Debug)]
pub struct BuildOptions {
    /// The most bytes that the sort holds (`maintenance_work_mem`), all workers together.
    pub memory_bytes: usize,
    /// The most threads that read and sort, the caller's included; at least 1.
    pub workers: usize,
    /// The read-ahead of each thread.
    pub read_ahead: ReadAhead,
    /// True when other transactions write to the table meanwhile. One snapshot then says which rows
    /// exist.
    pub beside_writers: bool,
    /// Counters that receive the progress of the build.
    pub progress: Arc<BuildProgress>,
}

impl Default for BuildOptions {
    fn default() -> Self {
        let read_ahead = ReadAhead::default();
        let (memory_bytes, workers, beside_writers) = (64 << 20, 1, false);
        Self { memory_bytes, workers, read_ahead, beside_writers, progress: Arc::default() }
    }
}

/// A future entry from the page that is being read.
struct PageEntry {
    key: Vec<u8>,
    payload: Vec<u8>,
    tid: Tid,
    live: bool,
}

/// One of the threads that read the heap.
struct Worker {
    table: Arc<Table>,
    index: usize,
    /// The building transaction and its subtransactions.
    own: Arc<[Xid]>,
    /// The snapshot that says which rows exist, if others write.
    as_of: Option<Csn>,
    xid: Xid,
    horizon: Arc<Horizon>,
    /// The next block that no worker has taken.
    next: Arc<AtomicU32>,
    end: u32,
    /// True when a worker failed: the others need not go on.
    stop: Arc<AtomicBool>,
    progress: Arc<BuildProgress>,
    read_ahead: ReadAhead,
    sorter: Sorter<IndexEntries>,
}

impl Table {
    /// Fills `index`, whose file is empty, from the heap. The caller holds a lock that excludes
    /// writers, or builds concurrently as [`Table::validate_index`] describes. No line pointer of
    /// the table is freed meanwhile (rule `index-build`): the lock excludes vacuum in both cases.
    ///
    /// Every version that some snapshot may see gets its entry (X1), also versions of transactions
    /// in progress. A chain with more than one key becomes `mixed` (a root with several keys)
    /// before the index is usable.
    ///
    /// # Errors
    /// [`Error::UniqueViolation`]; [`Error::KeyTooBig`]; [`Error::Expression`]; storage's;
    /// interrupts.
    pub fn build_index(
        self: &Arc<Self>,
        tx: &Transaction,
        index: usize,
        options: &BuildOptions,
    ) -> Result<()> {
        // Rows that the other indexes no longer name may get entries in this one, so the ledger of
        // unindexed rows is forgotten. A transaction that changes indexes forgets the ledger at its
        // commit.
        let paused = self.heap().pause_freeing();
        let _paused = if self.heap().indexes_change() { paused } else { paused.forgetting() };
        let progress = &options.progress;
        let check = &mut || Ok(tx.session().check_interrupts().map_err(niwaki_txn::Error::from)?);
        progress.begin(Phase::Scanning);
        let sorters = self.read_all(tx, index, options)?;
        progress.begin(Phase::Sorting);
        let mut sorted = Sorter::finish::<Error>(sorters, check)?;
        progress.begin(Phase::Loading);
        self.load(tx, index, &mut sorted, progress)
    }

    /// Reads the heap, with more than one worker if the heap is large enough.
    fn read_all(
        self: &Arc<Self>,
        tx: &Transaction,
        index: usize,
        options: &BuildOptions,
    ) -> Result<Vec<Sorter<IndexEntries>>> {
        let end = self.blocks()?;
        options.progress.expect_blocks(end);
        let workers = if end < PARALLEL_BLOCKS_MIN { 1 } else { options.workers.max(1) };
        let (files, share) = (self.engine.sort_space(), options.memory_bytes / workers);
        let own: Arc<[Xid]> = tx.own_xids().into();
        // Taken before the horizon: what the snapshot sees exists until all is read.
        let snapshot = options.beside_writers.then(|| tx.snapshot()).transpose()?;
        let as_of = snapshot.as_ref().map(Snapshot::csn);
        let as_of = as_of.filter(|_| !seeded_bug!("live-page-by-page"));
        let horizon = Arc::new(self.engine.transactions().horizon());
        let next = Arc::new(AtomicU32::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let xid = tx.write_xid()?;
        let worker = |memory_bytes| Worker {
            table: Arc::clone(self),
            index,
            own: Arc::clone(&own),
            as_of,
            xid,
            horizon: Arc::clone(&horizon),
            next: Arc::clone(&next),
            end,
            stop: Arc::clone(&stop),
            progress: Arc::clone(&options.progress),
            read_ahead: options.read_ahead,
            sorter: Sorter::new(SortSpace::new(files.clone(), memory_bytes)),
        };
        let mut helpers = Vec::new();
        for _ in 1..workers {
            let helper = worker(share);
            // If no thread can be started, the other workers read everything.
            let body = move || (helper.run(|| Ok(())), memory::leave());
            helpers.extend(memory::apart(|| thread::spawn_named("index build", body)));
        }
        let interrupts = || Ok(tx.session().check_interrupts().map_err(niwaki_txn::Error::from)?);
        // The session takes the shares of the threads that did not start, too.
        debug_assert!(helpers.len() < workers, "the session is one of the workers");
        let rest = options.memory_bytes - helpers.len() * share;
        debug_assert!(rest >= share, "the helpers took the memory of the session");
        let mut results = vec![worker(rest).run(interrupts)];
        for helper in helpers {
            match memory::apart(|| helper.join()) {
                Ok((result, left)) => {
                    memory::join(left);
                    results.push(result);
                }
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results.into_iter().collect()
    }

    /// Writes the index from sorted entries.
    fn load(
        &self,
        tx: &Transaction,
        index: usize,
        sorted: &mut Sorted<IndexEntries>,
        progress: &BuildProgress,
    ) -> Result<()> {
        let mut builder = self.indexes[index].handle.builder(tx.write_xid()?)?;
        let mut live_before = false;
        let mut number = 0u32;
        while let Some(entry) = sorted.next()? {
            number = number.wrapping_add(1);
            if number.is_multiple_of(4096) {
                tx.session().check_interrupts().map_err(niwaki_txn::Error::from)?;
            }
            let equal = builder.add(entry.key, entry.payload, entry.tid)?;
            live_before &= equal;
            if entry.live {
                debug_assert!(self.indexes[index].definition.unique, "a live entry is checked");
                if live_before {
                    drop(builder);
                    return Err(self.duplicate_at(tx, index, entry.tid)?);
                }
                live_before = true;
            }
            progress.tuple_done();
        }
        builder.finish()?;
        Ok(())
    }

    /// Adds the entries that a concurrent build could not see. From some moment on every writer
    /// knows that the index is ready, and inserts its own entries. This function adds the entries
    /// of all versions from before, in progress or not, that no pass could have removed
    /// (rule `index-build`). An existing entry is not inserted again.
    ///
    /// The order of events:
    ///
    /// 1. The index is defined, neither ready nor valid.
    /// 2. Every transaction that wrote to the table without knowing the index ends. From now on no
    ///    heap-only update hides a key of the index.
    /// 3. The index is built.
    /// 4. The index is ready.
    /// 5. Every transaction that wrote without inserting into the index ends.
    /// 6. This function runs.
    /// 7. The index is valid.
    ///
    /// No step waits for old snapshots. A version that a registered snapshot sees is not removable
    /// (rule `removable`). So both visits met the version, however long it has been dead for
    /// others, and each of its keys has its entry.
    ///
    /// An old snapshot reads no wrong row through an entry. A root gets `mixed` if the build meets
    /// versions of it that differ. A later version that differs comes from a writer that knew the
    /// index. So it is no heap-only version of that root, or the writer marked the root first
    /// (rule `mixed-flag`). Vacuum, which clears `mixed` and frees line pointers, is excluded from
    /// the definition on (rule `index-build`). A validation that added the rows of one snapshot
    /// only would have to wait for older snapshots.
    ///
    /// In a unique index each of the two visits has one snapshot that says which rows exist. Page
    /// by page, a row that moves, or is deleted and inserted again, would exist twice. The build
    /// refuses two rows of one key that its snapshot sees. The rows that validation's snapshot sees
    /// are checked as if inserted now, unless they are gone by now. Later rows were checked by
    /// their writers, which knew that the index was ready. Of two rows with one key, at least one
    /// is checked this way while the other's entry exists.
    /// # Errors
    /// As [`Table::build_index`]; also a wait's, for a row in progress with a key of a unique
    /// index.
    pub fn validate_index(
        &self,
        tx: &Transaction,
        index: usize,
        options: &BuildOptions,
    ) -> Result<()> {
        debug_assert!(self.indexes[index].definition.ready, "index {index} takes no entries");
        let progress = &options.progress;
        let snapshot = tx.snapshot()?;
        let horizon = self.engine.transactions().horizon();
        let blocks = self.blocks()?;
        progress.begin(Phase::Validating);
        progress.expect_blocks(blocks);
        let mut versions = Vec::new();
        let mut row = vec![Datum::Null; self.definition.columns.len()];
        let mut work = Workspace::new();
        let needed = self.needed_for(index);
        for block in self.heap().ahead(0..blocks, options.read_ahead) {
            tx.session().check_interrupts().map_err(niwaki_txn::Error::from)?;
            versions.clear();
            let live = Live::At(snapshot.csn());
            self.heap().visit_versions(live, block, &horizon, |version, live| {
                versions.push((version.root, VersionRow::from(version), live));
            })?;
            for (root, version, live) in &versions {
                // Removable by now, and one of its values is gone: no snapshot needs its entry.
                if !self.deform_version(*root, version, &needed, &mut row)? {
                    continue;
                }
                let entry = RowEntry { row: &row, root: *root, logically_unchanged: false };
                if *live && !seeded_bug!("validation-unchecked") {
                    self.insert_validated(tx, index, &entry, &mut work)?;
                } else {
                    self.insert_unchecked(tx, index, &entry, &mut work)?;
                }
            }
            progress.blocks_done(1);
        }
        Ok(())
    }

    /// Makes the unique violation of the row at `root`, which has a live version.
    #[cold]
    fn duplicate_at(&self, tx: &Transaction, index: usize, root: Tid) -> Result<Error> {
        let mut row = vec![Datum::Null; self.definition.columns.len()];
        let snapshot = tx.snapshot()?;
        // A snapshot of REPEATABLE READ may be too old to see the row. The error then omits the
        // values.
        let found = self.fetch(tx, &snapshot, root, &self.indexes[index].key_mask, &mut row)?;
        Ok(match self.unique_violation(index, &row) {
            Error::UniqueViolation(mut violation) if !found => {
                violation.key.clear();
                Error::UniqueViolation(violation)
            }
            error => error,
        })
    }
}

impl Worker {
    /// Reads chunks of blocks until none is left. `interrupts` may end the reading.
    fn run(mut self, interrupts: impl Fn() -> Result<()>) -> Result<Sorter<IndexEntries>> {
        let result = self.read_chunks(&interrupts);
        if result.is_err() {
            // Relaxed: a worker that sees the flag late only works in vain.
            self.stop.store(true, Ordering::Relaxed);
        }
        self.progress.note_memory(self.sorter.peak_bytes());
        result.map(|()| self.sorter)
    }

    fn read_chunks(&mut self, interrupts: &dyn Fn() -> Result<()>) -> Result<()> {
        let table = Arc::clone(&self.table);
        let needed = table.needed_for(self.index);
        let mut row = vec![Datum::Null; table.definition.columns.len()];
        let mut versions = Vec::new();
        let mut entries: Vec<PageEntry> = Vec::new();
        let (next, end) = (Arc::clone(&self.next), self.end);
        let mut chunk = 0..0;
        let blocks = std::iter::from_fn(|| {
            if chunk.is_empty() {
                // Relaxed: each number is given out once, and blocks are read under latches.
                let first = next.fetch_add(CHUNK_BLOCKS, Ordering::Relaxed);
                chunk = first.min(end)..end.min(first.saturating_add(CHUNK_BLOCKS));
            }
            chunk.next()
        });
        for block in table.heap().ahead(blocks, self.read_ahead) {
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            interrupts()?;
            versions.clear();
            entries.clear();
            let mut mixed = Vec::new();
            let is_mine = |xid| self.own.contains(&xid);
            let live = self.as_of.map_or(Live::AtVisit(&is_mine), Live::At);
            // Keys may be expressions, which wait for the latch's release
            // (rule `bytes-under-latch`).
            table.heap().visit_versions(live, block, &self.horizon, |version, live| {
                versions.push((version.root, VersionRow::from(version), live));
            })?;
            // The versions of a chain come one after the other.
            for chain in versions.chunk_by(|a, b| a.0 == b.0) {
                let first = entries.len();
                debug_assert!(!chain.is_empty(), "a chain has a version");
                let (mut differ, mut left_out) = (false, false);
                for (root, version, live) in chain {
                    let version = (*root, version, *live);
                    match table.page_entry(self.index, version, &needed, &mut row)? {
                        Some(entry) => differ |= merge(&mut entries, first, entry),
                        None => left_out = true,
                    }
                }
                debug_assert!(
                    entries.len() - first <= chain.len(),
                    "a chain has more entries than versions",
                );
                // A reader that follows an entry must check that the version it sees has the
                // entry's key.
                if entries.len() > first && (differ || left_out) {
                    mixed.push(chain[0].0.offset.0);
                }
            }
            if !mixed.is_empty() {
                table.heap().set_mixed(self.xid, block, &mixed)?;
            }
            for PageEntry { key, payload, tid, live } in &entries {
                let entry = SortEntry { key, payload, tid: *tid, live: *live };
                self.sorter.push(&entry, &mut || interrupts())?;
            }
            self.progress.read(1, entries.len() as u64);
        }
        Ok(())
    }
}

impl Table {
    /// Returns the entry of one version. Returns `None` when a partial index leaves the row out, or
    /// when the version has become removable and one of its values is gone.
    fn page_entry(
        &self,
        index: usize,
        (root, version, live): (Tid, &VersionRow, bool),
        needed: &ColumnMask,
        row: &mut [Datum],
    ) -> Result<Option<PageEntry>> {
        if !self.deform_version(root, version, needed, row)? {
            return Ok(None);
        }
        let (mut key, mut payload) = (Vec::new(), Vec::new());
        let Some(traits) = self.index_key(index, row, &mut key)? else { return Ok(None) };
        self.encode_payload(index, row, &mut payload);
        let size = key.len() + payload.len();
        if size > usize::from(u16::MAX) {
            return Err(Error::KeyTooBig {
                size,
                max: usize::from(u16::MAX),
                index: self.indexes[index].definition.name.clone(),
            });
        }
        invariant!(X4, root.offset != OffsetNumber::INVALID, "an entry for {root}");
        let live = live && self.can_conflict(index, traits);
        Ok(Some(PageEntry { key, payload, tid: root, live }))
    }
}

/// Adds the entry of one more version of a chain, whose entries begin at `first`. An entry with an
/// equal key replaces the older one. Returns true when an entry of another version differs, in key
/// or payload.
fn merge(entries: &mut Vec<PageEntry>, first: usize, new: PageEntry) -> bool {
    let chain = &mut entries[first..];
    debug_assert!(chain.iter().all(|entry| entry.tid == new.tid), "entries of two chains");
    let differs = chain.iter().any(|entry| entry.key != new.key || entry.payload != new.payload);
    match chain.iter_mut().find(|entry| entry.key == new.key) {
        // The newer version's payload is kept. The entry is live if either is.
        Some(same) => *same = PageEntry { live: new.live || same.live, ..new },
        None => entries.push(new),
    }
    debug_assert!(entries.len() > first, "a version has no entry");
    differs
}
