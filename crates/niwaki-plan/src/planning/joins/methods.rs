//! Join methods: nested loop, hash join and merge join of two sets of units.

use std::rc::Rc;

use niwaki_expr::expr::Expr;
use niwaki_expr::plan::JoinKind;
use niwaki_expr::query::{SlotRange, SortKey};

use super::build::ascending;
use super::path::{
    JoinShape, Pairing, Path, Paths, Shape, common_order, has_order, hash_join, merge_join,
    nested_loop,
};
use super::search::{Search, Set, sides_of};
use crate::planning::cost;

/// Two sets of units to join, with one of them as the outer side.
pub(super) struct Pair<'p, 's, 'j> {
    search: &'p Search<'s, 'j>,
    kind: JoinKind,
    outer: Set,
    inner: Set,
    /// Numbers of the join's conditions. `above` has the conditions that a filter above the join
    /// checks.
    on: &'p [usize],
    above: &'p [usize],
    /// Number of rows of the join. `matched` is the share of outer rows that have a match.
    rows: f64,
    matched: f64,
    /// Those conditions of `on` that equate the two sides, with types that hash alike.
    equalities: Vec<usize>,
    /// The share of the inner rows that an average key selects.
    share: f64,
    outer_slots: Rc<[SlotRange]>,
    inner_slots: Rc<[SlotRange]>,
    /// Expressions of both sides by which the result can be merge-joined with other units.
    merged_by: Vec<&'p Expr>,
}

/// The use of each condition in a join method.
struct Method {
    hash: Vec<usize>,
    merge: Vec<usize>,
    sorts: (bool, bool),
    condition: Vec<usize>,
    depends: bool,
}

impl<'p, 's, 'j> Pair<'p, 's, 'j> {
    #[expect(clippy::too_many_arguments, reason = "one join")]
    pub(super) fn new(
        search: &'p Search<'s, 'j>,
        kind: JoinKind,
        outer: Set,
        inner: Set,
        on: &'p [usize],
        above: &'p [usize],
        rows: f64,
        matched: f64,
    ) -> Self {
        let is_key = |number: &usize| {
            let expr = &search.conditions[*number].expr;
            sides_of(expr, &|expr| search.units_of(expr), outer, inner).is_some()
        };
        let equalities: Vec<usize> = on.iter().copied().filter(is_key).collect();
        let shares = equalities.iter().map(|number| &search.conditions[*number].expr);
        let share = shares.map(|expr| search.joins.tables.condition(expr)).fold(1.0, f64::min);
        Self {
            search,
            kind,
            outer,
            inner,
            on,
            above,
            rows,
            matched,
            equalities,
            share,
            outer_slots: search.slots_of(outer).into(),
            inner_slots: search.slots_of(inner).into(),
            merged_by: search.merged_by(outer | inner),
        }
    }

    /// Adds every join of two paths to `out`.
    pub(super) fn join(&self, first: &Path, second: &Path, out: &mut Paths) {
        if first.needs & self.inner != 0 || !first.enforced.is_empty() {
            return;
        }
        if !second.enforced.is_empty() && second.needs & !self.outer != 0 {
            return;
        }
        let keeps_inner = matches!(self.kind, JoinKind::Right | JoinKind::Full);
        if !keeps_inner {
            self.nested(first, second, out);
        }
        if self.equalities.is_empty()
            || second.needs & self.outer != 0
            || !second.enforced.is_empty()
        {
            return;
        }
        self.hash(first, second, out);
        if !keeps_inner
            && first.needs | second.needs == 0
            && self.search.joins.settings.enable_mergejoin
        {
            for keys in self.merge_keys(&first.order, &second.order) {
                self.merge(first, second, keys, out);
            }
        }
    }

    fn nested(&self, first: &Path, second: &Path, out: &mut Paths) {
        let condition: Vec<usize> =
            self.on.iter().copied().filter(|number| !second.enforced.contains(number)).collect();
        let depends = second.needs & self.outer != 0;
        let settings = &self.search.joins.settings;
        let pairing = self.pairing(&condition);
        let costs = nested_loop(first, second, depends, &pairing, settings);
        let (hash, merge, sorts) = (Vec::new(), Vec::new(), (false, false));
        let method = Method { hash, merge, sorts, condition, depends };
        self.add(first, second, costs, method, Rc::clone(&first.order), out);
    }

    fn hash(&self, first: &Path, second: &Path, out: &mut Paths) {
        let condition = self.without(&self.equalities);
        let settings = &self.search.joins.settings;
        let keys = self.equalities.len() as f64;
        let pairing = self.pairing(&condition);
        let costs = hash_join(first, second, keys, self.share, &pairing, settings);
        let (hash, merge, sorts) = (self.equalities.clone(), Vec::new(), (false, false));
        let method = Method { hash, merge, sorts, condition, depends: false };
        self.add(first, second, costs, method, Rc::from([]), out);
    }

