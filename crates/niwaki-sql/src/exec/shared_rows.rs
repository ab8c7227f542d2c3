//! The rows of a WITH query, computed as far as somebody has read them.
//!
//! A recursive query can have no end, and LIMIT stop reading it. So rows are computed one by one, as long as they
//! have room in memory. Those behind go to files, each with about as many rows as there were before: whoever wants
//! one more row has computed at most twice as many as he has read, and the files stay few.

use std::sync::Arc;

use niwaki_types::Datum;

use super::kept_rows::{KeptReader, KeptRows, Memory, RowKeeper};
use super::{Running, row_bytes, start};
use crate::error::Result;
use crate::expr::Runtime;
use crate::plan::SubPlan;

/// Fewest rows of a file.
const FILE_ROWS_MIN: usize = 64;

/// Rows of a WITH query, and the steps that give more.
pub(crate) struct SharedRows {
    /// `None` at the end.
    step: Option<Running>,
    rows: Memory,
    /// Bytes of those rows.
    held: usize,
    /// What comes behind them.
    files: Vec<KeptRows>,
    /// Rows in memory and in files.
    count: usize,
}

/// The state of a WITH query, which begins now unless it has begun.
fn state_of<'s>(plan: &SubPlan, rt: &'s mut Runtime<'_, '_>) -> &'s mut SharedRows {
    let state = &mut *rt.state;
    if state.shared.len() <= plan.number {
        state.shared.resize_with(plan.number + 1, || None);
    }
    let begun = state.shared[plan.number].take().unwrap_or_else(|| SharedRows {
        step: Some(start(&plan.root, state)),
        rows: Memory::default(),
        held: 0,
        files: Vec::new(),
        count: 0,
    });
    state.shared[plan.number].insert(begun)
}

/// Takes the steps of a WITH query, runs something with them on a level of their own, and puts them back if it says
/// that there are more rows. False if there were none left.
fn with_step(
    plan: &SubPlan,
    rt: &mut Runtime<'_, '_>,
    run: impl FnOnce(&mut Running, &mut Runtime<'_, '_>) -> Result<bool>,
) -> Result<bool> {
    let Some(mut step) = state_of(plan, rt).step.take() else { return Ok(false) };
    rt.state.outer.push(Vec::new());
    // CASE operands of the outer expression are not the nested query's.
    let operands = std::mem::take(&mut rt.state.case_operands);
    let more = run(&mut step, rt);
    rt.state.case_operands = operands;
    rt.state.outer.pop();
    if more? {
        state_of(plan, rt).step = Some(step);
    }
    Ok(true)
}

/// Computes more rows; false if there are none.
fn compute(plan: &SubPlan, rt: &mut Runtime<'_, '_>) -> Result<bool> {
    let (work_mem, width) = (rt.exec.work_mem, plan.columns.len());
    let state = state_of(plan, rt);
    let count = state.count;
    // What comes behind a file goes to files.
    let fits = state.files.is_empty() && state.held <= work_mem && state.rows.has_room(width);
    let in_memory = fits || rt.exec.temp.is_none();
    with_step(plan, rt, |step, rt| {
        let mut row = Vec::new();
        if in_memory {
            let more = step.next(&mut row, rt)?;
            if more {
                let row = row.get(..width).unwrap_or(&row);
                let state = state_of(plan, rt);
                // The vector may be as large again as what is in it.
                state.held += row_bytes(row) + size_of_val(row);
                state.rows.push(row);
                state.count += 1;
            }
            return Ok(more);
        }
        let mut file = RowKeeper::within(rt.exec.temp.cloned(), rt.exec.temp_chunk, 0);
        let mut more = true;
        let mut written = 0;
        while more && written < count.max(FILE_ROWS_MIN) {
            rt.tick()?;
            more = step.next(&mut row, rt)?;
            if more {
                file.push(row.get(..width).unwrap_or(&row))?;
                written += 1;
            }
        }
        let file = file.finish()?;
        let state = state_of(plan, rt);
        state.files.push(file);
        state.count += written;
        Ok(more)
    })
}

/// Runs a WITH query to its end; its rows are not read any more.
pub(super) fn run_out(plan: &SubPlan, rt: &mut Runtime<'_, '_>) -> Result<()> {
    with_step(plan, rt, |step, rt| {
        let mut row = Vec::new();
        while step.next(&mut row, rt)? {
            rt.tick()?;
        }
        Ok(false)
    })?;
    Ok(())
}

/// A place in the rows of a WITH query.
pub(super) struct SharedReader {
    plan: Arc<SubPlan>,
    /// Rows given of those in memory, and files given.
    given: usize,
    files: usize,
    file: Option<KeptReader>,
}

impl SharedReader {
    pub(super) fn new(plan: &Arc<SubPlan>) -> Self {
        Self { plan: Arc::clone(plan), given: 0, files: 0, file: None }
    }

    /// Puts the next row into `row`, which is as wide; false at the end.
    pub(super) fn next(&mut self, row: &mut [Datum], rt: &mut Runtime<'_, '_>) -> Result<bool> {
        loop {
            if let Some(file) = &mut self.file {
                if file.next(row)? {
                    return Ok(true);
                }
                self.file = None;
                self.files += 1;
            }
            let state = state_of(&self.plan, rt);
            if let Some(kept) = state.rows.row(self.given) {
                self.given += 1;
                row.iter_mut().zip(kept).for_each(|(place, value)| place.clone_from(value));
                return Ok(true);
            }
            if let Some(file) = state.files.get(self.files) {
                self.file = Some(file.read());
                continue;
            }
            if !compute(&self.plan, rt)? {
                return Ok(false);
            }
        }
    }
}
