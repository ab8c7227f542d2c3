//! Building an index: read every version, sort the keys, load them.
//!
//! ```text
//!  heap ──blocks──> worker 0: keys, sort ─┐
//!       ──blocks──> worker 1: keys, sort ─┴─ merge ──> leaves from left to right
//! ```

use std::sync::Arc;

use niwaki_env::memory;
use niwaki_env::seeded_bug;
use niwaki_env::sync::plain_atomic::{AtomicBool, AtomicU32, Ordering};
use niwaki_env::sync::thread;
use niwaki_heap::{Live, VersionRow};
use niwaki_storage::{Csn, ReadAhead, Tid, Xid};
use niwaki_txn::{Horizon, Snapshot, Transaction};
use niwaki_types::{ColumnMask, Datum};

use crate::error::{Error, Result};
use crate::insert::RowEntry;
use crate::progress::{BuildProgress, Phase};
use crate::records::{IndexEntries, SortEntry};
use crate::sort::{SortSpace, Sorted, Sorter};
use crate::table::Table;
use crate::workspace::Workspace;

/// Blocks that a worker takes at a time.
const CHUNK_BLOCKS: u32 = 32;
/// Blocks from which on a second worker is worth its thread.
const PARALLEL_BLOCKS_MIN: u32 = 1024;

/// How an index is built.
#[derive(Clone, Debug)]
pub struct BuildOptions {
    /// Most bytes that the sort holds (`maintenance_work_mem`), all workers together.
    pub memory_bytes: usize,
    /// Most threads that read and sort, the caller's included; at least 1.
    pub workers: usize,
    /// How far each of them reads ahead.
    pub read_ahead: ReadAhead,
    /// Others write to the table meanwhile, so that one snapshot says which rows are there.
    pub beside_writers: bool,
    /// Where the build tells how far it is.
    pub progress: Arc<BuildProgress>,
}

impl Default for BuildOptions {
    fn default() -> Self {
        let read_ahead = ReadAhead::default();
        let (memory_bytes, workers, beside_writers) = (64 << 20, 1, false);
        Self { memory_bytes, workers, read_ahead, beside_writers, progress: Arc::default() }
    }
}

/// One entry to be, of the page that is being read.
struct PageEntry {
    key: Vec<u8>,
    payload: Vec<u8>,
    tid: Tid,
    live: bool,
}

/// One of those who read the heap.
struct Worker {
    table: Arc<Table>,
    index: usize,
    /// The transaction that builds, and its subtransactions.
    own: Arc<[Xid]>,
    /// The snapshot for which rows are there, if others write.
    as_of: Option<Csn>,
    xid: Xid,
    horizon: Arc<Horizon>,
    /// Next block that nobody has taken.
    next: Arc<AtomicU32>,
    end: u32,
    /// Somebody failed: the others need not go on.
    stop: Arc<AtomicBool>,
    progress: Arc<BuildProgress>,
    read_ahead: ReadAhead,
    sorter: Sorter<IndexEntries>,
}

