//! Collects rows that come one by one into batches.

use niwaki_expr::expr::{Batch, Running, Runtime};
use niwaki_expr::query::SlotRange;
use niwaki_expr::store::BATCH_BYTES;
use niwaki_parse::error::Result;
use niwaki_types::growing::value_bytes;
use niwaki_types::{Datum, Vector};

use super::batch_step::{BATCH_ROWS, BatchStep, Selection};

/// The step that returns another step's rows in batches.
pub(super) struct RowBatches {
    step: Running,
    /// The slots of the other step's rows.
    slots: Vec<SlotRange>,
    row: Vec<Datum>,
    done: bool,
}

impl RowBatches {
    pub(super) fn new(step: Running, slots: Vec<SlotRange>) -> Self {
        Self { step, slots, row: Vec::new(), done: false }
    }
}

impl BatchStep for RowBatches {
    fn next(
        &mut self,
        batch: &mut Batch,
        selection: &mut Selection,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<bool> {
        let width = self.slots.iter().map(|range| range.end).max().unwrap_or(0);
        self.row.resize(width.max(self.row.len()), Datum::Null);
        let mut columns: Vec<Vec<Datum>> = vec![Vec::new(); width];
        let (mut count, mut bytes) = (0, 0);
        while count < BATCH_ROWS && bytes < BATCH_BYTES && !self.done {
            if !self.step.next(&mut self.row, rt)? {
                self.done = true;
                break;
            }
            rt.tick()?;
            count += 1;
            for slot in self.slots.iter().flat_map(|range| range.start..range.end) {
                let value = self.row.get(slot).cloned().unwrap_or(Datum::Null);
                bytes += value_bytes(&value);
                columns[slot].push(value);
            }
        }
        if batch.columns.len() < width {
            batch.columns.resize_with(width, Vector::default);
        }
        for slot in self.slots.iter().flat_map(|range| range.start..range.end) {
            batch.columns[slot] = Vector::from_values(&columns[slot]);
        }
        batch.rows = count;
        selection.keep_all();
        Ok(count > 0)
    }
}
