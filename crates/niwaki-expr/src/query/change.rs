//! The changes and locks of rows that a query asks for.

use std::sync::Arc;

use niwaki_catalog::{ColumnMap, Relation};
use niwaki_txn::{RowLockMode, WaitPolicy};

use super::RowTriggers;
use crate::expr::Expr;

/// Rows that a query locks.
#[derive(Clone, Debug)]
pub struct LockTarget {
    /// The table.
    pub relation: Arc<Relation>,
    /// First slot of the table.
    pub start: usize,
    /// The strength of the lock.
    pub lock: RowLockMode,
    /// The behaviour if a row is locked.
    pub wait: WaitPolicy,
}

/// A partition bound: new rows must belong to this partition, not to a sibling.
#[derive(Clone, Debug)]
pub struct WithinBound {
    /// The partitioned table.
    pub parent: Arc<Relation>,
    /// The partition's number among the partitions of `parent`.
    pub member: usize,
    /// Maps the columns of `parent` to the columns of the partition.
    pub columns: ColumnMap,
}

/// The rules for new rows of one leaf of a partitioned table, over the leaf's own columns.
#[derive(Clone, Debug)]
pub struct LeafRules {
    /// Generated columns with their expressions.
    pub generated: Vec<(usize, Expr)>,
    /// CHECK constraints: name, condition.
    pub checks: Vec<(String, Expr)>,
    /// The leaf's row triggers.
    pub triggers: Option<Arc<RowTriggers>>,
    /// The unique indexes that arbitrate ON CONFLICT, by their positions in the leaf's list.
    pub arbiters: Vec<usize>,
}

/// The ON CONFLICT clause of an INSERT: how a new row whose key exists is handled.
#[derive(Clone, Debug)]
pub struct ConflictPlan {
    /// The unique indexes that arbitrate, by their positions in the relation's list.
    pub arbiters: Vec<usize>,
    /// True if the statement names the conflict target.
    pub inferred: bool,
    /// DO UPDATE, or `None` for DO NOTHING.
    pub update: Option<ConflictUpdate>,
}

/// DO UPDATE. Its expressions read the input's row, whose target slots hold the existing row.
#[derive(Clone, Debug)]
pub struct ConflictUpdate {
    /// First slot of the row that INSERT proposed (`EXCLUDED`).
    pub excluded: usize,
    /// One expression for each column; `None` keeps the old value.
    pub values: Vec<Option<Expr>>,
    /// WHERE.
    pub condition: Option<Expr>,
    /// The lock that the existing row gets.
    pub lock: RowLockMode,
}

/// The kinds of data changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModifyKind {
    /// INSERT
    Insert,
    /// UPDATE
    Update,
    /// DELETE
    Delete,
}
