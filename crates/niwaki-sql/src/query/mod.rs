//! Analyzed queries: names are resolved, types are known, but no access path is chosen.
//!
//! The analyzer builds a query, [`crate::rewrite`] simplifies it, and [`crate::plan`] plans it.
//! Rows are laid out as in the crate's README: the FROM items of a query level share one row of
//! slots. An expression reads `Slot { depth, slot }`.

mod calls;
mod change;
mod conditions;
mod function;
mod grouping_sets;
mod growth;
mod same;
mod trigger;
mod walk;
mod window;

use std::sync::Arc;

use niwaki_catalog::{Column, Relation};
use niwaki_types::ColumnType;

use crate::context::ColumnInfo;
use crate::expr::Expr;

pub(crate) use calls::{AggregateCall, SetCall, SortKey};
pub(crate) use change::{
    ConflictPlan, ConflictUpdate, LeafRules, LockTarget, ModifyKind, WithinBound,
};
pub(crate) use conditions::{
    SlotRange, asked_of, conjunction, is_volatile, mark, reads_nothing, reads_only, split_conjuncts,
};
pub(crate) use function::{JsonRecords, ResultShape, SetFunction, fields_of_rows};
pub(crate) use grouping_sets::{CUBE_MAX, GroupingClause, GroupingItem, GroupingSets, SETS_MAX};
pub(crate) use growth::{DEPTH_MAX, Growth, count_named, depth, nodes};
pub(crate) use trigger::{
    RowName, RowTriggers, StepKind, TriggerAction, TriggerBody, TriggerCall, TriggerStep,
};
pub(crate) use walk::{
    expr_outer_slots, expr_outer_slots_mut, has_query, reads_slots, shift_depth, volatile_inside,
};
pub(crate) use window::{
    Bound, Exclusion, Frame, FrameMode, Window, WindowBody, WindowCall, Windowing, is_constant,
};

/// A statement that returns or changes rows.
#[derive(Debug)]
pub(crate) struct StatementQuery {
    pub(crate) body: StatementBody,
    /// WITH queries, numbered as in [`ItemKind::Shared`].
    pub(crate) shared: Vec<SharedQuery>,
}

/// The kind of a statement.
#[derive(Debug)]
pub(crate) enum StatementBody {
    Select(Query),
    Modify(Box<ModifyQuery>),
    Merge(Box<MergeQuery>),
}

/// A WITH query that is not correlated. A correlated one is copied to its references, and is empty
/// here.
#[derive(Debug)]
pub(crate) struct SharedQuery {
    pub(crate) name: String,
    /// Column names given in WITH, for the first columns.
    pub(crate) aliases: Vec<String>,
    /// The names of the columns without the aliases.
    pub(crate) own_names: Vec<String>,
    pub(crate) query: Query,
    /// Number of FROM items that name the query.
    pub(crate) references: usize,
    /// True for MATERIALIZED, false for NOT MATERIALIZED.
    pub(crate) materialized: Option<bool>,
}

/// A query that returns rows.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub(crate) body: Body,
    /// The columns of the result. Rows may be longer: sort-only values follow the columns.
    pub(crate) columns: Vec<ColumnInfo>,
    pub(crate) order: Vec<OrderKey>,
    pub(crate) limit: Option<Expr>,
    pub(crate) offset: Option<Expr>,
}

/// One key of ORDER BY.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OrderKey {
    /// Position of the sort key in the query's rows.
    pub(crate) target: usize,
    pub(crate) descending: bool,
    pub(crate) nulls_first: bool,
}

/// The source of a query's rows.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    Select(Box<Select>),
    Values(Vec<Vec<Expr>>),
    Set(Box<SetOperation>),
    /// A WITH query that changes data; its rows are the RETURNING rows.
    Modify(Box<ModifyQuery>),
}

/// UNION, INTERSECT or EXCEPT. The sides are on the query level of the operation. So an outer slot
/// in a side has the same depth as in the operation.
#[derive(Clone, Debug)]
pub(crate) struct SetOperation {
    pub(crate) kind: SetKind,
    pub(crate) all: bool,
    pub(crate) left: SetSide,
    pub(crate) right: SetSide,
    pub(crate) types: Vec<ColumnType>,
    /// Number of the WITH query, for a recursive UNION. The right side runs repeatedly over its own
    /// last rows ([`ItemKind::Working`]), until it returns no more rows.
    pub(crate) recursive: Option<usize>,
}

/// One side of a set operation.
#[derive(Clone, Debug)]
pub(crate) struct SetSide {
    pub(crate) query: Query,
    /// The operation's columns, as expressions over the rows of the query.
    pub(crate) exprs: Vec<Expr>,
}

/// SELECT … FROM … WHERE … GROUP BY … HAVING.
#[derive(Clone, Debug)]
pub(crate) struct Select {
    pub(crate) from: From,
    pub(crate) grouping: Option<Grouping>,
    /// Windows over the row of the grouping, or of FROM. Targets and sets refer to the results by
    /// number.
    pub(crate) windowing: Windowing,
    /// The result's values, then the sort-only values. They are over the row of the grouping, if
    /// there is one, otherwise over the row of FROM.
    pub(crate) targets: Vec<Expr>,
    /// Set-returning functions of the targets, over the same row.
    pub(crate) sets: Vec<SetCall>,
    pub(crate) distinct: Distinct,
    pub(crate) locks: Vec<LockTarget>,
}

