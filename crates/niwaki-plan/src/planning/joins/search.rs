//! The search for the best join order of a block.

use std::rc::Rc;
use std::sync::Arc;

use niwaki_env::hash::{HashMap, HashSet};
use niwaki_expr::expr::{Expr, ExprKind};
use niwaki_expr::plan::{JoinKind, PlanNode};
use niwaki_expr::query::{
    JoinType, SlotRange, SortKey, asked_of, is_volatile, reads_only, reads_slots,
};
use niwaki_parse::error::{Result, SqlError};

use super::block::{Block, Link, Unit};
use super::methods::Pair;
use super::path::{PAGE_BYTES, Path, Paths, Shape, common_order};
use super::{Finished, Joins};
use crate::planning::cost;

/// A set of units, one bit for each.
pub(super) type Set = u128;

/// Most units of one search: a set has one bit for each.
pub(super) const UNITS_MAX: usize = 120;
/// Estimated size, in bytes, of a row's keys when rows are made unique.
const UNIQUE_BYTES: f64 = 100.0;
/// Most units for an exhaustive search. Blocks with more units are joined greedily.
const SEARCHED_MAX: usize = 10;

/// A condition of the block or of a link.
pub(super) struct Condition {
    pub(super) expr: Expr,
    /// Units that the condition reads.
    pub(super) units: Set,
    /// The linked unit whose ON clause has the condition.
    pub(super) owner: Option<usize>,
    /// Number of the condition's equality class.
    pub(super) class: Option<usize>,
}

/// A joined set of units.
struct Relation {
    rows: f64,
    paths: Paths,
}

/// The state of the search in one block.
pub(super) struct Search<'s, 'j> {
    pub(super) joins: &'s Joins<'j>,
    pub(super) units: Vec<Unit>,
    /// The unit of each slot, as a set.
    units_of_slots: Vec<Set>,
    pub(super) conditions: Vec<Condition>,
    /// For each unit, the units that it reads (LATERAL).
    pub(super) lateral: Vec<Set>,
    /// For each linked unit, the units that must be joined before it.
    before: Vec<Set>,
    relations: HashMap<Set, Relation>,
    /// The order that the query above wants.
    pub(super) wanted: Rc<[SortKey]>,
}

fn bit(unit: usize) -> Set {
    1 << unit
}

/// Iterates over the units of a set.
pub(super) fn members(set: Set) -> impl Iterator<Item = usize> {
    let mut left = set;
    std::iter::from_fn(move || {
        let unit = left.trailing_zeros();
        left &= left.wrapping_sub(1);
        usize::try_from(unit).ok().filter(|unit| *unit < UNITS_MAX)
    })
}

impl Joins<'_> {
    /// Returns the best plan of a block.
    pub(super) fn best(
        &self,
        block: &Block,
        order: &[SortKey],
        limit: Option<f64>,
    ) -> Result<Finished> {
        if let [unit] = block.units.as_slice() {
            let mut unit = unit.clone();
            unit.filters.extend(block.conditions.iter().cloned());
            return self.alone(&unit, order, limit);
        }
        if block.units.len() > UNITS_MAX {
            return self.best(&Block::clone(block).divided(), order, limit);
        }
        let mut search = Search::new(self, block, order);
        search.run()?;
        let all = (1 << search.units.len()) - 1;
        let relation = search
            .relations
            .get(&all)
            .ok_or_else(|| SqlError::internal("no order of joins was found"))?;
        let costs = &self.settings.costs;
        let price = |path: &Path| {
            let (rows, ordered) = (path.rows.max(1.0), common_order(&path.order, order));
            // Rows that are equal in the sorted leading keys are adjacent, and are sorted group by
            // group.
            let alike = match ordered {
                all if all == order.len() => 1.0,
                0 => rows,
                some => {
                    let values = order[..some].iter().map(|key| self.tables.distinct(&key.expr));
                    (rows / values.product::<f64>().max(1.0)).max(1.0)
                }
            };
            let read = match limit {
                Some(limit) if alike < rows => ((limit / alike).ceil() * alike).min(rows),
                _ => rows,
            };
            let sorted = if alike > 1.0 { cost::sort(alike, costs) * read / alike } else { 0.0 };
            path.startup + (path.total - path.startup) * read / rows + sorted
        };
        let path = relation
            .paths
            .list
            .iter()
            .filter(|path| path.needs == 0)
            .min_by(|a, b| price(a).total_cmp(&price(b)))
            .ok_or_else(|| SqlError::internal("no order of joins was found"))?;
        let ordered = common_order(&path.order, order);
        Ok(Finished { node: search.node(path), estimate: Search::estimate(path), ordered })
    }
}

