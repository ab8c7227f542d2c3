//! Analyzed queries: names are resolved, types are known, but no access path is chosen.
//!
//! `niwaki-analyze` builds a query. `niwaki-plan` simplifies it, and plans it.
//! Rows are laid out as in the crate's README: the FROM items of a query level share one row of
//! slots. An expression reads `Slot { depth, slot }`.

mod calls;
mod change;
mod conditions;
mod equality;
mod function;
mod grouping_sets;
mod growth;
mod query_walk;
mod slots;
mod trigger;
mod window;

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use niwaki_catalog::{Column, Relation};
use niwaki_types::ColumnType;

use crate::context::ColumnInfo;
use crate::expr::Expr;

pub use calls::{AggregateCall, SetCall, SortKey};
pub use change::{ConflictPlan, ConflictUpdate, LeafRules, LockTarget, ModifyKind, WithinBound};
pub use conditions::{
    asked_of, conjunction, is_volatile, mark, reads_nothing, reads_only, split_conjuncts,
};
pub use function::{JsonRecords, ResultShape, SetFunction, fields_of_rows};
pub use grouping_sets::{CUBE_MAX, GroupingClause, GroupingItem, GroupingSets, SETS_MAX};
pub use growth::{DEPTH_MAX, Growth, count_named, depth, nodes};
pub use query_walk::{
    expr_outer_slots, expr_outer_slots_mut, has_query, reads_slots, shift_depth, volatile_inside,
};
pub use slots::SlotRange;
pub use trigger::{
    RowName, RowTriggers, StepKind, TriggerAction, TriggerBody, TriggerCall, TriggerStep,
};
pub use window::{
    Bound, Exclusion, Frame, FrameMode, Window, WindowBody, WindowCall, Windowing, is_constant,
};

/// A statement that returns or changes rows.
#[derive(Debug)]
pub struct StatementQuery {
    /// The statement.
    pub body: StatementBody,
    /// WITH queries, numbered as in [`ItemKind::Shared`].
    pub shared: Vec<SharedQuery>,
}

/// The kind of a statement.
#[derive(Debug)]
pub enum StatementBody {
    /// A query.
    Select(Query),
    /// An INSERT, UPDATE or DELETE.
    Modify(Box<ModifyQuery>),
    /// A MERGE.
    Merge(Box<MergeQuery>),
}

/// A WITH query that is not correlated. A correlated one is copied to its references, and is empty
/// here.
#[derive(Debug)]
pub struct SharedQuery {
    /// The name of the query.
    pub name: String,
    /// Column names given in WITH, for the first columns.
    pub aliases: Vec<String>,
    /// The names of the columns without the aliases.
    pub own_names: Vec<String>,
    /// The query.
    pub query: Query,
    /// Number of FROM items that name the query.
    pub references: usize,
    /// True for MATERIALIZED, false for NOT MATERIALIZED.
    pub materialized: Option<bool>,
}

/// A query that returns rows.
#[derive(Debug)]
pub struct Query {
    /// The body.
    pub body: Body,
    /// The columns of the result. Rows may be longer: sort-only values follow the columns.
    pub columns: Vec<ColumnInfo>,
    /// ORDER BY.
    pub order: Vec<OrderKey>,
    /// LIMIT.
    pub limit: Option<Expr>,
    /// OFFSET.
    pub offset: Option<Expr>,
}

impl Clone for Query {
    // Not derived: derived code is made once more in each crate that copies a query.
    #[inline(never)]
    fn clone(&self) -> Self {
        Self {
            body: self.body.clone(),
            columns: self.columns.clone(),
            order: self.order.clone(),
            limit: self.limit.clone(),
            offset: self.offset.clone(),
        }
    }
}

/// The owner of a query, which knows how to drop and how to copy it.
trait Owner: Send + Sync {
    fn query(&self) -> &Query;
    fn query_mut(&mut self) -> &mut Query;
    fn copied(&self) -> SealedQuery;
    fn opened(self: Box<Self>) -> Box<Query>;
}

impl Owner for Query {
    fn query(&self) -> &Query {
        self
    }

    fn query_mut(&mut self) -> &mut Query {
        self
    }

