//! Plan trees, which the executor walks.
//!
//! A plan is immutable: a prepared statement keeps one plan, and many executions share it.

mod append;
mod backward;
mod called;
mod estimate;
mod function;
mod pruning;
mod scan;
mod trigger;
mod window;

use std::sync::Arc;

use niwaki_catalog::Relation;
use niwaki_env::stack::Deep;
use niwaki_types::ColumnType;

use crate::context::ColumnInfo;
use crate::expr::Expr;
use crate::query::{
    AggregateCall, ConflictPlan, GroupingSets, LeafRules, LockTarget, ModifyKind, RowTriggers,
    SetCall, SetFunction, SetKind, SlotRange, SortKey, WithinBound, has_query, is_volatile,
};

pub(crate) use append::{AppendMember, AppendPlan, SYSTEM, is_early};
pub use called::CalledFunctions;
pub(crate) use estimate::Estimate;
pub(crate) use function::{BodyStatement, FunctionBodies, FunctionBody};
pub(crate) use pruning::{key_compatible, possible_leaves};
pub(crate) use scan::{BitmapPath, BitmapPlan, IndexPath, KeyCondition, PathPlan, ScanPlan};
pub use trigger::FiredTrigger;
pub(crate) use window::{WindowCalls, WindowPlan};

/// A nested query with its own rows.
#[derive(Clone, Debug)]
pub(crate) struct SubPlan {
    /// Number in the statement, under which the executor caches the result.
    pub(crate) number: usize,
    /// The root step. `Deep`: queries that read one another are dropped recursively, one inside
    /// another.
    pub(crate) root: Deep<Arc<PlanNode>>,
    /// The estimate, kept here: otherwise a query that two others name would be walked once for
    /// each path to it.
    pub(crate) estimate: Estimate,
    pub(crate) columns: Vec<ColumnInfo>,
    /// True if the query reads rows of the queries around it.
    pub(crate) correlated: bool,
    /// Slots of the directly enclosing row that the query reads.
    pub(crate) reads: Vec<usize>,
    /// True if a second execution can give other rows.
    pub(crate) volatile: bool,
    /// Enclosing recursive queries whose working table (the newest rows) the query reads.
    pub(crate) working: Vec<usize>,
}

/// A WITH query that is materialized separately from the queries that name it (a CTE scan).
#[derive(Clone, Debug)]
pub(crate) struct WithPlan {
    pub(crate) name: String,
    pub(crate) plan: Arc<SubPlan>,
    /// True if the query changes data: the executor then runs it to completion, even if no query
    /// reads its rows.
    pub(crate) changes: bool,
}

/// A recursive WITH query.
#[derive(Clone, Debug)]
pub(crate) struct RecursivePlan {
    /// Number of the query among the statement's WITH queries.
    pub(crate) number: usize,
    /// UNION ALL: duplicate rows are kept.
    pub(crate) all: bool,
    pub(crate) left: Arc<PlanNode>,
    /// The recursive term. It runs repeatedly, each time over the rows that the previous run added.
    pub(crate) right: Arc<PlanNode>,
    pub(crate) columns: Vec<ColumnType>,
    /// Numbers of nested plans whose rows differ from run to run.
    pub(crate) dependents: Vec<usize>,
}

/// A scan of the working table: the rows that the previous run of the recursive term added.
#[derive(Clone, Debug)]
pub(crate) struct WorkingPlan {
    /// Number of the recursive query.
    pub(crate) number: usize,
    pub(crate) columns: Vec<ColumnInfo>,
    /// Expected number of rows.
    pub(crate) rows: f64,
    /// Name of the recursive query. `name` is its alias here.
    pub(crate) query: String,
    pub(crate) name: String,
    pub(crate) start: usize,
    pub(crate) filter: Option<Expr>,
}

impl PlanNode {
    /// Returns whether the rows are the same at any time. PostgreSQL computes such rows when it
    /// plans.
    pub(crate) fn is_constant(&self) -> bool {
        let constant = |expr: &Expr| !is_volatile(expr) && !has_query(expr);
        match self {
            Self::Result => true,
            Self::Project { input, exprs, sets, .. } => {
                sets.is_empty() && input.is_constant() && exprs.iter().all(constant)
            }
            Self::Filter { input, condition } => input.is_constant() && constant(condition),
            _ => false,
        }
    }
}

/// The kinds of joins, by the rows that they keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JoinKind {
    Inner,
    /// Every outer row.
    Left,
    /// Every inner row.
    Right,
    /// Every row of both.
    Full,
    /// Outer rows that have a match, once.
    Semi,
    /// Outer rows that have none.
    Anti,
}

