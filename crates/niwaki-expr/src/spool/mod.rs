//! Rows kept for later, in memory and in temporary files, and tables of keys.

mod key_chains;
mod key_table;
mod tuplestore;

use niwaki_parse::error::{Result, SqlError};
use niwaki_table::{KeyedRow, KeyedRows};
use niwaki_types::Datum;
use niwaki_types::growing::value_bytes;

pub use key_chains::{END, KeyChains, NumberChains, grown};
pub use key_table::KeyTable;
pub use tuplestore::Memory;
pub use tuplestore::{Tuplestore, TuplestoreReader, TuplestoreWriter};

/// Returns the approximate bytes of a kept row.
#[inline]
pub fn row_bytes(row: &[Datum]) -> usize {
    row.iter().map(value_bytes).sum::<usize>() + size_of_val(row) + 24
}

/// Refuses a row that is too large for a file.
///
/// # Errors
/// `54000` for such a row.
pub fn checked<'r>(key: &'r [u8], number: u64, row: &'r [u8]) -> Result<KeyedRow<'r>> {
    let record = KeyedRow { key, number, row };
    if KeyedRows::fits(&record) {
        return Ok(record);
    }
    Err(SqlError::new("54000", "a row is too large to be sorted or hashed"))
}
