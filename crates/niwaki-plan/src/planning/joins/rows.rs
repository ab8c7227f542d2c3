//! Estimates of the number of rows that joins return.

use std::sync::Arc;

use niwaki_catalog::{ColumnStats, IndexColumn, IndexDefinition, Relation};
use niwaki_expr::expr::{Expr, ExprKind};
use niwaki_expr::query::{JoinType, asked_of, reads_slots};
use niwaki_types::TypeOid;

use super::{Leaf, LeafKind};
use crate::planning::scan::table_rows;
use crate::planning::selectivity::{EQUAL, Estimator};

/// Assumed number of distinct values of an expression without statistics.
const DISTINCT: f64 = 200.0;

/// The stored tables of a query level, found by their slots.
pub(super) struct Tables {
    tables: Vec<Table>,
    /// Assumed value of `now()`, in microseconds since 2000.
    now: i64,
}

struct Table {
    relation: Arc<Relation>,
    start: usize,
    end: usize,
    rows: f64,
}

/// Statistics of one side of an equality.
struct Side<'t> {
    distinct: f64,
    null: f64,
    /// True if `distinct` was counted or follows from a unique index.
    known: bool,
    stats: Option<&'t ColumnStats>,
    ty: TypeOid,
}

/// A table, and the position of one of its columns.
type Column<'t> = (&'t Table, usize);

/// All equalities between columns of the same two tables.
struct Together<'t> {
    left: &'t Table,
    right: &'t Table,
    columns: Vec<(usize, usize)>,
    /// The share of pairs that satisfies all of them, if they were independent.
    share: f64,
}

/// Number of combinations of values of some columns.
enum Combinations {
    /// Each row has a different combination.
    Unique(f64),
    AtMost(f64),
}

/// Returns whether the columns include the whole key of a unique index that is not partial.
fn has_key(index: &IndexDefinition, columns: &(impl Iterator<Item = usize> + Clone)) -> bool {
    let is_there = |key: &IndexColumn| {
        key.expression.is_none() && columns.clone().any(|c| c == usize::from(key.column))
    };
    index.is_unique_at_once() && index.predicate.is_none() && index.key.iter().all(is_there)
}

impl Tables {
    pub(super) fn of(leaves: &[Option<Leaf>], now: i64) -> Self {
        let mut tables = Vec::new();
        let several = leaves.iter().flatten().count() > 1;
        for leaf in leaves.iter().flatten() {
            if let LeafKind::Table { relation, .. } = &leaf.kind {
                let rows = if several { table_rows(relation) } else { 0.0 };
                let (start, end) = (leaf.slots.start, leaf.slots.end);
                tables.push(Table { relation: Arc::clone(relation), start, end, rows });
            }
        }
        Self { tables, now }
    }

    fn of_slot(&self, slot: usize) -> Option<&Table> {
        self.tables.iter().find(|table| (table.start..table.end).contains(&slot))
    }

