//! Which partitions can have rows that satisfy conditions.
//!
//! A condition that is not understood says nothing, so what is left out has none of the rows. NULLs of the key are in the
//! partition for them, which strict conditions leave out.

use niwaki_catalog::{Bound, Edge, PartitionStrategy, Partitions, Relation, compare_edges};
use niwaki_types::{Datum, KeyOrder, encode_key};

use super::comparison::key_compatible;
use crate::exec::{Fit, fit};
use crate::expr::{Expr, ExprKind};

/// What an expression that reads nothing of the table is, if that is known.
pub(crate) type ValueOf<'v> = dyn FnMut(&Expr) -> Option<Datum> + 'v;

/// What is known of one column of a key.
#[derive(Clone, Default)]
struct KeyRange {
    /// The only values, as keys.
    equal: Option<Vec<Vec<u8>>>,
    /// A value that it equals.
    value: Option<Datum>,
    /// Bounds, each with whether it belongs to the range.
    lower: Option<(Vec<u8>, bool)>,
    upper: Option<(Vec<u8>, bool)>,
    /// It is NULL.
    null: bool,
    /// It is not NULL.
    strict: bool,
    /// No value satisfies the conditions.
    never: bool,
}

/// One table of the tree, with the slots of the query's row that its key's columns have.
struct Level<'p> {
    partitions: &'p Partitions,
    slots: Vec<Option<usize>>,
}

/// For each leaf of a partitioned table whether it can have rows that satisfy all conditions. `slot_of` gives the slot of
/// a column of the table.
pub(crate) fn possible_leaves(
    table: &Relation,
    slot_of: &dyn Fn(usize) -> Option<usize>,
    conditions: &[Expr],
    value: &mut ValueOf<'_>,
) -> Vec<bool> {
    let Some(partitions) = &table.partitions else { return Vec::new() };
    let slots = partitions.key.columns.iter().map(|column| slot_of(usize::from(*column)));
    let level = Level { partitions, slots: slots.collect() };
    let members = level.members(conditions, value);
    let mut leaves = vec![false; partitions.leaves.len()];
    for (member, possible) in partitions.members.iter().zip(members) {
        if !possible {
            continue;
        }
        if !member.relation.is_partitioned() {
            leaves[member.leaves.clone()].fill(true);
            continue;
        }
        let mut slots = vec![None; member.relation.columns.len()];
        for column in 0..table.columns.len() {
            if let Some(place) = member.columns.place(column) {
                slots[place] = slot_of(column);
            }
        }
        let slot_below = |column: usize| slots.get(column).copied().flatten();
        let found = possible_leaves(&member.relation, &slot_below, conditions, value);
        leaves[member.leaves.clone()].copy_from_slice(&found);
    }
    leaves
}

