//! Plans: what execution walks. Immutable, so that a prepared statement keeps one and many executions
//! share it.

mod append;
mod backward;
mod bitmap_path;
mod comparison;
mod conditions;
mod cost;
mod derived;
mod estimate;
mod extremes;
mod function;
mod group_count;
mod implication;
mod index_path;
mod joins;
mod parallel;
mod planner;
mod pruning;
mod scan;
mod selectivity;
mod tid_path;
mod trigger;
mod virtual_key;
mod window;
mod window_order;

use std::sync::Arc;

use niwaki_catalog::{ColumnMap, Relation};
use niwaki_env::stack::Deep;
use niwaki_types::{ColumnType, TypeOid};

use crate::aggregates::AggregateKind;
use crate::context::{ColumnInfo, RecordFields};
use crate::expr::Expr;
use crate::functions::Function;
use crate::query::{GroupingSets, has_query};
use crate::store::{LockWait, RowLock};
use crate::types::{ANY_ELEMENT, element_of};

pub(crate) use append::{AppendMember, AppendPlan, is_early};
pub(crate) use conditions::{SlotRange, conjunction, is_volatile, split_conjuncts};
pub(crate) use estimate::{Estimate, estimate};
pub(crate) use function::{
    BodyStatement, FunctionBodies, FunctionBody, JsonRecords, ResultShape, SetFunction,
};
pub(crate) use implication::implies;
pub(crate) use planner::plan_statement;
pub(crate) use pruning::possible_leaves;
pub(crate) use scan::{BitmapPlan, IndexPath, KeyCondition, ScanPath as PathPlan, ScanPlan};
pub(crate) use trigger::{
    RowTriggers, StepKind, TriggerAction, TriggerBody, TriggerCall, TriggerStep,
};
pub(crate) use window::{
    Bound, Exclusion, Frame, FrameMode, Window, WindowBody, WindowCall, WindowCalls, WindowPlan,
    Windowing,
};

/// A nested query with its own rows.
#[derive(Clone, Debug)]
pub(crate) struct SubPlan {
    /// Number in the statement: where its result is remembered.
    pub(crate) number: usize,
    /// Queries that read one another are dropped one in another.
    pub(crate) root: Deep<Arc<PlanNode>>,
    /// Known here: queries that name others twice would be gone through for each path to them.
    pub(crate) estimate: Estimate,
    pub(crate) columns: Vec<ColumnInfo>,
    /// Whether it reads rows of the queries around it.
    pub(crate) correlated: bool,
    /// Slots of the row directly around it that it reads.
    pub(crate) reads: Vec<usize>,
    /// Whether asking it twice can give other rows.
    pub(crate) volatile: bool,
    /// Recursive queries around it whose working rows it reads.
    pub(crate) working: Vec<usize>,
}

/// A WITH query that is computed apart from what names it.
#[derive(Clone, Debug)]
pub(crate) struct WithPlan {
    pub(crate) name: String,
    pub(crate) plan: Arc<SubPlan>,
    /// It changes data, so it is run to its end, whoever reads its rows.
    pub(crate) changes: bool,
}

/// A recursive WITH query.
#[derive(Clone, Debug)]
pub(crate) struct RecursivePlan {
    /// Its number among the statement's WITH queries.
    pub(crate) number: usize,
    /// Rows may be there more than once.
    pub(crate) all: bool,
    pub(crate) left: Arc<PlanNode>,
    /// Run again and again, each time over the rows that were new the last time.
    pub(crate) right: Arc<PlanNode>,
    pub(crate) columns: Vec<ColumnType>,
    /// Numbers of nested plans that give other rows each time.
    pub(crate) dependents: Vec<usize>,
}

