//! Reading the rows of a range of an index, in its order.

use niwaki_nbtree::{Direction, KeyBound, KeyRange, LeafBatch, Scan};
use niwaki_storage::Tid;
use niwaki_txn::{Snapshot, Transaction, View};
use niwaki_types::{ColumnMask, Datum};

use crate::error::Result;
use crate::stats::count;
use crate::table::Table;

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
        let mut dead = 0;
        for at in 0..unseen.len() {
            let position = unseen[at];
            let Some(entry) = self.batch.get(position) else { continue };
            let versions = heap.dead_versions(entry.tid, &horizon, |row| {
                !row.mixed || self.table.has_key(self.index, row, entry.key)
            })?;
            if versions.is_some() {
                unseen[dead] = position;
                dead += 1;
            }
        }
        if dead > 0 {
            self.table.indexes[self.index].handle.mark_dead(self.batch, &unseen[..dead])?;
        }
        unseen.clear();
        Ok(())
    }
}

/// A scan over a range of an index. Holds no latch and no pin between calls.
#[derive(Debug)]
pub struct IndexScan {
    index: usize,
    scan: Scan,
    /// Next entry of the scan's batch.
    position: usize,
    unseen: Vec<usize>,
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
        IndexScan { index, scan, position: 0, unseen: Vec::new() }
    }

    /// As [`Table::index_scan`], with bounds in `std`'s terms.
    pub fn index_scan_bounds(
        &self,
        index: usize,
        lower: std::ops::Bound<&[u8]>,
        upper: std::ops::Bound<&[u8]>,
        direction: Direction,
    ) -> IndexScan {
        self.index_scan(index, &KeyRange { lower: bound(lower), upper: bound(upper) }, direction)
    }
}

fn bound(bound: std::ops::Bound<&[u8]>) -> KeyBound<'_> {
    match bound {
        std::ops::Bound::Unbounded => KeyBound::Unbounded,
        std::ops::Bound::Included(bytes) => KeyBound::Included(bytes),
        std::ops::Bound::Excluded(bytes) => KeyBound::Excluded(bytes),
    }
}

impl IndexScan {
    /// Writes the `needed` columns of the next row that the snapshot sees into `out` (as wide as the
    /// table) and returns its address; `None` at the end. Each row comes once.
    ///
    /// # Errors
    /// Storage's; [`crate::Error::Type`] (XX001) when a row is damaged.
    pub fn next(
        &mut self,
        table: &Table,
        tx: &Transaction,
        snapshot: &Snapshot,
        needed: &ColumnMask,
        out: &mut [Datum],
    ) -> Result<Option<Tid>> {
        let view = tx.view(snapshot);
        // Ends with the range.
        loop {
            let entries = Entries { table, index: self.index, batch: self.scan.batch() };
            while self.position < entries.batch.len() {
                let position = self.position;
                self.position += 1;
                if let Some(root) = entries.read(&view, position, needed, out, &mut self.unseen)? {
                    count(&table.counters.index_rows, 1);
                    return Ok(Some(root));
                }
            }
            entries.mark(&mut self.unseen)?;
            self.position = 0;
            if !self.scan.next(&table.indexes[self.index].handle)? {
                return Ok(None);
            }
        }
    }
}
