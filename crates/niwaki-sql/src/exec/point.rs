//! Runs point statements: one row by a whole unique key, or one inserted row.
//! Point statements plan nothing, build no steps, and reuse the session's buffers.

use std::sync::Arc;

use niwaki_types::{Datum, KeyOrder, encode_key};

use super::keys::key_order;
use super::modify::change;
use super::scan::fill_system;
use crate::context::{RowSink, Scratch};
use crate::error::{Result, SqlError};
use crate::expr::{Expr, Fit, Runtime, fit};
use crate::plan::{KeyCondition, ModifyPlan, PathPlan, PlanNode, ScanPlan};
use crate::query::ModifyKind;

/// A plan whose shape needs no steps.
#[derive(Clone, Debug)]
pub(crate) enum PointPlan {
    /// `SELECT … FROM t WHERE key = …`
    Select { root: Arc<PlanNode>, keys: Vec<KeyOrder> },
    /// `UPDATE` or `DELETE … WHERE key = …`
    Change { root: Arc<PlanNode>, keys: Vec<KeyOrder> },
    /// `INSERT INTO t VALUES (…)`, one row
    Insert { root: Arc<PlanNode> },
}

impl PointPlan {
    /// Recognizes a point statement.
    pub(crate) fn of(root: &Arc<PlanNode>, columns: usize) -> Option<Self> {
        match &**root {
            PlanNode::Project { input, exprs, sets, .. }
                if sets.is_empty() && exprs.len() == columns =>
            {
                let keys = point_keys(input)?;
                Some(Self::Select { root: Arc::clone(root), keys })
            }
            PlanNode::Modify(modify) if modify.kind == ModifyKind::Insert => {
                matches!(&*modify.input, PlanNode::Result)
                    .then(|| Self::Insert { root: Arc::clone(root) })
            }
            PlanNode::Modify(modify) => {
                let keys = point_keys(&modify.input)?;
                Some(Self::Change { root: Arc::clone(root), keys })
            }
            _ => None,
        }
    }

    /// Runs the statement, and returns the number of rows returned or changed.
    pub(crate) fn run(&self, rt: &mut Runtime<'_, '_>, sink: &mut dyn RowSink) -> Result<u64> {
        // The buffers leave the context, so that the statement can use both at the same time.
        let mut scratch = std::mem::take(rt.exec.scratch);
        let result = match self {
            Self::Select { root, keys } => select(root, keys, &mut scratch, rt, sink),
            Self::Change { root, keys } => change_one(root, keys, &mut scratch, rt, sink),
            Self::Insert { root } => insert(root, &mut scratch, rt, sink),
        };
        *rt.exec.scratch = scratch;
        result
    }
}

fn point_keys(input: &PlanNode) -> Option<Vec<KeyOrder>> {
    let PlanNode::Scan(scan) = input else { return None };
    if !scan.is_unique_point() {
        return None;
    }
    let PathPlan::Index(path) = &scan.path else { return None };
    Some((0..path.keys.len()).map(|column| key_order(&scan.relation, path.index, column)).collect())
}

/// Fetches the row of a unique key into the scratch row. Returns false when there is none.
fn fetch(
    scan: &ScanPlan,
    keys: &[KeyOrder],
    width: usize,
    scratch: &mut Scratch,
    rt: &mut Runtime<'_, '_>,
) -> Result<bool> {
    let PathPlan::Index(path) = &scan.path else {
        return Err(SqlError::internal("a point statement without an index"));
    };
    scratch.key.clear();
    for (condition, order) in path.keys.iter().zip(keys) {
        let KeyCondition::Equal(expr) = condition else { return Ok(false) };
        let mut space = Datum::Null;
        let value = expr.eval_ref(&[], rt, &mut space)?;
        match fit(value, order.oid) {
            Fit::Value(value) => encode_key(&value, *order, &mut scratch.key),
            Fit::Below | Fit::Above | Fit::Null => return Ok(false),
        }
    }
    if scratch.row.len() < width {
        scratch.row.resize(width, Datum::Null);
    }
    let columns = scan.relation.columns.len();
    let place = &mut scratch.row[scan.start..scan.start + columns];
    let found = rt.exec.store.fetch_unique(
        &scan.relation,
        path.index,
        &scratch.key,
        &scan.columns,
        place,
    )?;
    let Some(tid) = found else { return Ok(false) };
    fill_system(scan, tid, &mut scratch.row);
    match &scan.filter {
        Some(filter) => filter.holds(&scratch.row, rt),
        None => Ok(true),
    }
}

fn give(
    exprs: &[Expr],
    scratch: &mut Scratch,
    rt: &mut Runtime<'_, '_>,
    sink: &mut dyn RowSink,
) -> Result<()> {
    scratch.output.clear();
    for expr in exprs {
        let value = expr.eval(&scratch.row, rt)?;
        scratch.output.push(value);
    }
    sink.row(&scratch.output)
}

fn select(
    root: &PlanNode,
    keys: &[KeyOrder],
    scratch: &mut Scratch,
    rt: &mut Runtime<'_, '_>,
    sink: &mut dyn RowSink,
) -> Result<u64> {
    let PlanNode::Project { input, input_width, exprs, .. } = root else {
        return Err(SqlError::internal("a point statement of another plan"));
    };
    let PlanNode::Scan(scan) = &**input else {
        return Err(SqlError::internal("a point statement without a scan"));
    };
    if !fetch(scan, keys, *input_width, scratch, rt)? {
        return Ok(0);
    }
    give(exprs, scratch, rt, sink)?;
    Ok(1)
}

fn change_one(
    root: &PlanNode,
    keys: &[KeyOrder],
    scratch: &mut Scratch,
    rt: &mut Runtime<'_, '_>,
    sink: &mut dyn RowSink,
) -> Result<u64> {
    let PlanNode::Modify(modify) = root else {
        return Err(SqlError::internal("a point statement of another plan"));
    };
    let PlanNode::Scan(scan) = &*modify.input else {
        return Err(SqlError::internal("a point statement without a scan"));
    };
    if !fetch(scan, keys, modify.input_width, scratch, rt)? {
        return Ok(0);
    }
    apply(modify, scratch, rt, sink)
}

fn insert(
    root: &PlanNode,
    scratch: &mut Scratch,
    rt: &mut Runtime<'_, '_>,
    sink: &mut dyn RowSink,
) -> Result<u64> {
    let PlanNode::Modify(modify) = root else {
        return Err(SqlError::internal("a point statement of another plan"));
    };
    if scratch.row.len() < modify.input_width {
        scratch.row.resize(modify.input_width, Datum::Null);
    }
    apply(modify, scratch, rt, sink)
}

fn apply(
    modify: &ModifyPlan,
    scratch: &mut Scratch,
    rt: &mut Runtime<'_, '_>,
    sink: &mut dyn RowSink,
) -> Result<u64> {
    if !change(modify, &mut scratch.row, &mut scratch.new, rt)? {
        return Ok(0);
    }
    if !modify.returning.is_empty() {
        give(&modify.returning, scratch, rt, sink)?;
    }
    Ok(1)
}
