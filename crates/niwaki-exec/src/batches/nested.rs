//! A nested loop that looks up an index for each row of its outer batches.

use std::sync::Arc;

use niwaki_expr::expr::nested::Demand;
use niwaki_expr::expr::{Batch, Expr, Running, Runtime};
use niwaki_expr::plan::{JoinKind, JoinPlan, PathPlan, PlanNode, ScanPlan};
use niwaki_expr::query::reads_slots;
use niwaki_expr::store::BATCH_BYTES;
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::growing::value_bytes;
use niwaki_types::{Datum, Vector};

use super::batch_step::{BATCH_ROWS, BatchStep, Below, Selection, clock, given};
use super::join_table::{column, put, slots};
use super::large_values::{large_slots, row_bytes};
use crate::batches::parallel::Division;
use crate::step::start::start_for;

/// The step that runs a nested loop into an index scan.
pub(super) struct BatchNested {
    plan: Arc<PlanNode>,
    outer: Below,
    /// The outer rows at hand, and the position of the next outer row among the rows that count.
    batch: Batch,
    selection: Selection,
    place: usize,
    /// The slots of the outer rows that may have large values, and the bytes of the outer row that
    /// was begun.
    large: Vec<usize>,
    outer_bytes: usize,
    /// The rest of the scan for the outer row that was begun, and whether that row has a match.
    inner: Option<Running>,
    matched: bool,
    /// A row with the outer values that the inner side or the condition reads, and with the inner
    /// values.
    row: Vec<Datum>,
    /// The slots of those outer values.
    read: Vec<usize>,
    begun: bool,
}

/// The pairs of a batch: numbers of outer rows, and the inner values of the columns that are read.
struct Pairs {
    outer: Vec<u32>,
    inner: Vec<Vector>,
}

/// Returns the inner side, if the join can run in batches.
pub(super) fn nested_scan(join: &JoinPlan) -> Option<&ScanPlan> {
    let PlanNode::Scan(scan) = &*join.inner else { return None };
    let fits = join.inner_depends
        && join.hash.is_empty()
        && join.merge.is_empty()
        && matches!(join.kind, JoinKind::Inner | JoinKind::Left | JoinKind::Semi | JoinKind::Anti)
        && matches!(scan.path, PathPlan::Index(_))
        && !scan.system.contains(&true)
        && scan.exprs().chain(&join.condition).all(Expr::may_run_ahead);
    fits.then_some(scan)
}

/// Decides whether the outer side may have enough rows for batches to gain. An index scan usually
/// reads a few rows.
pub(super) fn has_many_rows(outer: &PlanNode) -> bool {
    match outer {
        PlanNode::Scan(scan) => matches!(scan.path, PathPlan::Sequential | PathPlan::Bitmap(_)),
        PlanNode::Append(_) => true,
        PlanNode::Filter { input, .. } | PlanNode::Gather { input, .. } => has_many_rows(input),
        PlanNode::Join(join) => has_many_rows(&join.outer),
        _ => false,
    }
}

impl BatchNested {
    pub(super) fn new(
        plan: &Arc<PlanNode>,
        join: &JoinPlan,
        scan: &ScanPlan,
        outer: Below,
    ) -> Self {
        let mut read = Vec::new();
        for expr in scan.exprs().chain(&join.condition) {
            reads_slots(expr, &mut |slot| read.push(slot));
        }
        read.sort_unstable();
        read.dedup();
        read.retain(|slot| join.outer_slots.iter().any(|range| range.contains(*slot)));
        Self {
            plan: Arc::clone(plan),
            outer,
            batch: Batch::default(),
            selection: Selection::default(),
            place: 0,
            large: Vec::new(),
            outer_bytes: 0,
            inner: None,
            matched: false,
            row: Vec::new(),
            read,
            begun: false,
        }
    }

    /// Reads the next outer rows. Returns false if there are none.
    fn next_outer(&mut self, join: &JoinPlan, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        self.place = 0;
        let more = self.outer.next(&mut self.batch, &mut self.selection, rt)?;
        self.large = large_slots(&self.batch, &join.outer_slots);
        let end = join.outer_slots.iter().chain(&join.inner_slots).map(|range| range.end).max();
        self.row.resize(end.unwrap_or(0), Datum::Null);
        Ok(more)
    }

