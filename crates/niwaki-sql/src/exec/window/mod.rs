//! Functions over windows: rows come sorted, and go on with the results behind their values.
//!
//! The rows of a [`partition`] are read as far as the current row's frame, or a function, asks for them, and kept in
//! [`rows`] as long as somebody may look back. [`frame`] says which rows the current one sees ([`distance`]: how far values
//! are apart), [`calls`] has what each function has found so far. With a frame that moves along, or that functions do not
//! look at, a partition of any size needs little memory; what must be kept is kept within `work_mem`, the rest in a file.

mod calls;
mod distance;
mod frame;
mod partition;
mod rows;

use std::sync::Arc;

use niwaki_types::Datum;

use self::calls::{CallState, Place};
use self::frame::Frames;
use self::partition::Partition;
use self::rows::Cursor;
use super::Step;
use crate::error::{Result, SqlError};
use crate::expr::Runtime;
use crate::plan::{Bound, PlanNode, WindowCalls};

/// Rows between two times of forgetting what nobody needs.
const ROWS_PER_TRIM: u64 = 64;

/// The step.
pub(super) struct WindowStep {
    plan: Arc<PlanNode>,
    partition: Option<Partition>,
    frames: Frames,
    calls: Vec<CallState>,
    /// The number of the row that is next.
    next: u64,
    cursor: Cursor,
}

impl WindowStep {
    pub(super) fn new(plan: &Arc<PlanNode>) -> Self {
        Self {
            plan: Arc::clone(plan),
            partition: None,
            frames: Frames::default(),
            calls: Vec::new(),
            next: 0,
            cursor: Cursor::default(),
        }
    }

    /// Begins with the next partition; false if there is none.
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

    /// Forgets rows that nobody needs any more.
    fn trim(&mut self, plan: &WindowCalls, row: u64) {
        let (window, frames) = (&plan.window, &self.frames);
        let calls = self.calls.iter().zip(&plan.calls);
        let mut needed = calls
            .map(|(state, (_, body))| state.needs(body, row, window, frames))
            .min()
            .map_or(row, |needed| needed.min(row));
        // Ends that are found by going on from where they were.
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
