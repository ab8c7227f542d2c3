//! Steps that return many rows at a time.

mod append;
mod join;
mod join_table;
mod large;
mod nested;
mod rows;
mod single;

use std::sync::Arc;

use niwaki_env::stack;
use niwaki_expr::expr::{Batch, Expr, Rows, Runtime};
use niwaki_expr::plan::{PathPlan, PlanNode, ScanPlan};
use niwaki_expr::store::{ScanEffort, ScanPath, ScanState};
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::Vector;

use self::append::BatchAppend;
use self::join::{BatchJoin, joins_in_batches};
use self::nested::{BatchNested, has_many_rows, nested_scan};
use self::single::SingleRows;
use super::parallel::Division;
use super::scan::scan_path;

/// The approximate number of rows in a batch, unless large values end the batch earlier
/// ([`niwaki_expr::store::BATCH_BYTES`]).
const BATCH_ROWS: usize = 1_024;

/// A step of a plan that returns its rows column by column.
pub(super) trait BatchStep: Send {
    /// Puts the next rows into `batch`, and the numbers of the rows that count into `kept`. Returns
    /// false when no rows are left. In some batches no row counts.
    fn next(
        &mut self,
        batch: &mut Batch,
        kept: &mut Kept,
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
pub(super) struct Below(Option<Box<dyn BatchStep>>);

impl Below {
    fn new(step: Box<dyn BatchStep>) -> Self {
        Self(Some(step))
    }
}

impl BatchStep for Below {
    fn next(
        &mut self,
        batch: &mut Batch,
        kept: &mut Kept,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<bool> {
        match &mut self.0 {
            Some(step) => stack::deeper(|| step.next(batch, kept, rt)),
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

/// The rows of a batch that count.
#[derive(Debug, Default)]
pub(super) struct Kept {
    all: bool,
    rows: Vec<u32>,
}

impl Kept {
    /// Makes the set of rows with these numbers, in ascending order.
    fn of(rows: Vec<u32>) -> Self {
        Self { all: false, rows }
    }

    fn keep_all(&mut self) {
        self.all = true;
        self.rows.clear();
    }

    /// Returns the rows of this batch that count.
    pub(super) fn rows(&self, batch: &Batch) -> Rows<'_> {
        if self.all { Rows::All(batch.rows) } else { Rows::Some(&self.rows) }
    }

    /// Keeps only the rows for which the condition holds.
    fn narrow(&mut self, condition: &Expr, batch: &Batch, rt: &mut Runtime<'_, '_>) -> Result<()> {
        let mut left = Vec::new();
        condition.select(batch, self.rows(batch), &mut left, rt)?;
        (self.all, self.rows) = (false, left);
        Ok(())
    }
}

/// Starts a plan whose rows can come in batches. Returns `None` if they cannot.
pub(super) fn start(plan: &Arc<PlanNode>) -> Option<Box<dyn BatchStep>> {
    stack::room(0, || start_here(plan))
}

fn start_here(plan: &Arc<PlanNode>) -> Option<Box<dyn BatchStep>> {
    match &**plan {
        PlanNode::Scan(scan) if scans_in_batches(scan) => Some(Box::new(BatchScan::new(plan))),
        PlanNode::Append(append) => Some(Box::new(BatchAppend::new(plan, append)?)),
        PlanNode::Gather { input, .. } => start(input),
        PlanNode::Filter { input, condition } if condition.may_run_ahead() => {
            let input = Below::new(start(input)?);
            Some(Box::new(BatchFilter { plan: Arc::clone(plan), input, begun: false }))
        }
        PlanNode::Join(join) if joins_in_batches(join) => {
            Some(Box::new(BatchJoin::new(plan, Below::new(start(&join.outer)?))))
        }
        PlanNode::Join(join) if has_many_rows(&join.outer) => {
            let scan = nested_scan(join)?;
            Some(Box::new(BatchNested::new(plan, join, scan, Below::new(start(&join.outer)?))))
        }
        _ => None,
    }
}

/// Starts a plan in batches for a caller that takes rows one by one. Returns `None` where batches
/// gain nothing. Only a condition or a join makes up for the cost of taking rows apart and putting
/// them together again.
pub(super) fn start_rows(plan: &Arc<PlanNode>) -> Option<SingleRows> {
    let gains = match &**plan {
        PlanNode::Scan(scan) => scan.filter.is_some() && matches!(scan.path, PathPlan::Sequential),
        PlanNode::Filter { .. } => true,
        // A nested loop makes single rows itself.
        PlanNode::Join(join) => !join.hash.is_empty(),
        _ => false,
    };
    if gains { start(plan).map(SingleRows::new) } else { None }
}

/// Decides whether a scan may run ahead of the use of its rows.
fn scans_in_batches(scan: &ScanPlan) -> bool {
    // Vectors cannot hold the rows' addresses.
    !scan.system.contains(&true) && scan.filter.as_ref().is_none_or(Expr::may_run_ahead)
}

/// Reads the clock before a measured call; returns 0 if the statement is not timed.
fn clock(rt: &Runtime<'_, '_>) -> i64 {
    match &rt.state.measures {
        Some(measures) if measures.timing() => rt.exec.environment.clock_timestamp(),
        _ => 0,
    }
}

/// Adds the rows of a call to the step's measurements, if the statement is measured.
fn measure(node: &PlanNode, begun: &mut bool, rows: usize, before: i64, rt: &mut Runtime<'_, '_>) {
    let took = clock(rt) - before;
    if let Some(measures) = &mut rt.state.measures {
        measures.add_rows(node, !*begun, rows, took);
    }
    *begun = true;
}

/// Ends a call of a step. Empties the batch if the call found none, and measures the call.
fn given(
    found: bool,
    node: &PlanNode,
    begun: &mut bool,
    (batch, kept): (&mut Batch, &mut Kept),
    before: i64,
    rt: &mut Runtime<'_, '_>,
) -> bool {
    if !found {
        batch.rows = 0;
        kept.keep_all();
    }
    measure(node, begun, kept.rows(batch).len(), before, rt);
    found
}

/// The step that scans a table in batches.
struct BatchScan {
    plan: Arc<PlanNode>,
    state: Option<ScanState>,
    /// The source of the scan's blocks, if the scan does not read all blocks.
    division: Option<Arc<Division>>,
    begun: bool,
    effort: ScanEffort,
}

impl BatchScan {
    fn new(plan: &Arc<PlanNode>) -> Self {
        let (plan, effort) = (Arc::clone(plan), ScanEffort::default());
        Self { plan, state: None, division: None, begun: false, effort }
    }

    /// Makes a scan that takes its blocks from a division. Returns `None` for another plan.
    fn divided(plan: &Arc<PlanNode>, division: &Arc<Division>) -> Option<Box<dyn BatchStep>> {
        let PlanNode::Scan(_) = &**plan else { return None };
        Some(Box::new(Self { division: Some(Arc::clone(division)), ..Self::new(plan) }))
    }

    /// Opens the next part of the scan. Returns false if there is none.
    fn open(&mut self, scan: &ScanPlan, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        let path = match &self.division {
            Some(division) => division.take().map(ScanPath::Blocks),
            None if self.begun => None,
            None => scan_path(scan, &[], rt)?,
        };
        let Some(path) = path else { return Ok(false) };
        self.state = Some(rt.exec.store.open_scan(&scan.relation, path, &scan.columns)?);
        self.effort = ScanEffort::default();
        Ok(true)
    }

    fn fill(
        &mut self,
        scan: &ScanPlan,
        batch: &mut Batch,
        kept: &mut Kept,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<bool> {
        let width = scan.relation.columns.len();
        if batch.columns.len() < scan.start + width {
            batch.columns.resize_with(scan.start + width, Vector::default);
        }
        let columns = &mut batch.columns[scan.start..scan.start + width];
        for column in scan.columns.iter() {
            let oid = scan.relation.columns[column].column_type().oid;
            if self.begun {
                columns[column].clear(oid);
            } else {
                columns[column] = Vector::for_type(oid);
            }
        }
        batch.rows = 0;
        kept.keep_all();
        if self.state.is_none() && !self.open(scan, rt)? {
            return Ok(false);
        }
        let Some(state) = &mut self.state else { return Ok(false) };
        rt.check_interrupts()?;
        let (rows, more) = rt.exec.store.next_vectors(
            &scan.relation,
            state,
            &scan.columns,
            BATCH_ROWS,
            columns,
        )?;
        batch.rows = rows;
        if let Some(measures) = &mut rt.state.measures {
            let effort = rt.exec.store.scan_effort(state);
            measures.add_effort(&self.plan, self.effort, effort);
            self.effort = effort;
        }
        if !more {
            self.state = None;
        }
        let recheck = match &scan.path {
            PathPlan::Bitmap(path) => path.recheck.as_ref(),
            _ => None,
        };
        if batch.rows > 0 {
            for condition in recheck.into_iter().chain(&scan.filter) {
                kept.narrow(condition, batch, rt)?;
            }
        }
        Ok(true)
    }
}

impl BatchStep for BatchScan {
    fn next(
        &mut self,
        batch: &mut Batch,
        kept: &mut Kept,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<bool> {
        let plan = Arc::clone(&self.plan);
        let PlanNode::Scan(scan) = &*plan else {
            return Err(SqlError::internal("a scan of another plan"));
        };
        let before = clock(rt);
        let found = self.fill(scan, batch, kept, rt)?;
        measure(&plan, &mut self.begun, kept.rows(batch).len(), before, rt);
        Ok(found)
    }

    fn divide(&mut self, division: &Arc<Division>, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        let PlanNode::Scan(scan) = &*self.plan else { return Ok(false) };
        if !matches!(scan.path, PathPlan::Sequential) {
            return Ok(false);
        }
        division.begin(rt.exec.store.blocks(&scan.relation)?);
        self.division = Some(Arc::clone(division));
        Ok(true)
    }

    fn for_thread(&self) -> Option<Box<dyn BatchStep>> {
        Self::divided(&self.plan, self.division.as_ref()?)
    }
}

/// The step that keeps the rows for which a condition holds.
struct BatchFilter {
    plan: Arc<PlanNode>,
    input: Below,
    begun: bool,
}

impl BatchStep for BatchFilter {
    fn next(
        &mut self,
        batch: &mut Batch,
        kept: &mut Kept,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<bool> {
        let PlanNode::Filter { condition, .. } = &*self.plan else {
            return Err(SqlError::internal("a filter of another plan"));
        };
        let before = clock(rt);
        let found = self.input.next(batch, kept, rt)?;
        if found && batch.rows > 0 {
            kept.narrow(condition, batch, rt)?;
        }
        let plan = Arc::clone(&self.plan);
        measure(&plan, &mut self.begun, kept.rows(batch).len(), before, rt);
        Ok(found)
    }

    fn divide(&mut self, division: &Arc<Division>, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        self.input.divide(division, rt)
    }

    fn for_thread(&self) -> Option<Box<dyn BatchStep>> {
        let plan = Arc::clone(&self.plan);
        let input = Below::new(self.input.for_thread()?);
        Some(Box::new(Self { plan, input, begun: false }))
    }
}