    fn copied(&self) -> SealedQuery {
        SealedQuery::new(self.clone())
    }

    fn opened(self: Box<Self>) -> Box<Query> {
        self
    }
}

/// A query that belongs to an expression. Nearly every crate above drops expressions, and the
/// compiler makes code for that in each, with the code for all that an expression owns. The code
/// behind a trait object is made here alone.
pub struct SealedQuery(Box<dyn Owner>);

impl SealedQuery {
    /// Keeps a query.
    #[inline(never)]
    pub fn new(query: Query) -> Self {
        Self(Box::new(query))
    }

    /// Gives the query back.
    pub fn open(self) -> Query {
        *self.0.opened()
    }
}

impl Clone for SealedQuery {
    fn clone(&self) -> Self {
        self.0.copied()
    }
}

impl Deref for SealedQuery {
    type Target = Query;

    fn deref(&self) -> &Query {
        self.0.query()
    }
}

impl DerefMut for SealedQuery {
    fn deref_mut(&mut self) -> &mut Query {
        self.0.query_mut()
    }
}

impl fmt::Debug for SealedQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedQuery").finish_non_exhaustive()
    }
}

/// One key of ORDER BY.
#[derive(Clone, Copy, Debug)]
pub struct OrderKey {
    /// Position of the sort key in the query's rows.
    pub target: usize,
    /// True for DESC.
    pub descending: bool,
    /// True for NULLS FIRST.
    pub nulls_first: bool,
}

/// The source of a query's rows.
#[derive(Clone, Debug)]
pub enum Body {
    /// A SELECT.
    Select(Box<Select>),
    /// Rows of expressions (VALUES).
    Values(Vec<Vec<Expr>>),
    /// A set operation.
    Set(Box<SetOperation>),
    /// A WITH query that changes data; its rows are the RETURNING rows.
    Modify(Box<ModifyQuery>),
}

/// UNION, INTERSECT or EXCEPT. The sides are on the query level of the operation. So an outer slot
/// in a side has the same depth as in the operation.
#[derive(Clone, Debug)]
pub struct SetOperation {
    /// The operation.
    pub kind: SetKind,
    /// True for ALL: duplicate rows are kept.
    pub all: bool,
    /// The left side.
    pub left: SetSide,
    /// The right side.
    pub right: SetSide,
    /// The types of the columns.
    pub types: Vec<ColumnType>,
    /// Number of the WITH query, for a recursive UNION. The right side runs repeatedly over its own
    /// last rows ([`ItemKind::Working`]), until it returns no more rows.
    pub recursive: Option<usize>,
}

/// One side of a set operation.
#[derive(Clone, Debug)]
pub struct SetSide {
    /// The query.
    pub query: Query,
    /// The operation's columns, as expressions over the rows of the query.
    pub exprs: Vec<Expr>,
}

/// SELECT … FROM … WHERE … GROUP BY … HAVING.
#[derive(Clone, Debug)]
pub struct Select {
    /// The FROM clause.
    pub from: From,
    /// Groups and aggregates, if there are any.
    pub grouping: Option<Grouping>,
    /// Windows over the row of the grouping, or of FROM. Targets and sets refer to the results by
    /// number.
    pub windowing: Windowing,
    /// The result's values, then the sort-only values. They are over the row of the grouping, if
    /// there is one, otherwise over the row of FROM.
    pub targets: Vec<Expr>,
    /// Set-returning functions of the targets, over the same row.
    pub sets: Vec<SetCall>,
    /// DISTINCT.
    pub distinct: Distinct,
    /// FOR UPDATE and its like.
    pub locks: Vec<LockTarget>,
}

/// Duplicate elimination of a SELECT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Distinct {
    /// Every row.
    None,
    /// DISTINCT: of equal rows, one is kept.
    Rows,
    /// DISTINCT ON: of rows that are equal in these targets, the first in the query's order is
    /// kept. `ordered` is true if the query has ORDER BY.
    On {
        /// The positions of the expressions among the targets.
        targets: Vec<usize>,
        /// True if ORDER BY begins with these expressions.
        ordered: bool,
    },
}

