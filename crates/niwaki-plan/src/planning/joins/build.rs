//! Base paths of single units, with the conversion of paths to plans.

use std::cmp::Reverse;
use std::rc::Rc;
use std::sync::Arc;

use niwaki_catalog::Relation;
use niwaki_env::stack;
use niwaki_expr::expr::{Expr, ExprKind};
use niwaki_expr::plan::Estimate;
use niwaki_expr::plan::PathPlan;
use niwaki_expr::plan::{JoinKey, JoinKind, JoinPlan, PlanNode, WorkingPlan};
use niwaki_expr::query::{
    JoinType, SortKey, conjunction, is_volatile, reads_slots, split_conjuncts,
};
use niwaki_parse::error::{Result, SqlError};

use super::block::{Block, FullJoin, Link, Source, Unit};
use super::path::{JoinShape, Pairing, Path, Paths, Shape, hash_join};
use super::search::{Search, Set, members, reads_ranges, sides_of};
use super::{Finished, Joins, Leaf, LeafKind};
use crate::planning::append::plan_append;
use crate::planning::estimate;
use crate::planning::scan::{ScanContext, plan_scan};
use crate::planning::system_view_key::system_view_key;

/// Most sets of other units for which probing paths of a table are planned.
const PROBES_MAX: usize = 12;
/// Most blocks of a query that are planned a second time, for values of the units around them. They
/// nest: without a bound, each level would take twice the time of the level inside it.
const PROBED_BLOCKS_MAX: usize = 64;

