//! Window functions: sorted rows go on with the functions' results behind their values.
//!
//! The step reads the rows of a [`partition`] as far as the current row's frame or a function needs
//! them. It keeps them in [`partition_rows`] as long as a call may look back. [`frame`] finds the
//! rows that the current row's calls read ([`distance`] decides how far values are apart).
//! [`calls`] holds the state of each function.
//!
//! A partition of any size needs little memory if its frames move along, or if its functions do not
//! depend on frames. The step keeps rows within `work_mem`, and the rest in a file.

mod calls;
mod distance;
mod frame;
mod partition;
mod partition_rows;

use std::sync::Arc;

use niwaki_expr::expr::{Runtime, Step};
use niwaki_expr::plan::{PlanNode, WindowCalls};
use niwaki_expr::query::Bound;
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::Datum;

use self::calls::{CallState, Place};
use self::frame::Frames;
use self::partition::Partition;
use self::partition_rows::Cursor;

/// The number of rows between two removals of rows that no call needs.
const ROWS_PER_TRIM: u64 = 64;

/// The step that evaluates the calls over a window.
pub(crate) struct WindowStep {
    plan: Arc<PlanNode>,
    partition: Option<Partition>,
    frames: Frames,
    calls: Vec<CallState>,
    /// The number of the next row.
    next: u64,
    cursor: Cursor,
}

impl WindowStep {
    pub(crate) fn new(plan: &Arc<PlanNode>) -> Self {
        Self {
            plan: Arc::clone(plan),
            partition: None,
            frames: Frames::default(),
            calls: Vec::new(),
            next: 0,
            cursor: Cursor::default(),
        }
    }

    /// Begins with the next partition. Returns false if there is none.
    fn begin(&mut self, plan: &WindowCalls, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        let Some(partition) = &mut self.partition else { return Ok(false) };
        for (state, (_, body)) in self.calls.iter_mut().zip(&plan.calls) {
            state.reset(body, rt);
        }
        self.frames.reset();
        self.cursor.reset();
        self.next = 0;
        partition.begin(&plan.window, rt)
    }

    /// Forgets rows that no call needs any more.
    fn trim(&mut self, plan: &WindowCalls, row: u64) {
        let (window, frames) = (&plan.window, &self.frames);
        let calls = self.calls.iter().zip(&plan.calls);
        let mut needed = calls
            .map(|(state, (_, body))| state.needs(body, row, window, frames))
            .min()
            .map_or(row, |needed| needed.min(row));
        // The ends with an offset move on from their last position, so those rows are still needed.
        let framed = plan.calls.iter().any(|(_, body)| calls::sees_frame(body));
        let moves = |bound: &Bound| framed && bound.offset().is_some();
        if moves(&window.frame.start) {
            needed = needed.min(frames.head);
        }
        if moves(&window.frame.end) {
            needed = needed.min(frames.tail);
        }
        if let Some(partition) = &mut self.partition {
            partition.forget_before(needed);
        }
    }
}

impl Step for WindowStep {
    fn next(&mut self, row: &mut Vec<Datum>, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        let node = Arc::clone(&self.plan);
        let PlanNode::Window { input, plan } = &*node else {
            return Err(SqlError::internal("a window of another plan"));
        };
        let (kept, input_width, plan) = (&plan.kept, plan.input_width, &plan.over_kept);
        if self.partition.is_none() {
            self.frames.begin(&plan.window, rt)?;
            self.calls = plan.calls.iter().map(|(_, body)| CallState::new(body)).collect();
            self.partition = Some(Partition::new(input, input_width, kept, rt));
            if !self.begin(plan, rt)? {
                return Ok(false);
            }
        }
        rt.tick()?;
        let window = &plan.window;
        let Some(partition) = &mut self.partition else { return Ok(false) };
        if !partition.reach(self.next, window, rt)? && !self.begin(plan, rt)? {
            return Ok(false);
        }
        let Some(partition) = &mut self.partition else { return Ok(false) };
        let current = self.next;
        self.frames.enter(current, partition)?;
        row.clear();
        row.resize(input_width, Datum::Null);
        for (value, slot) in partition.row(&mut self.cursor, current)?.iter().zip(kept) {
            row[*slot] = value.clone();
        }
        for (state, (slot, body)) in self.calls.iter_mut().zip(&plan.calls) {
            let frames = &mut self.frames;
            let mut place = Place { row: current, window, partition: &mut *partition, frames };
            let value = state.value(body, &mut place, rt)?;
            if row.len() <= *slot {
                row.resize(*slot + 1, Datum::Null);
            }
            row[*slot] = value;
        }
        self.next = current + 1;
        if self.next.is_multiple_of(ROWS_PER_TRIM) {
            self.trim(plan, current);
        }
        Ok(true)
    }
}