impl Level<'_> {
    /// For each partition whether it can have rows that satisfy all conditions.
    fn members(&self, conditions: &[Expr], value: &mut ValueOf<'_>) -> Vec<bool> {
        let mut ranges = vec![KeyRange::default(); self.slots.len()];
        let mut known = false;
        let mut possible = vec![true; self.partitions.members.len()];
        for condition in conditions {
            if let ExprKind::Const(Datum::Bool(false) | Datum::Null) = condition.kind {
                return vec![false; possible.len()];
            }
            if let ExprKind::Or(parts) = &condition.kind {
                let mut any = vec![false; possible.len()];
                for part in parts {
                    let found = self.part(part, value);
                    any.iter_mut().zip(found).for_each(|(any, found)| *any = *any || found);
                }
                possible.iter_mut().zip(any).for_each(|(all, any)| *all = *all && any);
                continue;
            }
            known = self.note(condition, &mut ranges, value) || known;
        }
        if known {
            let found = self.admitted(&ranges);
            possible.iter_mut().zip(found).for_each(|(all, found)| *all = *all && found);
        }
        possible
    }

    /// The same for one side of OR.
    fn part(&self, part: &Expr, value: &mut ValueOf<'_>) -> Vec<bool> {
        match &part.kind {
            ExprKind::And(parts) => self.members(parts, value),
            _ => self.members(std::slice::from_ref(part), value),
        }
    }

    /// The place in the key of what an expression reads, if that is a column of the key.
    fn place(&self, expr: &Expr) -> Option<usize> {
        let ExprKind::Slot { depth: 0, slot } = expr.kind else { return None };
        self.slots.iter().position(|own| *own == Some(slot))
    }

    /// Takes over what a condition says about the key; false if it says nothing.
    fn note(&self, condition: &Expr, ranges: &mut [KeyRange], value: &mut ValueOf<'_>) -> bool {
        match &condition.kind {
            ExprKind::IsNull { argument, negated } => {
                let Some(place) = self.place(argument) else { return false };
                if *negated {
                    ranges[place].strict = true
                } else {
                    ranges[place].null = true
                }
                true
            }
            ExprKind::Call { function, arguments } => {
                let [left, right] = arguments.as_slice() else { return false };
                let (place, other, turned) = match (self.place(left), self.place(right)) {
                    (Some(place), None) => (place, right, false),
                    (None, Some(place)) => (place, left, true),
                    _ => return false,
                };
                let operator = match (function.name, turned) {
                    ("=", _) => "=",
                    ("<", false) | (">", true) => "<",
                    ("<=", false) | (">=", true) => "<=",
                    (">", false) | ("<", true) => ">",
                    (">=", false) | ("<=", true) => ">=",
                    _ => return false,
                };
                let order = self.partitions.orders()[place];
                if !key_compatible(order.oid, other.ty) {
                    return false;
                }
                let Some(other) = value(other) else { return false };
                ranges[place].compare(operator, &other, order);
                true
            }
            ExprKind::ArrayCompare { function, any: true, left, right, .. }
                if function.name == "=" =>
            {
                let Some(place) = self.place(left) else { return false };
                let order = self.partitions.orders()[place];
                let element = crate::types::element_of(right.ty);
                if !element.is_some_and(|element| key_compatible(order.oid, element)) {
                    return false;
                }
                match value(right) {
                    Some(Datum::Array(_, values)) => ranges[place].any(values.iter(), order),
                    Some(Datum::Null) => ranges[place].never = true,
                    _ => return false,
                }
                true
            }
            _ => false,
        }
    }

    fn admitted(&self, ranges: &[KeyRange]) -> Vec<bool> {
        let members = self.partitions.members.len();
        if ranges.iter().any(|range| range.never || range.null && range.is_strict()) {
            return vec![false; members];
        }
        match self.partitions.key.strategy {
            PartitionStrategy::List => self.listed(&ranges[0]),
            PartitionStrategy::Range => self.between(ranges),
            PartitionStrategy::Hash => self.hashed(ranges),
        }
    }

    fn listed(&self, range: &KeyRange) -> Vec<bool> {
        let mut possible = vec![false; self.partitions.members.len()];
        let mut take = |member: Option<usize>| {
            if let Some(place) = member.and_then(|member| possible.get_mut(member)) {
                *place = true;
            }
        };
        let default = self.partitions.default_member();
        if !range.is_strict() {
            take(self.partitions.null_member().or(default));
        }
        if range.null {
            return possible;
        }
        for (value, member) in self.partitions.listed() {
            if range.admits(value) {
                take(Some(*member));
            }
        }
        let listed = |value: &Vec<u8>| {
            self.partitions.listed().binary_search_by(|(other, _)| other.cmp(value)).is_ok()
        };
        // Values that nobody lists.
        match &range.equal {
            Some(values) if values.iter().all(|value| !range.admits(value) || listed(value)) => {}
            _ => take(default),
        }
        possible
    }

    /// Only a whole key has a hash.
    fn hashed(&self, ranges: &[KeyRange]) -> Vec<bool> {
        let members = self.partitions.members.len();
        let columns = &self.partitions.key.columns;
        let width = columns.iter().max().map_or(0, |last| usize::from(*last) + 1);
        let mut row = vec![Datum::Null; width];
        for (column, range) in columns.iter().zip(ranges) {
            match &range.value {
                Some(value) => row[usize::from(*column)] = value.clone(),
                None if range.null => {}
                None => return vec![true; members],
            }
        }
        let found = self.partitions.member_of(&row);
        (0..members).map(|member| Some(member) == found).collect()
    }

    fn between(&self, ranges: &[KeyRange]) -> Vec<bool> {
        let mut possible = vec![false; self.partitions.members.len()];
        let default = self.partitions.default_member();
        let mut take_default = ranges.iter().any(|range| !range.is_strict());
        if !ranges.iter().any(|range| range.null) {
            for (low, high) in intervals(ranges) {
                // Where the rows that are covered so far end.
                let mut end = low.clone();
                for (number, member) in self.partitions.members.iter().enumerate() {
                    let Bound::Range { lower, upper } = &member.bound else { continue };
                    let (lower, upper) = (beginning(lower), beginning(upper));
                    if compare_edges(&lower, &high).is_lt() && compare_edges(&upper, &low).is_gt() {
                        possible[number] = true;
                        take_default = take_default || compare_edges(&lower, &end).is_gt();
                        end = upper;
                    }
                }
                take_default = take_default || compare_edges(&end, &high).is_lt();
            }
        }
        if let Some(default) = default.filter(|_| take_default) {
            possible[default] = true;
        }
        possible
    }
}

/// A bound of a partition, with what tells a place before all rows of a key from one behind them.
fn beginning(bound: &[Edge]) -> Vec<Edge> {
    bound.iter().cloned().chain([Edge::Min]).collect()
}

/// Most intervals that equalities with several values are multiplied to.
const INTERVALS_MAX: usize = 1_000;

