//! What a statement asks for: names resolved, types known, nothing decided about how rows are found.
//!
//! The analyzer makes it, [`crate::rewrite`] turns it into one that is easier to answer well, and
//! [`crate::plan`] decides how. Rows are those of the crate's README: FROM items have slots of one row per query
//! level, an expression reads `Slot { depth, slot }`.

mod grouping_sets;
mod growth;
mod same;
mod walk;

use std::sync::Arc;

use niwaki_catalog::Relation;
use niwaki_types::ColumnType;

use crate::context::ColumnInfo;
use crate::expr::Expr;
use crate::plan::{
    AggregateCall, ConflictPlan, LeafRules, LockTarget, ModifyKind, RowTriggers, SetCall,
    SetFunction, SetKind, SlotRange, Windowing, WithinBound,
};

pub(crate) use grouping_sets::{CUBE_MAX, GroupingClause, GroupingItem, GroupingSets, SETS_MAX};
pub(crate) use growth::{DEPTH_MAX, Growth, count_named, depth, nodes};
pub(crate) use walk::{
    expr_outer_slots, expr_outer_slots_mut, has_query, reads_slots, shift_depth, volatile_inside,
};

/// A statement that returns or changes rows.
#[derive(Debug)]
pub(crate) struct StatementQuery {
    pub(crate) body: StatementBody,
    /// WITH queries, by the number that [`ItemKind::Shared`] has.
    pub(crate) shared: Vec<SharedQuery>,
}

/// What a statement does.
#[derive(Debug)]
pub(crate) enum StatementBody {
    Select(Query),
    Modify(Box<ModifyQuery>),
    Merge(Box<MergeQuery>),
}

/// A WITH query. It reads no rows of the queries around it: one that does stands where it is named, and is empty here.
#[derive(Debug)]
pub(crate) struct SharedQuery {
    pub(crate) name: String,
    /// The names that WITH gives its first columns.
    pub(crate) aliases: Vec<String>,
    /// The names that its columns have without them.
    pub(crate) own_names: Vec<String>,
    pub(crate) query: Query,
    /// How many FROM items name it.
    pub(crate) references: usize,
    /// What MATERIALIZED or NOT MATERIALIZED says.
    pub(crate) materialized: Option<bool>,
}

/// A query that gives rows.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub(crate) body: Body,
    /// Its columns. Rows may be longer: behind the columns stand values that they are only sorted by.
    pub(crate) columns: Vec<ColumnInfo>,
    pub(crate) order: Vec<OrderKey>,
    pub(crate) limit: Option<Expr>,
    pub(crate) offset: Option<Expr>,
}

/// One key of ORDER BY.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OrderKey {
    /// Which value of the query's rows.
    pub(crate) target: usize,
    pub(crate) descending: bool,
    pub(crate) nulls_first: bool,
}

/// Where a query's rows come from.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    Select(Box<Select>),
    Values(Vec<Vec<Expr>>),
    Set(Box<SetOperation>),
    /// A WITH query that changes data: what RETURNING says of the rows.
    Modify(Box<ModifyQuery>),
}

/// UNION, INTERSECT or EXCEPT. Its sides stand on the level of the operation itself: what they read of outer
/// rows has the depth that it would have there.
#[derive(Clone, Debug)]
pub(crate) struct SetOperation {
    pub(crate) kind: SetKind,
    pub(crate) all: bool,
    pub(crate) left: SetSide,
    pub(crate) right: SetSide,
    pub(crate) types: Vec<ColumnType>,
    /// A recursive UNION, by its number among the WITH queries: the right side is asked again for the rows that it
    /// gave last, which [`ItemKind::Working`] has, until it gives no more.
    pub(crate) recursive: Option<usize>,
}

/// One side of a set operation.
#[derive(Clone, Debug)]
pub(crate) struct SetSide {
    pub(crate) query: Query,
    /// The operation's columns, over the rows of the query.
    pub(crate) exprs: Vec<Expr>,
}

/// SELECT … FROM … WHERE … GROUP BY … HAVING.
#[derive(Clone, Debug)]
pub(crate) struct Select {
    pub(crate) from: From,
    pub(crate) grouping: Option<Grouping>,
    /// Over the row of the grouping, or of FROM. Targets and sets name the results by number.
    pub(crate) windowing: Windowing,
    /// Values of the result, then those that are only sorted by; over the row of FROM, or over that of the
    /// grouping if there is one.
    pub(crate) targets: Vec<Expr>,
    /// Set-returning functions of the targets, over the same row.
    pub(crate) sets: Vec<SetCall>,
    pub(crate) distinct: Distinct,
    pub(crate) locks: Vec<LockTarget>,
}