/// The rows that were new the last time.
#[derive(Clone, Debug)]
pub(crate) struct WorkingPlan {
    /// Number of the recursive query.
    pub(crate) number: usize,
    pub(crate) columns: Vec<ColumnInfo>,
    /// How many are expected.
    pub(crate) rows: f64,
    /// Name of the recursive query, and the one it has here.
    pub(crate) query: String,
    pub(crate) name: String,
    pub(crate) start: usize,
    pub(crate) filter: Option<Expr>,
}

impl PlanNode {
    /// Whether the rows depend on nothing that can be different at another time: PostgreSQL computes
    /// them when it plans.
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

/// One aggregate of a query.
#[derive(Clone, Debug)]
pub(crate) struct AggregateCall {
    pub(crate) kind: AggregateKind,
    pub(crate) name: String,
    pub(crate) arguments: Vec<Expr>,
    pub(crate) distinct: bool,
    pub(crate) filter: Option<Expr>,
    /// ORDER BY inside the call: expression, descending, NULLs first.
    pub(crate) order: Vec<(Expr, bool, bool)>,
    /// WITHIN GROUP: how many of the arguments stand before it; the others are what `order` has.
    pub(crate) direct: Option<usize>,
}

/// One set-returning function of a target list.
#[derive(Clone, Debug)]
pub(crate) struct SetCall {
    pub(crate) function: SetFunction,
    pub(crate) arguments: Vec<Expr>,
}

impl SetCall {
    /// Names and types of what each of its rows has, if it gives rows of several columns.
    pub(crate) fn fields(&self) -> Option<RecordFields> {
        self.function.fields(&self.arguments)
    }

    /// Whether it is a call of the same function with the same arguments.
    pub(crate) fn same(&self, other: &Self) -> bool {
        let same_function = match (&self.function, &other.function) {
            (SetFunction::Builtin(a), SetFunction::Builtin(b)) => std::ptr::eq(*a, *b),
            (SetFunction::User { function: a, .. }, SetFunction::User { function: b, .. }) => {
                a.key == b.key
            }
            _ => false,
        };
        same_function
            && self.arguments.len() == other.arguments.len()
            && self.arguments.iter().zip(&other.arguments).all(|(a, b)| a.same(b))
    }
}

/// Names and types of what each row of a function has, if it gives rows of several columns.
pub(crate) fn fields_of_rows(function: &Function, arguments: &[Expr]) -> Option<RecordFields> {
    let element = arguments.first().and_then(|array| element_of(array.ty));
    let field = |&(name, ty): &(&str, TypeOid)| {
        // The type of the first argument's elements.
        let ty = if ty == ANY_ELEMENT { element.unwrap_or(TypeOid::UNKNOWN) } else { ty };
        (Arc::from(name), ColumnType::new(ty))
    };
    Some(function.columns()?.iter().map(field).collect())
}

/// One key of a sort, read from the rows that come in.
#[derive(Clone, Debug)]
pub(crate) struct SortKey {
    pub(crate) expr: Expr,
    pub(crate) descending: bool,
    pub(crate) nulls_first: bool,
}

/// Which rows a join keeps.
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

/// An equality that joins: its side over the outer row, and that over the inner row. Their types hash alike.
#[derive(Clone, Debug)]
pub(crate) struct JoinKey {
    pub(crate) outer: Expr,
    pub(crate) inner: Expr,
}

/// How two inputs are joined. Both write their own slots of one row.
#[derive(Clone, Debug)]
pub(crate) struct JoinPlan {
    pub(crate) kind: JoinKind,
    pub(crate) outer: Arc<PlanNode>,
    pub(crate) inner: Arc<PlanNode>,
    /// Slots of the sides, filled with NULL where nothing matches.
    pub(crate) outer_slots: Vec<SlotRange>,
    pub(crate) inner_slots: Vec<SlotRange>,
    /// The inner side reads the outer side's row, so it runs anew for each.
    pub(crate) inner_depends: bool,
    /// Equalities by which the inner rows are hashed; without any, each outer row meets every inner row.
    pub(crate) hash: Vec<JoinKey>,
    /// Equalities by which both sides are in order, ascending, NULLs last: a merge join.
    pub(crate) merge: Vec<JoinKey>,
    /// Every condition of the join that is not checked below it.
    pub(crate) condition: Option<Expr>,
    pub(crate) estimate: Estimate,
}

/// Set operations of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetKind {
    Union,
    Intersect,
    Except,
}