impl<'s, 'j> Search<'s, 'j> {
    fn new(joins: &'s Joins<'j>, block: &Block, wanted: &[SortKey]) -> Self {
        let ranges = block.units.iter().flat_map(|unit| &unit.slots);
        let mut units_of_slots = vec![0; ranges.map(|range| range.end).max().unwrap_or(0)];
        for (number, unit) in block.units.iter().enumerate() {
            for range in &unit.slots {
                units_of_slots[range.start..range.end].fill(bit(number));
            }
        }
        let mut search = Self {
            joins,
            units: block.units.clone(),
            units_of_slots,
            conditions: Vec::new(),
            lateral: Vec::new(),
            before: Vec::new(),
            relations: HashMap::default(),
            wanted: wanted.into(),
        };
        let all: Set = (1 << search.units.len()) - 1;
        for unit in 0..search.units.len() {
            let mut read = 0;
            search.units[unit].reads(&mut |slot| read |= search.units_of_slot(slot));
            search.lateral.push(read & !bit(unit));
            search.before.push(read & !bit(unit));
        }
        for expr in &block.conditions {
            let units = search.units_of(expr);
            if units == 0 || is_volatile(expr) {
                search.add_condition(expr.clone(), all, None);
                continue;
            }
            let mut one = members(units);
            match (one.next(), one.next()) {
                (Some(unit), None) if matches!(search.units[unit].link, Link::Inner) => {
                    search.units[unit].filters.push(expr.clone());
                }
                _ => {
                    search.ask_units(expr, units);
                    search.add_condition(expr.clone(), units, None);
                }
            }
        }
        for unit in 0..search.units.len() {
            if let Link::Outer(_, on) = search.units[unit].link.clone() {
                for expr in on {
                    let units = search.units_of(&expr) | bit(unit);
                    search.before[unit] |= units & !bit(unit);
                    search.add_condition(expr, units, Some(unit));
                }
            }
        }
        search.close_equalities();
        search
    }

    /// Returns whether `among` has a condition of the same equality class. Then this condition
    /// holds, too.
    pub(super) fn follows(&self, number: usize, among: &[usize]) -> bool {
        let class = self.conditions[number].class;
        class.is_some() && among.iter().any(|other| self.conditions[*other].class == class)
    }

    /// Returns the sides of equalities by which rows of a set can be merge-joined with other units.
    pub(super) fn merged_by(&self, set: Set) -> Vec<&Expr> {
        let all: Set = (1 << self.units.len()) - 1;
        let reaches =
            |condition: &&Condition| condition.units & set != 0 && condition.units & !set != 0;
        let sides = self.conditions.iter().filter(reaches).filter_map(|condition| {
            sides_of(&condition.expr, &|expr| self.units_of(expr), set, all & !set)
        });
        sides.map(|(side, _)| side).collect()
    }

    /// Adds the parts of a condition that concern a single unit to the filters of that unit.
    fn ask_units(&mut self, condition: &Expr, units: Set) {
        for number in members(units) {
            let unit = &mut self.units[number];
            if matches!(unit.link, Link::Inner) {
                let asked = asked_of(condition, &|slot| unit.has(slot));
                unit.filters.extend(asked);
            }
        }
    }

    fn add_condition(&mut self, expr: Expr, units: Set, owner: Option<usize>) {
        self.conditions.push(Condition { expr, units, owner, class: None });
    }

    pub(super) fn units_of_slot(&self, slot: usize) -> Set {
        self.units_of_slots.get(slot).copied().unwrap_or(0)
    }

    /// Returns the units of this block that an expression reads.
    pub(super) fn units_of(&self, expr: &Expr) -> Set {
        let mut units = 0;
        reads_slots(expr, &mut |slot| units |= self.units_of_slot(slot));
        units
    }

