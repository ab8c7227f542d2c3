//! Joins: conditions go as far down as they may, equalities become hash keys.

use std::sync::Arc;

use super::conditions::{SlotRange, conjunction, is_volatile, reads_nothing, reads_only};
use super::scan::{ScanContext, ScanPath, plan_scan};
use super::virtual_key::{gives_few_rows, virtual_key};
use super::{JoinKind, JoinPlan, PlanNode, SortKey, split_conjuncts};
use crate::context::PlannerSettings;
use crate::expr::{Expr, ExprKind};
use niwaki_catalog::Relation;
use niwaki_types::TypeOid;

/// What FROM says, with slots given out.
#[expect(clippy::large_enum_variant, reason = "few, and short-lived")]
pub(crate) enum FromTree {
    Leaf(TreeLeaf),
    Join(Box<JoinTree>),
}

/// One FROM item.
#[expect(clippy::large_enum_variant, reason = "few, and short-lived")]
pub(crate) enum TreeLeaf {
    Table {
        relation: Arc<Relation>,
        name: String,
        start: usize,
        end: usize,
    },
    /// Anything that plans itself; conditions are put on top of it. `depends` when it reads slots of
    /// items before it.
    Other {
        node: PlanNode,
        start: usize,
        end: usize,
        depends: bool,
    },
}

/// A join of two FROM items.
pub(crate) struct JoinTree {
    pub(crate) kind: JoinKind,
    pub(crate) left: FromTree,
    pub(crate) right: FromTree,
    pub(crate) condition: Option<Expr>,
}

impl FromTree {
    pub(crate) fn slots(&self) -> SlotRange {
        match self {
            Self::Leaf(TreeLeaf::Table { start, end, .. } | TreeLeaf::Other { start, end, .. }) => {
                SlotRange { start: *start, end: *end }
            }
            Self::Join(join) => {
                SlotRange { start: join.left.slots().start, end: join.right.slots().end }
            }
        }
    }

    fn depends(&self) -> bool {
        match self {
            Self::Leaf(TreeLeaf::Table { .. }) => false,
            Self::Leaf(TreeLeaf::Other { depends, .. }) => *depends,
            Self::Join(join) => join.left.depends() || join.right.depends(),
        }
    }
}

/// Plans FROM under the conditions of WHERE. Returns the plan and whether a wanted order holds.
pub(crate) fn plan_from(
    tree: FromTree,
    conditions: Vec<Expr>,
    used: &[bool],
    order: &[SortKey],
    limit: Option<f64>,
    settings: PlannerSettings,
) -> (PlanNode, bool) {
    let planner = Planner { used, limit, settings };
    planner.tree(tree, conditions, order, &|_| false)
}

struct Planner<'a> {
    used: &'a [bool],
    limit: Option<f64>,
    settings: PlannerSettings,
}