/// Which rows of a SELECT are left out because there are others like them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Distinct {
    None,
    /// DISTINCT: those that equal another.
    Rows,
    /// DISTINCT ON: all but the first, in the query's order, of those that are equal in these targets. `ordered`: an order was written.
    On {
        targets: Vec<usize>,
        ordered: bool,
    },
}

/// GROUP BY and aggregates. The row above has the groups and behind them the results of the aggregates and of GROUPING.
#[derive(Clone, Debug)]
pub(crate) struct Grouping {
    pub(crate) groups: Vec<Expr>,
    /// How many of them the statement has; the others are determined by these.
    pub(crate) written: usize,
    pub(crate) sets: GroupingSets,
    /// How GROUP BY is written, where that is not a list of the groups.
    pub(crate) clause: Option<GroupingClause>,
    pub(crate) calls: Vec<AggregateCall>,
    /// Over the row above.
    pub(crate) having: Option<Expr>,
}

/// FROM and WHERE: one row per combination of its items that the conditions admit.
#[derive(Clone, Debug, Default)]
pub(crate) struct From {
    pub(crate) items: Vec<FromItem>,
    /// How the items are joined; `None` for a query without FROM, which has one row.
    pub(crate) tree: Option<JoinTree>,
    /// What must hold.
    pub(crate) conditions: Vec<Expr>,
    /// Slots of the row.
    pub(crate) width: usize,
    /// What a newer version of a locked row is judged by, when rewriting has taken nested queries out of the
    /// conditions: the conditions as they were.
    pub(crate) recheck: Option<Vec<Expr>>,
}

impl From {
    /// The stored table whose rows these are, if they are of one alone. What rewriting has taken out of the tree stays among the items.
    pub(crate) fn only_table(&self) -> Option<&Arc<Relation>> {
        let Some(JoinTree::Item(number)) = self.tree else { return None };
        match &self.items.get(number)?.kind {
            ItemKind::Table(relation) => Some(relation),
            _ => None,
        }
    }
}

/// One FROM item.
#[derive(Clone, Debug)]
pub(crate) struct FromItem {
    pub(crate) kind: ItemKind,
    /// Alias or name.
    pub(crate) name: String,
    /// Whether the name is an alias.
    pub(crate) aliased: bool,
    /// Names that the alias gives to the first columns.
    pub(crate) aliases: Vec<String>,
    /// The user's view that the query is of.
    pub(crate) view: Option<Arc<Relation>>,
    /// ONLY
    pub(crate) only: bool,
    pub(crate) slots: SlotRange,
}

/// What a FROM item is.
#[derive(Clone, Debug)]
pub(crate) enum ItemKind {
    Table(Arc<Relation>),
    /// A system view, computed by code.
    View(Arc<Relation>),
    Query(Box<Query>),
    /// A WITH query, by its number.
    Shared {
        number: usize,
    },
    /// The rows of a recursive WITH query that are to be looked at now.
    Working {
        number: usize,
    },
    Function {
        function: SetFunction,
        arguments: Vec<Expr>,
        ordinality: bool,
    },
    /// A function that gives one value.
    Single {
        expr: Expr,
        ordinality: bool,
    },
}

/// Items and joins of them.
#[derive(Clone, Debug)]
pub(crate) enum JoinTree {
    /// An item, by its number.
    Item(usize),
    Join(Box<JoinNode>),
}

/// A join of two parts of FROM.
#[derive(Clone, Debug)]
pub(crate) struct JoinNode {
    pub(crate) kind: JoinType,
    pub(crate) left: JoinTree,
    pub(crate) right: JoinTree,
    /// Parts that must all hold.
    pub(crate) on: Vec<Expr>,
    /// How it is written.
    pub(crate) form: JoinForm,
}

/// How a join is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JoinForm {
    /// Items with a comma between them, or a join that rewriting made.
    Listed,
    /// JOIN with ON, or CROSS JOIN.
    On { turned: bool },
    /// JOIN with USING; `turned` if the right side stands on the left.
    Using { columns: Vec<String>, turned: bool },
}

