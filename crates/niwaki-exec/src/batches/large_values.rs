//! Accounts for large values in batches.
//!
//! Bytes too limit a batch that holds copies of rows. A row of 10 MB that joins a thousand other
//! rows would be copied a thousand times. If all values are small, nothing is counted.

use niwaki_expr::expr::Batch;
use niwaki_expr::query::SlotRange;
use niwaki_expr::store::BATCH_BYTES;
use niwaki_types::growing::value_bytes;
use niwaki_types::{Vector, VectorData};

use super::batch_step::BATCH_ROWS;
use super::join_table::{column, slots};

/// The total bytes of a batch's texts below which no single text is examined.
const SMALL_BYTES: usize = BATCH_BYTES / 8;
/// The most bytes of a row's values before the row is large. A full batch of smaller rows has at
/// most 1 MB.
const ROW_BYTES: usize = 4 * BATCH_BYTES / BATCH_ROWS;

/// Returns the approximate bytes of a value outside its slot in the vector; 0 for types of a fixed
/// size.
#[inline]
pub(super) fn bytes_of(vector: &Vector, row: usize) -> usize {
    match vector.data() {
        VectorData::Text(texts) => texts.get(row).len(),
        VectorData::Any(values) => value_bytes(&values[row]),
        _ => 0,
    }
}

/// Returns the slots of a batch that may have large values.
pub(super) fn large_slots(batch: &Batch, ranges: &[SlotRange]) -> Vec<usize> {
    let may_be_large = |slot: &usize| {
        column(batch, *slot).is_some_and(|vector| match vector.data() {
            VectorData::Text(texts) => texts.bytes() > SMALL_BYTES,
            VectorData::Any(_) => true,
            _ => false,
        })
    };
    slots(ranges).filter(may_be_large).collect()
}

/// Returns the bytes of a batch's row in these slots.
#[inline]
pub(super) fn row_bytes(batch: &Batch, slots: &[usize], row: usize) -> usize {
    slots.iter().map(|slot| bytes_of(&batch.columns[*slot], row)).sum()
}

/// Decides whether one of the first `rows` rows of these columns is large.
pub(super) fn has_large_row<'v>(columns: impl Iterator<Item = &'v Vector>, rows: usize) -> bool {
    let columns: Vec<&Vector> = columns
        .filter(|vector| matches!(vector.data(), VectorData::Text(_) | VectorData::Any(_)))
        .collect();
    let bytes = |row: usize| columns.iter().map(|vector| bytes_of(vector, row)).sum::<usize>();
    !columns.is_empty() && (0..rows).any(|row| bytes(row) > ROW_BYTES)
}
