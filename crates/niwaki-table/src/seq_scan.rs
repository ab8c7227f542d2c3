//! Reading all rows, page by page.

use std::ops::Range;

use niwaki_heap::PageRows;
use niwaki_txn::{Horizon, Snapshot, Transaction};

use crate::error::Result;
use crate::stats::count;
use crate::table::Table;

/// A scan over a range of blocks. Holds no latch and no pin between calls.
#[derive(Debug)]
pub struct SeqScan {
    blocks: Range<u32>,
    /// What every snapshot sees, as of the beginning: allows hints.
    horizon: Horizon,
}

impl Table {
    /// Begins a scan of these blocks; take [`Table::blocks`] after the snapshot for all of them.
    pub fn seq_scan(&self, blocks: Range<u32>) -> SeqScan {
        count(&self.counters.seq_scans, 1);
        SeqScan { blocks, horizon: self.engine.transactions().horizon() }
    }
}

impl SeqScan {
    /// Reads the rows of the next page that the snapshot sees into `rows`; false at the end. A page
    /// without such rows gives true and none.
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
        let Some(block) = self.blocks.next() else {
            rows.clear();
            return Ok(false);
        };
        let view = tx.view(snapshot);
        table.heap().scan_page(&view, block, Some(&self.horizon), rows)?;
        count(&table.counters.seq_rows, rows.len() as u64);
        Ok(true)
    }
}
