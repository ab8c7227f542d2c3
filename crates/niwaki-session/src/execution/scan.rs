//! Scans of stored tables: where a scan stands between two batches, and how it fills the next one.

use std::ops::{Bound, Range, RangeBounds};

use niwaki_catalog::{CatalogState, Relation};
use niwaki_sql::store::{BATCH_BYTES, RowBatch};
use niwaki_sql::{Result, SqlError};
use niwaki_storage::Tid;
use niwaki_table::{BitmapScan, Error as TableError, IndexScan, PageRows, SeqScan, Table};
use niwaki_txn::{Snapshot, Transaction};
use niwaki_types::growing::value_bytes;
use niwaki_types::{ColumnMask, Datum};

use crate::session::errors::of_table;

/// State of a scan between two batches.
pub(super) enum Scan {
    Sequential { scan: SeqScan, place: PagePlace },
    Index(Box<IndexScan>, ColumnMask),
    Bitmap { scan: Box<BitmapScan>, place: PagePlace },
    Tids { tids: Vec<Tid>, next: usize, mask: ColumnMask },
    Range { scan: SeqScan, place: PagePlace, bounds: (Bound<Tid>, Bound<Tid>) },
}

/// Place of a scan that reads page after page.
pub(super) struct PagePlace {
    /// Visible rows of the page that was read last.
    pub(super) page: PageRows,
    /// Position of the next row on the page.
    pub(super) next: usize,
    /// Columns that the scan returns.
    mask: ColumnMask,
}

impl PagePlace {
    /// Returns the place before the first page.
    pub(super) fn new(mask: ColumnMask) -> Self {
        Self { page: PageRows::new(), next: 0, mask }
    }
}

/// Returns the blocks that hold the addresses between two bounds.
pub(super) fn blocks_of(lower: &Bound<Tid>, upper: &Bound<Tid>, blocks: u32) -> Range<u32> {
    let first = match lower {
        Bound::Included(tid) | Bound::Excluded(tid) => tid.block.0,
        Bound::Unbounded => 0,
    };
    let end = match upper {
        Bound::Included(tid) | Bound::Excluded(tid) => tid.block.0.saturating_add(1),
        Bound::Unbounded => blocks,
    };
    let end = end.min(blocks);
    first.min(end)..end
}

/// Returns roughly the bytes that values hold outside of their `Datum`s.
fn large_bytes(row: &[Datum]) -> usize {
    row.iter().map(value_bytes).sum()
}

/// A table as one statement sees it.
pub(super) struct SeenTable<'s> {
    pub(super) table: &'s Table,
    pub(super) relation: &'s Relation,
    pub(super) state: &'s CatalogState,
    pub(super) transaction: &'s Transaction,
    pub(super) snapshot: &'s Snapshot,
}

impl SeenTable<'_> {
    /// Appends up to about `limit` rows of the scan to the batch. Returns false once the scan has
    /// no further row.
    pub(super) fn next_rows(
        &self,
        scan: &mut Scan,
        limit: usize,
        out: &mut RowBatch,
    ) -> Result<bool> {
        let (table, tx, snapshot) = (self.table, self.transaction, self.snapshot);
        match scan {
            Scan::Sequential { scan, place } => {
                let read = |page: &mut PageRows| scan.next_page(table, tx, snapshot, page);
                self.rows_of_pages(place, read, |_| true, limit, out)
            }
            Scan::Range { scan, place, bounds } => {
                let read = |page: &mut PageRows| scan.next_page(table, tx, snapshot, page);
                self.rows_of_pages(place, read, |root| bounds.contains(root), limit, out)
            }
            Scan::Bitmap { scan, place } => {
                let read = |page: &mut PageRows| scan.next_page(table, tx, snapshot, page);
                self.rows_of_pages(place, read, |_| true, limit, out)
            }
            Scan::Index(scan, mask) => self.rows_of_index(scan, mask, limit, out),
            Scan::Tids { tids, next, mask } => self.rows_at(tids, next, mask, limit, out),
        }
    }

    /// Appends rows of a scan by pages. `read` fills the buffer with the rows of the next page, and
    /// returns false after the last page. `wanted` selects rows by their addresses.
    #[inline]
    fn rows_of_pages(
        &self,
        place: &mut PagePlace,
        mut read: impl FnMut(&mut PageRows) -> std::result::Result<bool, TableError>,
        wanted: impl Fn(&Tid) -> bool,
        limit: usize,
        out: &mut RowBatch,
    ) -> Result<bool> {
        let width = out.width;
        let mut taken = 0;
        loop {
            while let Some(stored) = place.page.get(place.next) {
                if taken >= limit || out.large_bytes >= BATCH_BYTES {
                    return Ok(true);
                }
                place.next += 1;
                if !wanted(&stored.root) {
                    continue;
                }
                taken += 1;
                let start = out.values.len();
                out.values.resize(start + width, Datum::Null);
                let row = &mut out.values[start..];
                let deformed = self.table.deform(stored, &place.mask, row);
                out.large_bytes += deformed.map_err(|e| self.failed(e))?;
                out.tids.push(stored.root);
            }
            place.next = 0;
            if !read(&mut place.page).map_err(|e| self.failed(e))? {
                return Ok(false);
            }
        }
    }

    /// Appends rows of an index scan, and lets go of the page that it reads.
    fn rows_of_index(
        &self,
        scan: &mut IndexScan,
        mask: &ColumnMask,
        limit: usize,
        out: &mut RowBatch,
    ) -> Result<bool> {
        let width = out.width;
        for taken in 0..limit {
            let start = out.values.len();
            out.values.resize(start + width, Datum::Null);
            let row = &mut out.values[start..];
            let found = scan.next(self.table, self.transaction, self.snapshot, mask, row);
            let Some(tid) = found.map_err(|e| self.failed(e))? else {
                out.values.truncate(start);
                return Ok(false);
            };
            out.tids.push(tid);
            // The first row is not counted, because most scans find one row only.
            if taken > 0 {
                out.large_bytes += large_bytes(&out.values[start..]);
                if out.large_bytes >= BATCH_BYTES {
                    break;
                }
            }
        }
        // The caller may not ask for more rows.
        scan.pause(self.table).map_err(|e| self.failed(e))?;
        Ok(true)
    }

    /// Appends the visible rows at the addresses from position `next` on.
    fn rows_at(
        &self,
        tids: &[Tid],
        next: &mut usize,
        mask: &ColumnMask,
        limit: usize,
        out: &mut RowBatch,
    ) -> Result<bool> {
        let width = out.width;
        let mut taken = 0;
        while let Some(tid) = tids.get(*next) {
            if taken == limit || out.large_bytes >= BATCH_BYTES {
                return Ok(true);
            }
            *next += 1;
            let start = out.values.len();
            out.values.resize(start + width, Datum::Null);
            let row = &mut out.values[start..];
            let found = self.table.fetch(self.transaction, self.snapshot, *tid, mask, row);
            if found.map_err(|e| self.failed(e))? {
                out.tids.push(*tid);
                out.large_bytes += large_bytes(&out.values[start..]);
                taken += 1;
            } else {
                out.values.truncate(start);
            }
        }
        Ok(false)
    }

    fn failed(&self, error: TableError) -> SqlError {
        of_table(error, self.relation, self.state)
    }
}