    /// Makes pairs of the outer rows at hand, about as many as a batch has.
    fn fill(
        &mut self,
        join: &JoinPlan,
        scan: &ScanPlan,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<Pairs> {
        let inner_type = |column: usize| scan.relation.columns[column].column_type().oid;
        let vectors = scan.columns.iter().map(|column| Vector::for_type(inner_type(column)));
        let mut pairs = Pairs { outer: Vec::new(), inner: vectors.collect() };
        let rows = self.selection.rows(&self.batch);
        let mut bytes = 0;
        while pairs.outer.len() < BATCH_ROWS && bytes < BATCH_BYTES && self.place < rows.len() {
            rt.tick()?;
            let number = rows.number(self.place);
            let step = match &mut self.inner {
                Some(step) => step,
                none => {
                    for slot in &self.read {
                        if let Some(values) = column(&self.batch, *slot) {
                            self.row[*slot] = values.get(number);
                        }
                    }
                    self.matched = false;
                    self.outer_bytes = row_bytes(&self.batch, &self.large, number);
                    none.insert(start_for(&join.inner, Demand::Around, rt.state))
                }
            };
            if !step.next(&mut self.row, rt)? {
                if !self.matched && matches!(join.kind, JoinKind::Left | JoinKind::Anti) {
                    pairs.outer.push(number as u32);
                    bytes += self.outer_bytes;
                    pairs.inner.iter_mut().for_each(Vector::push_null);
                }
                self.inner = None;
                self.place += 1;
                continue;
            }
            if let Some(condition) = &join.condition
                && !condition.holds(&self.row, rt)?
            {
                continue;
            }
            self.matched = true;
            if join.kind != JoinKind::Anti {
                pairs.outer.push(number as u32);
                bytes += self.outer_bytes;
                for (values, column) in pairs.inner.iter_mut().zip(scan.columns.iter()) {
                    let value = &self.row[scan.start + column];
                    bytes += value_bytes(value);
                    values.push(value);
                }
            }
            if matches!(join.kind, JoinKind::Semi | JoinKind::Anti) {
                self.inner = None;
                self.place += 1;
            }
        }
        Ok(pairs)
    }

    fn run(
        &mut self,
        join: &JoinPlan,
        scan: &ScanPlan,
        batch: &mut Batch,
        selection: &mut Selection,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<bool> {
        while self.place >= self.selection.rows(&self.batch).len() {
            if !self.next_outer(join, rt)? {
                return Ok(false);
            }
        }
        let pairs = self.fill(join, scan, rt)?;
        for slot in slots(&join.outer_slots) {
            if let Some(values) = column(&self.batch, slot) {
                put(batch, slot, values.take(&pairs.outer));
            }
        }
        if join.kind != JoinKind::Semi {
            for (column, values) in scan.columns.iter().zip(pairs.inner) {
                put(batch, scan.start + column, values);
            }
        }
        batch.rows = pairs.outer.len();
        selection.keep_all();
        Ok(true)
    }
}

impl BatchStep for BatchNested {
    fn next(
        &mut self,
        batch: &mut Batch,
        selection: &mut Selection,
        rt: &mut Runtime<'_, '_>,
    ) -> Result<bool> {
        let plan = Arc::clone(&self.plan);
        let (PlanNode::Join(join), scan) = (&*plan, nested_of(&plan)?) else {
            return Err(SqlError::internal("a join of another plan"));
        };
        let before = clock(rt);
        let found = self.run(join, scan, batch, selection, rt)?;
        Ok(given(found, &plan, &mut self.begun, (batch, selection), before, rt))
    }

    fn divide(&mut self, division: &Arc<Division>, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        self.outer.divide(division, rt)
    }

    fn for_thread(&self) -> Option<Box<dyn BatchStep>> {
        let PlanNode::Join(join) = &*self.plan else { return None };
        let scan = nested_of(&self.plan).ok()?;
        Some(Box::new(Self::new(&self.plan, join, scan, Below::new(self.outer.for_thread()?))))
    }
}

/// Returns the inner side of a join that runs in batches.
fn nested_of(plan: &PlanNode) -> Result<&ScanPlan> {
    match plan {
        PlanNode::Join(join) => match &*join.inner {
            PlanNode::Scan(scan) => Ok(scan),
            _ => Err(SqlError::internal("a nested loop into no scan")),
        },
        _ => Err(SqlError::internal("a join of another plan")),
    }
}
