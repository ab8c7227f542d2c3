//! Joins: in which order FROM's items are put together, and by which method.
//!
//! **Blocks.** The tree of joins becomes blocks ([`block`]). A block is a set of *units* that may be joined in any
//! order, with conditions that hold as soon as the units they read are there. A unit that stands on the right of a
//! left, semi or anti join is *linked*: it comes in alone, with its join's kind and ON condition, once the units
//! that ON reads are there. If it is made of several items it is a block of its own. So is each side of a full join.
//! All of these joins keep or multiply rows of their left side one by one, each by itself, and so commute with one
//! another and with conditions that do not read what they bring in.
//!
//! **Search.** Up to ten units are joined by dynamic programming over the sets of units that conditions connect,
//! more of them greedily, the smallest result first ([`search`]). For each set the paths are kept that nothing beats
//! in total cost, cost before the first row, order and what they need from outside ([`path`]). Of their order that
//! part is kept which a merge join with what is outside of the set, or the query above, has a use
//! for. Of more units than a set has room for, those that conditions connect become one unit first.
//!
//! **Need.** A path may need rows of other units: an index is probed with their values, a LATERAL item reads them. It
//! stands on the inner side of a nested loop then.

mod block;
mod build;
mod equal;
mod methods;
mod path;
mod rows;
mod search;

use std::cell::Cell;
use std::sync::Arc;

use niwaki_catalog::Relation;
use niwaki_types::Datum;

use super::conditions::{SlotRange, conjunction, is_volatile};
use super::estimate::Estimate;
use super::{PlanNode, SortKey};
use crate::context::PlannerSettings;
use crate::error::Result;
use crate::expr::{Expr, ExprKind};
use crate::query::JoinTree;

use rows::Tables;

/// A FROM item whose nested queries are planned.
#[derive(Clone)]
pub(super) struct Leaf {
    pub(super) kind: LeafKind,
    pub(super) slots: SlotRange,
    /// Slots of the same row that it reads: LATERAL.
    pub(super) reads: Vec<usize>,
}

/// What an item is to the planner.
#[derive(Clone)]
#[expect(clippy::large_enum_variant, reason = "few, and short-lived")]
pub(super) enum LeafKind {
    Table {
        relation: Arc<Relation>,
        name: String,
    },
    /// Anything that is planned already; conditions are put on top of it.
    Other(PlanNode),
}

/// What the query above wants of the rows.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    /// Slots that anything reads.
    pub(super) used: &'a [bool],
    /// Those that something reads besides the conditions, where these are of one table alone.
    pub(super) above: Option<&'a [bool]>,
    /// The order, empty for none.
    pub(super) order: &'a [SortKey],
    /// How many of them, once they are in order.
    pub(super) limit: Option<f64>,
}

/// Plans FROM under the conditions of WHERE. Returns the plan, and how many keys of the wanted order, from the first, hold.
///
/// # Errors
/// `0A000` for joins that there is no method for; what `interrupts` fails with.
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
    // Conditions that read nothing of the row are asked once.
    let (mut gates, mut rest) = (Vec::new(), Vec::new());
    for condition in conditions {
        if matches!(condition.kind, ExprKind::Const(Datum::Bool(true))) {
            continue;
        }
        let gate = super::conditions::reads_nothing(&condition) && !is_volatile(&condition);
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

/// What the search for joins of one query level knows.
struct Joins<'a> {
    settings: PlannerSettings,
    /// Asked between two pairs of sets.
    interrupts: &'a dyn Fn() -> Result<()>,
    tables: Tables,
    used: &'a [bool],
    above: Option<&'a [bool]>,
    /// How many blocks have been planned for values of what is around them.
    probed: Cell<usize>,
}

/// A block that is planned.
struct Finished {
    node: PlanNode,
    estimate: Estimate,
    /// How many keys of the wanted order, from the first, its rows are in the order of.
    ordered: usize,
}