/// Which rows a join keeps. A right join is a left join of its sides the other way round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JoinType {
    Inner,
    /// Every row of the left side, with NULLs where nothing on the right matches.
    Left,
    /// Every row of both sides.
    Full,
    /// Rows of the left side that have a match; the right side's slots mean nothing above.
    Semi,
    /// Rows of the left side that have none.
    Anti,
}

/// INSERT, UPDATE or DELETE.
#[derive(Clone, Debug)]
pub(crate) struct ModifyQuery {
    pub(crate) kind: ModifyKind,
    pub(crate) relation: Arc<Relation>,
    /// Alias or name.
    pub(crate) name: String,
    pub(crate) source: ModifySource,
    /// Slots of the source's row with those of the target.
    pub(crate) width: usize,
    /// First slot of the target in that row.
    pub(crate) start: usize,
    /// The new row: for each column its expression; `None` keeps the old value.
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
    pub(crate) returning: Vec<Expr>,
    pub(crate) conflict: Option<ConflictPlan>,
}

/// MERGE.
#[derive(Clone, Debug)]
pub(crate) struct MergeQuery {
    pub(crate) relation: Arc<Relation>,
    /// Alias or name.
    pub(crate) name: String,
    /// First slot of the table.
    pub(crate) start: usize,
    /// The table, item 0, and the source; the table's slots are NULL where nothing matches.
    pub(crate) from: From,
    pub(crate) actions: Vec<MergeAction>,
}

/// One WHEN of a MERGE.
#[derive(Clone, Debug)]
pub(crate) struct MergeAction {
    /// Whether it is for rows of the source that match one of the table, or for the others.
    pub(crate) matched: bool,
    pub(crate) condition: Option<Expr>,
    /// What it does, over the row of FROM; `None` for DO NOTHING. The source of this change is not asked.
    pub(crate) change: Option<ModifyQuery>,
}

impl MergeAction {
    /// Its expressions over the row of FROM.
    pub(crate) fn exprs_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        let values = self.change.iter_mut().flat_map(|change| change.values.iter_mut().flatten());
        self.condition.iter_mut().chain(values)
    }
}

/// Where the rows that are inserted or changed come from.
#[derive(Clone, Debug)]
pub(crate) enum ModifySource {
    /// INSERT of one row, whose values read nothing; an action of MERGE.
    Row,
    Rows(Vec<Vec<Expr>>),
    /// INSERT … SELECT.
    Query(Box<Query>),
    /// UPDATE and DELETE: item 0 is the target.
    From(Box<From>),
}

impl Query {
    /// One row without columns.
    pub(crate) fn empty() -> Self {
        let (columns, order) = (Vec::new(), Vec::new());
        Self { body: Body::Values(Vec::new()), columns, order, limit: None, offset: None }
    }

    /// Whether it, or a query among its FROM items, locks rows.
    pub(crate) fn locks_rows(&self) -> bool {
        let mut locks = matches!(&self.body, Body::Select(select) if !select.locks.is_empty());
        self.for_each_item_query(&mut |query| locks = locks || query.locks_rows());
        locks
    }

    /// Values in its rows, those that are only sorted by included.
    pub(crate) fn width(&self) -> usize {
        match &self.body {
            Body::Select(select) => select.targets.len(),
            Body::Values(_) | Body::Set(_) | Body::Modify(_) => self.columns.len(),
        }
    }
}

impl FromItem {
    /// An item that is no user's view and has no alias.
    pub(crate) fn new(kind: ItemKind, name: String, slots: SlotRange) -> Self {
        Self { kind, name, aliased: false, aliases: Vec::new(), view: None, only: false, slots }
    }

    /// What it is called now: its alias, or the name of its relation.
    pub(crate) fn shown_name(&self) -> &str {
        match (&self.kind, &self.view) {
            _ if self.aliased => &self.name,
            (_, Some(relation)) => &relation.name,
            (ItemKind::Table(relation) | ItemKind::View(relation), None) => &relation.name,
            _ => &self.name,
        }
    }

    /// Whether it is a view whose rows no condition of the query around it may see before the view's own have been
    /// judged (`security_barrier`).
    pub(crate) fn is_barrier(&self) -> bool {
        let view = self.view.as_ref();
        view.is_some_and(|view| view.options.switch("security_barrier") == Some(true))
    }
}

impl JoinTree {
    /// `left` and `right` side by side.
    pub(crate) fn inner(left: Self, right: Self) -> Self {
        let kind = JoinType::Inner;
        Self::Join(Box::new(JoinNode { kind, left, right, on: Vec::new(), form: JoinForm::Listed }))
    }
}