    fn is_linked(&self, set: Set) -> Option<usize> {
        let unit = members(set).next()?;
        (set == bit(unit) && matches!(self.units[unit].link, Link::Outer(..))).then_some(unit)
    }

    fn run(&mut self) -> Result<()> {
        let count = self.units.len();
        let wanted = Rc::clone(&self.wanted);
        // The base paths come first: probing paths need the row counts of all units.
        let mut rows = vec![1.0; count];
        for (unit, place) in rows.iter_mut().enumerate() {
            (self.joins.interrupts)()?;
            let (paths, unit_rows) = self.unit_paths(unit, &wanted)?;
            *place = unit_rows;
            self.relations.insert(bit(unit), Relation { rows: unit_rows, paths });
        }
        for unit in 0..count {
            for path in self.probing_paths(unit, &rows)? {
                if let Some(relation) = self.relations.get_mut(&bit(unit)) {
                    relation.paths.add(path);
                }
            }
        }
        if count <= SEARCHED_MAX { self.search_all(count) } else { self.search_greedily(count) }
    }

    /// Joins all sets of units that conditions connect, the smaller sets first. Cross products are
    /// formed only if there is no other way to join all units.
    fn search_all(&mut self, count: usize) -> Result<()> {
        let all: Set = (1 << count) - 1;
        for connected in [true, false] {
            let mut sets: Vec<Set> = (1..=all).filter(|set| set.count_ones() > 1).collect();
            sets.sort_by_key(|set| set.count_ones());
            for set in sets {
                // Visit each division once: the first part has the lowest unit.
                let lowest = set & set.wrapping_neg();
                let rest = set & !lowest;
                let mut part = rest;
                loop {
                    let (first, second) = (lowest | (rest & !part), part);
                    if second != 0 {
                        self.join(first, second, connected)?;
                    }
                    if part == 0 {
                        break;
                    }
                    part = (part - 1) & rest;
                }
            }
            if self.relations.get(&all).is_some_and(|found| has_free_path(&found.paths)) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Repeatedly joins the two sets whose join returns the fewest rows. Cross products are formed
    /// only where no condition connects any two sets.
    fn search_greedily(&mut self, count: usize) -> Result<()> {
        let mut clusters: Vec<Set> = (0..count).map(bit).collect();
        // The join of two sets does not change while both exist.
        let mut tried: [HashSet<Set>; 2] = Default::default();
        let mut products: HashSet<Set> = HashSet::default();
        while clusters.len() > 1 {
            let mut best: Option<(f64, usize, usize)> = None;
            for connected in [true, false] {
                for first in 0..clusters.len() {
                    for second in first + 1..clusters.len() {
                        let (a, b) = (clusters[first], clusters[second]);
                        let both = a | b;
                        if tried[usize::from(connected)].insert(both)
                            && !self.relations.contains_key(&both)
                        {
                            self.join(a, b, connected)?;
                            if !connected {
                                products.insert(both);
                            }
                        }
                        if connected && products.contains(&both) {
                            continue;
                        }
                        let Some(found) = self.relations.get(&both) else { continue };
                        if has_free_path(&found.paths)
                            && best.is_none_or(|(rows, ..)| found.rows < rows)
                        {
                            best = Some((found.rows, first, second));
                        }
                    }
                }
                if best.is_some() {
                    break;
                }
            }
            let Some((_, first, second)) = best else {
                return Err(SqlError::internal("no order of joins was found"));
            };
            let joined = clusters.swap_remove(second);
            clusters[first] |= joined;
        }
        Ok(())
    }

    /// Joins two sets by every method, if the join is valid.
    fn join(&mut self, first: Set, second: Set, only_connected: bool) -> Result<()> {
        if !self.relations.contains_key(&first) || !self.relations.contains_key(&second) {
            return Ok(());
        }
        (self.joins.interrupts)()?;
        let (outer, inner, kind) = match (self.is_linked(first), self.is_linked(second)) {
            (Some(_), Some(_)) => return Ok(()),
            (Some(unit), None) => (second, first, Some(unit)),
            (None, Some(unit)) => (first, second, Some(unit)),
            (None, None) => (first, second, None),
        };
        let kind = match kind {
            Some(unit) => {
                if self.before[unit] & !outer != 0 {
                    return Ok(());
                }
                match self.units[unit].link {
                    Link::Outer(kind, _) => kind,
                    Link::Inner => JoinType::Inner,
                }
            }
            None => JoinType::Inner,
        };
        let both = outer | inner;
        // The conditions to check here: the ON conditions of the linked unit, or those that need
        // both sides.
        let linked = self.is_linked(inner);
        let (mut on, mut above) = (Vec::new(), Vec::new());
        let mut connected = linked.is_some();
        for (number, condition) in self.conditions.iter().enumerate() {
            if let Some(owner) = condition.owner {
                if linked == Some(owner) {
                    on.push(number);
                }
            } else {
                if condition.units & outer != 0 && condition.units & inner != 0 {
                    connected |= condition.units & !both == 0;
                }
                let new = condition.units & !both == 0
                    && condition.units & !outer != 0
                    && condition.units & !inner != 0;
                // WHERE conditions on a linked unit are checked above its join.
                let own = linked.is_some()
                    && condition.units & !both == 0
                    && condition.units & inner != 0;
                match linked {
                    Some(_) if own => above.push(number),
                    None if new && !self.follows(number, &on) => on.push(number),
                    _ => {}
                }
            }
        }
        connected |= self.reads_of(outer) & inner != 0 || self.reads_of(inner) & outer != 0;
        if only_connected && !connected {
            return Ok(());
        }
        self.join_as(kind, outer, inner, &on, &above)
    }

    /// Returns the units that members of a set read.
    fn reads_of(&self, set: Set) -> Set {
        members(set).fold(0, |read, unit| read | self.lateral[unit])
    }

    pub(super) fn slots_of(&self, set: Set) -> Vec<SlotRange> {
        let mut slots: Vec<SlotRange> =
            members(set).flat_map(|unit| self.units[unit].slots.iter().copied()).collect();
        slots.sort_by_key(|range| range.start);
        let mut merged: Vec<SlotRange> = Vec::new();
        for range in slots {
            match merged.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => merged.push(range),
            }
        }
        merged
    }

    fn join_as(
        &mut self,
        kind: JoinType,
        outer: Set,
        inner: Set,
        on: &[usize],
        above: &[usize],
    ) -> Result<()> {
        let both = outer | inner;
        let (Some(left), Some(right)) = (self.relations.get(&outer), self.relations.get(&inner))
        else {
            return Ok(());
        };
        let tables = &self.joins.tables;
        let exprs: Vec<&Expr> = on.iter().map(|number| &self.conditions[*number].expr).collect();
        let inner_slot = |slot: usize| self.units_of_slot(slot) & inner != 0;
        let rows = if let Some(known) = self.relations.get(&both) {
            known.rows
        } else {
            let joined = tables.joined(kind, left.rows, right.rows, &exprs, &inner_slot);
            let shares = above.iter().map(|number| &self.conditions[*number].expr);
            (joined * tables.all(shares)).max(1.0)
        };
        let mut found = Paths::default();
        let mut sides = vec![(outer, inner, kind_of(kind, false))];
        match kind {
            JoinType::Inner => sides.push((inner, outer, JoinKind::Inner)),
            JoinType::Left => sides.push((inner, outer, kind_of(kind, true))),
            _ => {}
        }
        let matched = match kind {
            JoinType::Semi | JoinType::Anti => {
                tables.matched(exprs.iter().copied(), &inner_slot, right.rows)
            }
            _ => 1.0,
        };
        for (outer, inner, kind) in sides {
            let pair = Pair::new(self, kind, outer, inner, on, above, rows, matched);
            let (left, right) = (&self.relations[&outer], &self.relations[&inner]);
            for first in &left.paths.list {
                for second in &right.paths.list {
                    pair.join(first, second, &mut found);
                }
            }
        }
        if kind == JoinType::Semi {
            self.join_unique(outer, inner, on, rows, &mut found);
        }
        if found.list.is_empty() {
            return Ok(());
        }
        let relation = self
            .relations
            .entry(both)
            .or_insert_with(|| Relation { rows, paths: Paths::default() });
        found.list.into_iter().for_each(|path| relation.paths.add(path));
        Ok(())
    }
}

impl Search<'_, '_> {
    /// Plans a semi join as an inner join with the unique rows of the right side.
    fn join_unique(&self, outer: Set, inner: Set, on: &[usize], rows: f64, out: &mut Paths) {
        let Some(unique) = self.unique_path(inner, on) else { return };
        for (first, second) in [(outer, inner), (inner, outer)] {
            let pair = Pair::new(self, JoinKind::Inner, first, second, on, &[], rows, 1.0);
            for other in &self.relations[&outer].paths.list {
                if first == outer {
                    pair.join(other, &unique, out);
                } else {
                    pair.join(&unique, other, out);
                }
            }
        }
    }