impl Planner<'_> {
    fn tree(
        &self,
        tree: FromTree,
        conditions: Vec<Expr>,
        order: &[SortKey],
        available: &dyn Fn(usize) -> bool,
    ) -> (PlanNode, bool) {
        match tree {
            FromTree::Leaf(TreeLeaf::Table { relation, name, start, .. }) => {
                let context =
                    ScanContext { settings: self.settings, available, order, limit: self.limit };
                let (plan, ordered) =
                    plan_scan(&relation, &name, start, self.used, conditions, &context);
                (PlanNode::Scan(plan), ordered)
            }
            FromTree::Leaf(TreeLeaf::Other { mut node, .. }) => {
                if let PlanNode::Virtual { relation, start, key, .. } = &mut node {
                    *key = virtual_key(relation, *start, &conditions, available);
                }
                let filter = conjunction(conditions);
                let taken = match &mut node {
                    PlanNode::Virtual { filter: place, .. }
                    | PlanNode::SubQuery { filter: place, .. }
                    | PlanNode::Shared { filter: place, .. }
                    | PlanNode::Function { filter: place, .. }
                    | PlanNode::Single { filter: place, .. } => {
                        *place = filter;
                        None
                    }
                    _ => filter,
                };
                let node = match taken {
                    Some(condition) => PlanNode::Filter { input: Arc::new(node), condition },
                    None => node,
                };
                (node, order.is_empty())
            }
            FromTree::Join(join) => {
                // A limit on the join's rows says little about its tables.
                let planner = Planner { limit: None, ..*self };
                (planner.join(*join, conditions, available), order.is_empty())
            }
        }
    }

    fn join(
        &self,
        join: JoinTree,
        conditions: Vec<Expr>,
        available: &dyn Fn(usize) -> bool,
    ) -> PlanNode {
        let JoinTree { kind, left, right, condition } = join;
        let (left_slots, right_slots) = (left.slots(), right.slots());
        let mut on = Vec::new();
        if let Some(condition) = condition {
            split_conjuncts(condition, &mut on);
        }
        let mut above = Vec::new();
        match kind {
            // Conditions on and above an inner join are the same thing.
            JoinKind::Inner => on.extend(conditions),
            _ => above = conditions,
        }
        let only = |expr: &Expr, slots: SlotRange| {
            !is_volatile(expr)
                && reads_only(expr, &mut |slot| slots.contains(slot) || available(slot))
        };
        let (mut left_conditions, mut right_conditions, mut here) =
            (Vec::new(), Vec::new(), Vec::new());
        for part in on {
            // A condition of an outer join may only go to the side that is filled with NULLs.
            if kind != JoinKind::Left && only(&part, left_slots) && !reads_nothing(&part) {
                left_conditions.push(part);
            } else if kind != JoinKind::Right && only(&part, right_slots) && !reads_nothing(&part) {
                right_conditions.push(part);
            } else {
                here.push(part);
            }
        }
        let mut after = Vec::new();
        for part in above {
            if kind == JoinKind::Left && only(&part, left_slots) && !reads_nothing(&part) {
                left_conditions.push(part);
            } else if kind == JoinKind::Right && only(&part, right_slots) && !reads_nothing(&part) {
                right_conditions.push(part);
            } else {
                after.push(part);
            }
        }
        // A right join is a left join with the sides exchanged; slots stay where they are.
        let (outer, outer_slots, outer_conditions, inner, inner_slots, mut inner_conditions) =
            if kind == JoinKind::Right {
                (right, right_slots, right_conditions, left, left_slots, left_conditions)
            } else {
                (left, left_slots, left_conditions, right, right_slots, right_conditions)
            };
        let mut inner_depends = inner.depends();
        let (outer, _) = self.tree(outer, outer_conditions, &[], available);
        let known = |slot: usize| outer_slots.contains(slot) || available(slot);
        let mut hash = Vec::new();
        let mut rest = Vec::new();
        // An index of the inner table that the outer row gives a whole unique key is better than
        // reading the whole table.
        let probe = self.index_probe(&inner, &inner_conditions, &here, &known)
            || (gives_few_rows(&outer) && self.key_probe(&inner, &here, &known));
        if probe {
            inner_depends = true;
            inner_conditions.append(&mut here);
        } else {
            for part in here {
                match hash_pair(part, outer_slots, inner_slots, available) {
                    Ok(pair) if self.settings.enable_hashjoin && !inner_depends => hash.push(pair),
                    Ok((_, _, whole)) => rest.push(*whole),
                    Err(part) => rest.push(part),
                }
            }
        }
        let inner_available: &dyn Fn(usize) -> bool =
            if inner_depends { &known } else { available };
        let (inner, _) = self.tree(inner, inner_conditions, &[], inner_available);
        let plan = PlanNode::Join(JoinPlan {
            kind: if kind == JoinKind::Inner { JoinKind::Inner } else { JoinKind::Left },
            outer: Arc::new(outer),
            inner: Arc::new(inner),
            inner_slots,
            inner_depends,
            hash: hash.into_iter().map(|(l, r, _)| (l, r)).collect(),
            condition: conjunction(rest),
        });
        match conjunction(after) {
            Some(condition) => PlanNode::Filter { input: Arc::new(plan), condition },
            None => plan,
        }
    }

    /// Whether the inner side is a system relation of which the outer row says the one value that is wanted.
    fn key_probe(
        &self,
        inner: &FromTree,
        join_conditions: &[Expr],
        known: &dyn Fn(usize) -> bool,
    ) -> bool {
        let FromTree::Leaf(TreeLeaf::Other { node, start, end, .. }) = inner else { return false };
        let PlanNode::Virtual { relation, .. } = node else { return false };
        let readable = |slot: usize| (*start..*end).contains(&slot) || known(slot);
        self.settings.enable_nestloop
            && virtual_key(relation, *start, join_conditions, known).is_some()
            && join_conditions
                .iter()
                .all(|c| !is_volatile(c) && reads_only(c, &mut |slot| readable(slot)))
    }

    /// Whether the inner side is a table that the join's conditions reach through a unique index.
    fn index_probe(
        &self,
        inner: &FromTree,
        conditions: &[Expr],
        join_conditions: &[Expr],
        known: &dyn Fn(usize) -> bool,
    ) -> bool {
        let FromTree::Leaf(TreeLeaf::Table { relation, name, start, end }) = inner else {
            return false;
        };
        let readable = |slot: usize| (*start..*end).contains(&slot) || known(slot);
        if join_conditions.is_empty()
            || !self.settings.enable_nestloop
            || join_conditions
                .iter()
                .any(|c| is_volatile(c) || !reads_only(c, &mut |s| readable(s)))
        {
            return false;
        }
        let all = conditions.iter().chain(join_conditions).cloned().collect();
        let context =
            ScanContext { settings: self.settings, available: known, order: &[], limit: None };
        let (plan, _) = plan_scan(relation, name, *start, self.used, all, &context);
        matches!(plan.path, ScanPath::Index(_))
            && plan.is_unique_point()
            && self.settings.enable_indexscan
    }
}

type HashPair = (Expr, Expr, Box<Expr>);

/// Splits `outer = inner` into its two sides if both hash alike.
fn hash_pair(
    part: Expr,
    outer: SlotRange,
    inner: SlotRange,
    available: &dyn Fn(usize) -> bool,
) -> Result<HashPair, Expr> {
    if let ExprKind::Call { function, arguments } = &part.kind
        && function.name == "="
        && let [left, right] = arguments.as_slice()
        && hashes_alike(left.ty, right.ty)
        && !is_volatile(&part)
    {
        let from = |expr: &Expr, slots: SlotRange| {
            reads_only(expr, &mut |s| slots.contains(s) || available(s)) && !reads_nothing(expr)
        };
        if from(left, outer) && from(right, inner) {
            return Ok((left.clone(), right.clone(), Box::new(part)));
        }
        if from(right, outer) && from(left, inner) {
            return Ok((right.clone(), left.clone(), Box::new(part)));
        }
    }
    Err(part)
}

/// Equal values of the two types have the same hash: the same type. char(n) compares without its
/// trailing blanks, which its own hash knows.
fn hashes_alike(left: TypeOid, right: TypeOid) -> bool {
    left == right
}
