//! Bitmap scans: first the index entries, then the heap in the order of its blocks.
//!
//! The entries' conditions say which rows *may* be wanted. A row may have changed since, a chain
//! may have several keys, and a lossy page names no rows. So the caller judges all rows again
//! (rule `unmix-counter`).

use std::collections::VecDeque;
use std::convert::Infallible;
use std::mem::size_of;

use niwaki_heap::PageRows;
use niwaki_nbtree::{Direction, EntryPlace, LeafRead};
use niwaki_storage::{BlockNumber, OffsetNumber, ReadAhead, ReadStream, Tid};
use niwaki_txn::{Horizon, Snapshot, Transaction};

use crate::error::{Error, Result};
use crate::relation::count::count;
use crate::relation::table::Table;
use crate::scan::scan_keys::ScanKeys;
use crate::scan::tid_bitmap::{BitmapPage, BitmapPages, TidBitmap};

/// The rows that a bitmap holds.
#[derive(Clone, Debug)]
pub enum BitmapSource {
    /// The rows of some entries of an index.
    Index {
        /// The index.
        index: usize,
        /// The wanted keys of the index.
        keys: ScanKeys,
    },
    /// The rows in all of these bitmaps.
    And(Vec<BitmapSource>),
    /// The rows in any of these bitmaps.
    Or(Vec<BitmapSource>),
}

/// The places of the entries of one index scan, in the order in which they were read. With them,
/// entries can be marked LP_DEAD when their rows turn out dead to all. An entry takes 12 bytes.
#[derive(Debug)]
struct Trace {
    index: usize,
    entries: Vec<(Tid, EntryPlace)>,
    /// Leaves, each with the end of its entries.
    leaves: Vec<(LeafRead, usize)>,
}

/// The work of a bitmap heap scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BitmapEffort {
    /// Heap pages whose rows were known.
    pub exact_pages: u64,
    /// Heap pages read in full.
    pub lossy_pages: u64,
}

/// A scan of the rows of a bitmap. Holds no latch and no pin between calls.
#[derive(Debug)]
pub struct BitmapScan {
    source: Option<BitmapSource>,
    memory_bytes: usize,
    pages: Option<BitmapPages>,
    stream: ReadStream,
    /// Pages that the stream has taken and not yet returned.
    named: VecDeque<BitmapPage>,
    /// Blocks of the heap after the entries had been read.
    blocks: u32,
    /// Taken at the beginning: versions removable then stay so.
    horizon: Horizon,
    traces: Vec<Trace>,
    /// The number of entries that may still be traced.
    trace_room: usize,
    /// Roots that give no row to any snapshot, ascending.
    dead: Vec<Tid>,
    unseen: Vec<u16>,
    effort: BitmapEffort,
}

impl Table {
    /// Begins a scan of the rows that `source` may want. `memory_bytes` limits each of its bitmaps.
    /// The caller must judge every row again.
    pub fn bitmap_scan(&self, source: BitmapSource, memory_bytes: usize) -> BitmapScan {
        // A quarter of the memory holds the places of entries. A mark is a hint, so entries beyond
        // that stay unmarked.
        let trace_bytes = memory_bytes / 4;
        BitmapScan {
            source: Some(source),
            memory_bytes: memory_bytes - trace_bytes,
            pages: None,
            stream: self.heap().read_stream(ReadAhead::default()),
            named: VecDeque::new(),
            blocks: 0,
            horizon: self.engine.transactions().horizon(),
            traces: Vec::new(),
            trace_room: trace_bytes / size_of::<(Tid, EntryPlace)>(),
            dead: Vec::new(),
            unseen: Vec::new(),
            effort: BitmapEffort::default(),
        }
    }
}

impl BitmapScan {
    /// Sets the read-ahead. Called before the first page.
    #[must_use]
    pub fn ahead(mut self, table: &Table, options: ReadAhead) -> Self {
        debug_assert!(self.source.is_some(), "pages are read ahead already");
        self.stream = table.heap().read_stream(options);
        self
    }

    /// Returns the work done so far.
    pub fn effort(&self) -> BitmapEffort {
        self.effort
    }

    /// Reads the possibly wanted rows of the next page that the snapshot sees into `rows`; returns
    /// false at the end. A page without such rows gives true, and no rows. Each row comes once.
    ///
    /// # Errors
    /// Storage's; the session's interrupts.
    pub fn next_page(
        &mut self,
        table: &Table,
        tx: &Transaction,
        snapshot: &Snapshot,
        rows: &mut PageRows,
    ) -> Result<bool> {
        rows.clear();
        if let Some(source) = self.source.take() {
            let bitmap = self.collect(table, tx, source)?;
            self.blocks = table.blocks()?;
            self.pages = Some(bitmap.into_pages());
        }
        let Some(page) = self.next_named(table) else {
            self.mark(table)?;
            return Ok(false);
        };
        let view = tx.view(snapshot);
        let heap = table.heap();
        match page {
            BitmapPage::Exact(block, bits) => {
                self.effort.exact_pages += 1;
                self.unseen.clear();
                let roots = BitmapPage::offsets(&bits);
                heap.fetch_page(&view, block.0, roots, rows, &mut self.unseen)?;
                self.note_dead(table, block)?;
            }
            BitmapPage::Lossy(block) => {
                self.effort.lossy_pages += 1;
                heap.scan_page(&view, block.0, Some(&self.horizon), rows)?;
            }
        }
        count(&table.counters.index_rows, rows.len() as u64);
        Ok(true)
    }

