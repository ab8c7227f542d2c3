//! The rows of a WITH query, computed only as far as its readers have read.
//!
//! A recursive query may have no end, and LIMIT may stop reading it. So the rows are computed one
//! by one as long as there is room in memory. Later rows go to files. Each file has about as many
//! rows as all rows before it. A reader that wants one more row thus computes at most twice as many
//! rows as it has read, and the files stay few.

use niwaki_parse::error::Result;
use niwaki_types::Datum;

use super::start;
use crate::expr::{Running, Runtime};
use crate::plan::{SealedPlan, SubPlan};
use crate::spool::{Memory, Tuplestore, TuplestoreReader, TuplestoreWriter, row_bytes};

/// The least number of rows of a file.
const FILE_ROWS_MIN: usize = 64;

/// Rows of a WITH query, and the step that returns more rows.
pub(crate) struct SharedRows {
    /// The step; `None` once the query has ended.
    step: Option<Running>,
    rows: Memory,
    /// Bytes of the rows in memory.
    held: usize,
    /// The files with the rows behind those in memory.
    files: Vec<Tuplestore>,
    /// The number of rows in memory and in files.
    count: usize,
}

/// Returns the state of a WITH query, and begins the query if it has not begun.
fn state_of<'s>(plan: &SubPlan, rt: &'s mut Runtime<'_, '_>) -> Result<&'s mut SharedRows> {
    let state = &mut *rt.state;
    if state.shared.len() <= plan.number {
        state.shared.resize_with(plan.number + 1, || None);
    }
    let begun = match state.shared[plan.number].take() {
        Some(begun) => begun,
        None => SharedRows {
            step: Some(start(plan, state)?),
            rows: Memory::default(),
            held: 0,
            files: Vec::new(),
            count: 0,
        },
    };
    Ok(state.shared[plan.number].insert(begun))
}

/// Takes the step of a WITH query, and calls `run` with the step on a query level of its own. Puts
/// the step back if `run` reports more rows. Returns false if the query had ended.
fn with_step(
    plan: &SubPlan,
    rt: &mut Runtime<'_, '_>,
    run: impl FnOnce(&mut Running, &mut Runtime<'_, '_>) -> Result<bool>,
) -> Result<bool> {
    let Some(mut step) = state_of(plan, rt)?.step.take() else { return Ok(false) };
    rt.state.outer.push(Vec::new());
    // The CASE operands of the outer expression do not belong to the nested query.
    let operands = std::mem::take(&mut rt.state.case_operands);
    let more = run(&mut step, rt);
    rt.state.case_operands = operands;
    rt.state.outer.pop();
    if more? {
        state_of(plan, rt)?.step = Some(step);
    }
    Ok(true)
}

/// Computes more rows. Returns false if the query has ended.
fn compute(plan: &SubPlan, rt: &mut Runtime<'_, '_>) -> Result<bool> {
    let (work_mem, width) = (rt.exec.work_mem, plan.columns.len());
    let state = state_of(plan, rt)?;
    let count = state.count;
    // Rows behind a file go to files too.
    let fits = state.files.is_empty() && state.held <= work_mem && state.rows.has_room(width);
    let in_memory = fits || rt.exec.temp.is_none();
    with_step(plan, rt, |step, rt| {
        let mut row = Vec::new();
        if in_memory {
            let more = step.next(&mut row, rt)?;
            if more {
                let row = row.get(..width).unwrap_or(&row);
                let state = state_of(plan, rt)?;
                // A vector may have twice the capacity that its rows need.
                state.held += row_bytes(row) + size_of_val(row);
                state.rows.push(row);
                state.count += 1;
            }
            return Ok(more);
        }
        let mut file = TuplestoreWriter::within(rt.exec.temp.cloned(), rt.exec.temp_chunk, 0);
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
        let state = state_of(plan, rt)?;
        state.files.push(file);
        state.count += written;
        Ok(more)
    })
}

/// Runs a WITH query to its end. Nothing reads the query's rows afterwards.
///
/// # Errors
/// The errors of the query.
pub fn run_out(plan: &SubPlan, rt: &mut Runtime<'_, '_>) -> Result<()> {
    with_step(plan, rt, |step, rt| {
        let mut row = Vec::new();
        while step.next(&mut row, rt)? {
            rt.tick()?;
        }
        Ok(false)
    })?;
    Ok(())
}

/// A reading position in the rows of a WITH query.
pub struct SharedReader {
    plan: SealedPlan,
    /// The number of rows read from memory, and the number of files read.
    given: usize,
    files: usize,
    file: Option<TuplestoreReader>,
}

impl SharedReader {
    /// Begins to read the rows of a plan.
    pub fn new(plan: &SealedPlan) -> Self {
        Self { plan: plan.clone(), given: 0, files: 0, file: None }
    }

    /// Puts the next row into `row`, which has the row's width. Returns false at the end.
    ///
    /// # Errors
    /// The errors of the query, and of temporary files.
    pub fn next(&mut self, row: &mut [Datum], rt: &mut Runtime<'_, '_>) -> Result<bool> {
        loop {
            if let Some(file) = &mut self.file {
                if file.next(row)? {
                    return Ok(true);
                }
                self.file = None;
                self.files += 1;
            }
            let state = state_of(&self.plan, rt)?;
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
