//! The interface of steps that return many rows at a time.

use std::sync::Arc;

use niwaki_env::stack;
use niwaki_expr::expr::{Batch, Expr, Rows, Runtime};
use niwaki_expr::plan::PlanNode;
use niwaki_parse::error::Result;

use super::parallel::Division;

/// The approximate number of rows in a batch, unless large values end the batch earlier
/// ([`niwaki_expr::store::BATCH_BYTES`]).
pub(crate) const BATCH_ROWS: usize = 1_024;

/// A step of a plan that returns its rows column by column.
pub(crate) trait BatchStep: Send {
    /// Puts the next rows into `batch`, and the numbers of the rows that count into `selection`.
    /// Returns false when no rows are left. In some batches no row counts.
    fn next(
        &mut self,
        batch: &mut Batch,
        selection: &mut Selection,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<bool>;

    /// Prepares the step, before its first batch, to be shared by threads.
    ///
    /// The step then reads only blocks that it takes from `division`. The call also reads what all
    /// threads need besides those blocks. Returns false if the rows cannot be divided this way; the
    /// step then returns all rows.
    fn divide(&mut self, _division: &Arc<Division>, _rt: &mut Runtime<'_, '_>) -> Result<bool> {
        Ok(false)
    }

    /// Returns the same step for another thread, once the step is [divided](BatchStep::divide).
    fn for_thread(&self) -> Option<Box<dyn BatchStep>> {
        None
    }
}

/// A batch step in the hands of its caller. Each call of the step, and its drop, first checks the
/// room on the stack.
pub(crate) struct Below(Option<Box<dyn BatchStep>>);

impl Below {
    pub(crate) fn new(step: Box<dyn BatchStep>) -> Self {
        Self(Some(step))
    }
}

impl BatchStep for Below {
    fn next(
        &mut self,
        batch: &mut Batch,
        selection: &mut Selection,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<bool> {
        match &mut self.0 {
            Some(step) => stack::deeper(|| step.next(batch, selection, rt)),
            None => Ok(false),
        }
    }

    fn divide(&mut self, division: &Arc<Division>, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        match &mut self.0 {
            Some(step) => stack::deeper(|| step.divide(division, rt)),
            None => Ok(false),
        }
    }

    fn for_thread(&self) -> Option<Box<dyn BatchStep>> {
        let step = self.0.as_ref()?;
        stack::room(0, || step.for_thread())
    }
}

impl Drop for Below {
    fn drop(&mut self) {
        let step = self.0.take();
        stack::room(0, || drop(step));
    }
}

/// The selection vector of a batch: the rows that count.
#[derive(Debug, Default)]
pub(crate) struct Selection {
    all: bool,
    rows: Vec<u32>,
}

impl Selection {
    /// Makes the set of rows with these numbers, in ascending order.
    pub(crate) fn of(rows: Vec<u32>) -> Self {
        Self { all: false, rows }
    }

    pub(crate) fn keep_all(&mut self) {
        self.all = true;
        self.rows.clear();
    }

    /// Returns the rows of this batch that count.
    pub(crate) fn rows(&self, batch: &Batch) -> Rows<'_> {
        if self.all { Rows::All(batch.rows) } else { Rows::Some(&self.rows) }
    }

    /// Keeps only the rows for which the condition holds.
    pub(crate) fn narrow(
        &mut self,
        condition: &Expr,
        batch: &Batch,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<()> {
        let mut left = Vec::new();
        condition.select(batch, self.rows(batch), &mut left, rt)?;
        (self.all, self.rows) = (false, left);
        Ok(())
    }
}

/// Reads the clock before a measured call; returns 0 if the statement is not timed.
pub(crate) fn clock(rt: &Runtime<'_, '_>) -> i64 {
    match &rt.state.measures {
        Some(measures) if measures.timing() => rt.exec.environment.clock_timestamp(),
        _ => 0,
    }
}

/// Adds the rows of a call to the step's measurements, if the statement is measured.
pub(crate) fn measure(
    node: &PlanNode,
    begun: &mut bool,
    rows: usize,
    before: i64,
    rt: &mut Runtime<'_, '_>,
) {
    let took = clock(rt) - before;
    if let Some(measures) = &mut rt.state.measures {
        measures.add_rows(node, !*begun, rows, took);
    }
    *begun = true;
}

/// Ends a call of a step. Empties the batch if the call found none, and measures the call.
pub(crate) fn given(
    found: bool,
    node: &PlanNode,
    begun: &mut bool,
    (batch, selection): (&mut Batch, &mut Selection),
    before: i64,
    rt: &mut Runtime<'_, '_>,
) -> bool {
    if !found {
        batch.rows = 0;
        selection.keep_all();
    }
    measure(node, begun, selection.rows(batch).len(), before, rt);
    found
}
