//! The changes and locks of rows that a query asks for.

use std::sync::Arc;

use niwaki_catalog::{ColumnMap, Relation};

use super::RowTriggers;
use crate::expr::Expr;
use crate::store::{LockWait, RowLock};

/// Rows that a query locks.
#[derive(Clone, Debug)]
pub(crate) struct LockTarget {
    pub(crate) relation: Arc<Relation>,
    pub(crate) start: usize,
    pub(crate) lock: RowLock,
    pub(crate) wait: LockWait,
}

/// A partition bound: new rows must belong to this partition, not to a sibling.
#[derive(Clone, Debug)]
pub(crate) struct WithinBound {
    /// The partitioned table.
    pub(crate) parent: Arc<Relation>,
    /// The partition's number among the partitions of `parent`.
    pub(crate) member: usize,
    /// Maps the columns of `parent` to the columns of the partition.
    pub(crate) columns: ColumnMap,
}

/// The rules for new rows of one leaf of a partitioned table, over the leaf's own columns.
#[derive(Clone, Debug)]
pub(crate) struct LeafRules {
    /// Generated columns with their expressions.
    pub(crate) generated: Vec<(usize, Expr)>,
    /// CHECK constraints: name, condition.
    pub(crate) checks: Vec<(String, Expr)>,
    /// The leaf's row triggers.
    pub(crate) triggers: Option<Arc<RowTriggers>>,
    /// The unique indexes that arbitrate ON CONFLICT, by their positions in the leaf's list.
    pub(crate) arbiters: Vec<usize>,
}

/// The ON CONFLICT clause of an INSERT: how a new row whose key exists is handled.
#[derive(Clone, Debug)]
pub(crate) struct ConflictPlan {
    /// The unique indexes that arbitrate, by their positions in the relation's list.
    pub(crate) arbiters: Vec<usize>,
    /// True if the statement names the conflict target.
    pub(crate) inferred: bool,
    /// DO UPDATE, or `None` for DO NOTHING.
    pub(crate) update: Option<ConflictUpdate>,
}

/// DO UPDATE. Its expressions read the input's row, whose target slots hold the existing row.
#[derive(Clone, Debug)]
pub(crate) struct ConflictUpdate {
    /// First slot of the row that INSERT proposed (`EXCLUDED`).
    pub(crate) excluded: usize,
    /// One expression for each column; `None` keeps the old value.
    pub(crate) values: Vec<Option<Expr>>,
    /// WHERE.
    pub(crate) condition: Option<Expr>,
    /// The lock that the existing row gets.
    pub(crate) lock: RowLock,
}

/// The kinds of data changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ModifyKind {
    Insert,
    Update,
    Delete,
}