/// GROUP BY and aggregates. The output row has the groups, then the aggregate results, then the
/// GROUPING results.
#[derive(Clone, Debug)]
pub struct Grouping {
    /// The group expressions.
    pub groups: Vec<Expr>,
    /// Number of group expressions that the statement has. These determine the remaining ones.
    pub written: usize,
    /// The grouping sets.
    pub sets: GroupingSets,
    /// The GROUP BY clause as written, unless it is a plain list of the groups.
    pub clause: Option<GroupingClause>,
    /// The aggregates.
    pub calls: Vec<AggregateCall>,
    /// The HAVING condition, over the output row.
    pub having: Option<Expr>,
}

/// FROM and WHERE: one row for each combination of the items' rows that satisfies the conditions.
#[derive(Clone, Debug, Default)]
pub struct From {
    /// The items.
    pub items: Vec<FromItem>,
    /// The join tree of the items; `None` for a query without FROM, which has one row.
    pub tree: Option<JoinTree>,
    /// The conjuncts of WHERE.
    pub conditions: Vec<Expr>,
    /// Width of the row, in slots.
    pub width: usize,
    /// The conditions that recheck a newer version of a locked row, if rewriting has moved nested
    /// queries out of `conditions`: the original conditions.
    pub recheck: Option<Vec<Expr>>,
}

impl From {
    /// Returns the stored table if FROM is a single one. Items that rewriting has removed from the
    /// tree remain in `items`.
    pub fn only_table(&self) -> Option<&Arc<Relation>> {
        let Some(JoinTree::Item(number)) = self.tree else { return None };
        match &self.items.get(number)?.kind {
            ItemKind::Table(relation) => Some(relation),
            _ => None,
        }
    }
}

/// One FROM item.
#[derive(Clone, Debug)]
pub struct FromItem {
    /// The kind of item.
    pub kind: ItemKind,
    /// Alias or name.
    pub name: String,
    /// True if the name is an alias.
    pub aliased: bool,
    /// Column names given by the alias, for the first columns.
    pub aliases: Vec<String>,
    /// The user's view that the query comes from.
    pub view: Option<Arc<Relation>>,
    /// True for ONLY.
    pub only: bool,
    /// True if the query stands for a call of a function, which locking clauses ignore.
    pub of_function: bool,
    /// The slots of the item.
    pub slots: SlotRange,
}

/// The kind of a FROM item.
#[derive(Clone, Debug)]
pub enum ItemKind {
    /// A stored table.
    Table(Arc<Relation>),
    /// A system view, computed by code.
    View(Arc<Relation>),
    /// A nested query.
    Query(Box<Query>),
    /// A WITH query, by number.
    Shared {
        /// The number of the WITH query.
        number: usize,
    },
    /// The working table of a recursive WITH query.
    Working {
        /// The number of the recursive query.
        number: usize,
    },
    /// A function.
    Function {
        /// The function.
        function: SetFunction,
        /// The types of the arguments.
        arguments: Vec<Expr>,
        /// True for WITH ORDINALITY: a column counts the rows.
        ordinality: bool,
    },
    /// A function that returns one value.
    Single {
        /// The expression.
        expr: Expr,
        /// True for WITH ORDINALITY: a column counts the rows.
        ordinality: bool,
    },
}

/// The join tree of FROM items.
#[derive(Clone, Debug)]
pub enum JoinTree {
    /// An item, by number.
    Item(usize),
    /// A join.
    Join(Box<JoinNode>),
}

/// A join of two parts of FROM.
#[derive(Clone, Debug)]
pub struct JoinNode {
    /// The kind of join.
    pub kind: JoinType,
    /// The left side.
    pub left: JoinTree,
    /// The right side.
    pub right: JoinTree,
    /// The conjuncts of ON.
    pub on: Vec<Expr>,
    /// The syntax of the join.
    pub form: JoinForm,
}

/// The syntax of a join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JoinForm {
    /// Items separated by a comma, or a join made by rewriting.
    Listed,
    /// JOIN with ON, or CROSS JOIN.
    On {
        /// True for a RIGHT join, whose sides are exchanged.
        turned: bool,
    },
    /// JOIN with USING. `turned` is true if the sides are swapped.
    Using {
        /// The columns.
        columns: Vec<String>,
        /// True for a RIGHT join, whose sides are exchanged.
        turned: bool,
    },
}