/// Rows that a query locks.
#[derive(Clone, Debug)]
pub(crate) struct LockTarget {
    pub(crate) relation: Arc<Relation>,
    pub(crate) start: usize,
    pub(crate) lock: RowLock,
    pub(crate) wait: LockWait,
}

/// A left join as a newer version of one of its rows is judged by it: where ON does not hold, the slots of its right
/// side become NULL.
#[derive(Clone, Debug)]
pub(crate) struct OuterCheck {
    pub(crate) slots: Vec<SlotRange>,
    pub(crate) on: Expr,
}

/// INSERT, UPDATE or DELETE.
#[derive(Clone, Debug)]
pub(crate) struct ModifyPlan {
    pub(crate) kind: ModifyKind,
    pub(crate) relation: Arc<Relation>,
    /// Alias or name, for EXPLAIN.
    pub(crate) name: String,
    pub(crate) input: Arc<PlanNode>,
    /// Slots of the input's row.
    pub(crate) input_width: usize,
    /// First slot of the target table in the input's row (UPDATE, DELETE).
    pub(crate) start: usize,
    /// The new row: for each column its expression over the input's row; `None` keeps the old value.
    pub(crate) values: Vec<Option<Expr>>,
    /// Generated columns with their expressions over the new row, which has all others by then.
    pub(crate) generated: Vec<(usize, Expr)>,
    /// CHECK constraints over the new row: name, condition.
    pub(crate) checks: Vec<(String, Expr)>,
    /// Of a partition: the bounds that the new row must be within, the innermost first.
    pub(crate) bounds: Vec<WithinBound>,
    /// Of a partitioned table: what belongs to each of its leaves.
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
    /// The statement's tag says how many rows it changed.
    pub(crate) counted: bool,
}

/// MERGE.
#[derive(Clone, Debug)]
pub(crate) struct MergePlan {
    pub(crate) relation: Arc<Relation>,
    /// Alias or name, for EXPLAIN.
    pub(crate) name: String,
    /// Rows of the source, and what each matches.
    pub(crate) input: Arc<PlanNode>,
    /// Slots of the input's row.
    pub(crate) input_width: usize,
    /// First slot of the table in that row; its address is NULL where nothing matches.
    pub(crate) start: usize,
    /// What a newer version of a row must satisfy to match still, over the input's row.
    pub(crate) recheck: Option<Expr>,
    /// In their order: the first whose condition holds is taken.
    pub(crate) actions: Vec<MergeAction>,
}

/// One WHEN of a MERGE.
#[derive(Clone, Debug)]
pub(crate) struct MergeAction {
    /// Whether it is for rows of the source that match one of the table, or for the others.
    pub(crate) matched: bool,
    pub(crate) condition: Option<Expr>,
    /// What it does to the row; `None` for DO NOTHING. The input of this change is not asked.
    pub(crate) change: Option<ModifyPlan>,
}

/// A bound of a partition: rows must belong to it, and not to another partition.
#[derive(Clone, Debug)]
pub(crate) struct WithinBound {
    /// The partitioned table.
    pub(crate) parent: Arc<Relation>,
    /// The partition's number among those of the table.
    pub(crate) member: usize,
    /// From the columns of the table to those of the partition.
    pub(crate) columns: ColumnMap,
}

/// What new rows of one leaf of a partitioned table must satisfy, over its own columns.
#[derive(Clone, Debug)]
pub(crate) struct LeafRules {
    /// Generated columns with their expressions.
    pub(crate) generated: Vec<(usize, Expr)>,
    /// CHECK constraints: name, condition.
    pub(crate) checks: Vec<(String, Expr)>,
    /// What its row triggers do.
    pub(crate) triggers: Option<Arc<RowTriggers>>,
    /// The unique indexes that decide for ON CONFLICT, by their positions in the leaf's list.
    pub(crate) arbiters: Vec<usize>,
}

