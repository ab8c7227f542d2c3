//! Sequential scans: all rows, page by page.

use std::convert::Infallible;
use std::ops::Range;

use niwaki_heap::PageRows;
use niwaki_storage::{ReadAhead, ReadStream};
use niwaki_txn::{Horizon, Snapshot, Transaction};

use crate::error::Result;
use crate::relation::count::count;
use crate::relation::table::Table;

/// A scan over a range of blocks. Holds no latch and no pin between calls.
#[derive(Debug)]
pub struct SeqScan {
    blocks: Range<u32>,
    stream: ReadStream,
    /// The horizon at the beginning of the scan: allows hints.
    horizon: Horizon,
}

impl Table {
    /// Begins a scan of these blocks. For all blocks, call [`Table::blocks`] after taking the
    /// snapshot.
    pub fn seq_scan(&self, blocks: Range<u32>) -> SeqScan {
        count(&self.counters.seq_scans, 1);
        let stream = self.heap().read_stream(ReadAhead::default());
        SeqScan { blocks, stream, horizon: self.engine.transactions().horizon() }
    }
}

impl SeqScan {
    /// Sets the read-ahead. Called before the first page.
    #[must_use]
    pub fn ahead(mut self, table: &Table, options: ReadAhead) -> Self {
        self.stream = table.heap().read_stream(options);
        self
    }

    /// Reads the rows of the next page that the snapshot sees into `rows`; returns false at the
    /// end. A page without such rows gives true, and no rows.
    ///
    /// # Errors
    /// Storage's.
    pub fn next_page(
        &mut self,
        table: &Table,
        tx: &Transaction,
        snapshot: &Snapshot,
        rows: &mut PageRows,
    ) -> Result<bool> {
        let name = &mut || Ok::<_, Infallible>(self.blocks.next());
        let Ok(Some(block)) = self.stream.next(table.engine.storage().pool(), name) else {
            rows.clear();
            return Ok(false);
        };
        let view = tx.view(snapshot);
        table.heap().scan_page(&view, block, Some(&self.horizon), rows)?;
        count(&table.counters.seq_rows, rows.len() as u64);
        Ok(true)
    }
}
