//! Returns the rows of batches one by one.

use niwaki_expr::expr::{Batch, Runtime, Step};
use niwaki_parse::error::Result;
use niwaki_types::Datum;

use super::batch_step::{BatchStep, Selection};
use super::join_table::column;

/// The step that returns a batch step's rows one by one.
pub(crate) struct SingleRows {
    step: Box<dyn BatchStep>,
    batch: Batch,
    selection: Selection,
    /// The slots for which the batch at hand has values.
    slots: Vec<usize>,
    /// The position of the next row among the rows that count.
    place: usize,
}

impl SingleRows {
    pub(super) fn new(step: Box<dyn BatchStep>) -> Self {
        let (batch, selection) = (Batch::default(), Selection::default());
        Self { step, batch, selection, slots: Vec::new(), place: 0 }
    }
}

impl Step for SingleRows {
    fn next(&mut self, row: &mut Vec<Datum>, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        while self.place >= self.selection.rows(&self.batch).len() {
            if !self.step.next(&mut self.batch, &mut self.selection, rt)? {
                return Ok(false);
            }
            self.place = 0;
            self.slots.clear();
            let width = self.batch.columns.len();
            self.slots.extend((0..width).filter(|slot| column(&self.batch, *slot).is_some()));
            if row.len() < width {
                row.resize(width, Datum::Null);
            }
        }
        let number = self.selection.rows(&self.batch).number(self.place);
        self.place += 1;
        for slot in &self.slots {
            row[*slot] = self.batch.columns[*slot].get(number);
        }
        Ok(true)
    }
}