/// What an INSERT does about rows that have a new row's key.
#[derive(Clone, Debug)]
pub(crate) struct ConflictPlan {
    /// The unique indexes that decide, by their positions in the relation's list.
    pub(crate) arbiters: Vec<usize>,
    /// The statement says which.
    pub(crate) inferred: bool,
    /// DO UPDATE; without it, DO NOTHING.
    pub(crate) update: Option<ConflictUpdate>,
}

/// DO UPDATE. Its expressions read the input's row, with the row that is there in the target's slots.
#[derive(Clone, Debug)]
pub(crate) struct ConflictUpdate {
    /// First slot of the row that was to be inserted.
    pub(crate) excluded: usize,
    /// For each column its expression; `None` keeps the old value.
    pub(crate) values: Vec<Option<Expr>>,
    /// WHERE.
    pub(crate) condition: Option<Expr>,
    /// How the row that is there is locked.
    pub(crate) lock: RowLock,
}

/// Which change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ModifyKind {
    Insert,
    Update,
    Delete,
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
        /// A column, by its position, and the one value of it that is wanted.
        key: Option<(usize, Expr)>,
        filter: Option<Expr>,
    },
    SubQuery {
        plan: Arc<SubPlan>,
        name: String,
        start: usize,
        filter: Option<Expr>,
    },
    /// A WITH query, computed once.
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
    /// A function that gives one value, used as a table.
    Single {
        expr: Expr,
        name: String,
        start: usize,
        ordinality: bool,
        filter: Option<Expr>,
    },
    /// Rows of expressions, into slots from 0 on.
    Values {
        rows: Vec<Vec<Expr>>,
    },
    Join(JoinPlan),
    Filter {
        input: Arc<PlanNode>,
        condition: Expr,
    },
    /// The inner side of a hash join that several threads read.
    Gather {
        input: Arc<PlanNode>,
        /// Threads that help the session's own, at most.
        workers: usize,
    },
    /// A condition that reads nothing of the rows: asked once, it lets all or none of them through.
    Gate {
        input: Arc<PlanNode>,
        condition: Expr,
    },
    Aggregate {
        input: Arc<PlanNode>,
        input_width: usize,
        groups: Vec<Expr>,
        /// How many of them the statement has; the others are determined by these.
        written: usize,
        sets: GroupingSets,
        calls: Vec<AggregateCall>,
        /// The rows come in the order of what they are grouped by.
        sorted: bool,
        /// Threads that help the session's own, at most.
        workers: usize,
    },
    /// Adds the results of window functions to each row.
    Window {
        input: Arc<PlanNode>,
        plan: Box<WindowPlan>,
    },
    /// Computes a new row; with sets, one per row of the longest set.
    Project {
        input: Arc<PlanNode>,
        input_width: usize,
        exprs: Vec<Expr>,
        sets: Vec<SetCall>,
    },
    Sort {
        input: Arc<PlanNode>,
        keys: Vec<SortKey>,
        /// How many of them, from the first, the input is in the order of.
        presorted: usize,
    },
    /// Rows that differ in the first `columns` values, the first of each.
    Distinct {
        input: Arc<PlanNode>,
        columns: Vec<ColumnType>,
    },
    /// The first of rows that come one after the other and are equal in these keys.
    First {
        input: Arc<PlanNode>,
        keys: Vec<Expr>,
    },
    /// The first row of each combination of keys, over slots; none where a key is NULL.
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
        /// What a newer version of a row is judged by: first the left joins from the inside out, then the conditions.
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
    /// A statement with the WITH queries that are computed apart from it.
    With {
        input: Arc<PlanNode>,
        queries: Vec<WithPlan>,
    },
}
