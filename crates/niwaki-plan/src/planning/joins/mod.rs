//! Join planning: chooses the order and the methods of the joins in FROM.
//!
//! **Blocks.** The tree of joins becomes blocks ([`block`]). A block is a set of *units* that may
//! be joined in any order, with conditions. A condition is checked as soon as the units that it
//! reads are joined.
//!
//! A unit on the right of a left, semi or anti join is *linked*. It is joined alone, with its
//! join's kind and ON condition, after the units that ON reads. If it consists of several items, it
//! is a block of its own. So is each side of a full join. Each of these joins keeps or multiplies
//! the rows of its left side one by one. So they commute with one another, and with conditions that
//! do not read the joined unit.
//!
//! **Search.** Up to ten units are joined by dynamic programming over the sets of units that
//! conditions connect. More units are joined greedily, the smallest result first ([`search`]).
//!
//! For each set the search keeps the paths that no other path beats. It compares total cost, cost
//! before the first row, order and required outside units ([`path`]). Of a path's order, it keeps
//! only the part that a later merge join or the query above can use. If a block has more units than
//! a set can hold, connected units are first combined into one unit.
//!
//! **Need.** A path may need rows of other units: an index is probed with their values, or a
//! LATERAL item reads them. Such a path is always the inner side of a nested loop.

mod block;
mod build;
mod equivalence;
mod methods;
mod path;
mod rows;
mod search;

use std::cell::Cell;
use std::sync::Arc;

use niwaki_catalog::Relation;
use niwaki_expr::expr::{Expr, ExprKind};
use niwaki_expr::plan::Estimate;
use niwaki_expr::plan::PlanNode;
use niwaki_expr::query::{JoinTree, SlotRange, SortKey, conjunction, is_volatile};
use niwaki_parse::error::Result;
use niwaki_settings::planner_settings::PlannerSettings;
use niwaki_types::Datum;

use rows::Tables;

/// A FROM item whose nested queries are planned.
#[derive(Clone)]
pub(super) struct Leaf {
    pub(super) kind: LeafKind,
    pub(super) slots: SlotRange,
    /// Slots of the same row that the item reads (LATERAL).
    pub(super) reads: Vec<usize>,
}

/// The kind of a FROM item, for the planner.
#[derive(Clone)]
#[expect(clippy::large_enum_variant, reason = "few, and short-lived")]
pub(super) enum LeafKind {
    Table {
        relation: Arc<Relation>,
        name: String,
    },
    /// An item that is already planned. Conditions are added on top of it.
    Other(PlanNode),
}

/// Requirements of the query above FROM.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    /// Slots that the plan reads.
    pub(super) used: &'a [bool],
    /// Slots read by something besides the conditions. Known only if FROM is a single table.
    pub(super) above: Option<&'a [bool]>,
    /// The wanted order; empty if there is none.
    pub(super) order: &'a [SortKey],
    /// Number of rows that the query reads once they are in order.
    pub(super) limit: Option<f64>,
}

/// Plans FROM under the conditions of WHERE. Returns the plan, and the number of leading keys of
/// the wanted order that hold.
///
/// # Errors
/// `0A000` for joins without a join method; every error of `interrupts`.
pub(super) fn plan_joins(
    tree: JoinTree,
    mut leaves: Vec<Option<Leaf>>,
    conditions: Vec<Expr>,
    wanted: Wanted<'_>,
    settings: PlannerSettings,
    interrupts: &dyn Fn() -> Result<()>,
) -> Result<(PlanNode, usize)> {
    let tables = Tables::of(&leaves, settings.now);
    let mut block = block::Block::of(tree, &mut leaves)?;
    // A condition that reads no column of the row is evaluated once.
    let (mut gates, mut rest) = (Vec::new(), Vec::new());
    for condition in conditions {
        if matches!(condition.kind, ExprKind::Const(Datum::Bool(true))) {
            continue;
        }
        let gate = niwaki_expr::query::reads_nothing(&condition) && !is_volatile(&condition);
        if gate { gates.push(condition) } else { rest.push(condition) }
    }
    block.conditions.extend(rest);
    let (used, above, probed) = (wanted.used, wanted.above, Cell::new(0));
    let joins = Joins { settings, interrupts, tables, used, above, probed };
    let best = joins.best(&block, wanted.order, wanted.limit)?;
    let mut node = best.node;
    if let Some(condition) = conjunction(gates) {
        node = PlanNode::Gate { input: Arc::new(node), condition };
    }
    Ok((node, best.ordered))
}

/// Common data of the join search of one query level.
struct Joins<'a> {
    settings: PlannerSettings,
    /// Interrupt check, called between two pairs of sets.
    interrupts: &'a dyn Fn() -> Result<()>,
    tables: Tables,
    used: &'a [bool],
    above: Option<&'a [bool]>,
    /// Number of blocks that were planned for values of the units around them.
    probed: Cell<usize>,
}

/// A planned block.
struct Finished {
    node: PlanNode,
    estimate: Estimate,
    /// Number of leading keys of the wanted order that hold for the rows.
    ordered: usize,
}