impl Joins<'_> {
    /// Plans a unit without a join. The values that the unit reads of other units are available.
    pub(super) fn alone(
        &self,
        unit: &Unit,
        order: &[SortKey],
        limit: Option<f64>,
    ) -> Result<Finished> {
        match &unit.source {
            Source::Leaf(leaf) => {
                let available = |slot: usize| !unit.has(slot);
                let scan = Scan { order, limit, available: &available, forced: false, loops: 1.0 };
                let (node, ordered) = self.leaf(leaf, unit.filters.clone(), &scan);
                Ok(Finished { estimate: estimate(&node), node, ordered })
            }
            Source::Block(block) => {
                let mut block = Block::clone(block);
                block.conditions.extend(unit.filters.iter().cloned());
                stack::deeper(|| self.best(&block, order, limit))
            }
            Source::Full(full) => stack::deeper(|| self.full(full, &unit.filters)),
        }
    }

    /// Plans an item. Returns the plan, and the number of leading keys of the wanted order that
    /// hold.
    fn leaf(&self, leaf: &Leaf, filters: Vec<Expr>, scan: &Scan<'_>) -> (PlanNode, usize) {
        match &leaf.kind {
            LeafKind::Table { relation, name } => {
                let context = ScanContext {
                    settings: self.settings,
                    above: self.above,
                    available: scan.available,
                    order: scan.order,
                    limit: scan.limit,
                    forced: scan.forced,
                    loops: scan.loops,
                };
                let start = leaf.slots.start;
                if relation.is_partitioned() {
                    return plan_append(relation, name, start, self.used, &filters, &context);
                }
                let (plan, ordered) =
                    plan_scan(relation, name, start, self.used, filters, &context);
                (PlanNode::Scan(plan), ordered)
            }
            LeafKind::Other(node) => {
                let mut node = node.clone();
                if let PlanNode::Virtual { relation, start, key, .. } = &mut node {
                    *key = system_view_key(relation, *start, &filters, scan.available);
                }
                (filtered(node, filters), 0)
            }
        }
    }

    /// Plans a full join, by hash.
    fn full(&self, full: &FullJoin, filters: &[Expr]) -> Result<Finished> {
        let mut sides = [self.best(&full.left, &[], None)?, self.best(&full.right, &[], None)?];
        let mut slots = [full.left.slots(), full.right.slots()];
        // The smaller side is hashed.
        if sides[0].estimate.rows < sides[1].estimate.rows {
            sides.reverse();
            slots.reverse();
        }
        let units_of = |expr: &Expr| -> Set {
            match (reads_ranges(expr, &slots[0]), reads_ranges(expr, &slots[1])) {
                (true, true) => 0,
                (true, false) => 1,
                (false, true) => 2,
                (false, false) => 3,
            }
        };
        let (mut hash, mut rest) = (Vec::new(), Vec::new());
        for part in &full.on {
            match sides_of(part, &units_of, 1, 2) {
                Some((outer, inner)) => {
                    hash.push(JoinKey { outer: outer.clone(), inner: inner.clone() });
                }
                None => rest.push(part.clone()),
            }
        }
        let constant = |expr: &Expr| units_of(expr) == 0 && !is_volatile(expr);
        if hash.is_empty() && !rest.iter().all(constant) {
            return Err(SqlError::new(
                "0A000",
                "FULL JOIN is only supported with merge-joinable or hash-joinable join conditions",
            ));
        }
        let [left, right] = sides;
        let exprs: Vec<&Expr> = full.on.iter().collect();
        let is_inner = |slot: usize| slots[1].iter().any(|range| range.contains(slot));
        let (outer_rows, inner_rows) = (left.estimate.rows, right.estimate.rows);
        let rows = self.tables.joined(JoinType::Full, outer_rows, inner_rows, &exprs, &is_inner);
        let (outer, inner) = (ready(&left), ready(&right));
        let pairing = Pairing { kind: JoinKind::Full, rows, matched: 1.0, judge: 0.0 };
        let keys = hash.len() as f64;
        let share = 1.0 / right.estimate.rows.max(1.0);
        let (startup, total) = hash_join(&outer, &inner, keys, share, &pairing, &self.settings);
        let width = left.estimate.width + right.estimate.width;
        let [outer_slots, inner_slots] = slots;
        let node = PlanNode::Join(JoinPlan {
            kind: JoinKind::Full,
            outer: Arc::new(left.node),
            inner: Arc::new(right.node),
            outer_slots,
            inner_slots,
            inner_depends: false,
            hash,
            merge: Vec::new(),
            condition: conjunction(rest),
            estimate: Estimate { startup, total, rows, width },
        });
        let share = self.tables.all(filters.iter());
        let node = filtered(node, filters.to_vec());
        let rows = (rows * share).max(1.0);
        let estimate = Estimate { startup, total, rows, width };
        Ok(Finished { node, estimate, ordered: 0 })
    }
}

/// Requirements for the scan of a leaf.
struct Scan<'a> {
    order: &'a [SortKey],
    limit: Option<f64>,
    available: &'a dyn Fn(usize) -> bool,
    /// True if only paths in the order count.
    forced: bool,
    /// Number of repetitions of the scan.
    loops: f64,
}

/// Wraps a finished plan as a path.
fn ready(finished: &Finished) -> Path {
    let Estimate { startup, total, rows, width } = finished.estimate;
    Path {
        shape: Shape::Ready(Arc::new(finished.node.clone())),
        rows,
        width,
        startup,
        total,
        needs: 0,
        enforced: Rc::from([]),
        order: Rc::from([]),
    }
}

/// Returns the sort key that a merge join needs for an expression.
pub(super) fn ascending(expr: &Expr) -> SortKey {
    SortKey { expr: expr.clone(), descending: false, nulls_first: false }
}

/// Adds conditions to a step: in its filter if it has a free one, otherwise above it.
fn filtered(mut node: PlanNode, conditions: Vec<Expr>) -> PlanNode {
    let Some(condition) = conjunction(conditions) else { return node };
    match &mut node {
        PlanNode::Virtual { filter, .. }
        | PlanNode::SubQuery { filter, .. }
        | PlanNode::Shared { filter, .. }
        | PlanNode::Function { filter, .. }
        | PlanNode::Single { filter, .. }
        | PlanNode::Working(WorkingPlan { filter, .. })
            if filter.is_none() =>
        {
            *filter = Some(condition);
            node
        }
        _ => PlanNode::Filter { input: Arc::new(node), condition },
    }
}

