//! Join blocks: sets of units that may be joined in any order.

use niwaki_env::stack;
use niwaki_expr::expr::{Expr, ExprKind};
use niwaki_expr::query::{
    JoinTree, JoinType, SlotRange, is_volatile, reads_nothing, reads_only, reads_slots,
};
use niwaki_parse::error::{Result, SqlError};

use super::search::UNITS_MAX;
use super::{Leaf, LeafKind};

/// A set of units, with the conditions on their combinations.
#[derive(Clone, Default)]
pub(super) struct Block {
    pub(super) units: Vec<Unit>,
    pub(super) conditions: Vec<Expr>,
}

/// An operand of the join search: an item, or a subtree that is joined as a whole.
#[derive(Clone)]
pub(super) struct Unit {
    pub(super) source: Source,
    /// Slots of the unit.
    pub(super) slots: Vec<SlotRange>,
    /// Conditions on the unit's rows that hold before any join.
    pub(super) filters: Vec<Expr>,
    pub(super) link: Link,
}

/// The content of a unit.
#[derive(Clone)]
pub(super) enum Source {
    Leaf(Box<Leaf>),
    Block(Box<Block>),
    /// A full join of two blocks.
    Full(Box<FullJoin>),
}

/// A full join.
#[derive(Clone)]
pub(super) struct FullJoin {
    pub(super) left: Block,
    pub(super) right: Block,
    pub(super) on: Vec<Expr>,
}

/// The connection of a unit to the other units of its block.
#[derive(Clone)]
pub(super) enum Link {
    /// An inner join, in any order.
    Inner,
    /// The right side of a left, semi or anti join, with its ON condition.
    Outer(JoinType, Vec<Expr>),
}

impl Block {
    /// Builds the block of a join tree; takes the items out of `leaves`.
    pub(super) fn of(tree: JoinTree, leaves: &mut [Option<Leaf>]) -> Result<Self> {
        let mut block = Self::default();
        block.add(tree, leaves)?;
        Ok(block)
    }

    fn add(&mut self, tree: JoinTree, leaves: &mut [Option<Leaf>]) -> Result<()> {
        stack::deeper(|| self.add_here(tree, leaves))
    }

    fn add_here(&mut self, tree: JoinTree, leaves: &mut [Option<Leaf>]) -> Result<()> {
        let join = match tree {
            JoinTree::Item(number) => {
                let leaf = leaves
                    .get_mut(number)
                    .and_then(Option::take)
                    .ok_or_else(|| SqlError::internal("a FROM item is joined twice"))?;
                let slots = vec![leaf.slots];
                self.units.push(Unit::inner(Source::Leaf(Box::new(leaf)), slots));
                return Ok(());
            }
            JoinTree::Join(join) => *join,
        };
        match join.kind {
            JoinType::Inner => {
                self.add(join.left, leaves)?;
                self.add(join.right, leaves)?;
                self.conditions.extend(join.on);
            }
            JoinType::Full => {
                let left = Self::of(join.left, leaves)?;
                let right = Self::of(join.right, leaves)?;
                let slots = left.slots().into_iter().chain(right.slots()).collect();
                let full = FullJoin { left, right, on: join.on };
                self.units.push(Unit::inner(Source::Full(Box::new(full)), slots));
            }
            JoinType::Left | JoinType::Semi | JoinType::Anti => {
                self.add(join.left, leaves)?;
                let right = Self::of(join.right, leaves)?;
                self.link(join.kind, right, join.on);
            }
        }
        Ok(())
    }

    /// Adds the right side of a left, semi or anti join.
    fn link(&mut self, kind: JoinType, mut right: Self, on: Vec<Expr>) {
        let slots = right.slots();
        let inside = |slot: usize| slots.iter().any(|range| range.contains(slot));
        let mut link = Vec::new();
        for part in on {
            let fixed = is_volatile(&part) || reads_nothing(&part);
            if !fixed && reads_only(&part, &mut |slot| inside(slot)) {
                right.conditions.push(part);
            } else if !fixed
                && kind == JoinType::Semi
                && reads_only(&part, &mut |slot| !inside(slot))
            {
                self.conditions.push(part);
            } else {
                link.push(part);
            }
        }
        if kind == JoinType::Semi && right.matches_once(&link) {
            // The join returns no row twice, so it may be an inner join, in any order.
            self.units.extend(right.units);
            self.conditions.extend(right.conditions);
            self.conditions.extend(link);
            return;
        }
        let link = Link::Outer(kind, link);
        let alone = right.units.len() == 1 && matches!(right.units[0].link, Link::Inner);
        let unit = match right.units.pop() {
            Some(unit) if alone => {
                let filters = [unit.filters, right.conditions].concat();
                Unit { filters, link, ..unit }
            }
            unit => {
                right.units.extend(unit);
                let source = Source::Block(Box::new(right));
                Unit { source, slots, filters: Vec::new(), link }
            }
        };
        self.units.push(unit);
    }

