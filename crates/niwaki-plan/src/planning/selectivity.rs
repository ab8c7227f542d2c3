//! Selectivity: the share of a table's rows that a condition keeps, by ANALYZE's statistics.

use niwaki_catalog::{ColumnStats, FunctionVolatility, Relation};
use niwaki_expr::expr::{Expr, ExprKind, Fit, fit};
use niwaki_expr::function::Function;
use niwaki_expr::query::reads_only;
use niwaki_types::{Datum, KeyOrder, TypeOid, encode_key};

use super::derived::{boolean, pattern};
use crate::early_evaluation;

/// Default selectivity of an equality without statistics.
pub(super) const EQUAL: f64 = 0.005;
/// Default selectivity of an equality with a boolean column, which has two values.
const HALF: f64 = 0.5;
/// Default selectivity of an inequality without statistics.
const INEQUALITY: f64 = 1.0 / 3.0;
/// Default selectivity of a range with both bounds without statistics.
const RANGE: f64 = 0.005;
/// Assumed number of values in a list that is unknown at planning time.
pub(super) const LIST_VALUES: f64 = 10.0;

/// A bound of a range: the value, and whether the bound is inclusive.
pub(super) type BoundExpr<'e> = Option<&'e (Expr, bool)>;

/// The position of a value, known at planning time, among the values of a column.
enum Known {
    Key(Vec<u8>),
    Below,
    Above,
    Null,
    /// A value known only at execution.
    Later,
}

/// Estimates for one table. A `None` column stands for an expression, which has no statistics.
#[derive(Clone, Copy)]
pub(super) struct Estimator<'a> {
    pub(super) relation: &'a Relation,
    /// First slot of the table's columns.
    pub(super) start: usize,
    pub(super) rows: f64,
    /// Assumed value of `now()`, in microseconds since 2000.
    pub(super) now: i64,
}

