//! Runs point statements: one row by a whole unique key, or one inserted row.
//! Point statements plan nothing, build no steps, and reuse the session's buffers.

use std::sync::Arc;

use niwaki_expr::context::{Buffers, RowSink};
use niwaki_expr::expr::{Expr, Fit, Runtime, fit};
use niwaki_expr::plan::{KeyCondition, ModifyPlan, PathPlan, PlanNode, ScanPlan};
use niwaki_expr::query::ModifyKind;
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::{Datum, KeyOrder, encode_key};

use crate::change::modify::change;
use crate::source::scan::fill_system;
use crate::step::keys::key_order;

/// A plan whose shape needs no steps.
#[derive(Clone, Debug)]
pub enum PointPlan {
    /// `SELECT … FROM t WHERE key = …`
    Select {
        /// The root step.
        root: Arc<PlanNode>,
        /// The order of the keys of the index.
        keys: Vec<KeyOrder>,
    },
    /// `UPDATE` or `DELETE … WHERE key = …`
    Change {
        /// The root step.
        root: Arc<PlanNode>,
        /// The order of the keys of the index.
        keys: Vec<KeyOrder>,
    },
    /// `INSERT INTO t VALUES (…)`, one row
    Insert {
        /// The root step.
        root: Arc<PlanNode>,
    },
}

impl PointPlan {
    /// Recognizes a point statement.
    pub fn of(root: &Arc<PlanNode>, columns: usize) -> Option<Self> {
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
    ///
    /// # Errors
    /// The errors that end the statement.
    pub fn run(&self, rt: &mut Runtime<'_, '_>, sink: &mut dyn RowSink) -> Result<u64> {
        // The buffers leave the context, so that the statement can use both at the same time.
        let mut buffers = std::mem::take(&mut rt.exec.scratch.buffers);
        let result = match self {
            Self::Select { root, keys } => select(root, keys, &mut buffers, rt, sink),
            Self::Change { root, keys } => change_one(root, keys, &mut buffers, rt, sink),
            Self::Insert { root } => insert(root, &mut buffers, rt, sink),
        };
        rt.exec.scratch.buffers = buffers;
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
    buffers: &mut Buffers,
    rt: &mut Runtime<'_, '_>,
) -> Result<bool> {
    let PathPlan::Index(path) = &scan.path else {
        return Err(SqlError::internal("a point statement without an index"));
    };
    buffers.key.clear();
    for (condition, order) in path.keys.iter().zip(keys) {
        let KeyCondition::Equal(expr) = condition else { return Ok(false) };
        let mut space = Datum::Null;
        let value = expr.eval_ref(&[], rt, &mut space)?;
        match fit(value, order.oid) {
            Fit::Value(value) => encode_key(&value, *order, &mut buffers.key),
            Fit::Below | Fit::Above | Fit::Null => return Ok(false),
        }
    }
    if buffers.row.len() < width {
        buffers.row.resize(width, Datum::Null);
    }
    let columns = scan.relation.columns.len();
    let place = &mut buffers.row[scan.start..scan.start + columns];
    let found = rt.exec.store.fetch_unique(
        &scan.relation,
        path.index,
        &buffers.key,
        &scan.columns,
        place,
    )?;
    let Some(tid) = found else { return Ok(false) };
    fill_system(scan, tid, &mut buffers.row);
    match &scan.filter {
        Some(filter) => filter.holds(&buffers.row, rt),
        None => Ok(true),
    }
}

fn give(
    exprs: &[Expr],
    buffers: &mut Buffers,
    rt: &mut Runtime<'_, '_>,
    sink: &mut dyn RowSink,
) -> Result<()> {
    buffers.output.clear();
    for expr in exprs {
        let value = expr.eval(&buffers.row, rt)?;
        buffers.output.push(value);
    }
    sink.row(&buffers.output)
}

fn select(
    root: &PlanNode,
    keys: &[KeyOrder],
    buffers: &mut Buffers,
    rt: &mut Runtime<'_, '_>,
    sink: &mut dyn RowSink,
) -> Result<u64> {
    let PlanNode::Project { input, input_width, exprs, .. } = root else {
        return Err(SqlError::internal("a point statement of another plan"));
    };
    let PlanNode::Scan(scan) = &**input else {
        return Err(SqlError::internal("a point statement without a scan"));
    };
    if !fetch(scan, keys, *input_width, buffers, rt)? {
        return Ok(0);
    }
    give(exprs, buffers, rt, sink)?;
    Ok(1)
}

fn change_one(
    root: &PlanNode,
    keys: &[KeyOrder],
    buffers: &mut Buffers,
    rt: &mut Runtime<'_, '_>,
    sink: &mut dyn RowSink,
) -> Result<u64> {
    let PlanNode::Modify(modify) = root else {
        return Err(SqlError::internal("a point statement of another plan"));
    };
    let PlanNode::Scan(scan) = &*modify.input else {
        return Err(SqlError::internal("a point statement without a scan"));
    };
    if !fetch(scan, keys, modify.input_width, buffers, rt)? {
        return Ok(0);
    }
    apply(modify, buffers, rt, sink)
}

fn insert(
    root: &PlanNode,
    buffers: &mut Buffers,
    rt: &mut Runtime<'_, '_>,
    sink: &mut dyn RowSink,
) -> Result<u64> {
    let PlanNode::Modify(modify) = root else {
        return Err(SqlError::internal("a point statement of another plan"));
    };
    if buffers.row.len() < modify.input_width {
        buffers.row.resize(modify.input_width, Datum::Null);
    }
    apply(modify, buffers, rt, sink)
}

fn apply(
    modify: &ModifyPlan,
    buffers: &mut Buffers,
    rt: &mut Runtime<'_, '_>,
    sink: &mut dyn RowSink,
) -> Result<u64> {
    if !change(modify, &mut buffers.row, &mut buffers.new, rt)? {
        return Ok(0);
    }
    if !modify.returning.is_empty() {
        give(&modify.returning, buffers, rt, sink)?;
    }
    Ok(1)
}