impl Search<'_, '_> {
    pub(super) fn estimate(path: &Path) -> Estimate {
        Estimate { startup: path.startup, total: path.total, rows: path.rows, width: path.width }
    }

    /// Returns the paths of a unit by itself, and its number of rows.
    pub(super) fn unit_paths(&self, number: usize, order: &[SortKey]) -> Result<(Paths, f64)> {
        let unit = &self.units[number];
        let needs = self.lateral[number];
        let mut paths = Paths::default();
        let finished = self.joins.alone(unit, &[], None)?;
        let rows = match &unit.source {
            // The estimates of these items ignore the conditions on top of them.
            Source::Leaf(leaf) if matches!(leaf.kind, LeafKind::Other(_)) => {
                finished.estimate.rows * self.joins.tables.all(unit.filters.iter())
            }
            _ => finished.estimate.rows,
        };
        let rows = rows.max(1.0);
        paths.add(Path { rows, needs, ..ready(&finished) });
        let Source::Leaf(leaf) = &unit.source else { return Ok((paths, rows)) };
        if !unit.is_table() {
            return Ok((paths, rows));
        }
        let own = |key: &SortKey| reads_ranges(&key.expr, &unit.slots);
        let mut orders: Vec<Vec<SortKey>> = Vec::new();
        // Use the leading keys if the remaining ones belong to other units. Then only rows that are
        // equal in the leading keys must be sorted.
        let first = order.iter().take_while(|key| own(key)).count();
        if first > 0 && matches!(unit.link, Link::Inner) {
            orders.push(order[..first].to_vec());
        }
        if let (true, LeafKind::Table { relation, .. }) =
            (self.joins.settings.enable_mergejoin, &leaf.kind)
        {
            orders.extend(self.merge_orders(number, relation));
        }
        let available = |slot: usize| self.units_of_slot(slot) == 0;
        for order in orders {
            let scan = Scan {
                order: &order,
                limit: None,
                available: &available,
                forced: true,
                loops: 1.0,
            };
            let (node, ordered) = self.joins.leaf(leaf, unit.filters.clone(), &scan);
            if ordered >= order.len() {
                let finished = Finished { estimate: estimate(&node), node, ordered };
                paths.add(Path { needs, rows, order: order.into(), ..ready(&finished) });
            }
        }
        Ok((paths, rows))
    }

    /// Returns the orders of a table's rows that a merge join can use.
    ///
    /// They consist of columns that conditions equate with other units: each column alone, and
    /// leading index columns together. The long orders come first: a path with a long order needs
    /// no shorter one.
    fn merge_orders(&self, number: usize, relation: &Relation) -> Vec<Vec<SortKey>> {
        let own: Set = 1 << number;
        let mut keys: Vec<(usize, &Expr)> = Vec::new();
        for condition in &self.conditions {
            if condition.units & own == 0 || condition.units == own {
                continue;
            }
            let others = condition.units & !own;
            let units_of = |expr: &Expr| self.units_of(expr);
            let Some((side, _)) = sides_of(&condition.expr, &units_of, own, others) else {
                continue;
            };
            let ExprKind::Slot { depth: 0, slot } = side.kind else { continue };
            if !keys.iter().any(|(known, _)| *known == slot) {
                keys.push((slot, side));
            }
        }
        let mut orders: Vec<Vec<SortKey>> = Vec::new();
        let start = self.units[number].slots.first().map_or(0, |range| range.start);
        for index in &relation.indexes {
            let columns = index.definition.key.iter();
            let order: Vec<SortKey> = columns
                .map_while(|column| {
                    let slot = start + usize::from(column.column);
                    let is_key = |(known, _): &&(usize, &Expr)| *known == slot;
                    keys.iter().find(is_key).filter(|_| column.expression.is_none())
                })
                .map(|(_, side)| ascending(side))
                .collect();
            if order.len() > 1 {
                orders.push(order);
            }
        }
        orders.sort_by_key(|order| Reverse(order.len()));
        orders.extend(keys.iter().map(|(_, side)| vec![ascending(side)]));
        orders
    }