    /// Returns the share of combinations that satisfies all conditions.
    pub(super) fn all<'e>(&self, conditions: impl Iterator<Item = &'e Expr>) -> f64 {
        let mut together: Vec<Together<'_>> = Vec::new();
        let mut share = 1.0;
        for condition in conditions {
            let own = self.condition(condition);
            share *= own;
            if let Some((left, right)) = self.columns_of(condition) {
                let of = |pair: &&mut Together<'_>| {
                    std::ptr::eq(pair.left, left.0) && std::ptr::eq(pair.right, right.0)
                };
                match together.iter_mut().find(of) {
                    Some(pair) => {
                        pair.columns.push((left.1, right.1));
                        pair.share *= own;
                    }
                    None => together.push(Together {
                        left: left.0,
                        right: right.0,
                        columns: vec![(left.1, right.1)],
                        share: own,
                    }),
                }
            }
        }
        together.iter().fold(share, |share, pair| share * self.correction(pair)).min(1.0)
    }

    /// Returns the tables and columns of an equality between two tables. The table that comes first
    /// in the row is on the left.
    fn columns_of(&self, condition: &Expr) -> Option<(Column<'_>, Column<'_>)> {
        let ExprKind::Call { function, arguments } = &condition.kind else { return None };
        let [left, right] = arguments.as_slice() else { return None };
        let column = |side: &Expr| match side.kind {
            ExprKind::Slot { depth: 0, slot } => {
                self.of_slot(slot).map(|table| (table, slot - table.start))
            }
            _ => None,
        };
        let (left, right) = (column(left)?, column(right)?);
        if function.name != "=" || left.0.start == right.0.start {
            return None;
        }
        Some(if left.0.start < right.0.start { (left, right) } else { (right, left) })
    }

    /// Returns the correction factor for several equalities between two tables, which are seldom
    /// independent.
    ///
    /// There are no more combinations of values than rows. The columns of a unique index have
    /// exactly as many. The other side's combinations are assumed to be among these.
    fn correction(&self, pair: &Together<'_>) -> f64 {
        if pair.columns.len() < 2 || pair.share <= 0.0 {
            return 1.0;
        }
        let left = self.combinations(pair.left, pair.columns.iter().map(|(left, _)| *left));
        let right = self.combinations(pair.right, pair.columns.iter().map(|(_, right)| *right));
        let combinations = match (left, right) {
            (Combinations::Unique(left), Combinations::Unique(right)) => left.max(right),
            (Combinations::Unique(known), _) | (_, Combinations::Unique(known)) => known,
            (Combinations::AtMost(left), Combinations::AtMost(right)) => left.max(right),
        };
        (1.0 / combinations.max(1.0) / pair.share).max(1.0)
    }

    fn combinations(
        &self,
        table: &Table,
        columns: impl Iterator<Item = usize> + Clone,
    ) -> Combinations {
        let rows = table.rows.max(1.0);
        if table.relation.indexes.iter().any(|index| has_key(&index.definition, &columns)) {
            return Combinations::Unique(rows);
        }
        let (relation, start, now) = (&table.relation, table.start, self.now);
        let estimator = Estimator { relation, start, rows: table.rows, now };
        let distinct = columns.map(|column| estimator.distinct(Some(column)).unwrap_or(DISTINCT));
        Combinations::AtMost(distinct.product::<f64>().min(rows))
    }

    /// Returns the share of combinations that satisfies a condition.
    pub(super) fn condition(&self, condition: &Expr) -> f64 {
        let mut found: Option<usize> = None;
        let mut one = true;
        reads_slots(condition, &mut |slot| match (self.of_slot(slot), found) {
            (None, _) => one = false,
            (Some(table), None) => found = Some(table.start),
            (Some(table), Some(start)) => one = one && table.start == start,
        });
        if let Some(table) = found.filter(|_| one).and_then(|start| self.of_slot(start)) {
            let Table { relation, start, rows, .. } = table;
            let (start, rows, now) = (*start, *rows, self.now);
            return Estimator { relation, start, rows, now }.condition(condition);
        }
        match &condition.kind {
            ExprKind::Call { function, arguments } => match (function.name, arguments.as_slice()) {
                ("=", [left, right]) => self.equal(left, right),
                ("<>", [left, right]) => 1.0 - self.equal(left, right),
                ("<" | "<=" | ">" | ">=", _) => 1.0 / 3.0,
                _ => 0.1,
            },
            ExprKind::And(parts) => self.all(parts.iter()),
            ExprKind::Or(parts) => {
                let either = |share: f64, part: &Expr| {
                    let part = self.condition(part);
                    share + part - share * part
                };
                let share = parts.iter().fold(0.0, either);
                // Filters of single tables derived from this OR already selected a part of the
                // rows.
                let asked = self.tables.iter().filter_map(|table| {
                    asked_of(condition, &|slot| (table.start..table.end).contains(&slot))
                });
                let before: f64 = asked.map(|asked| self.condition(&asked)).product();
                (share / before.max(share)).min(1.0)
            }
            ExprKind::Not(part) => 1.0 - self.condition(part),
            ExprKind::IsNull { negated, .. } => {
                if *negated {
                    0.995
                } else {
                    0.005
                }
            }
            ExprKind::Const(_) => 1.0,
            _ => 0.5,
        }
    }

    fn side(&self, expr: &Expr) -> Side<'_> {
        match &expr.kind {
            ExprKind::Slot { depth: 0, slot } => {
                let Some(table) = self.of_slot(*slot) else {
                    return Side {
                        distinct: DISTINCT,
                        null: 0.0,
                        known: false,
                        stats: None,
                        ty: expr.ty,
                    };
                };
                let column = slot - table.start;
                let relation = &table.relation;
                let (start, rows, now) = (table.start, table.rows, self.now);
                let estimator = Estimator { relation, start, rows, now };
                let stats = relation.stats.columns.get(column);
                let null = stats.map_or(0.0, |stats| stats.null_fraction);
                let own = std::iter::once(column);
                let unique = relation.indexes.iter().any(|index| has_key(&index.definition, &own));
                let counted = estimator.distinct(Some(column));
                let distinct = match counted {
                    _ if unique => table.rows.max(1.0),
                    Some(distinct) => distinct,
                    None => DISTINCT.min(table.rows.max(1.0)),
                };
                Side { distinct, null, known: unique || counted.is_some(), stats, ty: expr.ty }
            }
            ExprKind::Cast { argument, .. }
            | ExprKind::Length { argument, .. }
            | ExprKind::Domain { argument, .. } => Side { stats: None, ..self.side(argument) },
            ExprKind::Const(_) | ExprKind::Param(_) => {
                Side { distinct: 1.0, null: 0.0, known: true, stats: None, ty: expr.ty }
            }
            _ => Side { distinct: DISTINCT, null: 0.0, known: false, stats: None, ty: expr.ty },
        }
    }

    /// Returns the number of distinct values of an expression.
    pub(super) fn distinct(&self, expr: &Expr) -> f64 {
        self.side(expr).distinct
    }

    /// Returns the share of pairs in which two expressions are equal. The share is one divided by
    /// the larger number of distinct values. The most common values of both sides are matched with
    /// one another.
    fn equal(&self, left: &Expr, right: &Expr) -> f64 {
        let mut fixed = true;
        [left, right].into_iter().for_each(|side| reads_slots(side, &mut |_| fixed = false));
        if fixed {
            return EQUAL;
        }
        let (left, right) = (self.side(left), self.side(right));
        let usual =
            (1.0 - left.null) * (1.0 - right.null) / left.distinct.max(right.distinct).max(1.0);
        let (Some(l), Some(r)) = (left.stats, right.stats) else { return usual };
        if l.common.is_empty() || r.common.is_empty() || left.ty != right.ty {
            return usual;
        }
        let (mut both, mut left_matched, mut right_matched, mut matches) = (0.0, 0.0, 0.0, 0.0);
        for (key, share) in &l.common {
            if let Some((_, other)) = r.common.iter().find(|(other, _)| other.0 == key.0) {
                both += share * other;
                left_matched += share;
                right_matched += other;
                matches += 1.0;
            }
        }
        let sum = |stats: &ColumnStats| stats.common.iter().map(|(_, share)| share).sum::<f64>();
        let (left_common, right_common) = (sum(l), sum(r));
        let left_other = (1.0 - left.null - left_common).max(0.0);
        let right_other = (1.0 - right.null - right_common).max(0.0);
        let left_unmatched = (left_common - left_matched).max(0.0);
        let right_unmatched = (right_common - right_matched).max(0.0);
        // Most common values without a counterpart meet the other values of the other side.
        let values = |side: f64, stats: &ColumnStats| (side - stats.common.len() as f64).max(1.0);
        let from_left = both
            + left_unmatched * right_other / values(right.distinct, r)
            + left_other * (right_other + right_unmatched) / (right.distinct - matches).max(1.0);
        let from_right = both
            + right_unmatched * left_other / values(left.distinct, l)
            + right_other * (left_other + left_unmatched) / (left.distinct - matches).max(1.0);
        from_left.min(from_right).clamp(0.0, 1.0)
    }

    /// Returns the share of the left side's rows that have a match among `inner_rows` rows of the
    /// right side.
    pub(super) fn matched<'e>(
        &self,
        on: impl Iterator<Item = &'e Expr>,
        is_inner: &dyn Fn(usize) -> bool,
        inner_rows: f64,
    ) -> f64 {
        let mut share = 1.0;
        for condition in on {
            let part = match &condition.kind {
                ExprKind::Call { function, arguments }
                    if function.name == "=" && arguments.len() == 2 =>
                {
                    let mut first_inner = false;
                    reads_slots(&arguments[0], &mut |slot| first_inner |= is_inner(slot));
                    let (outer, inner) = if first_inner { (1, 0) } else { (0, 1) };
                    let (outer, inner) =
                        (self.side(&arguments[outer]), self.side(&arguments[inner]));
                    let distinct = inner.distinct.min(inner_rows).max(1.0);
                    let part = if outer.known && inner.known {
                        (distinct / outer.distinct.max(1.0)).min(1.0)
                    } else {
                        0.5
                    };
                    part * (1.0 - outer.null)
                }
                _ => (self.condition(condition) * inner_rows).min(1.0),
            };
            share *= part;
        }
        if inner_rows < 1.0 { share * inner_rows } else { share }
    }

    /// Returns the number of rows of a join of `outer` and `inner` rows.
    pub(super) fn joined(
        &self,
        kind: JoinType,
        outer: f64,
        inner: f64,
        on: &[&Expr],
        is_inner: &dyn Fn(usize) -> bool,
    ) -> f64 {
        let pairs = || outer * inner * self.all(on.iter().copied());
        let rows = match kind {
            JoinType::Inner => pairs(),
            JoinType::Left => pairs().max(outer),
            JoinType::Full => pairs().max(outer).max(inner),
            JoinType::Semi => outer * self.matched(on.iter().copied(), is_inner, inner),
            JoinType::Anti => outer * (1.0 - self.matched(on.iter().copied(), is_inner, inner)),
        };
        rows.max(1.0)
    }
}
