//! Plan trees, which the executor walks.
//!
//! A plan is immutable: a prepared statement keeps one plan, and many executions share it.

mod append;
mod backward;
mod called;
mod constant;
mod estimate;
mod function_body;
mod pruning;
mod scan;
mod window_plan;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use niwaki_catalog::Relation;
use niwaki_env::stack::Deep;
use niwaki_types::ColumnType;

use crate::context::ColumnInfo;
use crate::expr::Expr;
use crate::query::{
    AggregateCall, ConflictPlan, GroupingSets, LeafRules, LockTarget, ModifyKind, RowTriggers,
    SetCall, SetFunction, SetKind, SlotRange, SortKey, WithinBound,
};

pub use append::{AppendMember, AppendPlan, SYSTEM, is_early};
pub use called::CalledFunctions;
pub use estimate::Estimate;
pub use function_body::{BodyStatement, FunctionBodies, FunctionBody};
pub use pruning::{key_compatible, possible_leaves};
pub use scan::{BitmapPath, BitmapPlan, IndexPath, KeyCondition, PathPlan, ScanPlan};
pub use window_plan::{WindowCalls, WindowPlan};

/// A nested query with its own rows.
#[derive(Clone, Debug)]
pub struct SubPlan {
    /// Number in the statement, under which the executor caches the result.
    pub number: usize,
    /// The root step. `Deep`: queries that read one another are dropped recursively, one inside
    /// another.
    pub root: Deep<Arc<PlanNode>>,
    /// The estimate, kept here: otherwise a query that two others name would be walked once for
    /// each path to it.
    pub estimate: Estimate,
    /// The columns of the rows.
    pub columns: Vec<ColumnInfo>,
    /// True if the query reads rows of the queries around it.
    pub correlated: bool,
    /// Slots of the directly enclosing row that the query reads.
    pub reads: Vec<usize>,
    /// True if a second execution can give other rows.
    pub volatile: bool,
    /// Enclosing recursive queries whose working table (the newest rows) the query reads.
    pub working: Vec<usize>,
}

/// The owner of a plan, which knows how to drop it.
trait PlanOwner: Send + Sync {
    fn plan(&self) -> &SubPlan;
}

impl PlanOwner for SubPlan {
    fn plan(&self) -> &SubPlan {
        self
    }
}

/// The plan of a nested query, which several expressions share. As with `SealedQuery`, the code
/// that drops it is made here alone.
#[derive(Clone)]
pub struct SealedPlan(Arc<dyn PlanOwner>);

impl SealedPlan {
    /// Keeps a plan.
    #[inline(never)]
    pub fn new(plan: SubPlan) -> Self {
        Self(Arc::new(plan))
    }

    /// Returns whether both are one plan.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Deref for SealedPlan {
    type Target = SubPlan;

    fn deref(&self) -> &SubPlan {
        self.0.plan()
    }
}

impl fmt::Debug for SealedPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedPlan").field("number", &self.number).finish_non_exhaustive()
    }
}

/// A WITH query that is materialized separately from the queries that name it (a CTE scan).
#[derive(Clone, Debug)]
pub struct WithPlan {
    /// The name of the query.
    pub name: String,
    /// The plan of the query.
    pub plan: SealedPlan,
    /// True if the query changes data: the executor then runs it to completion, even if no query
    /// reads its rows.
    pub changes: bool,
}

/// A recursive WITH query.
#[derive(Clone, Debug)]
pub struct RecursivePlan {
    /// Number of the query among the statement's WITH queries.
    pub number: usize,
    /// UNION ALL: duplicate rows are kept.
    pub all: bool,
    /// The first term.
    pub left: Arc<PlanNode>,
    /// The recursive term. It runs repeatedly, each time over the rows that the previous run added.
    pub right: Arc<PlanNode>,
    /// The columns of the rows.
    pub columns: Vec<ColumnType>,
    /// Numbers of nested plans whose rows differ from run to run.
    pub dependents: Vec<usize>,
}

/// A scan of the working table: the rows that the previous run of the recursive term added.
#[derive(Clone, Debug)]
pub struct WorkingPlan {
    /// Number of the recursive query.
    pub number: usize,
    /// The columns of the rows.
    pub columns: Vec<ColumnInfo>,
    /// Expected number of rows.
    pub rows: f64,
    /// Name of the recursive query. `name` is its alias here.
    pub query: String,
    /// The alias.
    pub name: String,
    /// First slot of the columns.
    pub start: usize,
    /// The condition on the rows.
    pub filter: Option<Expr>,
}

/// The kinds of joins, by the rows that they keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinKind {
    /// Pairs of rows that match.
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
pub struct JoinKey {
    /// The expression over the outer row.
    pub outer: Expr,
    /// The expression over the inner row.
    pub inner: Expr,
}

