//! Rows through bitmaps: first the index entries, then the heap in the order of its blocks.
//!
//! The entries' conditions say which rows *may* be wanted. A row may have changed since, a chain may have
//! several keys, a lossy page tells no rows: whoever gets the rows judges them all again (rule 9b.2).

use std::collections::VecDeque;
use std::convert::Infallible;
use std::mem::size_of;

use niwaki_heap::PageRows;
use niwaki_nbtree::{Direction, EntryPlace, LeafRead};
use niwaki_storage::{OffsetNumber, ReadAhead, ReadStream, Tid};
use niwaki_txn::{Horizon, Snapshot, Transaction};

use crate::error::{Error, Result};
use crate::keys::ScanKeys;
use crate::stats::count;
use crate::table::Table;
use crate::tid_bitmap::{BitmapPage, BitmapPages, TidBitmap};

/// Which rows a bitmap holds.
#[derive(Clone, Debug)]
pub enum BitmapSource {
    /// Those of some entries of an index.
    Index {
        /// The index.
        index: usize,
        /// Its keys.
        keys: ScanKeys,
    },
    /// Those that are in all of these.
    And(Vec<BitmapSource>),
    /// Those that are in any of these.
    Or(Vec<BitmapSource>),
}

/// Where the entries of one index scan were, so that they can be marked LP_DEAD when their rows turn out
/// to be dead to all: 12 bytes an entry, in the order in which they were read.
#[derive(Debug)]
struct Trace {
    index: usize,
    entries: Vec<(Tid, EntryPlace)>,
    /// Leaves, and the end of their entries.
    leaves: Vec<(LeafRead, usize)>,
}

/// What a bitmap heap scan had to do.
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
    /// Pages that the stream has taken and not given back.
    named: VecDeque<BitmapPage>,
    /// Blocks of the heap when the entries had been read.
    blocks: u32,
    /// Taken at the beginning: what is removable then stays so.
    horizon: Horizon,
    traces: Vec<Trace>,
    /// Entries that still may be traced.
    trace_room: usize,
    /// Roots that lead nobody anywhere, ascending.
    dead: Vec<Tid>,
    unseen: Vec<u16>,
    effort: BitmapEffort,
}

impl Table {
    /// Begins a scan of the rows that `source` may want; `memory_bytes` bounds its bitmaps, each of them.
    /// Every row must be judged again by whoever reads it.
    pub fn bitmap_scan(&self, source: BitmapSource, memory_bytes: usize) -> BitmapScan {
        // A quarter remembers where entries were; the mark is a hint, what does not fit stays unmarked.
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
    /// Has it look ahead so far. Before the first page.
    #[must_use]
    pub fn ahead(mut self, table: &Table, options: ReadAhead) -> Self {
        self.stream = table.heap().read_stream(options);
        self
    }

    /// What was done so far.
    pub fn effort(&self) -> BitmapEffort {
        self.effort
    }

    /// Reads the rows of the next page that the snapshot sees, and that may be wanted, into `rows`; false
    /// at the end. A page without such rows gives true and none. Each row comes once.
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
                heap.fetch_page(&view, block, roots, rows, &mut self.unseen)?;
                self.note_dead(table, block)?;
            }
            BitmapPage::Lossy(block) => {
                self.effort.lossy_pages += 1;
                heap.scan_page(&view, block, Some(&self.horizon), rows)?;
            }
        }
        count(&table.counters.index_rows, rows.len() as u64);
        Ok(true)
    }

    /// The next page of the bitmap that the heap has, read ahead.
    fn next_named(&mut self, table: &Table) -> Option<BitmapPage> {
        let (pages, named) = (self.pages.as_mut()?, &mut self.named);
        let name = &mut || {
            // Entries of rows that never were, or are gone, may lead beyond the end.
            let page = pages.by_ref().find(|page| page.block() < self.blocks);
            let block = page.as_ref().map(BitmapPage::block);
            named.extend(page);
            Ok::<_, Infallible>(block)
        };
        let given = self.stream.next(table.engine.storage().pool(), name);
        given.ok().flatten().and_then(|_| self.named.pop_front())
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
        // Ends with the keys.
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
        if !trace.leaves.is_empty() {
            self.traces.push(trace);
        }
        Ok(bitmap)
    }

    /// Notes which of the rows that the snapshot does not see nobody can see.
    fn note_dead(&mut self, table: &Table, block: u32) -> Result<()> {
        if self.traces.is_empty() {
            return Ok(());
        }
        let heap = table.heap();
        for &offset in &self.unseen {
            let root =
                Tid { block: niwaki_storage::BlockNumber(block), offset: OffsetNumber(offset) };
            // Whatever key an entry has: none of the chain's versions is left.
            if heap.is_dead(root, &self.horizon)? {
                self.dead.push(root);
            }
        }
        Ok(())
    }

    /// Marks the entries of dead rows on the leaves that still are as they were.
    fn mark(&mut self, table: &Table) -> Result<()> {
        let dead = std::mem::take(&mut self.dead);
        let traces = std::mem::take(&mut self.traces);
        if dead.is_empty() {
            return Ok(());
        }
        let mut places = Vec::new();
        for trace in traces {
            let mut begin = 0;
            for (leaf, end) in trace.leaves {
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