/// An equality that joins two inputs: an expression over the outer row and one over the inner row.
/// Values of both types have the same hash.
#[derive(Clone, Debug)]
pub(crate) struct JoinKey {
    pub(crate) outer: Expr,
    pub(crate) inner: Expr,
}

/// A join of two inputs. Both inputs write their own slots of one shared row.
#[derive(Clone, Debug)]
pub(crate) struct JoinPlan {
    pub(crate) kind: JoinKind,
    pub(crate) outer: Arc<PlanNode>,
    pub(crate) inner: Arc<PlanNode>,
    /// Slots of the sides, filled with NULL where nothing matches.
    pub(crate) outer_slots: Vec<SlotRange>,
    pub(crate) inner_slots: Vec<SlotRange>,
    /// True if the inner side reads the outer row: the inner side then runs anew for each outer
    /// row.
    pub(crate) inner_depends: bool,
    /// Equalities by which the inner rows are hashed. Without any, each outer row is compared with
    /// every inner row.
    pub(crate) hash: Vec<JoinKey>,
    /// Equalities of a merge join: both inputs are sorted by them, ascending, NULLs last.
    pub(crate) merge: Vec<JoinKey>,
    /// All join conditions that no step below checks.
    pub(crate) condition: Option<Expr>,
    pub(crate) estimate: Estimate,
}

/// The recheck of a left join for a newer version of one of its rows. Where ON does not hold, the
/// slots of the right side become NULL.
#[derive(Clone, Debug)]
pub(crate) struct OuterCheck {
    pub(crate) slots: Vec<SlotRange>,
    pub(crate) on: Expr,
}

/// An INSERT, UPDATE or DELETE.
#[derive(Clone, Debug)]
pub(crate) struct ModifyPlan {
    pub(crate) kind: ModifyKind,
    pub(crate) relation: Arc<Relation>,
    /// Alias or name, for EXPLAIN.
    pub(crate) name: String,
    pub(crate) input: Arc<PlanNode>,
    /// Width of the input's row, in slots.
    pub(crate) input_width: usize,
    /// First slot of the target table in the input's row (UPDATE, DELETE).
    pub(crate) start: usize,
    /// The new row: one expression over the input's row for each column. `None` keeps the old
    /// value.
    pub(crate) values: Vec<Option<Expr>>,
    /// Generated columns with their expressions over the new row. All other columns of the new row
    /// are computed first.
    pub(crate) generated: Vec<(usize, Expr)>,
    /// CHECK constraints over the new row: name, condition.
    pub(crate) checks: Vec<(String, Expr)>,
    /// For a partition: the bounds that must contain the new row, the innermost first.
    pub(crate) bounds: Vec<WithinBound>,
    /// For a partitioned table: the rules of each leaf.
    pub(crate) leaves: Vec<LeafRules>,
    /// Conditions of views WITH CHECK OPTION over the new row: the view's name, condition.
    pub(crate) view_checks: Vec<(String, Expr)>,
    /// Row triggers.
    pub(crate) triggers: Option<Arc<RowTriggers>>,
    /// RETURNING, over the input's row with the new row in the target's slots.
    pub(crate) returning: Vec<Expr>,
    /// Conditions that a newer version of the row must satisfy, over the input's row.
    pub(crate) recheck: Option<Expr>,
    /// ON CONFLICT (INSERT).
    pub(crate) conflict: Option<ConflictPlan>,
    /// True if the command tag reports the number of changed rows.
    pub(crate) counted: bool,
}

/// A MERGE.
#[derive(Clone, Debug)]
pub(crate) struct MergePlan {
    pub(crate) relation: Arc<Relation>,
    /// Alias or name, for EXPLAIN.
    pub(crate) name: String,
    /// Rows of the source, each with the target row that it matches.
    pub(crate) input: Arc<PlanNode>,
    /// Width of the input's row, in slots.
    pub(crate) input_width: usize,
    /// First slot of the table in the input's row. The row's `ctid` is NULL where nothing matches.
    pub(crate) start: usize,
    /// Condition, over the input's row, under which a newer version of a target row still matches.
    pub(crate) recheck: Option<Expr>,
    /// The actions in their order. The first action whose condition holds is executed.
    pub(crate) actions: Vec<MergeAction>,
}