    /// Returns the next page of the bitmap that exists in the heap, read ahead.
    fn next_named(&mut self, table: &Table) -> Option<BitmapPage> {
        let (pages, named) = (self.pages.as_mut()?, &mut self.named);
        let name = &mut || {
            // Entries of rows that were never written, or are gone, may lead beyond the end.
            let page = pages.by_ref().find(|page| page.block().0 < self.blocks);
            let block = page.as_ref().map(|page| page.block().0);
            named.extend(page);
            Ok::<_, Infallible>(block)
        };
        let given = self.stream.next(table.engine.storage().pool(), name).ok().flatten()?;
        let page = self.named.pop_front();
        debug_assert_eq!(
            page.as_ref().map(|page| page.block().0),
            Some(given),
            "the rows of another block would be read"
        );
        page
    }

    fn collect(
        &mut self,
        table: &Table,
        tx: &Transaction,
        source: BitmapSource,
    ) -> Result<TidBitmap> {
        let (all, sources) = match source {
            BitmapSource::Index { index, keys } => return self.read_index(table, tx, index, keys),
            BitmapSource::And(sources) => (true, sources),
            BitmapSource::Or(sources) => (false, sources),
        };
        let mut result: Option<TidBitmap> = None;
        for source in sources {
            let bitmap = self.collect(table, tx, source)?;
            match &mut result {
                None => result = Some(bitmap),
                Some(result) if all => result.intersect(bitmap),
                Some(result) => result.unite(bitmap),
            }
        }
        Ok(result.unwrap_or_else(|| TidBitmap::new(self.memory_bytes)))
    }

    fn read_index(
        &mut self,
        table: &Table,
        tx: &Transaction,
        index: usize,
        keys: ScanKeys,
    ) -> Result<TidBitmap> {
        let mut bitmap = TidBitmap::new(self.memory_bytes);
        let mut trace = Trace { index, entries: Vec::new(), leaves: Vec::new() };
        let mut scan = table.index_scan_keys(index, keys, Direction::Forward);
        // Ends: when the keys are exhausted.
        while scan.next_leaf(table, None)? {
            tx.session().check_interrupts().map_err(|why| Error::Transaction(why.into()))?;
            let begin = trace.entries.len();
            let batch = scan.batch();
            for position in 0..batch.len() {
                let Some(entry) = scan.wanted(table, position)? else { continue };
                bitmap.insert(entry.tid);
                if self.trace_room > 0
                    && let Some(place) = batch.place(position)
                {
                    self.trace_room -= 1;
                    trace.entries.push((entry.tid, place));
                }
            }
            if trace.entries.len() > begin
                && let Some(leaf) = batch.leaf()
            {
                trace.leaves.push((leaf, trace.entries.len()));
            }
        }
        debug_assert!(trace.leaves.is_sorted_by(|a, b| a.1 < b.1), "a traced leaf has no entries");
        debug_assert!(
            trace.leaves.last().is_none_or(|(_, end)| *end <= trace.entries.len()),
            "a traced leaf ends behind the entries",
        );
        if !trace.leaves.is_empty() {
            self.traces.push(trace);
        }
        Ok(bitmap)
    }

    /// Notes the dead rows among those that the snapshot does not see: rows that no snapshot sees.
    fn note_dead(&mut self, table: &Table, block: BlockNumber) -> Result<()> {
        if self.traces.is_empty() {
            return Ok(());
        }
        debug_assert!(self.unseen.is_sorted_by(|a, b| a < b), "a root of block {block} came twice");
        let heap = table.heap();
        for &offset in &self.unseen {
            let root = Tid { block, offset: OffsetNumber(offset) };
            // The entry's key does not matter: no version of the chain is left.
            if heap.is_dead(root, &self.horizon)? {
                self.dead.push(root);
            }
        }
        Ok(())
    }

    /// Marks the entries of dead rows on leaves that are unchanged.
    fn mark(&mut self, table: &Table) -> Result<()> {
        let dead = std::mem::take(&mut self.dead);
        let traces = std::mem::take(&mut self.traces);
        if dead.is_empty() {
            return Ok(());
        }
        debug_assert!(dead.is_sorted_by(|a, b| a < b), "a page of the bitmap came twice");
        let mut places = Vec::new();
        for trace in traces {
            let mut begin = 0;
            for (leaf, end) in trace.leaves {
                debug_assert!(begin < end, "a traced leaf has no entries");
                let entries = &trace.entries[begin..end];
                begin = end;
                let found = entries.iter().filter(|(tid, _)| dead.binary_search(tid).is_ok());
                places.clear();
                places.extend(found.map(|(_, place)| *place));
                if !places.is_empty() {
                    table.mark_dead(trace.index, leaf, &mut places)?;
                }
            }
        }
        Ok(())
    }
}