/// Duplicate elimination of a SELECT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Distinct {
    None,
    /// DISTINCT: of equal rows, one is kept.
    Rows,
    /// DISTINCT ON: of rows that are equal in these targets, the first in the query's order is
    /// kept. `ordered` is true if the query has ORDER BY.
    On {
        targets: Vec<usize>,
        ordered: bool,
    },
}

/// GROUP BY and aggregates. The output row has the groups, then the aggregate results, then the
/// GROUPING results.
#[derive(Clone, Debug)]
pub(crate) struct Grouping {
    pub(crate) groups: Vec<Expr>,
    /// Number of group expressions that the statement has. These determine the remaining ones.
    pub(crate) written: usize,
    pub(crate) sets: GroupingSets,
    /// The GROUP BY clause as written, unless it is a plain list of the groups.
    pub(crate) clause: Option<GroupingClause>,
    pub(crate) calls: Vec<AggregateCall>,
    /// The HAVING condition, over the output row.
    pub(crate) having: Option<Expr>,
}

/// FROM and WHERE: one row for each combination of the items' rows that satisfies the conditions.
#[derive(Clone, Debug, Default)]
pub(crate) struct From {
    pub(crate) items: Vec<FromItem>,
    /// The join tree of the items; `None` for a query without FROM, which has one row.
    pub(crate) tree: Option<JoinTree>,
    /// The conjuncts of WHERE.
    pub(crate) conditions: Vec<Expr>,
    /// Width of the row, in slots.
    pub(crate) width: usize,
    /// The conditions that recheck a newer version of a locked row, if rewriting has moved nested
    /// queries out of `conditions`: the original conditions.
    pub(crate) recheck: Option<Vec<Expr>>,
}

impl From {
    /// Returns the stored table if FROM is a single one. Items that rewriting has removed from the
    /// tree remain in `items`.
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
    /// True if the name is an alias.
    pub(crate) aliased: bool,
    /// Column names given by the alias, for the first columns.
    pub(crate) aliases: Vec<String>,
    /// The user's view that the query comes from.
    pub(crate) view: Option<Arc<Relation>>,
    /// True for ONLY.
    pub(crate) only: bool,
    /// True if the query stands for a call of a function, which locking clauses ignore.
    pub(crate) of_function: bool,
    pub(crate) slots: SlotRange,
}

/// The kind of a FROM item.
#[derive(Clone, Debug)]
pub(crate) enum ItemKind {
    Table(Arc<Relation>),
    /// A system view, computed by code.
    View(Arc<Relation>),
    Query(Box<Query>),
    /// A WITH query, by number.
    Shared {
        number: usize,
    },
    /// The working table of a recursive WITH query.
    Working {
        number: usize,
    },
    Function {
        function: SetFunction,
        arguments: Vec<Expr>,
        ordinality: bool,
    },
    /// A function that returns one value.
    Single {
        expr: Expr,
        ordinality: bool,
    },
}

/// The join tree of FROM items.
#[derive(Clone, Debug)]
pub(crate) enum JoinTree {
    /// An item, by number.
    Item(usize),
    Join(Box<JoinNode>),
}

/// A join of two parts of FROM.
#[derive(Clone, Debug)]
pub(crate) struct JoinNode {
    pub(crate) kind: JoinType,
    pub(crate) left: JoinTree,
    pub(crate) right: JoinTree,
    /// The conjuncts of ON.
    pub(crate) on: Vec<Expr>,
    /// The syntax of the join.
    pub(crate) form: JoinForm,
}

/// The syntax of a join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JoinForm {
    /// Items separated by a comma, or a join made by rewriting.
    Listed,
    /// JOIN with ON, or CROSS JOIN.
    On { turned: bool },
    /// JOIN with USING. `turned` is true if the sides are swapped.
    Using { columns: Vec<String>, turned: bool },
}

/// The kinds of joins. A right join is a left join with swapped sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JoinType {
    Inner,
    /// Every row of the left side, with NULLs if no right row matches.
    Left,
    /// Every row of both sides.
    Full,
    /// Rows of the left side with a match. The right side's slots are meaningless above.
    Semi,
    /// Rows of the left side without a match.
    Anti,
}

/// An INSERT, UPDATE or DELETE.
#[derive(Clone, Debug)]
pub(crate) struct ModifyQuery {
    pub(crate) kind: ModifyKind,
    pub(crate) relation: Arc<Relation>,
    /// Alias or name.
    pub(crate) name: String,
    pub(crate) source: ModifySource,
    /// Width of the source's row including the target's slots.
    pub(crate) width: usize,
    /// First slot of the target in that row.
    pub(crate) start: usize,
    /// The new row: one expression for each column. `None` keeps the old value.
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
    pub(crate) returning: Vec<Expr>,
    pub(crate) conflict: Option<ConflictPlan>,
}