impl Table {
    /// Fills `index`, whose file is empty, from the heap. The caller holds a lock that excludes
    /// writers, or builds concurrently as [`Table::validate_index`] describes. No line pointer of
    /// the table is freed meanwhile (rule 9b.12): the lock excludes vacuum in both cases.
    ///
    /// Every version that some snapshot may see gets its entry (X1), those of transactions in progress
    /// too; a chain with more than one key becomes `mixed` before the index is usable.
    ///
    /// # Errors
    /// [`Error::UniqueViolation`]; [`Error::KeyTooBig`]; [`Error::Expression`]; storage's, interrupts.
    pub fn build_index(
        self: &Arc<Self>,
        tx: &Transaction,
        index: usize,
        options: &BuildOptions,
    ) -> Result<()> {
        // Rows that the other indexes do not name any more may get entries in this one, so what is
        // known of them is forgotten. A transaction that changes indexes forgets at its commit.
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

    /// Reads the heap with as many workers as pay.
    fn read_all(
        self: &Arc<Self>,
        tx: &Transaction,
        index: usize,
        options: &BuildOptions,
    ) -> Result<Vec<Sorter<IndexEntries>>> {
        let end = self.blocks()?;
        options.progress.expect_blocks(end);
        let workers = if end < PARALLEL_BLOCKS_MIN { 1 } else { options.workers.max(1) };
        let space = SortSpace::new(self.engine.sort_space(), options.memory_bytes / workers);
        let own: Arc<[Xid]> = tx.own_xids().into();
        // Before the horizon: what it sees is there until all is read.
        let snapshot = options.beside_writers.then(|| tx.snapshot()).transpose()?;
        let as_of = snapshot.as_ref().map(Snapshot::csn);
        let as_of = as_of.filter(|_| !seeded_bug!("live-page-by-page"));
        let horizon = Arc::new(self.engine.transactions().horizon());
        let next = Arc::new(AtomicU32::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let xid = tx.write_xid()?;
        let worker = || Worker {
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
            sorter: Sorter::new(space.clone()),
        };
        let mut helpers = Vec::new();
        for _ in 1..workers {
            let helper = worker();
            // Without a thread the others read everything.
            let body = move || (helper.run(|| Ok(())), memory::leave());
            helpers.extend(memory::apart(|| thread::spawn_named("index build", body)));
        }
        let interrupts = || Ok(tx.session().check_interrupts().map_err(niwaki_txn::Error::from)?);
        let mut results = vec![worker().run(interrupts)];
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

    /// Adds to a concurrently built index what its build could not see. From the moment at which every
    /// writer knows that the index is ready, each inserts its own entries; this adds those of all versions that
    /// were there before and that nobody could have removed, in progress or not (rule 9b.12).
    /// An entry that is there already is not inserted again.
    ///
    /// The order of events: the index is defined, neither ready nor valid; every transaction that wrote to
    /// the table without knowing it ends (from now on no heap-only update hides a key of it); the index is
    /// built; it is ready; every transaction that wrote without inserting into it ends; this; it is valid.
    ///
    /// Nobody waits for old snapshots before it is valid. Whatever a registered snapshot sees is not removable
    /// (9b.3), so both visits met it, however long it has been dead for others, and each of its keys has its
    /// entry. And the old snapshot reads no wrong row through an entry: a root gets `mixed` if the build meets
    /// versions of it that differ, and any that came later and differs is by a writer who knew the index,
    /// and so is no heap-only version of that root, or marked it first (9b.9); vacuum, which clears
    /// `mixed` and frees line pointers, is kept out from the definition on (9b.12). A validation that
    /// added the rows of one snapshot only would have to wait for those older than it.
    ///
    /// In a unique index each of the two steps has one snapshot that says which rows are there:
    /// page by page a row that moves, or is deleted and inserted again, would be there twice. Two
    /// rows of one key that the build's snapshot sees are refused. The rows that validation's
    /// snapshot sees are checked as if they came now, unless they are gone by now; those that come
    /// later were checked by their writers, who knew that the index was ready. Of two rows with one
    /// key at least one is so checked while the other's entry is there.
    ///
    /// # Errors
    /// As [`Table::build_index`]; also a wait's, for a row in progress with a key of a unique index.
    pub fn validate_index(
        &self,
        tx: &Transaction,
        index: usize,
        options: &BuildOptions,
    ) -> Result<()> {
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
                // Removable by now, and some value of it is gone: nobody needs its entry.
                if !self.deform_past(*root, version, &needed, &mut row)? {
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

    /// Columns that entries of an index are made of.
    pub(crate) fn needed_for(&self, index: usize) -> ColumnMask {
        let mut needed = self.indexes[index].key_mask.clone();
        for &column in &self.indexes[index].definition.include {
            needed.insert(column);
        }
        needed
    }

    /// The violation that a live version of the row at `root` is part of.
    #[cold]
    fn duplicate_at(&self, tx: &Transaction, index: usize, root: Tid) -> Result<Error> {
        let mut row = vec![Datum::Null; self.definition.columns.len()];
        let snapshot = tx.snapshot()?;
        // A snapshot of REPEATABLE READ may be too old to see it; then the values are not told.
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
    /// Reads chunks of blocks until none is left. `interrupts` may end it.
    fn run(mut self, interrupts: impl Fn() -> Result<()>) -> Result<Sorter<IndexEntries>> {
        let result = self.read_chunks(&interrupts);
        if result.is_err() {
            // Relaxed: who sees it late only works in vain.
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
                // Relaxed: each number is given once, and blocks are read under latches.
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
            // Keys may be expressions: they wait for the end of the latch (rule 9b.16).
            table.heap().visit_versions(live, block, &self.horizon, |version, live| {
                versions.push((version.root, VersionRow::from(version), live));
            })?;
            // The versions of a chain come one after the other.
            for chain in versions.chunk_by(|a, b| a.0 == b.0) {
                let first = entries.len();
                let (mut differ, mut left_out) = (false, false);
                for (root, version, live) in chain {
                    let version = (*root, version, *live);
                    match table.page_entry(self.index, version, &needed, &mut row)? {
                        Some(entry) => differ |= merge(&mut entries, first, entry),
                        None => left_out = true,
                    }
                }
                // Who comes by an entry must look whether it is the version's that he sees.
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
    /// The entry of one version; `None` when a partial index leaves it out, or it has become removable, and some value
    /// of it is gone.
    fn page_entry(
        &self,
        index: usize,
        (root, version, live): (Tid, &VersionRow, bool),
        needed: &ColumnMask,
        row: &mut [Datum],
    ) -> Result<Option<PageEntry>> {
        if !self.deform_past(root, version, needed, row)? {
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
        let live = live && self.can_conflict(index, traits);
        Ok(Some(PageEntry { key, payload, tid: root, live }))
    }
}

/// Takes the entry of one more version of a chain, whose entries begin at `first`: one with an equal key
/// is superfluous. True if an entry of another version differs, in its key or in its payload.
fn merge(entries: &mut Vec<PageEntry>, first: usize, new: PageEntry) -> bool {
    let chain = &mut entries[first..];
    let differs = chain.iter().any(|entry| entry.key != new.key || entry.payload != new.payload);
    match chain.iter_mut().find(|entry| entry.key == new.key) {
        // The newer version's payload is the one to keep; it is live if either is.
        Some(same) => *same = PageEntry { live: new.live || same.live, ..new },
        None => entries.push(new),
    }
    differs
}