/// The intervals of keys that ranges admit: places before their first row and behind their last one.
fn intervals(ranges: &[KeyRange]) -> Vec<(Vec<Edge>, Vec<Edge>)> {
    let mut prefixes: Vec<Vec<Edge>> = vec![Vec::new()];
    for (number, range) in ranges.iter().enumerate() {
        let rest = &ranges[number..];
        match range.values() {
            Some(values) if prefixes.len() * values.len() <= INTERVALS_MAX => {
                let longer = prefixes.iter().flat_map(|prefix| {
                    values.iter().map(|value| {
                        prefix.iter().cloned().chain([Edge::Key(value.clone())]).collect()
                    })
                });
                prefixes = longer.collect();
            }
            _ => {
                let (low, high) = (side(rest, true), side(rest, false));
                let ends = |prefix: Vec<Edge>| {
                    let with =
                        |side: &[Edge]| prefix.iter().chain(side).cloned().collect::<Vec<Edge>>();
                    (with(&low), with(&high))
                };
                return prefixes.into_iter().map(ends).collect();
            }
        }
    }
    let ends = |prefix: Vec<Edge>| {
        let with = |edge: Edge| prefix.iter().cloned().chain([edge]).collect::<Vec<Edge>>();
        (with(Edge::Min), with(Edge::Max))
    };
    prefixes.into_iter().map(ends).collect()
}

/// One end of an interval, from the first column on that has several values: the bounds of columns as long as they belong
/// to it, then the place before all rows of such a key, or behind them.
fn side(ranges: &[KeyRange], is_lower: bool) -> Vec<Edge> {
    let (outer, inner) = if is_lower { (Edge::Min, Edge::Max) } else { (Edge::Max, Edge::Min) };
    let mut edges = Vec::new();
    for range in ranges {
        let values = range.values();
        let value = match (&values, is_lower) {
            (Some(values), true) => values.iter().min().map(|value| (value, true)),
            (Some(values), false) => values.iter().max().map(|value| (value, true)),
            (None, true) => range.lower.as_ref().map(|(value, inclusive)| (value, *inclusive)),
            (None, false) => range.upper.as_ref().map(|(value, inclusive)| (value, *inclusive)),
        };
        match value {
            None => break,
            Some((value, inclusive)) => {
                edges.push(Edge::Key(value.clone()));
                if !inclusive {
                    edges.push(inner);
                    return edges;
                }
            }
        }
    }
    edges.push(outer);
    edges
}

impl KeyRange {
    /// Whether NULL is left out.
    fn is_strict(&self) -> bool {
        self.strict || self.equal.is_some() || self.lower.is_some() || self.upper.is_some()
    }

    /// Whether a value satisfies what is known.
    fn admits(&self, value: &Vec<u8>) -> bool {
        self.equal.as_ref().is_none_or(|values| values.contains(value))
            && self
                .lower
                .as_ref()
                .is_none_or(|(bound, inclusive)| value > bound || *inclusive && value == bound)
            && self
                .upper
                .as_ref()
                .is_none_or(|(bound, inclusive)| value < bound || *inclusive && value == bound)
    }

    /// The only values that are possible, if there are only some.
    fn values(&self) -> Option<Vec<Vec<u8>>> {
        let equal = self.equal.as_ref()?;
        Some(equal.iter().filter(|value| self.admits(value)).cloned().collect())
    }

    fn any<'d>(&mut self, values: impl Iterator<Item = &'d Datum>, order: KeyOrder) {
        let mut keys = Vec::new();
        for value in values {
            if let Fit::Value(value) = fit(value, order.oid) {
                keys.push(key_of(&value, order));
            }
        }
        keys.sort();
        keys.dedup();
        self.restrict(keys);
    }

    fn restrict(&mut self, keys: Vec<Vec<u8>>) {
        match &mut self.equal {
            Some(equal) => equal.retain(|value| keys.contains(value)),
            None => self.equal = Some(keys),
        }
    }

    fn compare(&mut self, operator: &str, value: &Datum, order: KeyOrder) {
        let value = match fit(value, order.oid) {
            Fit::Null => {
                self.never = true;
                return;
            }
            Fit::Value(value) => {
                let key = key_of(&value, order);
                if operator == "=" {
                    self.value = Some(value);
                }
                key
            }
            // All values are on the right side of it, or none is.
            outside @ (Fit::Below | Fit::Above) => {
                let below = matches!(outside, Fit::Below);
                match operator {
                    "<" | "<=" if !below => self.strict = true,
                    ">" | ">=" if below => self.strict = true,
                    _ => self.never = true,
                }
                return;
            }
        };
        match operator {
            "=" => self.restrict(vec![value]),
            "<" | "<=" => {
                let inclusive = operator == "<=";
                let tighter = self.upper.as_ref().is_none_or(|(bound, included)| {
                    value < *bound || value == *bound && *included && !inclusive
                });
                if tighter {
                    self.upper = Some((value, inclusive));
                }
            }
            _ => {
                let inclusive = operator == ">=";
                let tighter = self.lower.as_ref().is_none_or(|(bound, included)| {
                    value > *bound || value == *bound && *included && !inclusive
                });
                if tighter {
                    self.lower = Some((value, inclusive));
                }
            }
        }
    }
}

fn key_of(value: &Datum, order: KeyOrder) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_key(value, order, &mut bytes);
    bytes
}