    /// Returns the unique path of a unit: one row for each combination of values that a semi join
    /// compares. Returns `None` if the join compares by other operators than equality.
    fn unique_path(&self, unit: Set, on: &[usize]) -> Option<Path> {
        let cheapest = &self.relations.get(&unit)?.paths;
        let free = cheapest.list.iter().filter(|path| path.needs == 0);
        let path = free.min_by(|a, b| a.total.total_cmp(&b.total))?;
        let all: Set = (1 << self.units.len()) - 1;
        let mut keys = Vec::with_capacity(on.len());
        let mut rows = 1.0;
        for number in on {
            let condition = &self.conditions[*number].expr;
            let (key, _) = sides_of(condition, &|expr| self.units_of(expr), unit, all & !unit)?;
            keys.push(key.clone());
            rows *= self.joins.tables.distinct(key);
        }
        let rows = path.rows.min(rows).max(1.0);
        if keys.is_empty() {
            return None;
        }
        let (costs, bytes) = (&self.joins.settings.costs, rows * UNIQUE_BYTES);
        // A Unique step handles rows one by one; a hash join handles batches.
        let of_row = keys.len() as f64 * costs.cpu_operator_cost + costs.cpu_tuple_cost;
        let mut spent = path.rows * of_row;
        if bytes > self.joins.settings.hash_memory {
            // Rows beyond the memory limit are written and read once.
            spent += 2.0 * (bytes / PAGE_BYTES).ceil() * costs.seq_page_cost;
        }
        let total = path.total + spent + rows * costs.cpu_tuple_cost;
        let node = PlanNode::Unique { input: Arc::new(self.node(path)), keys };
        Some(Path { shape: Shape::Ready(Arc::new(node)), rows, total, ..path.clone() })
    }
}

/// Returns the sides of an equality: first the outer side's expression, then the inner side's.
pub(super) fn sides_of<'e>(
    condition: &'e Expr,
    units_of: &dyn Fn(&Expr) -> Set,
    outer: Set,
    inner: Set,
) -> Option<(&'e Expr, &'e Expr)> {
    let ExprKind::Call { function, arguments } = &condition.kind else { return None };
    let [left, right] = arguments.as_slice() else { return None };
    // The types must be the same: char(n) compares without trailing blanks, and only its own hash
    // does so.
    if function.name != "=" || left.ty != right.ty || is_volatile(condition) {
        return None;
    }
    let (l, r) = (units_of(left), units_of(right));
    let within = |units: Set, side: Set| units != 0 && units & !side == 0;
    if within(l, outer) && within(r, inner) {
        return Some((left, right));
    }
    (within(r, outer) && within(l, inner)).then_some((right, left))
}

fn kind_of(kind: JoinType, swapped: bool) -> JoinKind {
    match kind {
        JoinType::Inner => JoinKind::Inner,
        JoinType::Left if swapped => JoinKind::Right,
        JoinType::Left => JoinKind::Left,
        JoinType::Full => JoinKind::Full,
        JoinType::Semi => JoinKind::Semi,
        JoinType::Anti => JoinKind::Anti,
    }
}

/// Returns whether some path needs no other unit.
fn has_free_path(paths: &Paths) -> bool {
    paths.list.iter().any(|path| path.needs == 0)
}

/// Returns whether an expression reads only slots of these ranges.
pub(super) fn reads_ranges(expr: &Expr, ranges: &[SlotRange]) -> bool {
    reads_only(expr, &mut |slot| ranges.iter().any(|range| range.contains(slot)))
}