impl<'a> Estimator<'a> {
    fn stats(&self, column: Option<usize>) -> Option<&'a ColumnStats> {
        self.relation.stats.columns.get(column?)
    }

    fn has(&self, slot: usize) -> bool {
        (self.start..self.start + self.relation.columns.len()).contains(&slot)
    }

    fn column_of(&self, expr: &Expr) -> Option<usize> {
        match expr.kind {
            ExprKind::Slot { depth: 0, slot } => {
                slot.checked_sub(self.start).filter(|c| *c < self.relation.columns.len())
            }
            _ => None,
        }
    }

    /// Returns the number of distinct values of the column, NULL included, if ANALYZE counted them.
    pub(super) fn distinct(&self, column: Option<usize>) -> Option<f64> {
        let stats = self.stats(column)?;
        let distinct =
            if stats.distinct < 0.0 { -stats.distinct * self.rows } else { stats.distinct };
        let null = if stats.null_fraction > 0.0 { 1.0 } else { 0.0 };
        Some((distinct + null).max(1.0))
    }

    /// Returns the correlation between the order of the column's values and the order of the rows
    /// on disk.
    pub(super) fn correlation(&self, column: Option<usize>) -> f64 {
        self.stats(column).and_then(|stats| stats.correlation).unwrap_or(0.0)
    }

    fn known(&self, column: Option<usize>, value: &Expr) -> Known {
        match &value.kind {
            ExprKind::Const(value) => self.known_value(column, value),
            _ => match guess(value, self.now) {
                Some(value) => self.known_value(column, &value),
                None => Known::Later,
            },
        }
    }

    fn known_value(&self, column: Option<usize>, value: &Datum) -> Known {
        let Some(column) = column else { return Known::Later };
        let oid = self.relation.columns[column].column_type().oid;
        match fit(value, oid) {
            Fit::Null => Known::Null,
            Fit::Below => Known::Below,
            Fit::Above => Known::Above,
            Fit::Value(value) => {
                let mut key = Vec::new();
                encode_key(&value, KeyOrder::ascending(oid), &mut key);
                Known::Key(key)
            }
        }
    }

    /// Returns the selectivity of `column = value`.
    pub(super) fn equal(&self, column: Option<usize>, value: &Expr) -> f64 {
        self.equal_known(column, &self.known(column, value))
    }

    fn equal_known(&self, column: Option<usize>, value: &Known) -> f64 {
        if matches!(value, Known::Null | Known::Below | Known::Above) {
            return 0.0;
        }
        let Some(stats) = self.stats(column) else {
            let kind = column.map(|column| self.relation.columns[column].column_type().oid);
            return if kind == Some(TypeOid::BOOL) { HALF } else { EQUAL };
        };
        let present = 1.0 - stats.null_fraction;
        let distinct =
            if stats.distinct < 0.0 { -stats.distinct * self.rows } else { stats.distinct };
        let Known::Key(key) = value else { return present / distinct.max(1.0) };
        if let Some((_, share)) = stats.common.iter().find(|(common, _)| common.0 == *key) {
            return *share;
        }
        let common: f64 = stats.common.iter().map(|(_, share)| share).sum();
        let others = (distinct - stats.common.len() as f64).max(1.0);
        let least = stats.common.last().map_or(1.0, |(_, share)| *share);
        ((present - common).max(0.0) / others).min(least)
    }

    /// Returns the selectivity of `column = ANY (array)`, and the number of values in the list.
    pub(super) fn any(&self, column: Option<usize>, array: &Expr) -> (f64, f64) {
        let (share, values) = match &array.kind {
            ExprKind::Array(values) => {
                (values.iter().map(|v| self.equal(column, v)).sum(), values.len() as f64)
            }
            ExprKind::Const(Datum::Array(_, values)) => {
                let shares =
                    values.iter().map(|v| self.equal_known(column, &self.known_value(column, v)));
                (shares.sum(), values.len() as f64)
            }
            ExprKind::Const(_) => (0.0, 0.0),
            _ => (LIST_VALUES * self.equal_known(column, &Known::Later), LIST_VALUES),
        };
        (f64::min(share, 1.0), values)
    }

    /// Returns the selectivity of `column IS [NOT] NULL`.
    pub(super) fn null(&self, column: Option<usize>, negated: bool) -> f64 {
        let null = self.stats(column).map_or(EQUAL, |stats| stats.null_fraction);
        if negated { 1.0 - null } else { null }
    }

    /// Returns the selectivity of a range of the column's values. Without bounds, the range is all
    /// values but NULL.
    pub(super) fn range(
        &self,
        column: Option<usize>,
        lower: BoundExpr<'_>,
        upper: BoundExpr<'_>,
    ) -> f64 {
        if lower.is_none() && upper.is_none() {
            return self.null(column, true);
        }
        let below = |bound: BoundExpr<'_>| bound.map(|b| self.share_below(column, &b.0));
        match (below(lower), below(upper)) {
            (Some(Some(low)), Some(Some(high))) => {
                let present = self.stats(column).map_or(0.0, |s| 1.0 - s.null_fraction);
                let smallest = present / self.distinct(column).unwrap_or(1.0);
                (high - low).max(smallest.min(EQUAL))
            }
            (Some(Some(low)), None) => {
                let present = self.stats(column).map_or(1.0, |s| 1.0 - s.null_fraction);
                (present - low).max(0.0)
            }
            (None, Some(Some(high))) => high,
            (Some(_), Some(_)) => RANGE,
            _ => INEQUALITY,
        }
    }

    /// Returns the share of the rows whose value is below `value`.
    fn share_below(&self, column: Option<usize>, value: &Expr) -> Option<f64> {
        let stats = self.stats(column)?;
        let present = 1.0 - stats.null_fraction;
        let key = match self.known(column, value) {
            Known::Key(key) => key,
            Known::Below => return Some(0.0),
            Known::Above => return Some(present),
            Known::Null | Known::Later => return None,
        };
        let common: f64 = stats.common.iter().map(|(_, share)| share).sum();
        let common_below: f64 =
            stats.common.iter().filter(|(k, _)| k.0 < key).map(|(_, share)| share).sum();
        let others = (present - common).max(0.0);
        let bounds = &stats.bounds;
        let at = bounds.partition_point(|bound| bound.0 < key);
        let part = match at {
            _ if bounds.len() < 2 => 0.5,
            0 => 0.0,
            at if at == bounds.len() => 1.0,
            at => {
                let inside = between(&bounds[at - 1].0, &bounds[at].0, &key);
                ((at - 1) as f64 + inside) / (bounds.len() - 1) as f64
            }
        };
        Some((common_below + others * part).clamp(0.0, 1.0))
    }

    /// Returns the selectivity of any condition.
    pub(super) fn condition(&self, condition: &Expr) -> f64 {
        if let Some(same) = boolean(condition)
            && reads_only(&same, &mut |slot| self.has(slot))
        {
            return self.condition(&same);
        }
        match &condition.kind {
            ExprKind::Call { function, arguments } => {
                let [left, right] = arguments.as_slice() else { return 0.5 };
                let (column, value, flip) = match (self.column_of(left), self.column_of(right)) {
                    (Some(column), _) => (Some(column), right, false),
                    (None, Some(column)) => (Some(column), left, true),
                    (None, None) => (None, right, false),
                };
                let equal = || self.equal(column, value);
                let inequality = |upper: bool| {
                    let bound = (value.clone(), true);
                    if upper != flip {
                        self.range(column, None, Some(&bound))
                    } else {
                        self.range(column, Some(&bound), None)
                    }
                };
                match function.name {
                    "=" => equal(),
                    "<>" => (1.0 - equal()).max(0.0),
                    "<" | "<=" => inequality(true),
                    ">" | ">=" => inequality(false),
                    _ => match pattern(condition).as_slice() {
                        [] => 0.1,
                        bounds => self.all(bounds.iter()),
                    },
                }
            }
            ExprKind::ArrayCompare { function, any: true, left, right, .. }
                if function.name == "=" =>
            {
                self.any(self.column_of(left), right).0
            }
            ExprKind::ArrayCompare { .. } => 0.02,
            ExprKind::IsNull { argument, negated } => self.null(self.column_of(argument), *negated),
            ExprKind::Or(parts) => parts.iter().fold(0.0, |share, part| {
                let part = self.condition(part);
                share + part - share * part
            }),
            ExprKind::And(parts) => self.all(parts.iter()),
            ExprKind::Not(part) => 1.0 - self.condition(part),
            _ => 0.5,
        }
    }

    /// Returns the selectivity of a conjunction. Two bounds of one column count as one range.
    pub(super) fn all<'e>(&self, conditions: impl Iterator<Item = &'e Expr>) -> f64 {
        let mut share = 1.0;
        let mut ranges: Vec<(usize, BoundOwned, BoundOwned)> = Vec::new();
        for condition in conditions {
            let Some((column, upper, value)) = self.inequality(condition) else {
                share *= self.condition(condition);
                continue;
            };
            let at = if let Some(at) = ranges.iter().position(|(c, ..)| *c == column) {
                at
            } else {
                ranges.push((column, None, None));
                ranges.len() - 1
            };
            let (_, low, high) = &mut ranges[at];
            let side = if upper { high } else { low };
            if side.is_none() {
                *side = Some((value.clone(), true));
            }
        }
        for (column, lower, upper) in &ranges {
            share *= self.range(Some(*column), lower.as_ref(), upper.as_ref());
        }
        share
    }

    /// Splits a comparison of a column with another operand: the column, whether the operand is an
    /// upper bound, and the operand.
    fn inequality<'e>(&self, condition: &'e Expr) -> Option<(usize, bool, &'e Expr)> {
        let ExprKind::Call { function, arguments } = &condition.kind else { return None };
        let upper = match function.name {
            "<" | "<=" => true,
            ">" | ">=" => false,
            _ => return None,
        };
        let [left, right] = arguments.as_slice() else { return None };
        match (self.column_of(left), self.column_of(right)) {
            (Some(column), None) => Some((column, upper, right)),
            (None, Some(column)) => Some((column, !upper, left)),
            _ => None,
        }
    }
}