    /// Returns the paths of a unit that take values of other units. `rows` has the number of rows
    /// of each unit.
    pub(super) fn probing_paths(&self, number: usize, rows: &[f64]) -> Result<Vec<Path>> {
        let unit = &self.units[number];
        let own: Set = 1 << number;
        let owner = match unit.link {
            Link::Inner => None,
            Link::Outer(..) => Some(number),
        };
        // A semi join's rows may be made unique, and then probe the other tables.
        let is_semi = |unit: usize| matches!(self.units[unit].link, Link::Outer(JoinType::Semi, _));
        let candidates: Vec<usize> = (0..self.conditions.len())
            .filter(|condition| {
                let condition = &self.conditions[*condition];
                (condition.owner == owner
                    || owner.is_none() && condition.owner.is_some_and(is_semi))
                    && condition.units & own != 0
                    && condition.units != own
                    && !is_volatile(&condition.expr)
            })
            .collect();
        let mut found = Vec::new();
        match &unit.source {
            Source::Leaf(leaf) if unit.is_table() || unit.is_virtual() => {
                for needs in self.probing_sets(&candidates, own) {
                    let mut with: Vec<usize> = Vec::new();
                    for candidate in &candidates {
                        let there = self.conditions[*candidate].units & !(needs | own) == 0;
                        if there && !self.follows(*candidate, &with) {
                            with.push(*candidate);
                        }
                    }
                    found.extend(self.probe(leaf, unit, needs, &with, rows));
                }
            }
            Source::Block(block) if owner.is_some() && !candidates.is_empty() => {
                // The block is also planned by itself, and so are the blocks inside it.
                let probed = self.joins.probed.get();
                if probed >= PROBED_BLOCKS_MAX {
                    return Ok(found);
                }
                self.joins.probed.set(probed + 1);
                let mut block = Block::clone(block);
                let exprs = candidates.iter().map(|c| self.conditions[*c].expr.clone());
                block.conditions.extend(exprs);
                let needs = candidates.iter().fold(self.lateral[number], |needs, c| {
                    needs | (self.conditions[*c].units & !own)
                });
                let finished = self.joins.best(&block, &[], None)?;
                found.push(Path { needs, enforced: candidates.into(), ..ready(&finished) });
            }
            _ => {}
        }
        Ok(found)
    }

    /// Returns the sets of other units that conditions connect with a unit: each set alone, and the
    /// unions of two.
    fn probing_sets(&self, candidates: &[usize], own: Set) -> Vec<Set> {
        let mut sets: Vec<Set> = Vec::new();
        let mut add = |set: Set| {
            if !sets.contains(&set) && sets.len() < PROBES_MAX {
                sets.push(set);
            }
        };
        let single: Vec<Set> =
            candidates.iter().map(|c| self.conditions[*c].units & !own).collect();
        single.iter().for_each(|set| add(*set));
        for first in &single {
            single.iter().for_each(|second| add(first | second));
        }
        sets
    }

