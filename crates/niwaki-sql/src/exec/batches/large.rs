//! Large values in batches.
//!
//! A batch that holds copies of rows ends by bytes too: a row of 10 MB that joins a thousand others
//! is copied a thousand times. Where all values are small, nothing is counted.

use niwaki_types::{Vector, VectorData};

use super::BATCH_ROWS;
use super::join_table::{column, slots};
use crate::exec::value_bytes;
use crate::expr::Batch;
use crate::plan::SlotRange;
use crate::store::BATCH_BYTES;

/// Total bytes of a batch's texts up to which no text is looked at by itself.
const SMALL_BYTES: usize = BATCH_BYTES / 8;
/// A row is large if its values have more bytes than this: a batch of smaller rows has a megabyte.
const ROW_BYTES: usize = 4 * BATCH_BYTES / BATCH_ROWS;

/// Bytes of a value beside its place in the vector, roughly; 0 where all have the same size.
#[inline]
pub(super) fn bytes_of(vector: &Vector, row: usize) -> usize {
    match vector.data() {
        VectorData::Text(texts) => texts.get(row).len(),
        VectorData::Any(values) => value_bytes(&values[row]),
        _ => 0,
    }
}

/// The slots of a batch that may have large values.
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

/// Bytes of a row of a batch in these slots.
#[inline]
pub(super) fn row_bytes(batch: &Batch, slots: &[usize], row: usize) -> usize {
    slots.iter().map(|slot| bytes_of(&batch.columns[*slot], row)).sum()
}

/// Whether one of the first `rows` rows of these columns is large.
pub(super) fn has_large_row<'v>(columns: impl Iterator<Item = &'v Vector>, rows: usize) -> bool {
    let columns: Vec<&Vector> = columns
        .filter(|vector| matches!(vector.data(), VectorData::Text(_) | VectorData::Any(_)))
        .collect();
    let bytes = |row: usize| columns.iter().map(|vector| bytes_of(vector, row)).sum::<usize>();
    !columns.is_empty() && (0..rows).any(|row| bytes(row) > ROW_BYTES)
}