    fn merge(&self, first: &Path, second: &Path, keys: Vec<usize>, out: &mut Paths) {
        let sides: Vec<(&Expr, &Expr)> =
            keys.iter().filter_map(|number| self.sides(*number)).collect();
        let outer_order: Vec<SortKey> = sides.iter().map(|(outer, _)| ascending(outer)).collect();
        let inner_order: Vec<SortKey> = sides.iter().map(|(_, inner)| ascending(inner)).collect();
        let sorts =
            (!has_order(&first.order, &outer_order), !has_order(&second.order, &inner_order));
        let condition = self.without(&keys);
        let settings = &self.search.joins.settings;
        let pairing = self.pairing(&condition);
        // A merge join forms all pairs with equal keys, even those that the remaining condition
        // rejects.
        let shares = keys.iter().map(|number| &self.search.conditions[*number].expr);
        let share = if condition.is_empty() { 0.0 } else { self.search.joins.tables.all(shares) };
        let costs = merge_join(first, second, keys.len() as f64, share, sorts, &pairing, settings);
        let order = if sorts.0 { outer_order.into() } else { Rc::clone(&first.order) };
        let (hash, merge) = (Vec::new(), keys);
        let method = Method { hash, merge, sorts, condition, depends: false };
        self.add(first, second, costs, method, order, out);
    }

    /// Adds the path unless an existing path is at least as good.
    fn add(
        &self,
        first: &Path,
        second: &Path,
        (startup, total): (f64, f64),
        method: Method,
        order: Rc<[SortKey]>,
        out: &mut Paths,
    ) {
        let order = self.useful(order);
        let path = Path {
            shape: Shape::Undecided,
            rows: self.rows,
            width: first.width + second.width,
            startup,
            total,
            needs: (first.needs | second.needs) & !(self.outer | self.inner),
            enforced: Rc::from([]),
            order,
        };
        if !out.wants(&path) {
            return;
        }
        let Method { hash, merge, sorts, condition, depends } = method;
        let shape = Shape::Join(Rc::new(JoinShape {
            kind: self.kind,
            outer: first.clone(),
            inner: second.clone(),
            outer_slots: Rc::clone(&self.outer_slots),
            inner_slots: Rc::clone(&self.inner_slots),
            depends,
            hash,
            merge,
            sorts,
            condition,
            above: self.above.to_vec(),
        }));
        out.add(Path { shape, ..path });
    }

    /// Returns the leading keys of an order that a merge join above, or the query, can use.
    fn useful(&self, order: Rc<[SortKey]>) -> Rc<[SortKey]> {
        let merges = |key: &&SortKey| {
            let key = *key;
            !key.descending
                && !key.nulls_first
                && self.merged_by.iter().any(|side| side.same(&key.expr))
        };
        let merged = order.iter().take_while(merges).count();
        let useful = merged.max(common_order(&order, &self.search.wanted));
        if useful == order.len() { order } else { order[..useful].into() }
    }

    fn without(&self, numbers: &[usize]) -> Vec<usize> {
        self.on.iter().copied().filter(|number| !numbers.contains(number)).collect()
    }

    fn pairing(&self, condition: &[usize]) -> Pairing {
        let costs = &self.search.joins.settings.costs;
        let judged = condition.iter().chain(self.above);
        let judge =
            judged.map(|number| cost::judging(&self.search.conditions[*number].expr, costs)).sum();
        Pairing { kind: self.kind, rows: self.rows, matched: self.matched, judge }
    }

    fn sides(&self, number: usize) -> Option<(&'p Expr, &'p Expr)> {
        let search = self.search;
        let expr = &search.conditions[number].expr;
        sides_of(expr, &|expr| search.units_of(expr), self.outer, self.inner)
    }

    /// Returns the lists of equalities by which the sides can be merged. Two lists have all
    /// equalities, and begin with the keys that one side is sorted by. A third list has only the
    /// keys that the outer side is sorted by.
    fn merge_keys(&self, outer: &[SortKey], inner: &[SortKey]) -> Vec<Vec<usize>> {
        if self.equalities.len() == 1 {
            return vec![self.equalities.clone()];
        }
        let mut lists: Vec<Vec<usize>> = Vec::new();
        for (order, is_outer) in [(outer, true), (inner, false)] {
            let mut keys = self.ordered_keys(order, is_outer);
            let ordered = keys.clone();
            keys.extend(self.equalities.iter().filter(|number| !ordered.contains(number)));
            if !lists.contains(&keys) {
                lists.push(keys);
            }
            if is_outer && !ordered.is_empty() && !lists.contains(&ordered) {
                lists.push(ordered);
            }
        }
        lists
    }

    /// Returns the equalities whose sides are the leading keys of an order, in that order.
    fn ordered_keys(&self, order: &[SortKey], is_outer: bool) -> Vec<usize> {
        let mut ordered = Vec::new();
        for key in order {
            let found = self.equalities.iter().copied().find(|number| {
                !ordered.contains(number)
                    && !key.descending
                    && !key.nulls_first
                    && self.sides(*number).is_some_and(|(outer, inner)| {
                        (if is_outer { outer } else { inner }).same(&key.expr)
                    })
            });
            match found {
                Some(number) => ordered.push(number),
                None => break,
            }
        }
        ordered
    }
}