/// One WHEN clause of a MERGE.
#[derive(Clone, Debug)]
pub(crate) struct MergeAction {
    /// True for WHEN MATCHED: the action is for source rows that match a target row. False for the
    /// other source rows.
    pub(crate) matched: bool,
    pub(crate) condition: Option<Expr>,
    /// The change of the row; `None` for DO NOTHING. The executor ignores the input of this plan.
    pub(crate) change: Option<ModifyPlan>,
}

/// One step of a plan.
#[derive(Clone, Debug)]
pub(crate) enum PlanNode {
    /// One row without values.
    Result,
    Scan(ScanPlan),
    /// A partitioned table.
    Append(AppendPlan),
    Virtual {
        relation: Arc<Relation>,
        name: String,
        start: usize,
        /// A column, by its position, with the single value that the scan wants of it.
        key: Option<(usize, Expr)>,
        filter: Option<Expr>,
    },
    SubQuery {
        plan: Arc<SubPlan>,
        name: String,
        start: usize,
        filter: Option<Expr>,
    },
    /// A WITH query that is computed once (a CTE scan).
    Shared {
        plan: Arc<SubPlan>,
        /// Its name in WITH.
        query: String,
        name: String,
        start: usize,
        filter: Option<Expr>,
    },
    Function {
        function: SetFunction,
        arguments: Vec<Expr>,
        name: String,
        start: usize,
        ordinality: bool,
        filter: Option<Expr>,
    },
    /// A function that returns one value, in FROM.
    Single {
        expr: Expr,
        name: String,
        start: usize,
        ordinality: bool,
        filter: Option<Expr>,
    },
    /// Rows of expressions (VALUES), written into slots from 0 on.
    Values {
        rows: Vec<Vec<Expr>>,
    },
    Join(JoinPlan),
    Filter {
        input: Arc<PlanNode>,
        condition: Expr,
    },
    /// The inner side of a hash join, read by several threads.
    Gather {
        input: Arc<PlanNode>,
        /// Most worker threads that help the session's own thread.
        workers: usize,
    },
    /// A condition that reads no column of the rows. It is evaluated once, and lets all rows
    /// through or none.
    Gate {
        input: Arc<PlanNode>,
        condition: Expr,
    },
    Aggregate {
        input: Arc<PlanNode>,
        input_width: usize,
        groups: Vec<Expr>,
        /// Number of group expressions that the statement has. These determine the remaining ones.
        written: usize,
        sets: GroupingSets,
        calls: Vec<AggregateCall>,
        /// True if the input is sorted by the group expressions.
        sorted: bool,
        /// Most worker threads that help the session's own thread.
        workers: usize,
    },
    /// Adds the results of window functions to each row.
    Window {
        input: Arc<PlanNode>,
        plan: Box<WindowPlan>,
    },
    /// Computes a new row. With set-returning functions, computes one row for each row of the
    /// longest set.
    Project {
        input: Arc<PlanNode>,
        input_width: usize,
        exprs: Vec<Expr>,
        sets: Vec<SetCall>,
    },
    Sort {
        input: Arc<PlanNode>,
        keys: Vec<SortKey>,
        /// Number of leading keys by which the input is already sorted.
        presorted: usize,
    },
    /// The first row of each combination of the first `columns` values.
    Distinct {
        input: Arc<PlanNode>,
        columns: Vec<ColumnType>,
    },
    /// The first of several adjacent rows that are equal in these keys.
    First {
        input: Arc<PlanNode>,
        keys: Vec<Expr>,
    },
    /// The first row of each combination of keys, over slots. Rows with a NULL key are dropped.
    Unique {
        input: Arc<PlanNode>,
        keys: Vec<Expr>,
    },
    Limit {
        input: Arc<PlanNode>,
        count: Option<Expr>,
        offset: Option<Expr>,
    },
    LockRows {
        input: Arc<PlanNode>,
        targets: Vec<LockTarget>,
        /// The recheck of a newer row version: first the left joins from the inside out, then the
        /// conditions.
        outer: Vec<OuterCheck>,
        recheck: Option<Expr>,
    },
    SetOperation {
        kind: SetKind,
        all: bool,
        left: Arc<PlanNode>,
        right: Arc<PlanNode>,
        columns: Vec<ColumnType>,
    },
    Modify(Box<ModifyPlan>),
    Merge(Box<MergePlan>),
    Recursive(RecursivePlan),
    Working(WorkingPlan),
    /// A statement together with the WITH queries that are materialized separately.
    With {
        input: Arc<PlanNode>,
        queries: Vec<WithPlan>,
    },
}