    /// Plans a scan of a table, or of a system relation, with values of other units. Returns `None`
    /// if the scan does not use them.
    fn probe(
        &self,
        leaf: &Leaf,
        unit: &Unit,
        needs: Set,
        with: &[usize],
        rows: &[f64],
    ) -> Option<Path> {
        let available = |slot: usize| {
            let units = self.units_of_slot(slot);
            units & !needs == 0
        };
        let loops = members(needs).map(|unit| rows[unit]).fold(f64::INFINITY, f64::min);
        let loops = if loops.is_finite() { loops.max(1.0) } else { 1.0 };
        let scan = Scan { order: &[], limit: None, available: &available, forced: false, loops };
        let joined = with.iter().map(|c| self.conditions[*c].expr.clone());
        let filters: Vec<Expr> = unit.filters.iter().cloned().chain(joined).collect();
        let (node, _) = self.joins.leaf(leaf, filters, &scan);
        let used = match &node {
            PlanNode::Scan(plan) => {
                let mut left = Vec::new();
                if let Some(filter) = plan.filter.clone() {
                    split_conjuncts(filter, &mut left);
                }
                let is_left = |c: &usize| left.iter().any(|e| e.same(&self.conditions[*c].expr));
                !matches!(plan.path, PathPlan::Sequential) && !with.iter().all(is_left)
            }
            // The other units' values select partitions, or rows in each partition.
            PlanNode::Append(append) => append.uses_values(&|scan| {
                let mut left = Vec::new();
                if let Some(filter) = scan.filter.clone() {
                    split_conjuncts(filter, &mut left);
                }
                let is_left = |c: &usize| left.iter().any(|e| e.same(&self.conditions[*c].expr));
                !matches!(scan.path, PathPlan::Sequential) && !with.iter().all(is_left)
            }),
            PlanNode::Virtual { key: Some((_, value)), .. } => {
                let mut reads = false;
                reads_slots(value, &mut |_| reads = true);
                reads
            }
            _ => false,
        };
        if !used {
            return None;
        }
        let finished = Finished { estimate: estimate(&node), node, ordered: 0 };
        Some(Path { needs, enforced: with.into(), ..ready(&finished) })
    }

    /// Builds the plan steps of a path.
    pub(super) fn node(&self, path: &Path) -> PlanNode {
        match &path.shape {
            // Kept paths always have a shape.
            Shape::Undecided => PlanNode::Result,
            Shape::Ready(node) => PlanNode::clone(node),
            Shape::Join(join) => self.join_node(join, path),
        }
    }

    fn join_node(&self, join: &JoinShape, path: &Path) -> PlanNode {
        let expr = |number: &usize| self.conditions[*number].expr.clone();
        let set = |ranges: &[niwaki_expr::query::SlotRange]| {
            ranges.iter().fold(0, |set, range| {
                (range.start..range.end).fold(set, |set, slot| set | self.units_of_slot(slot))
            })
        };
        let (outer, inner) = (set(&join.outer_slots), set(&join.inner_slots));
        let mut condition: Vec<Expr> = join.condition.iter().map(expr).collect();
        let mut keys = |numbers: &[usize]| {
            let mut keys = Vec::new();
            for number in numbers {
                let part = &self.conditions[*number].expr;
                match sides_of(part, &|expr| self.units_of(expr), outer, inner) {
                    Some((outer, inner)) => {
                        keys.push(JoinKey { outer: outer.clone(), inner: inner.clone() });
                    }
                    None => condition.push(part.clone()),
                }
            }
            keys
        };
        let (hash, merge) = (keys(&join.hash), keys(&join.merge));
        let side = |path: &Path, sorted: bool, of: fn(&JoinKey) -> &Expr| {
            let node = Arc::new(self.node(path));
            if !sorted {
                return node;
            }
            Arc::new(PlanNode::Sort {
                input: node,
                keys: merge.iter().map(of).map(ascending).collect(),
                presorted: 0,
            })
        };
        let node = PlanNode::Join(JoinPlan {
            kind: join.kind,
            outer: side(&join.outer, join.sorts.0, |key| &key.outer),
            inner: side(&join.inner, join.sorts.1, |key| &key.inner),
            outer_slots: join.outer_slots.to_vec(),
            inner_slots: join.inner_slots.to_vec(),
            inner_depends: join.depends,
            hash,
            merge,
            condition: conjunction(condition),
            estimate: Self::estimate(path),
        });
        match conjunction(join.above.iter().map(expr).collect()) {
            Some(condition) => PlanNode::Filter { input: Arc::new(node), condition },
            None => node,
        }
    }
}