    /// Returns whether conditions fix the whole key of a unique index of the block's only table.
    fn matches_once(&self, conditions: &[Expr]) -> bool {
        let [Unit { source: Source::Leaf(leaf), link: Link::Inner, .. }] = self.units.as_slice()
        else {
            return false;
        };
        let LeafKind::Table { relation, .. } = &leaf.kind else { return false };
        let fixes = |condition: &Expr, wanted: usize| {
            let ExprKind::Call { function, arguments } = &condition.kind else { return false };
            let [left, right] = arguments.as_slice() else { return false };
            let is = |expr: &Expr| matches!(expr.kind, ExprKind::Slot { depth: 0, slot } if slot == wanted);
            let other = |expr: &Expr| reads_only(expr, &mut |slot| !leaf.slots.contains(slot));
            function.name == "=" && (is(left) && other(right) || is(right) && other(left))
        };
        relation.indexes.iter().any(|index| {
            let definition = &index.definition;
            definition.is_unique_at_once()
                && definition.predicate.is_none()
                && definition.key.iter().all(|key| {
                    let slot = leaf.slots.start + usize::from(key.column);
                    key.expression.is_none()
                        && conditions.iter().any(|condition| fixes(condition, slot))
                })
        })
    }

    /// Reduces the block to the number of units that a search can have, with the same rows. If
    /// there are more, groups of units become one unit, which is joined as a whole. Units that
    /// conditions connect stay together.
    pub(super) fn divided(self) -> Self {
        if self.units.len() <= UNITS_MAX {
            return self;
        }
        let order = self.connected_order();
        let mut units: Vec<Option<Unit>> = self.units.into_iter().map(Some).collect();
        let mut divided = Self::default();
        for number in order {
            if divided.units.len() == UNITS_MAX {
                let slots = divided.slots();
                let before = Source::Block(Box::new(std::mem::take(&mut divided)));
                divided.units.push(Unit::inner(before, slots));
            }
            divided.units.extend(units[number].take());
        }
        divided.conditions = self.conditions;
        divided
    }

    /// Returns the numbers of the units in an order for dividing them. Each unit follows the units
    /// that it reads. If possible, it also follows a unit that a condition connects it with.
    fn connected_order(&self) -> Vec<usize> {
        let count = self.units.len();
        let unit_of = |slot: usize| self.units.iter().position(|unit| unit.has(slot));
        let mut needs: Vec<Vec<usize>> = Vec::with_capacity(count);
        for (number, unit) in self.units.iter().enumerate() {
            let mut read = Vec::new();
            unit.reads(&mut |slot| read.extend(unit_of(slot)));
            if let Link::Outer(_, on) = &unit.link {
                for expr in on {
                    reads_slots(expr, &mut |slot| read.extend(unit_of(slot)));
                }
            }
            read.retain(|other| *other != number);
            needs.push(read);
        }
        let mut connected: Vec<Vec<usize>> = Vec::with_capacity(self.conditions.len());
        let mut conditions: Vec<Vec<usize>> = vec![Vec::new(); count];
        for (number, expr) in self.conditions.iter().enumerate() {
            let mut read = Vec::new();
            reads_slots(expr, &mut |slot| read.extend(unit_of(slot)));
            read.iter().for_each(|unit| conditions[*unit].push(number));
            connected.push(read);
        }
        let (mut taken, mut near) = (vec![false; count], vec![false; count]);
        let mut order = Vec::with_capacity(count);
        // Ends: each turn takes one unit.
        while order.len() < count {
            let ready =
                |unit: &usize| !taken[*unit] && needs[*unit].iter().all(|other| taken[*other]);
            // A unit that reads other units is joined with them.
            let next = (0..count)
                .filter(ready)
                .find(|unit| near[*unit] || !needs[*unit].is_empty())
                .or_else(|| (0..count).find(ready))
                .or_else(|| taken.iter().position(|taken| !taken));
            let Some(next) = next else { break };
            taken[next] = true;
            for condition in &conditions[next] {
                std::mem::take(&mut connected[*condition])
                    .into_iter()
                    .for_each(|other| near[other] = true);
            }
            order.push(next);
        }
        order
    }