/// Evaluates an expression that reads no row and is stable during a statement. An example is
/// `now() - interval '1 hour'`. When the plan is executed, the value will be nearly the same.
fn guess(expr: &Expr, now: i64) -> Option<Datum> {
    let settled = |function: &Function| function.volatility != FunctionVolatility::Volatile;
    let is_settled = !expr.any(&mut |part| match &part.kind {
        ExprKind::Const(_) | ExprKind::Cast { .. } => false,
        ExprKind::Call { function, .. } => !settled(function),
        _ => true,
    });
    if !is_settled {
        return None;
    }
    early_evaluation::value(expr, now)
}

type BoundOwned = Option<(Expr, bool)>;

/// Returns the relative position, 0 to 1, of `key` between `low` and `high`. The first 8 bytes
/// after the common prefix are compared as numbers.
fn between(low: &[u8], high: &[u8], key: &[u8]) -> f64 {
    let same = low.iter().zip(high).take_while(|(a, b)| a == b).count();
    let number = |bytes: &[u8]| {
        let mut window = [0; 8];
        for (place, byte) in window.iter_mut().zip(bytes.iter().skip(same)) {
            *place = *byte;
        }
        u64::from_be_bytes(window) as f64
    };
    let (low, high, key) = (number(low), number(high), number(key));
    if high > low { ((key - low) / (high - low)).clamp(0.0, 1.0) } else { 0.5 }
}

#[cfg(test)]
mod tests {
    use super::between;

    #[test]
    fn interpolates_over_the_differing_bytes() {
        let key = |n: u32| [&[0x20][..], &n.to_be_bytes()].concat();
        assert!((between(&key(100), &key(200), &key(150)) - 0.5).abs() < 0.01);
        assert!(between(&key(100), &key(200), &key(100)) < 0.01);
        assert!((between(b"same", b"same", b"same") - 0.5).abs() < 1e-9);
    }
}
