//! Reading the rows of some keys of an index, in its order.

use niwaki_nbtree::{BatchEntry, Direction, KeyRange, LeafBatch, Scan};
use niwaki_storage::Tid;
use niwaki_txn::{Snapshot, Transaction, View};
use niwaki_types::{ColumnMask, Datum, TypeError};

use crate::error::{Error, Result};
use crate::keys::{KeyWalk, ScanKeys, WalkState};
use crate::stats::count;
use crate::table::{Table, TableIndex};

/// The entries of one leaf, on their way to rows.
pub(crate) struct Entries<'s> {
    pub(crate) table: &'s Table,
    pub(crate) index: usize,
    pub(crate) batch: &'s LeafBatch,
}

impl Entries<'_> {
    /// Reads the row of the entry at `position`, if the view sees it. Notes in `unseen` an entry
    /// that leads it nowhere.
    #[inline]
    pub(crate) fn read(
        &self,
        view: &View<'_>,
        position: usize,
        needed: &ColumnMask,
        out: &mut [Datum],
        unseen: &mut Vec<usize>,
    ) -> Result<Option<Tid>> {
        let Some(entry) = self.batch.get(position) else { return Ok(None) };
        let (root, key) = (entry.tid, entry.key);
        if self.table.fetch_with_key(view, self.index, root, key, needed, out)? {
            return Ok(Some(root));
        }
        unseen.push(position);
        Ok(None)
    }

    /// As [`Entries::read`], taking the values from the entry where they are right there. Counts in
    /// `fetches` the rows that were asked for in the heap.
    #[inline]
    pub(crate) fn read_covered(
        &self,
        view: &View<'_>,
        position: usize,
        needed: &ColumnMask,
        out: &mut [Datum],
        unseen: &mut Vec<usize>,
        fetches: &mut u64,
    ) -> Result<Option<Tid>> {
        let Some(entry) = self.batch.get(position) else { return Ok(None) };
        // Without a visibility map the heap says of every entry whether its row is seen.
        *fetches += 1;
        if self.table.fetch_covered(view, self.index, &entry, needed, out)? {
            return Ok(Some(entry.tid));
        }
        unseen.push(position);
        Ok(None)
    }

    /// Marks, of the entries noted in `unseen`, those that lead nobody anywhere, if the leaf is still as
    /// it was. Leaves `unseen` empty.
    #[inline]
    pub(crate) fn mark(&self, unseen: &mut Vec<usize>) -> Result<()> {
        if unseen.is_empty() { Ok(()) } else { self.mark_unseen(unseen) }
    }

    /// What one snapshot does not see is perhaps dead to all; asked once for a leaf, because the horizon
    /// costs more than an entry.
    fn mark_unseen(&self, unseen: &mut Vec<usize>) -> Result<()> {
        let horizon = self.table.engine.transactions().horizon();
        let heap = self.table.heap();
        let mut dead = Vec::new();
        for position in unseen.drain(..) {
            let Some(entry) = self.batch.get(position) else { continue };
            let versions = self.table.decide(self.index, entry.key, true, |has_key| {
                Ok(heap.dead_versions(entry.tid, &horizon, has_key)?)
            })?;
            if versions.is_some() {
                dead.extend(self.batch.place(position));
            }
        }
        match self.batch.leaf() {
            Some(leaf) if !dead.is_empty() => self.table.mark_dead(self.index, leaf, &mut dead),
            _ => Ok(()),
        }
    }
}

/// A scan over some keys of an index, in its order. Holds no latch and no pin between calls.
#[derive(Debug)]
pub struct IndexScan {
    index: usize,
    scan: Scan,
    keys: ScanKeys,
    /// Set when the keys are several ranges.
    walk: Option<WalkState>,
    /// Next entry of the scan's batch.
    position: usize,
    unseen: Vec<usize>,
    /// Values come from the entries.
    covered: bool,
    heap_fetches: u64,
}

impl Table {
    /// Begins a scan of the entries of `index` that `range` covers; the bounds are encoded keys, or
    /// the encodings of leading columns.
    pub fn index_scan(
        &self,
        index: usize,
        range: &KeyRange<'_>,
        direction: Direction,
    ) -> IndexScan {
        count(&self.counters.index_scans, 1);
        let mut scan = Scan::default();
        scan.start(&self.indexes[index].handle, range, direction);
        IndexScan::new(index, scan, ScanKeys::ALL, None)
    }