/// The kinds of joins. A right join is a left join with swapped sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinType {
    /// Pairs of rows that match.
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
pub struct ModifyQuery {
    /// The kind of change.
    pub kind: ModifyKind,
    /// The table.
    pub relation: Arc<Relation>,
    /// Alias or name.
    pub name: String,
    /// The rows.
    pub source: ModifySource,
    /// Width of the source's row including the target's slots.
    pub width: usize,
    /// First slot of the target in that row.
    pub start: usize,
    /// The new row: one expression for each column. `None` keeps the old value.
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
    /// RETURNING.
    pub returning: Vec<Expr>,
    /// ON CONFLICT.
    pub conflict: Option<ConflictPlan>,
}

/// A MERGE.
#[derive(Clone, Debug)]
pub struct MergeQuery {
    /// The table.
    pub relation: Arc<Relation>,
    /// Alias or name.
    pub name: String,
    /// First slot of the table.
    pub start: usize,
    /// The table as item 0, and the source. The table's slots are NULL where nothing matches.
    pub from: From,
    /// The actions in their order.
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
    /// The change, over the row of FROM; `None` for DO NOTHING. The source of this change is
    /// ignored.
    pub change: Option<ModifyQuery>,
}

impl MergeAction {
    /// Returns the action's expressions over the row of FROM, mutable.
    pub fn exprs_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        let values = self.change.iter_mut().flat_map(|change| change.values.iter_mut().flatten());
        self.condition.iter_mut().chain(values)
    }
}

/// The source of the inserted or changed rows.
#[derive(Clone, Debug)]
pub enum ModifySource {
    /// INSERT of one row whose values read no columns, or an action of MERGE.
    Row,
    /// Rows of expressions.
    Rows(Vec<Vec<Expr>>),
    /// INSERT … SELECT.
    Query(Box<Query>),
    /// UPDATE and DELETE: item 0 is the target.
    From(Box<From>),
}

impl Query {
    /// Returns a query of one row without columns.
    pub fn empty() -> Self {
        let (columns, order) = (Vec::new(), Vec::new());
        Self { body: Body::Values(Vec::new()), columns, order, limit: None, offset: None }
    }

    /// Returns whether the query, or a query among its FROM items, locks rows.
    pub fn locks_rows(&self) -> bool {
        let mut locks = matches!(&self.body, Body::Select(select) if !select.locks.is_empty());
        self.for_each_item_query(&mut |query| locks = locks || query.locks_rows());
        locks
    }

    /// Returns the number of values in the query's rows, including the sort-only ones.
    pub fn width(&self) -> usize {
        match &self.body {
            Body::Select(select) => select.targets.len(),
            Body::Values(_) | Body::Set(_) | Body::Modify(_) => self.columns.len(),
        }
    }
}

impl FromItem {
    /// Creates an item that is no user's view and has no alias.
    pub fn new(kind: ItemKind, name: String, slots: SlotRange) -> Self {
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
    pub fn keep_name(&mut self, number: usize, name: &str, relation: &Relation) {
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
    pub fn shown_name(&self) -> &str {
        match (&self.kind, &self.view) {
            _ if self.aliased => &self.name,
            (_, Some(relation)) => &relation.name,
            (ItemKind::Table(relation) | ItemKind::View(relation), None) => &relation.name,
            _ => &self.name,
        }
    }

    /// Returns whether the item is a `security_barrier` view. Conditions of the query around such a
    /// view must not see its rows before the view's own conditions have filtered them.
    pub fn is_barrier(&self) -> bool {
        let view = self.view.as_ref();
        view.is_some_and(|view| view.options.switch("security_barrier") == Some(true))
    }
}

impl JoinTree {
    /// Joins `left` and `right` without a condition.
    pub fn inner(left: Self, right: Self) -> Self {
        let kind = JoinType::Inner;
        Self::Join(Box::new(JoinNode { kind, left, right, on: Vec::new(), form: JoinForm::Listed }))
    }
}

/// The kinds of set operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetKind {
    /// UNION
    Union,
    /// INTERSECT
    Intersect,
    /// EXCEPT
    Except,
}
