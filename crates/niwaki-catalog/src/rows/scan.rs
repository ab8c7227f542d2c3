//! Reads of all rows of a table, for the catalog's own use.

use niwaki_table::{PageRows, Table};
use niwaki_txn::{Snapshot, Transaction};
use niwaki_types::{ColumnMask, Datum};

use crate::error::Result;

/// Calls `each` with every visible row and all its columns.
pub(crate) fn for_each_row(
    table: &Table,
    transaction: &Transaction,
    snapshot: &Snapshot,
    width: usize,
    each: &mut dyn FnMut(&[Datum]) -> Result<()>,
) -> Result<()> {
    let mut row = vec![Datum::Null; width];
    let all = ColumnMask::all(width);
    let mut page = PageRows::new();
    let mut scan = table.seq_scan(0..table.blocks()?);
    while scan.next_page(table, transaction, snapshot, &mut page)? {
        for stored in page.iter() {
            table.deform(stored, &all, &mut row)?;
            each(&row)?;
        }
    }
    Ok(())
}