/// A join of two inputs. Both inputs write their own slots of one shared row.
#[derive(Clone, Debug)]
pub struct JoinPlan {
    /// The kind of join.
    pub kind: JoinKind,
    /// The outer input.
    pub outer: Arc<PlanNode>,
    /// The inner input.
    pub inner: Arc<PlanNode>,
    /// Slots of the sides, filled with NULL where nothing matches.
    pub outer_slots: Vec<SlotRange>,
    /// Slots of the inner side.
    pub inner_slots: Vec<SlotRange>,
    /// True if the inner side reads the outer row: the inner side then runs anew for each outer
    /// row.
    pub inner_depends: bool,
    /// Equalities by which the inner rows are hashed. Without any, each outer row is compared with
    /// every inner row.
    pub hash: Vec<JoinKey>,
    /// Equalities of a merge join: both inputs are sorted by them, ascending, NULLs last.
    pub merge: Vec<JoinKey>,
    /// All join conditions that no step below checks.
    pub condition: Option<Expr>,
    /// The estimate.
    pub estimate: Estimate,
}

/// The recheck of a left join for a newer version of one of its rows. Where ON does not hold, the
/// slots of the right side become NULL.
#[derive(Clone, Debug)]
pub struct OuterCheck {
    /// The slots of the right side.
    pub slots: Vec<SlotRange>,
    /// The ON condition.
    pub on: Expr,
}

/// An INSERT, UPDATE or DELETE.
#[derive(Clone, Debug)]
pub struct ModifyPlan {
    /// The kind of change.
    pub kind: ModifyKind,
    /// The table.
    pub relation: Arc<Relation>,
    /// Alias or name, for EXPLAIN.
    pub name: String,
    /// The rows to insert, or the rows to change.
    pub input: Arc<PlanNode>,
    /// Width of the input's row, in slots.
    pub input_width: usize,
    /// First slot of the target table in the input's row (UPDATE, DELETE).
    pub start: usize,
    /// The new row: one expression over the input's row for each column. `None` keeps the old
    /// value.
    pub values: Vec<Option<Expr>>,
    /// Generated columns with their expressions over the new row. All other columns of the new row
    /// are computed first.
    pub generated: Vec<(usize, Expr)>,
    /// CHECK constraints over the new row: name, condition.
    pub checks: Vec<(String, Expr)>,
    /// For a partition: the bounds that must contain the new row, the innermost first.
    pub bounds: Vec<WithinBound>,
    /// For a partitioned table: the rules of each leaf.
    pub leaves: Vec<LeafRules>,
    /// Conditions of views WITH CHECK OPTION over the new row: the view's name, condition.
    pub view_checks: Vec<(String, Expr)>,
    /// Row triggers.
    pub triggers: Option<Arc<RowTriggers>>,
    /// RETURNING, over the input's row with the new row in the target's slots.
    pub returning: Vec<Expr>,
    /// Conditions that a newer version of the row must satisfy, over the input's row.
    pub recheck: Option<Expr>,
    /// ON CONFLICT (INSERT).
    pub conflict: Option<ConflictPlan>,
    /// True if the command tag reports the number of changed rows.
    pub counted: bool,
}

/// A MERGE.
#[derive(Clone, Debug)]
pub struct MergePlan {
    /// The table.
    pub relation: Arc<Relation>,
    /// Alias or name, for EXPLAIN.
    pub name: String,
    /// Rows of the source, each with the target row that it matches.
    pub input: Arc<PlanNode>,
    /// Width of the input's row, in slots.
    pub input_width: usize,
    /// First slot of the table in the input's row. The row's `ctid` is NULL where nothing matches.
    pub start: usize,
    /// Condition, over the input's row, under which a newer version of a target row still matches.
    pub recheck: Option<Expr>,
    /// The actions in their order. The first action whose condition holds is executed.
    pub actions: Vec<MergeAction>,
}

/// One WHEN clause of a MERGE.
#[derive(Clone, Debug)]
pub struct MergeAction {
    /// True for WHEN MATCHED: the action is for source rows that match a target row. False for the
    /// other source rows.
    pub matched: bool,
    /// The condition of the clause.
    pub condition: Option<Expr>,
    /// The change of the row; `None` for DO NOTHING. The executor ignores the input of this plan.
    pub change: Option<ModifyPlan>,
}

