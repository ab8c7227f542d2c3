//! Scans and filters in batches.

use std::sync::Arc;

use niwaki_expr::expr::{Batch, Runtime};
use niwaki_expr::plan::{PathPlan, PlanNode, ScanPlan};
use niwaki_expr::store::{ScanEffort, ScanPath, ScanState};
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::Vector;

use super::batch_step::{BATCH_ROWS, BatchStep, Below, Selection, clock, measure};
use super::parallel::Division;
use crate::source::scan::scan_path;

/// The step that scans a table in batches.
pub(crate) struct BatchScan {
    plan: Arc<PlanNode>,
    state: Option<ScanState>,
    /// The source of the scan's blocks, if the scan does not read all blocks.
    division: Option<Arc<Division>>,
    begun: bool,
    effort: ScanEffort,
}

impl BatchScan {
    pub(crate) fn new(plan: &Arc<PlanNode>) -> Self {
        let (plan, effort) = (Arc::clone(plan), ScanEffort::default());
        Self { plan, state: None, division: None, begun: false, effort }
    }

    /// Makes a scan that takes its blocks from a division. Returns `None` for another plan.
    pub(crate) fn divided(
        plan: &Arc<PlanNode>,
        division: &Arc<Division>,
    ) -> Option<Box<dyn BatchStep>> {
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
        selection: &mut Selection,
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
        selection.keep_all();
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
                selection.narrow(condition, batch, rt)?;
            }
        }
        Ok(true)
    }
}

impl BatchStep for BatchScan {
    fn next(
        &mut self,
        batch: &mut Batch,
        selection: &mut Selection,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<bool> {
        let plan = Arc::clone(&self.plan);
        let PlanNode::Scan(scan) = &*plan else {
            return Err(SqlError::internal("a scan of another plan"));
        };
        let before = clock(rt);
        let found = self.fill(scan, batch, selection, rt)?;
        measure(&plan, &mut self.begun, selection.rows(batch).len(), before, rt);
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
pub(crate) struct BatchFilter {
    pub(crate) plan: Arc<PlanNode>,
    pub(crate) input: Below,
    pub(crate) begun: bool,
}

impl BatchStep for BatchFilter {
    fn next(
        &mut self,
        batch: &mut Batch,
        selection: &mut Selection,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<bool> {
        let PlanNode::Filter { condition, .. } = &*self.plan else {
            return Err(SqlError::internal("a filter of another plan"));
        };
        let before = clock(rt);
        let found = self.input.next(batch, selection, rt)?;
        if found && batch.rows > 0 {
            selection.narrow(condition, batch, rt)?;
        }
        let plan = Arc::clone(&self.plan);
        measure(&plan, &mut self.begun, selection.rows(batch).len(), before, rt);
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