    /// Returns all slots of the block's units.
    pub(super) fn slots(&self) -> Vec<SlotRange> {
        self.units.iter().flat_map(|unit| unit.slots.iter().copied()).collect()
    }

    /// Visits the slots that any part of the block reads, its own or others.
    fn reads(&self, visit: &mut dyn FnMut(usize)) {
        self.conditions.iter().for_each(|expr| reads_slots(expr, visit));
        for unit in &self.units {
            unit.reads(visit);
            if let Link::Outer(_, on) = &unit.link {
                on.iter().for_each(|expr| reads_slots(expr, visit));
            }
        }
    }
}

impl Unit {
    fn inner(source: Source, slots: Vec<SlotRange>) -> Self {
        Self { source, slots, filters: Vec::new(), link: Link::Inner }
    }

    /// Visits the slots that the unit's source and filters read, its own or others.
    pub(super) fn reads(&self, visit: &mut dyn FnMut(usize)) {
        self.filters.iter().for_each(|expr| reads_slots(expr, visit));
        match &self.source {
            Source::Leaf(leaf) => leaf.reads.iter().copied().for_each(visit),
            Source::Block(block) => block.reads(visit),
            Source::Full(full) => {
                full.left.reads(visit);
                full.right.reads(visit);
                full.on.iter().for_each(|expr| reads_slots(expr, visit));
            }
        }
    }

    /// Returns whether the slot belongs to the unit.
    pub(super) fn has(&self, slot: usize) -> bool {
        self.slots.iter().any(|range| range.contains(slot))
    }

    /// Returns whether the unit is a stored table.
    pub(super) fn is_table(&self) -> bool {
        matches!(&self.source, Source::Leaf(leaf) if matches!(leaf.kind, LeafKind::Table { .. }))
    }

    /// Returns whether the unit is a system relation, whose rows are computed.
    pub(super) fn is_virtual(&self) -> bool {
        let is_virtual = |kind: &LeafKind| {
            matches!(kind, LeafKind::Other(niwaki_expr::plan::PlanNode::Virtual { .. }))
        };
        matches!(&self.source, Source::Leaf(leaf) if is_virtual(&leaf.kind))
    }
}

#[cfg(test)]
mod tests {
    use niwaki_types::{ColumnType, TypeOid};

    use super::*;
    use niwaki_expr::plan::PlanNode;

    #[test]
    fn what_conditions_connect_is_joined_in_one_search() {
        let unit = |slot: usize| {
            let slots = SlotRange { start: slot, end: slot + 1 };
            let (kind, reads) = (LeafKind::Other(PlanNode::Result), Vec::new());
            Unit::inner(Source::Leaf(Box::new(Leaf { kind, slots, reads })), vec![slots])
        };
        // Many tables. A condition connects each of them with the last table only.
        let last = 3 * UNITS_MAX;
        let read = |slot| Expr::slot(slot, ColumnType::new(TypeOid::BOOL));
        let connecting =
            |slot| Expr::new(ExprKind::And(vec![read(slot), read(last)]), TypeOid::BOOL, -1);
        let (units, conditions) = ((0..=last).map(unit), (0..last).map(connecting));
        let block = Block { units: units.collect(), conditions: conditions.collect() };
        assert_eq!(block.connected_order()[..3], [0, last, 1]);
        let mut divided = block.divided();
        assert_eq!((divided.slots().len(), divided.conditions.len()), (last + 1, last));
        // Each part has the table that joins its units.
        while let Some(Unit { source: Source::Block(inner), .. }) = divided.units.first() {
            assert!(divided.units.len() <= UNITS_MAX);
            divided = Block::clone(inner);
            assert!(divided.slots().iter().any(|range| range.contains(last)));
        }
        assert_eq!(divided.units.len(), UNITS_MAX);
    }
}