/// One step of a plan.
#[derive(Clone, Debug)]
pub enum PlanNode {
    /// One row without values.
    Result,
    /// A scan of a stored table.
    Scan(ScanPlan),
    /// A partitioned table.
    Append(AppendPlan),
    /// A scan of a system view.
    Virtual {
        /// The system view.
        relation: Arc<Relation>,
        /// Alias or name.
        name: String,
        /// First slot of the columns.
        start: usize,
        /// A column, by its position, with the single value that the scan wants of it.
        key: Option<(usize, Expr)>,
        /// The condition on the rows.
        filter: Option<Expr>,
    },
    /// The rows of a nested query.
    SubQuery {
        /// The plan of the query.
        plan: SealedPlan,
        /// Alias or name.
        name: String,
        /// First slot of the columns.
        start: usize,
        /// The condition on the rows.
        filter: Option<Expr>,
    },
    /// A WITH query that is computed once (a CTE scan).
    Shared {
        /// The plan of the query.
        plan: SealedPlan,
        /// Its name in WITH.
        query: String,
        /// Alias or name.
        name: String,
        /// First slot of the columns.
        start: usize,
        /// The condition on the rows.
        filter: Option<Expr>,
    },
    /// The rows of a function.
    Function {
        /// The function.
        function: SetFunction,
        /// The types of the arguments.
        arguments: Vec<Expr>,
        /// The name.
        name: String,
        /// First slot of the columns.
        start: usize,
        /// True for WITH ORDINALITY: a column counts the rows.
        ordinality: bool,
        /// The condition on the rows.
        filter: Option<Expr>,
    },
    /// A function that returns one value, in FROM.
    Single {
        /// The expression.
        expr: Expr,
        /// Alias or name.
        name: String,
        /// First slot of the columns.
        start: usize,
        /// True for WITH ORDINALITY: a column counts the rows.
        ordinality: bool,
        /// The condition on the rows.
        filter: Option<Expr>,
    },
    /// Rows of expressions (VALUES), written into slots from 0 on.
    Values {
        /// The rows.
        rows: Vec<Vec<Expr>>,
    },
    /// A join.
    Join(JoinPlan),
    /// Lets the rows through that satisfy a condition.
    Filter {
        /// The input.
        input: Arc<PlanNode>,
        /// The condition.
        condition: Expr,
    },
    /// The inner side of a hash join, read by several threads.
    Gather {
        /// The input.
        input: Arc<PlanNode>,
        /// Most worker threads that help the session's own thread.
        workers: usize,
    },
    /// A condition that reads no column of the rows. It is evaluated once, and lets all rows
    /// through or none.
    Gate {
        /// The input.
        input: Arc<PlanNode>,
        /// The condition.
        condition: Expr,
    },
    /// Computes groups and their aggregates.
    Aggregate {
        /// The input.
        input: Arc<PlanNode>,
        /// Width of an input row, in slots.
        input_width: usize,
        /// The group expressions.
        groups: Vec<Expr>,
        /// Number of group expressions that the statement has. These determine the remaining ones.
        written: usize,
        /// The grouping sets.
        sets: GroupingSets,
        /// The aggregates.
        calls: Vec<AggregateCall>,
        /// True if the input is sorted by the group expressions.
        sorted: bool,
        /// Most worker threads that help the session's own thread.
        workers: usize,
    },
    /// Adds the results of window functions to each row.
    Window {
        /// The input.
        input: Arc<PlanNode>,
        /// The windows and their calls.
        plan: Box<WindowPlan>,
    },
    /// Computes a new row. With set-returning functions, computes one row for each row of the
    /// longest set.
    Project {
        /// The input.
        input: Arc<PlanNode>,
        /// Width of an input row, in slots.
        input_width: usize,
        /// The values of the new row.
        exprs: Vec<Expr>,
        /// The set-returning functions.
        sets: Vec<SetCall>,
    },
    /// Sorts the rows.
    Sort {
        /// The input.
        input: Arc<PlanNode>,
        /// The keys.
        keys: Vec<SortKey>,
        /// Number of leading keys by which the input is already sorted.
        presorted: usize,
    },
    /// The first row of each combination of the first `columns` values.
    Distinct {
        /// The input.
        input: Arc<PlanNode>,
        /// The columns of the rows.
        columns: Vec<ColumnType>,
    },
    /// The first of several adjacent rows that are equal in these keys.
    First {
        /// The input.
        input: Arc<PlanNode>,
        /// The keys.
        keys: Vec<Expr>,
    },
    /// The first row of each combination of keys, over slots. Rows with a NULL key are dropped.
    Unique {
        /// The input.
        input: Arc<PlanNode>,
        /// The keys.
        keys: Vec<Expr>,
    },
    /// Skips rows, and ends after a number of rows.
    Limit {
        /// The input.
        input: Arc<PlanNode>,
        /// The most rows to return.
        count: Option<Expr>,
        /// The number of rows to skip.
        offset: Option<Expr>,
    },
    /// Locks the rows of tables.
    LockRows {
        /// The input.
        input: Arc<PlanNode>,
        /// The tables and their locks.
        targets: Vec<LockTarget>,
        /// The recheck of a newer row version: first the left joins from the inside out, then the
        /// conditions.
        outer: Vec<OuterCheck>,
        /// The conditions of the recheck.
        recheck: Option<Expr>,
    },
    /// UNION, INTERSECT or EXCEPT.
    SetOperation {
        /// The operation.
        kind: SetKind,
        /// True for ALL: duplicate rows are kept.
        all: bool,
        /// The left side.
        left: Arc<PlanNode>,
        /// The right side.
        right: Arc<PlanNode>,
        /// The columns of the rows.
        columns: Vec<ColumnType>,
    },
    /// An INSERT, UPDATE or DELETE.
    Modify(Box<ModifyPlan>),
    /// A MERGE.
    Merge(Box<MergePlan>),
    /// A recursive WITH query.
    Recursive(RecursivePlan),
    /// A scan of the working table.
    Working(WorkingPlan),
    /// A statement together with the WITH queries that are materialized separately.
    With {
        /// The input.
        input: Arc<PlanNode>,
        /// The WITH queries.
        queries: Vec<WithPlan>,
    },
}
