//! Partition pruning: the partitions that can have rows which satisfy conditions.
//!
//! A condition that pruning does not understand prunes nothing, so a pruned partition has no
//! matching row. NULL keys are in the partition for NULL, which strict conditions prune.

use niwaki_catalog::{Bound, Edge, PartitionStrategy, Partitions, Relation, compare_edges};
use niwaki_types::{Datum, KeyOrder, TypeOid, encode_key};

use crate::expr::{Expr, ExprKind, Fit, fit};

/// Evaluates an expression that reads no column of the table, if its value is known.
pub(crate) type ValueOf<'v> = dyn FnMut(&Expr) -> Option<Datum> + 'v;

/// The possible values of one key column.
#[derive(Clone, Default)]
struct KeyRange {
    /// The only possible values, as encoded keys.
    equal: Option<Vec<Vec<u8>>>,
    /// The value that the column equals.
    value: Option<Datum>,
    /// Bounds: the encoded key, and whether the bound is inclusive.
    lower: Option<(Vec<u8>, bool)>,
    upper: Option<(Vec<u8>, bool)>,
    /// True if the column is NULL.
    null: bool,
    /// True if the column is not NULL.
    strict: bool,
    /// True if no value satisfies the conditions.
    never: bool,
}

/// One table of the partition tree, with the slots of its key's columns in the query's row.
struct Level<'p> {
    partitions: &'p Partitions,
    slots: Vec<Option<usize>>,
}

/// Returns for each leaf of a partitioned table whether the leaf can have rows that satisfy all
/// conditions. `slot_of` returns the slot of a column of the table.
pub fn possible_leaves(
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
    /// Returns for each partition whether the partition can have rows that satisfy all conditions.
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

    /// Returns the same for one side of an OR.
    fn part(&self, part: &Expr, value: &mut ValueOf<'_>) -> Vec<bool> {
        match &part.kind {
            ExprKind::And(parts) => self.members(parts, value),
            _ => self.members(std::slice::from_ref(part), value),
        }
    }

    /// Returns the expression's position in the key, if the expression is a key column.
    fn place(&self, expr: &Expr) -> Option<usize> {
        let ExprKind::Slot { depth: 0, slot } = expr.kind else { return None };
        self.slots.iter().position(|own| *own == Some(slot))
    }

    /// Narrows the ranges by a condition. Returns false if the condition says nothing about the
    /// key.
    fn note(&self, condition: &Expr, ranges: &mut [KeyRange], value: &mut ValueOf<'_>) -> bool {
        match &condition.kind {
            ExprKind::IsNull { argument, negated } => {
                let Some(place) = self.place(argument) else { return false };
                if *negated {
                    ranges[place].strict = true;
                } else {
                    ranges[place].null = true;
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
                let element = niwaki_parse::types::element_of(right.ty);
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
        // The default partition has the values that no other partition lists.
        match &range.equal {
            Some(values) if values.iter().all(|value| !range.admits(value) || listed(value)) => {}
            _ => take(default),
        }
        possible
    }

    /// Prunes hash partitions. Only a complete key has a hash.
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
                // End of the rows covered so far.
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

/// Returns the bound of a partition as a place before all rows with that key. The added edge
/// separates it from a place after them.
fn beginning(bound: &[Edge]) -> Vec<Edge> {
    bound.iter().cloned().chain([Edge::Min]).collect()
}

/// Most intervals that the product of several IN lists may make. Beyond it, the columns count as
/// ranges.
const INTERVALS_MAX: usize = 1_000;

/// Returns the intervals of keys that the ranges admit. Each is a place before its first row and a
/// place after its last row.
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

/// Returns one end of an interval, from the first column with several values on.
///
/// The end consists of the columns' bounds, as long as the bounds are inclusive. Then follows the
/// place before, or after, all rows with such a key.
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
    /// Returns whether the conditions exclude NULL.
    fn is_strict(&self) -> bool {
        self.strict || self.equal.is_some() || self.lower.is_some() || self.upper.is_some()
    }

    /// Returns whether the range admits a value.
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

    /// Returns the possible values if they are a finite list.
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
            // All values of the column's type are on one side of `value`.
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

/// Returns whether a value of type `value` can become a key of a column of type `column`. Both
/// types must belong to one family, so that order and equality mean the same.
pub fn key_compatible(column: TypeOid, value: TypeOid) -> bool {
    use TypeOid as T;
    let family = |t: TypeOid| match t {
        T::INT2 | T::INT4 | T::INT8 => 1,
        T::TEXT | T::VARCHAR | T::NAME => 2,
        T::OID | T::REGCLASS => 3,
        other => 1_000 + other.0,
    };
    family(column) == family(value)
}