/// A MERGE.
#[derive(Clone, Debug)]
pub(crate) struct MergeQuery {
    pub(crate) relation: Arc<Relation>,
    /// Alias or name.
    pub(crate) name: String,
    /// First slot of the table.
    pub(crate) start: usize,
    /// The table as item 0, and the source. The table's slots are NULL where nothing matches.
    pub(crate) from: From,
    pub(crate) actions: Vec<MergeAction>,
}

/// One WHEN clause of a MERGE.
#[derive(Clone, Debug)]
pub(crate) struct MergeAction {
    /// True for WHEN MATCHED: the action is for source rows that match a target row. False for the
    /// other source rows.
    pub(crate) matched: bool,
    pub(crate) condition: Option<Expr>,
    /// The change, over the row of FROM; `None` for DO NOTHING. The source of this change is
    /// ignored.
    pub(crate) change: Option<ModifyQuery>,
}

impl MergeAction {
    /// Returns the action's expressions over the row of FROM, mutable.
    pub(crate) fn exprs_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        let values = self.change.iter_mut().flat_map(|change| change.values.iter_mut().flatten());
        self.condition.iter_mut().chain(values)
    }
}

/// The source of the inserted or changed rows.
#[derive(Clone, Debug)]
pub(crate) enum ModifySource {
    /// INSERT of one row whose values read no columns, or an action of MERGE.
    Row,
    Rows(Vec<Vec<Expr>>),
    /// INSERT … SELECT.
    Query(Box<Query>),
    /// UPDATE and DELETE: item 0 is the target.
    From(Box<From>),
}

impl Query {
    /// Returns a query of one row without columns.
    pub(crate) fn empty() -> Self {
        let (columns, order) = (Vec::new(), Vec::new());
        Self { body: Body::Values(Vec::new()), columns, order, limit: None, offset: None }
    }

    /// Returns whether the query, or a query among its FROM items, locks rows.
    pub(crate) fn locks_rows(&self) -> bool {
        let mut locks = matches!(&self.body, Body::Select(select) if !select.locks.is_empty());
        self.for_each_item_query(&mut |query| locks = locks || query.locks_rows());
        locks
    }

    /// Returns the number of values in the query's rows, including the sort-only ones.
    pub(crate) fn width(&self) -> usize {
        match &self.body {
            Body::Select(select) => select.targets.len(),
            Body::Values(_) | Body::Set(_) | Body::Modify(_) => self.columns.len(),
        }
    }
}

impl FromItem {
    /// Creates an item that is no user's view and has no alias.
    pub(crate) fn new(kind: ItemKind, name: String, slots: SlotRange) -> Self {
        Self {
            kind,
            name,
            aliased: false,
            aliases: Vec::new(),
            view: None,
            only: false,
            of_function: false,
            slots,
        }
    }

    /// Shows a column of the item's relation, given by its number there, by this name. Then the
    /// text names all columns of the item, so that no current name meets the kept one.
    pub(crate) fn keep_name(&mut self, number: usize, name: &str, relation: &Relation) {
        let is_there = |column: &&Column| !column.dropped;
        let at = relation.columns.iter().take(number).filter(is_there).count();
        let current = relation.columns.iter().filter(is_there).map(|column| &column.name);
        let shown = self.aliases.iter().chain(current.skip(self.aliases.len()));
        let mut shown: Vec<String> = shown.cloned().collect();
        match shown.get_mut(at) {
            Some(own) if own != name => name.clone_into(own),
            _ => return,
        }
        for other in (0..shown.len()).filter(|other| *other != at) {
            if shown[other] == name {
                let mut free = (1..).map(|number| format!("{name}_{number}"));
                // Ends: the item has fewer columns than there are numbers.
                shown[other] = free.find(|free| !shown.contains(free)).unwrap_or_default();
            }
        }
        self.aliases = shown;
    }

    /// Returns the current name of the item: its alias, or the name of its relation.
    pub(crate) fn shown_name(&self) -> &str {
        match (&self.kind, &self.view) {
            _ if self.aliased => &self.name,
            (_, Some(relation)) => &relation.name,
            (ItemKind::Table(relation) | ItemKind::View(relation), None) => &relation.name,
            _ => &self.name,
        }
    }

    /// Returns whether the item is a `security_barrier` view. Conditions of the query around such a
    /// view must not see its rows before the view's own conditions have filtered them.
    pub(crate) fn is_barrier(&self) -> bool {
        let view = self.view.as_ref();
        view.is_some_and(|view| view.options.switch("security_barrier") == Some(true))
    }
}

impl JoinTree {
    /// Joins `left` and `right` without a condition.
    pub(crate) fn inner(left: Self, right: Self) -> Self {
        let kind = JoinType::Inner;
        Self::Join(Box::new(JoinNode { kind, left, right, on: Vec::new(), form: JoinForm::Listed }))
    }
}

/// The kinds of set operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetKind {
    Union,
    Intersect,
    Except,
}