    /// Begins a scan of the entries of `index` with these keys. One scan, however many ranges they
    /// make: entries come in the order of the index, each once, and no leaf is read twice.
    pub fn index_scan_keys(&self, index: usize, keys: ScanKeys, direction: Direction) -> IndexScan {
        count(&self.counters.index_scans, 1);
        let TableIndex { handle, order, .. } = &self.indexes[index];
        let (mut lower, mut upper) = (Vec::new(), Vec::new());
        let mut scan = Scan::default();
        let mut walk = None;
        match keys.one_range(&mut lower, &mut upper) {
            _ if keys.is_empty() => {}
            Some(_) if keys.is_one_key(order.len()) => scan.look_up(handle, &lower, direction),
            Some(range) => scan.start(handle, &range, direction),
            None => {
                scan.start_ranges(handle, direction);
                walk = Some(WalkState::default());
            }
        }
        IndexScan::new(index, scan, keys, walk)
    }

    /// As [`Table::index_scan_keys`], for an index that covers what the scan needs
    /// ([`Table::covers`]): rows are read from the entries, the heap is asked whether they are seen.
    pub fn index_only_scan(&self, index: usize, keys: ScanKeys, direction: Direction) -> IndexScan {
        IndexScan { covered: true, ..self.index_scan_keys(index, keys, direction) }
    }
}

impl IndexScan {
    fn new(index: usize, scan: Scan, keys: ScanKeys, walk: Option<WalkState>) -> Self {
        Self {
            index,
            scan,
            keys,
            walk,
            position: 0,
            unseen: Vec::new(),
            covered: false,
            heap_fetches: 0,
        }
    }

    /// Rows of an index-only scan that were asked for in the heap.
    pub fn heap_fetches(&self) -> u64 {
        self.heap_fetches
    }

    /// The entries of the leaf read last.
    pub(crate) fn batch(&self) -> &LeafBatch {
        self.scan.batch()
    }

    /// An entry of that leaf, if it has a wanted key.
    pub(crate) fn wanted(&self, table: &Table, position: usize) -> Result<Option<BatchEntry<'_>>> {
        let Some(entry) = self.scan.batch().get(position) else { return Ok(None) };
        let order = &table.indexes[self.index].order;
        let wanted = self.keys.compares(entry.key, order).ok_or_else(damaged_key)?;
        Ok(wanted.then_some(entry))
    }

    /// Writes the `needed` columns of the next row that the snapshot sees into `out` (as wide as the
    /// table) and returns its address; `None` at the end. Each row comes once.
    ///
    /// # Errors
    /// Storage's; the session's interrupts; [`crate::Error::Type`] (XX001) when a row or a key is
    /// damaged.
    pub fn next(
        &mut self,
        table: &Table,
        tx: &Transaction,
        snapshot: &Snapshot,
        needed: &ColumnMask,
        out: &mut [Datum],
    ) -> Result<Option<Tid>> {
        let view = tx.view(snapshot);
        // Ends with the keys.
        loop {
            while self.position < self.scan.batch().len() {
                let position = self.position;
                self.position += 1;
                if self.wanted(table, position)?.is_none() {
                    continue;
                }
                let entries = Entries { table, index: self.index, batch: self.scan.batch() };
                let unseen = &mut self.unseen;
                let found = if self.covered {
                    let fetches = &mut self.heap_fetches;
                    entries.read_covered(&view, position, needed, out, unseen, fetches)?
                } else {
                    entries.read(&view, position, needed, out, unseen)?
                };
                if let Some(root) = found {
                    count(&table.counters.index_rows, 1);
                    return Ok(Some(root));
                }
            }
            let entries = Entries { table, index: self.index, batch: self.scan.batch() };
            entries.mark(&mut self.unseen)?;
            self.position = 0;
            tx.session().check_interrupts().map_err(|why| Error::Transaction(why.into()))?;
            if !self.next_leaf(table)? {
                return Ok(None);
            }
        }
    }

    /// Marks what it found dead on the leaf that it is at. For callers that may not come back: a scan that
    /// takes the first row of a queue never gets to the end of the leaf.
    ///
    /// # Errors
    /// As [`IndexScan::next`].
    pub fn pause(&mut self, table: &Table) -> Result<()> {
        let entries = Entries { table, index: self.index, batch: self.scan.batch() };
        // They are noted still: posting lists are marked whole, once all of the list was read.
        entries.mark(&mut self.unseen.clone())
    }

    /// Reads on to the next leaf with entries in the bounding ranges; false at the end.
    pub(crate) fn next_leaf(&mut self, table: &Table) -> Result<bool> {
        let TableIndex { handle, order, .. } = &table.indexes[self.index];
        let Some(state) = &mut self.walk else { return Ok(self.scan.next(handle)?) };
        let direction = self.scan.direction();
        let mut walk = KeyWalk { keys: &self.keys, order, direction, state };
        Ok(self.scan.next_with(handle, Some(&mut walk), |_| {})?)
    }
}

#[cold]
fn damaged_key() -> Error {
    Error::Type(TypeError::corrupt("an index entry's key is not one of its columns"))
}
