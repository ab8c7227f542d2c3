//! Scans of stored tables.

use std::ops::Bound;
use std::sync::Arc;

use niwaki_expr::expr::nested::Demand;
use niwaki_expr::expr::{Expr, Runtime, Step};
use niwaki_expr::plan::{IndexPath, PathPlan, PlanNode, ScanPlan};
use niwaki_expr::store::{RowBatch, ScanEffort, ScanPath, ScanState};
use niwaki_parse::error::{Result, SqlError};
use niwaki_storage::Tid;
use niwaki_types::Datum;

use crate::step::keys::{addresses, bitmap_source, scan_keys};

/// The most rows that a scan reads ahead.
const BATCH_ROWS: usize = 1_000;
/// The most rows in the first batch of an index scan, because many callers want only a few rows.
/// Each further batch of a scan has four times as many rows as the batch before.
const FIRST_INDEX_ROWS: usize = 32;

/// The step that scans one table.
pub(crate) struct TableScan {
    plan: Arc<PlanNode>,
    demand: Demand,
    started: bool,
    state: Option<ScanState>,
    more: bool,
    batch: RowBatch,
    position: usize,
    batch_rows: usize,
    effort: ScanEffort,
}

impl TableScan {
    pub(crate) fn new(plan: &Arc<PlanNode>, demand: Demand) -> Self {
        Self {
            plan: Arc::clone(plan),
            demand,
            started: false,
            state: None,
            more: false,
            batch: RowBatch::default(),
            position: 0,
            batch_rows: BATCH_ROWS,
            effort: ScanEffort::default(),
        }
    }

    fn start(&mut self, scan: &ScanPlan, row: &[Datum], rt: &mut Runtime<'_, '_>) -> Result<()> {
        self.started = true;
        self.batch.width = scan.relation.columns.len();
        let most = match scan.path {
            PathPlan::Index(_) => FIRST_INDEX_ROWS,
            _ => BATCH_ROWS,
        };
        // A statement that takes the first job of a queue must not read thirty more rows.
        self.batch_rows = match self.demand {
            Demand::Some(wanted) => wanted.clamp(1, most),
            Demand::Around | Demand::All => most,
        };
        if let Some(path) = scan_path(scan, row, rt)? {
            self.state = Some(rt.exec.store.open_scan(&scan.relation, path, &scan.columns)?);
            self.more = true;
        }
        Ok(())
    }

    /// Reads the next batch. Returns false when nothing is left.
    fn refill(&mut self, scan: &ScanPlan, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        self.batch.clear();
        self.position = 0;
        let Some(state) = &mut self.state else { return Ok(false) };
        while self.more {
            rt.exec.environment.check_interrupts()?;
            self.more =
                rt.exec.store.next_rows(&scan.relation, state, self.batch_rows, &mut self.batch)?;
            if let Some(measures) = &mut rt.state.measures {
                let effort = rt.exec.store.scan_effort(state);
                measures.add_effort(&self.plan, self.effort, effort);
                self.effort = effort;
            }
            self.batch_rows = BATCH_ROWS.min(self.batch_rows * 4);
            if !self.batch.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Returns the path with its values, or `None` if no row can satisfy its conditions.
/// `row` has the values of surrounding rows that the scan reads.
pub(crate) fn scan_path(
    scan: &ScanPlan,
    row: &[Datum],
    rt: &mut Runtime<'_, '_>,
) -> Result<Option<ScanPath>> {
    Ok(match &scan.path {
        PathPlan::Sequential => Some(ScanPath::Sequential),
        PathPlan::Tids { value, .. } => Some(ScanPath::Tids(addresses(&value.eval(row, rt)?)?)),
        PathPlan::TidRange { lower, upper, .. } => {
            let lower = tid_bound(lower.as_ref(), row, rt)?;
            let upper = tid_bound(upper.as_ref(), row, rt)?;
            lower.zip(upper).map(|(lower, upper)| ScanPath::TidRange(lower, upper))
        }
        PathPlan::Index(path) => {
            let IndexPath { index, forward, only, .. } = *path;
            let keys = scan_keys(&scan.relation, path, row, rt)?;
            keys.map(|keys| ScanPath::Index { index, keys, forward, only })
        }
        PathPlan::Bitmap(path) => {
            let source = bitmap_source(&scan.relation, &path.plan, row, rt)?;
            let memory_bytes = rt.exec.work_mem;
            source.map(|source| ScanPath::Bitmap { source, memory_bytes })
        }
    })
}

impl Step for TableScan {
    fn next(&mut self, row: &mut Vec<Datum>, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        let plan = Arc::clone(&self.plan);
        let PlanNode::Scan(scan) = &*plan else {
            return Err(SqlError::internal("a scan of another plan"));
        };
        let width = scan.relation.columns.len();
        if row.len() < scan.start + width + 3 {
            row.resize(scan.start + width + 3, Datum::Null);
        }
        if !self.started {
            self.start(scan, row, rt)?;
        }
        loop {
            if self.position >= self.batch.len() && !self.refill(scan, rt)? {
                return Ok(false);
            }
            let position = self.position;
            self.position += 1;
            let values = &mut self.batch.values[position * width..(position + 1) * width];
            for column in scan.columns.iter() {
                row[scan.start + column] = std::mem::replace(&mut values[column], Datum::Null);
            }
            fill_system(scan, self.batch.tids[position], row);
            if let PathPlan::Bitmap(path) = &scan.path
                && let Some(recheck) = &path.recheck
                && !recheck.holds(row, rt)?
            {
                continue;
            }
            if let Some(filter) = &scan.filter
                && !filter.holds(row, rt)?
            {
                continue;
            }
            return Ok(true);
        }
    }
}

/// Writes the system columns that the plan reads.
pub(crate) fn fill_system(scan: &ScanPlan, tid: Tid, row: &mut [Datum]) {
    let first = scan.start + scan.relation.columns.len();
    if scan.system[0] {
        row[first] = Datum::Tid(tid.block.0, tid.offset.0);
    }
    if scan.system[1] {
        row[first + 1] = Datum::Oid(scan.relation.oid.0);
    }
}

fn tid_bound(
    bound: Option<&(Expr, bool)>,
    row: &[Datum],
    rt: &mut Runtime<'_, '_>,
) -> Result<Option<Bound<Tid>>> {
    let Some((expr, inclusive)) = bound else { return Ok(Some(Bound::Unbounded)) };
    Ok(match expr.eval(row, rt)? {
        Datum::Tid(block, offset) => {
            let tid = Tid::new(block, offset);
            Some(if *inclusive { Bound::Included(tid) } else { Bound::Excluded(tid) })
        }
        // Nothing compares with NULL.
        _ => None,
    })
}
